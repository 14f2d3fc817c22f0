//! `cargo bench --bench pools`: many small pools in one process. For 10, 1,000 and 100,000 pools (or the counts
//! given behind `--`): bytes of memory a pool, records a second, and bytes published a record.
//!
//! A pool is one session of five requests, a minute apart, each 20 pages longer than the one before: its last request
//! holds 100 pages. Where there are at most 1,000 pools, the same with twenty requests of 5 pages more each. The
//! pools take turns, so that none is in a processor's caches when its turn comes. Memory is what the allocator gave
//! out and did not get back, as the requests are through: stack, windows, indexes and the pool's name. Estimates are
//! written as JSON, as the service does; what Avro would have taken is told alongside it. What a pool holds is told a
//! second time for a set that puts idle pools aside, an hour of event time later. Curves are thinned as the service
//! thins them.
//!
//! A second table is of a partition's task by the service's default settings: what it holds of a pool, newest estimates
//! included, for pools of so many requests.

#![allow(unsafe_code, reason = "an allocator that counts what is held")]

use kvset::codec::{
    EstimateEncoding, RequestEncoding, RequestMessage, SourceRecord, encode_estimate, encode_request,
};
use kvset::core::engines::config::CacheConfig;
use kvset::core::estimate::Estimate;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::set::{PoolConfigs, PoolHistory, PoolRecord, PoolSet, PoolSetConfig};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::heap::HeapBytes;
use kvset::core::units::pages::{PageIds, mix};
use kvset::core::units::{EventTime, Offset, PageSize};
use kvset::pipeline::resume::Resume;
use kvset::pipeline::task::PartitionTask;
use kvset::position::Partition;
use kvset::service::plan::task_config;
use kvset::settings::Settings;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Pages of a pool.
const PAGES: u64 = 100;
const MINUTE_MS: i64 = 60_000;

/// The system's allocator, with the bytes given out and not taken back, as rounded up by it: an allocation has
/// a word before it and comes in steps of 16 bytes.
struct Counting;

static HELD: AtomicU64 = AtomicU64::new(0);

fn taken(size: usize) -> u64 {
    (size as u64 + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is handed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(taken(layout.size()), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(taken(layout.size()), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HELD.fetch_add(taken(size), Relaxed);
        HELD.fetch_sub(taken(layout.size()), Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What was published.
#[derive(Default)]
struct Published {
    estimates: u64,
    json_bytes: u64,
    /// Of one estimate in 64.
    avro_bytes: u64,
    of_avro: u64,
    elapsed: Duration,
    buffer: Vec<u8>,
}

impl Published {
    fn publish(&mut self, closed: &mut Vec<Estimate>) {
        let started = Instant::now();
        for estimate in closed.iter_mut() {
            estimate.thin_curve();
            self.buffer.clear();
            encode_estimate(estimate, EstimateEncoding::Json, &mut self.buffer).expect("representable");
            self.json_bytes += self.buffer.len() as u64;
        }
        self.elapsed += started.elapsed();
        for estimate in closed.drain(..) {
            self.estimates += 1;
            if self.estimates.is_multiple_of(64) {
                self.buffer.clear();
                encode_estimate(&estimate, EstimateEncoding::Avro, &mut self.buffer).expect("representable");
                self.avro_bytes += self.buffer.len() as u64;
                self.of_avro += 1;
            }
        }
    }
}

fn set(pools: usize, idle_after_ms: Option<u64>) -> PoolSet {
    let config = PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(16),
            kv_bytes_per_token: Some(61_505.0),
            ..CacheConfig::default()
        },
        ..PoolConfig::default()
    };
    let configs = Arc::new(PoolConfigs::new(config, []).expect("usable"));
    PoolSet::new(
        PoolSetConfig {
            pools: configs,
            partition: 0,
            max_pools: pools,
            idle_timeout_ms: Some(120_000),
            forget_after_ms: None,
            put_aside_after_ms: idle_after_ms,
        },
        PoolHistory::Whole,
    )
}

/// A run of the pools, as it ended.
struct Done {
    set: PoolSet,
    published: Published,
    observing: Duration,
    records: i64,
    /// Bytes given out for the set.
    held: u64,
}

fn drive(names: &[String], requests: u64, idle_after_ms: Option<u64>) -> Done {
    let pools = names.len();
    let (mut closed, mut published, mut ids) = (Vec::new(), Published::default(), Vec::new());
    let held_before = HELD.load(Relaxed);
    let mut set = set(pools, idle_after_ms);
    let (mut observing, mut offset) = (Duration::ZERO, 0);
    for turn in 0..requests {
        for (pool, name) in names.iter().enumerate() {
            ids.clear();
            ids.extend((0..(turn + 1) * PAGES / requests).map(|page| mix((pool as u64) << 32 | page)));
            let minute = turn as i64 * MINUTE_MS;
            let event = RequestEvent {
                event_time: EventTime(minute + MINUTE_MS * pool as i64 / pools as i64),
                page_ids: PageIds::from_slice(&ids),
                ..RequestEvent::default()
            };
            let record = PoolRecord::in_order(name, &event, Offset(offset), true);
            offset += 1;
            let started = Instant::now();
            set.observe(record, &mut closed).expect("accepted");
            observing += started.elapsed();
            published.publish(&mut closed);
        }
    }
    if let (Some(idle), Some(name)) = (idle_after_ms, names.first()) {
        let late = EventTime(requests as i64 * MINUTE_MS + 2 * idle as i64);
        let event =
            RequestEvent { event_time: late, page_ids: PageIds::from_slice(&ids), ..RequestEvent::default() };
        let record = PoolRecord::in_order(name, &event, Offset(offset), true);
        set.observe(record, &mut closed).expect("accepted");
    }
    (closed, published.buffer, ids) = (Vec::new(), Vec::new(), Vec::new());
    let held = HELD.load(Relaxed) - held_before;
    drop((closed, ids));
    Done { set, published, observing, records: offset, held }
}

fn run(pools: usize, requests: u64) {
    let names: Vec<String> = (0..pools).map(|pool| format!("tenant-{pool}")).collect();
    let aside = drive(&names, requests, Some(3_600_000)).held;
    let Done { set, published, observing, records, held } = drive(&names, requests, None);
    let (records, estimated) = (records as f64, set.heap_bytes() as u64);
    let all = observing + published.elapsed;
    println!(
        "{pools:>8} {requests:>9} {:>14.0} {:>12.0} {:>12.0} {:>12.0} {:>12.0} {:>12.2} {:>12.0} {:>12.0} {:>12.0}",
        held as f64 / pools as f64,
        aside as f64 / pools as f64,
        estimated as f64 / pools as f64,
        records / all.as_secs_f64(),
        records / observing.as_secs_f64(),
        published.estimates as f64 / records,
        published.json_bytes as f64 / published.estimates.max(1) as f64,
        published.json_bytes as f64 / records,
        published.avro_bytes as f64 / published.of_avro.max(1) as f64,
    );
}

/// What a request of a pool is in the log, as it is in the service's.
fn logged(pool: u64, turn: u64, requests: u64, ids: &mut Vec<u64>, value: &mut Vec<u8>) {
    ids.clear();
    ids.extend((0..(turn + 1) * PAGES / requests).map(|page| mix(pool << 32 | page)));
    let message = RequestMessage {
        event_time: turn as i64 * MINUTE_MS + pool as i64 % MINUTE_MS,
        page_ids: PageIds::from_slice(ids),
        page_size: Some(16),
        input_tokens: Some(16 * ids.len() as i64),
        ..RequestMessage::default()
    };
    value.clear();
    encode_request(&message, RequestEncoding::Avro, value).expect("serialises");
}

/// Bytes that a partition's task holds of each of these pools, and bytes of its own.
fn in_service(names: &[String], requests: u64) -> f64 {
    let config = task_config(&Settings::default()).expect("usable settings");
    let before = HELD.load(Relaxed);
    let mut task = PartitionTask::new(Arc::new(config), Partition(0), &Resume::from_start());
    let (mut ids, mut value, mut outputs, mut offset) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for turn in 0..requests {
        for (pool, name) in names.iter().enumerate() {
            logged(pool as u64, turn, requests, &mut ids, &mut value);
            let record = SourceRecord {
                schema_header: None,
                topic: "requests",
                partition: 0,
                offset,
                timestamp_ms: None,
                key: Some(name.as_bytes()),
                value: Some(&value),
            };
            offset += 1;
            task.process_records([record], &mut outputs).expect("accepted");
            outputs.clear();
            drop(task.take_counts());
        }
    }
    drop((ids, value, outputs, task.take_new_pools()));
    let held = HELD.load(Relaxed) - before;
    drop(task);
    held as f64 / names.len() as f64
}

fn serve(pools: usize) {
    let names: Vec<String> = (0..pools).map(|pool| format!("tenant-{pool}")).collect();
    let [few, some, many] = [1, 5, 20].map(|requests| in_service(&names, requests));
    println!("{pools:>8} {few:>16.0} {some:>16.0} {many:>16.0}");
}

fn main() {
    let counts: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let counts = if counts.is_empty() { vec![10, 1_000, 100_000] } else { counts };
    println!(
        "{:>8} {:>9} {:>14} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "pools",
        "requests",
        "bytes a pool",
        "put aside",
        "as it says",
        "records/s",
        "observed/s",
        "estimates/r",
        "json bytes/e",
        "json bytes/r",
        "avro bytes/e"
    );
    counts.iter().for_each(|pools| run(*pools, 5));
    counts.iter().filter(|pools| **pools <= 1_000).for_each(|pools| run(*pools, 20));
    println!("\nof the service\n{:>8} {:>16} {:>16} {:>16}", "pools", "one request", "five", "twenty");
    counts.iter().filter(|pools| (1_000..=10_000).contains(*pools)).for_each(|pools| serve(*pools));
}
