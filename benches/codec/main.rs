//! `cargo bench --bench codec`: nanoseconds and allocations a page id, by encoding, alongside other ways to read
//! the same bytes.
//!
//! Ours and the other take turns in one run; the medians are compared. Both sum the ids, so that a decoder
//! that only borrows pays for reading memory too. Ours checks everything a record is checked for.
#![allow(unsafe_code, reason = "an allocator that watches what is asked of it")]

mod allocations;
mod baselines;

use kvset::codec::{DecodeLimits, Encoding, RequestDecoder, RequestEncoding, RequestMessage, encode_request};
use kvset::core::units::pages::{PageIds, mix};
use kvset::trace::{Format, ReadOptions, TraceItem, TraceReader};
use std::hint::black_box;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Page ids a record, as in a prompt of 128,000 tokens at 64 tokens per page.
const IDS: usize = 2000;
/// Tokens of the same prompt.
const TOKENS: usize = 128_000;
/// How long one measurement takes, at least.
const SPAN: Duration = Duration::from_millis(60);
/// Measurements of each of two; the median counts.
const ROUNDS: usize = 11;

fn main() {
    let random: Vec<u64> = (0..IDS as u64).map(|n| mix(n + 1)).collect();
    let small: Vec<u64> = (0..IDS as u64).collect();
    packed_allocations();
    println!(
        "{:<38} {:>8} {:>9} {:>9} {:>8} {:>12}",
        "", "bytes", "ours, ns", "its, ns", "speed", "allocations"
    );
    for (name, ids) in [("random ids", &random), ("small ids", &small)] {
        println!("{name}, {IDS} of them; ns an id");
        events(ids);
    }
    println!("token ids, {TOKENS} of them, hashed into pages; ns a token");
    tokens();
}

/// Event records alongside the best other reader of each encoding.
fn events(ids: &[u64]) {
    let schema = baselines::request_schema();
    let by_avro = baselines::apache_avro(&schema);
    let mut buffer = Vec::new();
    let packed = record(ids, RequestEncoding::Avro);
    compare("packed, beside summing the bytes", &packed, baselines::packed_by_hand);
    compare("packed, beside apache-avro", &packed, &by_avro);
    let longs = record(ids, RequestEncoding::AvroLongs);
    compare("array<long>, beside a loop by hand", &longs, |r| baselines::longs_by_hand(r, &mut buffer));
    compare("array<long>, beside apache-avro", &longs, &by_avro);
    let json = record(ids, RequestEncoding::Json);
    compare("JSON, beside serde_json into a struct", &json, baselines::serde_json_typed);
}

/// Prompts as token ids: the reader of traces alongside serde_json and the same hashing.
fn tokens() {
    let tokens: Vec<String> = (0..TOKENS as u64).map(|n| (mix(n) % 128_000).to_string()).collect();
    let line = format!("[{}]", tokens.join(","));
    let (mut hasher, mut ids) = (baselines::hasher(), Vec::new());
    let options = ReadOptions { format: Format::TokenIds, ..ReadOptions::default() };
    // A stream of the line over and over: the reader's buffers live as long as its file.
    let endless = std::io::Cursor::new(format!("{line}\n").into_bytes());
    let mut reader = TraceReader::from_reader("bench", Box::new(Cycle(endless)), &options).expect("a trace");
    let mut ours = |_: &[u8]| match reader.next_item().expect("readable").expect("endless") {
        TraceItem::Request(row) => baselines::sum(row.event.page_ids.iter()),
        TraceItem::Refused(error) => panic!("{error:?}"),
    };
    let its = |line: &[u8]| baselines::tokens_then_hashed(line, &mut hasher, &mut ids);
    print("JSON, beside serde_json into a vector", line.as_bytes(), TOKENS, &mut ours, its);
}

/// Reads the same bytes again and again.
struct Cycle(std::io::Cursor<Vec<u8>>);

impl std::io::Read for Cycle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.0.position() as usize == self.0.get_ref().len() {
            self.0.set_position(0);
        }
        self.0.read(buffer)
    }
}

fn message(ids: &[u64]) -> RequestMessage<'_> {
    RequestMessage {
        event_time: 1_700_000_000_000,
        page_ids: PageIds::from_slice(ids),
        page_size: Some(64),
        input_tokens: Some(64 * ids.len() as i64),
        ..RequestMessage::default()
    }
}

fn record(ids: &[u64], encoding: RequestEncoding) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(&message(ids), encoding, &mut bytes).expect("serialises");
    bytes
}

/// Decodes a record as the service does.
fn decoded(decoder: &mut RequestDecoder, record: &[u8]) -> u64 {
    let decoded = decoder.decode(Some(b"pool"), record).expect("a valid record");
    baselines::sum(decoded.event.page_ids.iter())
}

fn compare(name: &str, record: &[u8], its: impl FnMut(&[u8]) -> u64) {
    let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
    print(name, record, IDS, &mut |record| decoded(&mut decoder, record), its);
}

/// Measures two readers of the same bytes by turns and prints the medians.
fn print(
    name: &str,
    record: &[u8],
    items: usize,
    ours: &mut dyn FnMut(&[u8]) -> u64,
    mut its: impl FnMut(&[u8]) -> u64,
) {
    assert_eq!(ours(record), its(record), "{name}: both read the same ids");
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        times[0].push(nanoseconds(record, ours));
        times[1].push(nanoseconds(record, &mut its));
    }
    let [ours_ns, its_ns] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] / items as f64
    });
    let before = allocations::count();
    black_box(ours(record));
    let allocated = allocations::count() - before;
    let speed = its_ns / ours_ns;
    println!("  {name:<36} {:>8} {ours_ns:>9.3} {its_ns:>9.3} {speed:>7.2}x {allocated:>12}", record.len());
}

/// Nanoseconds a record.
fn nanoseconds(record: &[u8], read: &mut dyn FnMut(&[u8]) -> u64) -> f64 {
    let (begin, mut records) = (Instant::now(), 0u32);
    while begin.elapsed() < SPAN {
        for _ in 0..4 {
            black_box(read(black_box(record)));
        }
        records += 4;
    }
    begin.elapsed().as_nanos() as f64 / f64::from(records)
}

/// Packed ids are used where they lie: a record of any size costs as many allocations.
fn packed_allocations() {
    let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
    print!("allocations to decode a packed record:");
    for ids in [10, 1000, 100_000] {
        let bytes = record(&vec![7; ids], RequestEncoding::Avro);
        let before = allocations::count();
        let read = decoder.decode(Some(b"pool"), &bytes).expect("a valid record");
        let lies_within = bytes.as_ptr_range().contains(&read.event.page_ids.as_packed().as_ptr());
        let allocated = allocations::count() - before;
        assert!(lies_within, "the ids were copied");
        print!(" {allocated} of {ids} ids;");
    }
    println!(" the ids lie in the record's own bytes");
}
