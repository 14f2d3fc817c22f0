//! Large states: each snapshot writes what is new, and is read back as the state was.

use kvset::core::request::outcome::Outcome;
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use kvset::core::units::pages::{PageIds, mix};
use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::position::NextOffset;
use kvset::snapshot::capture::{CaptureMemory, capture, capture_body};
use kvset::snapshot::directory::{Directory, DirectoryStore};
use kvset::snapshot::files::Files;
use kvset::snapshot::format::{FormatError, Snapshot, StateBody};
use kvset::snapshot::layered::Layered;
use kvset::snapshot::limits::PartsLimits;
use kvset::snapshot::memory::{Fault, MemoryFiles, NextProcess};
use kvset::snapshot::store::{SnapshotStore, StoreError};
use kvset::snapshot::stream::ReadError;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

const GENERATIONS: usize = 2;

fn partition() -> PartitionId {
    PartitionId::new("requests", 3).expect("a legal name")
}

fn open(files: &MemoryFiles) -> Directory<MemoryFiles> {
    Directory::new(files.clone(), Path::new("/state"), NonZeroUsize::new(GENERATIONS).expect("not zero"))
}

/// Everything in parts, a few kilobytes of new ones at a time.
fn small() -> PartsLimits {
    PartsLimits { whole_up_to: 0, fresh_bytes: 64 << 10, files: 6 }
}

/// One large pool, and many small things.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    stack: Stack,
    small: BTreeMap<u64, u64>,
}

impl State {
    fn new(bound: u64) -> Self {
        let stack = Stack::new(StackConfig {
            order: Order::RootFirst,
            max_tracked_pages: PageCount(bound),
            chain_check: ChainCheck::Sampled,
            chain_policy: ChainPolicy::Report,
        });
        Self { stack, small: BTreeMap::new() }
    }

    /// A request that goes on in a session, of so many new pages.
    fn request(&mut self, session: u64, pages: u64) {
        let so_far = self.small.entry(session).or_default();
        *so_far += pages;
        let ids: Vec<u64> = (0..*so_far).map(|page| mix(session << 40 | page)).collect();
        let access =
            Access { pages: PageIds::from_slice(&ids), lookup_limit: ids.len(), ..Access::default() };
        self.stack.access(&access, &mut Outcome::default()).expect("violations are only reported");
    }

    fn bytes(&self) -> Vec<u8> {
        capture(self, Vec::new()).expect("bytes")
    }
}

fn snapshot(next_offset: i64, body: StateBody) -> Snapshot {
    let fact =
        SnapshotFact { next_offset: NextOffset(next_offset), fingerprint: Fingerprint(1), last_record: None };
    Snapshot { partition: partition(), fact, body }
}

fn captured(state: &State, next_offset: i64, memory: &mut CaptureMemory) -> Snapshot {
    snapshot(next_offset, capture_body(state, NextOffset(next_offset), memory).expect("bytes"))
}

/// Captures and saves until there is a snapshot; the bytes written.
fn save(store: &dyn SnapshotStore, state: &State, next_offset: i64, memory: &mut CaptureMemory) -> u64 {
    let mut written = 0;
    loop {
        let snapshot = captured(state, next_offset, memory);
        let saved = store.save(&snapshot).expect("a disk");
        assert!(saved.not_removed.is_none(), "{saved:?}");
        written += saved.bytes;
        let is_complete = snapshot.body.is_complete();
        memory.buffer = snapshot.body.into_buffer();
        if is_complete {
            return written;
        }
    }
}

fn read(store: &dyn SnapshotStore, next_offset: i64) -> Result<Vec<u8>, ReadError> {
    store.load(&partition(), NextOffset(next_offset)).expect("its file is sound").state()
}

fn files(disk: &MemoryFiles, suffix: &str) -> Vec<PathBuf> {
    let ends = |path: &PathBuf| path.to_string_lossy().ends_with(suffix);
    disk.paths().into_iter().filter(ends).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever a state does between two snapshots, and however little a capture may hold.
    #[test]
    fn every_generation_is_read_back_as_the_state_was(
        steps in prop::collection::vec((0u64..8, 1u64..900, any::<bool>()), 1..60),
        bound in prop::sample::select(vec![2_000u64, 20_000, 1 << 30]),
        fresh_bytes in prop::sample::select(vec![1u64, 5_000, 64 << 10, 1 << 30]),
        files_kept in 1usize..8,
        whole_up_to in prop::sample::select(vec![0u64, 50_000]),
    ) {
        let disk = MemoryFiles::new();
        let store = open(&disk);
        let limits = PartsLimits { whole_up_to, fresh_bytes, files: files_kept };
        let mut memory = CaptureMemory { limits, ..CaptureMemory::default() };
        let mut state = State::new(bound);
        let mut generations = Vec::new();
        for (at, (session, pages, is_saved)) in (1..).zip(steps) {
            state.request(session, pages);
            if !is_saved {
                continue;
            }
            save(&store, &state, at, &mut memory);
            generations.push((at, state.bytes()));
            for (at, bytes) in generations.iter().rev().take(GENERATIONS) {
                prop_assert!(read(&store, *at).expect("sound") == *bytes, "{at}");
            }
            let restored: State = store.load(&partition(), NextOffset(at)).expect("sound").restore().expect("a state");
            prop_assert!(restored.bytes() == generations.last().expect("just saved").1);
        }
    }
}

#[test]
fn a_snapshot_writes_what_is_new_of_a_large_state_and_keeps_files_few() {
    let disk = MemoryFiles::new();
    let store = open(&disk);
    let limits = PartsLimits { whole_up_to: 0, fresh_bytes: 1 << 20, files: 16 };
    let mut memory = CaptureMemory { limits, ..CaptureMemory::default() };
    let mut state = State::new(1 << 30);
    (0..3000).for_each(|session| state.request(session, 100 + session % 300));
    let all = state.bytes().len() as u64;
    let first = save(&store, &state, 1, &mut memory);
    assert!((all..all + all / 50).contains(&first), "{first} bytes of a state of {all}");
    let (mut written, mut new) = (0, 0);
    for at in 2..200 {
        let before = state.bytes().len();
        (0..10).for_each(|turn| state.request(mix(at * 10 + turn) % 3000, 20));
        new += (state.bytes().len() - before) as u64;
        written += save(&store, &state, at as i64, &mut memory);
        let kept = files(&disk, ".kvp").len();
        assert!(kept <= GENERATIONS * 4 + 16, "{kept} files");
    }
    // Alongside what is new the sessions' own places in the tables change, and files that hold little are written
    // again.
    assert!(
        written < all * 198 / 8,
        "{written} bytes for 198 snapshots of a state of {all}, {new} of them new"
    );
    let mut on_disk = 0;
    for path in disk.paths() {
        disk.corrupt(&path, |bytes| on_disk += bytes.len() as u64);
    }
    assert!(on_disk < 3 * state.bytes().len() as u64, "{on_disk} bytes on disk");
}

/// As of many small pools: what is inserted among them moves all that follows.
#[test]
fn what_is_inserted_between_arrays_changes_the_parts_it_is_in() {
    let store = open(&MemoryFiles::new());
    let limits = PartsLimits { whole_up_to: 0, ..PartsLimits::default() };
    let mut memory = CaptureMemory { limits, ..CaptureMemory::default() };
    let mut state = State::new(1 << 30);
    state.small.extend((0..200_000).map(|name| (mix(name), name)));
    let all = save(&store, &state, 1, &mut memory);
    for at in 2..6 {
        state.small.extend((0..5).map(|turn| (mix(1 << 40 | at << 8 | turn), at)));
        let written = save(&store, &state, at as i64, &mut memory);
        assert!(written < all / 8, "{written} bytes of {all}");
        assert!(read(&store, at as i64).expect("sound") == state.bytes());
    }
}

#[test]
fn more_than_a_capture_may_hold_is_written_ahead() {
    let store = open(&MemoryFiles::new());
    let mut memory = CaptureMemory { limits: small(), ..CaptureMemory::default() };
    let mut state = State::new(1 << 30);
    (0..300).for_each(|session| state.request(session, 400));
    let (mut captures, mut written) = (0, 0);
    loop {
        let snapshot = captured(&state, 1, &mut memory);
        let StateBody::InParts(parts) = &snapshot.body else { panic!("a large state") };
        // One part at least, which is a little longer.
        let room = ((64 << 10) + written / 8).max(65 << 10);
        assert!(parts.fresh.len() <= room, "capture {captures}: {} bytes", parts.fresh.len());
        written += parts.fresh.len();
        store.save(&snapshot).expect("a disk");
        if parts.contents.is_some() {
            break;
        }
        assert!(store.list(&partition()).expect("a listing").is_empty(), "no snapshot yet");
        // The stream goes on meanwhile.
        state.request(captures, 50);
        captures += 1;
    }
    assert!(captures > 1, "a state of {} bytes in {captures} captures", state.bytes().len());
    assert!(read(&store, 1).expect("sound") == state.bytes());
}

/// A disk that was full would stay so.
#[test]
fn parts_written_ahead_of_a_snapshot_that_never_came_make_room_for_the_next() {
    let disk = MemoryFiles::new();
    let store = open(&disk);
    let mut memory = CaptureMemory { limits: small(), ..CaptureMemory::default() };
    let mut state = State::new(1 << 30);
    state.request(1, 30_000);
    store.save(&captured(&state, 1, &mut memory)).expect("a disk");
    store.save(&captured(&state, 2, &mut memory)).expect("a disk");
    let ahead = files(&disk, ".kvp");
    assert_eq!((ahead.len(), files(&disk, ".kvs").len()), (2, 0));
    // As after a failed write, or in the next process.
    memory.known.clear();
    store.save(&captured(&state, 3, &mut memory)).expect("a disk");
    let now = files(&disk, ".kvp");
    assert!(now.len() == 1 && !ahead.contains(&now[0]), "{now:?}");
    save(&store, &state, 4, &mut memory);
    assert!(read(&store, 4).expect("sound") == state.bytes());
}

#[test]
fn a_parts_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = DirectoryStore::open(folder.path(), NonZeroUsize::MIN).expect("nobody else is here");
    let mut memory = CaptureMemory { limits: small(), ..CaptureMemory::default() };
    let mut state = State::new(1 << 30);
    state.request(1, 5_000);
    save(&store, &state, 1, &mut memory);
    let entries = std::fs::read_dir(folder.path().join("requests-3")).expect("a folder");
    let mut paths = entries.map(|entry| entry.expect("a disk").path());
    let parts = paths.find(|path| path.extension().is_some_and(|end| end == "kvp")).expect("parts");
    std::fs::remove_file(&parts).expect("a disk");
    std::fs::create_dir(&parts).expect("a disk");
    let said = store.load(&partition(), NextOffset(1)).and_then(|verified| {
        verified.check().map_err(|cause| StoreError::Snapshot { place: String::new(), cause })
    });
    let said = said.expect_err("a folder in its place").to_string();
    let name = parts.file_stem().expect("a name").to_string_lossy();
    assert!(said.contains(&*name), "{said}");
}

#[test]
fn a_state_that_has_become_small_is_written_whole_again() {
    let disk = MemoryFiles::new();
    let store = open(&disk);
    let limits = PartsLimits { whole_up_to: 50_000, ..PartsLimits::default() };
    let mut memory = CaptureMemory { limits, ..CaptureMemory::default() };
    let (mut large, small) = (State::new(1 << 30), State::new(10));
    large.request(1, 20_000);
    save(&store, &large, 1, &mut memory);
    save(&store, &small, 2, &mut memory);
    assert!(!files(&disk, ".kvp").is_empty(), "it was in parts before");
    for at in 3..6 {
        save(&store, &small, at, &mut memory);
        assert!(read(&store, at).expect("sound") == small.bytes());
    }
    assert_eq!(files(&disk, ".kvp"), [] as [PathBuf; 0], "and its parts are gone");
}

/// A state that is captured and never written must not be referred to.
#[test]
fn what_was_taken_back_is_captured_again() {
    let store = open(&MemoryFiles::new());
    let mut memory =
        CaptureMemory { limits: PartsLimits { fresh_bytes: 1 << 30, ..small() }, ..CaptureMemory::default() };
    let mut state = State::new(1 << 30);
    state.request(1, 10_000);
    save(&store, &state, 1, &mut memory);
    state.request(2, 10_000);
    drop(captured(&state, 2, &mut memory));
    memory.known.take_back();
    state.request(1, 100);
    save(&store, &state, 3, &mut memory);
    assert!(read(&store, 3).expect("sound") == state.bytes());
}

#[test]
fn a_snapshot_that_refers_to_parts_that_are_gone_is_refused() {
    let disk = MemoryFiles::new();
    let store = open(&disk);
    let mut memory =
        CaptureMemory { limits: PartsLimits { fresh_bytes: 1 << 30, ..small() }, ..CaptureMemory::default() };
    let mut state = State::new(1 << 30);
    state.request(1, 10_000);
    save(&store, &state, 1, &mut memory);
    disk.remove(&files(&disk, ".kvp")[0]).expect("it is there");
    let gone = store.load(&partition(), NextOffset(1)).expect_err("its parts are gone");
    assert!(
        matches!(gone.format_error(), Some(FormatError::PartsGone { .. })) && gone.is_corrupt(),
        "{gone}"
    );
    state.request(1, 10);
    let refused = store.save(&captured(&state, 2, &mut memory)).expect_err("it refers to them");
    assert!(matches!(refused, StoreError::PartsLost { .. }), "{refused}");
    memory.known.clear();
    save(&store, &state, 3, &mut memory);
    assert!(read(&store, 3).expect("sound") == state.bytes());
}

#[test]
fn a_rotten_part_is_named_and_the_shared_stores_copy_is_read() {
    let (disk, shared) = (MemoryFiles::new(), MemoryFiles::new());
    let store = Layered::new(open(&disk), open(&shared));
    let mut memory = CaptureMemory { limits: small(), ..CaptureMemory::default() };
    let mut state = State::new(1 << 30);
    state.request(1, 10_000);
    save(&store, &state, 1, &mut memory);
    for path in files(&disk, ".kvp") {
        disk.corrupt(&path, |bytes| *bytes.last_mut().expect("not empty") ^= 1);
    }
    let rotten = read(&store, 1).expect_err("the disk's copy is read first");
    assert!(rotten.is_corrupt() && rotten.to_string().contains("does not match its checksum"), "{rotten}");
    store.set_aside(&partition(), NextOffset(1)).expect("it can be moved");
    assert!(read(&store, 1).expect("the shared one") == state.bytes());
    assert_eq!((files(&disk, ".kvs").len(), files(&shared, ".kvs").len()), (0, 1));
}

/// One life: saves until something fails; the last offset whose snapshot was confirmed.
fn live(disk: &MemoryFiles, faults: &[Fault]) -> (Option<i64>, u64) {
    let store = open(disk);
    disk.plan(faults);
    let mut memory = CaptureMemory { limits: small(), ..CaptureMemory::default() };
    let (mut state, mut confirmed) = (State::new(1 << 30), None);
    'life: for at in 1..6 {
        grow(&mut state, at);
        loop {
            let snapshot = captured(&state, at, &mut memory);
            if store.save(&snapshot).is_err() {
                break 'life;
            }
            if snapshot.body.is_complete() {
                break;
            }
        }
        confirmed = Some(at);
    }
    (confirmed, disk.operations())
}

fn grow(state: &mut State, at: i64) {
    state.request(at as u64 % 2, 4000);
    state.request(2, 10);
}

fn state_at(at: i64) -> Vec<u8> {
    let mut state = State::new(1 << 30);
    (1..=at).for_each(|at| grow(&mut state, at));
    state.bytes()
}

#[test]
fn after_a_crash_at_any_step_parts_and_what_refers_to_them_are_whole() {
    let steps = live(&MemoryFiles::new(), &[]).1;
    assert!(steps > 40, "{steps} steps");
    let states: Vec<Vec<u8>> = (0..6).map(state_at).collect();
    for (at, done) in (0..steps).flat_map(|at| [(at, false), (at, true)]) {
        for way in [NextProcess::Kill, NextProcess::PowerFailure(at), NextProcess::PowerFailure(at + 1000)] {
            let disk = MemoryFiles::new();
            let (confirmed, _) = live(&disk, &[Fault::Die { at, done }]);
            disk.restart(way);
            let store = open(&disk);
            let found = store.list(&partition()).expect("a listing");
            let newest = found.first().map(|newest| newest.next_offset.0);
            assert!(
                newest >= confirmed,
                "step {at}, {done}, {way:?}: {confirmed:?} confirmed, {newest:?} found"
            );
            for generation in &found {
                let offset = generation.next_offset.0;
                assert!(
                    read(&store, offset).expect("sound") == states[offset as usize],
                    "step {at}, {done}, {way:?}"
                );
            }
            // The next process knows none of the parts, and leaves nothing of the one before.
            let mut memory = CaptureMemory { limits: small(), ..CaptureMemory::default() };
            let state = State { stack: State::new(1).stack, small: BTreeMap::from([(1, 2)]) };
            for offset in 10..10 + GENERATIONS as i64 {
                save(&store, &state, offset, &mut memory);
            }
            assert_eq!(files(&disk, ".tmp"), [] as [PathBuf; 0], "step {at}, {done}, {way:?}");
            assert!(files(&disk, ".kvp").len() <= GENERATIONS, "step {at}, {done}, {way:?}");
        }
    }
}
