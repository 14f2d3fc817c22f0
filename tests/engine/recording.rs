//! One recorded file, and what `kvset replay` makes of its workload.

use crate::support::program::kvset;
use assert_cmd::Command;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// One recorded file; `tests/fixtures/engines/README.md` describes the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    pub format: u32,
    pub engine: String,
    pub version: String,
    pub workload: String,
    /// Options that make the trace, or the file that keeps it where it is of tokens.
    pub generate: Option<Vec<String>>,
    pub trace: Option<String>,
    pub page_size: u32,
    pub settings: Settings,
    pub requests: usize,
    pub results: Vec<Answers>,
}

/// What the engine was told; engines use those they know.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub outputs: String,
    pub chunk_tokens: Option<u32>,
    pub groups: Option<Vec<String>>,
    #[serde(default)]
    pub retention: Option<u32>,
    pub prefill_chunk_tokens: Option<u32>,
    /// SGLang's pool of windows.
    pub swa_full_tokens_ratio: Option<f64>,
    /// SGLang's pool of states, and how large one of them is.
    pub mamba_full_memory_ratio: Option<f64>,
    pub state_tokens: Option<u32>,
    /// LMCache as a process of its own, with the shares of its loop.
    #[serde(default)]
    pub process: bool,
    pub watermark: Option<f64>,
    pub eviction_ratio: Option<f64>,
    /// Mooncake's lease.
    pub lease_ms: Option<u64>,
    /// Requests of so many milliseconds come at once.
    pub burst_ms: Option<u64>,
    /// Requests overlap: a step of the engine takes so long, and computes one token of each of them.
    pub step_ms: Option<u64>,
    /// The tier below the engine, and its capacity.
    pub below: Option<String>,
    pub below_pages: Option<u64>,
    /// vLLM's own tier in host memory.
    pub policy: Option<String>,
    pub store_threshold: Option<u32>,
    pub blocks_per_chunk: Option<u32>,
    /// What lies behind that tier.
    /// Tokens that a head drafts at a time in the same cache.
    pub draft_tokens: Option<u32>,
    /// The groups that its layers lie in, where they are not all of attention.
    pub draft_layers: Option<String>,
    /// SGLang's HiCache: when it writes to the host.
    pub write: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    pub capacity_pages: u64,
    pub hit_pages: u64,
    pub per_request_hit_pages: Vec<u64>,
    /// What the tier below had and the engine had not.
    pub below_hit_pages: Option<u64>,
    pub per_request_below_hit_pages: Option<Vec<u64>>,
    /// Steps of the engine from a request's coming to its end, those that it waited among them.
    pub per_request_steps: Option<Vec<u64>>,
    /// Pages of the host tier, where there is one, and what was loaded back from it.
    pub host_pages: Option<u64>,
    pub host_hit_pages: Option<u64>,
    pub per_request_host_hit_pages: Option<Vec<u64>>,
}

/// What a model answers: hits of each request, a list per capacity; those of the tier below likewise.
pub struct Modelled {
    pub hits: Vec<Vec<u64>>,
    pub below: Vec<Vec<u64>>,
}

impl Recorded {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a readable fixture");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn is_hybrid(&self) -> bool {
        self.settings.groups.is_some()
    }

    pub fn is_plain(&self) -> bool {
        !self.is_hybrid() && !self.has_host() && self.settings.step_ms.is_none()
    }

    fn has_window_pool(&self) -> bool {
        self.settings.swa_full_tokens_ratio.is_some()
    }

    fn has_state_pool(&self) -> bool {
        self.settings.state_tokens.is_some()
    }

    pub fn has_host(&self) -> bool {
        self.settings.write.is_some()
    }

    /// The tier below, as `--below` names it.
    fn below(&self) -> Option<String> {
        let (store, pages) = (self.settings.below.as_ref()?, self.settings.below_pages?);
        let options = [
            self.settings.policy.as_ref().map(|policy| format!("policy={policy}")),
            self.settings.store_threshold.map(|threshold| format!("store_threshold={threshold}")),
            self.settings.blocks_per_chunk.map(|blocks| format!("blocks_per_chunk={blocks}")),
        ];
        let options: Vec<String> = options.into_iter().flatten().collect();
        let colon = if options.is_empty() { "" } else { ":" };
        Some(format!("{store}:{pages}p{colon}{}", options.join(",")))
    }

    /// What `kvset replay` finds for each request on the device and on the host, with the host of one result.
    pub fn replay_with_host(&self, trace: &Path, rows: &Path, result: &Answers) -> Vec<(u64, u64)> {
        let host = format!("hicache:{}p", result.host_pages.expect("a host"));
        let policy = self.settings.write.as_deref().unwrap_or_default().replace('_', "-");
        let (device, page_size) = (format!("{}p", result.capacity_pages), self.page_size.to_string());
        let mut command = kvset(&["replay", "--engine", "sglang", "--outputs", &self.settings.outputs]);
        match self.is_hybrid() {
            true => self.add_pools(&mut command),
            false => {
                _ = command.args(["--overlap", if self.settings.step_ms.is_some() { "on" } else { "off" }])
            }
        }
        command
            .args(["--page-size", &page_size, "--capacities", &device, "--below", &host])
            .args(["--hicache-write", &policy, "--per-request"])
            .arg(rows)
            .arg(trace)
            .assert()
            .success();
        let text = std::fs::read_to_string(rows).expect("the rows");
        let both = |line: &str| {
            let row: Value = serde_json::from_str(line).expect("a row of JSON");
            let hits = |column: &Value| column.as_u64().expect("within the bound");
            (hits(&row["prefix_hits"][0]), hits(&row["below_hits"][0][0]))
        };
        text.lines().map(both).collect()
    }

    /// Says what the engine was told of its pools.
    fn add_pools(&self, command: &mut Command) {
        let shares = [
            ("--swa-full-tokens-ratio", self.settings.swa_full_tokens_ratio),
            ("--mamba-full-memory-ratio", self.settings.mamba_full_memory_ratio),
        ];
        for (option, share) in shares.into_iter().filter_map(|(option, share)| Some((option, share?))) {
            command.args([option, &share.to_string()]);
        }
        if let Some(tokens) = self.settings.state_tokens {
            command.args(["--state-tokens", &tokens.to_string()]);
        }
        if let Some(groups) = &self.settings.groups {
            command.args(["--attention", &groups.join("+")]);
        }
        // Others do not ask in which steps a prompt was computed.
        let reads_chunk = self.is_hybrid() || self.settings.policy.is_some();
        if let Some(chunk) = self.settings.prefill_chunk_tokens.filter(|_| reads_chunk) {
            command.args(["--prefill-chunk", &chunk.to_string()]);
        }
    }

    /// Writes the workload's trace below `folder`.
    pub fn generate(&self, folder: &Path) -> PathBuf {
        let trace = folder.join("trace.jsonl");
        match (&self.generate, &self.trace) {
            (Some(options), None) => {
                kvset(&["generate"]).args(options).arg("--output").arg(&trace).assert().success();
            }
            (None, Some(kept)) => unpack(kept, &trace),
            both => panic!("a trace is made, or it is kept: {both:?}"),
        }
        if let Some(burst) = self.settings.burst_ms {
            let text = std::fs::read_to_string(&trace).expect("the trace");
            let rows: String = text.lines().map(|line| at_once(line, burst)).collect();
            std::fs::write(&trace, rows).expect("a writable folder");
        }
        if let Some(step) = self.settings.step_ms {
            let text = std::fs::read_to_string(&trace).expect("the trace");
            // What a store is below generates all the same.
            let is_store = ["lmcache", "lmcache-mp", "mooncake"].contains(&self.engine.as_str());
            let generates = self.settings.outputs == "cached" || is_store;
            let rows: String = text.lines().map(|line| in_steps(line, step, generates)).collect();
            std::fs::write(&trace, rows).expect("a writable folder");
        }
        trace
    }

    /// What `kvset replay` finds for each request of one result, whose log says how long each took there.
    pub fn replay_lasting(&self, result: &Answers) -> Vec<u64> {
        let folder = tempfile::tempdir().expect("a folder");
        let (trace, rows) = (self.generate(folder.path()), folder.path().join("rows.jsonl"));
        let (steps, step) =
            (result.per_request_steps.as_ref().expect("steps"), self.settings.step_ms.expect("a step"));
        let text = std::fs::read_to_string(&trace).expect("the trace");
        let page_size = u64::from(self.page_size);
        let lasting = |((line, steps), found): ((&str, &u64), &u64)| {
            let mut row: Value = serde_json::from_str(line).expect("a row of JSON");
            row["duration_ms"] = (steps * step - 1).into();
            row["cached_tokens"] = (found * page_size).into();
            format!("{row}\n")
        };
        std::fs::write(
            &trace,
            text.lines().zip(steps).zip(&result.per_request_hit_pages).map(lasting).collect::<String>(),
        )
        .expect("a writable folder");
        let capacity = format!("{}p", result.capacity_pages);
        kvset(&["replay", "--engine", &self.engine, "--outputs", &self.settings.outputs, "--overlap", "on"])
            .args(["--page-size", &self.page_size.to_string(), "--capacities", &capacity, "--per-request"])
            .arg(&rows)
            .arg(&trace)
            .assert()
            .success();
        let text = std::fs::read_to_string(&rows).expect("the rows");
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a row"));
        rows.map(|row| row["prefix_hits"][0].as_u64().expect("hits")).collect()
    }

    /// What `kvset replay` finds for each request.
    pub fn replay(&self) -> Modelled {
        let folder = tempfile::tempdir().expect("a folder");
        let (trace, rows) = (self.generate(folder.path()), folder.path().join("rows.jsonl"));
        let pages: Vec<_> = self.results.iter().map(|result| format!("{}p", result.capacity_pages)).collect();
        let page_size = self.page_size.to_string();
        let mut command = kvset(&["replay", "--engine", &self.engine, "--outputs", &self.settings.outputs]);
        let has_own_pools = self.has_window_pool() || self.has_state_pool();
        if self.engine != "paper" && !has_own_pools && self.settings.step_ms.is_none() {
            // Its classes were driven with one request after another.
            command.args(["--overlap", "off"]);
        }
        if let Some(chunk) = self.settings.chunk_tokens {
            command.args(["--chunk-tokens", &chunk.to_string()]);
        }
        let shares =
            [("--watermark", self.settings.watermark), ("--eviction-ratio", self.settings.eviction_ratio)];
        for (option, share) in shares.into_iter().filter_map(|(option, share)| Some((option, share?))) {
            command.args([option, &share.to_string()]);
        }
        if let Some(lease) = self.settings.lease_ms {
            command.args(["--lease", &format!("{lease}ms")]);
        }
        if let Some(tier) = self.below() {
            command.args(["--below", &tier]);
        }
        let has_groups = self.settings.groups.as_ref().is_some_and(|groups| groups.len() > 1);
        if has_groups && self.engine == "vllm" {
            let retention = self.settings.retention.map_or("none".to_owned(), |tokens| tokens.to_string());
            command.args(["--retention-interval", &retention]);
        }
        self.add_pools(&mut command);
        if let Some(drafted) = self.settings.draft_tokens {
            command.arg(format!("--draft-head={drafted}"));
        }
        if let Some(layers) = &self.settings.draft_layers {
            command.args(["--draft-layers", layers]);
        }
        command.args(["--page-size", &page_size, "--capacities", &pages.join(","), "--per-request"]);
        command.arg(&rows).arg(&trace).assert().success();
        let text = std::fs::read_to_string(&rows).expect("the rows");
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
        let column = |hits: &dyn Fn(&Value, usize) -> Option<u64>| {
            let of_capacity = |at| rows.iter().map(|row| hits(row, at).expect("hits")).collect();
            (0..self.results.len()).map(of_capacity).collect()
        };
        let below = match self.settings.below {
            Some(_) => column(&|row, at| row["below_hits"][at][0].as_u64()),
            None => Vec::new(),
        };
        Modelled { hits: column(&|row, at| row["prefix_hits"][at].as_u64()), below }
    }
}

/// Writes a trace that is kept, as it was.
fn unpack(name: &str, to: &Path) {
    let path = fixtures().join("traces").join(name);
    let kept = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let to = std::fs::File::create(to).expect("a writable folder");
    zstd::stream::copy_decode(kept, to).expect("zstd");
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/engines")
}

/// A row of a trace at the beginning of its burst.
fn at_once(line: &str, burst_ms: u64) -> String {
    let mut row: Value = serde_json::from_str(line).expect("a row of JSON");
    let time = row["timestamp"].as_u64().expect("a time");
    row["timestamp"] = (time / burst_ms * burst_ms).into();
    format!("{row}\n")
}

/// A row of a trace whose request is looked up in the first step that begins at its time or later, and over just
/// before the one behind its last token's.
fn in_steps(line: &str, step_ms: u64, generates: bool) -> String {
    let mut row: Value = serde_json::from_str(line).expect("a row of JSON");
    let time = row["timestamp"].as_u64().expect("a time");
    row["timestamp"] = time.next_multiple_of(step_ms).into();
    let listed = row["output_ids"].as_array().map(|ids| ids.len() as u64);
    let tokens = row["output_length"].as_u64().or(listed).filter(|_| generates).unwrap_or(1);
    row["duration_ms"] = (tokens.max(1) * step_ms - 1).into();
    format!("{row}\n")
}

/// Every recorded file that is named so, with its name.
pub fn recorded(prefix: &str) -> Vec<(String, Recorded)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(fixtures()).expect("the fixtures") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(prefix) && name.ends_with(".json") {
            found.push((name, Recorded::read(&path)));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}
