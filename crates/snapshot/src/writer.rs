//! Writing in the background, so that the stream stops only for the capture.

use super::format::Snapshot;
use super::store::{SafeGeneration, SnapshotStore, StoreError};
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::PartitionId;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One thread that saves snapshots, in the order they were handed in: a later one may refer to parts of an earlier one.
///
/// Memory holds as many bodies as callers hand in: they wait with the next of a partition until the one before is
/// written, or the end has come.
pub struct SnapshotWriter {
    shared: Arc<SharedQueue>,
    thread: Option<JoinHandle<()>>,
}

/// Whoever writes snapshots while the stream goes on.
pub trait Writing {
    /// Hands a snapshot in and returns at once; false where the writer is closing, and nothing was taken.
    fn submit(&self, snapshot: Snapshot) -> bool;

    /// Writes what is waiting, and ends.
    ///
    /// # Errors
    /// [`Unfinished`] after `deadline`; what is left goes on by itself then.
    fn finish(self: Box<Self>, deadline: Duration) -> Result<(), Unfinished>;
}

/// What became of a snapshot that was handed in.
#[derive(Debug)]
pub struct SnapshotOutcome {
    /// Whose state it was.
    pub partition: PartitionId,
    /// Where in the log it stood.
    pub next_offset: NextOffset,
    /// How long saving took.
    pub duration: Duration,
    /// Bytes of the state.
    pub state_bytes: u64,
    /// Whether it was a snapshot, or parts of one to come.
    pub is_complete: bool,
    /// Whether it is safe now.
    pub result: Result<SafeGeneration, StoreError>,
    /// The body's memory, for the next capture: memory in use already is five times as fast.
    pub buffer: Vec<u8>,
}

/// The writer did not come to its end in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{waiting} snapshots were not written within {}: the disk or store is slow or stuck; the next start replays more \
     of the log instead, nothing else is lost",
    kvset_formats::time::words(*.deadline)
)]
pub struct Unfinished {
    /// Snapshots waiting or being written.
    pub waiting: usize,
    /// The time that was given.
    pub deadline: Duration,
}

#[derive(Default)]
struct SharedQueue {
    queue: Mutex<SnapshotQueue>,
    changed: Condvar,
}

/// Snapshots that wait, and the one being written.
#[derive(Default)]
pub struct SnapshotQueue {
    waiting: VecDeque<Snapshot>,
    writing: Option<PartitionId>,
    closed: bool,
}

impl SnapshotQueue {
    /// Takes a snapshot in; false where the writer is closing.
    pub fn submit(&mut self, snapshot: Snapshot) -> bool {
        if self.closed {
            return false;
        }
        self.waiting.push_back(snapshot);
        true
    }

    /// The next snapshot to write; the one before it is done.
    pub fn take(&mut self) -> Option<Snapshot> {
        let next = self.waiting.pop_front();
        self.writing = next.as_ref().map(|snapshot| snapshot.partition.clone());
        next
    }

    fn concerns(&self, partition: &PartitionId) -> bool {
        self.writing.as_ref() == Some(partition)
            || self.waiting.iter().any(|snapshot| snapshot.partition == *partition)
    }

    fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.writing.is_some())
    }
}

impl SharedQueue {
    /// No code panics while it holds the queue, and a queue is whole after every statement.
    fn queue(&self) -> MutexGuard<'_, SnapshotQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next snapshot; `None` when the writer closed and all are written.
    fn next(&self) -> Option<Snapshot> {
        let mut queue = self.queue();
        loop {
            let next = queue.take();
            self.changed.notify_all();
            if next.is_some() {
                return next;
            }
            if queue.closed {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `is_done`; what is left in the queue when it is not in time.
    fn wait(&self, deadline: Duration, is_done: impl Fn(&SnapshotQueue) -> bool) -> Result<(), Unfinished> {
        let end = Instant::now() + deadline;
        let mut queue = self.queue();
        while !is_done(&queue) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Unfinished { waiting: queue.len(), deadline });
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

impl SnapshotWriter {
    /// Starts the thread. `report` is called on it after every snapshot: it counts and logs, quickly.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(
        store: Arc<dyn SnapshotStore>,
        mut report: impl FnMut(SnapshotOutcome) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::<SharedQueue>::default();
        let of_thread = Arc::clone(&shared);
        let work = move || {
            while let Some(snapshot) = of_thread.next() {
                report(write(&*store, snapshot));
            }
        };
        let thread = std::thread::Builder::new().name("kvset-snapshots".to_owned()).spawn(work)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Waits until nothing of a partition is waiting or being written, as before it is given away.
    ///
    /// # Errors
    /// [`Unfinished`] after `deadline`.
    pub fn flush(&self, partition: &PartitionId, deadline: Duration) -> Result<(), Unfinished> {
        self.shared.wait(deadline, |queue| !queue.concerns(partition))
    }

    /// Hands a snapshot in and returns at once.
    pub fn submit(&self, snapshot: Snapshot) -> bool {
        let submitted = self.shared.queue().submit(snapshot);
        self.shared.changed.notify_all();
        submitted
    }

    /// Writes what is waiting and ends the thread.
    ///
    /// # Errors
    /// [`Unfinished`] after `deadline`; the thread is left to itself then.
    pub fn finish(mut self, deadline: Duration) -> Result<(), Unfinished> {
        self.close();
        self.shared.wait(deadline, |queue| queue.len() == 0)?;
        if let Some(thread) = self.thread.take() {
            // It has nothing left to do, and what it reported went to the caller already.
            let _ = thread.join();
        }
        Ok(())
    }

    fn close(&self) {
        self.shared.queue().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Writing for SnapshotWriter {
    fn submit(&self, snapshot: Snapshot) -> bool {
        Self::submit(self, snapshot)
    }

    fn finish(self: Box<Self>, deadline: Duration) -> Result<(), Unfinished> {
        Self::finish(*self, deadline)
    }
}

impl Drop for SnapshotWriter {
    /// Tells the thread to end after what is waiting; nobody waits for it.
    fn drop(&mut self) {
        self.close();
    }
}

/// Saves one snapshot, and says what became of it.
pub fn write(store: &dyn SnapshotStore, snapshot: Snapshot) -> SnapshotOutcome {
    let started = Instant::now();
    // A store that panics must not end all later snapshots with it.
    let result = catch_unwind(AssertUnwindSafe(|| store.save(&snapshot))).unwrap_or_else(|_| {
        let partition = Box::new(snapshot.partition.clone());
        Err(StoreError::Panicked { partition })
    });
    let Snapshot { partition, fact, body } = snapshot;
    let (next_offset, duration) = (fact.next_offset, started.elapsed());
    let (state_bytes, is_complete) = (body.state_bytes(), body.is_complete());
    SnapshotOutcome {
        partition,
        next_offset,
        duration,
        state_bytes,
        is_complete,
        result,
        buffer: body.into_buffer(),
    }
}
