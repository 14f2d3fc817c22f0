//! Request log lines to request events on Kafka.
//!
//! ```sh
//! cargo run --package producer -- localhost:9092 kvset.requests 64 < requests.jsonl
//! ```
//!
//! A line: `{"event_time": ms, "pool": "llama-70b/eu", "tokens": [..], "output_tokens": 90, "duration_ms": 1200,
//! "namespace": "tenant-a"}`; the last three may be left out. Page ids are made as `schemas/page-ids.md`
//! says. Nothing of kvset is used: this is what a serving system of its own would do.

use base64::Engine as _;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
use std::error::Error;
use std::io::BufRead as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const NAMESPACE_SEED: u64 = 0x6b76_7365_7473_636f;

#[derive(serde::Deserialize)]
struct Line {
    event_time: i64,
    pool: String,
    tokens: Vec<u32>,
    output_tokens: Option<i64>,
    duration_ms: Option<i64>,
    namespace: Option<String>,
}

#[derive(serde::Serialize)]
struct Event {
    event_time: i64,
    page_size: usize,
    page_ids: String,
    /// They are, by the way they are made: a long request is then known by a few of its ids.
    ids_chained: bool,
    input_tokens: usize,
    output_tokens: Option<i64>,
    duration_ms: Option<i64>,
}

/// The packed ids of the full pages, each chained with every page before it.
fn page_ids(tokens: &[u32], page_size: usize, namespace: Option<&str>) -> Vec<u8> {
    let mut previous = namespace.map_or(0, |name| xxh3_64_with_seed(name.as_bytes(), NAMESPACE_SEED).max(1));
    let mut ids = Vec::new();
    for page in tokens.chunks_exact(page_size) {
        let mut bytes = previous.to_le_bytes().to_vec();
        page.iter().for_each(|token| bytes.extend(token.to_le_bytes()));
        previous = xxh3_64(&bytes);
        ids.extend(previous.to_le_bytes());
    }
    ids
}

fn event(line: &Line, page_size: usize) -> Event {
    let ids = page_ids(&line.tokens, page_size, line.namespace.as_deref());
    Event {
        event_time: line.event_time,
        page_size,
        page_ids: base64::prelude::BASE64_STANDARD.encode(ids),
        ids_chained: true,
        input_tokens: line.tokens.len(),
        output_tokens: line.output_tokens,
        duration_ms: line.duration_ms,
    }
}

/// Counts what was not delivered.
#[derive(Default)]
struct Deliveries {
    failed: AtomicU64,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            eprintln!("not delivered: {error}");
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, topic, page_size] = &arguments[..] else {
        return Err("usage: producer BROKERS TOPIC TOKENS-A-PAGE < LINES".into());
    };
    let page_size: usize = page_size.parse()?;
    let producer: ThreadedProducer<Deliveries> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        // Keeps a pool's requests in order and free of doubles when the producer retries.
        .set("enable.idempotence", "true")
        .set("compression.type", "zstd")
        .set("linger.ms", "50")
        // Kafka's own hash of the key, so that pools go where other clients put them.
        .set("partitioner", "murmur2_random")
        .set_log_level(RDKafkaLogLevel::Warning)
        .create_with_context(Deliveries::default())?;
    for line in std::io::stdin().lock().lines() {
        let line: Line = serde_json::from_str(&line?)?;
        let value = serde_json::to_vec(&event(&line, page_size))?;
        // The key is the pool: requests of one pool stay in one partition, in order.
        let mut record = BaseRecord::to(topic).key(&line.pool).payload(&value);
        while let Err((error, refused)) = producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(10));
            record = refused;
        }
    }
    producer.flush(Duration::from_secs(60))?;
    match producer.context().failed.load(Ordering::Relaxed) {
        0 => Ok(()),
        failed => Err(format!("{failed} records were not delivered").into()),
    }
}
