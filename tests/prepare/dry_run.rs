//! `kvset prepare --dry-run`: a log that nobody has described yet, and the settings that it asks for.

use assert_cmd::Command;

const LOG: &str = r#"{"started_at": 1700000000, "ai": {"request": "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"hunter2\"}]}", "response": {"usage": {"prompt_tokens_details": {"cached_tokens": 0}}}}}
{"started_at": 1700000001, "note": "hunter2"}
hunter2

{"started_at": 1700000002, "ai": {"request": {"model": "m", "prompt_token_ids": [1, 2, 3]}}}
"#;

fn dry_run(settings: &str, log: impl AsRef<[u8]>, more: &[&str]) -> (String, String, i32) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kvset.toml");
    std::fs::write(&path, settings).expect("written");
    let mut command = Command::cargo_bin("kvset").expect("the program");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KVSET")) {
        command.env_remove(name);
    }
    let output = command.args(["prepare", "--dry-run", "-", "--config"]).arg(&path).args(more);
    let output = output.write_stdin(log.as_ref()).output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code().expect("a code"))
}

#[test]
fn a_log_says_which_settings_read_it_and_they_do() {
    let (said, _, code) = dry_run("", LOG, &[]);
    assert_eq!(code, 0, "{said}");
    for line in [
        "4 records read",
        "1  OpenAI chat at ai.request",
        "1  token ids at ai.request",
        "1  no JSON object",
        "1  no messages, prompt, input, token ids or page ids anywhere",
        "3  refused: missing_field: the record has neither messages, prompt, input, body, token_ids nor page_ids \
         (first: record 1)",
        "1  refused: unknown_encoding: a text, neither a JSON object nor an array: log requests",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let (_, advice) = said.split_once("\n[prepare]\n").expect("advice");
    assert_eq!(
        advice,
        "request = \"ai.request\"\nresponse = \"ai.response\"\nevent_time = \"{started_at}\"  # numbers in seconds\n"
    );
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tokenize/chatml");
    let (said, _, code) = dry_run(&format!("[prepare]\n{advice}models = [\"{model}\"]\n"), LOG, &[]);
    assert_eq!(code, 0);
    assert!(said.contains("2  1 request event(s) (first: record 1)"), "{said}");
    assert!(said.contains("1  request events that say how much was cached"), "{said}");
    assert!(!said.contains("[prepare]") && !said.contains("hunter2"), "{said}");
}

#[test]
fn only_so_many_records_of_a_bounded_size_are_read() {
    let (said, _, _) = dry_run("", LOG, &["--records", "1"]);
    assert!(said.contains("1 record read") && !said.contains("no JSON object"), "{said}");
    let long = format!(r#"{{"messages": "{}"}}"#, "hunter2".repeat(200));
    let (_, error, code) = dry_run("[prepare]\nmax_record_bytes = \"1KiB\"", &long, &[]);
    assert_eq!(code, 1);
    assert!(error.contains("record 1 is larger than prepare.max_record_bytes"), "{error}");
    assert!(!error.contains("hunter2"));
}

/// A file of the collector's, protobuf behind lengths, is read as its lines of JSON are.
#[test]
fn a_file_of_protobuf_is_told_as_its_topic_would_be() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/logs/otlp-file.binpb");
    let log = std::fs::read(fixture).expect("the fixture");
    let (said, _, code) = dry_run("", &log, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("3 records read") && said.contains("2  the log of otlp"), "{said}");
    assert!(said.ends_with("[prepare]\npreset = \"otlp\"\n"), "{said}");
    let (_, error, code) = dry_run("", &log[..log.len() - 1], &[]);
    assert_eq!(code, 1);
    assert!(error.contains("record 3: the record ends before its length says"), "{error}");
}

#[test]
fn a_log_known_by_name_is_recognised_and_its_preset_reads_it() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/logs/kong.jsonl");
    let log = std::fs::read_to_string(fixture).expect("the fixture");
    let (said, _, code) = dry_run("", &log, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("6  the log of kong"), "{said}");
    let (_, advice) = said.split_once("\n[prepare]\n").expect("advice");
    assert_eq!(advice, "preset = \"kong\"\n");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tokenize/chatml");
    let (said, _, code) = dry_run(&format!("[prepare]\n{advice}models = [\"{model}\"]\n"), &log, &[]);
    assert_eq!(code, 0);
    for line in [
        "prepare.preset is kong, whose shape is that of Kong/kong: ",
        "2  1 request event(s) (first: record 1)",
        "1  passed over: the request failed (first: record 4)",
        "1  refused: missing_field: there is no `ai.proxy.payload.request`: set config.logging.log_payloads",
        "2  request events that say how much was cached",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(!said.contains("[prepare]") && !said.contains("What is there"), "{said}");
}

/// What Anthropic's usage says was written to its cache is told by the dry run and by a replay.
#[test]
fn cache_writes_of_a_log_are_told() {
    let request =
        r#"{"model": "chat", "max_tokens": 8, "messages": [{"role": "user", "content": "What is there?"}]}"#;
    let usage = |five: u64, hour: u64, rest: u64| {
        let written = five + hour + rest;
        format!(
            r#"{{"input_tokens": 1, "cache_creation_input_tokens": {written},
                "cache_creation": {{"ephemeral_5m_input_tokens": {five}, "ephemeral_1h_input_tokens": {hour}}}}}"#
        )
        .replace('\n', " ")
    };
    let line = |usage: &str| format!(r#"{{"body": {request}, "response": {{"usage": {usage}}}}}"#);
    let log = [usage(3, 40, 0), usage(0, 0, 50), r#"{"input_tokens": 9}"#.to_owned()]
        .map(|usage| line(&usage))
        .join("\n");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tokenize/chatml");
    let (said, _, code) = dry_run(&format!("[prepare]\nmodels = [\"chat={model}\"]\n"), &log, &[]);
    assert_eq!(code, 0, "{said}");
    let told =
        "93  tokens written to a provider's cache: 3 for 5 minutes, 40 for an hour, 50 for a time not stated";
    assert!(said.contains(told), "{said}");
    let replay = |more: &[&str]| {
        let mut command = Command::cargo_bin("kvset").expect("the program");
        command.args(["replay", "--format", "openai", "--page-size", "4", "--model", model]).args(more);
        let output = command.arg("-").write_stdin(log.as_bytes()).output().expect("run");
        String::from_utf8(output.stdout).expect("text")
    };
    let told = "cache writes          93 tokens by 2 requests: 3 kept 5 minutes, 40 kept an hour, \
        50 kept for a time not stated\n";
    let said = replay(&[]);
    assert!(said.contains(told), "{said}");
    let json: serde_json::Value = serde_json::from_str(&replay(&["--json"])).expect("JSON");
    let expected = serde_json::json!({"requests": 2, "tokens": 93, "five_minute_tokens": 3, "one_hour_tokens": 40,
        "unstated_tokens": 50});
    assert_eq!(json["cache_writes"], expected);
}

#[test]
fn lines_of_a_file_have_no_stamps_that_could_be_taken_for_times() {
    let (said, _, code) = dry_run("", "{\"model\": \"m\", \"tokens\": [1, 2, 3]}\n", &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("1  the stamps that the records get in a topic"), "{said}");
    assert!(!said.contains("1970"), "{said}");
}
