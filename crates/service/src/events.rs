//! What happens in the service, as typed events for metrics, health and the demonstration.

use kvset_core::estimate::Estimate;
use kvset_formats::codec::ErrorCode;
use kvset_formats::output::OutputRecord;
use kvset_formats::position::{NextOffset, Partition};
use kvset_pipeline::gaps::OffsetGap;
use kvset_pipeline::publish::FailureKind;
use kvset_pipeline::resume::Resume;
use kvset_pipeline::task::{PoolTime, TaskCounts};
use kvset_prepare::{PoolShare, PreparedRecord};
use std::collections::BTreeMap;
use std::time::Duration;

/// That a pool is in two partitions, why that may be, and what to do.
pub fn split_pool(first: Partition, second: Partition) -> String {
    format!(
        "Its records are in partitions {first} and {second}, which splits its history. Either its producers place \
         keys differently: librdkafka's own default is not that of Java, `partitioner=murmur2_random` is. Or the \
         topic was given more partitions, which moves keys. Or its records are not keyed by pool."
    )
}

/// Most partitions that [`partition_list`] names.
const NAMED: usize = 5;

/// "partitions" with the first of these by their numbers, and how many more there are.
pub fn partition_list(partitions: &[Partition]) -> String {
    let named: Vec<_> = partitions.iter().take(NAMED).map(Partition::to_string).collect();
    let noun = if partitions.len() == 1 { "partition" } else { "partitions" };
    match partitions.len().saturating_sub(NAMED) {
        0 => format!("{noun} {}", named.join(", ")),
        more => format!("{noun} {} and {more} more", named.join(", ")),
    }
}

/// What was prepared, for metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrepareCounts {
    /// Raw records, refused ones included.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records without a value, which were passed.
    pub tombstones: u64,
    /// What became of them, by pool.
    pub pools: BTreeMap<String, PoolShare>,
    /// Refused records by code.
    pub refused: BTreeMap<ErrorCode, u64>,
    /// Offset of the last of them, by code.
    pub refused_at: BTreeMap<ErrorCode, i64>,
    /// How long each record took.
    pub durations: Vec<Duration>,
}

impl PrepareCounts {
    /// Counts the record at this offset, of so many bytes, that took so long.
    pub(super) fn add(&mut self, prepared: &PreparedRecord, offset: i64, bytes: usize, took: Duration) {
        self.records += 1;
        self.bytes += bytes as u64;
        self.durations.push(took);
        self.tombstones += u64::from(prepared.passed_over == Some(PreparedRecord::TOMBSTONE));
        if let Some(code) = prepared.refused {
            *self.refused.entry(code).or_default() += 1;
            self.refused_at.insert(code, offset);
        }
        for (pool, share) in &prepared.shares {
            if !self.pools.contains_key(pool) {
                self.pools.insert(pool.clone(), PoolShare::default());
            }
            self.pools.get_mut(pool).into_iter().for_each(|counts| counts.add(*share));
        }
    }

    /// Counts offsets that could not be read.
    pub(super) fn pass(&mut self, gap: OffsetGap) {
        *self.refused.entry(ErrorCode::Unreadable).or_default() += 1;
        self.refused_at.insert(ErrorCode::Unreadable, gap.start);
    }
}

/// Something that happened.
#[derive(Debug)]
pub enum ServiceEvent<'a> {
    /// The poll loop turns: said a few times a second.
    Polled {
        /// Partitions that have not caught up yet with what was published before.
        restoring: usize,
        /// Of each partition whose end is known, the records between the last one processed and the end.
        lag: &'a [(Partition, u64)],
        /// Partitions of which records wait, and none has been processed for a while.
        stalled: &'a [Partition],
        /// Partitions of the topic that no member of the group has had for a while.
        unowned: &'a [Partition],
        /// For how long no broker has been connected.
        away_for: Duration,
    },
    /// A partition was taken up.
    Assigned {
        /// The partition.
        partition: Partition,
        /// From where.
        resume: &'a Resume,
        /// Where its log ended.
        log_end: NextOffset,
    },
    /// Said after [`Self::Assigned`] where the partition goes on from a state that was kept: what that knows.
    Restored {
        /// The partition.
        partition: Partition,
        /// Everything before this is in the state.
        next: NextOffset,
        /// How far event time has got in its pools, in one.
        time: Option<PoolTime>,
        /// The same of each pool.
        times: &'a [(String, PoolTime)],
        /// Pools of the partition.
        pools: usize,
        /// The newest final estimate of each pool and kind of window; all of them were committed.
        latest: &'a [Estimate],
    },
    /// The group decided what this member works on.
    Rebalanced {
        /// Partitions in all.
        partitions: usize,
    },
    /// A partition was given up in order.
    Revoked(Partition),
    /// A partition was lost to another member.
    Lost(Partition),
    /// A partition cannot go on: it is read no further as long as this member has it, and all others go on.
    Held {
        /// The partition.
        partition: Partition,
        /// Why, and what to do.
        why: &'a str,
    },
    /// Brokers, or a store of snapshots, are waited for: said once a second while nothing else can be.
    Waiting,
    /// A commit begins.
    Committing,
    /// Records were processed.
    Progress {
        /// Their partition.
        partition: Partition,
        /// Everything before this is done.
        next: NextOffset,
        /// What was done.
        counts: &'a TaskCounts,
        /// How far event time has got in the pools that were active, in one.
        time: Option<PoolTime>,
        /// Pools of the partition.
        pools: usize,
    },
    /// Raw records were prepared.
    Prepared {
        /// Their partition.
        partition: Partition,
        /// Everything before this is done.
        next: NextOffset,
        /// What was done.
        counts: &'a PrepareCounts,
    },
    /// A pool was seen for the first time in this process.
    NewPool {
        /// Its partition.
        partition: Partition,
        /// Its name.
        pool: &'a str,
    },
    /// A pool is in more than one partition: its producer's mistake, which splits its history.
    SplitPool {
        /// Its name.
        pool: &'a str,
        /// The partition it was first seen in.
        first: Partition,
        /// The other one.
        second: Partition,
    },
    /// A commit went through.
    Committed {
        /// Outputs published.
        outputs: &'a [&'a OutputRecord],
        /// Partitions whose offset moved.
        partitions: usize,
        /// How long it took.
        took: Duration,
    },
    /// A commit did not go through.
    CommitFailed {
        /// What it asks for.
        kind: FailureKind,
    },
    /// A partition stood still while its state was taken for a snapshot.
    Captured {
        /// The partition.
        partition: Partition,
        /// For how long.
        pause: Duration,
    },
    /// A snapshot is safe on disk.
    SnapshotSaved {
        /// Its partition.
        partition: Partition,
        /// Every record before this is in it.
        next: NextOffset,
        /// Bytes of the state.
        bytes: u64,
        /// How long writing took.
        took: Duration,
    },
    /// Bytes were written for a snapshot: of a large state what is new, maybe ahead of the snapshot itself.
    SnapshotBytesWritten {
        /// How many.
        bytes: u64,
    },
    /// A snapshot could not be made, read or written; only a later restart takes longer for it.
    SnapshotFailed {
        /// Its partition.
        partition: Partition,
    },
    /// Said alongside [`Self::Polled`], where there is a schema registry.
    SchemaRegistry {
        /// Whether records wait for a registry that does not answer.
        waiting: bool,
    },
    /// The service stops.
    Stopping,
}

/// Watches the service; called from its poll loop, so it must be quick.
pub trait Observer: Sync {
    /// Something happened.
    fn on(&self, event: &ServiceEvent<'_>);
}

/// Watches nothing.
impl Observer for () {
    fn on(&self, _: &ServiceEvent<'_>) {}
}

/// Tells several watchers, in order.
impl<const N: usize> Observer for [&dyn Observer; N] {
    fn on(&self, event: &ServiceEvent<'_>) {
        self.iter().for_each(|observer| observer.on(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_partitions_are_named() {
        let partitions: Vec<_> = (0..7).map(Partition).collect();
        assert_eq!(partition_list(&partitions[..1]), "partition 0");
        assert_eq!(partition_list(&partitions[..2]), "partitions 0, 1");
        assert_eq!(partition_list(&partitions), "partitions 0, 1, 2, 3, 4 and 2 more");
    }
}
