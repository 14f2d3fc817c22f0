//! `cargo bench --bench service`: the service, everything on, alongside a bare librdkafka consumer with the same
//! settings on the same topic of a real Kafka; two instances alongside one; JSON with one worker thread and with one
//! a core; then how long after a window's end its estimate can be read.
//!
//! They read by turns, several times; the share is that of the medians. The events say that their ids are chained, as
//! those of `kvset prepare` do. The service reads as it is by default, then taking no word for that, as it reads
//! events that do not say so, then with a snapshot every second, since a reading takes less than the 30 s between two,
//! then with that and the measured hits of four replicas, which the log is walked a second time for.
//! Where the machine has few cores, the broker takes a part of them from both, and the service's own work takes it
//! from the client's: processor time a GB says what each really costs.
//!
//! Without `KVSET_TEST_BROKERS` it starts a broker of its own with `scripts/kafka.sh`. Set
//! `KVSET_BENCH_RECORDS` (default 400000) for the records of a topic.

mod bare;
mod drained;
mod event;
mod fleet;
mod input;
mod json;
mod latency;
mod served;
#[path = "../traffic/mod.rs"]
mod traffic;
mod usage;

use drained::{Drained, medians};
use input::Filled;
use kvset::codec::RequestEncoding;
use kvset::kafka::config::Connection;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Longest wait for the broker.
const DEADLINE: Duration = Duration::from_secs(60);
/// Readings of each topic by each reader, after one that is not counted.
const ROUNDS: usize = 5;

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Ok(brokers) = std::env::var("KVSET_TEST_BROKERS") else { return with_a_broker() };
    let connection = Connection { brokers, properties: Vec::new() };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recorder = kvset::telemetry::recorder().expect("a recorder");
    metrics::set_global_recorder(recorder).expect("the first recorder");
    let records =
        std::env::var("KVSET_BENCH_RECORDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400_000);
    let name = format!("bench-{}", input::now_ms());
    for partitions in [1, 4] {
        let topic = format!("{name}-{partitions}");
        let filled = input::fill(&connection, &topic, partitions, records, RequestEncoding::Avro);
        compare(&connection, folder.path(), &filled);
        if partitions > 1 {
            fleet::compare(&connection, folder.path(), &filled);
        }
    }
    // A request is three times as long in JSON.
    json::compare(&connection, folder.path(), &format!("{name}-json"), records / 3);
    let delays = latency::measure(&connection, folder.path(), &format!("{name}-latency"));
    let quantile = |share: usize| delays[(delays.len() * share / 100).min(delays.len() - 1)];
    println!(
        "\nfrom a window's end to its estimate in the hands of a reader of committed records, {} windows:\n  \
         p50 {} ms, p99 {} ms, most {} ms",
        delays.len(),
        quantile(50),
        quantile(99),
        quantile(100)
    );
    ExitCode::SUCCESS
}

/// Runs this again under a broker.
fn with_a_broker() -> ExitCode {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kafka.sh");
    let program = std::env::current_exe().expect("this program has a path");
    let status = Command::new(script).args(["run", "--"]).arg(program).status().expect("the script runs");
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The readers: the baseline, the service as it is by default, where it reads every id, with a snapshot every
/// second, and with that and the measured hits of four replicas.
const READERS: [&str; 5] = [
    "bare consumer",
    "kvset run, all on",
    "... every id read",
    "... a snapshot a second",
    "... and measured hits",
];

/// Lets all readers read the topic by turns and prints what came of it.
fn compare(connection: &Connection, folder: &Path, filled: &Filled) {
    let mut readings: [Vec<Drained>; READERS.len()] = Default::default();
    let (mut last, mut snapshots) = (None, 0);
    for round in 0..=ROUNDS {
        let served = |extra: &str, mark: &str| {
            served::drain(connection, folder, &format!("{}-{round}{mark}", filled.topic), filled, extra)
        };
        let bare = bare::drain(connection, filled);
        let by_default = served("", "");
        let every_id_read = served(served::EVERY_ID_READ, "d");
        let eager = served(served::EVERY_SECOND, "s");
        let measured = served(served::MEASURED, "m");
        if round > 0 {
            let served = [&by_default, &every_id_read, &eager, &measured].map(|served| served.drained);
            for (readings, reading) in readings.iter_mut().zip([bare].into_iter().chain(served)) {
                readings.push(reading);
            }
        }
        snapshots += eager.snapshots;
        last = Some(by_default.summary);
    }
    let medians = readings.map(|readings| medians(&readings));
    let gigabytes = filled.bytes as f64 / 1e9;
    println!(
        "\n{} partition(s), {} records, {:.2} GB, {} page ids; medians of {ROUNDS} readings",
        filled.partitions, filled.records, gigabytes, filled.pages
    );
    println!(
        "  {:<24} {:>8} {:>11} {:>7} {:>14} {:>14}",
        "", "MB/s", "records/s", "share", "own CPU s/GB", "broker s/GB"
    );
    for (name, reading) in READERS.iter().zip(&medians) {
        let rate = 1.0 / reading.elapsed.as_secs_f64();
        let a_gigabyte = |time: Duration| format!("{:.2}", time.as_secs_f64() / gigabytes);
        println!(
            "  {name:<24} {:>8.0} {:>11.0} {:>7.2} {:>14} {:>14}",
            filled.bytes as f64 * rate / 1e6,
            filled.records as f64 * rate,
            medians[0].elapsed.as_secs_f64() * rate,
            a_gigabyte(reading.own),
            reading.broker.map_or_else(|| "unknown".to_owned(), a_gigabyte),
        );
    }
    if let Some(summary) = last {
        println!(
            "  a run: {} estimates in {} transactions; with a snapshot a second {snapshots} were safe on disk before \
             their readings ended",
            summary.results, summary.commits
        );
    }
}
