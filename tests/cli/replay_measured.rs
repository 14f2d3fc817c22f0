//! `kvset replay --measured` and `--router`: the hits of real engines and of page-level caches give their
//! capacity back, and routers equal replays of the split trace.

use crate::page_lru::PageLru;
use crate::support::program::{WITHOUT_CERTAINTY, kvset};
use crate::support::shared::{golden, mooncake_trace, read_shared};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;

/// Runs a replay of these rows and gives its JSON.
pub fn replay<R: Display>(rows: &[R], args: &[&str]) -> Value {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for row in rows {
        writeln!(file, "{row}").expect("written");
    }
    file.flush().expect("written");
    run(file.path(), args)
}

fn run(trace: &Path, args: &[&str]) -> Value {
    let trace = trace.to_str().expect("UTF-8");
    let mut command = kvset(&[&["replay", "--json"], &WITHOUT_CERTAINTY[..], args, &[trace]].concat());
    let output = command.assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).expect("JSON")
}

pub fn effective(result: &Value) -> (u64, Option<u64>, f64, f64) {
    let found = &result["measured"]["effective_capacity"];
    let share = |name: &str| found[name].as_f64().expect("a share");
    (
        found["pages_from"].as_u64().expect("pages"),
        found["pages_to"].as_u64(),
        share("agreement"),
        share("agreement_by_pages"),
    )
}

/// Each capacity's hits, as vLLM's own cache classes answered them, written into the trace.
fn check_vllm(name: &str, outputs: &str) {
    let (Some(golden), Some(trace)) = (golden(name), mooncake_trace()) else { return };
    for capacity in &golden.results {
        let rows =
            trace.iter().zip(&capacity.per_request_prefix_hits).enumerate().map(|(at, (row, hits))| {
                json!({"timestamp": at, "input_length": row.input_length, "output_length": row.output_length,
                   "hash_ids": row.hash_ids, "cached_tokens": hits * u64::from(golden.page_size)})
            });
        let rows: Vec<_> = rows.collect();
        let args = ["--format", "mooncake", "--engine", "vllm", "--outputs", outputs];
        let result = replay(&rows, &args);
        let (from, to, agreement, by_pages) = effective(&result);
        let pages = capacity.capacity_pages;
        assert!(from <= pages && to.is_none_or(|to| pages <= to), "{from} to {to:?} of {pages}");
        assert_eq!((agreement, by_pages), (1.0, 1.0), "at {pages}");
        if pages <= 10_000 {
            assert_eq!((from, to), (pages, Some(pages)), "requests tell exactly");
        }
        let measured = &result["measured"];
        assert_eq!(measured["cached_pages"], json!(capacity.prefix_hits));
        assert_eq!(measured["ledger"]["measured_pages"], json!(capacity.prefix_hits));
        assert_eq!(
            measured["ledger"]["routed_pages"],
            json!(capacity.prefix_hits),
            "lost in the engine: none"
        );
        assert_eq!(measured["restarts"], json!([]));
    }
}

#[test]
fn vllms_own_hits_give_its_capacity_back_where_outputs_are_cached() {
    check_vllm("synthetic_vllm_output.json", "cached");
}

#[test]
fn vllms_own_hits_give_its_capacity_back_where_outputs_are_ignored() {
    check_vllm("synthetic_vllm_prefill.json", "ignored");
}

/// What a store's own classes, or a running one, answered at one capacity.
#[derive(Debug, serde::Deserialize)]
struct StoreRun {
    capacity_pages: u64,
    per_request_prefix_hits: Vec<u64>,
}

/// An engine that is modelled a capacity at a time gives back the capacity among those requested whose hits it has.
#[test]
fn lmcaches_own_hits_give_its_capacity_back_among_those_asked_for() {
    let Some((text, trace)) = read_shared("golden/synthetic_lmcache.json").zip(mooncake_trace()) else {
        return;
    };
    let mut golden: Value = serde_json::from_str(&text).expect("a golden file");
    let runs: Vec<StoreRun> = serde_json::from_value(golden["results"].take()).expect("runs");
    let asked: Vec<_> = runs.iter().map(|run| format!("{}p", run.capacity_pages)).collect();
    let asked = asked.join(",");
    let args =
        ["--format", "mooncake", "--engine", "lmcache", "--chunk-tokens", "512", "--capacities", &asked];
    for run in runs {
        let rows = trace.iter().zip(&run.per_request_prefix_hits).enumerate().map(|(at, (row, hits))| {
            json!({"timestamp": at, "input_length": row.input_length, "output_length": row.output_length,
                   "hash_ids": row.hash_ids, "cached_tokens": hits * 512})
        });
        let result = replay(&rows.collect::<Vec<_>>(), &args);
        let pages = run.capacity_pages;
        assert_eq!(effective(&result), (pages, Some(pages), 1.0, 1.0));
        let ledger = &result["measured"]["ledger"];
        let hits: u64 = run.per_request_prefix_hits.iter().sum();
        assert_eq!((&ledger["routed_pages"], &ledger["measured_pages"]), (&json!(hits), &json!(hits)));
    }
}

/// Two replicas of SGLang: each one's own replay of its part of the log says what it found.
#[test]
fn replicas_of_an_engine_without_a_curve_each_have_their_own_caches() {
    let rows: Vec<_> = (0..400_u64)
        .map(|at| {
            let ids: Vec<_> = (0..4 + at % 5).map(|page| 100 * (at * at % 61) + page).collect();
            let replica = format!("r{}", at * at % 3 % 2);
            (
                replica.clone(),
                json!({"timestamp": at, "input_length": 16 * ids.len(), "output_length": 0,
                                     "hash_ids": ids, "replica": replica}),
            )
        })
        .collect();
    let args =
        ["--format", "mooncake", "--page-size", "16", "--engine", "sglang", "--capacities", "60p,100p,200p"];
    let mut parts: HashMap<&str, std::vec::IntoIter<u64>> = HashMap::new();
    for replica in ["r0", "r1"] {
        let part: Vec<_> = rows.iter().filter(|(of, _)| of == replica).map(|(_, row)| row).collect();
        let directory = tempfile::tempdir().expect("a directory");
        let written = directory.path().join("rows.jsonl");
        replay(&part, &[&args[..], &["--per-request", written.to_str().expect("UTF-8")]].concat());
        let written = std::fs::read_to_string(&written).expect("the rows");
        let hits = written.lines().map(|line| {
            serde_json::from_str::<Value>(line).expect("a row")["prefix_hits"][1].as_u64().expect("pages")
        });
        parts.insert(replica, hits.collect::<Vec<_>>().into_iter());
    }
    let measured = rows.iter().map(|(replica, row)| {
        let hits = parts.get_mut(replica.as_str()).and_then(Iterator::next).expect("a row of that replica");
        let mut row = row.clone();
        row["cached_tokens"] = json!(hits * 16);
        (hits, row)
    });
    let (hits, measured): (Vec<_>, Vec<_>) = measured.unzip();
    let result = replay(&measured, &args);
    assert_eq!(effective(&result), (100, Some(100), 1.0, 1.0));
    let measured = &result["measured"];
    assert_eq!(measured["replicas"], json!(2));
    assert_eq!(measured["ledger"]["routed_pages"], json!(hits.iter().sum::<u64>()));
    assert_eq!(measured["ledger"]["shared_pages"], result["capacities"][2]["page_hits"], "200 pages in all");
}

fn small_rows(cached: &[u64]) -> Vec<Value> {
    let row = |(at, cached): (usize, &u64)| json!({"timestamp": at, "input_length": 1024, "hash_ids": [1, 2], "cached_tokens": cached});
    cached.iter().enumerate().map(row).collect()
}

#[test]
fn more_hits_than_the_log_shows_are_named_an_id_scope() {
    let result = replay(&small_rows(&[512, 1024, 1024]), &["--format", "mooncake"]);
    let measured = &result["measured"];
    assert_eq!(measured["verdict"], "id_scope");
    assert_eq!((&measured["requests_beyond_log"], &measured["pages_beyond_log"]), (&json!(1), &json!(1)));
    assert_eq!(measured["try_first"].as_array().map(Vec::len), Some(3));
}

#[test]
fn cached_tokens_that_cannot_be_are_set_aside_and_not_the_replay() {
    let result = replay(&small_rows(&[0, 1025]), &["--format", "mooncake"]);
    assert_eq!((&result["trace"]["requests"], &result["measured"]["requests"]), (&json!(2), &json!(1)));
    let notes = result["notes"].to_string();
    assert!(notes.contains("1 requests state more cached tokens than their prompts have"), "{notes}");
}

#[test]
fn nothing_is_measured_until_rows_say_so_or_it_is_asked_for() {
    let rows: Vec<_> =
        (0..3).map(|at| json!({"timestamp": at, "input_length": 512, "hash_ids": [1]})).collect();
    let quiet = replay(&rows, &["--format", "mooncake"]);
    assert!(quiet.get("measured").is_none() && quiet.get("routing").is_none());
    let asked = replay(&rows, &["--format", "mooncake", "--measured"]);
    assert_eq!(asked["measured"]["requests"], json!(0));
    assert_eq!(asked["measured"]["effective_capacity"], Value::Null);
    assert_eq!(asked["measured"]["in_words"], "no request says how many of its tokens were cached");
}

#[test]
fn the_table_says_the_verdict_and_what_to_try_first() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for row in small_rows(&[0, 1024, 1024, 1024]) {
        writeln!(file, "{row}").expect("written");
    }
    let path = file.path().to_str().expect("UTF-8");
    let args = ["replay", "--format", "mooncake", "--router", "hash:2", "--capacities", "10p", path];
    let output = kvset(&args).assert().success().get_output().stdout.clone();
    let text = String::from_utf8_lossy(&output).into_owned();
    for part in [
        "Measured alongside modelled\nBehaves like at least 2 pages of the 10 pages provisioned",
        "Router hash, 2 replicas",
        "Try first: nothing to repair",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_router_is_refused_for_an_engine_without_one_curve() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "{}", small_rows(&[0])[0]).expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let args = ["replay", "--format", "mooncake", "--engine", "sglang", "--router", "hash:2", path];
    let refused = kvset(&args).assert().code(2);
    assert!(String::from_utf8_lossy(&refused.get_output().stderr).contains("--engine"));
}

#[test]
fn a_report_shows_the_cache_in_use_on_the_curve_and_its_ledger() {
    let mut lru = PageLru::new(40, 40);
    let rows: Vec<_> = (0..400_u64)
        .map(|turn| {
            let ids: Vec<u64> = (0..=(turn % 7)).map(|page| turn * 13 % 11 * 100 + page).collect();
            let hits = lru.access(&ids);
            json!({"timestamp": turn, "input_length": ids.len() * 512, "output_length": 1, "hash_ids": ids,
                   "cached_tokens": hits * 512})
        })
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.html");
    let path = report.to_str().expect("UTF-8");
    let args =
        ["--engine", "leaf-first", "--provisioned", "60p", "--router", "hash:2:first-page", "--report", path];
    let result = replay(&rows, &args);
    assert_eq!(effective(&result), (40, Some(40), 1.0, 1.0));
    assert_eq!(result["measured"]["ledger"]["total_capacity_pages"], 60, "what is provisioned");
    let page = std::fs::read_to_string(&report).expect("a report");
    let (hits, accesses) =
        (&result["measured"]["ledger"]["measured_pages"], &result["measured"]["ledger"]["page_accesses"]);
    let rate = hits.as_f64().expect("hits") / accesses.as_f64().expect("accesses") * 100.0;
    for wanted in [
        "<h2>Measured alongside modelled</h2>",
        "Behaves like 40 pages of the 60 pages provisioned",
        "400 requests were measured. Of those with something to reuse, 100.00 %",
        "<th scope=\"row\">the replicas, routed as logged</th>",
        "<h2>Other routers</h2>",
        "<th scope=\"row\">hash:2:first-page</th>",
        &format!("measured: {rate:.2} %"),
    ] {
        assert!(page.contains(wanted), "no {wanted} in the report");
    }
}
