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
    // A rate of no access was printed as zero.
    for engines in ["vllm", "paper,vllm"] {
        let [tables, _] = printed(&trace, &["--engine", engines]);
        assert!(!tables.contains("0.00 %"), "{tables}");
    }

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

/// Texts of one length were taken for whole ones, and where nothing was reused the headline held nothing against it.
#[test]
#[cfg(feature = "tokenize")]
fn texts_cut_at_one_length_stand_in_the_headline() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("chats.jsonl");
    let chat = |number: usize, length: usize| {
        let text: String = (0..length).map(|at| format!("{} ", number * 7919 + at * at)).collect();
        let text: String = text.chars().take(length).collect();
        let said = |role: &str, content: &str| serde_json::json!({"role": role, "content": content});
        let messages = [said("user", &text), said("assistant", "yes"), said("user", "go on")];
        serde_json::json!({"timestamp": number, "messages": messages}).to_string()
    };
    let replayed = |longest: usize| {
        let chats = (0..40).map(|number| chat(number, (300 + number * 60).min(longest)) + "\n");
        std::fs::write(&trace, chats.collect::<String>()).expect("a disk");
        printed(&trace, &["--model", "tests/fixtures/tokenize/chatml", "--page-size", "16"])
    };
    let [tables, notes] = replayed(1500);
    assert!(notes.contains("20 of 120 texts have 1500 characters, and none has more"), "{notes}");
    assert!(
        tables.contains("nothing to reuse") && tables.contains("20 of 120 texts are masked or cut off"),
        "{tables}"
    );
    let [tables, notes] = replayed(10_000);
    assert!(!notes.contains("none has more") && !tables.contains("of what was read"), "{tables}{notes}");
}

/// A result that was written over the log, with exit code 0.
#[test]
fn no_output_is_written_over_the_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    generate(&trace);
    let link = directory.path().join("link.jsonl");
    std::os::unix::fs::symlink(&trace, &link).expect("a link");
    let before = std::fs::read(&trace).expect("the log");
    for output in [&trace, &link] {
        for option in ["--per-request", "--report", "--plot", "--traffic-log"] {
            let mut command = Command::cargo_bin("kvset").expect("the program");
            command.arg("replay").arg(option).arg(output).args(["--traffic", "2"]).arg(&trace);
            let errors = command.assert().code(2).get_output().stderr.clone();
            let errors = String::from_utf8_lossy(&errors).into_owned();
            assert!(errors.contains(option) && errors.contains("would write over what is read"), "{errors}");
            assert!(std::fs::read(&trace).expect("the log") == before, "{option}: the log is as it was");
        }
    }
}

/// Times to live of a log without times were told: "0 ms" keeps all.
#[test]
fn times_to_live_without_times_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    std::fs::write(&trace, "[1,2,3,4]\n[1,2,3,4,5]\n").expect("a disk");
    let mut command = Command::cargo_bin("kvset").expect("the program");
    command.args(["replay", "--page-size", "1", "--ttl", "1m"]).arg(&trace);
    let errors = command.assert().code(2).get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&errors).contains("no row says when its request came"));
}
