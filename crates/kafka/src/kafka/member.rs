//! What a member of a consumer group does, so that a simulation can stand in for the brokers.

use kvset_core::units::Offset;
use kvset_formats::codec::SourceRecord;
use kvset_formats::position::{LogRange, NextOffset, Partition};
use kvset_pipeline::facts::RecordIdentity;
use kvset_pipeline::gaps::OffsetGaps;
use kvset_pipeline::publish::KafkaFailure;
use std::collections::BTreeMap;
use std::time::Duration;

/// A record as it was fetched.
pub trait InputRecord {
    /// The record as the codec takes it.
    fn as_source(&self) -> SourceRecord<'_>;

    /// Its headers that have a value.
    fn headers(&self) -> Vec<(&str, &[u8])> {
        Vec::new()
    }

    /// Its partition.
    fn partition(&self) -> Partition {
        Partition(self.as_source().partition)
    }

    /// Its offset.
    fn offset(&self) -> i64 {
        self.as_source().offset
    }

    /// Bytes of its key and value.
    fn bytes(&self) -> usize {
        let SourceRecord { key, value, .. } = self.as_source();
        key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)
    }
}

/// What the group has committed of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// The offset; `None` where there is none yet.
    pub next: Option<NextOffset>,
    /// Offsets that cannot be read and are to be passed.
    pub gaps: OffsetGaps,
}

/// Where a partition's log ends, as the client learnt it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// After whatever is in the log, records of open transactions and transaction markers included.
    pub end: NextOffset,
    /// How far the client had read when it found nothing more.
    pub read_to: NextOffset,
}

/// Records that the client cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRecords {
    /// Their partition.
    pub partition: Partition,
    /// Everything before this offset was read; what follows cannot be.
    pub offset: i64,
    /// Why, in words.
    pub reason: &'static str,
}

/// What the brokers call a topic for good: a topic that was deleted and created again under its name has another one
/// (KIP-516). As Kafka's own tools print it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicId(String);

impl TopicId {
    /// The id of topics that have none.
    const ZERO: &str = "AAAAAAAAAAAAAAAAAAAAAA";

    /// An id in base64; `None` for the one of brokers that give topics no ids.
    pub fn new(base64: &str) -> Option<Self> {
        (base64 != Self::ZERO).then(|| Self(base64.to_owned()))
    }
}

impl std::fmt::Display for TopicId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a poll brought.
#[derive(Debug)]
pub enum Event<R> {
    /// A record.
    Record(R),
    /// Every record there is of this partition was handed out.
    End(Partition),
    /// Partitions were given to this member: answer with [`Member::assign`].
    Assigned(Vec<Partition>),
    /// Partitions go to other members once [`Member::unassign`] was called; until then offsets can be
    /// committed.
    Revoked(Vec<Partition>),
    /// Partitions went to other members already: answer with [`Member::unassign`], commit nothing.
    Lost(Vec<Partition>),
    /// Records that the client cannot read: answer with [`Member::skip_to`], or end.
    Unreadable(UnreadableRecords),
    /// Something failed; transient failures mend themselves.
    Trouble(KafkaFailure),
}

/// A member of a consumer group on one topic, polled by one thread.
///
/// A rebalance must be answered, with [`Member::assign`] or [`Member::unassign`], before the next
/// poll.
pub trait Member {
    /// A record, in the memory of whoever fetched it.
    type Record<'r>: InputRecord
    where
        Self: 'r;

    /// Looks single records up.
    type Lookup: Identities;

    /// Waits up to `timeout` for something to happen. `None` is no sign of idleness: the client may
    /// have been busy with itself.
    fn poll(&self, timeout: Duration) -> Option<Event<Self::Record<'_>>>;

    /// What the group has committed of these partitions. Waits until open transactions that hold some are decided.
    ///
    /// # Errors
    /// The coordinator does not answer.
    fn committed(
        &self,
        partitions: &[Partition],
        timeout: Duration,
    ) -> Result<Vec<(Partition, Committed)>, KafkaFailure>;

    /// What the partition's log holds, up to the last stable offset.
    ///
    /// # Errors
    /// The leader does not answer.
    fn log_range(&self, partition: Partition, timeout: Duration) -> Result<LogRange, KafkaFailure>;

    /// What the brokers call the topic for good; `None` where they give topics no ids.
    ///
    /// # Errors
    /// No broker answers within `timeout`, or none knows the topic now, which are passing troubles; or they refuse.
    fn topic_id(&self, timeout: Duration) -> Result<Option<TopicId>, KafkaFailure>;

    /// Partitions of the topic that no member of the group has, ascending; none of a reader of its own, nor where
    /// brokers do not tell. And whether it is this member's part to have them shared out: its first partition is the
    /// first that anybody has, or nobody has any; and the group is not about to share them out by itself.
    ///
    /// # Errors
    /// The brokers do not answer within `timeout`, or refuse to say.
    fn unowned(&self, timeout: Duration) -> Result<(Vec<Partition>, bool), KafkaFailure>;

    /// Has the group share its partitions out once more, while this goes on. With cooperative assignment and stable
    /// names that takes somebody who joins: a member that gave partitions up, was killed before it joined again, and
    /// is back under its name, is given what it had, and nobody the others (KIP-345 with KIP-429).
    fn share_out_again(&self);

    /// Connects to look records of the topic up.
    ///
    /// # Errors
    /// The client refuses.
    fn lookup(&self) -> Result<Self::Lookup, KafkaFailure>;

    /// Answers [`Event::Assigned`]: takes the partitions from these offsets on.
    ///
    /// # Errors
    /// The client refuses; so for the following methods.
    fn assign(&self, starts: &[(Partition, NextOffset)]) -> Result<(), KafkaFailure>;

    /// Answers [`Event::Revoked`] and [`Event::Lost`]: gives the partitions up.
    fn unassign(&self, partitions: &[Partition]) -> Result<(), KafkaFailure>;

    /// Answers [`Event::Unreadable`]: goes on at this offset, behind what cannot be read.
    fn skip_to(&self, partition: Partition, next: NextOffset) -> Result<(), KafkaFailure>;

    /// Stops fetching a partition; polling must go on.
    fn pause(&self, partition: Partition) -> Result<(), KafkaFailure>;

    /// Stops fetching a partition for as long as this member has it: nothing more of it can be processed.
    fn hold(&self, partition: Partition) -> Result<(), KafkaFailure> {
        self.pause(partition)
    }

    /// Fetches a paused partition again.
    fn resume(&self, partition: Partition) -> Result<(), KafkaFailure>;

    /// Where each partition's log ends, as the client learnt it last in passing.
    fn log_ends(&self) -> BTreeMap<Partition, LogEnd>;

    /// For how long the client has been connected to no broker, as it knows in passing.
    fn away_for(&self) -> Duration;

    /// Whether the group knows this member by another name than when it assigned what is held. A client whose name
    /// was forgotten while it joined does so again by itself, and says nothing of it: others may have had the
    /// partitions meanwhile.
    fn is_evicted(&self) -> bool;

    /// How long ago the client said of a broker that it failed or did not answer; `None` where it never did.
    fn last_trouble(&self) -> Option<Duration>;

    /// Leaves the group. A member with a stable name only goes silent: its partitions wait for it until its session
    /// ends, so that a quick restart moves nothing; unless it stops `in_order` and is to leave then.
    fn leave(&self, in_order: bool);
}

/// Tells records apart that may have come to stand at the same offset.
pub trait Identities {
    /// The identity of the record at this offset, which lies within the log; `None` when it was
    /// compacted away.
    ///
    /// # Errors
    /// The brokers do not answer within `timeout`, which is a passing trouble, or refuse.
    fn identity(
        &self,
        partition: Partition,
        offset: Offset,
        timeout: Duration,
    ) -> Result<Option<RecordIdentity>, KafkaFailure>;
}
