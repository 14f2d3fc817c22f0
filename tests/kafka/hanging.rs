//! Calls of the client that never come back.

use crate::kafka_support::PATIENCE;
use kvset::kafka::config::Connection;
use kvset::kafka::sink::{Delivery, KafkaSink, OutputTopic, OutputTopics};
use kvset::kafka::source::Source;
use kvset::pipeline::publish::{FailureKind, Sink};
use kvset::position::{NextOffset, Partition};
use rdkafka::mocking::{MockCluster, MockCoordinator};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// The client goes on asking for a coordinator that is gone, whatever time it is given. Two of three brokers are left.
#[test]
fn offsets_that_no_coordinator_takes_end_the_client_and_not_the_service() {
    let cluster = MockCluster::new(3).expect("loopback sockets");
    for topic in ["in", "out", "dead"] {
        cluster.create_topic(topic, 1, 3).expect("created");
    }
    cluster.coordinator(MockCoordinator::Group("g".to_owned()), 3).expect("set");
    cluster.coordinator(MockCoordinator::Transaction("t".to_owned()), 1).expect("set");
    let connection = Connection { brokers: cluster.bootstrap_servers(), properties: Vec::new() };
    let output =
        |name: &str| OutputTopic { name: name.to_owned(), partitions: NonZeroU32::new(1).expect("not zero") };
    let outputs = OutputTopics { results: output("out"), dead_letters: output("dead") };
    let deadline = Duration::from_secs(30);
    let mut sink =
        KafkaSink::open(&connection, "t", outputs, Delivery::Transactional, deadline).expect("a producer");
    let notes = BTreeMap::from([(Partition(0), String::new())]);
    let source = Source::alone(&connection, "g", "in", notes, Default::default()).expect("a consumer");

    cluster.broker_down(3).expect("down");
    sink.begin().expect("a transaction");
    let begin = Instant::now();
    let error = sink.offsets(&[(Partition(0), NextOffset(1))], &source).expect_err("nobody takes them");
    assert_eq!(error.kind, FailureKind::Spent, "{error}");
    assert!(begin.elapsed() < PATIENCE, "{error}");
    // The call ends, so that nothing is left behind.
    cluster.broker_up(3).expect("up");
}
