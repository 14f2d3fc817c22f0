//! SGLang's request log as its own logger writes it (`scripts/engines/sglang_log.py`).

use crate::support::program::kvset;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn log() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs/sglang-requests.log")
}

fn json(command: &str, args: &[&str]) -> Value {
    let output =
        kvset(&[command, "--json", "--page-size", "16"]).args(args).arg(log()).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn what_the_log_of_sglang_says_is_read() {
    let found = json("doctor", &["--engine", "sglang"]);
    let finding = |subject: &str| {
        let findings = found["findings"].as_array().expect("findings");
        findings.iter().find(|finding| finding["subject"] == subject).expect("each subject").clone()
    };
    for subject in
        ["rows", "format", "ids", "prompt_tokens", "times", "durations", "replicas", "sessions", "outputs"]
    {
        assert_eq!(finding(subject)["verdict"], "yes", "{}", finding(subject));
    }
    assert_eq!(finding("rows")["numbers"]["passed_over"], 4, "each request is logged when it comes, too");
    assert_eq!(
        (&finding("replicas")["numbers"]["different"], &finding("sessions")["numbers"]["different"]),
        (&2.into(), &2.into())
    );
    assert_eq!(finding("cached_tokens")["numbers"]["cached_tokens"], 128);
    let evidence = finding("times")["evidence"].as_str().expect("words").to_owned();
    assert!(
        evidence.contains("2025-11-26 10:00:00 UTC") && !evidence.contains("zone"),
        "moments, not dates: {evidence}"
    );
}

/// The second turn of each conversation finds the prompt and the answer of the first, on its own rank.
#[test]
fn hits_of_each_rank_are_those_that_sglang_states() {
    let result = json("replay", &["--engine", "vllm", "--provisioned", "1000p"]);
    let measured = &result["measured"];
    assert_eq!((&measured["requests"], &measured["replicas"]), (&4.into(), &2.into()), "{measured}");
    assert_eq!(measured["ledger"]["measured_pages"], 8, "{measured}");
    assert_eq!(measured["ledger"]["routed_pages"], 8, "{measured}");
    assert_eq!(measured["requests_beyond_log"], 0, "{measured}");
}
