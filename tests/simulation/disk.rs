//! A process's disk, which fails and is left in the middle of things, and its snapshot writer.

use crate::world::{Process, State};
use crossbeam_channel::Sender;
use kvset::position::Partition;
use kvset::snapshot::files::Files;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::memory::{Fault, MemoryFiles};
use kvset::snapshot::store::SnapshotStore;
use kvset::snapshot::stream::ByteSource;
use kvset::snapshot::writer::{SnapshotOutcome, SnapshotQueue, Unfinished, Writing, write};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One process's way to a disk, which other processes may share.
#[derive(Debug, Clone)]
pub struct SimFiles {
    process: Process,
    disk: MemoryFiles,
}

impl SimFiles {
    pub fn new(process: Process, disk: MemoryFiles) -> Self {
        Self { process, disk }
    }

    /// An operation that changes something, which may fail.
    fn change<T>(
        &self,
        at: &'static str,
        operation: impl FnOnce(&MemoryFiles) -> io::Result<T>,
    ) -> io::Result<T> {
        self.process.step(at, |state| {
            let one_in = state.rates.disk;
            let kind = if state.strikes(one_in, "disk full", at) {
                ErrorKind::StorageFull
            } else if state.strikes(one_in, "disk error", at) {
                ErrorKind::Other
            } else {
                return operation(&self.disk);
            };
            self.failing(kind, operation)
        })?
    }

    fn failing<T>(
        &self,
        kind: ErrorKind,
        operation: impl FnOnce(&MemoryFiles) -> io::Result<T>,
    ) -> io::Result<T> {
        self.disk.plan(&[Fault::Fail { at: 0, kind }]);
        let result = operation(&self.disk);
        self.disk.plan(&[]);
        result
    }

    fn look<T>(
        &self,
        at: &'static str,
        operation: impl FnOnce(&MemoryFiles) -> io::Result<T>,
    ) -> io::Result<T> {
        self.process.step(at, |state| {
            let one_in = state.rates.disk;
            if state.strikes(one_in, "disk error", at) {
                return Err(ErrorKind::Other.into());
            }
            operation(&self.disk)
        })?
    }

    /// Whether the process dies half-way through a write.
    fn is_torn(&self, state: &mut State) -> bool {
        let crash = state.rates.crash;
        state.strikes(crash, "crash within", "disk: write")
    }
}

impl Files for SimFiles {
    type Written = usize;

    fn create_dir(&self, directory: &Path) -> io::Result<bool> {
        self.change("disk: create directory", |disk| disk.create_dir(directory))
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.look("disk: list", |disk| disk.names(directory))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ByteSource>> {
        self.look("disk: open", |disk| disk.open(path))
    }

    fn write_new(&self, path: &Path, parts: &[&[u8]]) -> io::Result<usize> {
        let torn = self.process.step("disk: begin write", |state| {
            let torn = self.is_torn(state);
            if torn {
                // What is left of it is the next process's to find.
                let _ = self.failing(ErrorKind::Other, |disk| disk.write_new(path, parts));
                self.process.dies(state);
            }
            torn
        })?;
        if torn {
            return Err(io::Error::other("died while writing"));
        }
        self.change("disk: write", |disk| disk.write_new(path, parts))
    }

    fn sync(&self, file: usize) -> io::Result<()> {
        self.change("disk: sync", |disk| disk.sync(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change("disk: rename", |disk| disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change("disk: remove", |disk| disk.remove(path))
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.change("disk: sync directory", |disk| disk.sync_dir(directory))
    }
}

/// Writes a process's snapshots one at a time, when the life has it do so.
#[derive(Clone)]
pub struct Desk {
    process: Process,
    store: Arc<dyn SnapshotStore>,
    queue: Arc<Mutex<SnapshotQueue>>,
    report: Sender<SnapshotOutcome>,
}

impl Desk {
    pub fn new(process: Process, store: Arc<dyn SnapshotStore>, report: Sender<SnapshotOutcome>) -> Self {
        Self { process, store, queue: Arc::default(), report }
    }

    fn queue(&self) -> MutexGuard<'_, SnapshotQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one snapshot, if one waits.
    pub fn write_one(&self) -> bool {
        let Some(snapshot) = self.queue().take() else { return false };
        if self.process.is_dead() {
            return false;
        }
        self.witness(&snapshot);
        // Once the coordinator is gone nobody listens.
        let _ = self.report.send(write(&*self.store, snapshot));
        true
    }

    /// The rule that everything hangs on: nothing is written before its offset is committed.
    fn witness(&self, snapshot: &Snapshot) {
        let mut state = self.process.world.state();
        let (partition, next) = (Partition(snapshot.partition.partition()), snapshot.fact.next_offset);
        let committed = state.broker.logs[partition.0 as usize].committed;
        state.note(|| format!("process {} saves partition {partition} at {next}", self.process.number));
        state.count("snapshot", "saved");
        if Some(next.0) > committed {
            state.demand(Err(format!(
                "partition {partition}: a snapshot at {next} is written while {committed:?} is committed"
            )));
        }
    }
}

impl Writing for Desk {
    fn submit(&self, snapshot: Snapshot) -> bool {
        self.queue().submit(snapshot)
    }

    fn finish(self: Box<Self>, deadline: Duration) -> Result<(), Unfinished> {
        let slow = self.process.world.state().strikes(8, "slow disk", "finish");
        while !slow && self.write_one() {}
        if slow { Err(Unfinished { waiting: 1, deadline }) } else { Ok(()) }
    }
}
