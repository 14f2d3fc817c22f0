//! A broker in this process: for demonstrations and wiring tests, never for proofs.
//!
//! librdkafka's mock keeps 5 MiB a partition and silently drops what is older, stores no offsets sent
//! in transactions, hides no aborted records and fences nobody. So records are produced no faster than it is
//! read, and read in [`Delivery::Idempotent`](super::sink::Delivery).

use super::config::Connection;
use super::error::failure_of;
use kvset_pipeline::publish::KafkaFailure;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use std::num::NonZeroU32;

/// A running mock cluster of one broker; stopped when dropped, which must come last.
pub struct MockBroker(MockCluster<'static, DefaultProducerContext>);

/// Bytes of unread records a partition may hold without loss, with room to spare.
pub const SAFE_UNREAD_BYTES: u64 = 2 << 20;

impl MockBroker {
    /// Starts one.
    ///
    /// # Errors
    /// No memory, no socket on loopback.
    pub fn start() -> Result<Self, KafkaFailure> {
        let cluster = MockCluster::new(1);
        cluster.map(Self).map_err(|error| failure_of("starting the embedded broker", &error))
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// The mock refuses.
    pub fn create_topic(&self, name: &str, partitions: NonZeroU32) -> Result<(), KafkaFailure> {
        let count = i32::try_from(partitions.get()).unwrap_or(i32::MAX);
        let created = self.0.create_topic(name, count, 1);
        created.map_err(|error| failure_of(&format!("creating topic `{name}`"), &error))
    }

    /// How to reach it.
    pub fn connection(&self) -> Connection {
        Connection { brokers: self.0.bootstrap_servers(), properties: Vec::new() }
    }
}
