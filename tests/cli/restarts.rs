//! `kvset replay --restarts`: what a restart loses, against a cache kept page by page that is emptied at the hour.

use super::page_lru::PageLru;
use crate::support::program::{WITHOUT_CERTAINTY, kvset};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const HOUR_MS: u64 = 3_600_000;

const PAGE: u64 = 256;

/// Tokens a second.
const RATE: f64 = 5000.0;

/// Price of an accelerator for an hour.
const PRICE: f64 = 2.5;

struct Request {
    time_ms: u64,
    tokens: u64,
    ids: Vec<u64>,
}

fn generated(directory: &Path, more: &[&str]) -> PathBuf {
    let trace = directory.join("trace.jsonl");
    let sizes =
        ["--page-size", "256", "--system-tokens", "1500", "--turn-tokens", "400", "--output-tokens", "300"];
    kvset(&["generate", "--output"]).arg(&trace).args(sizes).args(more).assert().success();
    trace
}

fn requests(trace: &Path) -> Vec<Request> {
    let text = std::fs::read_to_string(trace).expect("a trace");
    let request = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let ids = row["hash_ids"].as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id"));
        Request {
            time_ms: row["timestamp"].as_u64().expect("a time"),
            tokens: row["input_length"].as_u64().expect("a length"),
            ids: ids.collect(),
        }
    };
    text.lines().map(request).collect()
}

fn replay(trace: &Path, args: &[&str]) -> Value {
    let run = kvset(&["replay", "--restarts", "--json"])
        .args(WITHOUT_CERTAINTY)
        .args(args)
        .arg(trace)
        .assert()
        .success()
        .get_output()
        .clone();
    serde_json::from_slice(&run.stdout).expect("JSON")
}

/// Tokens that each request finds in a cache that holds nothing before the first of these.
fn found(requests: &[Request], capacity: usize, engine: &str) -> Vec<u64> {
    let mut cache = PageLru::new(capacity, capacity);
    let serve = |request: &Request| {
        let hits = match engine {
            "paper" => cache.access_page_by_page(&request.ids),
            _ => cache.access(&request.ids),
        };
        (hits * PAGE).min(request.tokens)
    };
    requests.iter().map(serve).collect()
}

/// What a restart at this time loses of each request within a day: whole minutes since the restart, and tokens.
fn lost(
    requests: &[Request],
    whole: &[u64],
    (capacity, engine): (usize, &str),
    time_ms: u64,
) -> Vec<(u64, u64)> {
    let at = |time_ms: u64| requests.partition_point(|request| request.time_ms < time_ms);
    let (first, end) = (at(time_ms), at(time_ms + 24 * HOUR_MS));
    let later = &requests[first..end];
    let found = found(later, capacity, engine);
    let lost = whole[first..end].iter().zip(&found).map(|(whole, found)| whole - found);
    later.iter().map(|request| (request.time_ms - time_ms) / 60_000 + 1).zip(lost).collect()
}

/// The tokens lost, and minutes until 95 % of them are.
fn sums(mut lost: Vec<(u64, u64)>) -> (u64, Option<u64>) {
    lost.sort_unstable();
    let total: u64 = lost.iter().map(|(_, tokens)| tokens).sum();
    let mut sum = 0;
    let warm = lost.iter().find(|(_, tokens)| {
        sum += tokens;
        total > 0 && sum * 100 >= total * 95
    });
    (total, warm.map(|(minutes, _)| *minutes))
}

#[test]
fn a_restart_loses_what_a_cache_emptied_at_the_hour_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), &["--requests", "1600", "--sessions-per-day", "30"]);
    let requests = requests(&trace);
    let engines: [(&str, &[&str]); 2] = [("paper", &[]), ("leaf-first", &["--overlap", "off"])];
    for (engine, more) in engines {
        let mut args =
            vec!["--engine", engine, "--provisioned", "200p", "--prefill-rate", "5000", "--gpu-price", "2.5"];
        args.extend(more);
        let result = replay(&trace, &args);
        let sizes = result["restarts"]["sizes"].as_array().expect("sizes");
        assert_eq!(sizes[0]["pages"], 200);
        assert_eq!(
            (&sizes[0]["provisioned"], &sizes[1]["recommended"]),
            (&Value::Bool(true), &Value::Bool(true))
        );
        for size in sizes {
            let capacity = size["pages"].as_u64().expect("pages") as usize;
            let whole = found(&requests, capacity, engine);
            let hours = requests[0].time_ms / HOUR_MS + 1..=requests[requests.len() - 1].time_ms / HOUR_MS;
            let restarts = size["restarts"].as_array().expect("restarts");
            assert_eq!(restarts.len() as u64, hours.end() - hours.start() + 1, "{engine}");
            assert!(restarts.len() > 24, "the trace is longer than a day");
            let mut by_hour: BTreeMap<u64, Vec<Vec<(u64, u64)>>> = BTreeMap::new();
            for (hour, restart) in hours.zip(restarts) {
                let of_requests = lost(&requests, &whole, (capacity, engine), hour * HOUR_MS);
                let (tokens, warm) = sums(of_requests.clone());
                assert_eq!(restart["time_ms"], hour * HOUR_MS);
                assert_eq!(restart["tokens"], tokens, "{engine} {capacity} at hour {hour}");
                assert_eq!(restart["warm_minutes"].as_u64(), warm, "{engine} {capacity} at hour {hour}");
                let seconds = tokens as f64 / RATE;
                let near = |value: &Value, expected: f64| {
                    (value.as_f64().expect("a number") - expected).abs() < 1e-6 * expected.max(1.0)
                };
                assert!(near(&restart["prefill_seconds"], seconds), "{restart}");
                assert!(near(&restart["money"], seconds / 3600.0 * PRICE), "{restart}");
                by_hour.entry(hour % 24).or_default().push(of_requests);
            }
            let rows = size["hours"].as_array().expect("hours");
            assert_eq!(rows.len(), by_hour.len());
            for (row, (hour, days)) in rows.iter().zip(by_hour) {
                assert_eq!(
                    (row["hour"].as_u64(), row["restarts"].as_u64()),
                    (Some(hour), Some(days.len() as u64))
                );
                let each: Vec<u64> = days.iter().map(|lost| sums(lost.clone()).0).collect();
                let (all, warm) = sums(days.concat());
                assert_eq!(row["tokens"], all, "{row}");
                assert_eq!(row["most_tokens"].as_u64(), each.into_iter().max());
                assert_eq!(row["warm_minutes"].as_u64(), warm);
            }
        }
    }
}

/// The same of requests that overlap: a replay that begins at the restart finds so much less.
#[test]
fn a_restart_under_requests_that_overlap_loses_what_a_replay_from_there_does_not_find() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, rows) = (directory.path().join("trace.jsonl"), directory.path().join("rows.jsonl"));
    let later = directory.path().join("later.jsonl");
    kvset(&["generate", "--requests", "1000", "--output"]).arg(&trace).assert().success();
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let requests = requests(&trace);
    for capacity in ["1000000p", "3000p"] {
        let args = ["--engine", "vllm", "--capacities", capacity, "--min-requests", "100000"];
        let per_request = ["--per-request", rows.to_str().expect("a path")];
        let result = replay(&trace, &[&args[..], &per_request].concat());
        assert!(result["in_flight"]["max_requests"].as_u64() > Some(1), "{}", result["in_flight"]);
        let hits = std::fs::read_to_string(&rows).expect("rows");
        let hits: Vec<u64> =
            hits.lines().map(|row| first_hits(&serde_json::from_str(row).expect("JSON"))).collect();
        let restarts = result["restarts"]["sizes"][0]["restarts"].as_array().expect("restarts");
        assert!(restarts.iter().any(|restart| restart["tokens"].as_u64() > Some(0)), "{restarts:?}");
        for restart in restarts {
            let time_ms = restart["time_ms"].as_u64().expect("a time");
            let first = requests.partition_point(|request| request.time_ms < time_ms);
            let lines: Vec<&str> = text.lines().skip(first).collect();
            std::fs::write(&later, lines.join("\n") + "\n").expect("a disk");
            let emptied = replay(&later, &args);
            let found = emptied["capacities"][0]["prefix_hits"].as_u64().expect("hits");
            let whole: u64 = hits[first..].iter().sum();
            assert_eq!(restart["tokens"], (whole - found) * 64, "{capacity}: {restart}");
        }
    }
}

fn first_hits(row: &Value) -> u64 {
    row["prefix_hits"][0].as_u64().expect("hits")
}

#[test]
fn restarts_are_the_same_with_any_number_of_threads_and_absent_where_nobody_asks() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), &["--requests", "600"]);
    for engine in ["paper", "vllm"] {
        let with =
            |threads| replay(&trace, &["--engine", engine, "--provisioned", "500p", "--threads", threads]);
        let one = with("1");
        assert_eq!(one, with("3"), "{engine}");
        let size = &one["restarts"]["sizes"][0];
        assert!(size["restarts"][2]["tokens"].as_u64() > Some(0), "{size}");
        assert!(size["restarts"][2]["prefill_seconds"].is_null() && size["hours"][0]["money"].is_null());
        let run = kvset(&["replay", "--json", "--engine", engine])
            .arg(&trace)
            .assert()
            .success()
            .get_output()
            .clone();
        let plain: Value = serde_json::from_slice(&run.stdout).expect("JSON");
        assert!(plain.get("restarts").is_none());
    }
}

#[test]
fn restarts_that_cannot_be_counted_are_refused_with_the_cure() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), &["--requests", "60"]);
    let untimed = directory.path().join("untimed.jsonl");
    let rows = "{\"token_ids\":[1,2,3,4]}\n".repeat(4);
    std::fs::write(&untimed, rows).expect("a disk");
    let decades = directory.path().join("decades.jsonl");
    let row = |time: u64| format!("{{\"timestamp\":{time},\"hash_ids\":[1,2],\"input_length\":1024}}\n");
    std::fs::write(&decades, row(1_000_000_000_000) + &row(1_900_000_000_000)).expect("a disk");
    for (trace, args, reason) in [
        (&trace, &["--engine", "sglang"][..], "--restarts needs an engine with one curve"),
        (
            &trace,
            &["--engine", "vllm", "--overlap", "off", "--capacities", "50p", "--below", "lmcache:90p"],
            "--below",
        ),
        (&trace, &["--sample-rate", "0.5"], "leave --sample-rate at 1"),
        (&trace, &["--provisioned", "500p", "--max-tracked-pages", "100"], "or raise --max-tracked-pages"),
        (&untimed, &[], "log the time of each request"),
        (&decades, &[], "more than ten years apart"),
    ] {
        let run =
            kvset(&["replay", "--restarts"]).args(args).arg(trace).assert().failure().get_output().clone();
        let said = String::from_utf8(run.stderr).expect("UTF-8");
        assert!(said.contains(reason), "{args:?}: {said}");
    }
    let run = kvset(&["tune", "--restarts"]).arg(&trace).assert().code(2).get_output().clone();
    assert!(String::from_utf8_lossy(&run.stderr).contains("--restarts is of a replay"));
}

#[test]
fn the_text_and_the_report_say_when_a_restart_loses_the_least() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path(), &["--requests", "600"]);
    let report = directory.path().join("report.html");
    let args =
        ["--restarts", "--provisioned", "500p", "--prefill-rate", "5000", "--gpu-price", "2.5", "--report"];
    let run = kvset(&["replay"]).args(args).arg(&report).arg(&trace).assert().success().get_output().clone();
    let (text, page) =
        (String::from_utf8(run.stdout).expect("UTF-8"), std::fs::read_to_string(&report).expect("a report"));
    for said in [&text, &page] {
        assert!(
            said.contains("What an emptied cache costs, by hour of the day (days begin with the trace)"),
            "{said}"
        );
        assert!(said.contains("500 pages (provisioned): a restart at"), "{said}");
        assert!(said.contains("warm after"), "{said}");
    }
    let short = generated(directory.path(), &["--requests", "4", "--start-ms", "50400000"]);
    let run = kvset(&["replay", "--restarts"]).arg(&short).assert().success().get_output().clone();
    assert!(
        String::from_utf8_lossy(&run.stdout).contains("no full hour"),
        "{}",
        String::from_utf8_lossy(&run.stdout)
    );
}
