//! `kvset replay --engine`: one engine, several side by side, and engines without a stack.

use crate::support::program::kvset;
use crate::support::shared::{golden, shared_path};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Standard output and standard error of a run that succeeds.
fn replay(trace: &Path, args: &[&str]) -> (String, String) {
    let output = kvset(&["replay"]).args(args).arg(trace).assert().success().get_output().clone();
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

fn check_sglang(name: &str, outputs: &str) {
    let (Some(golden), Some(trace)) = (golden(name), shared_path("traces/mooncake_synthetic_trace.jsonl"))
    else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let rows = directory.path().join("rows.jsonl");
    let pages: Vec<_> = golden.results.iter().map(|result| format!("{}p", result.capacity_pages)).collect();
    let (pages, to) = (pages.join(","), rows.to_str().expect("UTF-8"));
    let engine = ["--engine", "sglang", "--outputs", outputs, "--page-size", "512"];
    let result = json(&trace, &[&engine[..], &["--capacities", &pages, "--per-request", to]].concat());
    let rows = std::fs::read_to_string(&rows).expect("the rows");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
    assert_eq!(rows.len(), golden.requests);
    assert!(rows.iter().all(|row| row["required_pages"].is_null()), "a pointwise model has no requirement");
    for (at, expected) in golden.results.iter().enumerate() {
        let hits = rows.iter().map(|row| row["prefix_hits"][at].as_u64().expect("hits"));
        let differing = hits.zip(&expected.per_request_prefix_hits).filter(|(a, b)| a != *b).count();
        assert_eq!(differing, 0, "requests that differ at {} pages", expected.capacity_pages);
        assert_eq!(result["capacities"][at]["prefix_hits"], expected.prefix_hits);
    }
    assert_eq!((&result["pointwise"], &result["required"]), (&true.into(), &Value::Array(vec![])));
}

#[test]
fn the_program_equals_sglang_on_every_request_where_outputs_are_cached() {
    check_sglang("synthetic_sglang_output.json", "cached");
}

#[test]
fn the_program_equals_sglang_on_every_request_where_outputs_are_ignored() {
    check_sglang("synthetic_sglang_prefill.json", "ignored");
}

const ENGINES: [&str; 6] = ["paper", "leaf-first", "vllm", "sglang", "lmcache", "mooncake"];

#[test]
fn engines_side_by_side_are_the_engines_one_by_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let common = ["--capacities", "200p,1000p,4000p,9000p", "--warm-up", "25%", "--window", "last:100"];
    let together = json(&trace, &[&common[..], &["--engine", &ENGINES.join(",")]].concat());
    assert_eq!(together.as_object().expect("an object").len(), 1);
    assert_eq!(together["engines"].as_array().expect("a list").len(), ENGINES.len());
    for (engine, found) in ENGINES.iter().zip(together["engines"].as_array().expect("a list")) {
        assert_eq!(found["trace"]["engine"], *engine);
        assert_eq!(*found, json(&trace, &[&common[..], &["--engine", engine]].concat()), "{engine}");
        let approximate = ["lmcache", "mooncake"].contains(engine);
        assert_eq!(
            found["approximation"].as_str().is_some_and(|text| text.contains("hits were off by")),
            approximate
        );
        assert_eq!(found["pointwise"] == true, *engine == "sglang");
        assert_eq!(found["trace"]["output_reuse_unseen"], ["vllm", "sglang"].contains(engine));
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
fn mooncake_is_the_paper_at_its_effective_capacity() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let nominal = json(&trace, &["--engine", "mooncake", "--capacities", "1000p,8000p"]);
    let effective = json(&trace, &["--engine", "paper", "--capacities", "875p,7000p"]);
    for at in 0..2 {
        assert_eq!(nominal["capacities"][at]["prefix_hits"], effective["capacities"][at]["prefix_hits"]);
    }
    let pages = |result: &Value| result["required"][0]["max_pages"].as_u64().expect("pages");
    assert_eq!(pages(&nominal), (pages(&effective) * 8).div_ceil(7));
    let hits = |result: &Value| result["capacities"][0]["prefix_hits"].as_u64();
    let enough = format!("{}p", pages(&nominal));
    let found = json(&trace, &["--engine", "mooncake", "--target-ratio", "1", "--capacities", &enough]);
    assert!(hits(&found) <= found["theoretical"]["prefix_hits"].as_u64());
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
    assert!(table.contains("mooncake: Mooncake evicts in batches"), "{table}");
    assert!(table.contains("sglang: each capacity is modelled on its own"), "{table}");
    assert_eq!(notes.matches("outputs take room in the cache").count(), 1, "{notes}");
    let (_, silent) = replay(&trace, &["--engine", "paper"]);
    assert!(!silent.contains("outputs"), "{silent}");
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
    assert!(page.contains("is the smallest capacity asked for that reaches 99"), "a headline from the curve");
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
    ] {
        let assert = kvset(&["replay"]).args(args).arg(&trace).current_dir(&directory).assert().code(2);
        let output = assert.get_output();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.stdout.is_empty() && said.contains(expected), "{args:?}: {said}");
    }
}
