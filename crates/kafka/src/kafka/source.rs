//! A group member: committed records and rebalances as typed events, polled by one thread. Or a
//! reader of chosen partitions, which only keeps its offsets under a group's name.
//!
//! Start offsets are part of the assignment; nothing ever seeks. Every assignment is followed by a
//! resume, since a pause outlives it. Rebalances go on while partitions are paused, because polling
//! goes on.

use super::config::{Connection, Membership};
use super::context::{MemberContext, Rebalance, last_trouble, lock};
use super::describe::{Informant, assigned, member_id};
use super::error::{failure_of, failure_of_known, unreadable};
use super::lookup::RecordLookup;
use super::member::{Committed, Event, InputRecord, LogEnd, Member, TopicId};
use super::offsets::{NotedOffset, committed, list, log_range, next_offset, noted};
use super::unreadable::find;
use kvset_formats::codec::{SCHEMA_HEADER, SourceRecord, names_own_schema};
use kvset_formats::position::{LogRange, NextOffset, Partition};
use kvset_pipeline::gaps::OffsetGaps;
use kvset_pipeline::publish::{FailureKind, KafkaFailure};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::metadata::MetadataPartition;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Longest wait for the client to move to another offset.
const SEEK: Duration = Duration::from_secs(10);
/// Longest time in which a group shares its partitions out for a further member.
const GUEST: Duration = Duration::from_secs(120);
/// Time in which a client gives its partitions up and tells the coordinator that it leaves.
const LEAVE: Duration = Duration::from_secs(1);

/// A record in the client's own memory.
#[derive(Debug)]
pub struct Record<'c>(BorrowedMessage<'c>);

impl Record<'_> {
    /// The header that names the schema of the value, where that does not name its own: headers lie behind the value,
    /// far from where reading it begins. Of several the last one holds, as for the clients that write it.
    fn schema_header(&self) -> Option<&[u8]> {
        if self.0.payload().is_some_and(names_own_schema) {
            return None;
        }
        let headers = self.0.headers()?.iter();
        headers.filter(|header| header.key == SCHEMA_HEADER).last()?.value
    }
}

impl InputRecord for Record<'_> {
    fn as_source(&self) -> SourceRecord<'_> {
        SourceRecord {
            schema_header: self.schema_header(),
            topic: self.0.topic(),
            partition: self.0.partition(),
            offset: self.0.offset(),
            timestamp_ms: self.0.timestamp().to_millis(),
            key: self.0.key(),
            value: self.0.payload(),
        }
    }

    fn headers(&self) -> Vec<(&str, &[u8])> {
        let headers = self.0.headers().into_iter().flat_map(|headers| headers.iter());
        headers.filter_map(|header| Some((header.key, header.value?))).collect()
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

/// Whether a member's partitions wait for it when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberStay {
    /// They do not: it has no stable name.
    Never,
    /// They do, unless it stops in order.
    UnlessInOrder,
    /// They do, until its session ends.
    Always,
}

impl MemberStay {
    fn of(membership: &Membership) -> Self {
        match (&membership.instance, membership.leave_on_stop) {
            (None, _) => Self::Never,
            (Some(_), true) => Self::UnlessInOrder,
            (Some(_), false) => Self::Always,
        }
    }
}

/// A member of a consumer group, or a reader of its own, on one topic.
pub struct Source {
    consumer: BaseConsumer<MemberContext>,
    connection: Connection,
    group: String,
    topic: String,
    /// What is kept alongside each partition's committed offset.
    notes: Mutex<BTreeMap<Partition, String>>,
    /// Of a reader of its own, whose notes say something else, the offsets that cannot be read.
    gaps: Option<BTreeMap<Partition, OffsetGaps>>,
    /// Where each partition was taken up.
    starts: Mutex<BTreeMap<Partition, NextOffset>>,
    /// Partitions that are read no further.
    held: Mutex<BTreeSet<Partition>>,
    /// The rebalance that was told last, until it is answered.
    unanswered: Mutex<Option<Rebalance>>,
    /// The id by which the group knew this member when it assigned the first of what is held.
    holder: Mutex<String>,
    informant: Informant,
    /// What a stable name, under which the member is expected back, changes about leaving.
    stay: MemberStay,
    /// Who joins and leaves to have partitions shared out again: a member without a name. None of a reader of its own.
    guest: Option<Membership>,
}

/// Joins a group as one more member until it was shared out, and leaves again. Every partition is given to somebody
/// then.
fn join_and_leave(connection: &Connection, guest: &Membership, topic: &str) -> Result<(), KafkaFailure> {
    let (source, begin) = (Source::join(connection, guest, topic)?, Instant::now());
    while begin.elapsed() < GUEST {
        match source.poll(LEAVE / 10) {
            Some(Event::Assigned(_)) => break,
            Some(Event::Trouble(failure)) if failure.kind != FailureKind::Transient => return Err(failure),
            _ => {}
        }
    }
    source.leave(true);
    Ok(())
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
            .create_with_context(MemberContext::new(connection.tokens()?))
            .map_err(|error| failure_of(&doing(), &error))?;
        consumer.subscribe(&[topic]).map_err(|error| failure_of(&doing(), &error))?;
        Ok(Self {
            consumer,
            connection: connection.clone(),
            group: membership.group.clone(),
            topic: topic.to_owned(),
            notes: Mutex::default(),
            gaps: None,
            starts: Mutex::default(),
            held: Mutex::default(),
            unanswered: Mutex::default(),
            holder: Mutex::default(),
            informant: Informant::default(),
            stay: MemberStay::of(membership),
            guest: Some(Membership { instance: None, leave_on_stop: false, ..membership.clone() }),
        })
    }

    /// Reads chosen partitions without joining a group: they are handed out as assigned at once, and
    /// for good. Offsets are kept under the group's name, each partition's with its note. Offsets in these gaps cannot
    /// be read.
    ///
    /// # Errors
    /// Properties the client refuses.
    pub fn alone(
        connection: &Connection,
        group: &str,
        topic: &str,
        notes: BTreeMap<Partition, String>,
        gaps: BTreeMap<Partition, OffsetGaps>,
    ) -> Result<Self, KafkaFailure> {
        let doing = || format!("reading topic `{topic}` under the name `{group}`");
        let consumer: BaseConsumer<MemberContext> = connection
            .loner(group)
            .create_with_context(MemberContext::new(connection.tokens()?))
            .map_err(|error| failure_of(&doing(), &error))?;
        consumer.context().assign(notes.keys().map(|partition| partition.0).collect());
        Ok(Self {
            consumer,
            connection: connection.clone(),
            group: group.to_owned(),
            topic: topic.to_owned(),
            notes: Mutex::new(notes),
            gaps: Some(gaps),
            starts: Mutex::default(),
            held: Mutex::default(),
            unanswered: Mutex::default(),
            holder: Mutex::default(),
            informant: Informant::default(),
            stay: MemberStay::Never,
            guest: None,
        })
    }

    /// Where each assigned partition was read to.
    fn positions(&self) -> BTreeMap<Partition, NextOffset> {
        let mut positions = lock(&self.starts).clone();
        // What the client does not tell was read from where it was taken up.
        let told = self.consumer.position().ok();
        for element in told.iter().flat_map(|told| told.elements_for_topic(&self.topic)) {
            let partition = Partition(element.partition());
            if let (Some(next), Some(position)) = (next_offset(&element), positions.get_mut(&partition)) {
                *position = next.max(*position);
            }
        }
        positions
    }

    /// Where that is which the client cannot read. Where everything can be by now, the client may have passed records
    /// all the same: a new one has to go on from what was committed.
    fn unreadable(&self) -> Event<Record<'_>> {
        let mut positions = self.positions();
        // What cannot be read of these was told before.
        positions.retain(|partition, _| !lock(&self.held).contains(partition));
        match find(&self.connection, &self.topic, positions) {
            Ok(Some(place)) => Event::Unreadable(place),
            Ok(None) => {
                let message = format!(
                    "a batch of topic `{}` could not be read at first, and could be then",
                    self.topic
                );
                Event::Trouble(KafkaFailure { kind: FailureKind::Spent, message })
            }
            Err(failure) => Event::Trouble(KafkaFailure { kind: FailureKind::Spent, ..failure }),
        }
    }

    fn pending_rebalance(&self) -> Option<Event<Record<'_>>> {
        let typed = |partitions: Vec<i32>| partitions.into_iter().map(Partition).collect();
        let rebalance = self.consumer.context().next_rebalance()?;
        *lock(&self.unanswered) = Some(rebalance.clone());
        let event = match rebalance {
            Rebalance::Assign(partitions) => Event::Assigned(typed(partitions)),
            Rebalance::Revoke { partitions, lost: false } => Event::Revoked(typed(partitions)),
            Rebalance::Revoke { partitions, lost: true } => Event::Lost(typed(partitions)),
        };
        Some(event)
    }

    /// Gives everything up that is revoked within this time. A client that closes no longer leaves a group in which
    /// it has a stable name, so the request must be on its way before, and the client says nowhere when it is.
    fn answer_for(&self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            if let Some(Event::Revoked(partitions) | Event::Lost(partitions)) = self.poll(LEAVE / 10)
                && let Err(failure) = self.unassign(&partitions)
            {
                tracing::warn!("while leaving the group: {failure}");
            }
        }
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
        if self.consumer.assignment_lost() {
            let message = format!("this member has lost its partitions of topic `{}`", self.topic);
            return Err(KafkaFailure { kind: FailureKind::Abortable, message });
        }
        if self.is_evicted() {
            let message = format!(
                "group `{}` knows this member by another name than when it assigned the partitions",
                self.group
            );
            return Err(KafkaFailure { kind: FailureKind::Abortable, message });
        }
        Ok(())
    }

    /// What is known of a partition with this committed offset and note; the note goes with every offset from here on.
    fn known(&self, partition: Partition, noted: Option<NotedOffset>) -> Committed {
        let next = noted.as_ref().map(|noted| noted.next);
        if let Some(gaps) = &self.gaps {
            return Committed { next, gaps: gaps.get(&partition).cloned().unwrap_or_default() };
        }
        let note = noted.map(|noted| noted.note).filter(|note| !note.is_empty());
        let gaps = note.as_deref().map_or_else(|| Ok(OffsetGaps::default()), str::parse);
        let gaps = gaps.unwrap_or_else(|error| {
            tracing::debug!(partition = partition.0, "partition {partition}: {error}");
            OffsetGaps::default()
        });
        if let Some(note) = note.filter(|_| !gaps.is_empty()) {
            lock(&self.notes).insert(partition, note);
        }
        Committed { next, gaps }
    }

    /// The next offsets in the client's form.
    pub(super) fn next_offsets(
        &self,
        next: &[(Partition, NextOffset)],
    ) -> Result<TopicPartitionList, KafkaFailure> {
        let offsets = next.iter().map(|(partition, next)| (*partition, Offset::Offset(next.0)));
        let list = self.list(offsets, "listing offsets")?;
        for (partition, note) in &*lock(&self.notes) {
            if let Some(mut offset) = list.find_partition(&self.topic, partition.0) {
                offset.set_metadata(note);
            }
        }
        Ok(list)
    }

    /// Commits offsets outside of any transaction and waits for the answer.
    pub(super) fn commit(&self, next: &[(Partition, NextOffset)]) -> Result<(), KafkaFailure> {
        let list = self.next_offsets(next)?;
        self.check_membership()?;
        self.consumer
            .commit(&list, CommitMode::Sync)
            .map_err(|error| failure_of(&format!("committing offsets of topic `{}`", self.topic), &error))
    }

    fn list(
        &self,
        offsets: impl IntoIterator<Item = (Partition, Offset)>,
        doing: &str,
    ) -> Result<TopicPartitionList, KafkaFailure> {
        list(&self.topic, offsets, doing)
    }
}

impl Member for Source {
    type Record<'r> = Record<'r>;
    type Lookup = RecordLookup;

    fn poll(&self, timeout: Duration) -> Option<Event<Record<'_>>> {
        if let Some(event) = self.pending_rebalance() {
            return Some(event);
        }
        match self.consumer.poll(timeout) {
            Some(Ok(message)) => Some(Event::Record(Record(message))),
            Some(Err(KafkaError::PartitionEOF(partition))) => Some(Event::End(Partition(partition))),
            Some(Err(error)) if unreadable(&error).is_some() => Some(self.unreadable()),
            Some(Err(error)) => {
                let doing = format!("reading topic `{}`", self.topic);
                Some(Event::Trouble(failure_of(&doing, &error)))
            }
            None => self.pending_rebalance(),
        }
    }

    fn committed(
        &self,
        partitions: &[Partition],
        timeout: Duration,
    ) -> Result<Vec<(Partition, Committed)>, KafkaFailure> {
        let found = committed(&self.consumer, &self.topic, partitions, timeout, noted)?;
        Ok(found.into_iter().map(|(partition, noted)| (partition, self.known(partition, noted))).collect())
    }

    fn log_range(&self, partition: Partition, timeout: Duration) -> Result<LogRange, KafkaFailure> {
        log_range(&self.consumer, &self.topic, partition, timeout)
    }

    fn topic_id(&self, timeout: Duration) -> Result<Option<TopicId>, KafkaFailure> {
        let doing = || format!("asking for the id of topic `{}`", self.topic);
        self.informant
            .topic_id(self.consumer.client(), &self.topic, timeout)
            .map_err(|error| failure_of_known(&doing(), &error))
    }

    fn unowned(&self, timeout: Duration) -> Result<(Vec<Partition>, bool), KafkaFailure> {
        if self.gaps.is_some() {
            return Ok((Vec::new(), false));
        }
        let doing = || format!("describing group `{}`", self.group);
        let failure = |error| failure_of(&doing(), &error);
        let metadata = self.consumer.fetch_metadata(Some(&self.topic), timeout).map_err(failure)?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic);
        let assigned =
            assigned(self.consumer.client(), &self.group, &self.topic, timeout).map_err(failure)?;
        let Some((owned, is_stable)) = assigned else {
            return Ok((Vec::new(), false));
        };
        let partitions = topic.iter().flat_map(|topic| topic.partitions()).map(MetadataPartition::id);
        let mut partitions: Vec<_> =
            partitions.filter(|partition| !owned.contains(partition)).map(Partition).collect();
        partitions.sort_unstable();
        let own = lock(&self.starts).keys().next().copied();
        let is_mine = is_stable && (owned.is_empty() || own == owned.first().copied().map(Partition));
        Ok((partitions, is_mine))
    }

    fn share_out_again(&self) {
        let Some(membership) = &self.guest else { return };
        let (connection, membership, topic) =
            (self.connection.clone(), membership.clone(), self.topic.clone());
        let guest = std::thread::Builder::new().name("kvset-guest".to_owned());
        let spawned = guest.spawn(move || {
            if let Err(failure) = join_and_leave(&connection, &membership, &topic) {
                tracing::warn!("partitions cannot be shared out again: {failure}");
            }
        });
        if let Err(error) = spawned {
            tracing::warn!("partitions cannot be shared out again: no thread: {error}");
        }
    }

    fn lookup(&self) -> Result<RecordLookup, KafkaFailure> {
        RecordLookup::open(&self.connection, &self.topic)
    }

    fn assign(&self, starts: &[(Partition, NextOffset)]) -> Result<(), KafkaFailure> {
        let doing = "taking over partitions";
        let offsets = starts.iter().map(|(partition, next)| (*partition, Offset::Offset(next.0)));
        let list = self.list(offsets, doing)?;
        lock(&self.unanswered).take();
        if self.guest.is_some() && lock(&self.starts).is_empty() {
            *lock(&self.holder) = member_id(self.consumer.client());
        }
        lock(&self.starts).extend(starts.iter().copied());
        let assigned = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => self.consumer.incremental_assign(&list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.assign(&list),
        };
        assigned.and_then(|()| self.consumer.resume(&list)).map_err(|error| failure_of(doing, &error))
    }

    fn unassign(&self, partitions: &[Partition]) -> Result<(), KafkaFailure> {
        let doing = "giving up partitions";
        lock(&self.unanswered).take();
        lock(&self.starts).retain(|partition, _| !partitions.contains(partition));
        lock(&self.held).retain(|partition| !partitions.contains(partition));
        lock(&self.notes).retain(|partition, _| self.gaps.is_some() || !partitions.contains(partition));
        let unassigned = match self.consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => {
                let all = partitions.iter().map(|partition| (*partition, Offset::Invalid));
                self.consumer.incremental_unassign(&self.list(all, doing)?)
            }
            // Eager revocations are always of everything.
            RebalanceProtocol::Eager | RebalanceProtocol::None => self.consumer.unassign(),
        };
        unassigned.map_err(|error| failure_of(doing, &error))
    }

    fn skip_to(&self, partition: Partition, next: NextOffset) -> Result<(), KafkaFailure> {
        lock(&self.starts).insert(partition, next);
        let moved = self.consumer.seek(&self.topic, partition.0, Offset::Offset(next.0), SEEK);
        moved.map_err(|error| {
            // A new client begins behind the committed offset and comes here again.
            let message = format!("moving to offset {next} of {}/{partition}: {error}", self.topic);
            KafkaFailure { kind: FailureKind::Spent, message }
        })
    }

    fn pause(&self, partition: Partition) -> Result<(), KafkaFailure> {
        let doing = "pausing a partition";
        let list = self.list([(partition, Offset::Invalid)], doing)?;
        self.consumer.pause(&list).map_err(|error| failure_of(doing, &error))
    }

    fn hold(&self, partition: Partition) -> Result<(), KafkaFailure> {
        lock(&self.held).insert(partition);
        self.pause(partition)
    }

    fn resume(&self, partition: Partition) -> Result<(), KafkaFailure> {
        let doing = "resuming a partition";
        let list = self.list([(partition, Offset::Invalid)], doing)?;
        self.consumer.resume(&list).map_err(|error| failure_of(doing, &error))
    }

    fn log_ends(&self) -> BTreeMap<Partition, LogEnd> {
        self.consumer.context().ends()
    }

    fn away_for(&self) -> Duration {
        self.consumer.context().away_for()
    }

    fn is_evicted(&self) -> bool {
        if self.guest.is_none() || lock(&self.starts).is_empty() {
            return false;
        }
        let now = member_id(self.consumer.client());
        now.is_empty() || now != *lock(&self.holder)
    }

    fn last_trouble(&self) -> Option<Duration> {
        last_trouble()
    }

    fn leave(&self, in_order: bool) {
        match self.stay {
            // Closing the client sends what remains to be said.
            MemberStay::Never => self.consumer.unsubscribe(),
            MemberStay::UnlessInOrder if in_order => {
                self.consumer.unsubscribe();
                self.answer_for(LEAVE);
            }
            MemberStay::UnlessInOrder | MemberStay::Always => {}
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // A client that waits for an answer never ends, under the brokers' own protocol at least.
        let unanswered = lock(&self.unanswered).take();
        let answered = unanswered.map_or(Ok(()), |rebalance| match rebalance {
            Rebalance::Assign(_) => self.assign(&[]),
            Rebalance::Revoke { partitions, .. } => {
                self.unassign(&partitions.into_iter().map(Partition).collect::<Vec<_>>())
            }
        });
        if let Err(failure) = answered {
            tracing::debug!("while closing the client: {failure}");
        }
        // Closing polls for rebalances that nobody answers any more.
        self.consumer.context().close();
    }
}
