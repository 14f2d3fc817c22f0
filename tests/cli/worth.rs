//! `kvset replay --prefill-rate`: accelerator-hours, money and time to the first token, as reckoned by hand.

use crate::support::program::kvset;
use serde_json::Value;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs()).max(1e-9)
}

#[test]
fn every_figure_follows_from_the_rows_of_single_requests() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, rows) = (directory.path().join("trace.jsonl"), directory.path().join("rows.jsonl"));
    kvset(&["generate", "--requests", "700", "--output"]).arg(&trace).assert().success();
    for engine in ["paper", "vllm", "sglang"] {
        let args = [
            "--engine",
            engine,
            "--capacities",
            "300p,2000p,9000p",
            "--kv-bytes-per-token",
            "100000",
            "--prefill-rate",
            "8000@0,2000@20000",
            "--gpu-price",
            "2.5",
            "--gib-price",
            "0.01",
            "--json",
            "--per-request",
        ];
        let run =
            kvset(&["replay"]).args(args).arg(&rows).arg(&trace).assert().success().get_output().clone();
        let result: Value = serde_json::from_slice(&run.stdout).expect("JSON");
        let worth = &result["worth"];
        let read = |path: &std::path::Path| -> Vec<Value> {
            let text = std::fs::read_to_string(path).expect("rows");
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        let page = number(&result["trace"]["page_size"]);
        let prompts: Vec<f64> = read(&trace).iter().map(|row| number(&row["input_length"])).collect();
        // 1/8 ms a token at the start, 1/2 ms from 20,000 tokens of context on, a line between.
        let until = |end: f64| {
            let within = end.min(20_000.0);
            let (first, last) = (1.0 / 8000.0, 1.0 / 2000.0);
            let at = first + (last - first) * within / 20_000.0;
            within * (first + at) / 2.0 + (end - within) * last
        };
        let span = number(&result["trace"]["times"]["span_ms"]) / 86_400_000.0;
        assert!(near(number(&worth["days"]), span), "{engine}");
        let mut saved_before = (0.0, 0.0);
        for (at, point) in worth["capacities"].as_array().expect("capacities").iter().enumerate() {
            let of = |(row, prompt): (&Value, &f64)| {
                until(*prompt) - until(number(&row["prefix_hits"][at]) * page)
            };
            let mut seconds: Vec<f64> = read(&rows).iter().zip(&prompts).map(of).collect();
            let (sum, whole): (f64, f64) =
                (seconds.iter().sum(), prompts.iter().map(|prompt| until(*prompt)).sum());
            assert!(near(number(&point["accelerator_hours"]), sum / 3600.0), "{engine}: {point}");
            assert!(near(number(&worth["without_cache"]["accelerator_hours"]), whole / 3600.0), "{engine}");
            assert!(near(number(&point["money_a_day"]), sum / 3600.0 / span * 2.5), "{engine}: {point}");
            let saved = (whole - sum) / 3600.0 / span * 2.5;
            assert!(near(number(&point["saved_a_day"]), saved), "{engine}: {point}");
            let gib = number(&point["bytes"]) / f64::from(1 << 30);
            assert!(near(number(&point["memory_a_day"]), gib * 0.24), "{engine}: {point}");
            let earns = (saved - saved_before.0) / (gib - saved_before.1);
            assert!(
                (number(&point["step_earns_a_gib_day"]) - earns).abs() < 1e-6 * earns.abs().max(1e-3),
                "{engine}: {point}"
            );
            saved_before = (saved, gib);
            seconds.sort_by(f64::total_cmp);
            for (name, share) in [("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)] {
                let rank = (share * seconds.len() as f64).ceil() as usize;
                let found = number(&point["time_to_first_token"][name]);
                assert!(
                    (found - seconds[rank - 1] * 1000.0).abs() <= 1e-5 * found.max(1.0),
                    "{engine}: {name} {point}"
                );
            }
        }
    }
}

#[test]
fn prices_belong_to_a_rate_and_nothing_is_told_without_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    kvset(&["generate", "--requests", "50", "--output"]).arg(&trace).assert().success();
    for args in [
        &["--gpu-price", "2"][..],
        &["--prefill-rate", "1000", "--gib-price", "1"],
        &["--prefill-rate", "0"],
        &["--prefill-rate", "5,6"],
        &["--prefill-rate", "1000", "--sample-rate", "0.5"],
        &["--prefill-rate", "1000", "--gpu-price", "2", "--worth-plot", "worth.svg"],
    ] {
        kvset(&["replay"]).args(args).arg(&trace).assert().code(2);
    }
    let run = kvset(&["replay", "--json"]).arg(&trace).assert().success().get_output().clone();
    let result: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert!(result.get("worth").is_none());
    let run = kvset(&["replay", "--json", "--prefill-rate", "1000"])
        .arg(&trace)
        .assert()
        .success()
        .get_output()
        .clone();
    let worth = serde_json::from_slice::<Value>(&run.stdout).expect("JSON")["worth"].clone();
    assert!(worth["without_cache"]["money_a_day"].is_null() && worth["best"].is_null(), "{worth}");
    assert!(number(&worth["without_cache"]["accelerator_hours_a_day"]) > 0.0);
}

/// What a tier below has is not computed, and takes its bytes by the tier's bandwidth.
#[test]
fn tiers_below_are_loaded_at_their_bandwidth_and_paid() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, rows) = (directory.path().join("trace.jsonl"), directory.path().join("rows.jsonl"));
    kvset(&["generate", "--requests", "400", "--output"]).arg(&trace).assert().success();
    let below = "lmcache:9000p:bandwidth=1GiB/s,price=0.002";
    let mut args = vec!["--engine", "vllm", "--overlap", "off", "--capacities", "500p", "--below", below];
    args.extend(["--kv-bytes-per-token", "100000", "--prefill-rate", "4000", "--gpu-price", "2"]);
    args.extend(["--gib-price", "0.01", "--json", "--per-request"]);
    let run = kvset(&["replay"]).args(args).arg(&rows).arg(&trace).assert().success().get_output().clone();
    let result: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let page = number(&result["trace"]["page_size"]);
    let read = |path: &std::path::Path| -> Vec<Value> {
        let text = std::fs::read_to_string(path).expect("rows");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let (mut computed, mut times) = (0.0, Vec::new());
    for (row, request) in read(&rows).iter().zip(read(&trace)) {
        let prompt = number(&request["input_length"]);
        let (own, tier) = (number(&row["prefix_hits"][0]), number(&row["below_hits"][0][0]));
        let seconds = (prompt - (own + tier) * page).max(0.0) / 4000.0;
        computed += seconds;
        times.push(seconds + tier * page * 100_000.0 / f64::from(1 << 30));
    }
    times.sort_by(f64::total_cmp);
    let at = &result["worth"]["capacities"][0];
    assert!(near(number(&at["accelerator_hours"]), computed / 3600.0));
    let median = times[times.len().div_ceil(2) - 1] * 1000.0;
    assert!((number(&at["time_to_first_token"]["p50_ms"]) - median).abs() < 0.1, "{median}");
    let gib = |pages: f64| pages * page * 100_000.0 / f64::from(1 << 30);
    let memory = (gib(500.0) * 0.01 + gib(9000.0) * 0.002) * 24.0;
    assert!(near(number(&at["memory_a_day"]), memory), "{memory}");
    assert_eq!(result["worth"]["tiers"][0]["bandwidth"], 1 << 30);
}

#[test]
fn what_a_tier_costs_is_refused_where_it_means_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    kvset(&["generate", "--requests", "20", "--output"]).arg(&trace).assert().success();
    let engine = ["replay", "--engine", "vllm", "--capacities", "50p", "--below"];
    for (below, more, reason) in [
        ("lmcache:90p:bandwidth=1GiB", &[][..], "give --prefill-rate"),
        ("lmcache:90p:bandwidth=1GiB", &["--prefill-rate", "9"][..], "give --kv-bytes-per-token"),
        ("lmcache:90p:bandwidth=5p", &[][..], "bytes per second"),
        ("lmcache:90p:price=-1", &[][..], "price is a number"),
        ("lmcache:90p:policy=arc", &[][..], "`policy=arc` is no option of lmcache"),
        ("vllm-offload:90p:policy=x,price=1", &[][..], "policy"),
        ("vllm-offload:90p:threshold=2", &[][..], "blocks_per_chunk=N, bandwidth=SIZE or price=X"),
    ] {
        let run = kvset(&engine).arg(below).args(more).arg(&trace).assert().code(2).get_output().clone();
        let said = String::from_utf8(run.stderr).expect("UTF-8");
        assert!(said.contains(reason), "{below} {more:?}: {said}");
    }
}

/// Several engines side by side left out what was asked alongside the curve.
#[test]
fn several_engines_each_say_what_their_cache_is_worth_and_what_restarts_cost() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    kvset(&["generate", "--requests", "400", "--output"]).arg(&trace).assert().success();
    let asked = ["--engine", "vllm,paper", "--overlap", "off", "--prefill-rate", "9000", "--restarts"];
    let run = kvset(&["replay"]).args(asked).arg(&trace).assert().success().get_output().clone();
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    for title in ["What the cache is worth", "What an emptied cache costs"] {
        for engine in ["vllm", "paper"] {
            assert!(text.contains(&format!("\n{engine}: {title}")), "{text}");
        }
    }
    let plain =
        kvset(&["replay", "--engine", "vllm,paper"]).arg(&trace).assert().success().get_output().clone();
    let text = String::from_utf8(plain.stdout).expect("UTF-8");
    assert!(!text.contains("worth") && !text.contains("emptied"), "nobody asked: {text}");
}
