//! The real program with a real Schema Registry, read by a consumer that shares no code with it.
//!
//! Needs both: scripts/parts.sh run registry -- cargo test --test kafka registry_real

use crate::kafka_support::process::{Instance, configure};
use crate::kafka_support::{Broker, PATIENCE, Published, output_topics, wait_for};
use crate::parts_support::named;
use crate::registry::generated;
use kvset::codec::{decode_estimate, schema};
use kvset::core::estimate::Estimate;
use kvset::service::plan::task_config;
use kvset::settings::Settings;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

const PARTITIONS: u32 = 2;
const REQUESTS: usize = 200;

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
    config.build().new_agent()
}

/// Registers a schema as a producer's client does, and gives its id.
fn register(registry: &str, subject: &str, schema: &str) -> u32 {
    let url = format!("{registry}/subjects/{subject}/versions");
    let body = json!({ "schema": schema }).to_string();
    let request = agent().post(&url).header("Content-Type", "application/vnd.schemaregistry.v1+json");
    let mut answer = request.send(&body).expect("answered");
    let text = answer.body_mut().read_to_string().expect("text");
    let id = serde_json::from_str::<Value>(&text).ok().and_then(|answer| answer["id"].as_u64());
    u32::try_from(id.unwrap_or_else(|| panic!("{url}: {text}"))).expect("a small number")
}

fn estimates(published: &Published) -> usize {
    published.estimates.values().map(Vec::len).sum()
}

/// What the program's own decoder makes of each record.
fn decoded_here(broker: &Broker, topic: &str) -> BTreeMap<(i32, i64), Estimate> {
    let records = broker.read_all(topic).into_iter();
    let decoded = |value: Option<Vec<u8>>| decode_estimate(&value.expect("a value")).expect("an estimate");
    records.map(|record| ((record.partition, record.offset), decoded(record.value))).collect()
}

/// How many fields an estimate has.
fn schema_fields() -> usize {
    let schema: Value = serde_json::from_str(schema::CAPACITY_ESTIMATE).expect("JSON");
    schema["fields"].as_array().expect("a list").len()
}

/// What a consumer in Python reads.
fn read_by_python(
    broker: &Broker,
    topic: &str,
    records: usize,
    registry: &str,
) -> BTreeMap<(i32, i64), Estimate> {
    let python = named("KVSET_TEST_PYTHON").expect("it comes with the registry");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kafka/registry_real/read_estimates.py");
    let arguments =
        [&broker.connection.brokers, topic, &PARTITIONS.to_string(), &records.to_string(), registry];
    let done = Command::new(python).arg(script).args(arguments).output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let lines = String::from_utf8(done.stdout).expect("text");
    let record = |line: &str| {
        let mut record: Value = serde_json::from_str(line).expect("JSON");
        let partition = i32::try_from(record["partition"].as_i64().expect("a number")).expect("a partition");
        // Avro has every field, also those that an estimate in JSON leaves out.
        let fields = record["value"].as_object().expect("a record").len();
        assert_eq!(fields, schema_fields(), "every field of the schema");
        let value = serde_json::from_value(record["value"].take()).expect("an estimate");
        ((partition, record["offset"].as_i64().expect("a number")), value)
    };
    lines.lines().map(record).collect()
}

#[test]
fn estimates_in_confluents_format_are_read_by_pythons_deserialiser() {
    let Some(registry) = named("KVSET_TEST_REGISTRY") else { return };
    for broker in Broker::all() {
        let folder = tempfile::tempdir().expect("a folder");
        let topic = broker.create("requests", PARTITIONS);
        let outputs = output_topics(&broker, "run", PARTITIONS);
        let (plain, framed) =
            generated(REQUESTS, register(&registry, &format!("{topic}-value"), schema::REQUEST_EVENT));
        framed.produce(&broker.connection, &topic);
        let config = configure(&broker, folder.path(), "run", "one", "");
        let environment = [
            ("KVSET__OUTPUT__ENCODING", "confluent-avro"),
            ("KVSET__SCHEMA_REGISTRY__URL", registry.as_str()),
            ("KVSET__SCHEMA_REGISTRY__AUTO_REGISTER", "true"),
        ];
        let log = folder.path().join("log");
        let mut instance = Instance::start_with(&["run"], &config, log, &environment);
        let settings = Settings::load(Some(&config)).expect("usable settings");
        let expected = plain.expected(&task_config(&settings).expect("usable settings"));
        let wanted = estimates(&expected);
        assert!(wanted > 10, "{wanted} estimates");
        wait_for(|| {
            let ended = instance.ended();
            assert!(ended.is_none(), "{}", instance.said());
            estimates(&Published::read(&broker, &outputs)) >= wanted
        });
        instance.signal("TERM");
        assert!(instance.wait(PATIENCE).success(), "{}", instance.said());

        let results = &outputs.results.name;
        let here = decoded_here(&broker, results);
        assert_eq!(here.len(), wanted, "{}", instance.said());
        assert_eq!(read_by_python(&broker, results, wanted, &registry), here);
        let mut listed = agent().get(format!("{registry}/subjects")).call().expect("answered");
        let listed = listed.body_mut().read_to_string().expect("text");
        assert!(listed.contains(&format!("{results}-value")), "registered under its topic: {listed}");
    }
}
