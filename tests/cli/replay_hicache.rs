//! `kvset replay --engine sglang --below hicache:SIZE`: SGLang's own host tier, and tiers below it.

use crate::support::program::kvset;
use crate::support::slow_hicache::SlowHicache;
use crate::support::slow_stores::SlowMooncake;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A request: its time, its page ids and its output tokens.
type Asked = (u64, Vec<u64>, u64);

/// Conversations in Mooncake's format, in pages of 16 tokens: prompts that grow, branch off and come back.
fn conversations(directory: &Path) -> (PathBuf, Vec<Asked>) {
    let rows: Vec<Asked> = (0..300_u64)
        .map(|request| {
            let (user, turn) = (request * 7 % 11, request / 11);
            let shared = 1..=4 + user % 3;
            let own = (0..=(turn * 5 + user) % 23).map(|page| 1_000 * (user + 1) + page + 100 * (turn % 4));
            (request * 400, shared.chain(own).collect(), request % 40)
        })
        .collect();
    let line = |(time, ids, output): &Asked| {
        let tokens = ids.len() * 16 + 5;
        let ids = [ids.as_slice(), &[9_999_999 + time]].concat();
        format!(
            "{{\"timestamp\":{time},\"input_length\":{tokens},\"output_length\":{output},\"hash_ids\":{ids:?}}}\n"
        )
    };
    let trace = directory.join("conversations.jsonl");
    std::fs::write(&trace, rows.iter().map(line).collect::<String>()).expect("a writable folder");
    (trace, rows)
}

const COMMON: [&str; 8] =
    ["--engine", "sglang", "--format", "mooncake", "--page-size", "16", "--capacities", "40p,120p"];

#[test]
fn device_host_and_a_tier_below_find_what_slow_models_of_them_find() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, rows) = conversations(directory.path());
    for (policy, threshold) in
        [("write-through", Some(1)), ("write-through-selective", Some(2)), ("write-back", None)]
    {
        let file = directory.path().join("rows.jsonl");
        let output = kvset(&["replay", "--json", "--hicache-write", policy, "--lease", "2s"])
            .args(COMMON)
            .args(["--below", "hicache:700p", "--below", "mooncake:1500p", "--per-request"])
            .arg(&file)
            .arg(&trace)
            .assert()
            .success();
        let result: Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
        let options = json!({"hicache": "700p", "hicache_write": policy, "overlap": "on"});
        assert_eq!(result["trace"]["engine_options"], options);
        let found = std::fs::read_to_string(&file).expect("the rows");
        let found: Vec<Value> = found.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
        assert_eq!(found.len(), rows.len());
        let mut all = [0; 3];
        for (at, device) in [40, 120].into_iter().enumerate() {
            let mut sglang = SlowHicache::new(device, 700, threshold, 16, true);
            let mut mooncake = SlowMooncake::new(1500, 2_000, 900, 50);
            let mut sums = [0; 3];
            for (index, ((time, ids, output), row)) in rows.iter().zip(&found).enumerate() {
                let (own, host) = sglang.request(ids, ids.len() as u64 * 16 + 5, *output, &[]);
                // The store's clock starts above zero.
                let below = mooncake.request_after(time + 1_000_000, ids, own + host);
                assert_eq!(row["prefix_hits"][at], own, "{policy}, request {index}");
                assert_eq!(row["below_hits"][at], json!([host, below]), "{policy}, request {index}");
                sums = [sums[0] + own, sums[1] + host, sums[2] + below];
            }
            for (all, sum) in all.iter_mut().zip(sums) {
                *all += sum;
            }
            let point = &result["capacities"][at];
            assert_eq!(point["prefix_hits"], sums[0]);
            let host = &point["below"][0];
            assert_eq!((&host["tier"], &host["pages"]), (&json!("hicache:700p"), &json!(700)));
            assert_eq!(host["page_hits"], sums[1]);
            assert_eq!(host["page_writes"], sglang.written);
            assert_eq!(point["below"][1]["page_writes"], mooncake.written);
            assert_eq!(point["below"][1]["page_hits"], sums[2]);
        }
        assert!(all.iter().all(|sum| *sum > 0), "{policy}: {all:?}");
    }
}

#[test]
fn people_see_a_column_a_tier_in_the_table_and_in_the_report() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, _) = conversations(directory.path());
    let report = directory.path().join("report.html");
    let output = kvset(&["replay"])
        .args(COMMON)
        .args(["--below", "hicache:200p", "--report"])
        .arg(&report)
        .arg(&trace)
        .assert()
        .success();
    let shown = String::from_utf8(output.get_output().stdout.clone()).expect("UTF-8");
    assert!(shown.contains("hicache:200p") && shown.contains("together"), "{shown}");
    let report = std::fs::read_to_string(&report).expect("the report");
    assert!(report.contains("hicache:200p") && report.contains("Tiers below"));
}

#[test]
fn a_size_in_bytes_is_that_many_pages_at_the_costs_given() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, _) = conversations(directory.path());
    let run = |below: &str| {
        let args = ["--json", "--kv-bytes-per-token", "1024", "--below", below];
        let output = kvset(&["replay"]).args(COMMON).args(args).arg(&trace).assert().success();
        let result: Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
        let point = &result["capacities"][0];
        (
            point["prefix_hits"].clone(),
            point["below"][0]["pages"].clone(),
            point["below"][0]["page_hits"].clone(),
        )
    };
    assert_eq!(run("hicache:200p"), run("hicache:3200KiB"));
    assert_eq!(run("hicache:200p").1, 200);
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, _) = conversations(directory.path());
    let rows = directory.path().join("rows.jsonl");
    let run = |threads: &str| {
        let output = kvset(&["replay", "--json", "--threads", threads, "--window", "tumbling:1m"])
            .args(COMMON)
            .args([
                "--below",
                "hicache:200p",
                "--below",
                "lmcache:900p",
                "--chunk-tokens",
                "32",
                "--per-request",
            ])
            .arg(&rows)
            .arg(&trace)
            .assert()
            .success();
        (output.get_output().stdout.clone(), std::fs::read_to_string(&rows).expect("the rows"))
    };
    let alone = run("1");
    for threads in ["2", "5"] {
        assert!(run(threads) == alone, "{threads} threads");
    }
}

#[test]
fn what_only_sglang_has_is_wrong_usage_elsewhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, _) = conversations(directory.path());
    let at = ["--format", "mooncake", "--page-size", "16", "--capacities", "40p"];
    for (args, expected) in [
        (&["--engine", "vllm", "--below", "hicache:9p"][..], "choose --engine sglang"),
        (&["--engine", "sglang", "--below", "lmcache:9p", "--below", "hicache:9p"], "as the first --below"),
        (&["--engine", "sglang", "--below", "hicache:9p", "--below", "hicache:9p"], "name it once"),
        (&["--engine", "sglang", "--below", "hicache:1GiB"], "--below has a size in bytes"),
        (&["--engine", "sglang", "--below", "hicache:4294967295p"], "more than the sglang profile models"),
        (&["--engine", "sglang,vllm", "--below", "hicache:9p"], "--below is for one engine"),
        (&["--engine", "sglang", "--hicache-write", "write-back"], "give --below hicache:SIZE"),
        (&["--engine", "sglang", "--below", "hicache:9p", "--hicache-write", "write-never"], "write-through"),
    ] {
        let assert = kvset(&["replay"]).args(at).args(args).arg(&trace).assert().code(2);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(assert.get_output().stdout.is_empty() && said.contains(expected), "{args:?}: {said}");
    }
}
