//! The format against bad bytes: no change of a file is accepted, none panics, and none makes the
//! reader ask for memory beyond what the file's size gives it a right to.
#![allow(unsafe_code, reason = "an allocator that watches what is asked of it")]

use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::request::event::RequestEvent;
use kvset::core::request::outcome::Outcome;
use kvset::core::units::pages::{PageIds, mix};
use kvset::core::units::{Offset, PageCount, PageSize};
use kvset::pipeline::facts::{Fingerprint, PartitionId, RecordIdentity, SnapshotFact};
use kvset::position::NextOffset;
use kvset::snapshot::capture::{BodyError, capture};
use kvset::snapshot::format::{FormatError, Header, Snapshot, decode_header};
use kvset::snapshot::stream::{ReadError, Verified};
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Cursor;
use std::ops::Range;

/// The system's allocator, with the largest request of each thread written down.
struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(size));
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// The reader's own buffer, the first chunks of an array taken on trust, and the file a few times.
fn fair_share(file_bytes: usize) -> usize {
    (1 << 20) + (1 << 17) + 8 * file_bytes
}

fn open(file: Vec<u8>) -> Result<(Header, Engine), ReadError> {
    let share = fair_share(file.len());
    LARGEST.set(0);
    let result = Verified::alone(Box::new(Cursor::new(file)))
        .and_then(|verified| Ok((verified.header().clone(), verified.restore()?)));
    assert!(LARGEST.get() <= share, "{} bytes at once for a file that has a right to {share}", LARGEST.get());
    result
}

fn engine(requests: u64) -> Engine {
    let config = EngineConfig { max_tracked_pages: PageCount(64), ..EngineConfig::default() };
    let mut engine = Engine::new(config);
    observe(&mut engine, 0..requests);
    engine
}

fn observe(engine: &mut Engine, turns: Range<u64>) {
    let mut outcome = Outcome::default();
    for turn in turns {
        let session = mix(turn) % 6;
        let ids: Vec<u64> = (0..2 + turn % 9).map(|page| mix(session << 32 | page)).collect();
        let event = RequestEvent { page_ids: PageIds::from_slice(&ids), ..RequestEvent::default() };
        engine.observe(&event, PageSize::new(16).expect("not zero"), &mut outcome).expect("it fits");
    }
}

fn snapshot(body: Vec<u8>) -> Snapshot {
    Snapshot {
        partition: PartitionId::new("requests", 1).expect("a legal name"),
        fact: SnapshotFact {
            next_offset: NextOffset(41),
            fingerprint: Fingerprint(0xfeed),
            last_record: Some(RecordIdentity::of(Offset(40), 5, None, Some(b"x"))),
        },
        body: body.into(),
    }
}

fn file(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.file().expect("a sensible snapshot")
}

fn sound_file() -> Vec<u8> {
    file(&snapshot(capture(&engine(40), Vec::new()).expect("bytes")))
}

#[test]
fn the_sound_file_is_accepted_and_gives_the_same_bytes_again() {
    let (header, engine) = open(sound_file()).expect("a sound file");
    let again = Snapshot {
        partition: header.partition,
        fact: header.fact,
        body: capture(&engine, Vec::new()).expect("bytes").into(),
    };
    assert!(file(&again) == sound_file());
}

#[test]
fn no_single_bit_may_differ() {
    let sound = sound_file();
    for bit in 0..sound.len() * 8 {
        let mut rotten = sound.clone();
        rotten[bit / 8] ^= 1 << (bit % 8);
        let error = open(rotten).expect_err("a flipped bit");
        assert!(matches!(&error, ReadError::Format(error) if error.is_corrupt()), "bit {bit}: {error}");
    }
}

#[test]
fn no_byte_may_be_missing_or_added() {
    let sound = sound_file();
    for length in 0..sound.len() {
        let error = open(sound[..length].to_vec()).expect_err("a cut file");
        let is_cut = matches!(&error, ReadError::Format(FormatError::Truncated { found, .. }) if *found == length as u64);
        assert!(is_cut, "{length}: {error}");
        let tail = open(sound[length..].to_vec());
        assert!(tail.is_err() || length == 0, "{length} bytes missing in front");
    }
    for extra in [1, 8, 5000] {
        let longer = [sound.clone(), vec![0; extra]].concat();
        let end = sound.len() as u64;
        let error = open(longer).expect_err("a file with a tail");
        let expected = FormatError::TrailingBytes { end, extra: extra as u64 };
        assert!(matches!(&error, ReadError::Format(found) if *found == expected), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_snapshot_is_read_back_as_written(
        topic in "[a-zA-Z0-9._-]{3,249}",
        partition in 0..=i32::MAX,
        next_offset in 1..=i64::MAX,
        before in 1..=i64::MAX,
        fingerprint: u64,
        identity in prop::option::of((any::<i64>(), any::<u64>())),
        body in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        let offset = Offset((next_offset - before).max(0));
        let snapshot = Snapshot {
            partition: PartitionId::new(&topic, partition).expect("a legal name"),
            fact: SnapshotFact {
                next_offset: NextOffset(next_offset),
                fingerprint: Fingerprint(fingerprint),
                last_record: identity.map(|(timestamp_ms, digest)| RecordIdentity { offset, timestamp_ms, digest }),
            },
            body: body.clone().into(),
        };
        let verified = Verified::alone(Box::new(Cursor::new(file(&snapshot)))).expect("a sound file");
        prop_assert_eq!(verified.header().fact, snapshot.fact);
        prop_assert_eq!(&verified.header().partition, &snapshot.partition);
        prop_assert_eq!(verified.state().expect("memory"), body);
    }

    /// Checksums keep rot out, not malice: a body that was never a state is refused too.
    #[test]
    fn a_rotten_body_under_a_right_checksum_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut body = capture(&engine(40), Vec::new()).expect("bytes");
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        // A changed page id makes another sound engine, which goes on; anything else must be an error, not a panic.
        if let Ok((_, mut engine)) = open(file(&snapshot(body))) {
            observe(&mut engine, 20..150);
            capture(&engine, Vec::new()).expect("bytes");
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(open(bytes.clone()).is_err());
        prop_assert!(open(file(&snapshot(bytes))).is_err(), "no state either");
    }
}

#[test]
fn a_header_never_promises_more_than_the_file_holds() {
    let sound = file(&snapshot(vec![7; 100]));
    let header = |file_bytes| decode_header(&sound, file_bytes);
    assert!(header(sound.len() as u64).is_ok());
    let short = header(sound.len() as u64 - 1).expect_err("a byte is missing");
    assert!(matches!(short, FormatError::Truncated { part: "body", .. }));
}

#[test]
fn nonsense_is_refused_before_it_is_written() {
    let mut ahead = snapshot(Vec::new());
    ahead.fact.next_offset = NextOffset(40);
    assert!(matches!(ahead.file(), Err(FormatError::Malformed { field: "last record's offset", .. })));
    ahead.fact.next_offset = NextOffset(-1);
    assert!(matches!(ahead.file(), Err(FormatError::Malformed { field: "next offset", .. })));
}

#[test]
fn bytes_after_the_state_are_refused() {
    let mut body = capture(&engine(3), Vec::new()).expect("bytes");
    body.push(0);
    let error = open(file(&snapshot(body))).expect_err("one byte too many");
    assert!(matches!(error, ReadError::Body(BodyError::Trailing(1))), "{error}");
}
