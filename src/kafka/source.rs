//! A group member: committed records and rebalances as typed events, polled by one thread.
//!
//! A rebalance must be answered, with [`Source::assign`] or [`Source::unassign`], before the next
//! poll. Start offsets are part of the assignment; nothing ever seeks. Every assignment is followed by
//! a resume, since a pause outlives it. Rebalances go on while partitions are paused, because
//! polling goes on.

use super::config::{Connection, Membership};
use super::context::{MemberContext, Rebalance};
use super::error::KafkaFailure;
use crate::codec::SourceRecord;
use crate::pipeline::position::{LogRange, NextOffset, Partition};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::Duration;

/// A record in the client's own memory.
#[derive(Debug)]
pub struct Record<'c>(BorrowedMessage<'c>);

impl Record<'_> {
    /// The record as the codec takes it.
    pub fn as_source(&self) -> SourceRecord<'_> {
        SourceRecord {
            topic: self.0.topic(),
            partition: self.0.partition(),
            offset: self.0.offset(),
            timestamp_ms: self.0.timestamp().to_millis(),
            key: self.0.key(),
            value: self.0.payload(),
        }
    }

    /// Its headers that have a value.
    pub fn headers(&self) -> Vec<(&str, &[u8])> {
        let headers = self.0.headers().into_iter().flat_map(|headers| headers.iter());
        headers.filter_map(|header| Some((header.key, header.value?))).collect()
    }

    /// Its partition.
    pub fn partition(&self) -> Partition {
        Partition(self.0.partition())
    }

    /// Its offset.
    pub fn offset(&self) -> i64 {
        self.0.offset()
    }

    /// Bytes of its key and value.
    pub fn bytes(&self) -> usize {
        self.0.key_len() + self.0.payload_len()
    }
}

/// What a poll brought.
#[derive(Debug)]
pub enum Event<'c> {
    /// A record.
    Record(Record<'c>),
    /// Every record there is of this partition was handed out.
    End(Partition),
    /// Partitions were given to this member: answer with [`Source::assign`].
    Assigned(Vec<Partition>),
    /// Partitions go to other members once [`Source::unassign`] was called; until then offsets can be
    /// committed.
    Revoked(Vec<Partition>),
    /// Partitions went to other members already: answer with [`Source::unassign`], commit nothing.
    Lost(Vec<Partition>),
    /// Something failed; transient failures mend themselves.
    Trouble(KafkaFailure),
}

/// A member of a consumer group on one topic.
pub struct Source {
    consumer: BaseConsumer<MemberContext>,
    topic: String,
}

impl Source {
    /// Creates a member and subscribes it; it joins while it is polled.
    ///
    /// # Errors
    /// Properties the client refuses.
    pub fn join(connection: &Connection, membership: &Membership, topic: &str) -> Result<Self, KafkaFailure> {
        let doing = || format!("joining group `{}` on topic `{topic}`", membership.group);
        let consumer: BaseConsumer<MemberContext> = connection
            .member(membership)
            .create_with_context(MemberContext::default())
            .map_err(|error| KafkaFailure::of(&doing(), &error))?;
        consumer.subscribe(&[topic]).map_err(|error| KafkaFailure::of(&doing(), &error))?;
        Ok(Self { consumer, topic: topic.to_owned() })
    }

    /// Waits up to `timeout` for something to happen. `None` is no sign of idleness: the client may
    /// have been busy with itself.
    pub fn poll(&self, timeout: Duration) -> Option<Event<'_>> {
        if let Some(event) = self.pending_rebalance() {
            return Some(event);
        }
        match self.consumer.poll(timeout) {
            Some(Ok(message)) => Some(Event::Record(Record(message))),
            Some(Err(KafkaError::PartitionEOF(partition))) => Some(Event::End(Partition(partition))),
            Some(Err(error)) => {
                let doing = format!("reading topic `{}`", self.topic);
                Some(Event::Trouble(KafkaFailure::of(&doing, &error)))
            }
            None => self.pending_rebalance(),
        }
    }

    fn pending_rebalance(&self) -> Option<Event<'_>> {
        let typed = |partitions: Vec<i32>| partitions.into_iter().map(Partition).collect();
        let event = match self.consumer.context().next_rebalance()? {
            Rebalance::Assign(partitions) => Event::Assigned(typed(partitions)),
            Rebalance::Revoke { partitions, lost: false } => Event::Revoked(typed(partitions)),
            Rebalance::Revoke { partitions, lost: true } => Event::Lost(typed(partitions)),
        };
        Some(event)
    }

    /// The group's committed offsets of these partitions. Waits until open transactions that hold
    /// some are decided.
    ///
    /// # Errors
    /// The coordinator does not answer.
    pub fn committed(
        &self,
        partitions: &[Partition],
        timeout: Duration,
    ) -> Result<Vec<(Partition, Option<NextOffset>)>, KafkaFailure> {
        let doing = || format!("reading the committed offsets of topic `{}`", self.topic);
        let list = self.list(partitions.iter().map(|partition| (*partition, Offset::Invalid)), &doing())?;
        let found = self
            .consumer
            .committed_offsets(list, timeout)
            .map_err(|error| KafkaFailure::of(&doing(), &error))?;
        let mut offsets = Vec::with_capacity(partitions.len());
        for element in found.elements_for_topic(&self.topic) {
            element.error().map_err(|error| KafkaFailure::of(&doing(), &error))?;
            let next = match element.offset() {
                Offset::Offset(next) => Some(NextOffset(next)),
                _ => None,
            };
            offsets.push((Partition(element.partition()), next));
        }
        Ok(offsets)
    }

    /// What the partition's log holds, up to the last stable offset.
    ///
    /// # Errors
    /// The leader does not answer.
    pub fn log_range(&self, partition: Partition, timeout: Duration) -> Result<LogRange, KafkaFailure> {
        let range = self.consumer.fetch_watermarks(&self.topic, partition.0, timeout).map_err(|error| {
            let doing = format!("reading the log range of {}/{partition}", self.topic);
            KafkaFailure::of(&doing, &error)
        })?;
        Ok(LogRange { start: NextOffset(range.0), end: NextOffset(range.1) })
    }

    /// Answers [`Event::Assigned`]: takes the partitions from these offsets on.
    ///
    /// # Errors
    /// The client refuses.
    pub fn assign(&self, starts: &[(Partition, NextOffset)]) -> Result<(), KafkaFailure> {
        let doing = "taking over partitions";
        let offsets = starts.iter().map(|(partition, next)| (*partition, Offset::Offset(next.0)));
        let list = self.list(offsets, doing)?;
        let assigned = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => self.consumer.incremental_assign(&list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.assign(&list),
        };
        assigned.and_then(|()| self.consumer.resume(&list)).map_err(|error| KafkaFailure::of(doing, &error))
    }

    /// Answers [`Event::Revoked`] and [`Event::Lost`]: gives the partitions up.
    ///
    /// # Errors
    /// The client refuses.
    pub fn unassign(&self, partitions: &[Partition]) -> Result<(), KafkaFailure> {
        let doing = "giving up partitions";
        let unassigned = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => {
                let all = partitions.iter().map(|partition| (*partition, Offset::Invalid));
                self.consumer.incremental_unassign(&self.list(all, doing)?)
            }
            // Eager revocations are always of everything.
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.unassign(),
        };
        unassigned.map_err(|error| KafkaFailure::of(doing, &error))
    }

    /// Stops fetching a partition; polling must go on.
    ///
    /// # Errors
    /// The client refuses.
    pub fn pause(&self, partition: Partition) -> Result<(), KafkaFailure> {
        let doing = "pausing a partition";
        let list = self.list([(partition, Offset::Invalid)], doing)?;
        self.consumer.pause(&list).map_err(|error| KafkaFailure::of(doing, &error))
    }

    /// Fetches a paused partition again.
    ///
    /// # Errors
    /// The client refuses.
    pub fn resume(&self, partition: Partition) -> Result<(), KafkaFailure> {
        let doing = "resuming a partition";
        let list = self.list([(partition, Offset::Invalid)], doing)?;
        self.consumer.resume(&list).map_err(|error| KafkaFailure::of(doing, &error))
    }

    /// The end of each partition's committed records, as the client last learned it in passing.
    pub fn known_ends(&self) -> BTreeMap<Partition, NextOffset> {
        let ends = self.consumer.context().ends();
        ends.into_iter().map(|(partition, end)| (Partition(partition), NextOffset(end))).collect()
    }

    /// Leaves the group; polling goes on until what comes of it, a revocation, is answered.
    pub fn leave(&self) {
        self.consumer.unsubscribe();
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Proof of membership, for transactions.
    pub(super) fn group_metadata(&self) -> Result<ConsumerGroupMetadata, KafkaFailure> {
        let missing = || KafkaFailure::fatal("the consumer has no group metadata");
        self.consumer.group_metadata().ok_or_else(missing)
    }

    /// The next offsets in the client's form.
    pub(super) fn next_offsets(
        &self,
        next: &[(Partition, NextOffset)],
    ) -> Result<TopicPartitionList, KafkaFailure> {
        let offsets = next.iter().map(|(partition, next)| (*partition, Offset::Offset(next.0)));
        self.list(offsets, "listing offsets")
    }

    /// Commits offsets outside of any transaction and waits for the answer.
    pub(super) fn commit(&self, next: &[(Partition, NextOffset)]) -> Result<(), KafkaFailure> {
        let list = self.next_offsets(next)?;
        self.consumer.commit(&list, CommitMode::Sync).map_err(|error| {
            KafkaFailure::of(&format!("committing offsets of topic `{}`", self.topic), &error)
        })
    }

    fn list(
        &self,
        offsets: impl IntoIterator<Item = (Partition, Offset)>,
        doing: &str,
    ) -> Result<TopicPartitionList, KafkaFailure> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            let added = list.add_partition_offset(&self.topic, partition.0, offset);
            added.map_err(|error| KafkaFailure::of(doing, &error))?;
        }
        Ok(list)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // Closing polls for rebalances that nobody answers any more.
        self.consumer.context().close();
    }
}
