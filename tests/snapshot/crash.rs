//! The write protocol under crashes, power failures and failing disks, at every one of its steps: what
//! was saved stays, what is found is whole, and the next save works.

use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::position::NextOffset;
use kvset::snapshot::capture::capture;
use kvset::snapshot::directory::Directory;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::memory::{Fault, MemoryFiles, NextProcess};
use kvset::snapshot::store::{MAX_SET_ASIDE, SnapshotStore, StoreError, load_or_set_aside};
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

const GENERATIONS: usize = 2;
const SAVES: i64 = 5;
/// Power failures tried a crash point, each losing other things.
const SEEDS: u64 = 24;

fn partition() -> PartitionId {
    PartitionId::new("requests", 3).expect("a legal name")
}

fn state_at(offset: i64) -> Vec<u64> {
    (0..offset as u64 * 7 + 100).map(|page| page * offset as u64).collect()
}

fn snapshot_at(offset: i64) -> Snapshot {
    Snapshot {
        partition: partition(),
        fact: SnapshotFact {
            next_offset: NextOffset(offset),
            fingerprint: Fingerprint(1),
            last_record: None,
        },
        body: capture(&state_at(offset), Vec::new()).expect("bytes").into(),
    }
}

fn path(name: &str) -> PathBuf {
    Path::new("/state/requests-3").join(name)
}

/// The service's store on a disk whose root exists.
fn open(files: &MemoryFiles) -> Directory<MemoryFiles> {
    Directory::new(files.clone(), Path::new("/state"), NonZeroUsize::new(GENERATIONS).expect("not zero"))
}

/// What a restarted service resumes from; asserts that it is exactly what was captured.
fn resume(store: &dyn SnapshotStore) -> Option<i64> {
    let found = store.list(&partition()).expect("a listing");
    found.iter().find_map(|generation| {
        let at = generation.next_offset;
        let loaded = load_or_set_aside(store, &partition(), at).ok()?;
        let state: Vec<u64> = loaded.restore().expect("verified bytes are a state");
        assert_eq!(state, state_at(at.0), "what is found is what was captured");
        Some(at.0)
    })
}

fn temporaries(files: &MemoryFiles) -> usize {
    files.paths().iter().filter(|path| path.to_string_lossy().ends_with(".tmp")).count()
}

/// One life: saves until something fails; returns the last offset whose save was confirmed.
fn live(files: &MemoryFiles, faults: &[Fault]) -> (Option<i64>, u64) {
    let store = open(files);
    files.plan(faults);
    let confirmed = (1..=SAVES).take_while(|offset| store.save(&snapshot_at(*offset)).is_ok()).last();
    (confirmed, files.operations())
}

fn steps_of_a_whole_life() -> u64 {
    live(&MemoryFiles::new(), &[]).1
}

#[test]
fn after_a_crash_at_any_step_a_generation_no_older_than_the_last_confirmed_is_found() {
    let steps = steps_of_a_whole_life();
    assert_eq!(steps, 2 + 5 * 4 + 3, "directory, its name; write, sync, rename, names; removals");
    let ways = || std::iter::once(NextProcess::Kill).chain((0..SEEDS).map(NextProcess::PowerFailure));
    for (at, done) in (0..steps).flat_map(|at| [(at, false), (at, true)]) {
        for way in ways() {
            let files = MemoryFiles::new();
            let (confirmed, _) = live(&files, &[Fault::Die { at, done }]);
            files.restart(way);
            let store = open(&files);
            let found = resume(&store);
            assert!(
                found >= confirmed,
                "step {at}, {done}, {way:?}: {confirmed:?} confirmed, {found:?} found"
            );
            store.save(&snapshot_at(SAVES + 1)).expect("the next process saves");
            assert_eq!(temporaries(&files), 0, "step {at}, {done}, {way:?}");
            files.restart(NextProcess::PowerFailure(at));
            assert_eq!(resume(&open(&files)), Some(SAVES + 1), "step {at}, {done}, {way:?}");
        }
    }
}

#[test]
fn a_failing_operation_costs_one_save_at_most_and_never_what_was_confirmed() {
    for at in 0..steps_of_a_whole_life() {
        for kind in [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::Other] {
            let files = MemoryFiles::new();
            let store = open(&files);
            files.plan(&[Fault::Fail { at, kind }]);
            let results: Vec<_> = (1..=SAVES).map(|offset| store.save(&snapshot_at(offset))).collect();
            let confirmed = (1..=SAVES).rfind(|offset| results[*offset as usize - 1].is_ok());
            let failed: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
            let poisoned = failed.iter().any(|error| matches!(error, StoreError::Poisoned { .. }));
            assert!(failed.len() <= 1 || poisoned, "step {at}, {kind}: {failed:?}");
            assert!(
                failed
                    .iter()
                    .all(|error| poisoned || error.is_disk_full() == (kind == ErrorKind::StorageFull))
            );
            files.restart(NextProcess::PowerFailure(at));
            assert!(resume(&open(&files)) >= confirmed, "step {at}, {kind}");
        }
    }
}

#[test]
fn after_a_directory_failed_to_become_durable_nothing_more_is_written_or_removed() {
    let files = MemoryFiles::new();
    let store = open(&files);
    for offset in [1, 2] {
        store.save(&snapshot_at(offset)).expect("a sound disk");
    }
    // The third save's operations: write, sync, rename, sync of the directory.
    files.plan(&[Fault::Fail { at: 3, kind: ErrorKind::Other }]);
    let failure = store.save(&snapshot_at(3)).expect_err("the directory's sync fails");
    assert!(failure.to_string().starts_with("making durable /state/requests-3: "), "{failure}");
    let refused = store.save(&snapshot_at(4)).expect_err("nothing is known of the directory");
    assert_eq!(
        refused.to_string(),
        "no more snapshots are written below /state/requests-3: making it durable failed earlier, after which the \
         system may report success for what was lost; check the disk and restart the service"
    );
    let names = ["00000000000000000001.kvs", "00000000000000000002.kvs", "00000000000000000003.kvs"];
    assert_eq!(files.paths(), names.map(path));
    store
        .save(&Snapshot { partition: PartitionId::new("other", 0).unwrap(), ..snapshot_at(1) })
        .expect("sound");
}

#[test]
fn a_failed_sync_of_a_file_is_never_tried_again_on_the_same_file() {
    let files = MemoryFiles::new();
    let store = open(&files);
    store.save(&snapshot_at(1)).expect("a sound disk");
    files.plan(&[Fault::Fail { at: 1, kind: ErrorKind::Other }]);
    store.save(&snapshot_at(2)).expect_err("the sync fails");
    assert_eq!(files.paths(), [path("00000000000000000001.kvs")], "the file is gone, not renamed");
    store.save(&snapshot_at(2)).expect("a new file");
    files.restart(NextProcess::PowerFailure(0));
    assert_eq!(resume(&open(&files)), Some(2));
}

#[test]
fn older_generations_go_and_those_ahead_of_a_reset_group_stay_bounded() {
    let files = MemoryFiles::new();
    let store = open(&files);
    let offsets = || -> Vec<i64> {
        let found = store.list(&partition()).expect("a listing");
        found.iter().map(|generation| generation.next_offset.0).collect()
    };
    for offset in [70, 80, 90] {
        store.save(&snapshot_at(offset)).expect("a sound disk");
    }
    assert_eq!(offsets(), [90, 80]);
    for offset in [10, 20, 30] {
        store.save(&snapshot_at(offset)).expect("a sound disk");
    }
    assert_eq!(offsets(), [90, 80, 30, 20], "those above stay for when the group reaches them again");
    store.save(&snapshot_at(85)).expect("a sound disk");
    assert_eq!(offsets(), [90, 85, 80]);
}

#[test]
fn a_rotten_generation_is_set_aside_and_the_one_before_is_used() {
    let files = MemoryFiles::new();
    for life in 0..10 {
        let store = open(&files);
        store.save(&snapshot_at(100)).expect("a sound disk");
        store.save(&snapshot_at(200 + life)).expect("a sound disk");
        let newest = path(&format!("{:020}.kvs", 200 + life));
        let flip = |at: usize| move |bytes: &mut Vec<u8>| bytes[at] ^= 4;
        // By turns in the header and in the body.
        assert!(if life % 2 == 0 {
            files.corrupt(&newest, flip(20))
        } else {
            files.corrupt(&newest, flip(200))
        });
        assert_eq!(resume(&store), Some(100));
        let aside = files.paths().iter().filter(|path| path.to_string_lossy().ends_with(".corrupt")).count();
        assert_eq!(aside, MAX_SET_ASIDE.min(life as usize + 1), "kept for inspection, within bounds");
    }
}
