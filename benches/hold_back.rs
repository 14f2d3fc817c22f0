//! `cargo bench --bench hold_back`: what it costs a partition to hold records back and take them in the order of
//! arrivals.
//!
//! One thread does a worker's work on records that are encoded beforehand: agentic requests of one pool, a hundred a
//! second, that take up to two minutes, in the order in which they finish. Once records wait for the default bound of
//! five minutes, and once they are taken in the order of the log. Figures are processor time of the thread, so that
//! busy neighbours count as little as possible, and bytes that the task holds.

mod traffic;

use kvset::codec::{
    DecodeLimits, Encoding, EstimateDetail, EstimateEncoding, RequestEncoding, RequestMessage, SourceRecord,
    encode_request,
};
use kvset::core::engines::profile::{OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::set::PoolConfigs;
use kvset::core::units::PageSize;
use kvset::core::units::heap::HeapBytes;
use kvset::core::units::pages::{PageIds, mix};
use kvset::core::units::ratio::Ratio;
use kvset::pipeline::dead_letter_policy::DeadLetterLimits;
use kvset::pipeline::resume::Resume;
use kvset::pipeline::task::{PartitionTask, TaskConfig};
use kvset::position::Partition;
use kvset_core::engines::config::CacheConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};
use traffic::Agentic;

const HOLD_BACK_MS: u64 = 300_000;
const LONGEST_MS: u64 = 120_000;
/// Event time between two arrivals, in milliseconds.
const TICK_MS: u64 = 10;
const RECORDS: u64 = 66_000;

fn task(hold_back_ms: u64) -> PartitionTask {
    let pool = PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(64),
            profile: Profile::Vllm,
            rules: EngineRules { overlap: OverlapMode::On, ..EngineRules::default() },
            ..CacheConfig::default()
        },
        hold_back_ms,
        ..PoolConfig::default()
    };
    let config = TaskConfig {
        topic: "requests".to_owned(),
        encoding: Encoding::Auto,
        schemas: None,
        limits: DecodeLimits::default(),
        pools: PoolConfigs::new(pool, []).expect("usable").into(),
        max_pools: 1,
        idle_timeout_ms: None,
        forget_after_ms: None,
        put_aside_after_ms: None,
        hold_back_bytes: 16 << 30,
        max_letter_bytes: 1 << 20,
        dead_letters: DeadLetterLimits { max_consecutive: 0, max_share: Ratio::ONE, share_window: 1 },
        output: EstimateEncoding::Json,
        detail: EstimateDetail::Full,
        version: "bench".to_owned(),
        fingerprint: "bench".to_owned(),
    };
    PartitionTask::new(Arc::new(config), Partition(0), &Resume::from_start())
}

/// The log, in the order of finishes.
fn log(encoding: RequestEncoding) -> Vec<Vec<u8>> {
    let mut requests: Vec<_> = (0..RECORDS)
        .zip(Agentic::new(300))
        .map(|(number, ids)| (number * TICK_MS, mix(number) % LONGEST_MS, ids))
        .collect();
    requests.sort_by_key(|(arrival, duration, _)| arrival + duration);
    let record = |(arrival, duration, ids): &(u64, u64, Vec<u64>)| {
        let message = RequestMessage {
            event_time: *arrival as i64,
            duration_ms: Some(*duration as i64),
            page_ids: PageIds::from_slice(ids),
            ..RequestMessage::default()
        };
        let mut value = Vec::new();
        encode_request(&message, encoding, &mut value).expect("encodes");
        value
    };
    requests.iter().map(record).collect()
}

fn thread_time(begin: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.as_deref().and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

/// Seconds that the second half of the log takes, the bytes held at its end, and how many records wait there.
fn run(values: &[Vec<u8>], hold_back_ms: u64) -> (f64, u64, u64) {
    let (mut task, mut outputs, begin) = (task(hold_back_ms), Vec::new(), Instant::now());
    let mut half = Duration::ZERO;
    for (offset, value) in values.iter().enumerate() {
        if offset == values.len() / 2 {
            half = thread_time(begin);
        }
        let record = SourceRecord {
            schema_header: None,
            topic: "requests",
            partition: 0,
            offset: offset as i64,
            timestamp_ms: None,
            key: Some(b"coding/eu"),
            value: Some(value),
        };
        task.process_record(&record, &mut outputs).expect("accepted");
        outputs.clear();
    }
    ((thread_time(begin) - half).as_secs_f64(), task.heap_bytes() as u64, task.waiting())
}

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("of {RECORDS} records, {} a second of event time:", 1000 / TICK_MS);
    for (name, encoding) in [("avro", RequestEncoding::Avro), ("json", RequestEncoding::Json)] {
        let values = log(encoding);
        let bytes: usize = values.iter().map(Vec::len).sum();
        let mut ratios: Vec<_> = (0..5)
            .map(|_| (run(&values, HOLD_BACK_MS), run(&values, 0)))
            .map(|(held, plain)| (held.0 / plain.0, held, plain))
            .collect();
        ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (ratio, (seconds, memory, waiting), (plain_seconds, plain_memory, _)) = ratios[2];
        let (rate, plain_rate) =
            (values.len() as f64 / 2.0 / seconds, values.len() as f64 / 2.0 / plain_seconds);
        let each = (memory - plain_memory) / waiting.max(1);
        println!(
            "{name}: {} bytes a record; time with records held back to that without {ratio:.2} ({rate:.0} and \
             {plain_rate:.0} records a second); {waiting} wait, {each} bytes each, {:.1} MiB; without {:.1} MiB in all",
            bytes / values.len(),
            (memory - plain_memory) as f64 / f64::from(1 << 20),
            plain_memory as f64 / f64::from(1 << 20)
        );
    }
}
