//! A group member: committed records and rebalances as typed events, polled by one thread.
//!
//! Start offsets are part of the assignment; nothing ever seeks. Every assignment is followed by a
//! resume, since a pause outlives it. Rebalances go on while partitions are paused, because polling
//! goes on.

use super::config::{Connection, Membership};
use super::context::{MemberContext, Rebalance};
use super::error::KafkaFailure;
use super::lookup::Lookup;
use super::member::{Event, InputRecord, Member};
use crate::codec::SourceRecord;
use crate::pipeline::position::{LogRange, NextOffset, Partition};
use crate::pipeline::publish::Family;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::Duration;

/// A record in the client's own memory.
#[derive(Debug)]
pub struct Record<'c>(BorrowedMessage<'c>);

impl InputRecord for Record<'_> {
    fn as_source(&self) -> SourceRecord<'_> {
        SourceRecord {
            topic: self.0.topic(),
            partition: self.0.partition(),
            offset: self.0.offset(),
            timestamp_ms: self.0.timestamp().to_millis(),
            key: self.0.key(),
            value: self.0.payload(),
        }
    }

    fn partition(&self) -> Partition {
        Partition(self.0.partition())
    }

    fn offset(&self) -> i64 {
        self.0.offset()
    }

    fn bytes(&self) -> usize {
        self.0.key_len() + self.0.payload_len()
    }
}

/// A member of a consumer group on one topic.
pub struct Source {
    consumer: BaseConsumer<MemberContext>,
    connection: Connection,
    topic: String,
    /// Whether the member has a stable name, under which it is expected back.
    is_static: bool,
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
        let is_static = membership.instance.is_some();
        Ok(Self { consumer, connection: connection.clone(), topic: topic.to_owned(), is_static })
    }

    fn pending_rebalance(&self) -> Option<Event<Record<'_>>> {
        let typed = |partitions: Vec<i32>| partitions.into_iter().map(Partition).collect();
        let event = match self.consumer.context().next_rebalance()? {
            Rebalance::Assign(partitions) => Event::Assigned(typed(partitions)),
            Rebalance::Revoke { partitions, lost: false } => Event::Revoked(typed(partitions)),
            Rebalance::Revoke { partitions, lost: true } => Event::Lost(typed(partitions)),
        };
        Some(event)
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Proof of membership, for transactions.
    ///
    /// A client that was thrown out of its group forgets its member id at once, and says so at the next
    /// poll. What it has to show in between proves nothing, and the broker may take it for the word of
    /// somebody outside of any group: it must not be used.
    pub(super) fn group_metadata(&self) -> Result<ConsumerGroupMetadata, KafkaFailure> {
        let metadata = self.consumer.group_metadata();
        // In this order: whoever lost the partitions by now may have lost them before.
        self.check_membership()?;
        metadata.ok_or_else(|| KafkaFailure::fatal("the consumer has no group metadata"))
    }

    fn check_membership(&self) -> Result<(), KafkaFailure> {
        if !self.consumer.assignment_lost() {
            return Ok(());
        }
        let message = format!("this member has lost its partitions of topic `{}`", self.topic);
        Err(KafkaFailure { family: Family::Abortable, message })
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
        self.check_membership()?;
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

impl Member for Source {
    type Record<'r> = Record<'r>;
    type Lookup = Lookup;

    fn poll(&self, timeout: Duration) -> Option<Event<Record<'_>>> {
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

    fn committed(
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

    fn log_range(&self, partition: Partition, timeout: Duration) -> Result<LogRange, KafkaFailure> {
        let range = self.consumer.fetch_watermarks(&self.topic, partition.0, timeout).map_err(|error| {
            let doing = format!("reading the log range of {}/{partition}", self.topic);
            KafkaFailure::of(&doing, &error)
        })?;
        Ok(LogRange { start: NextOffset(range.0), end: NextOffset(range.1) })
    }

    fn lookup(&self) -> Result<Lookup, KafkaFailure> {
        Lookup::open(&self.connection, &self.topic)
    }

    fn assign(&self, starts: &[(Partition, NextOffset)]) -> Result<(), KafkaFailure> {
        let doing = "taking over partitions";
        let offsets = starts.iter().map(|(partition, next)| (*partition, Offset::Offset(next.0)));
        let list = self.list(offsets, doing)?;
        let assigned = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => self.consumer.incremental_assign(&list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.assign(&list),
        };
        assigned.and_then(|()| self.consumer.resume(&list)).map_err(|error| KafkaFailure::of(doing, &error))
    }

    fn unassign(&self, partitions: &[Partition]) -> Result<(), KafkaFailure> {
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

    fn pause(&self, partition: Partition) -> Result<(), KafkaFailure> {
        let doing = "pausing a partition";
        let list = self.list([(partition, Offset::Invalid)], doing)?;
        self.consumer.pause(&list).map_err(|error| KafkaFailure::of(doing, &error))
    }

    fn resume(&self, partition: Partition) -> Result<(), KafkaFailure> {
        let doing = "resuming a partition";
        let list = self.list([(partition, Offset::Invalid)], doing)?;
        self.consumer.resume(&list).map_err(|error| KafkaFailure::of(doing, &error))
    }

    fn known_ends(&self) -> BTreeMap<Partition, NextOffset> {
        let ends = self.consumer.context().ends();
        ends.into_iter().map(|(partition, end)| (Partition(partition), NextOffset(end))).collect()
    }

    fn leave(&self) {
        if !self.is_static {
            self.consumer.unsubscribe();
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // Closing polls for rebalances that nobody answers any more.
        self.consumer.context().close();
    }
}
