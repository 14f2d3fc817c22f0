//! Single records of a topic by their offset, outside of any group: to see whether a log is still
//! the one a snapshot was made from.

use super::config::Connection;
use super::context::Logging;
use super::error::{failure_of, unreadable};
use super::member::Identities;
use super::reader::{ReadRecord, copy};
use kvset_core::units::Offset;
use kvset_formats::position::Partition;
use kvset_formats::time::words;
use kvset_pipeline::facts::RecordIdentity;
use kvset_pipeline::publish::{FailureKind, KafkaFailure};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use std::time::{Duration, Instant};

/// Reads records of one topic where they are requested.
pub struct RecordLookup {
    consumer: BaseConsumer<Logging>,
    topic: String,
}

impl RecordLookup {
    /// Connects.
    ///
    /// # Errors
    /// Properties the client refuses.
    pub fn open(connection: &Connection, topic: &str) -> Result<Self, KafkaFailure> {
        let consumer = connection.reader().create_with_context(Logging::new(connection.tokens()?));
        let consumer = consumer.map_err(|error| failure_of(&format!("reading topic `{topic}`"), &error))?;
        Ok(Self { consumer, topic: topic.to_owned() })
    }

    /// The first record at or after this offset; `None` when there is none.
    ///
    /// # Errors
    /// The brokers do not answer within `timeout`, which is a passing trouble, or refuse.
    pub fn record(
        &self,
        partition: Partition,
        offset: Offset,
        timeout: Duration,
    ) -> Result<Option<ReadRecord>, KafkaFailure> {
        self.first_from(partition, offset, timeout, |record| copy(record))
    }

    /// Why what a reader meets from this offset on cannot be read; `None` where it can, and at the log's end.
    ///
    /// # Errors
    /// As for [`RecordLookup::record`].
    pub fn unreadable(
        &self,
        partition: Partition,
        offset: Offset,
        timeout: Duration,
    ) -> Result<Option<&'static str>, KafkaFailure> {
        let met = self.met_from(partition, offset, timeout, |_| ())?;
        Ok(met.and_then(Result::err).map(|error| unreadable(&error).unwrap_or_default()))
    }

    fn first_from<T>(
        &self,
        partition: Partition,
        offset: Offset,
        timeout: Duration,
        read: impl Fn(&BorrowedMessage<'_>) -> T,
    ) -> Result<Option<T>, KafkaFailure> {
        let met = self.met_from(partition, offset, timeout, read)?;
        let doing = format!("reading the record at offset {} of {}/{partition}", offset.0, self.topic);
        met.transpose().map_err(|error| failure_of(&doing, &error))
    }

    /// The first record, or why it cannot be read; `None` at the log's end.
    fn met_from<T>(
        &self,
        partition: Partition,
        offset: Offset,
        timeout: Duration,
        read: impl Fn(&BorrowedMessage<'_>) -> T,
    ) -> Result<Option<Result<T, KafkaError>>, KafkaFailure> {
        let doing = format!("reading the record at offset {} of {}/{partition}", offset.0, self.topic);
        let failure = |error: KafkaError| failure_of(&doing, &error);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, partition.0, rdkafka::Offset::Offset(offset.0))
            .and_then(|()| self.consumer.assign(&list))
            .map_err(failure)?;
        let found = self.first(timeout, &doing, read);
        self.consumer.unassign().map_err(failure)?;
        found
    }

    fn first<T>(
        &self,
        timeout: Duration,
        doing: &str,
        read: impl Fn(&BorrowedMessage<'_>) -> T,
    ) -> Result<Option<Result<T, KafkaError>>, KafkaFailure> {
        let begin = Instant::now();
        while let Some(left) = timeout.checked_sub(begin.elapsed()) {
            match self.consumer.poll(left) {
                Some(Ok(record)) => return Ok(Some(Ok(read(&record)))),
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(None),
                Some(Err(error)) if unreadable(&error).is_some() => return Ok(Some(Err(error))),
                Some(Err(error)) => {
                    let failure = failure_of(doing, &error);
                    if failure.kind != FailureKind::Transient {
                        return Err(failure);
                    }
                    tracing::warn!("{failure}");
                }
                None => {}
            }
        }
        let message = format!("{doing}: no answer within {}", words(timeout));
        Err(KafkaFailure { kind: FailureKind::Transient, message })
    }
}

impl Identities for RecordLookup {
    fn identity(
        &self,
        partition: Partition,
        offset: Offset,
        timeout: Duration,
    ) -> Result<Option<RecordIdentity>, KafkaFailure> {
        let identity = |record: &BorrowedMessage<'_>| {
            let timestamp_ms = record.timestamp().to_millis().unwrap_or(-1);
            RecordIdentity::of(Offset(record.offset()), timestamp_ms, record.key(), record.payload())
        };
        let found = self.first_from(partition, offset, timeout, identity)?;
        Ok(found.filter(|identity| identity.offset == offset))
    }
}
