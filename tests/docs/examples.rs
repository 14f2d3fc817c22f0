//! The example programs of the documentation, run against a broker.

use super::kafka_support::Broker;
use super::root;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kvset::kafka::topic_producer::TopicProducer;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// A case of schemas/page-id-vectors.json.
#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    tokens: Vec<u32>,
    page_size: u32,
    namespace: Option<String>,
    include_partial_page: bool,
    page_ids: Vec<String>,
}

/// The cases that leave a last page out that is not full, as the producers do.
fn vectors() -> Vec<Vector> {
    let text = std::fs::read_to_string(root().join("schemas/page-id-vectors.json")).expect("the vectors");
    let all: Vec<Vector> = serde_json::from_str(&text).expect("the vectors");
    let full: Vec<_> = all.into_iter().filter(|vector| !vector.include_partial_page).collect();
    assert!(full.len() >= 8, "only {} vectors", full.len());
    full
}

/// Runs a program on this input and gives what it prints; it must succeed.
fn output_of(command: &mut Command, input: &str, needs: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; {needs}"));
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads its input");
    let output = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{needs}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A Python with the examples' libraries.
fn python() -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let needs = "needs python3 with venv, and a package index to install confluent-kafka and xxhash from";
    let made = PYTHON.get_or_init(|| {
        let venv = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("examples-venv");
        output_of(Command::new("python3").args(["-m", "venv"]).arg(&venv), "", needs);
        let mut pip = Command::new(venv.join("bin/pip"));
        output_of(pip.args(["install", "--quiet", "confluent-kafka", "xxhash"]), "", needs);
        venv.join("bin/python")
    });
    made.clone()
}

/// Lets a producer write every vector, keyed by its name, and compares the ids that arrive.
fn gives_the_published_ids(run: &str, producer: impl Fn(&str, &str, u32) -> (Command, &'static str)) {
    let Some(broker) = Broker::real() else { return };
    let topic = broker.create(run, 1);
    let vectors = vectors();
    let page_sizes: BTreeSet<u32> = vectors.iter().map(|vector| vector.page_size).collect();
    for page_size in page_sizes {
        let of_size = vectors.iter().filter(|vector| vector.page_size == page_size);
        let lines = of_size.map(|vector| {
            let mut line = json!({"event_time": 1, "pool": vector.name, "tokens": vector.tokens});
            if let Some(namespace) = &vector.namespace {
                line["namespace"] = json!(namespace);
            }
            format!("{line}\n")
        });
        let (mut command, needs) = producer(&broker.connection.brokers, &topic, page_size);
        output_of(&mut command, &lines.collect::<String>(), needs);
    }
    let arrived: BTreeMap<String, Vec<String>> = broker
        .read_all(&topic)
        .into_iter()
        .map(|record| {
            let name = String::from_utf8(record.key.expect("a pool")).expect("UTF-8");
            let event: Value = serde_json::from_slice(&record.value.expect("an event")).expect("JSON");
            let packed = BASE64_STANDARD.decode(event["page_ids"].as_str().expect("packed ids"));
            let packed = packed.expect("base64");
            let ids = packed.chunks_exact(8).map(|id| u64::from_le_bytes(id.try_into().expect("8 bytes")));
            (name, ids.map(|id| format!("{id:016x}")).collect())
        })
        .collect();
    let expected = vectors.into_iter().map(|vector| (vector.name, vector.page_ids)).collect();
    assert_eq!(arrived, expected);
}

#[test]
fn the_python_producer_gives_the_published_page_ids() {
    gives_the_published_ids("python", |brokers, topic, page_size| {
        let mut command = Command::new(python());
        command.arg(root().join("docs/examples/producer.py"));
        command.args(["--brokers", brokers, "--topic", topic, "--page-size", &page_size.to_string()]);
        (command, "")
    });
}

#[test]
fn the_go_producer_gives_the_published_page_ids() {
    gives_the_published_ids("go", |brokers, topic, page_size| {
        let mut command = Command::new("go");
        command.arg("run").arg("-C").arg(root().join("docs/examples/go-producer")).arg(".");
        command.args(["-brokers", brokers, "-topic", topic, "-page-size", &page_size.to_string()]);
        (command, "needs Go 1.26 or later, and a module proxy to fetch franz-go from")
    });
}

#[test]
fn the_rust_producer_gives_the_published_page_ids() {
    gives_the_published_ids("rust", |brokers, topic, page_size| {
        let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        command.current_dir(root()).args(["run", "--quiet", "--locked", "--example", "producer", "--"]);
        command.args([brokers, topic, &page_size.to_string()]);
        (command, "")
    });
}

/// A published estimate with these fields changed, and its key.
fn estimate(pool: &str, end_ms: i64, changes: Value) -> (String, Value) {
    let path = root().join("tests/fixtures/codec/capacity_estimate.v1.json");
    let text = std::fs::read_to_string(path).expect("a published estimate");
    let mut estimate: Value = serde_json::from_str(&text).expect("JSON");
    estimate["pool"] = json!(pool);
    estimate["window"] = json!("all");
    estimate["end_ms"] = json!(end_ms);
    estimate["next_offset"] = json!(end_ms);
    estimate["status"] = json!("final");
    estimate["warm_up"] = json!(false);
    estimate["required"] = json!([{"coverage": [{"coverage": 0.99, "bytes": end_ms, "pages": null}]}]);
    for (name, value) in changes.as_object().expect("fields") {
        estimate[name] = value.clone();
    }
    (format!("{}|{end_ms}|{pool}", estimate["window"].as_str().expect("a window")), estimate)
}

#[test]
fn the_python_consumer_upserts_by_key_and_ignores_what_is_not_final() {
    let Some(broker) = Broker::real() else { return };
    let topic = broker.create("recommendations", 1);
    let producer =
        TopicProducer::open(&broker.connection, &topic, Duration::from_secs(30)).expect("a producer");
    let records = [
        estimate("a", 1000, json!({})),
        estimate("a", 2000, json!({})),
        // Older than what is known: a repeat after a crash.
        estimate("a", 1000, json!({})),
        estimate("a", 3000, json!({"status": "provisional"})),
        estimate("a", 4000, json!({"warm_up": true})),
        estimate("a", 5000, json!({"window": "last:3000"})),
        // The same key again with other content replaces it.
        estimate("b", 1000, json!({})),
        estimate(
            "b",
            1000,
            json!({"required": [{"coverage": [{"coverage": 0.99, "bytes": 77, "pages": 7}]}]}),
        ),
        // Without a cost a token there are pages only.
        estimate(
            "c",
            1000,
            json!({"required": [{"coverage": [{"coverage": 0.99, "bytes": null, "pages": 9}]}]}),
        ),
    ];
    for (key, value) in &records {
        producer.send_to(Some(0), key.as_bytes(), value.to_string().as_bytes(), None).expect("room");
    }
    assert_eq!(producer.finish().expect("delivered"), records.len() as u64);
    let mut command = Command::new(python());
    command.arg(root().join("docs/examples/consumer.py"));
    command.args(["--brokers", &broker.connection.brokers, "--topic", &topic]);
    command.args(["--window", "all", "--until-end"]);
    assert_eq!(output_of(&mut command, "", ""), "a 2000\nb 77\nc 9\n");
}
