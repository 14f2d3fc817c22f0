//! When snapshots are made, and that none is written before its offset was committed.
//!
//! A state is captured whenever it is due and held back until the group has committed the captured
//! offset; only then the writer gets it. A large state's new parts may be more than a capture holds: they are written
//! first, in several captures, and the snapshot after them. Whatever fails here costs a later restart time, never a
//! result, so it is logged and counted and the service goes on.

use super::stores;
use crate::events::{Observer, ServiceEvent};
use crate::plan::StatePlan;
use crate::workers::pool::Captured;
use crossbeam_channel::{Receiver, unbounded};
use kvset_formats::position::{Epoch, NextOffset, Partition};
use kvset_pipeline::facts::{Fingerprint, InvalidPartition, PartitionId, SnapshotFact};
use kvset_snapshot::capture::CaptureMemory;
use kvset_snapshot::format::{Snapshot, StateBody};
use kvset_snapshot::known::KnownParts;
use kvset_snapshot::limits::PartsLimits;
use kvset_snapshot::store::{SnapshotStore, StoreError};
use kvset_snapshot::writer::{SnapshotOutcome, SnapshotWriter, Writing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes to be written that are worth making a rebalance wait for.
const CHEAP_BYTES: u64 = 64 << 20;

/// Why a state is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// Time goes by.
    Clock,
    /// The partition moves to another member, which waits for it.
    Revocation,
    /// The service stops.
    Shutdown,
}

/// The snapshots of the partitions this process works on.
pub struct Checkpoints {
    store: Arc<dyn SnapshotStore>,
    writer: Box<dyn Writing>,
    written: Receiver<SnapshotOutcome>,
    fingerprint: Fingerprint,
    topic: String,
    every: Duration,
    parts: PartsLimits,
    partitions: BTreeMap<Partition, CheckpointPace>,
}

/// Where one partition is between two snapshots.
struct CheckpointPace {
    id: PartitionId,
    epoch: Epoch,
    /// When its state was last requested, or taken up.
    last: Instant,
    /// A worker was asked and has not answered yet.
    asked: bool,
    /// Captured, and not known to be committed.
    held: Option<Snapshot>,
    /// With the writer.
    submitted: usize,
    /// The last capture had no room for all that was new: the next one goes on at once.
    goes_on: bool,
    /// Of the newest snapshot that is safe or under way.
    newest: Option<NextOffset>,
    /// Bytes that the next one writes, as far as is known.
    cost: u64,
    /// Bytes of the state.
    state_bytes: u64,
    /// Memory for the next one.
    buffer: Vec<u8>,
    /// What the store has of the state.
    known: KnownParts,
}

impl CheckpointPace {
    /// Lets go of a state that is held: another one takes its place.
    fn drop_held(&mut self) {
        let Some(Snapshot { body, .. }) = self.held.take() else { return };
        if matches!(&body, StateBody::InParts(parts) if parts.file.is_some()) {
            self.known.take_back();
        }
        self.buffer = body.into_buffer();
    }

    /// What the store has is not known any more: the next snapshot writes all of the state.
    fn forget_parts(&mut self) {
        self.known.clear();
        (self.cost, self.goes_on) = (self.state_bytes, false);
    }
}

impl Checkpoints {
    /// Opens the snapshot directory for this process alone, and the shared store if there is one, and
    /// starts the writer.
    ///
    /// # Errors
    /// Another process has it open; it cannot be made; the shared store cannot be opened; no thread.
    pub fn open(plan: &StatePlan, topic: &str) -> Result<Self, StoreError> {
        let store = stores::open(plan)?;
        let (report, written) = unbounded();
        // Once nobody listens any more the service is over, and nobody counts.
        let writer = SnapshotWriter::spawn(Arc::clone(&store), move |done| drop(report.send(done)));
        let writer = writer.map_err(|cause| StoreError::Io {
            operation: "starting the writer of",
            place: plan.directory.display().to_string(),
            cause,
        })?;
        Ok(Self::over(store, Box::new(writer), written, plan, topic))
    }

    /// Snapshots in any store, by any writer, who says in `written` what became of them; of the plan
    /// everything but the directory.
    pub fn over(
        store: Arc<dyn SnapshotStore>,
        writer: Box<dyn Writing>,
        written: Receiver<SnapshotOutcome>,
        plan: &StatePlan,
        topic: &str,
    ) -> Self {
        let (topic, partitions) = (topic.to_owned(), BTreeMap::new());
        let StatePlan { fingerprint, every, parts, .. } = *plan;
        Self { store, writer, written, fingerprint, topic, every, parts, partitions }
    }

    /// Where snapshots are kept.
    pub fn store(&self) -> &dyn SnapshotStore {
        &*self.store
    }

    /// The configuration states are made under.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// A partition as snapshots name it.
    ///
    /// # Errors
    /// The topic has a name that no Kafka allows.
    pub fn id(&self, partition: Partition) -> Result<PartitionId, InvalidPartition> {
        PartitionId::new(&self.topic, partition.0)
    }

    /// A partition was taken up, from a snapshot of this place and so large a state, or from none.
    pub fn take_up(
        &mut self,
        id: PartitionId,
        epoch: Epoch,
        restored: Option<(NextOffset, u64)>,
        now: Instant,
    ) {
        let partition = Partition(id.partition());
        let (newest, state_bytes) = restored.map_or((None, 0), |(next, bytes)| (Some(next), bytes));
        let pace = CheckpointPace {
            id,
            epoch,
            last: now,
            asked: false,
            held: None,
            submitted: 0,
            goes_on: false,
            newest,
            cost: state_bytes,
            state_bytes,
            buffer: Vec::new(),
            known: KnownParts::default(),
        };
        self.partitions.insert(partition, pace);
    }

    /// A partition was given up. What was submitted is still written: it is a function of the log.
    pub fn forget(&mut self, partition: Partition) {
        self.partitions.remove(&partition);
    }

    /// Memory to capture a partition's state into, which has come as far as `position`; `None` when
    /// no snapshot is called for.
    pub fn ask(
        &mut self,
        partition: Partition,
        position: NextOffset,
        occasion: Occasion,
        now: Instant,
    ) -> Option<CaptureMemory> {
        let pace = self.partitions.get_mut(&partition)?;
        let due = match occasion {
            Occasion::Clock => {
                let is_time = pace.goes_on || now.saturating_duration_since(pace.last) >= self.every;
                is_time && pace.held.is_none() && pace.submitted == 0
            }
            Occasion::Revocation => pace.cost <= CHEAP_BYTES,
            Occasion::Shutdown => true,
        };
        let held = pace.held.as_ref().filter(|held| held.body.is_complete());
        let behind = held.map(|held| held.fact.next_offset).max(pace.newest);
        if pace.asked || !due || behind >= Some(position) {
            return None;
        }
        pace.drop_held();
        pace.asked = true;
        pace.last = now;
        let (buffer, known) = (std::mem::take(&mut pace.buffer), std::mem::take(&mut pace.known));
        Some(CaptureMemory { buffer, known, limits: self.parts })
    }

    /// Whether workers owe states.
    pub fn is_waiting(&self) -> bool {
        self.partitions.values().any(|pace| pace.asked)
    }

    /// Takes a worker's answer.
    pub fn captured(
        &mut self,
        partition: Partition,
        captured: Option<Box<Captured>>,
        observer: &dyn Observer,
    ) {
        let Some(pace) = self.partitions.get_mut(&partition) else { return };
        pace.asked = false;
        let Some(captured) = captured.filter(|captured| captured.epoch == pace.epoch) else { return };
        let Captured { next_offset, last_record, body, memory, pause, .. } = *captured;
        observer.on(&ServiceEvent::Captured { partition, pause });
        pace.known = memory.known;
        match body {
            Ok(body) => {
                pace.goes_on = !body.is_complete();
                let fact = SnapshotFact { next_offset, fingerprint: self.fingerprint, last_record };
                pace.held = Some(Snapshot { partition: pace.id.clone(), fact, body });
            }
            Err(error) => {
                tracing::warn!(partition = partition.0, "partition {partition}: {error}");
                observer.on(&ServiceEvent::SnapshotFailed { partition });
            }
        }
    }

    /// Hands the writer every state whose offset is committed by now.
    pub fn release(&mut self, committed: impl Fn(Partition, Epoch) -> Option<NextOffset>) {
        for (partition, pace) in &mut self.partitions {
            let committed = committed(*partition, pace.epoch);
            let is_committed = |held: &mut Snapshot| Some(held.fact.next_offset) <= committed;
            let Some(snapshot) = pace.held.take_if(is_committed) else { continue };
            if snapshot.body.is_complete() {
                pace.newest = Some(snapshot.fact.next_offset);
            }
            match self.writer.submit(snapshot) {
                true => pace.submitted += 1,
                false => pace.forget_parts(),
            }
        }
    }

    /// Tells what the writer has done since.
    pub fn tell(&mut self, observer: &dyn Observer) {
        for written in self.written.try_iter() {
            let partition = Partition(written.partition.partition());
            let state_bytes = written.state_bytes;
            let (bytes, buffer) = reported(written, observer);
            if let Some(pace) = self.partitions.get_mut(&partition) {
                (pace.buffer, pace.state_bytes) = (buffer, state_bytes);
                // One of an assignment before may still have been with the writer.
                pace.submitted = pace.submitted.saturating_sub(1);
                match bytes {
                    Some(bytes) => pace.cost = bytes,
                    // The next one is wanted even where the partition stands still.
                    None => {
                        pace.newest = None;
                        pace.forget_parts();
                    }
                }
            }
        }
    }

    /// Writes what was submitted, and lets go of the directory.
    pub fn finish(self, deadline: Duration, observer: &dyn Observer) {
        let Self { writer, written, .. } = self;
        if let Err(error) = writer.finish(deadline) {
            tracing::warn!("{error}");
        }
        written.try_iter().for_each(|written| drop(reported(written, observer)));
    }
}

/// Tells what became of a snapshot; gives the bytes written if it is safe, and its memory.
fn reported(written: SnapshotOutcome, observer: &dyn Observer) -> (Option<u64>, Vec<u8>) {
    let SnapshotOutcome {
        partition: id,
        next_offset: next,
        duration: took,
        state_bytes,
        is_complete,
        result,
        buffer,
    } = written;
    let partition = Partition(id.partition());
    match result {
        Ok(saved) => {
            observer.on(&ServiceEvent::SnapshotBytesWritten { bytes: saved.bytes });
            tracing::debug!(
                partition = partition.0,
                offset = next.0,
                bytes = saved.bytes,
                "partition {partition}: {} at {next} of {state_bytes} bytes, {} of them written",
                if is_complete { "snapshot" } else { "parts of the state" },
                saved.bytes
            );
            if let Some(error) = saved.not_removed {
                tracing::warn!(
                    partition = partition.0,
                    "partition {partition}: an old snapshot is still there: {error}"
                );
            }
            if is_complete {
                observer.on(&ServiceEvent::SnapshotSaved { partition, next, bytes: state_bytes, took });
            }
            (Some(saved.bytes), buffer)
        }
        Err(error) => {
            tracing::warn!(
                partition = partition.0,
                offset = next.0,
                "partition {partition}: no snapshot at {next}: {error}"
            );
            observer.on(&ServiceEvent::SnapshotFailed { partition });
            (None, buffer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_snapshot::contents::PartsFile;
    use kvset_snapshot::directory::Directory;
    use kvset_snapshot::format::InParts;
    use kvset_snapshot::memory::{Fault, MemoryFiles};
    use std::io;
    use std::num::NonZeroUsize;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;

    const P: Partition = Partition(3);
    const EVERY: Duration = Duration::ZERO;

    #[derive(Default)]
    struct Saved(Mutex<Vec<Option<i64>>>);

    impl Observer for Saved {
        fn on(&self, event: &ServiceEvent<'_>) {
            let next = match event {
                ServiceEvent::SnapshotSaved { next, .. } => Some(next.0),
                ServiceEvent::SnapshotFailed { .. } => None,
                _ => return,
            };
            self.0.lock().expect("no panic under the lock").push(next);
        }
    }

    fn checkpoints(files: &MemoryFiles, every: Duration) -> Checkpoints {
        let three = NonZeroUsize::new(3).expect("not zero");
        let store: Arc<dyn SnapshotStore> =
            Arc::new(Directory::new(files.clone(), Path::new("state"), three));
        let (report, written) = unbounded();
        let tell = move |done| report.send(done).expect("the checkpoints listen");
        let writer = SnapshotWriter::spawn(Arc::clone(&store), tell).expect("a thread");
        let (directory, fingerprint) = (PathBuf::new(), Fingerprint(7));
        let parts = PartsLimits::default();
        let plan = StatePlan { directory, shared: None, every, generations: three, parts, fingerprint };
        let mut checkpoints = Checkpoints::over(store, Box::new(writer), written, &plan, "requests");
        let id = checkpoints.id(P).expect("a legal name");
        checkpoints.take_up(id, Epoch(1), None, Instant::now());
        checkpoints
    }

    fn captured(next: i64) -> Option<Box<Captured>> {
        let (next_offset, pause) = (NextOffset(next), Duration::ZERO);
        let (body, memory) = (Ok(StateBody::Whole(vec![1])), CaptureMemory::default());
        Some(Box::new(Captured { epoch: Epoch(1), next_offset, last_record: None, body, memory, pause }))
    }

    fn end(checkpoints: Checkpoints) -> Vec<Option<i64>> {
        let saved = Saved::default();
        checkpoints.finish(Duration::from_secs(10), &saved);
        saved.0.into_inner().expect("no panic under the lock")
    }

    /// The rule that everything hangs on.
    #[test]
    fn nothing_is_written_before_its_offset_is_committed() {
        for (committed, written) in
            [(None, vec![]), (Some(9), vec![]), (Some(10), vec![Some(10)]), (Some(11), vec![Some(10)])]
        {
            let mut checkpoints = checkpoints(&MemoryFiles::new(), EVERY);
            assert!(checkpoints.ask(P, NextOffset(10), Occasion::Clock, Instant::now()).is_some());
            checkpoints.captured(P, captured(10), &Saved::default());
            checkpoints.release(|_, _| committed.map(NextOffset));
            assert_eq!(end(checkpoints), written, "committed {committed:?}");
        }
    }

    #[test]
    fn a_state_is_asked_for_once_and_only_where_something_is_new() {
        let mut checkpoints = checkpoints(&MemoryFiles::new(), EVERY);
        let at = NextOffset(10);
        assert!(checkpoints.ask(P, at, Occasion::Clock, Instant::now()).is_some());
        assert!(checkpoints.is_waiting());
        assert_eq!(checkpoints.ask(P, at, Occasion::Clock, Instant::now()), None, "a worker has been asked");
        checkpoints.captured(P, captured(10), &Saved::default());
        assert!(!checkpoints.is_waiting());
        assert_eq!(
            checkpoints.ask(P, NextOffset(20), Occasion::Clock, Instant::now()),
            None,
            "one is held back"
        );
        assert!(
            checkpoints.ask(P, NextOffset(20), Occasion::Shutdown, Instant::now()).is_some(),
            "the last chance"
        );
        checkpoints.captured(P, captured(20), &Saved::default());
        checkpoints.release(|_, _| Some(NextOffset(20)));
        assert_eq!(
            checkpoints.ask(P, NextOffset(20), Occasion::Shutdown, Instant::now()),
            None,
            "it is under way"
        );
        assert_eq!(checkpoints.ask(Partition(9), at, Occasion::Shutdown, Instant::now()), None, "not ours");
        assert_eq!(end(checkpoints), [Some(20)]);
    }

    #[test]
    fn time_and_cost_are_minded() {
        let mut checkpoints = checkpoints(&MemoryFiles::new(), Duration::from_secs(3600));
        let at = NextOffset(10);
        assert_eq!(checkpoints.ask(P, at, Occasion::Clock, Instant::now()), None, "not yet");
        let id = checkpoints.id(P).expect("a legal name");
        checkpoints.take_up(id, Epoch(2), Some((NextOffset(5), CHEAP_BYTES + 1)), Instant::now());
        assert_eq!(
            checkpoints.ask(P, at, Occasion::Revocation, Instant::now()),
            None,
            "too large to wait for"
        );
        assert!(checkpoints.ask(P, at, Occasion::Shutdown, Instant::now()).is_some());
        checkpoints.captured(P, captured(10), &Saved::default());
        checkpoints.release(|_, _| Some(at));
        assert_eq!(end(checkpoints), [], "work of an assignment that has ended");
    }

    /// What a capture of a large state has found new, as far as it had room.
    fn ahead(next: i64) -> Option<Box<Captured>> {
        let file = PartsFile { next_offset: NextOffset(next), digest: 1 };
        let parts =
            InParts { fresh: vec![1], file: Some(file), is_first: true, contents: None, state_bytes: 100 };
        let mut captured = captured(next)?;
        captured.body = Ok(StateBody::InParts(parts));
        Some(captured)
    }

    /// Waits until the writer has said something.
    fn hear(checkpoints: &mut Checkpoints, observer: &dyn Observer) {
        let begin = Instant::now();
        while checkpoints.partitions[&P].submitted > 0 {
            assert!(begin.elapsed() < Duration::from_secs(10), "the writer said nothing");
            checkpoints.tell(observer);
        }
    }

    #[test]
    fn parts_are_written_ahead_and_the_snapshot_follows_at_once() {
        let mut checkpoints = checkpoints(&MemoryFiles::new(), Duration::from_secs(3600));
        let (at, saved) = (NextOffset(10), Saved::default());
        assert!(checkpoints.ask(P, at, Occasion::Shutdown, Instant::now()).is_some());
        checkpoints.captured(P, ahead(10), &saved);
        assert_eq!(checkpoints.ask(P, at, Occasion::Clock, Instant::now()), None, "one is held back");
        checkpoints.release(|_, _| Some(at));
        assert_eq!(checkpoints.ask(P, at, Occasion::Clock, Instant::now()), None, "it is being written");
        hear(&mut checkpoints, &saved);
        assert!(checkpoints.ask(P, at, Occasion::Clock, Instant::now()).is_some(), "though no hour went by");
        checkpoints.captured(P, captured(10), &saved);
        checkpoints.release(|_, _| Some(at));
        hear(&mut checkpoints, &saved);
        assert_eq!(
            checkpoints.ask(P, NextOffset(20), Occasion::Clock, Instant::now()),
            None,
            "time is minded"
        );
        assert_eq!(end(checkpoints), []);
        assert_eq!(saved.0.into_inner().expect("no panic under the lock"), [Some(10)], "one snapshot");
    }

    #[test]
    fn a_full_disk_is_told_and_the_next_snapshot_tried() {
        let files = MemoryFiles::new();
        let mut checkpoints = checkpoints(&files, EVERY);
        // The directory and its name, then the file.
        files.plan(&[Fault::Fail { at: 2, kind: io::ErrorKind::StorageFull }]);
        let saved = Saved::default();
        for (tries, next) in [10, 10].into_iter().enumerate() {
            assert!(checkpoints.ask(P, NextOffset(next), Occasion::Clock, Instant::now()).is_some());
            checkpoints.captured(P, captured(next), &saved);
            checkpoints.release(|_, _| Some(NextOffset(next)));
            let begin = Instant::now();
            while saved.0.lock().expect("no panic under the lock").len() <= tries {
                assert!(begin.elapsed() < Duration::from_secs(10), "the writer said nothing");
                checkpoints.tell(&saved);
            }
        }
        assert_eq!(*saved.0.lock().expect("no panic under the lock"), [None, Some(10)]);
    }
}
