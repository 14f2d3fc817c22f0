//! Replays whose requests other threads take in ranges, against replays on one thread: no byte differs.

use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::estimate::config::PoolConfig;
use kvset::core::stack::{ChainCheck, ChainPolicy};
use kvset::core::units::PageCount;
use kvset::core::units::capacity::CapacitySpec;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::window::WindowKind;
use kvset::replay::{Extras, ReplayOptions, WarmUp, replay};
use kvset::trace::{Format, IdScope, ReadOptions};
use kvset_core::engines::config::CacheConfig;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Requests of conversations that take turns, grow, branch and come back, a megabyte of JSON every 500 or so; some of
/// the ids are not chained, and some rows cannot be used.
fn trace(folder: &Path, requests: u64, bad_rows: bool) -> PathBuf {
    let (mut text, mut turns) = (String::new(), vec![0_u64; 40]);
    for number in 0..requests {
        let session = number * number % 37 % 40;
        let turn = &mut turns[session as usize];
        *turn = if number % 101 == 0 { *turn / 2 } else { *turn + 1 };
        let pages = 40 + session * 3 % 200 + *turn * 5 % 500;
        let branch = if number % 53 == 0 { number } else { 0 };
        let id = |page: u64| match page {
            0..30 => page,
            _ if number % 211 == 0 => page * 7,
            _ => (session + 1) * 1_000_000 + page + if page > pages / 2 { branch * 1_000 } else { 0 },
        };
        let ids: Vec<String> = (0..pages).map(|page| id(page).to_string()).collect();
        let tokens = match number % 700 {
            300 if bad_rows => pages * 50,
            _ => pages * 16 + number % 16 * u64::from(number % 3 == 0),
        };
        let cached = if bad_rows && number % 1900 == 1200 { tokens + 1 } else { 0 };
        let time = number * 900;
        write!(
            text,
            r#"{{"timestamp":{time},"session_id":"s{session}","input_length":{tokens},"output_length":{},"duration_ms":{},"cached_tokens":{cached},"block_size":16,"hash_ids":[{}]"#,
            number % 90,
            number % 13 * 800,
            ids.join(if number % 2 == 0 { "," } else { ", " }),
        )
        .expect("memory");
        text += if bad_rows && number % 700 == 650 { "\n" } else { "}\n" };
    }
    let path = folder.join(if bad_rows { "some_bad.jsonl" } else { "good.jsonl" });
    std::fs::write(&path, text).expect("a file");
    path
}

/// The same requests, each few of them written from the last to the first.
fn out_of_order(trace: &Path) -> PathBuf {
    let text = std::fs::read_to_string(trace).expect("a file");
    let lines: Vec<&str> = text.lines().collect();
    let turned: Vec<&str> = lines.chunks(5).flat_map(|few| few.iter().rev().copied()).collect();
    let path = trace.with_file_name("out_of_order.jsonl");
    std::fs::write(&path, turned.join("\n")).expect("a file");
    path
}

fn options(traces: Vec<PathBuf>, pool: PoolConfig) -> ReplayOptions {
    ReplayOptions {
        traces,
        read: ReadOptions { format: Format::Weka, ..ReadOptions::default() },
        pool,
        warm_up: WarmUp::Requests(0),
        pool_name: None,
        skip_bad_rows: false,
        extras: Extras::default(),
        provisioned: None,
        threads: 1,
    }
}

/// All that a replay gives and writes, and how many of its requests were taken in ranges.
fn replayed(options: &ReplayOptions, threads: usize) -> (String, Vec<u8>, u64) {
    let options = ReplayOptions { threads, ..options.clone() };
    let mut rows = Vec::new();
    let mut done = replay(&options, Some(&mut rows), &mut |_| {}).expect("a replay");
    let merged = std::mem::take(&mut done.merged_requests);
    (format!("{done:?}"), rows, merged)
}

/// Asserts that any number of threads gives the same; gives how many requests were taken in ranges on two.
fn is_the_same_on_any_number_of_threads(options: &ReplayOptions) -> u64 {
    let (expected, rows, merged) = replayed(options, 1);
    assert_eq!(merged, 0, "one thread has no ranges");
    let merged = [2, 3, 8].map(|threads| {
        let (found, found_rows, merged) = replayed(options, threads);
        assert!(found == expected, "{threads} threads: {found}\n\nin place of {expected}");
        assert!(found_rows == rows, "{threads} threads give other rows");
        merged
    });
    assert!(
        merged.iter().all(|count| *count == merged[0]),
        "ranges do not depend on the threads: {merged:?}"
    );
    merged[0]
}

fn pool(profile: Profile) -> PoolConfig {
    let capacities = ["100p", "1000p", "5000p", "50000p"];
    let capacity = |text: &&str| text.parse::<CapacitySpec>().expect("a capacity");
    PoolConfig {
        cache: CacheConfig {
            profile,
            capacities: capacities.iter().map(capacity).collect(),
            ..CacheConfig::default()
        },
        windows: vec![
            WindowKind::All,
            WindowKind::Last { requests: 300 },
            WindowKind::Tumbling { size_ms: 300_000 },
        ],
        ..PoolConfig::default()
    }
}

const REQUESTS: u64 = 4_000;

#[test]
fn ranges_merged_in_order_give_the_bytes_of_one_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = trace(folder.path(), REQUESTS, false);
    let paper = options(vec![good.clone()], pool(Profile::Paper));
    assert!(is_the_same_on_any_number_of_threads(&paper) > REQUESTS / 2);
    let full = PoolConfig {
        cache: CacheConfig { chain_check: ChainCheck::Full, ..pool(Profile::LeafFirst).cache },
        ..pool(Profile::LeafFirst)
    };
    let warming = ReplayOptions { warm_up: WarmUp::Requests(1_500), ..options(vec![good.clone()], full) };
    assert!(is_the_same_on_any_number_of_threads(&warming) > REQUESTS / 2);
    let scoped = ReadOptions { id_scope: IdScope::Session, ..paper.read.clone() };
    let vllm = ReplayOptions { read: scoped, ..options(vec![good.clone(), good], pool(Profile::Vllm)) };
    assert!(is_the_same_on_any_number_of_threads(&vllm) > REQUESTS);
}

#[test]
fn ranges_of_a_sample_and_around_bad_rows_give_the_bytes_of_one_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let some_bad = trace(folder.path(), REQUESTS, true);
    let sampled = PoolConfig {
        cache: CacheConfig {
            sample_rate: Ratio::per_mille(300),
            outputs: Outputs::Ignored,
            ..pool(Profile::Vllm).cache
        },
        ..pool(Profile::Vllm)
    };
    let options = ReplayOptions { skip_bad_rows: true, ..options(vec![some_bad], sampled) };
    assert!(is_the_same_on_any_number_of_threads(&options) > REQUESTS / 2);
}

/// Whatever has to be taken request by request is.
#[test]
fn what_ranges_cannot_say_is_taken_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = trace(folder.path(), REQUESTS, false);
    let bounded = |pages| PoolConfig {
        cache: CacheConfig { max_tracked_pages: PageCount(pages), ..pool(Profile::Paper).cache },
        ..pool(Profile::Paper)
    };
    let some = is_the_same_on_any_number_of_threads(&options(vec![good.clone()], bounded(30_000)));
    assert!(some < REQUESTS, "{some} requests of {REQUESTS}");
    let in_order = [
        bounded(1_500),
        PoolConfig {
            cache: CacheConfig { chain_policy: ChainPolicy::Trust, ..pool(Profile::Paper).cache },
            ..pool(Profile::Paper)
        },
        PoolConfig {
            cache: CacheConfig { sample_rate: Ratio::per_mille(300), ..pool(Profile::Vllm).cache },
            ..pool(Profile::Vllm)
        },
        PoolConfig { windows: vec![WindowKind::All], ..pool(Profile::Lmcache) },
    ];
    let turned = options(vec![out_of_order(&good)], pool(Profile::Paper));
    assert_eq!(is_the_same_on_any_number_of_threads(&turned), 0);
    for pool in in_order {
        assert_eq!(is_the_same_on_any_number_of_threads(&options(vec![good.clone()], pool)), 0);
    }
}
