//! A state with requests in flight, frozen like the others.

use super::{Answer, answers_of, file, frozen, observe_for, open, snapshot};
use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::engines::profile::{OverlapMode, Profile};
use kvset::core::request::outcome::Outcome;
use kvset::core::units::PageCount;
use kvset::snapshot::capture::capture;
use kvset::snapshot::format::Snapshot;

fn config() -> EngineConfig {
    let max_tracked_pages = PageCount(90);
    let (profile, overlap) = (Profile::Vllm, OverlapMode::On);
    EngineConfig { profile, overlap, max_tracked_pages, ..EngineConfig::default() }
}

/// Some come alone, and some while up to five others are in flight.
fn observe(engine: &mut Engine, turn: u64) -> Outcome {
    observe_for(engine, turn, Some(if turn % 20 < 6 { 0 } else { turn % 17 }))
}

fn engine() -> Engine {
    let mut engine = Engine::new(config());
    (0..60).for_each(|turn| drop(observe(&mut engine, turn)));
    engine
}

fn in_flight() -> Snapshot {
    Snapshot { body: capture(&engine(), Vec::new()).expect("bytes").into(), ..snapshot() }
}

#[test]
fn requests_in_flight_are_read_for_ever() {
    assert!(engine().others_in_flight().is_some_and(|others| others.requests > 1), "they overlap");
    assert!(engine().stack().tracked_pages() < engine().stack().accumulated_pages(), "it forgot pages");
    let expected = serde_json::to_vec_pretty(&answers_of(engine(), observe)).expect("text");
    let expected: Vec<Answer> =
        serde_json::from_slice(&frozen("in_flight.expected.json", &expected)).expect("answers");
    let written = frozen("in_flight.kvs", &file(&in_flight()));
    let mut read = open(written.clone()).expect("a sound file");
    assert!(read.resume(&config()), "of this configuration");
    assert_eq!(answers_of(read, observe), expected);
    assert!(file(&in_flight()) == written, "the layout changed: raise VERSION");
}

/// An engine that takes one request after another cannot go on from a state with requests in flight.
#[test]
fn requests_in_flight_are_refused_where_overlap_is_not_modelled() {
    let mut read = open(file(&in_flight())).expect("a sound file");
    assert!(!read.resume(&EngineConfig { overlap: OverlapMode::Off, ..config() }));
}
