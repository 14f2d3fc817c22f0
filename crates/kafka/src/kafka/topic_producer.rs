//! Plain producing of keyed records, with what was delivered and what was not.

use super::config::Connection;
use super::context::Deliveries;
use super::error::{failure_of, kind};
use kvset_pipeline::publish::{FailureKind, KafkaFailure};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use std::time::{Duration, Instant};

/// An idempotent producer for one topic.
pub struct TopicProducer {
    producer: ThreadedProducer<Deliveries>,
    topic: String,
    retry_for: Duration,
}

impl TopicProducer {
    /// Connects; a record is given up after `retry_for`.
    ///
    /// # Errors
    /// Properties the client refuses.
    pub fn open(connection: &Connection, topic: &str, retry_for: Duration) -> Result<Self, KafkaFailure> {
        let producer = connection
            .producer("produce", retry_for)
            .create_with_context(Deliveries::new(connection.tokens()?, ""))
            .map_err(|error| failure_of(&format!("opening a producer for topic `{topic}`"), &error))?;
        Ok(Self { producer, topic: topic.to_owned(), retry_for })
    }

    /// Queues a record, waiting for room. `timestamp_ms` is the record's time; the present one when
    /// left out.
    ///
    /// # Errors
    /// No room within the time to retry, or the client refuses the record.
    pub fn send(&self, key: &[u8], value: &[u8], timestamp_ms: Option<i64>) -> Result<(), KafkaFailure> {
        self.send_to(None, key, value, timestamp_ms)
    }

    /// Like [`TopicProducer::send`], to a partition of the caller's choice.
    ///
    /// # Errors
    /// As for [`TopicProducer::send`].
    pub fn send_to(
        &self,
        partition: Option<i32>,
        key: &[u8],
        value: &[u8],
        timestamp_ms: Option<i64>,
    ) -> Result<(), KafkaFailure> {
        let begin = Instant::now();
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&self.topic).key(key).payload(value);
        record.partition = partition;
        record.timestamp = timestamp_ms;
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((error, back))
                    if kind(&error) == FailureKind::Transient && begin.elapsed() < self.retry_for =>
                {
                    record = back;
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err((error, _)) => {
                    return Err(failure_of(&format!("writing to topic `{}`", self.topic), &error));
                }
            }
        }
    }

    /// Records acknowledged so far.
    pub fn delivered(&self) -> u64 {
        self.producer.context().delivered()
    }

    /// Waits until every record was acknowledged or given up; says how many were acknowledged.
    ///
    /// # Errors
    /// Records were given up, or no end within the time to retry.
    pub fn finish(&self) -> Result<u64, KafkaFailure> {
        let doing = format!("delivering to topic `{}`", self.topic);
        let flushed = self.producer.flush(self.retry_for + Duration::from_secs(1));
        flushed.map_err(|error| failure_of(&doing, &error))?;
        let deliveries = self.producer.context();
        match deliveries.failed() {
            0 => Ok(deliveries.delivered()),
            failed => {
                let reason = deliveries.take_failure().unwrap_or_default();
                Err(KafkaFailure::fatal(format!(
                    "{doing}: {failed} records were not delivered, {} were; the last failure: {reason}",
                    deliveries.delivered()
                )))
            }
        }
    }
}
