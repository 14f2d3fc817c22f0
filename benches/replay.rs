//! `cargo bench --bench replay`: a replay of the coding sessions (460 MB of JSON) alongside decompressing them and
//! parsing their JSON alone, in one run, on one thread and on one per core; and the peak of a replay's memory
//! alongside its state.
//!
//! Nothing is kept of what is parsed alone: serde_json checks every value and passes over it, or reads the
//! page ids into one buffer. `KVSET_SHARED` names the folder of shared traces.

use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::units::Offset;
use kvset::core::units::heap::HeapBytes;
use kvset::core::units::window::WindowKind;
use kvset::replay::{ReplayOptions, WarmUp, cores, replay};
use kvset::trace::{IdScope, ReadOptions, TraceItem};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Readings of each kind, by turns; the median counts.
const ROUNDS: usize = 9;
const MIB: f64 = 1024.0 * 1024.0;

/// What every reading of the ids needs of a session.
#[derive(Deserialize)]
struct Session {
    requests: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    hash_ids: Vec<u64>,
    #[serde(default)]
    requests: Vec<Entry>,
}

impl Entry {
    fn pages(&self) -> usize {
        self.hash_ids.len() + self.requests.iter().map(Self::pages).sum::<usize>()
    }
}

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let beside = || format!("{}/../shared", env!("CARGO_MANIFEST_DIR"));
    let folder = PathBuf::from(std::env::var("KVSET_SHARED").unwrap_or_else(|_| beside()));
    let trace = folder.join("traces/weka_claude_code_sessions.jsonl.zst");
    if !trace.exists() {
        println!("skipped: {} is not there; KVSET_SHARED names the folder of shared traces", trace.display());
        return;
    }
    let options = options(&trace);
    let alone = ReplayOptions { threads: 1, ..options.clone() };
    // First of all, while the process has no memory that it could use again; the larger peak last.
    let before = memory("VmRSS");
    let peaks = [&alone, &options].map(|options| {
        replayed(options);
        (options.threads, memory("VmHWM") - before)
    });
    let state = state_bytes(&options);
    for (threads, peak) in peaks {
        println!(
            "memory of a replay on {threads} threads: peak {:.1} MiB above the process's own, {:.1} MiB above its state of {:.1} MiB",
            peak / MIB,
            (peak - state) / MIB,
            state / MIB
        );
    }
    let (found, expected) = (told(&options), told(&alone));
    assert!(found == expected, "the results differ");
    compare(&trace, &options, &alone);
}

/// All that a replay gives and writes.
fn told(options: &ReplayOptions) -> (String, Vec<u8>) {
    let mut rows = Vec::new();
    let mut done = replay(options, Some(&mut rows), &mut |_| {}).expect("a whole trace");
    let merged = std::mem::take(&mut done.merged_requests);
    println!("{} threads: {merged} of {} requests taken in ranges", options.threads, done.requests);
    (format!("{done:?}"), rows)
}

fn options(trace: &Path) -> ReplayOptions {
    let windows = vec![WindowKind::All];
    ReplayOptions {
        traces: vec![trace.to_owned()],
        read: ReadOptions { id_scope: IdScope::Session, ..ReadOptions::default() },
        pool: PoolConfig { windows, publish_every_ms: 0, ..PoolConfig::default() },
        warm_up: WarmUp::Requests(0),
        pool_name: None,
        skip_bad_rows: false,
        extras: Default::default(),
        provisioned: None,
        threads: cores(),
    }
}

fn compare(trace: &Path, options: &ReplayOptions, alone: &ReplayOptions) {
    type Reading<'a> = (&'a str, &'a dyn Fn() -> usize);
    let ignored = || parse(trace, |line| usize::from(serde_json::from_slice::<IgnoredAny>(line).is_ok()));
    let typed = || {
        parse(trace, |line| {
            let session: Session = serde_json::from_slice(line).expect("a session");
            session.requests.iter().map(Entry::pages).sum()
        })
    };
    let readings: [Reading<'_>; 5] = [
        ("decompressing", &|| parse(trace, <[u8]>::len)),
        ("and passing over the JSON", &ignored),
        ("and reading the page ids", &typed),
        ("kvset replay", &|| replayed(options)),
        ("kvset replay on one thread", &|| replayed(alone)),
    ];
    let mut times = [const { Vec::new() }; 5];
    let mut processor = [0.0; 5];
    for _ in 0..ROUNDS {
        for (((_, read), times), processor) in readings.iter().zip(&mut times).zip(&mut processor) {
            let (begin, before) = (Instant::now(), processor_ticks());
            black_box(read());
            times.push(begin.elapsed());
            *processor += processor_ticks() - before;
        }
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    let medians = times.each_ref().map(|times| times[times.len() / 2].as_secs_f64());
    println!("\n{:<28} {:>8}  replay takes", "medians", "seconds");
    for ((name, _), median) in readings.iter().zip(medians) {
        println!("{name:<28} {median:>8.2}  {:.2} x that", medians[3] / median);
    }
    let fastest = times.each_ref().map(|times| times[0].as_secs_f64());
    println!(
        "{} threads have {:.2} x the speed of one by medians, {:.2} x by the fastest readings, and the same bytes, in {:.2} x its processor time",
        options.threads,
        medians[4] / medians[3],
        fastest[4] / fastest[3],
        processor[3] / processor[4]
    );
}

/// Processor time of this process, its threads and the kernel on their behalf, in clock ticks.
fn processor_ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // Behind the name, which is in brackets, the 12th and 13th field.
    let fields = stat.rsplit(')').next().expect("fields").split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum()
}

/// Decompresses the trace and gives each line to `each`; gives the sum of what comes back.
fn parse(trace: &Path, mut each: impl FnMut(&[u8]) -> usize) -> usize {
    let file = BufReader::new(File::open(trace).expect("a trace"));
    let mut lines = BufReader::with_capacity(1 << 18, zstd::Decoder::with_buffer(file).expect("zstd"));
    let (mut line, mut sum) = (Vec::new(), 0);
    while lines.read_until(b'\n', &mut line).expect("readable") > 0 {
        sum += each(&line);
        line.clear();
    }
    sum
}

fn replayed(options: &ReplayOptions) -> usize {
    let done = replay(options, None, &mut |_| {}).expect("a whole trace");
    usize::try_from(done.requests).expect("not so many")
}

/// Bytes of the state that a replay ends with.
fn state_bytes(options: &ReplayOptions) -> f64 {
    let mut pool = Pool::new("trace", 0, Arc::new(options.pool.clone())).expect("a usable configuration");
    let mut reader = kvset::trace::open(&options.traces, &options.read).expect("a trace");
    let mut offset = 0;
    while let Some(item) = reader.next_item().expect("a whole trace") {
        let TraceItem::Request(row) = item else { panic!("the trace has a bad row") };
        let arrival = Arrival { offset: Offset(offset), counted: true, watermark: None };
        pool.observe(&row.event, arrival).expect("a sound request");
        offset += 1;
    }
    pool.heap_bytes() as f64
}

/// A line of `/proc/self/status`, in bytes.
fn memory(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("in kB");
    kilobytes.parse::<f64>().expect("a number") * 1024.0
}
