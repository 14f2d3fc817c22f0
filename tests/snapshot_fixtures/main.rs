//! Frozen files: one snapshot of every format version, readable for ever, and one of every kind that
//! must be refused, with the exact text it is refused with.
//!
//! `KVSET_BLESS=1` writes them. That is for a new format version, whose files get a folder of their
//! own; the files of a released version never change.

mod asked;
mod certainty;
mod overlap;
mod parts;
mod restarts;
mod retention_classes;
mod schemes;
mod task;
mod worth;

use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::engines::profile::Profile;
use kvset::core::request::event::RequestEvent;
use kvset::core::request::outcome::Outcome;
use kvset::core::units::pages::{PageIds, Scope, mix};
use kvset::core::units::{EventTime, Offset, PageCount, PageSize};
use kvset::pipeline::facts::{Fingerprint, PartitionId, RecordIdentity, SnapshotFact};
use kvset::pipeline::resume::{
    LastRecord, LostHistory, ResumeFacts, SnapshotFacts, SnapshotHealth, StartFrom, decide,
};
use kvset::position::{LogRange, NextOffset};
use kvset::snapshot::capture::capture;
use kvset::snapshot::format::{MAX_HEADER_BYTES, Snapshot, VERSION, decode_header};
use kvset::snapshot::stream::{ReadError, Verified};
use serde::{Deserialize, Serialize};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const FINGERPRINT: Fingerprint = Fingerprint(0x0123_4567_89ab_cdef);
const NEXT_OFFSET: NextOffset = NextOffset(6021);

/// The folder of a format version's files.
fn folder(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/snapshot/v{version}"))
}

fn blessing() -> bool {
    std::env::var_os("KVSET_BLESS").is_some()
}

/// The contents of a file of the newest version; writes them first when blessing.
fn frozen(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = folder(VERSION).join(name);
    if blessing() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a writable tree");
        std::fs::write(&path, bytes).expect("a writable tree");
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn partition() -> PartitionId {
    PartitionId::new("llm.requests", 7).expect("a legal name")
}

fn last_record() -> RecordIdentity {
    RecordIdentity::of(Offset(6019), 1_760_000_000_123, Some(b"pool-a"), Some(b"{}"))
}

/// A request of one of five sessions behind a shared prefix.
fn observe(engine: &mut Engine, turn: u64) -> Outcome {
    observe_for(engine, turn, None)
}

/// The same, which takes so many milliseconds and comes three after the one before.
fn observe_for(engine: &mut Engine, turn: u64, duration_ms: Option<u64>) -> Outcome {
    let (session, pages) = (mix(turn) % 5, 3 + turn % 11);
    let mut ids = vec![1, 2];
    ids.extend((0..pages).map(|page| mix(session << 32 | page)));
    let event = RequestEvent {
        page_ids: PageIds::from_slice(&ids),
        scope: if session == 4 { Scope::named(b"tenant") } else { Scope::GLOBAL },
        input_tokens: Some(ids.len() as u64 * 16 + turn % 16),
        output_tokens: Some(turn % 40),
        event_time: EventTime(turn as i64 * 3),
        duration_ms,
        ..RequestEvent::default()
    };
    let mut outcome = Outcome::default();
    engine.observe(&event, PageSize::new(16).expect("not zero"), &mut outcome).expect("it fits");
    outcome
}

/// An engine whose bound is small enough to have forgotten pages.
fn engine() -> Engine {
    let config =
        EngineConfig { profile: Profile::Vllm, max_tracked_pages: PageCount(36), ..EngineConfig::default() };
    let mut engine = Engine::new(config);
    (0..60).for_each(|turn| drop(observe(&mut engine, turn)));
    engine
}

/// What a restored engine says of the next requests.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    new_pages: u64,
    reusable_prefix: u64,
    hits_at_20: u64,
    tracked_pages: u64,
    accumulated_pages: u64,
}

fn answers(engine: Engine) -> Vec<Answer> {
    answers_of(engine, observe)
}

fn answers_of(mut engine: Engine, observe: impl Fn(&mut Engine, u64) -> Outcome) -> Vec<Answer> {
    let answer = |turn| {
        let outcome = observe(&mut engine, turn);
        Answer {
            new_pages: outcome.new_pages,
            reusable_prefix: outcome.reusable_prefix(),
            hits_at_20: outcome.hits_at(20),
            tracked_pages: engine.stack().tracked_pages().0,
            accumulated_pages: engine.stack().accumulated_pages().0,
        }
    };
    (60..90).map(answer).collect()
}

fn snapshot() -> Snapshot {
    Snapshot {
        partition: partition(),
        fact: SnapshotFact {
            next_offset: NEXT_OFFSET,
            fingerprint: FINGERPRINT,
            last_record: Some(last_record()),
        },
        body: capture(&engine(), Vec::new()).expect("bytes").into(),
    }
}

fn file(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.file().expect("a sensible snapshot")
}

/// What the service does with a file: every check up to the state.
fn open(file: Vec<u8>) -> Result<Engine, ReadError> {
    let verified = Verified::alone(Box::new(Cursor::new(file)))?;
    verified.header().require_place(&partition(), NEXT_OFFSET)?;
    verified.header().require_fingerprint(FINGERPRINT)?;
    verified.restore()
}

/// Reads the state of a file of this version and compares what it says of the next requests.
fn answers_as(version: u32, written: Vec<u8>, expected: &[u8]) {
    let expected: Vec<Answer> = serde_json::from_slice(expected).expect("answers");
    let header = decode_header(&written[..MAX_HEADER_BYTES.min(written.len())], written.len() as u64);
    let header = header.expect("a sound header");
    assert_eq!((header.version, header.fact), (version, snapshot().fact));
    assert_eq!(answers(open(written).expect("a sound file")), expected);
}

#[test]
fn version_1_is_read_for_ever() {
    let expected = serde_json::to_vec_pretty(&answers(engine())).expect("text");
    let expected = frozen("state.expected.json", &expected);
    answers_as(1, frozen("state.kvs", &file(&snapshot())), &expected);
}

/// A change to the layout of the header or the state must raise the version and freeze a new file.
#[test]
fn the_layout_written_now_is_that_of_the_newest_frozen_file() {
    assert!(
        file(&snapshot()) == frozen("state.kvs", &file(&snapshot())),
        "the layout changed: raise VERSION"
    );
}

/// Recomputes the checksum of a header that was changed on purpose.
fn seal(mut file: Vec<u8>) -> Vec<u8> {
    let end = u32::from_le_bytes(file[12..16].try_into().expect("four bytes")) as usize;
    let checksum = xxh3_64(&file[..end - 8]).to_le_bytes();
    file[end - 8..end].copy_from_slice(&checksum);
    file
}

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = file(&snapshot());
    change(&mut bytes);
    bytes
}

fn other(change: impl FnOnce(&mut Snapshot)) -> Vec<u8> {
    let mut snapshot = snapshot();
    change(&mut snapshot);
    file(&snapshot)
}

#[test]
fn every_kind_of_corruption_is_refused_with_its_own_words() {
    let kinds: [(&str, Vec<u8>); 13] = [
        ("bit_flipped_in_header", changed(|bytes| bytes[40] ^= 1)),
        ("bit_flipped_in_version", changed(|bytes| bytes[8] ^= 4)),
        ("bit_flipped_in_body", changed(|bytes| bytes[500] ^= 0x10)),
        ("truncated_in_header", changed(|bytes| bytes.truncate(60))),
        ("truncated_in_body", changed(|bytes| bytes.truncate(700))),
        ("empty", Vec::new()),
        ("appended_to", changed(|bytes| bytes.extend(b"more"))),
        ("wrong_magic", changed(|bytes| bytes[..8].copy_from_slice(b"PK\x03\x04\x14\0\0\0"))),
        ("future_version", seal(changed(|bytes| bytes[8] = VERSION as u8 + 1))),
        ("wrong_configuration", other(|snapshot| snapshot.fact.fingerprint = Fingerprint(1))),
        (
            "wrong_partition",
            other(|snapshot| snapshot.partition = PartitionId::new("llm.requests", 8).unwrap()),
        ),
        ("renamed", other(|snapshot| snapshot.fact.next_offset = NextOffset(6100))),
        ("another_state", other(|snapshot| snapshot.body = b"no engine".to_vec().into())),
    ];
    for (kind, bytes) in kinds {
        let bytes = frozen(&format!("refused/{kind}.kvs"), &bytes);
        let error = open(bytes).err().unwrap_or_else(|| panic!("{kind} is accepted")).to_string();
        let expected = frozen(&format!("refused/{kind}.expected.txt"), format!("{error}\n").as_bytes());
        assert_eq!(format!("{error}\n").as_bytes(), expected, "{kind}: {error}");
    }
}

/// The file is sound; only the log can tell that it is not the one the file was made from.
#[test]
fn a_recreated_topic_is_refused_by_the_resume_decision() {
    let other_log = other(|snapshot| {
        snapshot.fact.last_record = Some(RecordIdentity { digest: 1, ..last_record() });
    });
    let bytes = frozen("refused/recreated_topic.kvs", &other_log);
    let header =
        decode_header(&bytes[..MAX_HEADER_BYTES.min(bytes.len())], bytes.len() as u64).expect("sound");
    let last_record = header.fact.last_record_in_log(Some(&last_record()));
    assert_eq!(last_record, LastRecord::Different);
    let next_offset = header.fact.next_offset;
    let refusal = decide(&ResumeFacts {
        parked: None,
        committed: Some(next_offset),
        log: LogRange { start: NextOffset(0), end: NextOffset(10_000) },
        snapshots: &[SnapshotFacts { next_offset, health: SnapshotHealth::Sound, last_record }],
        start: StartFrom::Earliest,
        lost_history: LostHistory::Refuse,
    });
    let refusal = format!("{}\n", refusal.expect_err("another log"));
    assert_eq!(refusal.as_bytes(), frozen("refused/recreated_topic.expected.txt", refusal.as_bytes()));
}
