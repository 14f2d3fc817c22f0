//! `cargo bench --bench large_state`: snapshots of a pool that grows to a hundred million pages, or to
//! `KVSET_BENCH_PAGES`; a billion take about twelve gigabytes of memory and as much of disk.
//!
//! At an eighth, a quarter, half of them and all: memory and disk a page, the first snapshot, which writes every part,
//! the next after 3,000 requests (thirty seconds at a hundred a second), and a restore. `plain` is the first one's time
//! to that of writing as many bytes as they are.

mod traffic;

use kvset::core::request::outcome::Outcome;
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, MAX_TRACKED_PAGES, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use kvset::core::units::heap::HeapBytes;
use kvset::core::units::pages::PageIds;
use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::position::NextOffset;
use kvset::snapshot::capture::{CaptureMemory, capture_body};
use kvset::snapshot::directory::DirectoryStore;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::store::SnapshotStore;
use std::fs::{self, File};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};
use traffic::Agentic;

/// Requests between two snapshots.
const BETWEEN: usize = 3000;
/// Sessions begin anew once a request has so many pages.
const LONGEST: usize = 2500;

/// A pool and what it is asked.
struct Pool {
    stack: Stack,
    traffic: Agentic,
    outcome: Outcome,
    requests: i64,
}

impl Pool {
    fn new() -> Self {
        let stack = Stack::new(StackConfig {
            order: Order::RootFirst,
            max_tracked_pages: PageCount(MAX_TRACKED_PAGES),
            chain_check: ChainCheck::Sampled,
            chain_policy: ChainPolicy::Report,
        });
        Self { stack, traffic: Agentic::new(LONGEST), outcome: Outcome::default(), requests: 0 }
    }

    fn request(&mut self) {
        let ids = self.traffic.next().expect("traffic without end");
        let access =
            Access { pages: PageIds::from_slice(&ids), lookup_limit: ids.len(), ..Access::default() };
        self.stack.access(&access, &mut self.outcome).expect("violations are only reported");
        self.requests += 1;
    }
}

/// What one snapshot took.
#[derive(Default)]
struct Taken {
    captures: u32,
    /// The longest that the stream stood still at a time.
    pause: Duration,
    write: Duration,
    bytes: u64,
    state_bytes: u64,
    /// The most memory held for it.
    memory: usize,
}

fn partition() -> PartitionId {
    PartitionId::new("requests", 0).expect("a legal name")
}

fn save(pool: &Pool, store: &DirectoryStore, memory: &mut CaptureMemory) -> Taken {
    let mut taken = Taken::default();
    loop {
        let next_offset = NextOffset(pool.requests);
        let fact = SnapshotFact { next_offset, fingerprint: Fingerprint(1), last_record: None };
        let begin = Instant::now();
        let body = capture_body(&pool.stack, next_offset, memory).expect("bytes");
        taken.pause = taken.pause.max(begin.elapsed());
        let snapshot = Snapshot { partition: partition(), fact, body };
        let begin = Instant::now();
        taken.bytes += store.save(&snapshot).expect("a disk").bytes;
        (taken.write, taken.captures) = (taken.write + begin.elapsed(), taken.captures + 1);
        taken.state_bytes = snapshot.body.state_bytes();
        let is_complete = snapshot.body.is_complete();
        memory.buffer = snapshot.body.into_buffer();
        taken.memory = taken.memory.max(memory.buffer.capacity());
        if is_complete {
            return taken;
        }
    }
}

/// Time to write and sync so many bytes.
fn write_plainly(path: &Path, bytes: u64) -> Duration {
    let chunk: Vec<u8> = (0..1u64 << 20).flat_map(u64::to_le_bytes).collect();
    let begin = Instant::now();
    let mut file = File::create(path).expect("a disk");
    let mut left = bytes as usize;
    while left > 0 {
        let now = left.min(chunk.len());
        file.write_all(&chunk[..now]).expect("room");
        left -= now;
    }
    file.sync_all().expect("a disk");
    let took = begin.elapsed();
    fs::remove_file(path).expect("a disk");
    took
}

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let most: u64 =
        std::env::var("KVSET_BENCH_PAGES").map_or(100_000_000, |pages| pages.parse().expect("pages"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut pool = Pool::new();
    println!(
        "{:>12} {:>7} {:>7} | {:>8} {:>8} {:>6} {:>7} {:>7} | {:>8} {:>6} {:>8} | {:>8} {:>6}",
        "pages",
        "memory",
        "disk",
        "captures",
        "write",
        "plain",
        "pause",
        "held",
        "new",
        "of it",
        "pause",
        "restore",
        "GB/s"
    );
    for goal in [most / 8, most / 4, most / 2, most] {
        while pool.stack.tracked_pages().0 < goal {
            pool.request();
        }
        let directory = folder.path().join(goal.to_string());
        let store = DirectoryStore::open(&directory, NonZeroUsize::MIN).expect("a directory of its own");
        let mut memory = CaptureMemory::default();
        let first = save(&pool, &store, &mut memory);
        let plain = write_plainly(&folder.path().join("plain"), first.bytes);
        (0..BETWEEN).for_each(|_| pool.request());
        let next = save(&pool, &store, &mut memory);
        let pages = pool.stack.tracked_pages().0;
        let in_memory = pool.stack.heap_bytes() as f64 / pages as f64;
        let bytes = next.state_bytes;
        let loaded = store.load(&partition(), NextOffset(pool.requests)).expect("sound");
        if goal == most {
            // Two of the largest need not fit.
            pool = Pool::new();
        }
        let begin = Instant::now();
        let restored: Stack = loaded.restore().expect("a stack");
        let restore = begin.elapsed();
        assert_eq!(restored.tracked_pages().0, pages);
        drop(restored);
        println!(
            "{pages:>12} {in_memory:>5.2} B {:>5.2} B | {:>8} {:>6.1} s {:>6.2} {:>5.0} ms {:>4.0} MB | {:>5.1} MB {:>5.1}% {:>5.0} ms | {:>6.1} s {:>6.2}",
            next.state_bytes as f64 / pages as f64,
            first.captures,
            first.write.as_secs_f64(),
            first.write.as_secs_f64() / plain.as_secs_f64(),
            first.pause.as_secs_f64() * 1e3,
            first.memory as f64 / 1e6,
            next.bytes as f64 / 1e6,
            100.0 * next.bytes as f64 / next.state_bytes as f64,
            next.pause.as_secs_f64() * 1e3,
            restore.as_secs_f64(),
            bytes as f64 / restore.as_secs_f64() / 1e9,
        );
        drop(store);
        fs::remove_dir_all(directory).expect("a disk");
    }
}
