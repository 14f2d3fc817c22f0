//! `cargo bench --bench worker`: what a service's worker spends on a gigabyte of records, without client and broker.
//!
//! One thread takes the records of `--bench service` from memory, with the service's own settings: as it is by default,
//! where it reads every id, and with the measured hits of four replicas. Figures are processor time of the thread. Name
//! a row to run that one alone, once, as one does under `valgrind --tool=callgrind`, which counts its instructions
//! whatever else the machine does. Set `KVSET_BENCH_RECORDS` (default 100000) for the records.

#[path = "service/event.rs"]
mod event;
mod traffic;

use kvset::codec::{RequestEncoding, SourceRecord};
use kvset::pipeline::resume::Resume;
use kvset::pipeline::task::PartitionTask;
use kvset::position::Partition;
use kvset::service::plan::task_config;
use kvset::settings::Settings;
use std::sync::Arc;
use std::time::{Duration, Instant};
use traffic::Agentic;

/// What is on, and the settings that say so.
const ROWS: [(&str, &str); 3] = [
    ("default", ""),
    ("every_id_read", "[estimate]\nchain_policy = \"reject\"\n"),
    ("measured", "[estimate]\nmeasured = true\n"),
];
/// Readings of each row, of which the median is printed.
const ROUNDS: usize = 5;
/// Records that a worker takes at a time.
const RUN: usize = 500;

fn task(settings: &str) -> PartitionTask {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("worker.toml");
    std::fs::write(&path, format!("[kafka]\nbrokers = \"localhost:9092\"\n{settings}"))
        .expect("a folder of our own");
    let settings = Settings::load(Some(&path)).expect("usable settings");
    PartitionTask::new(
        Arc::new(task_config(&settings).expect("usable settings")),
        Partition(0),
        &Resume::from_start(),
    )
}

fn thread_time(begin: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.as_deref().and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

/// Takes all records; how long it took, and how many outputs there were.
fn drain(values: &[Vec<u8>], settings: &str) -> (Duration, usize) {
    let (mut task, mut outputs, mut published) = (task(settings), Vec::new(), 0);
    let begun = Instant::now();
    let before = thread_time(begun);
    for (run, values) in values.chunks(RUN).enumerate() {
        let records = values.iter().enumerate().map(|(place, value)| SourceRecord {
            schema_header: None,
            topic: "requests",
            partition: 0,
            offset: (run * RUN + place) as i64,
            timestamp_ms: None,
            key: Some(b"pool-0"),
            value: Some(value),
        });
        task.process_records(records, &mut outputs).expect("accepted");
        published += outputs.drain(..).count();
    }
    (thread_time(begun) - before, published)
}

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let records =
        std::env::var("KVSET_BENCH_RECORDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let values: Vec<Vec<u8>> = (0..records)
        .zip(Agentic::new(event::LONGEST))
        .map(|(number, ids)| event::request(number * event::GAP_MS, &ids, RequestEncoding::Avro))
        .collect();
    let gigabytes = values.iter().map(Vec::len).sum::<usize>() as f64 / 1e9;
    let alone = std::env::args().nth(1).filter(|name| ROWS.iter().any(|row| row.0 == name));
    println!("{records} records, {gigabytes:.2} GB");
    for (name, settings) in ROWS.iter().filter(|row| alone.as_deref().is_none_or(|name| name == row.0)) {
        let rounds = if alone.is_some() { 1 } else { ROUNDS };
        let mut readings: Vec<_> = (0..rounds).map(|_| drain(&values, settings)).collect();
        readings.sort();
        let (time, published) = readings[rounds / 2];
        println!("{name:<14} {:>6.3} s/GB, {published} outputs", time.as_secs_f64() / gigabytes);
    }
}
