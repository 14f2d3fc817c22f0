//! `cargo bench --bench checkpoint`: what a checkpoint every 30 s costs the stream of a partition with ten
//! million tracked pages.
//!
//! One thread does a worker's work (decode, estimate, encode what closes) on records that are encoded
//! beforehand, in ranges of some seconds. Every other range a checkpoint is taken in its middle: the
//! capture stops the stream, the service's own writer thread writes it to disk meanwhile. A range costs
//! the processor time of its thread, so that busy neighbours on the machine count as little as possible.

mod traffic;

use kvset::codec::{
    DecodeLimits, Encoding, EstimateDetail, EstimateEncoding, RequestEncoding, RequestMessage, SourceRecord,
    encode_request,
};
use kvset::core::engines::config::CacheConfig;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::set::PoolConfigs;
use kvset::core::units::pages::PageIds;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::{PageCount, PageSize};
use kvset::pipeline::dead_letter_policy::DeadLetterLimits;
use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::pipeline::resume::Resume;
use kvset::pipeline::task::{PartitionTask, TaskConfig};
use kvset::position::Partition;
use kvset::snapshot::capture::{CaptureMemory, capture_body};
use kvset::snapshot::directory::DirectoryStore;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::writer::{SnapshotOutcome, SnapshotWriter};
use std::num::NonZeroUsize;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use traffic::Agentic;

const PAGES: u64 = 10_000_000;
/// `state.checkpoint_every`, as it is by default.
const EVERY: Duration = Duration::from_secs(30);
/// Pairs of ranges, one without and one with a checkpoint.
const ROUNDS: usize = 7;
/// Records of a range.
const STRETCH: usize = 10_000;
/// Event time between two records, in milliseconds.
const TICK_MS: i64 = 100;

/// A worker's task and the log it reads.
struct Stream {
    traffic: Agentic,
    task: PartitionTask,
    offset: i64,
}

impl Stream {
    fn new() -> Self {
        let pool = PoolConfig {
            cache: CacheConfig {
                page_size: PageSize::new(64),
                max_tracked_pages: PageCount(PAGES),
                ..CacheConfig::default()
            },
            ..PoolConfig::default()
        };
        let config = TaskConfig {
            topic: "requests".to_owned(),
            encoding: Encoding::Avro,
            schemas: None,
            limits: DecodeLimits::default(),
            pools: PoolConfigs::new(pool, []).expect("usable").into(),
            max_pools: 1,
            idle_timeout_ms: None,
            forget_after_ms: None,
            put_aside_after_ms: None,
            hold_back_bytes: 1 << 20,
            max_letter_bytes: 1 << 20,
            dead_letters: DeadLetterLimits { max_consecutive: 0, max_share: Ratio::ONE, share_window: 1 },
            output: EstimateEncoding::Json,
            detail: EstimateDetail::Full,
            version: "bench".to_owned(),
            fingerprint: "bench".to_owned(),
        };
        let task = PartitionTask::new(Arc::new(config), Partition(0), &Resume::from_start());
        Self { traffic: Agentic::new(2500), task, offset: 0 }
    }

    /// The next records as they come from the topic.
    fn encode(&mut self, records: usize) -> Vec<Vec<u8>> {
        let offsets = self.offset..;
        let encoded = self.traffic.by_ref().zip(offsets).take(records).map(|(ids, offset)| {
            let message = RequestMessage {
                event_time: offset * TICK_MS,
                page_ids: PageIds::from_slice(&ids),
                ..RequestMessage::default()
            };
            let mut value = Vec::new();
            encode_request(&message, RequestEncoding::Avro, &mut value).expect("encodes");
            value
        });
        encoded.collect()
    }

    /// Processes records; the outputs go nowhere.
    fn process(&mut self, values: &[Vec<u8>]) {
        let mut outputs = Vec::new();
        for value in values {
            let record = SourceRecord {
                schema_header: None,
                topic: "requests",
                partition: 0,
                offset: self.offset,
                timestamp_ms: Some(self.offset * TICK_MS),
                key: Some(b"coding/eu"),
                value: Some(value),
            };
            self.task.process_record(&record, &mut outputs).expect("accepted");
            self.offset += 1;
            outputs.clear();
        }
    }

    fn tracked_pages(&self) -> u64 {
        let pool = self.task.pools().first().and_then(|pool| pool.engine());
        pool.map_or(0, |engine| engine.stack().tracked_pages().0)
    }

    fn snapshot(&self, memory: &mut CaptureMemory) -> Snapshot {
        let (next_offset, last_record) = (self.task.next_offset(), self.task.last_record());
        Snapshot {
            partition: PartitionId::new("requests", 0).expect("a legal name"),
            fact: SnapshotFact { next_offset, fingerprint: Fingerprint(1), last_record },
            body: capture_body(&self.task.image(), next_offset, memory).expect("bytes"),
        }
    }
}

/// Processor time of the calling thread; wall-clock time where the system does not tell it.
fn thread_time(begin: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.as_deref().and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

/// What one checkpoint took.
struct Checkpoint {
    pause: Duration,
    /// The range with it less the one before without.
    stream: f64,
    /// Processor time of the writer thread.
    writer: Duration,
    /// Bytes of the state, and of what was written.
    bytes: u64,
    written: u64,
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let begin = Instant::now();
    let mut stream = Stream::new();
    while stream.tracked_pages() < PAGES * 99 / 100 {
        let values = stream.encode(1000);
        stream.process(&values);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let store = DirectoryStore::open(folder.path(), NonZeroUsize::MIN).expect("a directory of its own");
    let (done, written) = mpsc::channel();
    let mut before = Duration::ZERO;
    let report = move |snapshot: SnapshotOutcome| {
        let now = thread_time(begin);
        done.send((snapshot, now - std::mem::replace(&mut before, now))).expect("the bench listens");
    };
    let writer = SnapshotWriter::spawn(Arc::new(store), report).expect("a thread");

    let (mut plain, mut checkpoints) = (Vec::new(), Vec::new());
    // The first snapshot writes all of the state.
    let mut memory = CaptureMemory::default();
    writer.submit(stream.snapshot(&mut memory));
    memory.buffer = written.recv().expect("the writer goes on").0.buffer;
    for _ in 0..ROUNDS {
        let values = stream.encode(STRETCH);
        let from = thread_time(begin);
        stream.process(&values);
        let without = thread_time(begin) - from;
        plain.push(without.as_secs_f64());

        let values = stream.encode(STRETCH);
        let (first, rest) = values.split_at(STRETCH / 10);
        let from = thread_time(begin);
        stream.process(first);
        let paused = Instant::now();
        let snapshot = stream.snapshot(&mut memory);
        let pause = paused.elapsed();
        assert!(writer.submit(snapshot), "the one before is written");
        stream.process(rest);
        let with = thread_time(begin) - from;
        let (snapshot, cpu) = written.recv().expect("the writer goes on");
        let (bytes, written) = (snapshot.state_bytes, snapshot.result.expect("a disk").bytes);
        memory.buffer = snapshot.buffer;
        let stream = with.as_secs_f64() - without.as_secs_f64();
        checkpoints.push(Checkpoint { pause, stream, writer: cpu, bytes, written });
    }
    print(&stream, median(plain.into_iter()), &checkpoints);
}

fn print(stream: &Stream, range: f64, checkpoints: &[Checkpoint]) {
    let of = |value: fn(&Checkpoint) -> f64| median(checkpoints.iter().map(value));
    let pause = of(|checkpoint| checkpoint.pause.as_secs_f64());
    let slower = of(|checkpoint| checkpoint.stream);
    let writer = of(|checkpoint| checkpoint.writer.as_secs_f64());
    println!(
        "{} tracked pages, states of {:.0} MB of which {:.0} MB are written, every {} s; {:.0} records/s a worker without",
        stream.tracked_pages(),
        of(|checkpoint| checkpoint.bytes as f64) / 1e6,
        of(|checkpoint| checkpoint.written as f64) / 1e6,
        EVERY.as_secs(),
        STRETCH as f64 / range,
    );
    let row = |name, seconds: f64| {
        println!("{name:<58} {:>7.1} ms {:>6.2} %", seconds * 1e3, 100.0 * seconds / EVERY.as_secs_f64());
    };
    row("pause of the stream", pause);
    row("processor time of the writer thread", writer);
    row("cost where the writer has a core to itself, pause included", slower);
    let most = slower.max(pause) + writer;
    row("cost where the writer takes the worker's core (at most 2 %)", most);
    let share = most / EVERY.as_secs_f64();
    println!("{}", if share <= 0.02 { "within 2 %" } else { "MORE THAN 2 %" });
}
