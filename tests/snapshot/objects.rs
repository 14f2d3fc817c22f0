//! The shared store: the same promises as the directory's, over objects.

use kvset::commands::snapshot::inventory::{decodes_as, verify};
use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::position::NextOffset;
use kvset::snapshot::capture::capture;
use kvset::snapshot::directory::DirectoryStore;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::layered::Layered;
use kvset::snapshot::objects::{ObjectSnapshots, StoreOpenError};
use kvset::snapshot::store::{MAX_SET_ASIDE, SnapshotStore, StoreError, load_or_set_aside};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::num::NonZeroUsize;
use std::sync::Arc;

const TWO: NonZeroUsize = NonZeroUsize::new(2).expect("not zero");

fn partition() -> PartitionId {
    PartitionId::new("llm.requests", 3).expect("a legal name")
}

fn snapshot(next_offset: i64, pages: u64) -> Snapshot {
    Snapshot {
        partition: partition(),
        fact: SnapshotFact {
            next_offset: NextOffset(next_offset),
            fingerprint: Fingerprint(5),
            last_record: None,
        },
        body: capture(&(0..pages).collect::<Vec<u64>>(), Vec::new()).expect("bytes").into(),
    }
}

fn store(objects: Arc<dyn ObjectStore>) -> ObjectSnapshots {
    ObjectSnapshots::new(objects, "memory", &Path::from("state"), "planner", TWO).expect("a legal group")
}

fn offsets(store: &dyn SnapshotStore) -> Vec<i64> {
    let found = store.list(&partition()).expect("a listing");
    found.iter().map(|generation| generation.next_offset.0).collect()
}

#[test]
fn a_partition_moves_from_one_hosts_disk_to_anothers() {
    let folder = tempfile::tempdir().expect("a folder");
    let open =
        |name: &str| DirectoryStore::open(&folder.path().join(name), TWO).expect("nobody else is here");
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).expect("a disk");
    let address = format!("file://{}", shared.display());
    let host = |name: &str| {
        let shared = ObjectSnapshots::open(&address, &[], "planner", TWO).expect("a directory");
        Layered::new(open(name), shared)
    };
    let (first, second) = (host("first"), host("second"));
    // Several parts of an upload, so that all of them must arrive.
    first.save(&snapshot(70, 4_000_000)).expect("a disk");
    assert!(folder.path().join("shared/planner/llm.requests/3/00000000000000000070").is_file());
    assert_eq!(second.partitions().expect("a listing"), [partition()]);
    let state: Vec<u64> =
        second.load(&partition(), NextOffset(70)).expect("sound").restore().expect("the state");
    assert!(state.into_iter().eq(0..4_000_000));
}

#[test]
fn older_generations_go_and_rotten_ones_are_set_aside() {
    let objects = Arc::new(InMemory::new());
    let store = store(objects.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for round in 0..6 {
        for offset in [100, 200, 300 + round] {
            store.save(&snapshot(offset, 10)).expect("memory");
        }
        let rotten = Path::from(format!("state/planner/llm.requests/3/{:020}", 300 + round));
        // By turns empty, cut, and not a snapshot: the service starts on, within its own runtime.
        let bytes: &[u8] = [&b""[..], b"kvset\x1a\r\n\x01", b"<html>"][round as usize % 3];
        runtime.block_on(async {
            objects.put(&rotten, bytes.to_vec().into()).await.expect("memory");
            let found = verify(&store, None, &decodes_as::<Vec<u64>>).expect("a listing");
            let unsound = found.snapshots.iter().filter(|snapshot| snapshot.problem.is_some()).count();
            assert_eq!((found.snapshots.len(), unsound), (2, 1));
            let errors =
                load_or_set_aside(&store, &partition(), NextOffset(300 + round)).expect_err("rotten");
            assert_eq!(errors.len(), 1, "{errors:?}");
        });
        assert_eq!(offsets(&store), [200]);
        let names =
            runtime.block_on(objects.list_with_delimiter(Some(&"state/planner/llm.requests/3".into())));
        let names = names.expect("memory").objects;
        let aside = names.iter().filter(|object| object.location.as_ref().ends_with(".corrupt")).count();
        assert_eq!(aside, MAX_SET_ASIDE.min(round as usize + 1));
    }
}

#[test]
fn what_is_not_there_is_an_error_that_says_where() {
    let store = store(Arc::new(InMemory::new()));
    assert_eq!(store.partitions().expect("empty"), []);
    assert_eq!(offsets(&store), [0; 0]);
    let error = store.load(&partition(), NextOffset(1)).expect_err("nothing there");
    assert!(matches!(&error, StoreError::Io { cause, .. } if cause.kind() == std::io::ErrorKind::NotFound));
    let said = error.to_string();
    let place = "reading state/planner/llm.requests/3/00000000000000000001 in memory: ";
    assert!(said.starts_with(place) && said.ends_with("another one than meant"), "{said}");
    assert!(!error.is_corrupt(), "there is nothing to set aside");
    for group in ["a//b", ".."] {
        let refused = ObjectSnapshots::new(Arc::new(InMemory::new()), "m", &Path::from(""), group, TWO);
        assert!(matches!(refused, Err(StoreOpenError::Group(_))), "{group}");
    }
}
