//! A state in parts, and the file that lists them: a pool large enough that its tree is written as it lies.

use super::{FINGERPRINT, NEXT_OFFSET, blessing, folder, frozen, partition};
use kvset::core::request::outcome::Outcome;
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use kvset::core::units::pages::PageIds;
use kvset::pipeline::facts::SnapshotFact;
use kvset::snapshot::capture::{CaptureMemory, capture, capture_body};
use kvset::snapshot::directory::DirectoryStore;
use kvset::snapshot::format::{Snapshot, StateBody, VERSION};
use kvset::snapshot::limits::PartsLimits;
use kvset::snapshot::store::SnapshotStore;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Sessions, by turns, whose pages are numbered: what is said of each request.
fn requests(stack: &mut Stack, turns: std::ops::Range<u64>) -> Vec<u64> {
    let mut outcome = Outcome::default();
    let request = |turn: u64| {
        let (session, pages) = (turn % 40, 60 * (1 + turn / 40));
        let ids: Vec<u64> = (0..pages).map(|page| session << 32 | page).collect();
        let access =
            Access { pages: PageIds::from_slice(&ids), lookup_limit: ids.len(), ..Access::default() };
        stack.access(&access, &mut outcome).expect("violations are only reported");
        outcome.hits_at(70_000)
    };
    turns.map(request).collect()
}

fn stack() -> Stack {
    let mut stack = Stack::new(StackConfig {
        order: Order::RootFirst,
        max_tracked_pages: PageCount(80_000),
        chain_check: ChainCheck::Sampled,
        chain_policy: ChainPolicy::Report,
    });
    requests(&mut stack, 0..40 * 30);
    stack
}

fn place(version: u32) -> PathBuf {
    folder(version).join("parts")
}

fn bless() {
    let store = DirectoryStore::open(&place(VERSION), NonZeroUsize::MIN).expect("a writable tree");
    let limits = PartsLimits { whole_up_to: 0, ..PartsLimits::default() };
    let mut memory = CaptureMemory { limits, ..CaptureMemory::default() };
    let fact = SnapshotFact { next_offset: NEXT_OFFSET, fingerprint: FINGERPRINT, last_record: None };
    let body = capture_body(&stack(), NEXT_OFFSET, &mut memory).expect("bytes");
    assert!(matches!(&body, StateBody::InParts(_)), "a state in parts");
    store.save(&Snapshot { partition: partition(), fact, body }).expect("a writable tree");
    drop(store);
    // The lock file of whoever writes.
    std::fs::remove_file(place(VERSION).join("kvset.lock")).expect("a writable tree");
}

#[test]
fn a_state_in_parts_is_read_for_ever() {
    if blessing() {
        bless();
    }
    for version in 1..=VERSION {
        let store = DirectoryStore::read_only(&place(version));
        let load = || store.load(&partition(), NEXT_OFFSET).expect("a sound file");
        assert!(load().header().is_in_parts && load().header().version == version);
        let mut restored: Stack = load().restore().expect("a stack");
        let answers = requests(&mut restored, 40 * 30..40 * 34);
        assert_eq!(answers, requests(&mut stack(), 40 * 30..40 * 34));
        let told = serde_json::to_vec(&answers).expect("text");
        assert_eq!(told, frozen("parts/answers.expected.json", &told));
    }
}

/// A change to what is cut into parts must raise the version, how it is cut need not.
#[test]
fn the_large_state_written_now_is_the_newest_frozen_one() {
    let frozen =
        DirectoryStore::read_only(&place(VERSION)).load(&partition(), NEXT_OFFSET).expect("a sound file");
    assert!(
        frozen.state().expect("sound parts") == capture(&stack(), Vec::new()).expect("bytes"),
        "the layout changed: raise VERSION"
    );
}
