//! `kvset replay --engine`: one engine, several side by side, and engines without a stack.

use crate::support::program::{WITHOUT_CERTAINTY, kvset};
use crate::support::shared::{golden, read_shared, shared_path};
use crate::support::slow_stores::{SlowLmcache, SlowMooncake};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Standard output and standard error of a run that succeeds.
fn replay(trace: &Path, args: &[&str]) -> (String, String) {
    let output = kvset(&["replay"])
        .args(WITHOUT_CERTAINTY)
        .args(args)
        .arg(trace)
        .assert()
        .success()
        .get_output()
        .clone();
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

fn json(trace: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&replay(trace, &[args, &["--json"]].concat()).0).expect("JSON")
}

/// A small trace of growing sessions.
fn generated(directory: &Path) -> PathBuf {
    let trace = directory.join("trace.jsonl");
    kvset(&["generate", "--requests", "400", "--output"]).arg(&trace).assert().success();
    trace
}

/// The result of a run and the row of each request.
fn with_rows(trace: &Path, args: &[&str]) -> (Value, Vec<Value>) {
    let directory = tempfile::tempdir().expect("a directory");
    let rows = directory.path().join("rows.jsonl");
    let result = json(trace, &[args, &["--per-request", rows.to_str().expect("UTF-8")]].concat());
    let rows = std::fs::read_to_string(&rows).expect("the rows");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
    let pointwise = result["pointwise"] == true;
    assert_eq!(result["required"] == Value::Array(vec![]), pointwise, "a pointwise model has no requirement");
    assert!(rows.iter().all(|row| row["required_pages"].is_null() == pointwise));
    (result, rows)
}

/// The hits of every request at the capacity with this place.
fn hits_at(rows: &[Value], at: usize) -> Vec<u64> {
    rows.iter().map(|row| row["prefix_hits"][at].as_u64().expect("hits")).collect()
}

/// Requests whose hits differ.
fn differing(found: &[u64], expected: &[u64]) -> usize {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).filter(|(a, b)| a != b).count()
}

/// A trace that real engines were driven with, and what they answered.
fn recorded<T: serde::de::DeserializeOwned>(name: &str) -> Option<(T, PathBuf)> {
    let golden = serde_json::from_str(&read_shared(&format!("golden/{name}"))?).expect("a golden file");
    Some((golden, shared_path("traces/mooncake_synthetic_trace.jsonl")?))
}

fn in_pages(capacities: impl Iterator<Item = u64>) -> String {
    capacities.map(|pages| format!("{pages}p")).collect::<Vec<_>>().join(",")
}

fn check_sglang(name: &str, outputs: &str) {
    let (Some(golden), Some(trace)) = (golden(name), shared_path("traces/mooncake_synthetic_trace.jsonl"))
    else {
        return;
    };
    let pages = in_pages(golden.results.iter().map(|result| result.capacity_pages));
    let engine = ["--engine", "sglang", "--outputs", outputs, "--page-size", "512", "--capacities", &pages];
    let (result, rows) = with_rows(&trace, &engine);
    assert_eq!(rows.len(), golden.requests);
    for (at, expected) in golden.results.iter().enumerate() {
        let differing = differing(&hits_at(&rows, at), &expected.per_request_prefix_hits);
        assert_eq!(differing, 0, "requests that differ at {} pages", expected.capacity_pages);
        assert_eq!(result["capacities"][at]["prefix_hits"], expected.prefix_hits);
    }
}

#[test]
fn the_program_equals_sglang_on_every_request_where_outputs_are_cached() {
    check_sglang("synthetic_sglang_output.json", "cached");
}

#[test]
fn the_program_equals_sglang_on_every_request_where_outputs_are_ignored() {
    check_sglang("synthetic_sglang_prefill.json", "ignored");
}

#[derive(Debug, serde::Deserialize)]
struct HybridGolden {
    results: Vec<HybridRun>,
}

#[derive(Debug, serde::Deserialize)]
struct HybridRun {
    groups: String,
    block_size: u32,
    capacity_pages: u64,
    retention: String,
    prefill_chunk_tokens: u32,
    per_request_hit_pages: Vec<i64>,
}

#[test]
fn the_program_equals_vllm_on_every_request_of_a_hybrid_model() {
    let Some((golden, trace)) = recorded::<HybridGolden>("synthetic_vllm_hybrid.json") else { return };
    assert_eq!(golden.results.len(), 12);
    for run in &golden.results {
        let (page, chunk) = (run.block_size.to_string(), run.prefill_chunk_tokens.to_string());
        let (capacity, retention) = (format!("{}p", run.capacity_pages), run.retention.to_lowercase());
        let common = ["--engine", "vllm", "--page-size", &page, "--capacities", &capacity];
        let groups = match run.groups.as_str() {
            "f1s128" => "full+window:128",
            "f5s1024" => "full+5*window:1024",
            "f3m" => "full+3*mamba",
            "f" => "full",
            other => panic!("unknown groups {other}"),
        };
        let options = ["--retention-interval", &retention, "--prefill-chunk", &chunk];
        let options = if groups == "full" { &[][..] } else { &options };
        let (result, rows) = with_rows(&trace, &[&common[..], &["--attention", groups], options].concat());
        assert_eq!(result["pointwise"] == true, groups != "full");
        let turned_away = run.per_request_hit_pages.iter().filter(|hits| **hits < 0).count();
        if groups != "full" {
            assert_eq!(result["capacities"][0]["turned_away_requests"], turned_away);
        }
        let expected: Vec<u64> = run.per_request_hit_pages.iter().map(|hits| (*hits).max(0) as u64).collect();
        assert_eq!(differing(&hits_at(&rows, 0), &expected), 0, "{} at {capacity}", run.groups);
    }
}

#[derive(Debug, serde::Deserialize)]
struct StoreGolden {
    results: Vec<StoreRun>,
}

#[derive(Debug, serde::Deserialize)]
struct StoreRun {
    capacity_pages: u64,
    per_request_prefix_hits: Vec<u64>,
}

#[test]
fn the_program_equals_lmcache_on_every_request() {
    let Some((golden, trace)) = recorded::<StoreGolden>("synthetic_lmcache.json") else { return };
    assert_eq!(golden.results.len(), 7);
    let pages = in_pages(golden.results.iter().map(|run| run.capacity_pages));
    let (_, rows) =
        with_rows(&trace, &["--engine", "lmcache", "--chunk-tokens", "512", "--capacities", &pages]);
    for (at, run) in golden.results.iter().enumerate() {
        let differing = differing(&hits_at(&rows, at), &run.per_request_prefix_hits);
        assert_eq!(differing, 0, "requests that differ at {} pages", run.capacity_pages);
    }
}

#[test]
fn the_program_finds_what_a_running_mooncake_store_found_within_one_percent() {
    let Some((golden, trace)) = recorded::<StoreGolden>("synthetic_mooncake_store.json") else { return };
    assert_eq!(golden.results.len(), 6);
    let pages = in_pages(golden.results.iter().map(|run| run.capacity_pages));
    let (_, rows) = with_rows(&trace, &["--engine", "mooncake", "--capacities", &pages]);
    for (at, run) in golden.results.iter().enumerate() {
        let hits = hits_at(&rows, at);
        let (found, expected): (u64, u64) = (hits.iter().sum(), run.per_request_prefix_hits.iter().sum());
        let error = found as f64 / expected as f64 - 1.0;
        assert!(error.abs() < 0.01, "{error:+.4} at {} pages", run.capacity_pages);
        let differing = differing(&hits, &run.per_request_prefix_hits);
        assert!(differing < 10, "{differing} requests differ at {} pages", run.capacity_pages);
    }
}

const ENGINES: [&str; 8] =
    ["paper", "leaf-first", "vllm", "sglang", "lmcache", "lmcache-mp", "mooncake", "trtllm"];

#[test]
fn engines_side_by_side_are_the_engines_one_by_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let own = ["--capacities", "200p,1000p,4000p,9000p", "--warm-up", "25%", "--window", "last:100"];
    let together = json(&trace, &[&own[..], &["--engine", &ENGINES.join(",")]].concat());
    assert_eq!(together.as_object().expect("an object").len(), 1);
    assert_eq!(together["engines"].as_array().expect("a list").len(), ENGINES.len());
    for (engine, found) in ENGINES.iter().zip(together["engines"].as_array().expect("a list")) {
        assert_eq!(found["trace"]["engine"], *engine);
        assert_eq!(*found, json(&trace, &[&own[..], &["--engine", engine]].concat()), "{engine}");
        assert_eq!(
            found["approximation"].as_str().is_some_and(|text| text.contains("hits were off by")),
            *engine == "mooncake"
        );
        assert_eq!(
            found["pointwise"] == true,
            ["sglang", "lmcache", "lmcache-mp", "mooncake", "trtllm"].contains(engine)
        );
        assert_eq!(found["trace"]["output_reuse_unseen"], ["vllm", "sglang", "trtllm"].contains(engine));
    }
}

#[test]
fn what_never_evicts_finds_what_can_be_found_under_every_engine() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let result = json(&trace, &["--engine", &ENGINES.join(","), "--capacities", "100p,1000000p"]);
    for found in result["engines"].as_array().expect("a list") {
        let (small, large) = (&found["capacities"][0], &found["capacities"][1]);
        assert_eq!(large["prefix_hits"], found["theoretical"]["prefix_hits"]);
        assert!(small["prefix_hits"].as_u64() < large["prefix_hits"].as_u64());
    }
}

#[test]
fn grids_nobody_asked_for_end_at_the_footprint_and_are_the_same_for_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let result = json(&trace, &["--engine", "paper,sglang"]);
    let [paper, sglang] = [0, 1].map(|at| {
        let points = result["engines"][at]["capacities"].as_array().expect("a list").clone();
        points.iter().map(|point| point["pages"].as_u64().expect("pages")).collect::<Vec<_>>()
    });
    assert_eq!(paper, sglang);
    assert!(paper.windows(2).all(|pair| pair[1] == pair[0] * 2) && paper[0] == 64, "{paper:?}");
    let footprint = result["engines"][1]["trace"]["distinct_pages"].as_u64().expect("pages");
    let last = paper[paper.len() - 1];
    assert!(last >= footprint && last / 2 < footprint, "{last} beside {footprint}");
    let alone = json(&trace, &["--engine", "sglang"]);
    assert_eq!(alone["capacities"], result["engines"][1]["capacities"]);
}

#[test]
fn people_see_a_column_an_engine_and_what_to_mind() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let (table, notes) = replay(&trace, &["--engine", "paper,vllm,sglang,mooncake"]);
    let heading = table.lines().find(|line| line.starts_with(" capacity")).expect("a heading");
    assert!(["paper", "vllm", "sglang", "mooncake"].iter().all(|name| heading.contains(name)), "{heading}");
    assert!(table.contains("mooncake: Mooncake's answers depend on its clock"), "{table}");
    assert!(table.contains("sglang: each capacity is modelled on its own"), "{table}");
    assert_eq!(notes.matches("answers take room in the cache").count(), 1, "{notes}");
    let (_, silent) = replay(&trace, &["--engine", "paper"]);
    assert!(!silent.contains("answers take room"), "{silent}");
}

#[test]
fn a_report_of_several_engines_compares_them_and_has_a_section_for_each() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let report = directory.path().join("report.html");
    let to = report.to_str().expect("UTF-8");
    replay(&trace, &["--engine", &ENGINES.join(","), "--report", to]);
    let page = std::fs::read_to_string(&report).expect("the report");
    assert_eq!(page.matches("The engines side by side").count(), 1);
    assert_eq!(page.matches("id=\"comparison-curves-title\"").count(), 1);
    for engine in ENGINES {
        assert!(page.contains(&format!("<h2>Engine {engine}</h2>")), "{engine}");
    }
    replay(&trace, &["--engine", "sglang", "--report", to]);
    let page = std::fs::read_to_string(&report).expect("the report");
    assert!(!page.contains("side by side") && page.contains("Hit rate by cache capacity"));
    assert!(page.contains("is the smallest capacity requested that reaches 99"), "a headline from the curve");
}

#[test]
fn groups_and_the_bytes_of_a_block_are_taken_from_the_models_config() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let model = |name: &str| format!("{}/tests/fixtures/model/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let capacities = ["--engine", "vllm", "--capacities", "1GiB,4GiB"];
    let given = ["--attention", "6*window:1024+full", "--kv-bytes-per-token", "81920"];
    let gemma = json(&trace, &[&capacities[..], &["--model-config", &model("gemma-3-27b")]].concat());
    assert_eq!(gemma, json(&trace, &[&capacities[..], &given].concat()));
    assert_eq!(gemma["pointwise"], true);
    let full = ["--model-config", &model("gemma-3-27b"), "--attention", "full"];
    assert_eq!(json(&trace, &[&capacities[..], &full].concat())["pointwise"], Value::Null);
    let qwen = model("qwen3-next-80b-a3b");
    let refused = |args: &[&str]| {
        let assert = kvset(&["replay", "--engine", "vllm", "--model-config", &qwen])
            .args(args)
            .arg(&trace)
            .assert()
            .code(2);
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    for args in [&[][..], &["--page-size", "64"]] {
        let said = refused(args);
        assert!(said.contains("blocks of 544 tokens or more, and pages have 64"), "{said}");
    }
    // Other engines have no such groups, and the block is named all the same; SGLang has no such blocks.
    for (engine, named) in [("paper", true), ("leaf-first", true), ("sglang", false)] {
        let args = ["--engine", engine, "--capacities", "1GiB", "--model-config", &qwen];
        let (_, notes) = replay(&trace, &args);
        assert_eq!(
            notes.contains("blocks of 544 tokens or more, and pages have 64"),
            named,
            "{engine}: {notes}"
        );
    }
    let (_, notes) =
        replay(&trace, &[&capacities[..], &["--model-config", &model("llama-4-scout")]].concat());
    assert!(notes.contains("not modelled for this model, since its windows are"), "{notes}");
}

#[test]
fn what_a_state_weighs_in_sglang_is_taken_from_the_models_config() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let model = |name: &str| format!("{}/tests/fixtures/model/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let with = |config: &str, groups: &str, further: &[&str]| {
        let common =
            ["--engine", "sglang", "--attention", groups, "--capacities", "9GiB", "--model-config", config];
        json(&trace, &[&common[..], further].concat())["trace"]["engine_options"]["state_tokens"].clone()
    };
    // Qwen3-Next: 36 layers of (2*16*128 + 32*128)*3*2 + 32*128*128*4 bytes, 12 of 2*2*256*2 bytes a token. Nemotron-H
    // says nothing of its states, and its kind keeps them in float32.
    let qwen = model("qwen3-next-80b-a3b");
    for (further, tokens) in [
        (&[][..], (36 * (8192 * 3 * 2 + 524_288 * 4_u64)).div_ceil(3 * 24_576)),
        (&["--mamba-ssm-dtype", "bfloat16"], (36 * (8192 * 3 * 2 + 524_288 * 2_u64)).div_ceil(3 * 24_576)),
        (&["--state-tokens", "700"], 700),
    ] {
        assert_eq!(with(&qwen, "full+3*mamba", further), tokens.to_string(), "{further:?}");
    }
    // Granite 4: 36 layers of (8192 + 2*128)*3*2 + 128*64*128*4 bytes, 4 of 2*8*128*2 bytes a token.
    let granite = (36 * (8448 * 3 * 2 + 1_048_576 * 4_u64)).div_ceil(9 * 4 * 4096);
    assert_eq!(with(&model("granite-4.0-h-small"), "full+9*mamba", &[]), granite.to_string());
    let glm = model("glm-4.5");
    let common = ["replay", "--attention", "full+3*mamba", "--capacities", "9GiB"];
    for (args, reason) in [
        (
            &["--engine", "sglang", "--model-config", &glm][..],
            "no layers with a state alongside full attention",
        ),
        (&["--engine", "sglang", "--model-config", &qwen, "--kv-dtype", "bf16,fp8"], "at one --kv-dtype"),
        (&["--engine", "sglang,paper", "--model-config", &qwen], "for sglang alone"),
    ] {
        let assert = kvset(&common).args(args).arg(&trace).assert().code(2);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains(reason) && said.contains("give --state-tokens"), "{said}");
    }
    let (_, notes) = replay(&trace, &["--engine", "sglang", "--capacities", "9GiB", "--model-config", &qwen]);
    assert!(notes.contains("SGLang keeps states in a pool of their own"), "{notes}");
}

/// Requests that found enough, by the rows of a run at one capacity.
fn satisfied(rows: &[Value], ratio_per_cent: u64) -> u64 {
    let enough = |row: &&Value| {
        let reusable = row["theoretical_prefix_hits"].as_u64().expect("pages");
        row["prefix_hits"][0].as_u64() >= Some((reusable * ratio_per_cent).div_ceil(100))
    };
    rows.iter().filter(enough).count() as u64
}

#[test]
fn a_searched_capacity_is_enough_and_the_next_smaller_one_tried_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    for engine in [
        &["--engine", "sglang"][..],
        &["--engine", "lmcache"],
        &["--engine", "mooncake", "--lease", "1s"],
        &["--engine", "vllm", "--attention", "full+2*window:300"],
        &["--engine", "vllm", "--attention", "full+3*mamba", "--retention-interval", "none"],
    ] {
        let coverage = ["--coverage", "0.5,0.9,0.99", "--target-ratio", "0.9", "--target-ratio", "1"];
        let result = json(&trace, &[engine, &coverage, &["--search", "--capacities", "9p"]].concat());
        let found = result["searched"]["required"].as_array().expect("a list");
        assert_eq!(found.len(), 6);
        let mut narrow = 0;
        for entry in found {
            let ratio = if entry["target_ratio"] == 1.0 { 100 } else { 90 };
            let needed = (entry["coverage"].as_f64().expect("a share") * 400.0).ceil() as u64;
            let at = |pages: u64| {
                let capacity = format!("{pages}p");
                let (_, rows) = with_rows(&trace, &[engine, &["--capacities", &capacity]].concat());
                satisfied(&rows, ratio)
            };
            let pages = entry["pages"].as_u64().expect("within the bound");
            assert!(at(pages) >= needed, "{engine:?}: {entry}");
            if let Some(below) = entry["too_small_pages"].as_u64() {
                assert!(at(below) < needed, "{engine:?}: {entry}");
                assert!(pages - below <= (pages / 100).max(1), "{engine:?}: {entry}");
                narrow += 1;
            }
        }
        assert!(narrow > 2, "{engine:?}: {found:?}");
    }
}

const WINDOWS: [&str; 4] = ["--engine", "sglang", "--attention", "full+window:128"];

#[test]
fn what_sglangs_pool_of_windows_loses_at_any_size_is_told_without_retention() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let result = json(&trace, &[&WINDOWS[..], &["--capacities", "900p,1000000p"]].concat());
    let (ceiling, points) = (&result["ceiling"]["page_hits"], &result["capacities"]);
    assert_eq!(points[1]["prefix_hits"], ceiling["these_rules"]);
    assert!(ceiling["these_rules"].as_u64() <= ceiling["full_attention"].as_u64());
    assert!(points[0]["prefix_hits"].as_u64() < points[1]["prefix_hits"].as_u64());
    assert_eq!(ceiling.get("dense_retention"), None, "SGLang has no such setting");
    let options = serde_json::json!({"attention": "full+window:128", "swa_full_tokens_ratio": "0.8", "prefill_chunk": "8192"});
    assert_eq!(result["trace"]["engine_options"], options);
    let both =
        json(&trace, &["--engine", "vllm,sglang", "--attention", "full+window:128", "--capacities", "900p"]);
    assert!(both.to_string().contains("sglang"), "side by side with vLLM's shared pool");
}

#[test]
fn the_ceiling_of_a_hybrid_model_is_what_runs_without_limit_find() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let unlimited = |args: &[&str]| {
        let result = json(&trace, &[&["--engine", "vllm", "--capacities", "9p,1000000p"], args].concat());
        assert!(
            args.contains(&"full")
                || result["capacities"][1]["prefix_hits"] == result["theoretical"]["prefix_hits"]
        );
        (result["theoretical"]["prefix_hits"].clone(), result["ceiling"]["page_hits"].clone())
    };
    let (rules, ceiling) = unlimited(&["--attention", "full+3*mamba"]);
    let (dense, _) = unlimited(&["--attention", "full+3*mamba", "--retention-interval", "none"]);
    let (full, none) = unlimited(&["--attention", "full"]);
    assert_eq!(none, Value::Null, "one group loses nothing");
    assert_eq!((&ceiling["these_rules"], &ceiling["dense_retention"]), (&rules, &dense));
    assert_eq!(ceiling["full_attention"], full);
    assert!(rules.as_u64() < dense.as_u64() && dense.as_u64() <= full.as_u64(), "{ceiling}");
}

/// Conversations in Mooncake's format, in pages of 16 tokens: prompts that grow, branch off and come back.
fn conversations(directory: &Path) -> (PathBuf, Vec<(u64, Vec<u64>)>) {
    let rows: Vec<(u64, Vec<u64>)> = (0..300_u64)
        .map(|request| {
            let (user, turn) = (request * 7 % 11, request / 11);
            let shared = 1..=4 + user % 3;
            let own = (0..=(turn * 5 + user) % 23).map(|page| 1_000 * (user + 1) + page + 100 * (turn % 4));
            (request * 400, shared.chain(own).collect())
        })
        .collect();
    let line = |(time, ids): &(u64, Vec<u64>)| {
        let tokens = ids.len() * 16 + 5;
        let ids = [ids.as_slice(), &[9_999_999 + time]].concat();
        format!(
            "{{\"timestamp\":{time},\"input_length\":{tokens},\"output_length\":9,\"hash_ids\":{ids:?}}}\n"
        )
    };
    let trace = directory.join("conversations.jsonl");
    std::fs::write(&trace, rows.iter().map(line).collect::<String>()).expect("a writable folder");
    (trace, rows)
}

#[test]
fn tiers_below_find_what_a_chain_of_slow_models_finds() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, rows) = conversations(directory.path());
    for engine in [
        &["--engine", "vllm"][..],
        &["--engine", "sglang"],
        &["--engine", "vllm", "--attention", "full+mamba"],
    ] {
        let common = ["--format", "mooncake", "--page-size", "16", "--capacities", "40p,120p"];
        let tiers =
            ["--below", "lmcache:620p", "--below", "mooncake:1500p", "--chunk-tokens", "32", "--lease", "2s"];
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("rows.jsonl");
        let to = ["--per-request", file.to_str().expect("UTF-8")];
        let result = json(&trace, &[engine, &common, &tiers, &to].concat());
        let found = std::fs::read_to_string(&file).expect("the rows");
        let found: Vec<Value> = found.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
        assert_eq!(found.len(), rows.len());
        let alone = json(&trace, &[engine, &common].concat());
        // What was not compared with vLLM says so.
        let said = |note: &Value| note.as_str().is_some_and(|note| note.contains("several groups of layers"));
        let is_said = result["notes"].as_array().is_some_and(|notes| notes.iter().any(said));
        assert_eq!(is_said, engine.contains(&"full+mamba"), "{engine:?}: {}", result["notes"]);
        for capacity in 0..2 {
            let mut lmcache = SlowLmcache::new(620, 2);
            let mut mooncake = SlowMooncake::new(1500, 2_000, 900, 50);
            let mut sums = [0, 0];
            for (index, ((time, ids), row)) in rows.iter().zip(&found).enumerate() {
                let above = row["prefix_hits"][capacity].as_u64().expect("hits");
                // The store's clock starts above zero.
                let in_lmcache = lmcache.request(ids);
                let held = in_lmcache + mooncake.request_after(time + 1_000_000, ids, in_lmcache);
                let first = in_lmcache.max(above) - above;
                let second = held.max(above) - above - first;
                assert_eq!(
                    row["below_hits"][capacity],
                    serde_json::json!([first, second]),
                    "{engine:?}, {index}"
                );
                sums = [sums[0] + first, sums[1] + second];
            }
            assert!(sums.iter().all(|sum| *sum > 0), "{engine:?}: {sums:?}");
            let point = &result["capacities"][capacity];
            for (tier, sum) in sums.iter().enumerate() {
                assert_eq!(point["below"][tier]["page_hits"], *sum);
            }
            let written = [lmcache.written, mooncake.written];
            assert_eq!([0, 1].map(|tier| point["below"][tier]["page_writes"].as_u64()), written.map(Some));
            assert_eq!(point["below"][1]["tier"], "mooncake:1500p");
            assert_eq!(
                point["prefix_hits"], alone["capacities"][capacity]["prefix_hits"],
                "unchanged by tiers below"
            );
        }
    }
}

#[test]
fn what_only_one_engine_or_no_such_engine_can_do_is_wrong_usage() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let many = (1..=65).map(|pages| format!("{pages}p")).collect::<Vec<_>>().join(",");
    for (args, expected) in [
        (&["--engine", "paper,vllm", "--per-request", "rows"][..], "--per-request"),
        (&["--engine", "vllm,vllm"], "twice"),
        (&["--engine", "sglang", "--sample-rate", "0.5"], "`sample_rate` is 0.5"),
        (&["--engine", "sglang", "--capacities", &many], "at most 64"),
        (&["--engine", "sglang", "--capacities", "1GiB"], "kv_bytes_per_token"),
        (&["--engine", "redis"], "redis"),
        (&["--engine", "mooncake", "--tier", "a:0.9:1p"], "nothing to plan from"),
        (&["--below", "lmcache:9p"], "--capacities"),
        (&["--capacities", "9p", "--below", "sglang:9p"], "no tier"),
        (&["--capacities", "9p", "--below", "lmcache:1GiB"], "--below has a size in bytes"),
        (
            &["--engine", "vllm,paper", "--capacities", "9p", "--below", "mooncake:9p"],
            "--below is for one engine",
        ),
        (&["--capacities", "9p", "--below", "mooncake:9p", "--chunk-tokens", "64"], "an option of lmcache"),
        (
            &["--capacities", "9p", "--below", "mooncake:9p", "--sample-rate", "0.5"],
            "--below needs every page",
        ),
        (&["--engine", "vllm", "--search"], "vllm reports every requirement without it"),
        (&["--engine", "lmcache,sglang", "--search"], "--search is for one engine"),
        (&["--engine", "vllm", "--chunk-tokens", "512"], "--chunk-tokens is an option of lmcache"),
        (&["--engine", "paper", "--attention", "full+window:128"], "--attention is an option of vllm"),
        (&["--engine", "sglang", "--attention", "full+3*mamba"], "give --state-tokens"),
        (
            &[
                "--engine",
                "sglang",
                "--attention",
                "full+3*mamba",
                "--state-tokens",
                "9",
                "--page-size",
                "48",
            ],
            "does not divide 256",
        ),
        (&["--engine", "sglang", "--state-tokens", "9"], "such as full+3*mamba"),
        (&["--engine", "sglang", "--swa-full-tokens-ratio", "0.5"], "give --attention"),
        (
            &["--engine", "vllm", "--attention", "full+window:128", "--swa-full-tokens-ratio", "0.5"],
            "--swa-full-tokens-ratio is an option of sglang",
        ),
        (&["--engine", "sglang", "--prefill-chunk", "512"], "--prefill-chunk is of"),
        (&[&WINDOWS[..], &["--draft-head"]].concat(), "without --draft-head"),
        (&[&WINDOWS[..], &["--swa-full-tokens-ratio", "0"]].concat(), "from 0.001 to 1"),
        (&[&WINDOWS[..], &["--retention-interval", "0"]].concat(), "an option of vllm"),
        (
            &[&WINDOWS[..], &["--capacities", "9p", "--below", "hicache:9p", "--overlap", "on"]].concat(),
            "leave --attention out",
        ),
        (
            &[&WINDOWS[..], &["--capacities", "9p", "--below", "hicache:9p", "--draft-head"]].concat(),
            "without --draft-head",
        ),
        (&[&WINDOWS[..], &["--prefill-chunk", "1000"]].concat(), "no multiple of the page ("),
        (&["--engine", "lmcache", "--lease", "5s"], "choose --engine mooncake"),
        (
            &["--watermark", "0.5"],
            "an option of mooncake and lmcache-mp: leave it out, or choose --engine mooncake or",
        ),
        (&["--engine", "vllm", "--retention-interval", "none"], "vllm with several groups"),
        (&["--engine", "vllm,sglang", "--prefill-chunk", "512"], "such as --attention"),
        (&["--engine", "vllm", "--attention", "window:128"], "no group is `full`"),
        (&["--engine", "lmcache", "--chunk-tokens", "100"], "not made of whole pages"),
        (&["--engine", "mooncake", "--watermark", "0"], "from 0.001 to 1"),
        (&["--engine", "vllm", "--attention", "full+mamba", "--sample-rate", "0.5"], "`sample_rate` is 0.5"),
        (&["--engine", "vllm", "--attention", "full+mamba", "--router", "hash:2"], "one curve"),
    ] {
        let assert = kvset(&["replay"]).args(args).arg(&trace).current_dir(&directory).assert().code(2);
        let output = assert.get_output();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.stdout.is_empty() && said.contains(expected), "{args:?}: {said}");
    }
}

/// Where several threads read a log, rows that no engine computed counted, and no request had a name.
#[test]
fn what_rows_say_of_themselves_is_heard_on_any_number_of_threads() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log.jsonl");
    let row = |number: u64| {
        let leg = if number % 3 == 1 { r#", "kv": {"do_remote_prefill": true}"# } else { "" };
        let (prompt, id) = (number / 2 * 600, number / 2);
        let pages: Vec<String> = (prompt..prompt + 600).map(|page| page.to_string()).collect();
        let pages = pages.join(",");
        format!(r#"{{"timestamp": {}, "request_id": "r{id}"{leg}, "hash_ids": [{pages}]}}"#, number * 90_000)
    };
    std::fs::write(&log, (0..300).map(|number| row(number) + "\n").collect::<String>()).expect("written");
    let run = |threads: &str| replay(&log, &["--json", "--threads", threads]);
    let (alone, said) = run("1");
    assert!(said.contains("100") && said.contains("the decode worker's leg"), "{said}");
    assert!(said.contains("under the same request id"), "{said}");
    for threads in ["2", "5"] {
        assert_eq!(run(threads), (alone.clone(), said.clone()), "{threads} threads");
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let rows = directory.path().join("rows.jsonl");
    let rows_path = rows.to_str().expect("UTF-8");
    let of_engine: [&[&str]; 8] = [
        &["trtllm", "--host-cache", "2000p"],
        &["sglang"],
        &["vllm", "--attention", "full+3*window:128"],
        &["lmcache", "--search"],
        &["mooncake"],
        &["lmcache-mp", "--watermark", "0.5", "--eviction-ratio", "0.3"],
        &["vllm", "--attention", "full+mamba", "--below", "lmcache:4000p"],
        &["sglang,mooncake,paper"],
    ];
    for engine in of_engine {
        let run = |threads: &str| {
            let several = engine[0].contains(',');
            let mut args =
                vec!["--threads", threads, "--capacities", "40p,900p,2000p,2100p,30000p", "--json"];
            args.extend(["--window", "tumbling:1m", "--engine"]);
            args.extend(engine);
            if !several {
                args.extend(["--per-request", rows_path]);
            }
            let (result, _) = replay(&trace, &args);
            let rows = if several { String::new() } else { std::fs::read_to_string(&rows).expect("rows") };
            (result, rows)
        };
        let alone = run("1");
        assert!(alone.0.contains("\"requests\": 400") || alone.0.contains("\"requests\":400"), "{}", alone.0);
        for threads in ["2", "5"] {
            assert!(run(threads) == alone, "{engine:?} on {threads} threads");
        }
    }
}
