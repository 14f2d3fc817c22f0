//! `kvset replay --tier` and several costs per token: the plan, its trends, and what they agree with.

use crate::support::program::kvset;
use crate::support::shared::shared_path;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn output(trace: &Path, args: &[&str]) -> String {
    let run = kvset(&["replay"]).args(args).arg(trace).assert().success().get_output().clone();
    String::from_utf8(run.stdout).expect("UTF-8")
}

fn replay(trace: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&output(trace, &[args, &["--json"]].concat())).expect("JSON")
}

/// What a wrong command line is told.
fn refusal(trace: &Path, args: &[&str]) -> String {
    let run = kvset(&["replay"]).args(args).arg(trace).assert().code(2).get_output().clone();
    assert!(run.stdout.is_empty());
    String::from_utf8(run.stderr).expect("UTF-8")
}

/// A small trace of growing sessions.
fn generated(directory: &Path) -> PathBuf {
    let trace = directory.join("trace.jsonl");
    kvset(&["generate", "--requests", "600", "--output"]).arg(&trace).assert().success();
    trace
}

const TIERS: [&str; 6] =
    ["--tier", "hbm:0.9:64MiB:2500", "--tier", "dram:0.95:1GiB:100", "--tier", "disk:0.999:300p:inclusive"];

/// The part of a result that hangs on the cost per token.
fn by_cost(result: &Value) -> Value {
    json!([result["capacities"], result["required"], result["in_flight"], result["plan"]])
}

#[test]
fn the_hit_rate_at_the_plan_is_the_one_the_curve_has_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    for engine in ["paper", "leaf-first", "vllm"] {
        let fixed = ["--engine", engine, "--kv-bytes-per-token", "1000"];
        let plan = replay(&trace, &[&fixed[..], &TIERS].concat())["plan"].clone();
        let tiers = plan["tiers"].as_array().expect("tiers");
        assert_eq!(tiers.len(), 3, "{engine}");
        for tier in tiers {
            let planned = &tier["planned"];
            let reach = planned["reach_pages"].as_u64().expect("pages");
            assert!(reach >= tier["required_pages"].as_u64().expect("pages"), "{engine}: {tier}");
            let next = tier["next_unit"]["reach_pages"].as_u64().expect("pages");
            let capacities = format!("{}p,{next}p", reach.max(1));
            let curve =
                replay(&trace, &[&fixed[..], &["--capacities", &capacities]].concat())["capacities"].clone();
            let rate = |point: &Value| point["prefix_hit_rate"].as_f64().expect("a rate");
            let points = curve.as_array().expect("points");
            let (here, there) = (rate(&points[0]), rate(&points[points.len() - 1]));
            assert_eq!(planned["hit_rate"].as_f64(), Some(here), "{engine}: {tier}");
            let throughput = planned["relative_prefill_throughput"].as_f64().expect("a factor");
            assert!((throughput - 1.0 / (1.0 - here)).abs() < 1e-9, "{engine}: {tier}");
            let gain = tier["next_unit"]["hit_rate_gain"].as_f64().expect("a gain");
            assert!((gain - (there - here)).abs() < 1e-12, "{engine}: {tier}");
        }
        assert_eq!(plan["cost"], Value::Null, "one tier has no price");
    }
}

#[test]
fn a_further_cost_gives_what_a_run_of_its_own_gives() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let rest =
        [&TIERS[..], &["--capacities", "5MB,50MB,300p", "--target-ratio", "0.9", "--target-ratio", "1"]];
    // Certainty is in pages, and found once.
    let rest = [&rest.concat()[..], &["--certainty", "off"]].concat();
    let costs = ["1000", "250.5", "4000"];
    let all: Vec<&str> = costs.iter().flat_map(|cost| ["--kv-bytes-per-token", cost]).collect();
    let together = replay(&trace, &[&all[..], &rest].concat());
    let listed = together["costs"].as_array().expect("the further costs");
    assert_eq!(listed.len(), 2);
    for (cost, found) in costs.iter().zip(std::iter::once(&together).chain(listed)) {
        let alone = replay(&trace, &[&["--kv-bytes-per-token", *cost][..], &rest].concat());
        assert_eq!(by_cost(found), by_cost(&alone), "at {cost}");
        assert!(alone.get("costs").is_none());
    }
    assert_eq!(listed[0]["kv_bytes_per_token"], 250.5);
    let page = listed[0]["page_bytes"].as_u64().expect("bytes");
    let pages = together["trace"]["distinct_pages"].as_u64().expect("pages");
    assert_eq!(listed[0]["distinct_bytes"], page * pages);
}

#[test]
fn the_types_of_a_model_give_a_cost_each() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/model/llama-3.1-8b.json");
    let result = replay(&trace, &["--model-config", config, "--kv-dtype", "bf16,fp8"]);
    assert_eq!(result["trace"]["page_bytes"], 64 * 131_072);
    assert_eq!(result["costs"][0]["page_bytes"], 64 * 65_536);
    assert!(result.get("plan").is_none(), "no tiers, no plan");
}

/// Two prompts take turns with ever more pages between their repeats.
fn growing(path: &Path, step: u64) {
    let mut rows = String::new();
    let mut fresh = 1_000_000;
    for turn in 0..400u64 {
        rows.push_str(&format!(
            "{{\"timestamp\":{turn},\"input_length\":512,\"output_length\":1,\"hash_ids\":[7]}}\n"
        ));
        let pages: Vec<u64> = (0..20 + turn * step).map(|page| fresh + page).collect();
        fresh += pages.len() as u64;
        let tokens = 512 * pages.len();
        rows.push_str(&format!(
            "{{\"timestamp\":{turn},\"input_length\":{tokens},\"output_length\":1,\"hash_ids\":{pages:?}}}\n"
        ));
    }
    std::fs::write(path, rows).expect("written");
}

#[test]
fn a_requirement_that_keeps_growing_is_not_converged_and_a_steady_one_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("growing.jsonl");
    let at = |result: &Value| result["required"][0]["coverage"][0].clone();
    let args = ["--coverage", "0.99", "--tier", "ram:0.99:64p", "--min-requests", "240"];
    growing(&trace, 1);
    let result = replay(&trace, &args);
    assert_eq!(at(&result)["convergence"], "not_converged");
    assert!(at(&result)["growth_per_window"].as_f64().expect("a rate") > 0.01, "{}", at(&result));
    let tier = &result["plan"]["tiers"][0];
    assert_eq!(tier["convergence"], "not_converged");
    assert_eq!(tier["growth_per_window"], at(&result)["growth_per_window"]);
    assert!(output(&trace, &args).contains("not converged, +"));
    growing(&trace, 0);
    let result = replay(&trace, &args);
    assert_eq!((&at(&result)["convergence"], &result["trend_windows"]), (&json!("converged"), &json!(12)));
    assert_eq!(at(&result)["growth_per_window"], 0.0);
}

#[test]
fn what_cannot_be_planned_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    for (args, part) in [
        (&["--tier", "hbm:0.9:1GiB"][..], "tier `hbm`: its unit is in bytes: set `kv_bytes_per_token`"),
        (&["--tier", "hbm:0.9"], "the unit is missing (expected NAME:COVERAGE:UNIT[:PRICE][:inclusive]"),
        (&["--tier", "a:0.9:1p", "--tier", "a:0.9:2p"], "another tier has this name"),
        (&["--engine", "sglang", "--tier", "a:0.9:1p"], "nothing to plan from: leave tiers out"),
    ] {
        let said = refusal(&trace, args);
        assert!(said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn the_week_is_planned_in_one_pass() {
    let Some(trace) = shared_path("traces/weka_claude_code_week.jsonl.zst") else { return };
    let args =
        ["--kv-bytes-per-token", "61464", "--tier", "hbm:0.95:10GiB:2500", "--tier", "dram:0.999:64GiB:400"];
    let plan = replay(&trace, &args)["plan"].clone();
    let figure = |tier: usize, name: &str| plan["tiers"][tier]["planned"][name].clone();
    assert_eq!([figure(0, "units"), figure(1, "units")], [2, 1]);
    assert_eq!(plan["cost"], 5400.0);
    let at_20_gib = replay(&trace, &[&args[..2], &["--capacities", "20GiB"]].concat());
    assert_eq!(figure(0, "hit_rate"), at_20_gib["capacities"][0]["prefix_hit_rate"]);
}

/// What the first tier drops was counted as written to a second one that was not bought.
#[test]
fn nothing_is_written_to_a_tier_of_no_units() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let tiers = ["--tier", "hbm:0.99:1GiB:100", "--tier", "dram:0.9:1GiB:10", "--kv-bytes-per-token", "1000"];
    let result = replay(&trace, &tiers);
    let dram = &result["traffic"]["tiers"][0];
    assert_eq!(
        (&dram["pages"], &dram["read_pages"], &dram["written_pages"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert!(dram["peaks"].as_array().expect("spans").iter().all(|peak| peak["written_pages"] == 0), "{dram}");
}
