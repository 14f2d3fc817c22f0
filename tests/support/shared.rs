//! Traces and expected figures that lie outside the repository.

use serde::Deserialize;
use std::path::PathBuf;

/// One row of a Mooncake trace.
#[derive(Debug, Deserialize)]
pub struct TraceRow {
    pub input_length: u64,
    pub output_length: u64,
    pub hash_ids: Vec<u64>,
}

/// What an engine's own cache answered, request by request.
#[derive(Debug, Deserialize)]
pub struct Golden {
    pub page_size: u32,
    pub mode: String,
    pub requests: usize,
    pub results: Vec<GoldenCapacity>,
}

#[derive(Debug, Deserialize)]
pub struct GoldenCapacity {
    pub capacity_pages: u64,
    pub prefix_hits: u64,
    pub per_request_prefix_hits: Vec<u64>,
}

/// Set to 1 where the folder must be there: what would be skipped without it fails.
const REQUIRE_SHARED: &str = "KVSET_REQUIRE_SHARED";

/// Where a shared file is; `None`, saying so, where it is not there.
///
/// # Panics
///
/// Where the file is not there and `KVSET_REQUIRE_SHARED` is 1.
pub fn shared_path(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KVSET_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let found = Some(root.join(path)).filter(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var_os(REQUIRE_SHARED).is_some_and(|value| value == "1");
        assert!(!required, "{path} is not beside the repository, and {REQUIRE_SHARED}=1 demands it");
        println!("skipped: {path} is not beside the repository");
    }
    found
}

/// The text of a shared file; `None`, saying so, where it is not there.
pub fn read_shared(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(shared_path(path)?).expect("a readable file"))
}

/// The trace the golden files were made from.
pub fn mooncake_trace() -> Option<Vec<TraceRow>> {
    let text = read_shared("traces/mooncake_synthetic_trace.jsonl")?;
    Some(text.lines().map(|line| serde_json::from_str(line).expect("a trace row")).collect())
}

/// A golden file of per-request hits.
pub fn golden(name: &str) -> Option<Golden> {
    Some(serde_json::from_str(&read_shared(&format!("golden/{name}"))?).expect("a golden file"))
}
