//! `kvset doctor`: a finding on each subject, and an exit code that says whether a replay gives an answer.

use crate::support::program::kvset;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is looked at, in its order.
const SUBJECTS: [&str; 18] = [
    "rows",
    "format",
    "models",
    "ids",
    "page_size",
    "prompt_tokens",
    "cached_tokens",
    "times",
    "durations",
    "order",
    "gaps",
    "duplicates",
    "replicas",
    "sessions",
    "tenants",
    "scopes",
    "outputs",
    "fields",
];

struct Examined {
    status: i32,
    json: Value,
    errors: String,
}

impl Examined {
    fn finding(&self, subject: &str) -> &Value {
        let findings = self.json["findings"].as_array().expect("findings");
        findings.iter().find(|finding| finding["subject"] == subject).expect("a finding on each subject")
    }

    fn verdict(&self, subject: &str) -> &str {
        self.finding(subject)["verdict"].as_str().expect("a verdict")
    }

    fn number(&self, subject: &str, name: &str) -> u64 {
        self.finding(subject)["numbers"][name].as_u64().unwrap_or_else(|| panic!("no {name} of {subject}"))
    }
}

fn examine(args: &[&str], log: &Path) -> Examined {
    let output = kvset(&["doctor", "--json"]).args(args).arg(log).output().expect("the program");
    examined(&output)
}

fn examined(output: &std::process::Output) -> Examined {
    let errors = String::from_utf8(output.stderr.clone()).expect("UTF-8");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {errors}"));
    let subjects: Vec<_> =
        json["findings"].as_array().expect("findings").iter().map(|f| &f["subject"]).collect();
    assert_eq!(subjects, SUBJECTS, "the shape stays");
    for finding in json["findings"].as_array().expect("findings") {
        let is_told = |name: &str| finding[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_told("evidence") && is_told("meaning"), "{finding}");
        assert!(finding["verdict"] == "yes" || is_told("cure") || json["requests"] == 0, "a cure: {finding}");
    }
    let status = output.status.code().expect("no signal");
    assert_eq!(json["answer"] == true, status == 0, "{errors}");
    assert_eq!(json["why_not"].is_null(), status == 0, "{errors}");
    Examined { status, json, errors }
}

fn written(rows: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log.jsonl");
    std::fs::write(&path, rows).expect("a disk");
    (directory, path)
}

/// Events of a day: each of 40 sessions says everything that a log can say.
fn events() -> String {
    (0..200_u64)
        .map(|at| {
            let (session, turn) = (at % 40, at / 40);
            let ids: Vec<u64> = (0..=turn).map(|page| (session + 1) * 10_000_000_000_000 + page).collect();
            let cached = turn * 16;
            let row = serde_json::json!({
                "event_time": 1_700_000_000_000_u64 + at * 1_000, "page_size": 16, "page_ids": ids,
                "output_page_ids": [(session + 1) * 10_000_000_000_000 + turn + 1], "ids_chained": true,
                "input_tokens": (turn + 1) * 16, "output_tokens": 17, "duration_ms": 1_500, "pool": "llama",
                "cached_tokens": cached, "replica": "one", "tenant": "acme", "scope": "salt",
                "request_id": format!("r{at}"),
            });
            row.to_string() + "\n"
        })
        .collect()
}

#[test]
fn a_log_that_says_all_is_told_so() {
    let (_directory, log) = written(&events());
    let found = examine(&[], &log);
    assert_eq!((found.status, found.json["requests"].as_u64()), (0, Some(200)), "{}", found.errors);
    for subject in SUBJECTS.iter().filter(|subject| **subject != "sessions") {
        assert_eq!(found.verdict(subject), "yes", "{}", found.finding(subject));
    }
    assert_eq!(found.number("durations", "overlapping"), 199);
    assert_eq!(found.number("ids", "chained_requests"), 200);
    assert_eq!(found.number("ids", "prefix_hits"), 40 * (1 + 2 + 3 + 4));
    assert_eq!(found.number("page_size", "tokens"), 16);
    assert_eq!(found.number("cached_tokens", "zero"), 40);
    assert_eq!(found.number("duplicates", "requests_with_id"), 200);
    let text = kvset(&["doctor"]).arg(&log).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.starts_with("A replay of this log gives an answer, of 200 requests."), "{text}");
    assert!(text.contains("\nyes     cached tokens  200 of 200 requests state them"), "{text}");
}

#[test]
fn what_a_log_lacks_is_named_with_its_cure() {
    let rows: String = (0..30_u64)
        .map(|at| format!("{{\"timestamp\":{},\"input_length\":1024,\"hash_ids\":[1,{at}]}}\n", at * 1_000))
        .collect();
    let (_directory, log) = written(&rows);
    let found = examine(&[], &log);
    assert_eq!(found.status, 0, "{}", found.errors);
    for subject in ["cached_tokens", "durations", "replicas", "sessions", "tenants", "scopes", "outputs"] {
        assert_eq!(found.verdict(subject), "no", "{}", found.finding(subject));
    }
    for subject in ["models", "page_size"] {
        assert_eq!(found.verdict(subject), "partly", "{}", found.finding(subject));
    }
    let cure = found.finding("cached_tokens")["cure"].as_str().expect("a cure").to_owned();
    assert!(
        cure.contains("--enable-prompt-tokens-details") && cure.contains("--enable-cache-report"),
        "{cure}"
    );
}

#[test]
fn copies_streams_gaps_and_disorder_are_counted() {
    let row = |id: &str, time: u64, page: u64, output: u64| {
        format!(
            "{{\"timestamp\":{time},\"request_id\":\"{id}\",\"input_length\":512,\"output_length\":{output},\"duration_ms\":10,\"hash_ids\":[{page}]}}\n"
        )
    };
    let mut rows: Vec<String> = (0..100).map(|at| row(&format!("r{at}"), at * 1_000, at, 5)).collect();
    rows.push(row("r99", 99_000, 99, 5));
    rows.push(row("r99", 99_000, 99, 9));
    rows.push(row("late", 40_000, 500, 5));
    rows.push(row("after", 40_000_000, 501, 5));
    let (_directory, log) = written(&rows.concat());
    let found = examine(&[], &log);
    assert_eq!(found.status, 0, "{}", found.errors);
    assert_eq!(found.number("duplicates", "repeated_ids"), 2);
    assert_eq!(found.number("duplicates", "identical_rows"), 1);
    assert_eq!(found.number("duplicates", "growing_outputs"), 1);
    assert_eq!(found.number("order", "backwards"), 1);
    assert_eq!(found.number("order", "farthest_ms"), 59_000);
    assert_eq!(found.number("order", "unexplained_ms"), 59_000);
    assert_eq!(found.number("gaps", "conspicuous"), 1);
    assert_eq!(found.number("gaps", "longest_ms"), 40_000_000 - 99_000);
    for subject in ["duplicates", "order", "gaps"] {
        assert_eq!(found.verdict(subject), "partly", "{}", found.finding(subject));
    }
    // Without ids, rows that are alike are copies.
    let unnamed = rows.concat().replace("\"request_id\"", "\"other\"");
    let (_directory, log) = written(&unnamed);
    let found = examine(&[], &log);
    assert_eq!(
        (found.number("duplicates", "identical_rows"), found.number("duplicates", "requests_with_id")),
        (1, 0)
    );
}

#[test]
fn bad_rows_are_counted_by_reason_and_decide_the_exit_code() {
    let good = "{\"timestamp\":1,\"hash_ids\":[1]}\n";
    let bad = "{\"timestamp\":2}\n{\"timestamp\":3}\n{\"timestamp\":4,\"input_length\":5000,\"hash_ids\":[1]}\n{\"timest\n";
    let (_directory, log) = written(&(good.repeat(3) + bad));
    let found = examine(&[], &log);
    assert_eq!((found.status, found.verdict("rows")), (1, "partly"));
    assert_eq!((found.number("rows", "rows"), found.number("rows", "bad_rows")), (7, 4));
    let evidence = found.finding("rows")["evidence"].as_str().expect("evidence");
    assert!(evidence.contains("2 × field `hash_ids` is missing"), "{evidence}");
    assert!(evidence.contains("1 × N page ids do not fit N prompt tokens"), "{evidence}");
    assert!(found.errors.contains("--skip-bad-rows"), "{}", found.errors);
    assert_eq!(examine(&["--skip-bad-rows"], &log).status, 0);
}

#[test]
fn an_id_in_each_request_of_its_own_is_no_sharing() {
    let rows: String = (0..50_u64)
        .map(|at| format!("{{\"timestamp\":{at},\"hash_ids\":[{},{}]}}\n", at * 2 + 1_000, at * 2 + 1_001))
        .collect();
    let (_directory, log) = written(&rows);
    let found = examine(&[], &log);
    assert_eq!((found.verdict("ids"), found.number("ids", "prefix_hits")), ("no", 0));
}

#[test]
fn cached_tokens_that_cannot_be_true_are_not_believed() {
    let row = |at: u64, cached: u64| {
        format!(
            "{{\"timestamp\":{at},\"input_length\":2048,\"cached_tokens\":{cached},\"hash_ids\":[{at},{},{},{}]}}\n",
            at + 1_000,
            at + 2_000,
            at + 3_000
        )
    };
    let beyond: String = (0..40).map(|at| row(at, 1024)).collect();
    let (_directory, log) = written(&beyond);
    let found = examine(&[], &log);
    assert_eq!(found.verdict("cached_tokens"), "partly", "{}", found.finding("cached_tokens"));
    assert_eq!(found.number("cached_tokens", "pages_beyond_log"), 80);
    let off: String = (0..40).map(|at| row(at % 4, 0).replace("\"timestamp\":", "\"timestamp\":1")).collect();
    let (_directory, log) = written(&off);
    let finding = examine(&[], &log).finding("cached_tokens").clone();
    assert!(finding["evidence"].as_str().is_some_and(|text| text.contains("all are zero")), "{finding}");
}

#[test]
fn hostile_logs_have_no_answer_and_a_finding_on_each_subject() {
    let huge = "[".repeat(1 << 20) + "\n";
    let logs = [
        ("an empty file", String::new()),
        ("an empty line", "\n".to_owned()),
        ("binary", "\u{0}\u{1}\u{2}\u{7f}ELF\u{0}".repeat(100)),
        ("JSON that breaks off", "{\"timestamp\":1,\"hash_ids\":[1,2".to_owned()),
        ("rows without ids", "{\"timestamp\":1,\"prompt_tokens\":5}\n".repeat(3)),
        ("a huge line", huge),
        ("a number", "42\n".to_owned()),
        ("text", "hello, hunter2\n".to_owned()),
        (
            "prompts without a tokenizer",
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hunter2\"}]}\n".to_owned(),
        ),
    ];
    for (what, rows) in logs {
        let (_directory, log) = written(&rows);
        let found = examine(&[], &log);
        assert_eq!((found.status, found.verdict("rows")), (1, "no"), "{what}: {}", found.errors);
        assert!(!found.json.to_string().contains("hunter2"), "{what}");
    }
    let missing = kvset(&["doctor", "./no-such-file.jsonl"]).assert().code(1).get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&missing).contains("cannot open trace"));
}

#[test]
fn ids_of_two_schemes_are_told_and_refused_alike() {
    let row = |at: u64, scheme: &str| {
        let row = serde_json::json!({
            "event_time": 1_700_000_000_000_u64 + at, "page_size": 16, "page_ids": [1, 2], "id_scheme": scheme
        });
        row.to_string() + "\n"
    };
    let flat = |at: u64, scheme: &str| {
        format!("{{\"timestamp\":{at},\"hash_ids\":[1],\"id_scheme\":\"{scheme}\"}}\n")
    };
    for rows in [
        row(0, "vllm:sha256_cbor:16") + &row(1, "vllm:sha256_cbor:16") + &row(2, "kvset:xxh3:16"),
        flat(0, "vllm:sha256_cbor:16") + &flat(1, "vllm:sha256_cbor:16") + &flat(2, "kvset:xxh3:16"),
    ] {
        let (_directory, log) = written(&rows);
        let found = examine(&[], &log);
        assert_eq!((found.status, found.verdict("ids"), found.number("ids", "schemes")), (1, "partly", 2));
        for threads in ["1", "4"] {
            let refused = kvset(&["replay", "--threads", threads])
                .arg(&log)
                .assert()
                .code(1)
                .get_output()
                .stderr
                .clone();
            let refused = String::from_utf8(refused).expect("UTF-8");
            assert!(
                refused.contains("of scheme kvset:xxh3:16, its pool's of vllm:sha256_cbor:16"),
                "{refused}"
            );
            assert!(refused.contains("line 3") && refused.contains("a pool of its own"), "{refused}");
        }
        assert_eq!(examine(&["--skip-bad-rows"], &log).json["requests"], 2);
    }
    // What is hashed here has a scheme of its own, which is not that of an engine.
    let tokens = "{\"timestamp\":5,\"token_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}\n";
    let (directory, log) = written(&(tokens.to_owned() + tokens));
    assert_eq!(examine(&["--page-size", "16"], &log).number("ids", "schemes"), 1);
    let events = directory.path().join("events.jsonl");
    std::fs::write(&events, row(0, "vllm:sha256_cbor:16")).expect("a disk");
    let refused = kvset(&["replay", "--page-size", "16"])
        .args([&events, &log])
        .assert()
        .code(1)
        .get_output()
        .stderr
        .clone();
    assert!(String::from_utf8_lossy(&refused).contains("ids of two schemes never match"));
}

/// A stream is read once: rows out of order were lost with the first part of it.
#[test]
fn a_stream_out_of_order_is_read_as_its_file_is() {
    let rows: String = [0_u64, 1_000, 500, 3_000, 2_000, 4_000]
        .iter()
        .enumerate()
        .map(|(at, time)| format!("{{\"timestamp\":{time},\"input_length\":1024,\"hash_ids\":[1,{at}]}}\n"))
        .collect();
    let (_directory, log) = written(&rows);
    let streamed = kvset(&["doctor", "--json", "-"]).write_stdin(rows.clone()).output().expect("the program");
    let (streamed, file) = (examined(&streamed), examine(&[], &log));
    assert_eq!((streamed.json["requests"].as_u64(), streamed.status), (Some(6), 0));
    assert_eq!(streamed.finding("order")["numbers"], file.finding("order")["numbers"]);
    let replayed = |command: &mut assert_cmd::Command| command.assert().success().get_output().stdout.clone();
    let piped = replayed(kvset(&["replay", "--json", "--certainty", "off", "-"]).write_stdin(rows));
    assert_eq!(piped, replayed(kvset(&["replay", "--json", "--certainty", "off"]).arg(&log)));
}
