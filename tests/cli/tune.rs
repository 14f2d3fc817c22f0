//! `kvset tune`: what is set wrong is found first, with the figures that a replay of the change has.

use crate::support::program::{WITHOUT_CERTAINTY, kvset};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn json_of(command: &str, trace: &Path, args: &[&str]) -> Value {
    let less: &[&str] = if command == "replay" { &WITHOUT_CERTAINTY } else { &[] };
    let run =
        kvset(&[command, "--json"]).args(less).args(args).arg(trace).assert().success().get_output().clone();
    serde_json::from_slice(&run.stdout).expect("JSON")
}

fn tune(trace: &Path, args: &[&str]) -> Value {
    json_of("tune", trace, args)
}

/// A trace of growing sessions.
fn generated(directory: &Path, requests: &str) -> PathBuf {
    let trace = directory.join("trace.jsonl");
    kvset(&["generate", "--requests", requests, "--output"]).arg(&trace).assert().success();
    trace
}

fn change<'r>(result: &'r Value, name: &str) -> &'r Value {
    let all = result["changes"].as_array().expect("changes");
    all.iter().find(|tried| tried["change"] == name).unwrap_or_else(|| panic!("{name}: {result:#}"))
}

#[test]
fn a_change_finds_what_a_replay_of_it_finds() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "900");
    for engine in ["paper", "vllm", "sglang"] {
        let result = tune(&trace, &["--engine", engine, "--provisioned", "2000p"]);
        let hits = |capacity: &str| {
            let args = ["--engine", engine, "--capacities", capacity];
            json_of("replay", &trace, &args)["capacities"][0]["prefix_hits"].clone()
        };
        assert_eq!(result["base"]["hit_pages"], hits("2000p"), "{engine}");
        assert_eq!(change(&result, "capacity x 2")["hit_pages"], hits("4000p"), "{engine}");
        assert_eq!(change(&result, "fp8 cache (twice the pages)")["hit_pages"], hits("4000p"), "{engine}");
        assert_eq!(change(&result, "capacity x 0.75")["hit_pages"], hits("1500p"), "{engine}");
        let page_size = result["base"]["page_size"].as_u64().expect("a size");
        let tokens = result["base"]["hit_pages"].as_u64().expect("hits") * page_size;
        assert_eq!(result["base"]["hit_tokens"], tokens);
        let exactness = if engine == "sglang" { "pointwise" } else { "exact" };
        assert_eq!(change(&result, "capacity x 2")["exactness"], exactness);
    }
}

/// The path of a model's config.
fn config(model: &str) -> String {
    format!("{}/tests/fixtures/model/{model}.json", env!("CARGO_MANIFEST_DIR"))
}

/// Twice the pages were offered of every model, of one whose cache is in FP8 already, too.
#[test]
fn a_cache_in_eight_bits_is_what_a_replay_takes_it_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "900");
    let deepseek = config("deepseek-v3.2");
    let args = ["--engine", "vllm", "--model-config", &deepseek];
    let result = tune(&trace, &[&args[..], &["--provisioned", "8GiB"]].concat());
    let replayed =
        json_of("replay", &trace, &[&args[..], &["--kv-dtype", "fp8", "--capacities", "8GiB"]].concat());
    let hits = &replayed["capacities"][0]["prefix_hits"];
    assert_eq!(&change(&result, "--kv-dtype fp8")["hit_pages"], hits);

    let declared = directory.path().join("fp8.json");
    let llama = std::fs::read_to_string(config("llama-3.1-8b")).expect("a config");
    let mut llama: Value = serde_json::from_str(&llama).expect("JSON");
    llama["quantization_config"] =
        json!({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}});
    std::fs::write(&declared, llama.to_string()).expect("written");
    let declared = declared.to_str().expect("text");
    let result = tune(&trace, &["--engine", "vllm", "--model-config", declared, "--provisioned", "8GiB"]);
    let changes = result["changes"].as_array().expect("changes");
    assert!(changes.iter().all(|tried| !tried["change"].to_string().contains("fp8")), "{changes:#?}");
}

/// `tune` offered a page that `replay` refuses.
#[test]
fn pages_that_hold_no_state_are_not_offered() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("ids.jsonl");
    let row = |turn: usize| json!({"timestamp": turn, "token_ids": (0..1100 * turn).collect::<Vec<_>>()});
    let rows = (1..5).map(|turn| format!("{}\n", row(turn))).collect::<String>();
    std::fs::write(&trace, rows).expect("written");
    let qwen = config("qwen3-next-80b-a3b");
    let args = ["--engine", "vllm", "--page-size", "544", "--model-config", &qwen, "--provisioned", "1GiB"];
    let result = tune(&trace, &args);
    for (name, least) in
        [("--page-size 136", "544 tokens or more"), ("--kv-dtype fp8", "1072 tokens or more")]
    {
        let why = change(&result, name)["impossible"].as_str().expect("a reason").to_owned();
        assert!(why.contains(least), "{name}: {why}");
    }
}

#[test]
fn changes_are_ranked_and_impossible_ones_say_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let result = tune(&generated(directory.path(), "600"), &["--provisioned", "1000p"]);
    let all = result["changes"].as_array().expect("changes");
    let (mut last, mut impossible) = (i64::MAX, 0);
    for tried in all {
        match tried["hit_tokens"].as_i64() {
            Some(tokens) => {
                assert!(tokens <= last && impossible == 0 && tried["impossible"].is_null(), "{result:#}");
                last = tokens;
                let points = (tokens - result["base"]["hit_tokens"].as_i64().expect("hits")) as f64 * 100.0
                    / result["base"]["prompt_tokens"].as_f64().expect("tokens");
                assert!((tried["points"].as_f64().expect("points") - points).abs() < 1e-9);
            }
            None => {
                impossible += 1;
                assert!(tried["impossible"].as_str().is_some_and(|why| why.len() > 20), "{tried}");
            }
        }
    }
    assert!(impossible > 0, "pages smaller than those of the log cannot be had: {result:#}");
    let mut pairs = result["pairs"].as_array().expect("pairs").iter();
    assert!(pairs.all(|pair| pair["hit_tokens"].as_i64() > all[0]["hit_tokens"].as_i64()));
}

#[test]
fn the_result_hangs_on_no_number_of_threads() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "500");
    let args = ["--router", "round-robin:4", "--provisioned", "3000p"];
    let with = |threads: &str| tune(&trace, &[&args[..], &["--threads", threads]].concat());
    assert_eq!(with("1"), with("3"));
}

#[test]
fn a_router_that_spreads_sessions_is_found_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "1500");
    let result = tune(&trace, &["--router", "round-robin:4", "--provisioned", "1000000p"]);
    let first = result["changes"][0]["change"].as_str().expect("a name");
    assert!(first.starts_with("--router") && !first.contains("round-robin"), "{result:#}");
}

#[test]
fn a_time_to_live_that_is_too_short_is_found_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "1500");
    let result = tune(&trace, &["--ttl", "2s", "--provisioned", "1000000p"]);
    assert_eq!(result["changes"][0]["change"], "no --ttl (kept until evicted)", "{result:#}");
}

/// Prompts of tokens whose sessions grow by a little each turn.
fn tokens(directory: &Path, sessions: u32, turns: u32, more: u32) -> PathBuf {
    let mut lines = String::new();
    for turn in 1..=turns {
        for session in 0..sessions {
            let ids: Vec<u32> = (0..turn * more).map(|token| session * 100_000 + token).collect();
            let at = (turn * sessions + session) * 1000;
            let row = json!({"token_ids": ids, "session_id": session.to_string(), "timestamp": at});
            writeln!(lines, "{row}").expect("a string");
        }
    }
    let trace = directory.join("tokens.jsonl");
    std::fs::write(&trace, lines).expect("a trace");
    trace
}

#[test]
fn pages_and_chunks_that_are_too_large_are_found_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = tokens(directory.path(), 20, 12, 90);
    let result = tune(&trace, &["--page-size", "512", "--provisioned", "10000p"]);
    let first = result["changes"][0]["change"].as_str().expect("a name");
    assert!(first.starts_with("--page-size"), "{result:#}");
    let size = first.trim_start_matches("--page-size ");
    let args = [
        "--page-size",
        size,
        "--capacities",
        &format!("{}p", 10_000 * 512 / size.parse::<u64>().expect("a size")),
    ];
    assert_eq!(
        result["changes"][0]["hit_pages"],
        json_of("replay", &trace, &args)["capacities"][0]["prefix_hits"]
    );
    let args =
        ["--engine", "lmcache", "--page-size", "16", "--chunk-tokens", "2048", "--provisioned", "100000p"];
    let result = tune(&trace, &args);
    assert!(
        result["changes"][0]["change"].as_str().expect("a name").starts_with("--chunk-tokens"),
        "{result:#}"
    );
}

#[test]
fn a_tier_below_counts_with_what_it_finds() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "600");
    let args = ["--engine", "vllm", "--below", "lmcache:8000p"];
    let result = tune(&trace, &[&args[..], &["--provisioned", "500p"]].concat());
    let replayed = json_of("replay", &trace, &[&args[..], &["--capacities", "500p"]].concat());
    let point = &replayed["capacities"][0];
    let found = |hits: &Value| hits.as_u64().expect("hits");
    assert_eq!(
        found(&result["base"]["hit_pages"]),
        found(&point["prefix_hits"]) + found(&point["below"][0]["page_hits"])
    );
    assert!(change(&result, "no tiers below")["points"].as_f64() <= Some(0.0), "{result:#}");
}

/// The tier was modelled below one cache, and its hits added to those of replicas, but not to their hours.
#[test]
fn a_tier_below_replicas_is_told_to_be_impossible() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "300");
    let args = ["--engine", "vllm", "--router", "round-robin:2", "--provisioned", "500p"];
    let result = tune(&trace, &args);
    let tiers = result["changes"].as_array().expect("changes").iter();
    let tiers: Vec<_> =
        tiers.filter(|tried| tried["change"].as_str().is_some_and(|name| name.contains("below"))).collect();
    assert!(!tiers.is_empty(), "{result:#}");
    for tier in tiers {
        assert!(tier["impossible"].as_str().is_some_and(|why| why.contains("leave out --below")), "{tier}");
    }
}

#[test]
fn pages_of_a_log_are_merged_into_larger_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = tokens(directory.path(), 10, 8, 200);
    let by_tokens = tune(&trace, &["--page-size", "16", "--provisioned", "100000p"]);
    // The same log with page ids in place of tokens.
    let mut lines = String::new();
    for line in std::fs::read_to_string(&trace).expect("a trace").lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let ids: Vec<u64> = row["token_ids"]
            .as_array()
            .expect("tokens")
            .iter()
            .map(|id| id.as_u64().expect("an id"))
            .collect();
        let pages: Vec<u64> = ids.chunks(16).map(|page| page[0] * 1000 + page.len() as u64).collect();
        let row = json!({"timestamp": row["timestamp"], "input_length": ids.len(), "output_length": 1, "hash_ids": pages});
        writeln!(lines, "{row}").expect("a string");
    }
    let pages = directory.path().join("pages.jsonl");
    std::fs::write(&pages, lines).expect("a trace");
    let by_pages = tune(&pages, &["--format", "mooncake", "--page-size", "16", "--provisioned", "100000p"]);
    for size in ["--page-size 32", "--page-size 64", "--page-size 128"] {
        assert!(change(&by_tokens, size)["hit_pages"].is_number(), "{size}: {by_tokens:#}");
        assert_eq!(change(&by_tokens, size)["hit_pages"], change(&by_pages, size)["hit_pages"], "{size}");
    }
    assert!(change(&by_pages, "--page-size 8")["impossible"].is_string());
}

#[test]
fn what_is_no_one_configuration_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "20");
    for args in [
        &["--engine", "paper,vllm"][..],
        &["--router", "hash:2", "--router", "hash:3"],
        &["--ttl", "1m,2m"],
        &["--router", "hash:2", "--ttl", "1m"],
        &["--capacities", "10p,20p"],
        &["--report", "x.html"],
        &["--engine", "sglang"],
    ] {
        let run = kvset(&["tune"]).args(args).arg(&trace).assert().code(2).get_output().clone();
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn under_other_traffic_a_change_finds_what_a_replay_of_that_traffic_finds() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "1500");
    let traffic = ["--engine", "vllm", "--traffic", "2"];
    let result = tune(&trace, &[&traffic[..], &["--provisioned", "2000p"]].concat());
    let rate = |capacity: &str| {
        let replayed = json_of("replay", &trace, &[&traffic[..], &["--capacities", capacity]].concat());
        let grown = &replayed["traffic"][0];
        grown["capacities"][0]["hit_rate_tokens"].as_f64().expect("a rate")
    };
    let at = |tried: &Value| tried["at_traffic"][0]["hit_rate_tokens"].as_f64().expect("a rate");
    for (tried, capacity) in [
        (&result["base"], "2000p"),
        (change(&result, "capacity x 2"), "4000p"),
        (change(&result, "capacity x 0.75"), "1500p"),
    ] {
        assert!((at(tried) - rate(capacity)).abs() < 1e-9, "{tried}: {}", rate(capacity));
        let points = (at(tried) - at(&result["base"])) * 100.0;
        assert!(
            (tried["at_traffic"][0]["points"].as_f64().expect("points") - points).abs() < 1e-9,
            "{tried}"
        );
    }
    // More of everything needs more: the same memory finds less of it.
    assert!(at(&result["base"]) < result["base"]["hit_rate_tokens"].as_f64().expect("a rate"));
    let impossible =
        result["changes"].as_array().expect("changes").iter().filter(|tried| tried["impossible"].is_string());
    assert!(
        impossible.clone().count() > 0 && impossible.into_iter().all(|tried| tried["at_traffic"].is_null())
    );
    let args = ["tune", "--engine", "vllm", "--traffic", "2", "--provisioned", "2000p"];
    let text = kvset(&args).arg(&trace).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.contains("At twice the traffic it finds ") && text.contains("at 2 x"), "{text}");
}

#[test]
fn other_traffic_is_not_tuned_for_where_the_log_does_not_tell_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "40");
    let run = |args: &[&str]| {
        let output =
            kvset(&["tune", "--provisioned", "2000p"]).args(args).arg(&trace).output().expect("a run");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&["--traffic", "2"]);
    assert!(code == Some(1) && said.contains("--traffic: ") && said.contains("are too few"), "{said}");
    let (code, said) = run(&["--certainty", "on"]);
    assert!(code == Some(2) && said.contains("--certainty is of a replay"), "{said}");
}

#[test]
fn what_the_cache_is_worth_at_twice_the_traffic_is_what_the_grown_log_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), "1500");
    let grown = directory.path().join("grown.jsonl");
    let worth = ["--prefill-rate", "8000", "--gpu-price", "2.5", "--capacities", "2000p"];
    let traffic = ["--traffic", "2", "--traffic-log", grown.to_str().expect("a path")];
    let asked = json_of("replay", &trace, &[&worth[..], &traffic].concat());
    let replayed = json_of("replay", &grown, &worth);
    let (then, now) = (&asked["traffic"][0]["worth"], &asked["worth"]);
    let hours = |worth: &Value, of: &str| worth[of]["accelerator_hours"].as_f64().expect("hours");
    for of in ["without_cache", "unlimited"] {
        let ratio = hours(then, of) / hours(&replayed["worth"], of);
        // The grown log goes on until its last copy has ended, which counts nothing behind the log's own end.
        assert!((0.9..=1.0).contains(&ratio), "{of}: {ratio}");
    }
    let ratio = hours(then, "without_cache") / hours(now, "without_cache");
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
    let mut command = kvset(&["replay", "--traffic", "2"]);
    let text = command
        .args(WITHOUT_CERTAINTY)
        .args(worth)
        .arg(&trace)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.contains("Without a cache twice the traffic needs "), "{text}");
}
