//! States of partitions that were given up in order, kept in memory for a while: members come and go,
//! and a partition that comes back untouched goes on at once.
//!
//! Nothing here decides whether a state may be used: the resume decision does, by the committed offset.

use super::plan::ParkingPlan;
use crate::pipeline::position::Partition;
use crate::pipeline::task::PartitionTask;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The states kept, within limits of time and memory.
pub(super) struct Parking {
    plan: ParkingPlan,
    parked: BTreeMap<Partition, Parked>,
    /// Partitions whose states workers still have, to be parked once they hand them back.
    awaited: BTreeSet<Partition>,
}

struct Parked {
    task: Box<PartitionTask>,
    bytes: u64,
    since: Instant,
}

impl Parking {
    pub(super) fn new(plan: ParkingPlan) -> Self {
        Self { plan, parked: BTreeMap::new(), awaited: BTreeSet::new() }
    }

    /// The states of these partitions will be handed back, and are to be kept.
    pub(super) fn expect(&mut self, partitions: &[Partition]) {
        if !self.plan.keep_for.is_zero() {
            self.awaited.extend(partitions);
        }
    }

    /// Whether workers still have states that are to be kept.
    pub(super) fn is_waiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// A partition was handed back: keeps its state if that was expected, dropping older ones for it.
    pub(super) fn released(&mut self, partition: Partition, task: Option<Box<PartitionTask>>, now: Instant) {
        let expected = self.awaited.remove(&partition);
        let Some(task) = task.filter(|_| expected) else { return };
        let bytes = task.memory_bytes();
        if bytes > self.plan.max_bytes {
            tracing::debug!("partition {partition}: {bytes} bytes of state are too many to keep");
            return;
        }
        while self.bytes() + bytes > self.plan.max_bytes {
            let oldest = self.parked.iter().min_by_key(|(_, parked)| parked.since);
            let Some(oldest) = oldest.map(|(partition, _)| *partition) else { break };
            self.parked.remove(&oldest);
        }
        tracing::debug!("partition {partition}: keeping {bytes} bytes of state in memory");
        self.parked.insert(partition, Parked { task, bytes, since: now });
    }

    /// Drops what was kept for long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        let keep_for = self.plan.keep_for;
        self.parked.retain(|_, parked| now.saturating_duration_since(parked.since) < keep_for);
    }

    /// Hands a partition's state out, if it is kept; it is not kept any longer either way.
    pub(super) fn take(&mut self, partition: Partition) -> Option<PartitionTask> {
        self.awaited.remove(&partition);
        Some(*self.parked.remove(&partition)?.task)
    }

    /// Bytes of all states kept.
    fn bytes(&self) -> u64 {
        self.parked.values().map(|parked| parked.bytes).sum()
    }
}
