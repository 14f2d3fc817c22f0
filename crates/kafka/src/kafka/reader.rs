//! Committed records of a topic outside of any group: from the beginning or from now, followed for
//! ever or up to a captured end.

use super::config::Connection;
use super::context::{Logging, serve};
use super::error::failure_of;
use super::topics::Topics;
use kvset_formats::codec::{Payload, SCHEMA_HEADER};
use kvset_formats::position::{NextOffset, Partition};
use kvset_pipeline::publish::{FailureKind, KafkaFailure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// At the oldest record there is.
    Beginning,
    /// At records that arrive from now on.
    Now,
}

/// A record, copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRecord {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its time stamp, where it has one.
    pub timestamp_ms: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl ReadRecord {
    /// Its value as decoders take it.
    pub fn payload(&self) -> Payload<'_> {
        let header = self.headers.iter().rfind(|(name, _)| name == SCHEMA_HEADER);
        let schema_header = header.map(|(_, value)| value.as_slice());
        Payload { bytes: self.value.as_deref().unwrap_or_default(), schema_header }
    }
}

/// Reads one topic.
pub struct TopicReader {
    consumer: BaseConsumer<Logging>,
    topic: String,
    /// Of every partition that has not reached it yet, the end captured at the start.
    ends: BTreeMap<i32, NextOffset>,
}

impl TopicReader {
    /// Starts reading every partition.
    ///
    /// # Errors
    /// No such topic; no broker within `deadline`.
    pub fn open(
        connection: &Connection,
        topic: &str,
        from: From,
        deadline: Duration,
    ) -> Result<Self, KafkaFailure> {
        let partitions =
            Topics::new(connection, deadline)?.require(topic, "--topic", "`kvset run --create-topics`")?;
        let consumer = consumer(connection, topic)?;
        let numbers = (0..partitions.get()).filter_map(|partition| i32::try_from(partition).ok());
        let range = |partition| {
            let found = consumer.fetch_watermarks(topic, partition, deadline);
            let (start, end) = found.map_err(|error| failed(topic, &error))?;
            let begin = if from == From::Beginning { start } else { end };
            Ok((Partition(partition), NextOffset(begin)..NextOffset(end)))
        };
        let ranges = numbers.map(range).collect::<Result<_, KafkaFailure>>()?;
        Self::over(consumer, topic, &ranges)
    }

    /// Starts reading these partitions, each from the start of its range. Records behind the end of one may follow.
    ///
    /// # Errors
    /// The topic cannot be read.
    pub fn between(
        connection: &Connection,
        topic: &str,
        ranges: &BTreeMap<Partition, Range<NextOffset>>,
    ) -> Result<Self, KafkaFailure> {
        Self::over(consumer(connection, topic)?, topic, ranges)
    }

    fn over(
        consumer: BaseConsumer<Logging>,
        topic: &str,
        ranges: &BTreeMap<Partition, Range<NextOffset>>,
    ) -> Result<Self, KafkaFailure> {
        // A list that outlived its consumer would make dropping the consumer wait for ever.
        let mut list = TopicPartitionList::new();
        for (partition, range) in ranges {
            list.add_partition_offset(topic, partition.0, Offset::Offset(range.start.0))
                .map_err(|error| failed(topic, &error))?;
        }
        consumer.assign(&list).map_err(|error| failed(topic, &error))?;
        drop(list);
        let unread = ranges.iter().filter(|(_, range)| range.start < range.end);
        let ends = unread.map(|(partition, range)| (partition.0, range.end)).collect();
        Ok(Self { consumer, topic: topic.to_owned(), ends })
    }

    /// The next record, or `None` when none came within `timeout`.
    ///
    /// # Errors
    /// What no repetition can mend.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<ReadRecord>, KafkaFailure> {
        match self.consumer.poll(timeout) {
            None => Ok(None),
            Some(Ok(message)) => {
                let record = copy(&message);
                self.reached(record.partition, NextOffset::after(record.offset));
                Ok(Some(record))
            }
            // Said when the fetched position is at the log's end, past transaction markers and
            // compacted records, so no later than the captured end was passed.
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                self.ends.remove(&partition);
                Ok(None)
            }
            Some(Err(error)) => {
                let failure = failed(&self.topic, &error);
                match failure.kind {
                    FailureKind::Transient => {
                        tracing::warn!("{failure}");
                        Ok(None)
                    }
                    _ => Err(failure),
                }
            }
        }
    }

    /// Whether every partition has been read up to where it ended when this reader was opened.
    pub fn at_end(&self) -> bool {
        self.ends.is_empty()
    }

    fn reached(&mut self, partition: i32, next: NextOffset) {
        if self.ends.get(&partition).is_some_and(|end| next >= *end) {
            self.ends.remove(&partition);
        }
    }
}

fn consumer(connection: &Connection, topic: &str) -> Result<BaseConsumer<Logging>, KafkaFailure> {
    let context = Logging::new(connection.tokens()?);
    let consumer = connection.reader().create_with_context(context).map_err(|error| failed(topic, &error))?;
    serve(&consumer);
    Ok(consumer)
}

fn failed(topic: &str, error: &KafkaError) -> KafkaFailure {
    failure_of(&format!("reading topic `{topic}`"), error)
}

pub(super) fn copy(message: &impl Message) -> ReadRecord {
    let header = |header: rdkafka::message::Header<'_, &[u8]>| {
        (header.key.to_owned(), header.value.unwrap_or_default().to_vec())
    };
    ReadRecord {
        partition: message.partition(),
        offset: message.offset(),
        timestamp_ms: message.timestamp().to_millis(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: message.headers().map_or_else(Vec::new, |headers| headers.iter().map(header).collect()),
    }
}
