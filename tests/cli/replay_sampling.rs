//! `kvset replay --sample-rate`: what a sampled result says of its own error.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;

/// Standard output and standard error of a replay.
fn replay(trace: &Path, args: &[&str]) -> (String, String) {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    let output = command.arg("replay").args(args).arg(trace).assert().success().get_output().clone();
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn a_sampled_result_states_the_error_of_each_capacity() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    let mut generate = Command::cargo_bin("kvset").expect("the program");
    generate.args(["generate", "--requests", "400", "--output"]).arg(&trace).assert().success();

    let (exact, said) = replay(&trace, &[]);
    assert!(!exact.contains("std. error") && !said.contains("sample"), "{exact}{said}");
    let (table, said) = replay(&trace, &["--sample-rate", "0.2"]);
    assert!(table.contains("std. error") && !said.contains("sample"), "{table}{said}");

    let json: Value =
        serde_json::from_str(&replay(&trace, &["--sample-rate", "0.2", "--json"]).0).expect("JSON");
    let largest = json["trace"]["sample_error"].as_f64().expect("a number");
    for entry in json["required"][0]["coverage"].as_array().expect("a list") {
        let (pages, error) = (entry["pages"].as_f64(), entry["sample_error"].as_f64());
        let (pages, error) = (pages.expect("found"), error.expect("a number"));
        assert!((error - (0.8 / (0.2 * pages)).sqrt()).abs() < 1e-9 && error <= largest, "{entry}");
    }

    let (_, said) = replay(&trace, &["--sample-rate", "0.001"]);
    assert!(said.contains("come out too small"), "{said}");
}
