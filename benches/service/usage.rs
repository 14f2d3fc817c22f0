//! Processor time, which other work on the machine does not lengthen as it does a run.

use std::path::PathBuf;
use std::time::Duration;

/// A kernel tick as `/proc` counts them, on every Linux this runs on.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of this process so far, all threads and the kernel's work for them.
pub fn own() -> Duration {
    of("self").expect("/proc/self/stat is readable")
}

/// The same of the broker that `scripts/kafka.sh` started; none where it runs elsewhere.
pub fn of_broker() -> Option<Duration> {
    let beside = || format!("{}/target/kafka", env!("CARGO_MANIFEST_DIR"));
    let folder = PathBuf::from(std::env::var("KVSET_KAFKA_DIR").unwrap_or_else(|_| beside()));
    of(std::fs::read_to_string(folder.join("broker.pid")).ok()?.trim())
}

fn of(process: &str) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name comes second, in brackets, and may hold anything; user and system time are the 14th and 15th.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u32 = fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?;
    Some(TICK * ticks)
}
