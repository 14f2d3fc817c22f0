//! What any place that keeps snapshots can do, and how it fails.

use super::contents::{Contents, PartsFile};
use super::format::{FormatError, Header, Snapshot};
use super::stream::{ReadError, Verified};
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::{Fingerprint, PartitionId};
use kvset_pipeline::resume::{LastRecord, SnapshotFacts, SnapshotHealth};
use std::collections::BTreeSet;
use std::io;

/// Most generations of one partition that are looked at; the newest ones.
pub const MAX_LISTED: usize = 256;

/// Corrupt generations kept a partition, those with the highest offsets.
pub const MAX_SET_ASIDE: usize = 4;

/// Keeps snapshots by partition and next offset. The log is the truth: a store may lose any snapshot,
/// but never hand out one that is not whole.
///
/// All methods may be called from several threads.
pub trait SnapshotStore: Send + Sync {
    /// The partitions that have snapshots, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError>;

    /// A partition's generations, the newest first, at most [`MAX_LISTED`]. Only headers are read.
    ///
    /// # Errors
    /// [`StoreError`] when nothing can be listed; what is wrong with one generation stands in it.
    fn list(&self, partition: &PartitionId) -> Result<Vec<Generation>, StoreError>;

    /// Reads one generation's file and checks every byte of it. The parts of a large state are checked as they are
    /// read.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::is_corrupt`] when the file should be set aside.
    fn load(&self, partition: &PartitionId, next_offset: NextOffset) -> Result<Verified, StoreError>;

    /// Writes a generation; when it returns, the generation outlives a power failure. Older generations beyond those
    /// to keep, and parts that none of those left refers to, are removed only after that. Of a body that is [not
    /// complete](super::format::StateBody::is_complete) the new parts are written, and no generation.
    ///
    /// # Errors
    /// [`StoreError`]; the generations there before are untouched then.
    fn save(&self, snapshot: &Snapshot) -> Result<SafeGeneration, StoreError>;

    /// Takes a corrupt generation out of the list but keeps a bounded number of such for inspection.
    ///
    /// # Errors
    /// [`StoreError`].
    fn set_aside(&self, partition: &PartitionId, next_offset: NextOffset) -> Result<(), StoreError>;
}

/// One generation as found, perhaps rotten.
#[derive(Debug)]
pub struct Generation {
    /// The next offset its name gives.
    pub next_offset: NextOffset,
    /// Where it lies, for people.
    pub place: String,
    /// Its header, where that is sound and belongs to this place.
    pub header: Result<Header, StoreError>,
}

impl Generation {
    /// Whether a service under configuration `expected` can use it. What is sound and merely not its
    /// own is foreign, and so is what could not be read now: neither is set aside.
    pub fn health(&self, expected: Fingerprint) -> SnapshotHealth {
        match &self.header {
            Ok(header) if header.require_fingerprint(expected).is_ok() => SnapshotHealth::Sound,
            Err(error) if error.is_corrupt() => SnapshotHealth::Damaged,
            _ => SnapshotHealth::Foreign,
        }
    }

    /// What a resume decision knows, once the log was asked for the record that stands where the
    /// state's last one stood ([`SnapshotFact::last_record_in_log`]).
    ///
    /// [`SnapshotFact::last_record_in_log`]: kvset_pipeline::facts::SnapshotFact::last_record_in_log
    pub fn facts(&self, expected: Fingerprint, last_record: LastRecord) -> SnapshotFacts {
        SnapshotFacts { next_offset: self.next_offset, health: self.health(expected), last_record }
    }
}

/// A generation that is safe now.
#[derive(Debug)]
pub struct SafeGeneration {
    /// Where it lies, for people.
    pub place: String,
    /// Bytes written.
    pub bytes: u64,
    /// Why an older generation could not be removed; it costs room and nothing else.
    pub not_removed: Option<StoreError>,
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file or the disk below it.
    #[error("{operation} {place}: {cause}; {}", way_out(cause))]
    Io {
        /// What was done, such as `writing`.
        operation: &'static str,
        /// The file or directory.
        place: String,
        /// What the system said.
        cause: io::Error,
    },
    /// The store cannot be opened.
    #[error("{reason}")]
    Unopened {
        /// Why, and what to do.
        reason: String,
    },
    /// The snapshot itself.
    #[error("snapshot {place}: {cause}")]
    Snapshot {
        /// The file or object.
        place: String,
        /// What is wrong with it.
        cause: ReadError,
    },
    /// Parts that the store should have are not there.
    #[error(
        "{place} cannot refer to the parts file {file}, which was removed meanwhile: the next snapshot writes all parts \
         anew"
    )]
    PartsLost {
        /// The snapshot that was to be written.
        place: String,
        /// The file.
        file: PartsFile,
    },
    /// Another process keeps its snapshots in the directory.
    #[error(
        "the snapshot directory {directory} is in use by {holder}: stop that process, or give this one a snapshot \
         directory of its own"
    )]
    Locked {
        /// The directory.
        directory: String,
        /// Who holds the lock, in its own words.
        holder: String,
    },
    /// The store was opened for reading.
    #[error("{place} was opened for reading only: this command changes no snapshot")]
    ReadOnly {
        /// What should have been changed.
        place: String,
    },
    /// A directory could not be made durable once, and a later success would prove nothing.
    #[error(
        "no more snapshots are written below {directory}: making it durable failed earlier, after which the system \
         may report success for what was lost; check the disk and restart the service"
    )]
    Poisoned {
        /// The directory.
        directory: String,
    },
    /// The store's code failed.
    #[error(
        "saving the snapshot of {partition} ended in a panic: the service goes on; report this as a defect"
    )]
    Panicked {
        /// Whose snapshot it was.
        partition: Box<PartitionId>,
    },
}

/// What an operator can do about a system error.
fn way_out(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space or keep fewer generations; the service goes on without a new snapshot"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "give the service's user the right to read and write there"
        }
        io::ErrorKind::NotFound => "it was removed meanwhile or the directory is another one than meant",
        _ => "check the disk or the store",
    }
}

impl StoreError {
    /// Whether the generation is of no use to anyone and may be set aside.
    pub fn is_corrupt(&self) -> bool {
        matches!(self.format_error(), Some(error) if error.is_corrupt())
    }

    /// Whether room ran out.
    pub fn is_disk_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Io { cause, .. } if full.contains(&cause.kind()))
    }

    /// What is wrong with the snapshot's bytes, if that is what is wrong.
    pub fn format_error(&self) -> Option<&FormatError> {
        match self {
            Self::Snapshot { cause: ReadError::Format(error), .. } => Some(error),
            _ => None,
        }
    }
}

/// Loads the generation a resume decision chose; a corrupt one is set aside, and the errors returned
/// are all there is to log. Decide again without it then.
///
/// # Errors
/// Why it cannot be used, and why it could not be set aside.
pub fn load_or_set_aside(
    store: &dyn SnapshotStore,
    partition: &PartitionId,
    next_offset: NextOffset,
) -> Result<Verified, Vec<StoreError>> {
    store.load(partition, next_offset).map_err(|error| {
        let aside = if error.is_corrupt() { store.set_aside(partition, next_offset) } else { Ok(()) };
        std::iter::once(error).chain(aside.err()).collect()
    })
}

/// The first file of a list of parts that is not among those a store has.
pub(super) fn lost(contents: &Contents, there: &BTreeSet<PartsFile>) -> Option<PartsFile> {
    contents.files.iter().copied().find(|file| !there.contains(file))
}

/// The generations that go once `saved` is safe, of all there are, ascending: as many up to `saved`
/// are kept as configured, and as many above it, which a group whose offsets were set back may reach
/// again.
pub(super) fn surplus(
    all: &[NextOffset],
    saved: NextOffset,
    generations: usize,
) -> impl Iterator<Item = NextOffset> {
    let (up_to, above) = all.split_at(all.partition_point(|offset| *offset <= saved));
    let surplus = |offsets: &[NextOffset]| offsets.len().saturating_sub(generations);
    let (old, far) = (&up_to[..surplus(up_to)], &above[above.len() - surplus(above)..]);
    old.iter().chain(far).copied()
}
