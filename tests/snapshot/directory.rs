//! The directory store on a real disk, and what `kvset snapshot` says of it.

use kvset::commands::snapshot::inventory::{decodes_as, inspect, list, verify};
use kvset::core::engines::one_pass::Engine;
use kvset::core::units::Offset;
use kvset::pipeline::facts::{Fingerprint, PartitionId, RecordIdentity, SnapshotFact};
use kvset::position::NextOffset;
use kvset::snapshot::capture::capture;
use kvset::snapshot::directory::DirectoryStore;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::lock::{LOCK_FILE, acquire};
use kvset::snapshot::store::{SnapshotStore, StoreError};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

/// A state of its own, so that what is said of its bytes stays the same.
const STATE: [u64; 3] = [1, 2, 3];

const THREE: NonZeroUsize = NonZeroUsize::new(3).expect("not zero");

fn snapshot(topic: &str, next_offset: i64) -> Snapshot {
    Snapshot {
        partition: PartitionId::new(topic, 0).expect("a legal name"),
        fact: SnapshotFact {
            next_offset: NextOffset(next_offset),
            fingerprint: Fingerprint(0xabc),
            last_record: Some(RecordIdentity { offset: Offset(next_offset - 1), timestamp_ms: 5, digest: 9 }),
        },
        body: capture(&STATE, Vec::new()).expect("bytes").into(),
    }
}

#[test]
fn a_snapshot_outlives_its_process_under_the_documented_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("made/on/the/way");
    let store = DirectoryStore::open(&root, THREE).expect("nobody else is here");
    let saved = store.save(&snapshot("requests", 42)).expect("a disk");
    assert!(saved.not_removed.is_none());
    drop(store);
    let path = root.join("requests-0/00000000000000000042.kvs");
    assert_eq!(saved.bytes, fs::metadata(&path).expect("the file").len());
    let store = DirectoryStore::open(&root, THREE).expect("the lock went with the store");
    let partition = PartitionId::new("requests", 0).expect("a legal name");
    assert_eq!(store.partitions().expect("a listing"), std::slice::from_ref(&partition));
    let loaded = store.load(&partition, NextOffset(42)).expect("a sound file");
    assert_eq!(loaded.header().fact, snapshot("requests", 42).fact);
    assert_eq!(loaded.restore::<[u64; 3]>().expect("the state"), STATE);
}

#[test]
fn a_second_service_is_told_who_holds_the_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = DirectoryStore::open(folder.path(), THREE).expect("nobody else is here");
    let refused = DirectoryStore::open(folder.path(), THREE).expect_err("the first one lives").to_string();
    let holder = fs::read_to_string(folder.path().join(LOCK_FILE)).expect("the lock's file");
    assert!(holder.starts_with(&format!("process {}", std::process::id())), "{holder}");
    assert_eq!(
        refused,
        format!(
            "the snapshot directory {} is in use by {holder}: stop that process, or give this one a snapshot \
             directory of its own",
            folder.path().display()
        )
    );
    drop(first);
    let second = DirectoryStore::open(folder.path(), THREE).expect("the first one is gone");
    second.save(&snapshot("requests", 1)).expect("a disk");
}

#[test]
fn a_lock_whose_holder_wrote_nonsense_is_held_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let _lock = acquire(folder.path()).expect("nobody else is here");
    for (text, said) in [(&b""[..], "in use by another process:"), (b"\x1b[2Jx\xff\ny", "in use by [2Jxy:")] {
        fs::write(folder.path().join(LOCK_FILE), text).expect("a disk");
        let refused = acquire(folder.path()).expect_err("held").to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn looking_needs_no_lock_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = DirectoryStore::open(folder.path(), THREE).expect("nobody else is here");
    service.save(&snapshot("requests", 1)).expect("a disk");
    let reader = DirectoryStore::read_only(folder.path());
    assert_eq!(list(&reader, None).expect("a listing").snapshots.len(), 1);
    let partition = PartitionId::new("requests", 0).expect("a legal name");
    let refusals = [
        reader.save(&snapshot("requests", 2)).map(drop).expect_err("for reading"),
        reader.set_aside(&partition, NextOffset(1)).expect_err("for reading"),
    ];
    assert!(refusals.iter().all(|refusal| matches!(refusal, StoreError::ReadOnly { .. })));
    assert!(list(&DirectoryStore::read_only(Path::new("/nowhere/at/all")), None).expect("empty").is_sound());
}

#[test]
fn what_cannot_be_made_is_an_error_that_says_where() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "").expect("a disk");
    let refused = DirectoryStore::open(&folder.path().join("file/below"), THREE).expect_err("below a file");
    assert!(refused.to_string().starts_with("creating the directory of "), "{refused}");
    let store = DirectoryStore::open(folder.path(), THREE).expect("nobody else is here");
    fs::write(folder.path().join("requests-0"), "").expect("a disk");
    let refused = store.save(&snapshot("requests", 1)).expect_err("a file is in the way").to_string();
    assert!(refused.contains("requests-0"), "{refused}");
    fs::remove_file(folder.path().join("requests-0")).expect("a disk");
    store.save(&snapshot("requests", 1)).expect("the service goes on");
    fs::remove_dir_all(folder.path().join("requests-0")).expect("a disk");
    store.save(&snapshot("requests", 2)).expect("the operator removed the snapshots, as told");
}

/// The folder's own path is another one in every run.
fn told(text: impl ToString, folder: &Path) -> String {
    text.to_string().replace(&folder.display().to_string(), "DIR")
}

#[test]
fn list_verify_and_inspect_say_what_is_there_and_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = DirectoryStore::open(folder.path(), THREE).expect("nobody else is here");
    for (topic, offset) in [("requests", 70), ("requests", 1_000_000), ("audit", 3)] {
        store.save(&snapshot(topic, offset)).expect("a disk");
    }
    // What is not ours is passed over.
    fs::create_dir(folder.path().join("lost+found")).expect("a disk");
    fs::write(folder.path().join("requests-0/notes.txt"), "mine").expect("a disk");
    let rotten = folder.path().join("requests-0/00000000000000000070.kvs");
    let mut bytes = fs::read(&rotten).expect("the file");
    *bytes.last_mut().expect("a body") ^= 1;
    fs::write(&rotten, bytes).expect("a disk");

    assert!(list(&store, None).expect("a listing").is_sound(), "headers alone look well");
    let found = verify(&store, None, &decodes_as::<[u64; 3]>).expect("a listing");
    assert!(!found.is_sound());
    insta::assert_snapshot!(told(&found, folder.path()), @r"
     partition    next offset   size   fingerprint        state
    ──────────────────────────────────────────────────────────────
     audit-0                3    3 B   0000000000000abc   sound
     requests-0       1000000    3 B   0000000000000abc   sound
     requests-0            70    3 B   0000000000000abc   unsound

    snapshot DIR/requests-0/00000000000000000070.kvs: the body does not match its checksum (bytes 55 to 58): the file is rotten; check the disk, and restore the file from a copy, or let an older generation or a rebuild from the log take its place

    3 snapshots, 1 unsound
    ");
    let partition = PartitionId::new("requests", 0).expect("a legal name");
    let newest = inspect(&store, &partition, None, &decodes_as::<[u64; 3]>).expect("a listing").expect("one");
    insta::assert_snapshot!(told(&newest, folder.path()), @r"
    partition      requests-0
    next offset    1000000
    place          DIR/requests-0/00000000000001000000.kvs
    format         version 1
    file           60 bytes (60 B)
    state bytes    3 (3 B)
    body           3 bytes, xxh3-64 ebce9b7632ae733b
    fingerprint    0000000000000abc
    last record    offset 999999, time stamp 5 ms, digest 0000000000000009
    state          sound
    ");
    insta::assert_json_snapshot!(newest.header, @r#"
    {
      "version": 1,
      "file_bytes": 60,
      "state_bytes": 3,
      "in_parts": false,
      "body_bytes": 3,
      "body_checksum": "ebce9b7632ae733b",
      "fingerprint": "0000000000000abc",
      "last_record": {
        "offset": 999999,
        "timestamp_ms": 5,
        "digest": "0000000000000009"
      }
    }
    "#);
    let none = inspect(&store, &partition, Some(NextOffset(71)), &decodes_as::<[u64; 3]>).expect("a listing");
    assert_eq!(none, None);
    let other = verify(&store, Some(&partition), &decodes_as::<Engine>).expect("a listing");
    assert!(other.snapshots.iter().all(|snapshot| snapshot.problem.is_some()), "no such state in there");
}
