//! `cargo bench --bench snapshot`: what a snapshot of ten million tracked pages costs, alongside the bare
//! work on the same bytes (a copy in memory, reading the file), in one run, as ratios.

mod traffic;

use kvset::core::request::outcome::Outcome;
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, MAX_TRACKED_PAGES, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use kvset::core::units::heap::HeapBytes;
use kvset::core::units::pages::PageIds;
use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::position::NextOffset;
use kvset::snapshot::capture::capture;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::stream::Verified;
use std::fs::File;
use std::path::Path;
use std::time::Instant;
use traffic::Agentic;

const PAGES: u64 = 10_000_000;
const ROUNDS: usize = 11;

/// A stack that agentic traffic has filled.
fn agentic_stack() -> Stack {
    let mut stack = Stack::new(StackConfig {
        order: Order::RootFirst,
        max_tracked_pages: PageCount(MAX_TRACKED_PAGES),
        chain_check: ChainCheck::Sampled,
        chain_policy: ChainPolicy::Report,
    });
    let mut outcome = Outcome::default();
    for request in Agentic::new(usize::MAX) {
        let access =
            Access { pages: PageIds::from_slice(&request), lookup_limit: request.len(), ..Access::default() };
        stack.access(&access, &mut outcome).expect("violations are only reported");
        if stack.tracked_pages().0 >= PAGES {
            break;
        }
    }
    stack
}

/// The work measured, each named, and what it is compared with.
struct Row<'a> {
    name: &'static str,
    beside: usize,
    work: Box<dyn FnMut() -> Box<dyn std::any::Any> + 'a>,
}

fn row<'a, T: 'static>(name: &'static str, beside: usize, mut work: impl FnMut() -> T + 'a) -> Row<'a> {
    Row { name, beside, work: Box::new(move || Box::new(work())) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs all rows in turns, so that a busy neighbour slows all of them, and prints the medians of the
/// times and of each turn's own ratios.
fn measure(rows: &mut [Row<'_>], bytes: f64) {
    let mut times = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for (row, times) in rows.iter_mut().zip(&mut times) {
            let started = Instant::now();
            let result = (row.work)();
            times.push(started.elapsed().as_secs_f64());
            drop(result);
        }
    }
    for (row, own) in rows.iter().zip(&times) {
        let time = median(own.clone());
        let ratios = own.iter().zip(&times[row.beside]).map(|(own, beside)| own / beside);
        let (ratio, beside) = (median(ratios.collect()), rows[row.beside].name);
        println!(
            "{:<36} {:>7.1} ms {:>6.2} GB/s {ratio:>6.2} x {beside}",
            row.name,
            time * 1e3,
            bytes / time / 1e9
        );
    }
}

fn snapshot(body: Vec<u8>) -> Snapshot {
    Snapshot {
        partition: PartitionId::new("requests", 0).expect("a legal name"),
        fact: SnapshotFact { next_offset: NextOffset(1), fingerprint: Fingerprint(1), last_record: None },
        body: body.into(),
    }
}

fn write(path: &Path, snapshot: &Snapshot) {
    use std::io::Write;
    let mut file = File::create(path).expect("a new file");
    let body = snapshot.body().expect("a whole state");
    file.write_all(&snapshot.header(&body).expect("a header")).expect("room");
    file.write_all(&body).expect("room");
    file.sync_all().expect("a disk");
}

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let stack = agentic_stack();
    let body = capture(&stack, Vec::new()).expect("bytes");
    let (bytes, pages) = (body.len() as f64, stack.tracked_pages().0 as f64);
    println!(
        "{pages} pages of {} live requests: {bytes} bytes, {:.2} a page ({:.2} in memory)",
        stack.live_requests(),
        bytes / pages,
        stack.heap_bytes() as f64 / pages,
    );

    let hint = body.len() + body.len() / 16;
    let mut buffer = Vec::with_capacity(hint);
    let snapshot = snapshot(body);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot");
    let verify = || Verified::alone(Box::new(File::open(&path).expect("the file"))).expect("sound");
    measure(
        &mut [
            row("copy in memory", 0, || snapshot.body.clone()),
            row("pause: capture into new memory", 0, || capture(&stack, Vec::with_capacity(hint))),
            row("pause: capture into used memory", 0, || {
                buffer = capture(&stack, std::mem::take(&mut buffer)).expect("bytes");
            }),
            row("write and fsync, in the background", 4, || write(&path, &snapshot)),
            row("read the file", 4, || std::fs::read(&path).expect("the file")),
            row("read and verify", 4, verify),
            row("read, verify and restore", 4, || verify().restore::<Stack>().expect("a stack")),
        ],
        bytes,
    );
}
