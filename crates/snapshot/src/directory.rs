//! Snapshots as files: `{root}/{topic}-{partition}/{next_offset:020}.kvs`.
//!
//! A generation is written under a temporary name, made durable, renamed, and its name made durable;
//! only then do older generations go. A crash between any two steps leaves either the generations
//! from before or those and the new one.

use super::files::{DiskFiles, Files};
use super::format::Snapshot;
use super::lock::DirectoryLock;
use super::store::{
    Generation, MAX_LISTED, MAX_SET_ASIDE, Saved, SnapshotStore, StoreError, format_offset, parse_offset,
    surplus,
};
use super::stream::{ReadError, Verified, read_header};
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::PartitionId;
use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SNAPSHOT: &str = ".kvs";
const TEMPORARY: &str = ".kvs.tmp";
const SET_ASIDE: &str = ".kvs.corrupt";

/// A snapshot store in a local directory.
pub type DirectoryStore = Directory<DiskFiles>;

/// A snapshot store over a file system, real or simulated.
#[derive(Debug)]
pub struct Directory<F> {
    files: F,
    root: PathBuf,
    generations: usize,
    writable: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Partitions whose directory's own name this process made durable.
    named: BTreeSet<PartitionId>,
    /// Directories that failed to become durable.
    poisoned: BTreeSet<PathBuf>,
}

impl DirectoryStore {
    /// Opens a directory for one process, and makes it if need be. `generations` are kept a partition.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has it open; [`StoreError::Io`].
    pub fn open(root: &Path, generations: NonZeroUsize) -> Result<Self, StoreError> {
        let lock = DirectoryLock::acquire(root)?;
        Ok(Self::new(DiskFiles::new(Some(lock)), root, generations))
    }

    /// Opens a directory to look at it, also while a service uses it.
    pub fn read_only(root: &Path) -> Self {
        Self { writable: false, ..Self::new(DiskFiles::new(None), root, NonZeroUsize::MIN) }
    }
}

/// The offset in a name that ends in `suffix`.
fn offset_of(name: &str, suffix: &str) -> Option<NextOffset> {
    parse_offset(name.strip_suffix(suffix)?)
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let place = path.display().to_string();
    move |cause| StoreError::Io { operation, place, cause }
}

impl<F: Files> Directory<F> {
    /// A store over `files`, which nobody else writes to.
    pub fn new(files: F, root: &Path, generations: NonZeroUsize) -> Self {
        let state = Mutex::default();
        Self { files, root: root.to_owned(), generations: generations.get(), writable: true, state }
    }

    fn directory(&self, partition: &PartitionId) -> PathBuf {
        self.root.join(partition.to_string())
    }

    fn path(&self, partition: &PartitionId, next_offset: NextOffset, suffix: &str) -> PathBuf {
        self.directory(partition).join(format!("{}{suffix}", format_offset(next_offset)))
    }

    /// The offsets of the files that end in `suffix`, ascending.
    fn offsets(&self, directory: &Path, suffix: &str) -> Result<Vec<NextOffset>, StoreError> {
        let names = self.files.names(directory).map_err(failed("listing", directory))?;
        let mut offsets: Vec<_> = names.iter().filter_map(|name| offset_of(name, suffix)).collect();
        offsets.sort_unstable();
        Ok(offsets)
    }

    /// Reads with the file's name around what goes wrong.
    fn reading<T>(
        &self,
        path: &Path,
        read: impl FnOnce(Box<dyn super::stream::Source>) -> Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        let source = self.files.open(path).map_err(failed("opening", path))?;
        read(source).map_err(|cause| StoreError::Snapshot { place: path.display().to_string(), cause })
    }

    /// The right to change anything; one change at a time.
    fn writing(&self, place: &Path) -> Result<MutexGuard<'_, State>, StoreError> {
        if !self.writable {
            return Err(StoreError::ReadOnly { place: place.display().to_string() });
        }
        // A panic in here leaves the state as true as it was.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match [place, &self.root].into_iter().find(|directory| state.poisoned.contains(*directory)) {
            Some(directory) => Err(StoreError::Poisoned { directory: directory.display().to_string() }),
            None => Ok(state),
        }
    }

    fn sync_dir(&self, directory: &Path, state: &mut State) -> Result<(), StoreError> {
        self.files.sync_dir(directory).map_err(|cause| {
            state.poisoned.insert(directory.to_owned());
            failed("making durable", directory)(cause)
        })
    }

    /// Makes the partition's directory, its own name durable. An operator may have removed it.
    fn make_directory(&self, partition: &PartitionId, state: &mut State) -> Result<(), StoreError> {
        let directory = self.directory(partition);
        let is_new = self.files.create_dir(&directory).map_err(failed("creating", &directory))?;
        // One found there may owe its name to a process that died before making it durable.
        if is_new || !state.named.contains(partition) {
            self.sync_dir(&self.root, state)?;
            state.named.insert(partition.clone());
        }
        Ok(())
    }

    /// Removes what writers that died left behind.
    fn remove_temporaries(&self, directory: &Path, partition: &PartitionId) -> Result<(), StoreError> {
        for offset in self.offsets(directory, TEMPORARY)? {
            let path = self.path(partition, offset, TEMPORARY);
            self.files.remove(&path).map_err(failed("removing", &path))?;
        }
        Ok(())
    }

    /// Writes a durable file under the temporary name; nothing is left of it after a failure.
    fn write_durably(&self, path: &Path, parts: &[&[u8]]) -> Result<(), StoreError> {
        let written = self.files.write_new(path, parts).map_err(failed("writing", path));
        let result = written.and_then(|file| self.files.sync(file).map_err(failed("making durable", path)));
        if result.is_err() {
            // Where this fails too, the next save removes the file or says why it cannot.
            let _ = self.files.remove(path);
        }
        result
    }

    /// Removes generations beyond those to keep.
    fn prune(&self, partition: &PartitionId, saved: NextOffset) -> Result<(), StoreError> {
        let offsets = self.offsets(&self.directory(partition), SNAPSHOT)?;
        for offset in surplus(&offsets, saved, self.generations) {
            let path = self.path(partition, offset, SNAPSHOT);
            self.files.remove(&path).map_err(failed("removing", &path))?;
        }
        Ok(())
    }

    fn generation(&self, partition: &PartitionId, next_offset: NextOffset) -> Generation {
        let path = self.path(partition, next_offset, SNAPSHOT);
        let header = self.reading(&path, |mut source| {
            let header = read_header(&mut *source)?;
            header.require_place(partition, next_offset)?;
            Ok(header)
        });
        Generation { next_offset, place: path.display().to_string(), header }
    }
}

impl<F: Files> SnapshotStore for Directory<F> {
    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        let names = self.files.names(&self.root).map_err(failed("listing", &self.root))?;
        let mut partitions: Vec<_> = names.iter().filter_map(|name| PartitionId::parse(name)).collect();
        partitions.sort_unstable();
        Ok(partitions)
    }

    fn list(&self, partition: &PartitionId) -> Result<Vec<Generation>, StoreError> {
        let offsets = self.offsets(&self.directory(partition), SNAPSHOT)?;
        let newest = offsets.into_iter().rev().take(MAX_LISTED);
        Ok(newest.map(|next_offset| self.generation(partition, next_offset)).collect())
    }

    fn load(&self, partition: &PartitionId, next_offset: NextOffset) -> Result<Verified, StoreError> {
        self.reading(&self.path(partition, next_offset, SNAPSHOT), |source| {
            let verified = Verified::read(source)?;
            verified.header().require_place(partition, next_offset)?;
            Ok(verified)
        })
    }

    fn save(&self, snapshot: &Snapshot) -> Result<Saved, StoreError> {
        let partition = &snapshot.partition;
        let directory = self.directory(partition);
        let mut state = self.writing(&directory)?;
        let path = self.path(partition, snapshot.fact.next_offset, SNAPSHOT);
        let place = path.display().to_string();
        let header = snapshot.header().map_err(|cause| StoreError::Snapshot {
            place: place.clone(),
            cause: ReadError::Format(cause),
        })?;
        self.make_directory(partition, &mut state)?;
        self.remove_temporaries(&directory, partition)?;
        let temporary = self.path(partition, snapshot.fact.next_offset, TEMPORARY);
        self.write_durably(&temporary, &[&header, &snapshot.body])?;
        self.files.rename(&temporary, &path).map_err(failed("renaming", &temporary))?;
        self.sync_dir(&directory, &mut state)?;
        let not_removed = self.prune(partition, snapshot.fact.next_offset).err();
        Ok(Saved { place, bytes: (header.len() + snapshot.body.len()) as u64, not_removed })
    }

    fn set_aside(&self, partition: &PartitionId, next_offset: NextOffset) -> Result<(), StoreError> {
        let directory = self.directory(partition);
        let mut state = self.writing(&directory)?;
        let path = self.path(partition, next_offset, SNAPSHOT);
        let aside = self.path(partition, next_offset, SET_ASIDE);
        self.files.rename(&path, &aside).map_err(failed("setting aside", &path))?;
        let kept = self.offsets(&directory, SET_ASIDE)?;
        for offset in &kept[..kept.len().saturating_sub(MAX_SET_ASIDE)] {
            let path = self.path(partition, *offset, SET_ASIDE);
            self.files.remove(&path).map_err(failed("removing", &path))?;
        }
        self.sync_dir(&directory, &mut state)
    }
}
