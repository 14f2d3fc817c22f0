//! Accounting for the partitions this process works on: what is in flight, what is done, what may
//! be published.
//!
//! A partition lives `Consuming -> Draining -> gone`. Workers report progress; only reports of the partition's
//! own epoch count, so work of a revoked assignment loses its right to publish.

use super::publish::CommitBatch;
use super::resume::Resume;
use kvset_formats::output::OutputRecord;
use kvset_formats::position::{Epoch, NextOffset, Partition};
use std::collections::BTreeMap;

/// How much of one partition may be under way at once.
#[derive(Debug, Clone, Copy)]
pub struct FlowLimits {
    /// Records handed to a worker and not yet reported.
    pub records: usize,
    /// Bytes of these.
    pub bytes: usize,
}

/// What a worker did with a range of one partition's records.
#[derive(Debug)]
pub struct RangeProgress {
    /// The partition.
    pub partition: Partition,
    /// The assignment the work was done for.
    pub epoch: Epoch,
    /// Everything before this is in the state, and its outputs are among those handed over.
    pub next: NextOffset,
    /// Records done.
    pub records: usize,
    /// Bytes of these.
    pub bytes: usize,
    /// Outputs, in order.
    pub outputs: Vec<OutputRecord>,
}

#[derive(Debug)]
struct PartitionProgress {
    epoch: Epoch,
    /// Whether no more records of it are dispatched.
    draining: bool,
    /// Offset after the newest record handed to a worker: what a repeat is recognised by.
    dispatched: NextOffset,
    /// Everything before it is done.
    processed: NextOffset,
    /// The group's committed offset, as far as this process knows.
    committed: Option<NextOffset>,
    /// First offset whose outputs are published.
    publish_from: NextOffset,
    records: usize,
    bytes: usize,
    paused: bool,
    /// Nothing followed the newest record when the source looked last.
    at_end: bool,
    /// Where a bounded run leaves the partition; none where it is followed for ever.
    end: Option<NextOffset>,
    /// Whether the worker was informed that nothing follows before the end.
    is_finishing: bool,
    outputs: Vec<OutputRecord>,
}

/// A record that must not be processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The source handed out a record of a partition that is not assigned, or is being given up.
    #[error("a record of partition {0} arrived while it was not assigned")]
    NotAssigned(Partition),
    /// The source handed out a record again, or out of order.
    #[error("partition {partition}: offset {offset} arrived after everything before {expected} had")]
    Repeated {
        /// The partition.
        partition: Partition,
        /// The record's offset.
        offset: i64,
        /// The smallest offset that could follow.
        expected: NextOffset,
    },
}

/// Every partition of this process.
#[derive(Debug)]
pub struct Assignment {
    limits: FlowLimits,
    partitions: BTreeMap<Partition, PartitionProgress>,
    waiting_outputs: usize,
    waiting_bytes: usize,
}

impl Assignment {
    /// No partitions.
    pub fn new(limits: FlowLimits) -> Self {
        Self { limits, partitions: BTreeMap::new(), waiting_outputs: 0, waiting_bytes: 0 }
    }

    /// Opens a partition for a partition that was assigned: up to before `end`, or for ever.
    pub fn open(
        &mut self,
        partition: Partition,
        epoch: Epoch,
        resume: &Resume,
        committed: Option<NextOffset>,
        end: Option<NextOffset>,
    ) {
        let state = PartitionProgress {
            epoch,
            draining: false,
            dispatched: resume.replay_from,
            processed: resume.replay_from,
            committed,
            publish_from: resume.publish_from,
            records: 0,
            bytes: 0,
            paused: false,
            at_end: false,
            end,
            is_finishing: false,
            outputs: Vec::new(),
        };
        self.partitions.insert(partition, state);
    }

    /// Whether a record at this offset lies behind where the run leaves its partition. Then so does
    /// everything that is still to come.
    pub fn is_past_end(&mut self, partition: Partition, offset: i64) -> bool {
        let state = self.partitions.get_mut(&partition);
        let Some(state) = state.filter(|state| state.end.is_some_and(|end| offset >= end.0)) else {
            return false;
        };
        state.dispatched = state.dispatched.max(NextOffset(offset));
        true
    }

    /// Counts a record that is about to be handed to a worker; says whether its partition is full now.
    pub fn dispatch(&mut self, partition: Partition, offset: i64, bytes: usize) -> Result<bool, OrderError> {
        let limits = self.limits;
        let state = self.partitions.get_mut(&partition).filter(|state| !state.draining);
        let state = state.ok_or(OrderError::NotAssigned(partition))?;
        if offset < state.dispatched.0 {
            return Err(OrderError::Repeated { partition, offset, expected: state.dispatched });
        }
        state.dispatched = NextOffset::after(offset);
        state.at_end = false;
        state.records += 1;
        state.bytes += bytes;
        Ok(state.is_full(limits))
    }

    /// Whether a partition that is being fetched has as much under way as it may.
    pub fn is_full(&self) -> bool {
        self.partitions.values().any(|state| state.is_full(self.limits))
    }

    /// Notes that the full partitions are fetched no more, and gives them.
    pub fn pause_full(&mut self) -> Vec<Partition> {
        let limits = self.limits;
        let full = self.partitions.iter_mut().filter(|(_, state)| state.is_full(limits));
        full.map(|(partition, state)| {
            state.paused = true;
            *partition
        })
        .collect()
    }

    /// Takes a worker's report; says whether to fetch again. `None` when it is of an assignment that
    /// has ended: its outputs are dropped.
    pub fn report(&mut self, progress: RangeProgress) -> Option<bool> {
        let limits = self.limits;
        let state =
            self.partitions.get_mut(&progress.partition).filter(|state| state.epoch == progress.epoch)?;
        debug_assert!(progress.next >= state.processed && progress.next <= state.dispatched);
        state.processed = progress.next;
        state.records = state.records.saturating_sub(progress.records);
        state.bytes = state.bytes.saturating_sub(progress.bytes);
        self.waiting_outputs += progress.outputs.len();
        self.waiting_bytes += progress.outputs.iter().map(OutputRecord::bytes).sum::<usize>();
        state.outputs.extend(progress.outputs);
        // Half empty before fetching again, so that a full partition does not pause at every record.
        let roomy = state.records * 2 <= limits.records && state.bytes * 2 <= limits.bytes;
        if state.paused && roomy && !state.draining {
            state.paused = false;
            return Some(true);
        }
        Some(false)
    }

    /// No more records of these partitions are to be dispatched.
    pub fn drain(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            if let Some(state) = self.partitions.get_mut(partition) {
                state.draining = true;
            }
        }
    }

    /// Whether everything dispatched of these partitions was reported.
    pub fn drained(&self, partitions: &[Partition]) -> bool {
        partitions
            .iter()
            .filter_map(|partition| self.partitions.get(partition))
            .all(|state| state.records == 0)
    }

    /// Closes a partition; what was not published is dropped.
    pub fn close(&mut self, partition: Partition) -> Option<Epoch> {
        let state = self.partitions.remove(&partition)?;
        self.waiting_outputs -= state.outputs.len();
        self.waiting_bytes -= state.outputs.iter().map(OutputRecord::bytes).sum::<usize>();
        Some(state.epoch)
    }

    /// Outputs that wait for a commit, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        (self.waiting_outputs, self.waiting_bytes)
    }

    /// What may be published now: of every partition that moved on, the outputs and the next offset.
    pub fn batch(&self) -> CommitBatch<'_> {
        let mut batch = CommitBatch::default();
        for (partition, state) in &self.partitions {
            if let Some(next) = state.to_commit() {
                batch.outputs.extend(&state.outputs);
                batch.next_offsets.push((*partition, next));
            }
        }
        batch
    }

    /// What [`Assignment::batch`] gave out was committed.
    pub fn mark_committed(&mut self) {
        for state in self.partitions.values_mut() {
            if let Some(next) = state.to_commit() {
                state.committed = Some(next);
                state.outputs.clear();
            }
        }
        (self.waiting_outputs, self.waiting_bytes) = (0, 0);
    }

    /// The group's committed offset of a partition under this assignment, as far as it is known.
    pub fn committed(&self, partition: Partition, epoch: Epoch) -> Option<NextOffset> {
        self.partitions.get(&partition).filter(|state| state.epoch == epoch)?.committed
    }

    /// The partitions with their positions, in order.
    pub fn positions(&self) -> impl Iterator<Item = (Partition, NextOffset)> + '_ {
        self.partitions.iter().map(|(partition, state)| (*partition, state.processed))
    }

    /// The records between what was processed and where the partition's log ends, as Kafka's own tools count them: by
    /// offsets, open transactions included. Markers and aborted records behind the last record are none: the source has
    /// read up to `read_to`.
    pub fn lag(&self, partition: Partition, end: NextOffset, read_to: NextOffset) -> Option<u64> {
        let state = self.partitions.get(&partition)?;
        let passed = if state.is_idle() { state.processed.max(read_to) } else { state.processed };
        Some(u64::try_from(end.0.saturating_sub(passed.0)).unwrap_or(0))
    }

    /// How far a partition was processed.
    pub fn processed(&self, partition: Partition) -> Option<NextOffset> {
        Some(self.partitions.get(&partition)?.processed)
    }

    /// The assigned partitions, in order.
    pub fn partitions(&self) -> Vec<Partition> {
        self.partitions.keys().copied().collect()
    }

    /// Partitions that have not processed yet what was published before they were opened.
    pub fn restoring(&self) -> usize {
        let restored = |state: &&PartitionProgress| state.is_idle() || state.processed >= state.publish_from;
        self.partitions.len() - self.partitions.values().filter(restored).count()
    }

    /// The source has no more of this partition: what lies before the committed offset, or before where
    /// the run ends, and was not handed out are transaction markers or compacted records.
    pub fn reached_end(&mut self, partition: Partition) {
        let Some(state) = self.partitions.get_mut(&partition) else { return };
        state.at_end = true;
        if let Some(end) = state.end {
            state.dispatched = state.dispatched.max(end);
        }
    }

    /// Where a partition ends, once everything before was handed to a worker which was not informed of that yet.
    pub fn end_to_tell(&self, partition: Partition) -> Option<NextOffset> {
        let state = self.partitions.get(&partition)?;
        state.end.filter(|end| state.dispatched >= *end && !state.is_finishing)
    }

    /// The worker was informed of a partition's end: its report is under way, like that of a record.
    pub fn finishing(&mut self, partition: Partition) {
        if let Some(state) = self.partitions.get_mut(&partition) {
            (state.is_finishing, state.records) = (true, state.records + 1);
        }
    }

    /// Whether every partition has an end, and everything before it was processed.
    pub fn are_processed(&self) -> bool {
        !self.partitions.is_empty()
            && self.partitions.values().all(|state| state.end.is_some_and(|end| state.reached() >= end))
    }

    /// Whether every partition has an end, and everything before it was committed.
    pub fn are_complete(&self) -> bool {
        !self.partitions.is_empty()
            && self.partitions.values().all(|state| state.end.is_some() && state.committed >= state.end)
    }

    /// Records handed to workers and not yet reported.
    pub fn in_flight(&self) -> usize {
        self.partitions.values().map(|state| state.records).sum()
    }
}

impl PartitionProgress {
    /// All that the source had is done.
    fn is_idle(&self) -> bool {
        self.at_end && self.records == 0
    }

    fn is_full(&self, limits: FlowLimits) -> bool {
        let full = self.records >= limits.records || self.bytes >= limits.bytes;
        full && !self.paused && !self.draining
    }

    /// Everything before it is done. Once nothing before the end is under way or to come that is the end,
    /// no matter which offset the last record had.
    fn reached(&self) -> NextOffset {
        match self.end {
            Some(end) if self.dispatched >= end && self.records == 0 => self.processed.max(end),
            _ => self.processed,
        }
    }

    /// The offset to commit, if it is news. During a muted replay the committed offset is ahead; past
    /// records that were lost it is behind, and then where the partition goes on is news.
    fn to_commit(&self) -> Option<NextOffset> {
        let next = match self.end {
            // From the first commit on a bounded run goes on, so that one holds all its partitions.
            Some(_) if self.committed.is_none() => self.reached().max(self.publish_from),
            _ => self.reached(),
        };
        let news = self.committed.is_none_or(|committed| next > committed) && next >= self.publish_from;
        debug_assert!(self.outputs.is_empty() || news, "muted records have no outputs");
        news.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::resume::Origin;
    use super::*;
    use kvset_formats::output::Destination;

    const P: Partition = Partition(3);

    fn resume(replay_from: i64, publish_from: i64) -> Resume {
        Resume {
            origin: Origin::Rebuild,
            replay_from: NextOffset(replay_from),
            publish_from: NextOffset(publish_from),
            count_from: NextOffset(0),
            warm_up: false,
            set_aside: vec![],
            explanation: String::new(),
        }
    }

    fn assignment(replay_from: i64, committed: Option<i64>) -> Assignment {
        let mut assignment = Assignment::new(FlowLimits { records: 4, bytes: 1000 });
        let publish_from = committed.unwrap_or(replay_from);
        assignment.open(P, Epoch(1), &resume(replay_from, publish_from), committed.map(NextOffset), None);
        assignment
    }

    fn done(next: i64, records: usize, outputs: usize) -> RangeProgress {
        let output = OutputRecord {
            destination: Destination::Results,
            partition: P,
            window: None,
            key: None,
            value: Some(vec![1; 10]),
            headers: vec![],
            placed_by: None,
        };
        RangeProgress {
            partition: P,
            epoch: Epoch(1),
            next: NextOffset(next),
            records,
            bytes: records * 10,
            outputs: vec![output; outputs],
        }
    }

    #[test]
    fn a_full_partition_pauses_once_and_resumes_half_empty() {
        let mut assignment = assignment(0, None);
        for offset in 0..4 {
            assert!(!assignment.is_full() && assignment.pause_full().is_empty());
            assert_eq!(assignment.dispatch(P, offset, 10), Ok(offset == 3));
        }
        assert!(assignment.is_full());
        assert_eq!(assignment.pause_full(), [P]);
        assert!(!assignment.is_full() && assignment.pause_full().is_empty(), "nobody waits for a paused one");
        assert_eq!(assignment.report(done(1, 1, 0)), Some(false));
        assert_eq!(assignment.report(done(2, 1, 0)), Some(true));
        assert_eq!(assignment.report(done(3, 1, 0)), Some(false));
    }

    /// A producer with transactions left every partition one record behind for ever, and what it left open was none.
    #[test]
    fn lag_counts_open_transactions_and_no_markers() {
        let mut assignment = assignment(0, None);
        let lag =
            |assignment: &Assignment, end, read_to| assignment.lag(P, NextOffset(end), NextOffset(read_to));
        assert_eq!(lag(&assignment, 9, 9), Some(9), "nothing was read yet");
        assignment.dispatch(P, 6, 10).expect("in order");
        assignment.reached_end(P);
        assert_eq!(lag(&assignment, 8, 8), Some(8), "it is under way");
        assignment.report(done(7, 1, 0));
        assert_eq!(lag(&assignment, 8, 8), Some(0), "a marker is no record");
        assert_eq!(lag(&assignment, 13, 8), Some(5), "of a transaction that is open");
        assignment.dispatch(P, 8, 10).expect("in order");
        assert_eq!(lag(&assignment, 13, 8), Some(6));
        assert_eq!(lag(&assignment, 3, 3), Some(0), "what is known of the end is old");
        assert_eq!(assignment.lag(Partition(9), NextOffset(1), NextOffset(1)), None);
    }

    #[test]
    fn bytes_fill_a_partition_too() {
        let mut assignment = assignment(0, None);
        assert_eq!(assignment.dispatch(P, 0, 5000), Ok(true), "one record may exceed the bound");
        assignment.drain(&[P]);
        assert!(!assignment.is_full(), "no more comes anyway");
    }

    #[test]
    fn a_commit_batch_holds_outputs_and_offsets_of_the_same_records() {
        let mut assignment = assignment(0, None);
        assignment.dispatch(P, 0, 10).expect("in order");
        assignment.dispatch(P, 7, 10).expect("offsets may skip transaction markers");
        assignment.report(done(1, 1, 2));
        let batch = assignment.batch();
        assert_eq!((batch.outputs.len(), batch.next_offsets), (2, vec![(P, NextOffset(1))]));
        assignment.mark_committed();
        assert!(assignment.batch().next_offsets.is_empty(), "nothing new");
        assignment.report(done(8, 1, 0));
        assert_eq!(assignment.batch().next_offsets, [(P, NextOffset(8))]);
        assert_eq!(assignment.waiting(), (0, 0));
    }

    #[test]
    fn a_muted_replay_commits_nothing() {
        let mut assignment = assignment(5, Some(7));
        for offset in 5..9 {
            assignment.dispatch(P, offset, 10).expect("in order");
        }
        assert_eq!(assignment.restoring(), 1);
        for next in [6, 7] {
            assignment.report(done(next, 1, 0));
            assert!(assignment.batch().next_offsets.is_empty(), "{next} is no progress of the group");
        }
        assert_eq!(assignment.restoring(), 0);
        assignment.report(done(8, 1, 1));
        assert_eq!(assignment.batch().next_offsets, [(P, NextOffset(8))]);
    }

    #[test]
    fn a_new_group_commits_where_it_began_even_without_records() {
        let assignment = assignment(40, None);
        assert_eq!(
            assignment.batch().next_offsets,
            [(P, NextOffset(40))],
            "so that a restart begins there too"
        );
    }

    /// Found by the simulation: a group whose last records were lost never moved past them.
    #[test]
    fn where_lost_records_end_is_committed_even_without_records() {
        let mut assignment = Assignment::new(FlowLimits { records: 4, bytes: 1000 });
        assignment.open(P, Epoch(1), &resume(40, 40), Some(NextOffset(30)), None);
        assert_eq!(assignment.batch().next_offsets, [(P, NextOffset(40))]);
        assignment.mark_committed();
        assert!(assignment.batch().next_offsets.is_empty());
    }

    #[test]
    fn work_of_an_ended_assignment_cannot_be_published() {
        let mut assignment = assignment(0, None);
        assignment.dispatch(P, 0, 10).expect("in order");
        assignment.drain(&[P]);
        assert!(!assignment.drained(&[P]));
        assert_eq!(assignment.dispatch(P, 1, 10), Err(OrderError::NotAssigned(P)));
        assignment.close(P);
        assignment.open(P, Epoch(2), &resume(0, 0), None, None);
        assert_eq!(assignment.report(done(1, 1, 1)), None);
        assert!(assignment.batch().outputs.is_empty());
    }

    #[test]
    fn a_repeated_record_is_an_error() {
        let mut assignment = assignment(5, None);
        assignment.dispatch(P, 5, 1).expect("in order");
        for offset in [4, 5] {
            assert!(
                matches!(assignment.dispatch(P, offset, 1), Err(OrderError::Repeated { .. })),
                "{offset}"
            );
        }
    }

    /// What waited until the end is committed with the end, not behind it.
    #[test]
    fn the_report_of_the_end_of_a_run_is_waited_for() {
        let mut assignment = Assignment::new(FlowLimits { records: 4, bytes: 1000 });
        assignment.open(P, Epoch(1), &resume(0, 0), None, Some(NextOffset(9)));
        assignment.dispatch(P, 5, 10).expect("in order");
        assert_eq!(assignment.end_to_tell(P), None, "more may follow");
        assignment.report(done(6, 1, 0));
        assignment.reached_end(P);
        assert_eq!(assignment.end_to_tell(P), Some(NextOffset(9)));
        assignment.finishing(P);
        assert_eq!(assignment.end_to_tell(P), None, "once");
        assert_eq!(assignment.batch().next_offsets, [(P, NextOffset(6))]);
        assignment.mark_committed();
        assert!(!assignment.are_processed() && assignment.batch().next_offsets.is_empty());
        assignment.report(done(9, 1, 1));
        let batch = assignment.batch();
        assert_eq!((batch.outputs.len(), batch.next_offsets), (1, vec![(P, NextOffset(9))]));
        assignment.mark_committed();
        assert!(assignment.are_processed() && assignment.are_complete());
    }

    #[test]
    fn a_run_with_an_end_stops_there_whatever_lies_there() {
        let bounded = |committed: Option<i64>| {
            let mut assignment = Assignment::new(FlowLimits { records: 4, bytes: 1000 });
            assignment.open(P, Epoch(1), &resume(0, 2), committed.map(NextOffset), Some(NextOffset(9)));
            assignment
        };
        let mut fresh = bounded(None);
        assert_eq!(
            fresh.batch().next_offsets,
            [(P, NextOffset(2))],
            "the first commit holds every partition"
        );
        fresh.mark_committed();
        for offset in [0, 4] {
            fresh.dispatch(P, offset, 10).expect("in order");
        }
        fresh.reached_end(P);
        assert!(!fresh.are_processed(), "records are under way");
        fresh.report(done(5, 2, 1));
        assert!(fresh.are_processed() && !fresh.are_complete());
        assert_eq!(fresh.batch().next_offsets, [(P, NextOffset(9))], "markers up to the end are done too");
        fresh.mark_committed();
        assert!(fresh.are_complete());
        assert_eq!(fresh.positions().collect::<Vec<_>>(), [(P, NextOffset(5))], "what the state holds");

        let mut busy = bounded(Some(3));
        assert!(!busy.is_past_end(P, 8) && !busy.are_processed());
        assert!(busy.is_past_end(P, 12), "the log went on after the end was captured");
        assert!(busy.are_processed());
        assert!(bounded(Some(9)).are_complete(), "nothing is left to do");
        assert!(!assignment(0, Some(9)).is_past_end(P, 1 << 40) && !assignment(0, Some(9)).are_complete());
    }
}
