//! This process: what the system says of it, and what it was built and configured as.

use super::catalog as metric;
use metrics_process::collector;
use std::sync::OnceLock;

/// The group that the process works in, and its configuration's fingerprint.
static CONFIGURED: OnceLock<(String, String)> = OnceLock::new();

/// Says once which group the process works in, under which configuration.
pub fn set_configured(group: String, fingerprint: String) {
    CONFIGURED.get_or_init(|| (group, fingerprint));
}

/// Shows it, at every scrape: a gauge that is set once would be forgotten. What a system does
/// not tell is left out.
pub(super) fn show() {
    if let Some((group, fingerprint)) = CONFIGURED.get() {
        metric::BUILD_INFO.gauge(&[env!("CARGO_PKG_VERSION"), group, fingerprint]).set(1.0);
    }
    let found = collector::collect();
    if let Some(seconds) = found.cpu_seconds_total {
        metric::PROCESS_CPU.counter(&[]).absolute(seconds as u64);
    }
    for (gauge, value) in [
        (metric::PROCESS_RESIDENT, found.resident_memory_bytes.map(|bytes| bytes as f64)),
        (metric::PROCESS_VIRTUAL, found.virtual_memory_bytes.map(|bytes| bytes as f64)),
        (metric::PROCESS_OPEN_FILES, found.open_fds.map(|files| files as f64)),
        (metric::PROCESS_MAX_FILES, found.max_fds.map(|files| files as f64)),
        (metric::PROCESS_THREADS, found.threads.map(|threads| threads as f64)),
        (metric::PROCESS_START, found.start_time_seconds.map(|seconds| seconds as f64)),
    ] {
        value.into_iter().for_each(|value| gauge.gauge(&[]).set(value));
    }
}
