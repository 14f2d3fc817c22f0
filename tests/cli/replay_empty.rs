//! `kvset replay` of a trace of which nothing counts: its result of zeros is no result, and it says so.

use assert_cmd::Command;
use std::path::Path;

/// Standard output and standard error of a replay.
fn printed(trace: &Path, args: &[&str]) -> [String; 2] {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    let output = command.arg("replay").args(args).arg(trace).assert().success().get_output().clone();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
}

/// Standard error of a replay.
fn said(trace: &Path, args: &[&str]) -> String {
    let [_, errors] = printed(trace, args);
    errors
}

/// Writes a trace of 40 requests.
fn generate(trace: &Path) {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    command.args(["generate", "--requests", "40", "--output"]).arg(trace).assert().success();
}

#[test]
fn a_result_of_zeros_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    std::fs::write(&trace, "").expect("a disk");
    assert!(said(&trace, &[]).contains("no request was read"));

    generate(&trace);
    let warnings = |warm_up| said(&trace, &["--warm-up", warm_up]);
    assert!(warnings("40").contains("all 40 requests only filled the cache"));
    assert!(warnings("41").contains("choose a shorter --warm-up"));
    assert!(!warnings("39").contains("warning: "));
    assert!(said(&trace, &["--warm-up", "40", "--engine", "paper,vllm"]).contains("all 40 requests"));
}

/// There was a title with a table of no row.
#[test]
fn a_table_of_no_row_is_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    generate(&trace);
    let has_curve = |warm_up| {
        let [tables, _] = printed(&trace, &["--warm-up", warm_up, "--capacities", "5p"]);
        assert!(tables.contains("warm-up requests"));
        tables.contains("Hit rate by capacity")
    };
    assert!(has_curve("39"));
    assert!(!has_curve("40"));
}
