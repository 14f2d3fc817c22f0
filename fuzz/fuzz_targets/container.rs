//! Avro object container files. Seeds: `tests/fixtures/codec`.
#![no_main]

use kvset::codec::{ContainerReader, DecodeLimits};
use libfuzzer_sys::fuzz_target;

/// Events of no bytes cost a file nothing; this many show what there is to see.
const MOST_EVENTS: u64 = 10_000;

fuzz_target!(|file: &[u8]| {
    let Ok(mut reader) = ContainerReader::open(file, DecodeLimits::default(), "default") else { return };
    while reader.events() < MOST_EVENTS {
        match reader.next_event() {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
});
