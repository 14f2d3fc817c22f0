//! `kvset generate`: the same options give the same trace, in every compression.

use assert_cmd::Command;
use kvset::kafka::mock::MockBroker;
use kvset::kafka::reader::{From, TopicReader};
use std::io::Read as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};

fn generate(args: &[&str]) -> Vec<u8> {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    command.arg("generate").args(args).assert().success().get_output().stdout.clone()
}

fn rows(trace: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(trace).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

#[test]
fn a_seed_is_a_trace() {
    let trace = generate(&["--requests", "200", "--seed", "7"]);
    assert_eq!(trace, generate(&["--requests", "200", "--seed", "7"]));
    assert_ne!(trace, generate(&["--requests", "200", "--seed", "8"]));
    let rows = rows(&trace);
    assert_eq!(rows.len(), 200);
    for row in &rows {
        let (ids, tokens) = (row["hash_ids"].as_array().expect("ids"), row["input_length"].as_u64());
        assert_eq!(row["block_size"], 64);
        assert_eq!(Some(ids.len() as u64), tokens.map(|tokens| tokens / 64));
    }
}

#[test]
fn a_duration_ends_it_and_files_are_compressed_by_their_name() {
    let args = ["--duration", "2h", "--start", "36000000", "--sessions-per-day", "20"];
    let plain = generate(&args);
    let last = rows(&plain).last().expect("requests")["timestamp"].as_i64().expect("a time");
    assert!(last < 36_000_000 + 7_200_000);
    assert!(last > 36_000_000 + 3_600_000, "ended early at {last}");
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["t.jsonl", "t.jsonl.zst", "t.jsonl.gz"] {
        let path = directory.path().join(name);
        let path = path.to_str().expect("UTF-8");
        assert!(generate(&[&args[..], &["--output", path]].concat()).is_empty());
        assert!(read(Path::new(path)) == plain, "{name} holds something else");
    }
}

fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("read");
    let mut plain = Vec::new();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("zst") => zstd::decode_all(bytes.as_slice()).expect("zstd"),
        Some("gz") => {
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).expect("gzip");
            plain
        }
        _ => bytes,
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    let assert = command.args(["generate", "--output", "no/such/directory/t.jsonl"]).assert().code(1);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.starts_with("error: cannot write trace `no/such/directory/t.jsonl`"), "{said}");
}

/// The values of the first `count` records of the topic's only partition.
fn values(broker: &MockBroker, topic: &str, count: usize) -> Vec<Vec<u8>> {
    let wait = Duration::from_secs(30);
    let mut reader = TopicReader::open(&broker.connection(), topic, From::Beginning, wait).expect("a reader");
    let begin = Instant::now();
    let mut values = Vec::new();
    while values.len() < count && begin.elapsed() < wait {
        values.extend(
            reader.next(Duration::from_millis(100)).expect("a record").and_then(|record| record.value),
        );
    }
    values
}

#[test]
fn a_topic_gets_the_requests_that_a_file_gets() {
    let broker = MockBroker::start().expect("an embedded broker");
    for topic in ["generated", "produced"] {
        broker.create_topic(topic, NonZeroU32::MIN).expect("a topic");
    }
    let to_topic = |args: &[&str]| {
        let mut command = Command::cargo_bin("kvset").expect("the program");
        command.env("KVSET__KAFKA__BROKERS", broker.connection().brokers).args(args).assert()
    };
    let load = ["--requests", "50", "--seed", "3"];
    to_topic(&[&["generate", "--topic", "generated", "--pool", "a/b"], &load[..]].concat()).success();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("trace.jsonl");
    let file = file.to_str().expect("UTF-8");
    generate(&[&load[..], &["--output", file]].concat());
    to_topic(&["produce", "--topic", "produced", "--pool", "a/b", file]).success();
    let generated = values(&broker, "generated", 50);
    assert_eq!(generated.len(), 50);
    assert!(generated == values(&broker, "produced", 50), "the topics hold different requests");

    let refused = to_topic(&["generate", "--topic", "not-there"]).code(1);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("`not-there`") && said.contains("--create-topics"), "{said}");
}
