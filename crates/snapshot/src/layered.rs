//! A local store in front of one that hosts share.
//!
//! Snapshots are written to both. A partition that comes back finds its state on the disk; one that
//! comes from another host finds it in the shared store. Snapshots are pure functions of the log, so
//! two of one offset hold the same state and either may be used.

use super::format::Snapshot;
use super::store::{Generation, MAX_LISTED, SafeGeneration, SnapshotStore, StoreError};
use super::stream::Verified;
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::PartitionId;
use std::collections::{BTreeMap, BTreeSet};

/// A local store in front of a shared one.
#[derive(Debug)]
pub struct Layered<L, S> {
    local: L,
    shared: S,
}

impl<L: SnapshotStore, S: SnapshotStore> Layered<L, S> {
    /// Reads from `local` what is sound there, and from `shared` what is not; writes to both.
    pub fn new(local: L, shared: S) -> Self {
        Self { local, shared }
    }
}

/// What both layers say; one that fails is named in the log, and the other's word is enough.
fn either<T>(
    local: Result<T, StoreError>,
    shared: Result<T, StoreError>,
    join: impl FnOnce(T, T) -> T,
) -> Result<T, StoreError> {
    match (local, shared) {
        (Ok(local), Ok(shared)) => Ok(join(local, shared)),
        (Ok(found), Err(error)) | (Err(error), Ok(found)) => {
            tracing::warn!("{error}");
            Ok(found)
        }
        (Err(error), Err(other)) => {
            tracing::warn!("{other}");
            Err(error)
        }
    }
}

impl<L: SnapshotStore, S: SnapshotStore> SnapshotStore for Layered<L, S> {
    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        let join = |local: Vec<_>, shared: Vec<_>| {
            let all: BTreeSet<_> = local.into_iter().chain(shared).collect();
            all.into_iter().collect()
        };
        either(self.local.partitions(), self.shared.partitions(), join)
    }

    fn list(&self, partition: &PartitionId) -> Result<Vec<Generation>, StoreError> {
        let join = |local: Vec<Generation>, shared: Vec<Generation>| {
            let mut by_offset = BTreeMap::new();
            for generation in shared.into_iter().chain(local) {
                let is_sound = generation.header.is_ok();
                if is_sound || !by_offset.contains_key(&generation.next_offset) {
                    by_offset.insert(generation.next_offset, generation);
                }
            }
            by_offset.into_values().rev().take(MAX_LISTED).collect()
        };
        either(self.local.list(partition), self.shared.list(partition), join)
    }

    fn load(&self, partition: &PartitionId, next_offset: NextOffset) -> Result<Verified, StoreError> {
        self.local.load(partition, next_offset).or_else(|local| {
            self.shared.load(partition, next_offset).map_err(|shared| {
                // The one that is there says more than the one that is missing.
                if local.is_corrupt() { local } else { shared }
            })
        })
    }

    fn save(&self, snapshot: &Snapshot) -> Result<SafeGeneration, StoreError> {
        let local = self.local.save(snapshot);
        // A full disk here is one more reason to have it there.
        let shared = self.shared.save(snapshot);
        let (local, shared) = (local?, shared?);
        Ok(SafeGeneration { not_removed: local.not_removed.or(shared.not_removed), ..local })
    }

    fn set_aside(&self, partition: &PartitionId, next_offset: NextOffset) -> Result<(), StoreError> {
        for layer in [&self.local as &dyn SnapshotStore, &self.shared] {
            let is_corrupt = match layer.load(partition, next_offset) {
                Ok(verified) => verified.check().is_err_and(|error| error.is_corrupt()),
                Err(error) => error.is_corrupt(),
            };
            if is_corrupt {
                layer.set_aside(partition, next_offset)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use crate::memory::{Fault, MemoryFiles};
    use kvset_pipeline::facts::{Fingerprint, SnapshotFact};
    use std::io;
    use std::num::NonZeroUsize;
    use std::path::Path;

    type Layer = Directory<MemoryFiles>;

    fn layer(files: &MemoryFiles) -> Layer {
        Directory::new(files.clone(), Path::new("state"), NonZeroUsize::new(2).expect("not zero"))
    }

    fn partition() -> PartitionId {
        PartitionId::new("requests", 3).expect("a legal name")
    }

    fn snapshot(next_offset: i64) -> Snapshot {
        let fact = SnapshotFact {
            next_offset: NextOffset(next_offset),
            fingerprint: Fingerprint(7),
            last_record: None,
        };
        Snapshot { partition: partition(), fact, body: vec![next_offset as u8; 100].into() }
    }

    fn offsets(store: &dyn SnapshotStore) -> Vec<i64> {
        let found = store.list(&partition()).expect("a listing");
        found.iter().map(|generation| generation.next_offset.0).collect()
    }

    /// A host's store over its own disk and the shared one.
    fn host(disk: &MemoryFiles, shared: &MemoryFiles) -> Layered<Layer, Layer> {
        Layered::new(layer(disk), layer(shared))
    }

    #[test]
    fn a_partition_moves_to_a_host_that_has_never_seen_it() {
        let (first, second, shared) = (MemoryFiles::new(), MemoryFiles::new(), MemoryFiles::new());
        host(&first, &shared).save(&snapshot(10)).expect("room");
        let there = host(&second, &shared);
        assert_eq!(there.partitions().expect("a listing"), [partition()]);
        assert_eq!(offsets(&there), [10]);
        assert!(there.load(&partition(), NextOffset(10)).is_ok());
        there.save(&snapshot(20)).expect("room");
        assert_eq!(offsets(&host(&first, &shared)), [20, 10], "and back");
        assert_eq!(offsets(&layer(&second)), [20], "its own disk holds what it wrote");
    }

    #[test]
    fn a_rotten_local_snapshot_is_replaced_by_the_shared_one() {
        let (disk, shared) = (MemoryFiles::new(), MemoryFiles::new());
        let store = host(&disk, &shared);
        store.save(&snapshot(10)).expect("room");
        let path = disk.paths().into_iter().find(|path| path.extension().is_some_and(|end| end == "kvs"));
        disk.corrupt(&path.expect("the snapshot"), |bytes| bytes[8] ^= 1);
        assert!(store.list(&partition()).expect("a listing")[0].header.is_ok(), "the shared one is listed");
        assert!(store.load(&partition(), NextOffset(10)).is_ok());
        store.set_aside(&partition(), NextOffset(10)).expect("it can be moved");
        assert_eq!((offsets(&layer(&disk)), offsets(&layer(&shared))), (vec![], vec![10]));
    }

    #[test]
    fn a_failing_layer_is_an_error_of_saving_only() {
        let (disk, shared) = (MemoryFiles::new(), MemoryFiles::new());
        let store = host(&disk, &shared);
        store.save(&snapshot(10)).expect("room");
        disk.plan(&[Fault::Fail { at: 0, kind: io::ErrorKind::StorageFull }]);
        let error = store.save(&snapshot(20)).expect_err("the disk is full");
        assert!(error.is_disk_full(), "{error}");
        assert_eq!(offsets(&layer(&shared)), [20, 10], "the shared store has it nevertheless");
        assert_eq!(offsets(&store), [20, 10]);
    }
}
