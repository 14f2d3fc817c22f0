//! When snapshots are made, and that none is written before its offset was committed.
//!
//! A state is captured whenever it is due and held back until the group has committed the captured
//! offset; only then the writer gets it. Whatever fails here costs a later restart time, never a
//! result, so it is logged and counted and the service goes on.

use super::stores;
use crate::events::{Observer, ServiceEvent};
use crate::plan::StatePlan;
use crate::workers::pool::Captured;
use crossbeam_channel::{Receiver, unbounded};
use kvset_formats::position::{Epoch, NextOffset, Partition};
use kvset_pipeline::facts::{Fingerprint, InvalidPartition, PartitionId, SnapshotFact};
use kvset_snapshot::format::Snapshot;
use kvset_snapshot::store::{SnapshotStore, StoreError};
use kvset_snapshot::writer::{SnapshotWriter, Submitted, Writing, Written};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Largest snapshot that is worth making a rebalance wait for, in bytes.
const CHEAP_BYTES: u64 = 64 << 20;

/// Why a state is asked for.
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
    written: Receiver<Written>,
    fingerprint: Fingerprint,
    topic: String,
    every: Duration,
    partitions: BTreeMap<Partition, Pace>,
}

/// Where one partition is between two snapshots.
struct Pace {
    id: PartitionId,
    epoch: Epoch,
    /// When its state was last asked for, or taken up.
    last: Instant,
    /// A worker was asked and has not answered yet.
    asked: bool,
    /// Captured, and not known to be committed.
    held: Option<Snapshot>,
    /// Of the newest snapshot that is safe or under way.
    newest: Option<NextOffset>,
    /// Bytes of the last one.
    bytes: u64,
    /// Memory for the next one.
    memory: Vec<u8>,
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
        written: Receiver<Written>,
        plan: &StatePlan,
        topic: &str,
    ) -> Self {
        let (topic, partitions) = (topic.to_owned(), BTreeMap::new());
        let StatePlan { fingerprint, every, .. } = *plan;
        Self { store, writer, written, fingerprint, topic, every, partitions }
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

    /// A partition was taken up, from a snapshot of this place and size or from none.
    pub fn take_up(
        &mut self,
        id: PartitionId,
        epoch: Epoch,
        restored: Option<(NextOffset, u64)>,
        now: Instant,
    ) {
        let partition = Partition(id.partition());
        let (newest, bytes) = restored.map_or((None, 0), |(next, bytes)| (Some(next), bytes));
        let (last, memory) = (now, Vec::new());
        let pace = Pace { id, epoch, last, asked: false, held: None, newest, bytes, memory };
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
    ) -> Option<Vec<u8>> {
        let pace = self.partitions.get_mut(&partition)?;
        let due = match occasion {
            Occasion::Clock => now.saturating_duration_since(pace.last) >= self.every && pace.held.is_none(),
            Occasion::Revocation => pace.bytes <= CHEAP_BYTES,
            Occasion::Shutdown => true,
        };
        let behind = pace.held.as_ref().map(|held| held.fact.next_offset).max(pace.newest);
        if pace.asked || !due || behind >= Some(position) {
            return None;
        }
        pace.asked = true;
        pace.last = now;
        Some(std::mem::take(&mut pace.memory))
    }

    /// Whether workers owe states.
    pub fn is_waiting(&self) -> bool {
        self.partitions.values().any(|pace| pace.asked)
    }

    /// Takes a worker's answer.
    pub fn captured(&mut self, partition: Partition, captured: Option<Captured>, observer: &dyn Observer) {
        let Some(pace) = self.partitions.get_mut(&partition) else { return };
        pace.asked = false;
        let Some(captured) = captured.filter(|captured| captured.epoch == pace.epoch) else { return };
        observer.on(&ServiceEvent::Captured { partition, pause: captured.pause });
        match captured.body {
            Ok(body) => {
                let Captured { next_offset, last_record, .. } = captured;
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
            pace.newest = Some(snapshot.fact.next_offset);
            if let Submitted::Replaced { buffer, .. } = self.writer.submit(snapshot) {
                pace.memory = buffer;
            }
        }
    }

    /// Tells what the writer has done since.
    pub fn tell(&mut self, observer: &dyn Observer) {
        for written in self.written.try_iter() {
            let partition = Partition(written.partition.partition());
            let (bytes, memory) = told(written, observer);
            if let Some(pace) = self.partitions.get_mut(&partition) {
                pace.memory = memory;
                match bytes {
                    Some(bytes) => pace.bytes = bytes,
                    // The next one is wanted even where the partition stands still.
                    None => pace.newest = None,
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
        written.try_iter().for_each(|written| drop(told(written, observer)));
    }
}

/// Tells what became of a snapshot; gives its size if it is safe, and its memory.
fn told(written: Written, observer: &dyn Observer) -> (Option<u64>, Vec<u8>) {
    let Written { partition: id, next_offset: next, duration: took, result, buffer } = written;
    let partition = Partition(id.partition());
    match result {
        Ok(saved) => {
            tracing::debug!(
                partition = partition.0,
                offset = next.0,
                bytes = saved.bytes,
                "partition {partition}: snapshot at {next} of {} bytes",
                saved.bytes
            );
            if let Some(error) = saved.not_removed {
                tracing::warn!(
                    partition = partition.0,
                    "partition {partition}: an old snapshot is still there: {error}"
                );
            }
            let bytes = saved.bytes;
            observer.on(&ServiceEvent::SnapshotSaved { partition, next, bytes, took });
            (Some(bytes), buffer)
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
    use kvset_snapshot::directory::Directory;
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
        let plan = StatePlan { directory, shared: None, every, generations: three, fingerprint };
        let mut checkpoints = Checkpoints::over(store, Box::new(writer), written, &plan, "requests");
        let id = checkpoints.id(P).expect("a legal name");
        checkpoints.take_up(id, Epoch(1), None, Instant::now());
        checkpoints
    }

    fn captured(next: i64) -> Option<Captured> {
        let (next_offset, pause) = (NextOffset(next), Duration::ZERO);
        Some(Captured { epoch: Epoch(1), next_offset, last_record: None, body: Ok(vec![1]), pause })
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
