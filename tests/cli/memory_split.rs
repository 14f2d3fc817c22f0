//! `kvset replay --plan`: one memory for several models.

use crate::support::program::kvset;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Two models: `small` goes round 4 prompts of a page, `large` round 8.
fn write(trace: &Path) {
    let mut text = String::new();
    for request in 0..64_u64 {
        let (model, prompt) =
            if request % 2 == 0 { ("small", request / 2 % 4) } else { ("large", 100 + request / 2 % 8) };
        let row = json!({"timestamp": request * 1000, "model": model, "token_ids": [prompt, prompt, prompt]});
        writeln!(text, "{row}").expect("memory");
    }
    std::fs::write(trace, text).expect("a disk");
}

fn replay(trace: &Path, args: &[&str]) -> Value {
    let run = kvset(&["replay", "--page-size", "1", "--target-ratio", "1.0", "--json"])
        .args(args)
        .arg(trace)
        .assert()
        .success()
        .get_output()
        .clone();
    serde_json::from_slice(&run.stdout).expect("JSON")
}

#[test]
fn one_memory_is_split_by_what_models_require() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    write(&trace);
    // Prompts of three pages: 12 pages hold those of `small`, 24 those of `large`, each at 2 bytes.
    let result = replay(&trace, &["--plan", "80B", "--pool-cost", "large=2", "--kv-bytes-per-token", "2"]);
    let split = &result["memory_split"];
    let parts: Vec<_> = split["pools"].as_array().expect("pools").iter().map(|part| &part["bytes"]).collect();
    assert_eq!(parts, [&json!(24), &json!(48)]);
    assert_eq!(split["left_bytes"], 8);
    assert!(split["pools"].as_array().expect("pools").iter().all(|part| part["coverage"] == 1.0));
    // The answer of a model is at its own bytes.
    let sizes = result["pools"].as_array().expect("pools").iter().map(|pool| &pool["trace"]["page_bytes"]);
    assert_eq!(sizes.collect::<Vec<_>>(), [&json!(2), &json!(2)]);
    let args = ["--plan", "90B", "--pool-cost", "large=3", "--kv-bytes-per-token", "2"];
    let apart = replay(&trace, &args);
    let sizes = apart["pools"].as_array().expect("pools").iter().map(|pool| &pool["trace"]["page_bytes"]);
    assert_eq!(sizes.collect::<Vec<_>>(), [&json!(2), &json!(3)]);
    // Too little for all of `large`: its first, cold requests require nothing.
    let result = replay(&trace, &["--plan", "71B", "--kv-bytes-per-token", "2"]);
    assert_eq!(result["memory_split"]["pools"][0]["coverage"], 1.0);
    assert_eq!(result["memory_split"]["pools"][1]["coverage"], 0.25);
}

#[test]
fn a_split_of_nothing_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    write(&trace);
    for (args, reason) in [
        (&["--plan", "80B"][..], "--pool-cost small=X or --kv-bytes-per-token"),
        (&["--plan", "80B", "--pool-cost", "huge=2"][..], "the trace names no such model"),
        (&["--plan", "80p"][..], "expected a size in bytes"),
        (&["--pool-cost", "small=2"][..], "--plan"),
        (
            &["--plan", "80B", "--kv-bytes-per-token", "2", "--id-scope", "global"][..],
            "splits one memory among the models",
        ),
        (
            &["--plan", "80B", "--kv-bytes-per-token", "2", "--engine", "sglang"][..],
            "an engine with one curve",
        ),
    ] {
        let run = kvset(&["replay", "--page-size", "1"]).args(args).arg(&trace).assert().code(2);
        let said = String::from_utf8(run.get_output().stderr.clone()).expect("UTF-8");
        assert!(said.contains(reason), "{args:?}: {said}");
    }
}

/// With a router each part is shared by its replicas: one fewer and one more are what `kvset tune` finds of the model
/// alone.
#[test]
fn parts_say_what_one_replica_fewer_and_one_more_bring() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    write(&trace);
    let common = [
        "--kv-bytes-per-token",
        "2",
        "--router",
        "round-robin:2",
        "--prefill-rate",
        "100",
        "--gpu-price",
        "3600",
    ];
    let result = replay(&trace, &[&common[..], &["--plan", "80B"]].concat());
    let all = result["replicas"].as_array().expect("replicas");
    assert_eq!(all.len(), 2);
    for (found, (pool, part)) in all.iter().zip([("small", "12p"), ("large", "24p")]) {
        assert_eq!((&found["pool"], &found["router"]), (&json!(pool), &json!("round-robin:2")));
        let tuned = kvset(&["tune", "--page-size", "1", "--target-ratio", "1.0", "--json", "--pool", pool])
            .args(["--provisioned", part])
            .args(common)
            .arg(&trace)
            .assert()
            .success()
            .get_output()
            .clone();
        let tuned: Value = serde_json::from_slice(&tuned.stdout).expect("JSON");
        assert_eq!(found["replicas"], tuned["replicas"]);
        let counts: Vec<_> =
            found["replicas"].as_array().expect("rows").iter().map(|row| &row["replicas"]).collect();
        assert_eq!(counts, [&json!(1), &json!(2), &json!(3)]);
        assert!(found["replicas"][0]["money_a_day"].as_f64() > Some(0.0));
    }
    let run =
        kvset(&["replay", "--page-size", "1", "--plan", "80B"]).args(common).arg(&trace).assert().success();
    let text = String::from_utf8(run.get_output().stdout.clone()).expect("UTF-8");
    assert!(text.contains("small behind round-robin:2"), "{text}");
    kvset(&["replay", "--page-size", "1", "--plan", "80B", "-"])
        .args(common)
        .write_stdin(std::fs::read(&trace).expect("rows"))
        .assert()
        .code(2);
}
