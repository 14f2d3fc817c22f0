//! Certainty and other traffic: against an independent program's figures, and what must hold of any log.

use crate::support::program::kvset;
use crate::support::shared::{read_shared, shared_path};
use kvset::core::engines::profile::Profile;
use kvset::core::families::overlay::TrafficGrowth;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::window::WindowKind;
use kvset::replay::{
    Extras, FamilyLog, Replay, ReplayOptions, TrafficBy, TrafficStatus, WarmUp, certainty, replay,
};
use kvset::trace::ReadOptions;
use kvset_core::engines::config::CacheConfig;
use kvset_core::estimate::config::PoolConfig;
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What an independent program says of a part of a trace.
#[derive(Deserialize)]
struct Golden {
    trace: String,
    k: f64,
    log: Figures,
    predicted: Figures,
    rows: Vec<usize>,
}

#[derive(Deserialize)]
struct Figures {
    p95: u64,
    p99: u64,
    p999: u64,
    requests: u64,
    distinct_pages: u64,
    families: Option<usize>,
    se: Option<[f64; 3]>,
}

fn options(trace: PathBuf) -> ReplayOptions {
    let coverages = ["0.5", "0.95", "0.99", "0.999"].map(|text| text.parse::<Ratio>().expect("a share"));
    ReplayOptions {
        traces: vec![trace],
        read: ReadOptions::default(),
        pool: PoolConfig {
            cache: CacheConfig {
                profile: Profile::Paper,
                coverages: coverages.into(),
                ..CacheConfig::default()
            },
            windows: vec![WindowKind::All],
            ..PoolConfig::default()
        },
        warm_up: WarmUp::Requests(0),
        pool_name: None,
        skip_bad_rows: false,
        extras: Extras::default(),
        provisioned: None,
        threads: 2,
    }
}

fn required(replay: &Replay) -> Vec<Option<u64>> {
    let whole = replay.whole.as_ref().expect("requests");
    whole.required[0].coverage.iter().map(|found| found.pages).collect()
}

/// The lines of a trace of which golden files have parts.
fn lines(trace: &str) -> Option<Vec<String>> {
    let text = match trace {
        "mooncake_synthetic" => read_shared("traces/mooncake_synthetic_trace.jsonl")?,
        _ => {
            let packed =
                std::fs::File::open(shared_path("traces/weka_claude_code_week.jsonl.zst")?).expect("a trace");
            let text = zstd::decode_all(packed).expect("a packed trace");
            String::from_utf8(text).expect("text")
        }
    };
    Some(text.lines().map(str::to_owned).collect())
}

fn equals_the_independent_figures(name: &str) {
    let Some(text) = read_shared(&format!("golden/growth/{name}.json")) else { return };
    let golden: Golden = serde_json::from_str(&text).expect("a golden file");
    let Some(lines) = lines(&golden.trace) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log.jsonl");
    let rows: Vec<&str> = golden.rows.iter().map(|row| lines[*row].as_str()).collect();
    std::fs::write(&path, rows.join("\n")).expect("a file");
    let options = options(path);
    let log = FamilyLog::read(&options, &TrafficBy::Conversation, &mut |_| {}).expect("a log");
    assert_eq!(Some(log.families().count()), golden.log.families, "{name}");
    let status = match log.families().count() {
        ..30 => TrafficStatus::TooFewConversations,
        30..100 => TrafficStatus::FewConversations,
        _ => TrafficStatus::Ready,
    };
    assert_eq!(log.traffic_status(), status, "{name}");
    let found = certainty(&log, &options).expect("replays");
    let errors = golden.log.se.expect("errors");
    for (interval, error) in found.required.iter().flatten().skip(1).zip(errors) {
        let found = interval.standard_error;
        assert!(found.is_none_or(|found| (found - error).abs() < 1e-4), "{name}: {found:?}, not {error}");
    }
    let growth = TrafficGrowth { factor: golden.k, seed: 1 };
    for (factor, expected) in [(1.0, &golden.log), (golden.k, &golden.predicted)] {
        let grown = log.overlaid(&options, TrafficGrowth { factor, ..growth }, 1, 2).expect("a replay");
        let pages = [expected.p95, expected.p99, expected.p999].map(Some);
        assert_eq!(required(&grown)[1..], pages, "{name} at {factor}");
        let requests = grown.whole.as_ref().expect("requests").requests;
        assert_eq!((requests, grown.distinct_pages.0), (expected.requests, expected.distinct_pages));
    }
}

#[test]
fn many_short_conversations_grow_as_in_an_independent_program() {
    ["k2_0", "k2_1", "k2_2", "k4_0", "k4_1"]
        .iter()
        .for_each(|draw| equals_the_independent_figures(&format!("mooncake_synthetic_{draw}")));
}

#[test]
fn few_long_conversations_grow_as_in_an_independent_program() {
    ["k2_0", "k4_0"].iter().for_each(|draw| equals_the_independent_figures(&format!("weka_week_{draw}")));
}

/// Conversations that take turns and grow; each begins with one of three system prompts.
fn conversations(folder: &Path, count: u64, turns: u64) -> PathBuf {
    let mut text = String::new();
    for number in 0..count * turns {
        let (session, turn) = (number * 7 % count, number / count);
        let shared = (0..8).map(|page| session % 3 * 100 + page);
        let own = (0..4 + turn * 3 + session % 5).map(|page| 10_000 * (session + 1) + page);
        let ids: Vec<String> = shared.chain(own).map(|id| id.to_string()).collect();
        writeln!(
            text,
            r#"{{"timestamp":{},"session_id":"s{session}","tenant":"t{}","input_length":{},"block_size":16,"hash_ids":[{}]}}"#,
            number * 40_000,
            session % 2,
            ids.len() * 16,
            ids.join(",")
        )
        .expect("memory");
    }
    let path = folder.join("conversations.jsonl");
    std::fs::write(&path, text).expect("a file");
    path
}

fn result(args: &[&str]) -> serde_json::Value {
    let run = kvset(&[&["replay", "--json"], args].concat()).assert().success();
    serde_json::from_slice(&run.get_output().stdout).expect("JSON")
}

#[test]
fn the_traffic_of_the_log_is_the_plain_replay() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = conversations(folder.path(), 60, 6);
    let options = options(trace);
    let plain = replay(&options, None, &mut |_| {}).expect("a replay");
    let log = FamilyLog::read(&options, &TrafficBy::Conversation, &mut |_| {}).expect("a log");
    assert_eq!((log.families().count(), log.traffic_status()), (60, TrafficStatus::FewConversations));
    let same = log.overlaid(&options, TrafficGrowth { factor: 1.0, seed: 5 }, 1, 1).expect("a replay");
    assert_eq!(same.whole, plain.whole);
}

#[test]
fn the_result_does_not_depend_on_the_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = conversations(folder.path(), 60, 6);
    let path = trace.to_str().expect("a path");
    let of = |threads: &str| {
        result(&["--traffic", "0.5,1,1.5,2", "--capacities", "100p,1000p", "--threads", threads, path])
    };
    let one = of("1");
    assert_eq!(one, of("3"));
    let factors = one["traffic"].as_array().expect("factors");
    let pages = |at: usize| factors[at]["required"][0]["coverage"][3]["pages"].as_u64().expect("pages");
    assert!(pages(0) < pages(1) && pages(1) < pages(2) && pages(2) < pages(3));
    assert_eq!(factors[1]["required"], one["required"]);
    assert_eq!((&factors[3]["seeds"], &factors[3]["status"]), (&3.into(), &"few_conversations".into()));
    assert_eq!(one["certainty"]["by"], "session");
    let entry = &one["required"][0]["coverage"][3];
    assert!(entry["low"].as_u64() <= entry["pages"].as_u64(), "{entry}");
    assert!(entry["high"].as_u64() >= entry["pages"].as_u64() && entry["conversations_above"].is_u64());
}

/// What 99.9 % of 1,000 requests need is one request's.
#[test]
fn a_coverage_with_nobody_above_it_is_not_stated() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = conversations(folder.path(), 125, 8);
    let result = result(&[trace.to_str().expect("a path")]);
    let entry = &result["required"][0]["coverage"][4];
    assert_eq!(entry["coverage"], 0.999);
    assert!(["rough", "not_stated"].contains(&entry["status"].as_str().expect("a status")), "{entry}");
}

#[test]
fn a_log_of_few_conversations_or_of_two_tenants_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = conversations(folder.path(), 18, 6);
    let path = trace.to_str().expect("a path");
    let found = result(&["--traffic", "2", path]);
    assert_eq!(found["certainty"]["status"], "too_few_conversations");
    assert_eq!(found["traffic"][0]["status"], "too_few_conversations");
    assert_eq!(found["traffic"][0]["required"], serde_json::json!([]));
    let says =
        |found: &serde_json::Value, text: &str| found["answer"]["sentences"].to_string().contains(text);
    assert!(says(&found, "18 conversations are too few to say how certain this is"));
    let log = folder.path().join("grown.jsonl");
    let refused = ["replay", "--traffic", "2", "--traffic-log", log.to_str().expect("a path"), path];
    kvset(&refused).assert().code(1);
    let wide = conversations(folder.path(), 60, 6);
    let by_tenant = result(&["--traffic", "2", "--traffic-by", "tenant", wide.to_str().expect("a path")]);
    assert!(by_tenant["certainty"]["conversations"].as_u64() < Some(30), "{}", by_tenant["certainty"]);
    let by_field = ["--traffic", "2", "--traffic-by", "field:session_id", wide.to_str().expect("a path")];
    assert_eq!(result(&by_field)["certainty"]["conversations"], 60);
}

#[test]
fn a_log_without_a_clock_is_refused_and_given_the_straight_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let request = |session: u64, turn: u64| {
        let own = (0..4 + turn * 3).map(|page| (10_000 * (session + 1) + page).to_string());
        let ids: Vec<String> = own.collect();
        format!(r#"{{"t":{turn},"in":{},"out":1,"hash_ids":[{}]}}"#, ids.len() * 64, ids.join(","))
    };
    let session = |session: u64| {
        let requests: Vec<String> = (0..6).map(|turn| request(session, turn)).collect();
        format!(r#"{{"id":"s{session}","block_size":64,"requests":[{}]}}"#, requests.join(","))
    };
    let trace = folder.path().join("sessions.jsonl");
    std::fs::write(&trace, (0..60).map(session).collect::<Vec<_>>().join("\n")).expect("a file");
    let found = result(&["--traffic", "2", trace.to_str().expect("a path")]);
    let factor = &found["traffic"][0];
    assert_eq!(factor["status"], "no_clock");
    assert!(factor["check"]["straight_line_pages"].is_u64() && factor["check"]["from_halves"].is_null());
    assert!(found["answer"]["sentences"].to_string().contains("it needs no clock"));
}

#[test]
fn a_grown_log_is_a_trace_and_every_engine_takes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = conversations(folder.path(), 60, 6);
    let (path, log) = (trace.to_str().expect("a path"), folder.path().join("grown.jsonl"));
    let written = log.to_str().expect("a path");
    let once = result(&["--traffic", "1", "--traffic-log", written, path]);
    let again = result(&[written]);
    assert_eq!((&again["required"], &again["theoretical"]), (&once["required"], &once["theoretical"]));
    let twice = result(&["--traffic", "2", "--traffic-log", written, path]);
    let grown = result(&[written]);
    assert_eq!(grown["trace"]["requests"], 720);
    assert!(twice["traffic"][0]["requests"].as_u64() <= Some(720));
    for engine in [&["--engine", "sglang"][..], &["--engine", "vllm", "--below", "lmcache:2000p"]] {
        let args = [engine, &["--capacities", "800p", "--page-size", "16", "--traffic", "2", path]].concat();
        let found = result(&args);
        let rate = |found: &serde_json::Value| found["capacities"][0]["prefix_hit_rate"].as_f64();
        assert!(rate(&found["traffic"][0]) < rate(&found), "{engine:?}: more traffic finds less");
    }
    let tiers = ["--tier", "a:0.9:100p", "--tier", "b:0.99:100p", "--kv-bytes-per-token", "16"];
    let tiers = [&tiers[..], &["--traffic", "2", path]].concat();
    kvset(&[&["replay", "--json"][..], &tiers].concat()).assert().success();
}
