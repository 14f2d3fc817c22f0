//! Requests that overlapped on a live vLLM server, against the model: request by request. The files are Mooncake rows
//! or request events with what the server said it had cached; their names say which blocks the server had, and whose
//! times they are: the scheduler's own (`engine`, `connector`), or a client's. `KVSET_LIVE_RUNS` names a folder of
//! further recordings.

use crate::support::program::kvset;
use crate::support::shared::shared_path;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Tokens per block of the server.
const BLOCK: u64 = 32;

/// A row, as far as it is read here.
#[derive(Deserialize)]
struct Row {
    cached_tokens: u64,
}

/// Recorded runs in a folder.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|name| name == "zst")).collect();
    all.sort();
    assert!(!all.is_empty(), "{} has recordings", folder.display());
    all
}

/// The blocks that the server could use: the last number in the name that stands alone.
fn blocks(name: &str) -> u64 {
    let last = name.rsplit(['_', '-']).find_map(|part| part.parse().ok());
    last.unwrap_or_else(|| panic!("{name} says how many blocks the server had"))
}

/// The lines of a recording.
fn text_of(path: &Path) -> String {
    let file = std::fs::File::open(path).expect("a readable recording");
    let mut text = String::new();
    zstd::Decoder::new(file).and_then(|mut zst| zst.read_to_string(&mut text)).expect("zstd");
    text
}

/// What the server found of each request, in blocks.
fn answers(path: &Path) -> Vec<u64> {
    let row = |line: &str| serde_json::from_str::<Row>(line).expect("a row").cached_tokens / BLOCK;
    text_of(path).lines().map(row).collect()
}

/// What the model finds of each request, and the result as a whole.
fn modelled(path: &Path, blocks: u64, overlap: &str) -> (Vec<u64>, Value) {
    let rows = tempfile::NamedTempFile::new().expect("a file");
    let capacity = format!("{blocks}p");
    let output = kvset(&["replay", "--json", "--engine", "vllm", "--page-size", "32", "--min-requests", "1"])
        .args(["--capacities", &capacity, "--provisioned", &capacity, "--measured", "--overlap", overlap])
        .arg("--per-request")
        .arg(rows.path())
        .arg(path)
        .output()
        .expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(rows.path()).expect("rows");
    let hits = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("JSON");
        row["prefix_hits"][0].as_u64().expect("hits")
    };
    (lines.lines().map(hits).collect(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Requests that may differ. Times of the engine's own scheduler leave nothing to chance; times of a client are those
/// of a look-up some milliseconds later; and what was preempted held nothing meanwhile, which no log says.
fn most_different(name: &str) -> usize {
    match name {
        name if name.contains("_preempted-") => 7,
        name if name.ends_with("_client") => 4,
        _ => 1,
    }
}

/// Of a thousand requests, those that may differ of servers whose blocks were all in use with more in flight than
/// they hold: which request was preempted when, and the length of each step, no log says.
fn share_that_may_differ(name: &str) -> usize {
    if name.starts_with("vllm032_") { 20 } else { 0 }
}

/// Compares a recording with the model.
fn compare(path: &Path) {
    let name = path.file_name().expect("a name").to_string_lossy();
    let name = name.trim_end_matches(".jsonl.zst");
    let (blocks, most_different) = (blocks(name), most_different(name));
    let most_different = most_different.max(answers(path).len() * share_that_may_differ(name) / 1000);
    let (answers, (found, result)) = (answers(path), modelled(path, blocks, "on"));
    assert_eq!(found.len(), answers.len(), "{name}");
    let different = found.iter().zip(&answers).filter(|(found, answer)| found != answer).count();
    let [total, expected] = [&found, &answers].map(|hits| hits.iter().sum::<u64>() as f64);
    let (off, in_flight) = (total / expected - 1.0, &result["in_flight"]);
    let effective = &result["measured"]["effective_capacity"];
    let (serial, _) = modelled(path, blocks, "off");
    let serial = serial.iter().sum::<u64>() as f64 / expected - 1.0;
    println!(
        "{name}: {different} of {} requests differ, hits {off:+.2e} (one after another {serial:+.2e}), in flight \
         {in_flight}, behaves like {effective}",
        answers.len()
    );
    let most_off = if share_that_may_differ(name) > 0 { 0.006 } else { 0.001 };
    assert!(different <= most_different && off.abs() <= most_off, "{name}: {different} differ, {off}");
    let end = |key: &str| effective[key].as_f64().expect("a capacity") / blocks as f64;
    assert!(end("pages_from") <= 1.01 && end("pages_to") >= 0.99, "{name}: {effective}");
    let least = if share_that_may_differ(name) > 0 { 0.97 } else { 0.99 };
    assert!(effective["agreement"].as_f64() >= Some(least), "{name}: {effective}");
    assert_eq!(in_flight["modelled"], true);
    let recommended = result["answer"]["pages"].as_u64();
    assert!(
        recommended >= in_flight["p99_pages"].as_u64(),
        "room for what is in flight: {}",
        result["answer"]
    );
    let wanted = |most: &Value| most.as_u64().is_some_and(|most| most > blocks);
    let short = result["without_room"].as_array().is_some_and(|list| !list.is_empty());
    assert!(short || !wanted(&in_flight["max_pages"]), "{name}: {}", result["without_room"]);
    let verdict = result["measured"]["verdict"].as_str();
    assert!(
        matches!(verdict, Some("capacity" | "in_flight" | "healthy" | "workload")),
        "{name}: {verdict:?}"
    );
    // The connector gives the pages of every answer that fills one; Mooncake rows have none of answers.
    let is_of_connector = name.ends_with("_connector") || name.starts_with("vllm032_");
    assert_eq!(result["trace"]["output_reuse_unseen"], !is_of_connector, "{name}");
}

/// The result of a log of a server with 600 blocks, which `--provisioned` says.
fn of_600_blocks(log: &str) -> Value {
    let output =
        kvset(&["replay", "--json", "--engine", "vllm", "--min-requests", "1", "--provisioned", "600p", "-"])
            .write_stdin(log)
            .output()
            .expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Each half by itself shows a cache of 244 blocks or more. What the second half misses of the first shows a restart,
/// and no smaller cache.
#[test]
fn a_server_that_was_emptied_half_way_behaves_like_its_blocks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/engines/restarted");
    let log = text_of(&folder.join("vllm-0.32.0_600_connector.jsonl.zst"));
    let lines: Vec<&str> = log.lines().collect();
    let (before, after) = lines.split_at(lines.len() / 2);
    for (log, from, restarts) in [(before, 244, 0), (after, 244, 0), (&lines[..], 245, 1)] {
        let result = of_600_blocks(&log.join("\n"));
        let (measured, effective) = (&result["measured"], &result["measured"]["effective_capacity"]);
        assert_eq!(effective["pages_from"], from, "{effective}");
        assert!(effective["pages_to"].is_null(), "600 blocks are among them: {effective}");
        assert_eq!(measured["restarts"].as_array().map(Vec::len), Some(restarts), "{measured}");
        assert_eq!(result["trace"]["output_reuse_unseen"], false, "no answer fills a page");
        if restarts == 1 {
            assert_eq!(
                (&measured["restarts"][0]["request"], &measured["restarts"][0]["misses"]),
                (&json!(400), &json!(60))
            );
        }
    }
}

#[test]
fn overlapping_requests_hit_as_on_a_live_vllm_server() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/engines/live");
    recordings(&folder).iter().for_each(|path| compare(path));
}

/// Servers with fewer blocks than what is in flight: 30 of 967 and 17 of 911 requests differed while held pages were
/// taken to need room for all that is in flight, and tokens to come evenly over the duration of each request.
#[test]
fn requests_that_waited_or_were_preempted_hit_as_on_a_live_vllm_server() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden/live2");
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return;
    }
    let of_load = |path: &&PathBuf| path.to_string_lossy().contains("_preempted");
    let recordings = recordings(&folder);
    let of_load: Vec<_> = recordings.iter().filter(of_load).collect();
    assert!(!of_load.is_empty(), "{} has servers that preempted requests", folder.display());
    of_load.into_iter().for_each(|path| compare(path));
}

/// A fixed-length benchmark: prompts of four whole blocks that come back, whose last block is computed again.
#[test]
fn repeated_prompts_of_whole_blocks_hit_as_on_a_live_vllm_server() {
    let log = shared_path("golden/live2/vllm032_block32_500_fixed128_repeats.jsonl.zst");
    let Some(path) = log else { return };
    let (answers, (found, result)) = (answers(&path), modelled(&path, 500, "on"));
    let different = found.iter().zip(&answers).filter(|(found, answer)| found != answer).count();
    let effective = &result["measured"]["effective_capacity"];
    println!("{different} of {} requests differ, behaves like {effective}", answers.len());
    assert!(found.len() == answers.len() && different * 50 <= answers.len(), "{different} differ");
    let [total, expected] = [&found, &answers].map(|hits| hits.iter().sum::<u64>() as f64);
    assert!((total / expected - 1.0).abs() <= 0.006, "{total} of {expected}");
    let end = |key: &str| effective[key].as_f64().expect("a capacity") / 500.0;
    assert!(end("pages_from") <= 1.01 && end("pages_to") >= 0.99, "{effective}");
    assert!(effective["agreement"].as_f64() >= Some(0.98), "{effective}");
}

#[test]
fn further_recordings_of_live_servers_agree_too() {
    let Some(folder) = std::env::var_os("KVSET_LIVE_RUNS") else {
        println!("skipped: KVSET_LIVE_RUNS names no folder of recordings");
        return;
    };
    recordings(Path::new(&folder)).iter().for_each(|path| compare(path));
}
