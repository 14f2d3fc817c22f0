//! The service on a topic in Confluent's wire format, with a registry that comes and goes.

use crate::kafka_support::{Broker, Input, PATIENCE, Published, serve_records, stamp};
use crate::registry_support::Registry;
use kvset::codec::{RequestDecoder, RequestEncoding, SchemaId, decode_estimate, encode_request, schema};
use kvset::commands::produce::producing::message_of;
use kvset::service::estimating::serve;
use kvset::service::events::{Observer, ServiceEvent};
use kvset::service::plan::schemas::open;
use kvset::service::plan::{ServicePlan, with_registry};
use kvset::service::shutdown::Shutdown;
use kvset::settings::{HttpUrl, OutputEncoding, Secret, Settings, Span};
use kvset::workload::{Generator, Workload};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PARTITIONS: u32 = 2;

fn settings(registry: &Registry) -> Settings {
    let mut settings = Settings::default();
    settings.estimate.windows = ["tumbling:1m", "all"].map(|text| text.parse().expect("a window")).to_vec();
    settings.schema_registry.url = HttpUrl::new(&registry.url()).expect("an address");
    settings.schema_registry.timeout = Span::from_ms(500);
    settings
}

/// The same requests in both encodings, the second with the id of its schema in front.
pub fn generated(requests: usize, id: u32) -> (Input, Input) {
    let (mut plain, mut framed) = (Input::default(), Input::default());
    for (partition, pool) in [(0, "alpha"), (1, "beta")] {
        let seed = u64::from(partition == 1);
        let workload = Workload { seed, start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
        for request in Generator::new(workload).expect("a workload").take(requests) {
            let row = request.as_row();
            plain.push_row(partition, pool, &row);
            let mut value = Vec::new();
            let encoding = RequestEncoding::ConfluentAvro(SchemaId(id));
            encode_request(&message_of(&row), encoding, &mut value).expect("encodes");
            framed.push(partition, pool, value);
        }
    }
    (plain, framed)
}

fn plan(broker: &Broker, settings: &Settings) -> ServicePlan {
    let mut plan = broker.plan(settings, "run", PARTITIONS);
    let registry = open(&settings.schema_registry).expect("nothing is missing").expect("an address");
    let task = plan.task.as_ref().clone();
    let task = with_registry(task, settings, &registry, Duration::from_secs(10)).expect("a registry");
    plan.task = Arc::new(task);
    plan.registry = Some(registry);
    plan
}

/// Notes whether records waited for the registry, and asks to stop when told.
#[derive(Default)]
struct Watch {
    waited: AtomicBool,
}

impl Watch {
    fn wait(&self) {
        let begin = Instant::now();
        while !self.waited.load(Ordering::SeqCst) {
            assert!(begin.elapsed() < PATIENCE, "nothing waited for the registry");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Observer for Watch {
    fn on(&self, event: &ServiceEvent<'_>) {
        if let ServiceEvent::SchemaRegistry { waiting: true } = event {
            self.waited.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn confluents_wire_format_gives_the_same_estimates_also_as_output() {
    for broker in Broker::all() {
        let registry = Registry::up();
        let id = registry.add(schema::REQUEST_EVENT);
        let (plain, framed) = generated(150, id);
        framed.produce(&broker.connection, &broker.create("requests", PARTITIONS));
        let mut settings = settings(&registry);
        settings.output.encoding = OutputEncoding::ConfluentAvro;
        settings.schema_registry.auto_register = true;
        let plan = plan(&broker, &settings);
        assert!(registry.has("kvset.estimates-value", 2), "registered before the first record");
        serve_records(&plan, framed.records()).expect("a clean run");
        let published = Published::read(&broker, &plan.stream.outputs);
        assert!(published == plain.expected(&plan.task), "real broker: {}", broker.is_real());
        let values: Vec<_> =
            published.estimates.values().flatten().filter_map(|(_, value)| value.as_deref()).collect();
        assert!(values.len() > 5);
        for value in values {
            assert_eq!(SchemaId::of_record(value), Some(SchemaId(2)));
            decode_estimate(value).expect("an estimate");
        }
    }
}

#[test]
fn a_registry_that_is_down_holds_records_back_until_it_is_up() {
    let broker = Broker::mock();
    let mut registry = Registry::down();
    let id = registry.add(schema::REQUEST_EVENT);
    let (plain, framed) = generated(60, id);
    framed.produce(&broker.connection, &broker.create("requests", PARTITIONS));
    let plan = plan(&broker, &settings(&registry));

    // Asked to stop meanwhile, the service stops in order and has committed nothing.
    let (shutdown, watch) = (Shutdown::new(), Watch::default());
    std::thread::scope(|scope| {
        let service = scope.spawn(|| serve(&plan, &shutdown, &watch));
        watch.wait();
        shutdown.request();
        let summary = service.join().expect("no panic").expect("a clean run");
        assert_eq!((summary.records, summary.results, summary.dead_letters), (0, 0, 0));
    });

    let again = self::plan_again(&plan, &settings(&registry));
    std::thread::scope(|scope| {
        let service = scope.spawn(|| serve_records(&again, framed.records()));
        let held = again.registry.as_ref().expect("a registry");
        let begin = Instant::now();
        while !held.is_waiting() {
            assert!(begin.elapsed() < PATIENCE, "nothing waited for the registry");
            std::thread::sleep(Duration::from_millis(5));
        }
        registry.start();
        service.join().expect("no panic").expect("a clean run");
    });
    let published = Published::read(&broker, &plan.stream.outputs);
    assert!(published == plain.expected(&plan.task));
}

#[cfg(feature = "tokenize")]
#[test]
fn raw_records_wait_for_their_registry_and_are_prepared_once_it_is_up() {
    use crate::kafka_support::{StopAfter, output_topics};
    use kvset::service::prepare::{PreparePlan, prepare, recipe};
    let broker = Broker::mock();
    let mut registry = Registry::down();
    let (_, framed) = generated(40, registry.add(schema::REQUEST_EVENT));
    framed.produce(&broker.connection, &broker.create("raw", PARTITIONS));
    let mut settings = settings(&registry);
    settings.prepare.pool = "{key}".parse().expect("a template");
    let plan = PreparePlan {
        stream: broker.stream(&broker.topic("raw"), "run", output_topics(&broker, "run", PARTITIONS)),
        recipe: Arc::new(recipe(&settings)),
        tokenizers: Default::default(),
        dead_letters: kvset::service::plan::task_config(&settings).expect("usable settings").dead_letters,
        registry: open(&settings.schema_registry).expect("nothing is missing"),
    };

    // Asked to stop meanwhile, prepare stops in order and has committed nothing.
    let (shutdown, watch) = (Shutdown::new(), Watch::default());
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| prepare(&plan, &shutdown, &watch));
        watch.wait();
        shutdown.request();
        let summary = stopped.join().expect("no panic").expect("a clean run");
        assert_eq!((summary.records, summary.results, summary.dead_letters), (0, 0, 0));
    });

    registry.start();
    let shutdown = Shutdown::new();
    let summary =
        prepare(&plan, &shutdown, &StopAfter::new(&shutdown, framed.records())).expect("a clean run");
    assert_eq!((summary.results, summary.dead_letters), (framed.records(), 0));
}

/// The plan of a restart: a registry client that was not told to stop.
fn plan_again(plan: &ServicePlan, settings: &Settings) -> ServicePlan {
    let registry = open(&settings.schema_registry).expect("nothing is missing").expect("an address");
    let task = plan.task.as_ref().clone();
    let task = with_registry(task, settings, &registry, Duration::from_secs(1)).expect("not asked");
    ServicePlan { task: Arc::new(task), registry: Some(registry), ..plan.clone() }
}

/// What producers of JSON Schema write: the id in front of the JSON. And those of Avro that put a GUID into a header.
#[test]
fn json_behind_a_frame_and_avro_beside_a_header_give_the_same_estimates() {
    for broker in Broker::all() {
        let registry = Registry::up();
        let (plain, avro) = generated(60, registry.add(schema::REQUEST_EVENT));
        let id = registry.add_answer(json!({ "schema": "{\"type\": \"object\"}", "schemaType": "JSON" }));
        let guid = registry.name(1);
        let topic = broker.create("requests", PARTITIONS);
        let producer = producer(&broker);
        for (partition, records) in &plain.partitions {
            for (at, (key, value)) in records.iter().enumerate() {
                let (value, header) = match partition {
                    0 => ([&[0], &id.to_be_bytes()[..], &as_json(value)].concat(), None),
                    _ => (avro.partitions[partition][at].1[5..].to_vec(), Some(&guid)),
                };
                let record =
                    BaseRecord::to(&topic).partition(*partition).key(key).payload(&value).timestamp(stamp());
                let headers = header.map_or_else(OwnedHeaders::new, |guid| {
                    OwnedHeaders::new().insert(Header { key: "__value_schema_id", value: Some(guid) })
                });
                producer.send(record.headers(headers)).expect("room");
            }
        }
        producer.flush(Duration::from_secs(30)).expect("delivered");
        let plan = plan(&broker, &settings(&registry));
        serve_records(&plan, plain.records()).expect("a clean run");
        let published = Published::read(&broker, &plan.stream.outputs);
        assert!(published == plain.expected(&plan.task), "real broker: {}", broker.is_real());
        assert!(published.letters.is_empty() && published.estimates.len() == 2);
    }
}

fn producer(broker: &Broker) -> BaseProducer {
    ClientConfig::new().set("bootstrap.servers", &broker.connection.brokers).create().expect("a producer")
}

fn as_json(avro: &[u8]) -> Vec<u8> {
    let (mut decoder, mut json) = (RequestDecoder::default(), Vec::new());
    encode_request(&decoder.read(avro).expect("readable"), RequestEncoding::Json, &mut json)
        .expect("encodes");
    json
}

#[test]
fn an_id_the_registry_does_not_know_is_a_dead_letter() {
    let broker = Broker::mock();
    let registry = Registry::up();
    let id = registry.add(schema::REQUEST_EVENT);
    let (_, mut framed) = generated(40, id);
    let (_, strangers) = generated(1, 77);
    let stranger = strangers.partitions[&0][0].clone();
    framed.partitions.get_mut(&0).expect("pool alpha").insert(3, stranger);
    framed.produce(&broker.connection, &broker.create("requests", PARTITIONS));
    let plan = plan(&broker, &settings(&registry));
    serve_records(&plan, framed.records()).expect("a clean run");
    let published = Published::read(&broker, &plan.stream.outputs);
    assert!(published == framed.expected(&plan.task));
    let codes: Vec<_> = published.letters.iter().flat_map(|letter| &letter.2).collect();
    let code = codes.iter().find(|(name, _)| name == "kvset_error_code").expect("a code");
    assert_eq!((published.letters.len(), code.1.as_slice()), (1, b"unknown_schema".as_slice()));
}

#[test]
fn a_wrong_password_stops_the_service_with_what_to_do() {
    let broker = Broker::mock();
    let registry = Registry::demanding("Bearer right");
    let id = registry.add(schema::REQUEST_EVENT);
    let (_, framed) = generated(10, id);
    framed.produce(&broker.connection, &broker.create("requests", PARTITIONS));
    let mut settings = settings(&registry);
    settings.schema_registry.token = Secret::new("hunter2-marker");
    let plan = plan(&broker, &settings);
    let error = serve_records(&plan, framed.records()).expect_err("refused").to_string();
    assert!(error.contains("401") && error.contains("schema_registry"), "{error}");
    assert!(!error.contains("hunter2") && !format!("{plan:?}").contains("hunter2"), "{error}");
    assert_eq!(Published::read(&broker, &plan.stream.outputs), Published::default(), "no record was refused");
}
