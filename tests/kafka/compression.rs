//! Record batches of every codec Kafka has.

use crate::kafka_support::{Broker, Input, Published, serve_records};
use kvset::codec::decode_estimate;
use kvset::core::estimate::Estimate;
use kvset::kafka::config::Connection;
use kvset::kafka::sink::{Delivery, KafkaSink, OutputTopic, OutputTopics};
use kvset::output::{Destination, OutputRecord};
use kvset::pipeline::publish::{FailureKind, Sink};
use kvset::position::Partition;
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::num::NonZeroU32;
use std::time::Duration;

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

#[test]
fn batches_of_every_codec_give_the_same_estimates() {
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
    let requests: Vec<_> = Generator::new(workload).expect("a workload").take(200).collect();
    for broker in Broker::all() {
        let topic = broker.create("requests", CODECS.len() as u32);
        let mut all = Input::default();
        // The same requests in each partition, as a pool and with a codec of its own.
        for (partition, codec) in (0..).zip(CODECS) {
            let mut input = Input::default();
            requests.iter().for_each(|request| input.push_row(partition, codec, &request.as_row()));
            let mut connection = broker.connection.clone();
            connection.properties.push(("compression.type".to_owned(), codec.to_owned()));
            input.produce(&connection, &topic);
            all.partitions.append(&mut input.partitions);
        }
        let plan = broker.plan(&Settings::default(), "run", CODECS.len() as u32);
        serve_records(&plan, all.records()).expect("a clean run");
        let published = Published::read(&broker, &plan.stream.outputs);
        assert!(published == all.expected(&plan.task), "real broker: {}", broker.is_real());
        let of = |codec: &str| -> Vec<Estimate> {
            let values = published.estimates[codec].iter().filter_map(|(_, value)| value.as_deref());
            let estimate = |value| decode_estimate(value).expect("an estimate");
            values
                .map(estimate)
                .map(|estimate| Estimate { pool: String::new(), partition: 0, ..estimate })
                .collect()
        };
        let plain = of("none");
        assert!(plain.len() > 3, "only {} estimates", plain.len());
        CODECS.iter().for_each(|codec| assert_eq!(of(codec), plain, "{codec}"));
    }
}

/// Azure Event Hubs takes no zstd: the same commit was tried 540 times in two minutes.
#[test]
fn a_compression_that_brokers_do_not_take_ends_the_commit_with_its_cure() {
    let cluster = MockCluster::new(1).expect("loopback sockets");
    for topic in ["out", "dead"] {
        cluster.create_topic(topic, 1, 1).expect("created");
    }
    let connection = Connection { brokers: cluster.bootstrap_servers(), properties: Vec::new() };
    let output =
        |name: &str| OutputTopic { name: name.to_owned(), partitions: NonZeroU32::new(1).expect("not zero") };
    let outputs = OutputTopics { results: output("out"), dead_letters: output("dead") };
    let deadline = Duration::from_secs(30);
    let mut sink =
        KafkaSink::open(&connection, "t", outputs, Delivery::Transactional, deadline).expect("a producer");
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE; 20];
    cluster.request_errors(RDKafkaApiKey::Produce, &refused);
    sink.begin().expect("a transaction");
    let record = OutputRecord {
        destination: Destination::Results,
        partition: Partition(0),
        window: None,
        key: Some(b"k".to_vec()),
        value: Some(b"v".to_vec()),
        headers: Vec::new(),
        placed_by: None,
    };
    sink.send(&record).expect("room");
    let error = sink.commit().expect_err("no broker takes it");
    assert_eq!(error.kind, FailureKind::Fatal, "{error}");
    assert!(error.message.contains("\"compression.type\" = \"none\""), "{error}");
}
