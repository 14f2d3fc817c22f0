//! Where things are in a topic's partitions: their logs' ends, groups' committed offsets, moments.

use super::config::Connection;
use super::context::{Logging, serve};
use super::error::{failure_of, failure_of_known};
use kvset_formats::position::{LogRange, NextOffset, Partition};
use kvset_pipeline::publish::KafkaFailure;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::time::Duration;

/// A committed offset with what was noted alongside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedOffset {
    /// The offset.
    pub next: NextOffset,
    /// The note; empty where there is none.
    pub note: String,
}

/// Asks about one topic on behalf of one group, without joining it.
pub struct Offsets {
    consumer: BaseConsumer<Logging>,
    topic: String,
}

impl Offsets {
    /// Connects; nothing is asked yet. Committed offsets are reported once open transactions that hold some
    /// are decided.
    ///
    /// # Errors
    /// Properties the client refuses.
    pub fn open(connection: &Connection, group: &str, topic: &str) -> Result<Self, KafkaFailure> {
        Self::with(connection, connection.loner(group), topic)
    }

    /// The same, but committed offsets are reported as they are before open transactions are decided.
    ///
    /// # Errors
    /// Properties the client refuses.
    pub fn undecided(connection: &Connection, group: &str, topic: &str) -> Result<Self, KafkaFailure> {
        Self::with(connection, connection.onlooker(group), topic)
    }

    fn with(connection: &Connection, config: ClientConfig, topic: &str) -> Result<Self, KafkaFailure> {
        let consumer = config.create_with_context(Logging::new(connection.tokens()?));
        let consumer = consumer
            .map_err(|error| failure_of(&format!("asking about offsets of topic `{topic}`"), &error))?;
        Ok(Self { consumer, topic: topic.to_owned() })
    }

    /// What the partition's log holds, up to the last stable offset.
    ///
    /// # Errors
    /// The leader does not answer.
    pub fn log_range(&self, partition: Partition, timeout: Duration) -> Result<LogRange, KafkaFailure> {
        log_range(&self.consumer, &self.topic, partition, timeout)
    }

    /// The group's committed offsets of these partitions.
    ///
    /// # Errors
    /// The coordinator does not answer.
    pub fn committed(
        &self,
        partitions: &[Partition],
        timeout: Duration,
    ) -> Result<Vec<(Partition, Option<NextOffset>)>, KafkaFailure> {
        self.let_in(committed(&self.consumer, &self.topic, partitions, timeout, next_offset))
    }

    /// The same with their notes.
    ///
    /// # Errors
    /// The coordinator does not answer.
    pub fn noted(
        &self,
        partitions: &[Partition],
        timeout: Duration,
    ) -> Result<Vec<(Partition, Option<NotedOffset>)>, KafkaFailure> {
        self.let_in(committed(&self.consumer, &self.topic, partitions, timeout, noted))
    }

    /// A user who has no right to the group is told so once; the client goes on asking until its time is up.
    fn let_in<T>(&self, answer: Result<T, KafkaFailure>) -> Result<T, KafkaFailure> {
        answer.map_err(|failure| {
            let doing = || format!("reading the committed offsets of topic `{}`", self.topic);
            serve(&self.consumer).map_or(failure, |refusal| failure_of(&doing(), &refusal))
        })
    }

    /// Commits an offset with a note on behalf of the group, which must have no members.
    ///
    /// # Errors
    /// The group has members, or the coordinator does not answer.
    pub fn commit(&self, partition: Partition, noted: &NotedOffset) -> Result<(), KafkaFailure> {
        let doing = format!("committing an offset of {}/{partition}", self.topic);
        let failure = |error| failure_of(&doing, &error);
        let list = list(&self.topic, [(partition, Offset::Offset(noted.next.0))], &doing)?;
        if let Some(mut offset) = list.find_partition(&self.topic, partition.0) {
            offset.set_metadata(&noted.note);
        }
        self.consumer.commit(&list, CommitMode::Sync).map_err(failure)
    }

    /// The offset of the partition's first record whose time stamp is not before this moment, in
    /// milliseconds since the Unix epoch; `None` where there is none.
    ///
    /// # Errors
    /// The leader does not answer.
    pub fn at(
        &self,
        partition: Partition,
        timestamp_ms: i64,
        timeout: Duration,
    ) -> Result<Option<NextOffset>, KafkaFailure> {
        let doing = format!("looking up a moment in {}/{partition}", self.topic);
        let wanted = list(&self.topic, [(partition, Offset::Offset(timestamp_ms))], &doing)?;
        let failure = |error| failure_of(&doing, &error);
        let found = self.consumer.offsets_for_times(wanted, timeout).map_err(failure)?;
        match found.elements_for_topic(&self.topic).first() {
            None => Err(KafkaFailure::fatal(format!("{doing}: the answer does not name the partition"))),
            Some(element) => element.error().map(|()| next_offset(element)).map_err(failure),
        }
    }
}

/// An entry's offset and note, where it has an offset. A note that is no text, which is not this program's, counts as
/// none: the client knows no other way to look at it than one that panics.
pub(super) fn noted(offset: &TopicPartitionListElem<'_>) -> Option<NotedOffset> {
    let next = next_offset(offset)?;
    let note = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| offset.metadata().to_owned()));
    Some(NotedOffset { next, note: note.unwrap_or_default() })
}

/// The offset of an entry, where it is one.
pub(super) fn next_offset(element: &TopicPartitionListElem<'_>) -> Option<NextOffset> {
    match element.offset() {
        Offset::Offset(next) => Some(NextOffset(next)),
        _ => None,
    }
}

/// What is committed for these partitions under the consumer's group, as `read` sees it.
pub(super) fn committed<C: ConsumerContext, T>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partitions: &[Partition],
    timeout: Duration,
    read: impl Fn(&TopicPartitionListElem<'_>) -> Option<T>,
) -> Result<Vec<(Partition, Option<T>)>, KafkaFailure> {
    let doing = format!("reading the committed offsets of topic `{topic}`");
    let failure = |error| failure_of(&doing, &error);
    let wanted = list(topic, partitions.iter().map(|partition| (*partition, Offset::Invalid)), &doing)?;
    let found = consumer.committed_offsets(wanted, timeout).map_err(failure)?;
    let mut offsets = Vec::with_capacity(partitions.len());
    for element in found.elements_for_topic(topic) {
        element.error().map_err(failure)?;
        offsets.push((Partition(element.partition()), read(&element)));
    }
    Ok(offsets)
}

/// What a partition's log holds, as far as the consumer may read it.
pub(super) fn log_range<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partition: Partition,
    timeout: Duration,
) -> Result<LogRange, KafkaFailure> {
    let range = consumer.fetch_watermarks(topic, partition.0, timeout).map_err(|error| {
        failure_of_known(&format!("reading the log range of {topic}/{partition}"), &error)
    })?;
    Ok(LogRange { start: NextOffset(range.0), end: NextOffset(range.1) })
}

/// Partitions of a topic with offsets, in the client's form.
pub(super) fn list(
    topic: &str,
    offsets: impl IntoIterator<Item = (Partition, Offset)>,
    doing: &str,
) -> Result<TopicPartitionList, KafkaFailure> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        let added = list.add_partition_offset(topic, partition.0, offset);
        added.map_err(|error| failure_of(doing, &error))?;
    }
    Ok(list)
}
