//! Nanoseconds a page id, by encoding: `cargo bench --bench codec`.

use kvset::codec::{DecodeLimits, Encoding, RequestDecoder, RequestEncoding, RequestMessage, encode_request};
use kvset::core::pages::{PageIds, mix};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Page ids a record, as in a prompt of 128,000 tokens at 64 tokens a page.
const IDS: usize = 2000;
/// How long one measurement takes, at least.
const SPAN: Duration = Duration::from_millis(300);
/// Measurements a case; the fastest counts, since other work only ever adds.
const ROUNDS: usize = 5;

fn main() {
    let random: Vec<u64> = (0..IDS as u64).map(|n| mix(n + 1)).collect();
    let small: Vec<u64> = (0..IDS as u64).collect();
    println!("{:<22} {:>8} {:>12} {:>12}", "encoding", "bytes", "ns a record", "ns an id");
    for (name, ids) in [("random ids", &random), ("small ids", &small)] {
        println!("{name}");
        for encoding in [RequestEncoding::Avro, RequestEncoding::AvroLongs, RequestEncoding::Json] {
            let record = record(ids, encoding);
            report(&format!("  {encoding:?}"), &record);
        }
        report("  Json, base64", &base64_record(ids));
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

fn base64_record(ids: &[u64]) -> Vec<u8> {
    use base64::Engine;
    let packed = base64::engine::general_purpose::STANDARD.encode(PageIds::from_slice(ids).as_packed());
    format!(r#"{{"event_time":1700000000000,"page_size":64,"page_ids":"{packed}"}}"#).into_bytes()
}

fn report(name: &str, record: &[u8]) {
    let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
    let fastest =
        (0..ROUNDS).map(|_| nanoseconds_a_record(&mut decoder, record)).fold(f64::INFINITY, f64::min);
    let an_id = fastest / IDS as f64;
    println!("{name:<22} {:>8} {fastest:>12.0} {an_id:>12.3}", record.len());
}

/// Decodes and sums the ids, so that a decoder that only borrows pays for reading memory too.
fn nanoseconds_a_record(decoder: &mut RequestDecoder, record: &[u8]) -> f64 {
    let start = Instant::now();
    let mut records = 0u32;
    while start.elapsed() < SPAN {
        for _ in 0..16 {
            let decoded = decoder.decode(Some(b"pool"), black_box(record)).expect("a valid record");
            black_box(decoded.event.page_ids.iter().fold(0u64, u64::wrapping_add));
        }
        records += 16;
    }
    start.elapsed().as_nanos() as f64 / f64::from(records)
}
