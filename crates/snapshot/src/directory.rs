//! Snapshots as files: `{root}/{topic}-{partition}/{next_offset:020}.kvs`, and alongside those of large states what
//! they are made of, `{next_offset:020}-{digest:016x}.kvp`.
//!
//! A generation is written under a temporary name, made durable, renamed, and its name made durable;
//! only then do older generations go. Parts are made durable before a generation that refers to them is written, and go
//! after the last that does. A crash between any two steps leaves either the generations from before or those and the
//! new one.

use super::assembled::OpenParts;
use super::contents::PartsFile;
use super::files::{DiskFiles, Files};
use super::format::{InParts, Snapshot, StateBody};
use super::lock;
use super::names::{format_offset, parse_offset};
use super::store::{
    Generation, MAX_LISTED, MAX_SET_ASIDE, SafeGeneration, SnapshotStore, StoreError, lost, surplus,
};
use super::stream::{ReadError, Verified, read_contents, read_header};
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::PartitionId;
use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SNAPSHOT: &str = ".kvs";
const SET_ASIDE: &str = ".kvs.corrupt";
const PARTS: &str = ".kvp";
/// Added to the name of a file that is not whole yet.
const TEMPORARY: &str = ".tmp";

/// A snapshot store in a local directory.
pub type DirectoryStore = Directory<DiskFiles>;

/// A snapshot store over a file system, real or simulated.
#[derive(Debug)]
pub struct Directory<F> {
    files: F,
    root: PathBuf,
    generations: usize,
    writable: bool,
    state: Mutex<DirectoryState>,
}

#[derive(Debug, Default)]
struct DirectoryState {
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
        let lock = lock::acquire(root)?;
        Ok(Self::new(DiskFiles::new(Some(lock)), root, generations))
    }

    /// Opens a directory to look at it, also while a service uses it.
    pub fn read_only(root: &Path) -> Self {
        Self { writable: false, ..Self::new(DiskFiles::new(None), root, NonZeroUsize::MIN) }
    }
}

/// The parts file of a name.
fn parts_of(name: &str) -> Option<PartsFile> {
    PartsFile::parse(name.strip_suffix(PARTS)?)
}

/// The offset in a name that ends in `suffix`.
fn offset_of(name: &str, suffix: &str) -> Option<NextOffset> {
    parse_offset(name.strip_suffix(suffix)?)
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let place = path.display().to_string();
    move |cause| StoreError::Io { operation, place, cause }
}

impl<F: Files + Clone + 'static> Directory<F> {
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
        read: impl FnOnce(Box<dyn super::stream::ByteSource>) -> Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        let source = self.files.open(path).map_err(failed("opening", path))?;
        read(source).map_err(|cause| StoreError::Snapshot { place: path.display().to_string(), cause })
    }

    /// The right to change anything; one change at a time.
    fn writing(&self, place: &Path) -> Result<MutexGuard<'_, DirectoryState>, StoreError> {
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

    fn sync_dir(&self, directory: &Path, state: &mut DirectoryState) -> Result<(), StoreError> {
        self.files.sync_dir(directory).map_err(|cause| {
            state.poisoned.insert(directory.to_owned());
            failed("making durable", directory)(cause)
        })
    }

    /// Makes the partition's directory, its own name durable. An operator may have removed it.
    fn make_directory(&self, partition: &PartitionId, state: &mut DirectoryState) -> Result<(), StoreError> {
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
    fn remove_temporaries(&self, directory: &Path) -> Result<(), StoreError> {
        let names = self.files.names(directory).map_err(failed("listing", directory))?;
        let is_temporary = |name: &&String| {
            name.strip_suffix(TEMPORARY)
                .is_some_and(|name| offset_of(name, SNAPSHOT).is_some() || parts_of(name).is_some())
        };
        for name in names.iter().filter(is_temporary) {
            let path = directory.join(name);
            self.files.remove(&path).map_err(failed("removing", &path))?;
        }
        Ok(())
    }

    /// Writes a durable file, its name durable too; nothing is left of it after a failure.
    fn write_durably(
        &self,
        directory: &Path,
        name: &str,
        parts: &[&[u8]],
        state: &mut DirectoryState,
    ) -> Result<(), StoreError> {
        let temporary = directory.join(format!("{name}{TEMPORARY}"));
        let written = self.files.write_new(&temporary, parts).map_err(failed("writing", &temporary));
        let result =
            written.and_then(|file| self.files.sync(file).map_err(failed("making durable", &temporary)));
        if result.is_err() {
            // Where this fails too, the next save removes the file or says why it cannot.
            let _ = self.files.remove(&temporary);
        }
        result?;
        self.files.rename(&temporary, &directory.join(name)).map_err(failed("renaming", &temporary))?;
        self.sync_dir(directory, state)
    }

    /// The parts files that are there.
    fn parts_files(&self, directory: &Path) -> Result<BTreeSet<PartsFile>, StoreError> {
        let names = self.files.names(directory).map_err(failed("listing", directory))?;
        Ok(names.iter().filter_map(|name| parts_of(name)).collect())
    }

    /// Removes generations beyond those to keep, then parts that no generation left refers to.
    fn prune(
        &self,
        partition: &PartitionId,
        saved: NextOffset,
        state: &mut DirectoryState,
    ) -> Result<(), StoreError> {
        let directory = self.directory(partition);
        let offsets = self.offsets(&directory, SNAPSHOT)?;
        for offset in surplus(&offsets, saved, self.generations) {
            let path = self.path(partition, offset, SNAPSHOT);
            self.files.remove(&path).map_err(failed("removing", &path))?;
        }
        self.remove_unused(partition, state)
    }

    /// Removes parts that no generation refers to.
    fn remove_unused(&self, partition: &PartitionId, state: &mut DirectoryState) -> Result<(), StoreError> {
        let directory = self.directory(partition);
        let mut unused = self.parts_files(&directory)?;
        if unused.is_empty() {
            return Ok(());
        }
        for offset in self.offsets(&directory, SNAPSHOT)? {
            for file in self.referred_to(&self.path(partition, offset, SNAPSHOT))? {
                unused.remove(&file);
            }
        }
        if !unused.is_empty() {
            // A generation whose removal a power failure undoes must find its parts.
            self.sync_dir(&directory, state)?;
        }
        for file in unused {
            let path = directory.join(format!("{file}{PARTS}"));
            self.files.remove(&path).map_err(failed("removing", &path))?;
        }
        Ok(())
    }

    /// The parts files that a snapshot names; none of one that is of no use to anyone.
    fn referred_to(&self, path: &Path) -> Result<Vec<PartsFile>, StoreError> {
        let named = self.reading(path, |mut source| {
            let header = read_header(&mut *source)?;
            if !header.is_in_parts {
                return Ok(Vec::new());
            }
            Ok(read_contents(&mut *source, &header)?.files)
        });
        match named {
            Err(error) if error.is_corrupt() => Ok(Vec::new()),
            named => named,
        }
    }

    /// Opens parts files of a partition.
    fn open_parts(&self, partition: &PartitionId) -> OpenParts {
        let (files, directory) = (self.files.clone(), self.directory(partition));
        Box::new(move |file| files.open(&directory.join(format!("{file}{PARTS}"))))
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

impl<F: Files + Clone + 'static> SnapshotStore for Directory<F> {
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
            let verified = Verified::read(source, self.open_parts(partition))?;
            verified.header().require_place(partition, next_offset)?;
            Ok(verified)
        })
    }

    fn save(&self, snapshot: &Snapshot) -> Result<SafeGeneration, StoreError> {
        let partition = &snapshot.partition;
        let directory = self.directory(partition);
        let mut state = self.writing(&directory)?;
        let path = self.path(partition, snapshot.fact.next_offset, SNAPSHOT);
        let place = path.display().to_string();
        self.make_directory(partition, &mut state)?;
        self.remove_temporaries(&directory)?;
        if matches!(&snapshot.body, StateBody::InParts(parts) if parts.is_first) {
            // What was written ahead of a snapshot that never came about would keep its room for ever.
            self.remove_unused(partition, &mut state)?;
        }
        let mut bytes = 0;
        if let StateBody::InParts(InParts { fresh, file: Some(file), .. }) = &snapshot.body {
            self.write_durably(&directory, &format!("{file}{PARTS}"), &[fresh], &mut state)?;
            bytes += fresh.len() as u64;
        }
        if !snapshot.body.is_complete() {
            return Ok(SafeGeneration { place, bytes, not_removed: None });
        }
        if let StateBody::InParts(InParts { contents: Some(contents), .. }) = &snapshot.body
            && let Some(file) = lost(contents, &self.parts_files(&directory)?)
        {
            return Err(StoreError::PartsLost { place, file });
        }
        let malformed =
            |cause| StoreError::Snapshot { place: place.clone(), cause: ReadError::Format(cause) };
        let body = snapshot.body().map_err(malformed)?;
        let header = snapshot.header(&body).map_err(malformed)?;
        let name = format!("{}{SNAPSHOT}", format_offset(snapshot.fact.next_offset));
        self.write_durably(&directory, &name, &[&header, &body], &mut state)?;
        bytes += (header.len() + body.len()) as u64;
        let not_removed = self.prune(partition, snapshot.fact.next_offset, &mut state).err();
        Ok(SafeGeneration { place, bytes, not_removed })
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
