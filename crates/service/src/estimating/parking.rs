//! States of partitions that were given up in order, kept in memory for a while: members come and go,
//! and a partition that comes back untouched goes on at once.
//!
//! Nothing here decides whether a state may be used: the resume decision does, by the committed offset.

use crate::plan::ParkingPlan;
use kvset_core::units::heap::HeapBytes;
use kvset_formats::position::Partition;
use kvset_pipeline::task::PartitionTask;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The states kept, within limits of time and memory.
pub(crate) struct Parking {
    plan: ParkingPlan,
    /// With their bytes, and since when they are kept.
    parked: BTreeMap<Partition, (Box<PartitionTask>, u64, Instant)>,
    /// Partitions whose states workers still have, to be parked once they hand them back.
    awaited: BTreeSet<Partition>,
}

impl Parking {
    pub(crate) fn new(plan: ParkingPlan) -> Self {
        Self { plan, parked: BTreeMap::new(), awaited: BTreeSet::new() }
    }

    /// The states of these partitions will be handed back, and are to be kept.
    pub(crate) fn expect(&mut self, partitions: &[Partition]) {
        if !self.plan.keep_for.is_zero() {
            self.awaited.extend(partitions);
        }
    }

    /// Whether workers still have states that are to be kept.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// A partition was handed back: keeps its state if that was expected, dropping older ones for it.
    pub(crate) fn released(&mut self, partition: Partition, task: Option<Box<PartitionTask>>, now: Instant) {
        let expected = self.awaited.remove(&partition);
        let Some(task) = task.filter(|_| expected) else { return };
        let bytes = task.heap_bytes() as u64;
        if bytes > self.plan.max_bytes {
            tracing::debug!(
                partition = partition.0,
                bytes,
                "partition {partition}: {bytes} bytes of state are too many to keep"
            );
            return;
        }
        while self.bytes() + bytes > self.plan.max_bytes {
            let oldest = self.parked.iter().min_by_key(|(_, (_, _, since))| *since);
            let Some(oldest) = oldest.map(|(partition, _)| *partition) else { break };
            self.parked.remove(&oldest);
        }
        tracing::debug!(
            partition = partition.0,
            bytes,
            "partition {partition}: keeping {bytes} bytes of state in memory"
        );
        self.parked.insert(partition, (task, bytes, now));
    }

    /// Drops what was kept for long enough.
    pub(crate) fn expire(&mut self, now: Instant) {
        let keep_for = self.plan.keep_for;
        self.parked.retain(|_, (_, _, since)| now.saturating_duration_since(*since) < keep_for);
    }

    /// Hands a partition's state out, if it is kept; it is not kept any longer either way.
    pub(crate) fn take(&mut self, partition: Partition) -> Option<PartitionTask> {
        self.awaited.remove(&partition);
        Some(*self.parked.remove(&partition)?.0)
    }

    /// Bytes of all states kept.
    fn bytes(&self) -> u64 {
        self.parked.values().map(|(_, bytes, _)| bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fresh_task::fresh_task;
    use kvset_formats::codec::SourceRecord;
    use kvset_formats::position::NextOffset;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    /// The state of a partition after one record.
    fn state(partition: Partition) -> Option<Box<PartitionTask>> {
        let mut task = fresh_task(partition);
        let value = br#"{"event_time": 1, "page_size": 64, "page_ids": [11, 22, 33], "input_tokens": 200}"#;
        let record = SourceRecord {
            schema_header: None,
            topic: "requests",
            partition: partition.0,
            offset: 0,
            timestamp_ms: None,
            key: Some(b"pool"),
            value: Some(value),
        };
        task.process_record(&record, &mut Vec::new()).expect("within limits");
        assert!(task.heap_bytes() > 0);
        Some(Box::new(task))
    }

    fn parking(keep_for: Duration, max_bytes: u64) -> Parking {
        Parking::new(ParkingPlan { keep_for, max_bytes })
    }

    #[test]
    fn only_states_given_up_in_order_are_kept_and_only_for_a_while() {
        let [ours, lost, failed] = [1, 2, 3].map(Partition);
        let (mut parking, now) = (parking(MINUTE, u64::MAX), Instant::now());
        parking.expect(&[ours, failed]);
        parking.released(lost, state(lost), now);
        parking.released(failed, None, now);
        assert!(parking.is_waiting());
        parking.released(ours, state(ours), now);
        assert!(!parking.is_waiting() && parking.take(lost).is_none() && parking.take(failed).is_none());
        parking.expire(now + MINUTE / 2);
        let mut task = parking.take(ours).expect("kept");
        assert_eq!(task.next_offset(), NextOffset(1));
        assert_eq!((task.take_new_pools().len(), task.take_new_pools().len()), (1, 0));
        task.unpark();
        assert_eq!(task.take_new_pools(), ["pool"], "told again");
        assert!(parking.take(ours).is_none(), "handed out once");
        parking.expect(&[ours]);
        parking.released(ours, state(ours), now);
        parking.expire(now + MINUTE);
        assert!(parking.take(ours).is_none(), "too late");
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_states_make_room() {
        let [first, second, third] = [1, 2, 3].map(Partition);
        let (bytes, now) = (state(first).expect("one").heap_bytes() as u64, Instant::now());
        let mut two_fit = parking(MINUTE, bytes * 2);
        for (partition, age) in [(first, 0), (second, 1), (third, 2)] {
            two_fit.expect(&[partition]);
            two_fit.released(partition, state(partition), now + Duration::from_secs(age));
        }
        assert_eq!([first, second, third].map(|it| two_fit.take(it).is_some()), [false, true, true]);
        for mut none_fits in [parking(MINUTE, bytes - 1), parking(Duration::ZERO, u64::MAX)] {
            none_fits.expect(&[first]);
            none_fits.released(first, state(first), now);
            assert!(none_fits.take(first).is_none());
        }
    }
}
