//! `kvset tune`: one setting is planted wrong in a configuration that is right otherwise, and the change of it comes
//! first.

use crate::support::program::kvset;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Tokens per page.
const PAGE: u32 = 16;

fn tune(trace: &Path, args: &[&str]) -> Value {
    let run = kvset(&["tune", "--json"]).args(args).arg(trace).assert().success().get_output().clone();
    serde_json::from_slice(&run.stdout).expect("JSON")
}

fn generated(directory: &Path, requests: &str) -> PathBuf {
    let trace = directory.join("trace.jsonl");
    kvset(&["generate", "--requests", requests, "--output"]).arg(&trace).assert().success();
    trace
}

/// A log of prompts of these tokens, one a second.
fn log(directory: &Path, prompts: impl IntoIterator<Item = Vec<u32>>) -> PathBuf {
    let mut lines = String::new();
    for (at, prompt) in prompts.into_iter().enumerate() {
        let row = json!({ "token_ids": prompt, "timestamp": at * 1000, "session_id": at.to_string() });
        writeln!(lines, "{row}").expect("a string");
    }
    let trace = directory.join("tokens.jsonl");
    std::fs::write(&trace, lines).expect("a trace");
    trace
}

/// Tokens of a text of its own.
fn text(number: u32, tokens: Range<u32>) -> impl Iterator<Item = u32> {
    tokens.map(move |token| number * 10_000 + token)
}

/// The first change, which must be better than what there is and need no more memory.
fn first(result: &Value) -> &str {
    let first = &result["changes"][0];
    assert!(first["points"].as_f64() > Some(0.0) && first["costs_memory"] == false, "{result:#}");
    first["change"].as_str().expect("a name")
}

#[test]
fn a_draft_head_that_costs_a_page_per_hit_is_found_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "600");
    let result = tune(&trace, &["--engine", "vllm", "--draft-head", "--provisioned", "1000000p"]);
    assert_eq!(first(&result), "no --draft-head", "{result:#}");
}

#[test]
fn a_pool_of_windows_that_is_too_small_is_found_first_of_what_needs_no_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    let generate = ["generate", "--requests", "600", "--page-size", "16", "--output"];
    kvset(&generate).arg(&trace).assert().success();
    let windows = ["--engine", "sglang", "--attention", "full+window:128", "--swa-full-tokens-ratio", "0.02"];
    let result = tune(&trace, &[&windows[..], &["--provisioned", "20000p"]].concat());
    let mut changes = result["changes"].as_array().expect("changes").iter();
    let first = changes.find(|change| change["costs_memory"] == false).expect("a change");
    assert_eq!(first["change"], "--swa-full-tokens-ratio 0.1", "{result:#}");
    assert!(first["points"].as_f64() > Some(40.0), "{first}");
}

#[test]
fn a_retention_interval_that_keeps_ends_alone_is_found_first_where_prompts_branch_off() {
    let directory = tempfile::tempdir().expect("a directory");
    // Questions to six documents, each behind another part of one.
    let prompt = |number: u32| {
        text(number % 6, 0..500 + number * 631 % 3500).chain(text(100 + number, 0..200)).collect()
    };
    let trace = log(directory.path(), (0..240).map(prompt));
    let args = [
        "--engine",
        "vllm",
        "--page-size",
        "16",
        "--attention",
        "full+window:128",
        "--provisioned",
        "1000000p",
    ];
    let result = tune(&trace, &[&args[..], &["--retention-interval", "0"]].concat());
    assert_eq!(first(&result), "--retention-interval none", "{result:#}");
}

#[test]
fn a_prefill_chunk_that_leaves_no_states_inside_prompts_is_found_first() {
    let directory = tempfile::tempdir().expect("a directory");
    // Each document is asked about twice: no state lies at its end but one that a step left there.
    let prompt = |number: u32| text(number / 2, 0..8192).chain(text(100 + number, 0..300)).collect();
    let trace = log(directory.path(), (0..80).map(prompt));
    let args =
        ["--engine", "vllm", "--page-size", "16", "--attention", "full+3*mamba", "--provisioned", "1000000p"];
    let planted = ["--retention-interval", "none", "--prefill-chunk", "32768"];
    let result = tune(&trace, &[&args[..], &planted].concat());
    assert!(first(&result).starts_with("--prefill-chunk "), "{result:#}");
}

#[test]
fn a_store_threshold_that_stores_too_late_or_all_that_passes_is_found_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "600");
    let args = ["--engine", "vllm", "--overlap", "off", "--provisioned", "700p", "--below"];
    let result = tune(&trace, &[&args[..], &["vllm-offload:100000p:store_threshold=3"]].concat());
    assert_eq!(first(&result), "vllm-offload store_threshold=0", "{result:#}");
    // Eight prompts come back behind long ones that never do.
    let prompt = |number: u32| match number % 2 {
        0 => text(number / 2 % 8, 0..20 * PAGE).collect(),
        _ => text(100 + number, 0..100 * PAGE).collect(),
    };
    let trace = log(directory.path(), (0..400).map(prompt));
    let args =
        ["--engine", "vllm", "--page-size", "16", "--overlap", "off", "--provisioned", "110p", "--below"];
    let result = tune(&trace, &[&args[..], &["vllm-offload:300p"]].concat());
    assert_eq!(first(&result), "vllm-offload store_threshold=2", "{result:#}");
}

#[test]
fn a_policy_that_forgets_what_comes_back_is_found_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut prompts, mut others): (Vec<Vec<u32>>, u32) = (Vec::new(), 100);
    let mut other = |pages: u32| {
        others += 1;
        text(others, 0..pages * PAGE).collect()
    };
    for round in 0..25 {
        // Four prompts come twice in a row, and again rounds later: frequent, and not recent.
        for hot in (0..4).filter(|hot| round == 0 || (round * round + 2 * hot * round + hot) % 5 < 3) {
            let prompt = || text(hot, 0..20 * PAGE).collect();
            prompts.extend([prompt(), other(100), prompt()]);
        }
        prompts.extend((0..8).map(|_| other(20)));
    }
    let trace = log(directory.path(), prompts);
    let args = ["--engine", "vllm", "--page-size", "16", "--overlap", "off", "--provisioned", "101p"];
    let result = tune(&trace, &[&args[..], &["--below", "vllm-offload:600p:policy=lru"]].concat());
    assert_eq!(first(&result), "vllm-offload policy=arc", "{result:#}");
}

#[test]
fn replicas_find_and_cost_what_replays_of_their_number_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "900");
    let costs = [
        "--kv-bytes-per-token",
        "100000",
        "--prefill-rate",
        "8000@0,2000@20000",
        "--gpu-price",
        "2.5",
        "--gib-price",
        "0.01",
    ];
    for router in ["round-robin", "hash", "prefix"] {
        let named = format!("{router}:3");
        let result = tune(&trace, &[&costs[..], &["--router", &named, "--provisioned", "6000p"]].concat());
        let rows = result["replicas"].as_array().expect("rows");
        assert_eq!(rows.len(), 3);
        for (row, replicas) in rows.iter().zip([2_u64, 3, 4]) {
            let pages = replicas * 2000;
            let (named, size) = (format!("{router}:{replicas}"), format!("{pages}p"));
            let args = ["replay", "--json", "--router", &named, "--capacities", &size];
            let run = kvset(&args).args(costs).arg(&trace).assert().success().get_output().clone();
            let replayed: Value = serde_json::from_slice(&run.stdout).expect("JSON");
            assert_eq!(
                (row["replicas"].as_u64(), row["capacity_pages"].as_u64()),
                (Some(replicas), Some(pages))
            );
            assert_eq!(row["hit_pages"], replayed["routing"][0]["capacities"][0]["prefix_hits"], "{named}");
            let worth = &replayed["routed_worth"][0];
            assert_eq!(worth["router"], named);
            for field in ["accelerator_hours", "accelerator_hours_a_day", "money_a_day", "memory_a_day"] {
                assert!(
                    row[field].is_number() && row[field] == worth["capacities"][0][field],
                    "{field}: {row} {worth}"
                );
            }
        }
        assert_eq!(rows[1]["hit_pages"], result["base"]["hit_pages"]);
        assert_eq!(rows[1]["money_a_day"], result["base"]["money_a_day"]);
    }
    let alone = tune(&trace, &["--router", "round-robin:1", "--provisioned", "500p"]);
    let rows = alone["replicas"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| row["replicas"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert!(rows[0].get("accelerator_hours").is_none(), "nothing in hours without a rate");
    assert!(tune(&trace, &["--provisioned", "500p"]).get("replicas").is_none());
}

/// One replica is one cache, so what is computed behind a router equals what is computed without one; at a rate that
/// hangs on the context, other positions would cost other times.
#[test]
fn one_replica_costs_what_one_cache_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "500");
    let args = [
        "replay",
        "--json",
        "--engine",
        "leaf-first",
        "--capacities",
        "300p,3000p",
        "--prefill-rate",
        "8000@0,2000@20000",
    ];
    for router in ["round-robin:1", "prefix:1", "precise-prefix:1:at=3000p"] {
        let run = kvset(&args)
            .args(["--overlap", "off", "--router", router])
            .arg(&trace)
            .assert()
            .success()
            .get_output()
            .clone();
        let result: Value = serde_json::from_slice(&run.stdout).expect("JSON");
        let (own, routed) = (&result["worth"]["capacities"], &result["routed_worth"][0]["capacities"]);
        assert_eq!(routed[routed.as_array().map_or(0, Vec::len) - 1], own[1], "{router}");
        assert_eq!(result["worth"]["without_cache"], result["routed_worth"][0]["without_cache"]);
    }
}
