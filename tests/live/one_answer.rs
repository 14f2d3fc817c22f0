//! The same question has one answer: terminal, JSON, report, page, API, table and lines say the same numbers.

use crate::live_support::Service;
use assert_cmd::Command;
use kvset::core::engines::config::CacheConfig;
use kvset::core::engines::profile::{OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::estimate::Estimate;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::questions::costs::{PrefillCosts, PrefillRate, Prices};
use kvset::core::sizing::recommendation::Recommendation;
use kvset::core::units::Bytes;
use kvset::core::units::capacity::CapacitySpec;
use kvset::core::units::ratio::Ratio;
use kvset::present::terminal::{EstimateTable, Terminal, answer_in_words};
use kvset::replay::{Replay, ReplayOptions, WarmUp, replay};
use kvset::settings::Settings;
use kvset::trace::ReadOptions;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const COST: &str = "61464";

/// What `kvset replay` prints of a trace of which every request counts as enough.
fn printed(trace: &Path, args: &[&str]) -> String {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    let output = command
        .args(["replay", "--min-requests", "1"])
        .args(args)
        .arg(trace)
        .assert()
        .success()
        .get_output()
        .clone();
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The same trace as the library replays it, with requests in flight modelled where that can be.
fn replayed(trace: &Path, engine: Profile, sample_rate: &str, capacities: &[&str]) -> Replay {
    let overlap = if engine.spec().can_overlap { OverlapMode::On } else { OverlapMode::Off };
    replayed_with(trace, (engine, overlap), sample_rate, capacities)
}

/// What the estimate of a pool that is asked says, live as in a backfill, is what `kvset replay` says: to the last
/// bit, and at what is provisioned as well. It shows on the page.
#[test]
fn what_a_cache_is_worth_is_the_same_in_estimates_and_in_a_replay() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = with_durations(directory.path());
    let prefill_rate: PrefillRate = "9000@0,3000@30000".parse().expect("a rate");
    let prices = Prices { accelerator_hour: Some(2.5), gib_hour: Some(0.003) };
    for (engine, capacities) in
        [(Profile::Vllm, &[][..]), (Profile::Paper, &["1GiB", "7GiB"]), (Profile::Sglang, &["1GiB", "3GiB"])]
    {
        let mut options = options(&trace, (engine, OverlapMode::Off), "1", capacities);
        options.provisioned = "3GiB".parse().ok();
        options.extras.prefill_rate = Some(prefill_rate.clone());
        options.extras.prices = prices;
        options.pool.questions.worth = Some(PrefillCosts { prefill_rate: prefill_rate.clone(), prices });
        let done = replay(&options, None, &mut |_| {}).expect("a replay");
        let replayed = done.worth.expect("asked").estimate;
        let whole = done.whole.expect("counted requests");
        assert_eq!(whole.worth.as_ref(), Some(&replayed), "{engine}");
        let own = replayed.provisioned.expect("provisioned");
        assert!(own.saved_a_day > Some(0.0) && own.memory_a_day.is_some(), "{engine}: {own:?}");
        assert_eq!(replayed.coverages.is_empty(), whole.is_pointwise(), "{engine}");
        let service = Service::start(10);
        service.take_up(0, 0);
        service.publish(std::slice::from_ref(&whole));
        let page = service.get("/").body;
        assert!(page.contains("What the cache is worth"), "{engine}: {page}");
        assert!(page.contains("3 GiB (provisioned)"), "{engine}: {page}");
    }
}

/// What restarts cost is, by hour of the day, the sum of the restarts that `kvset replay` counts one by one; the page
/// shows it as of a window where the log goes on.
#[test]
fn what_restarts_cost_is_the_sum_of_single_ones_and_on_the_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = with_durations(directory.path());
    for engine in [Profile::Vllm, Profile::Paper] {
        let mut options = options(&trace, (engine, OverlapMode::Off), "1", &["1GiB", "7GiB"]);
        options.provisioned = "3GiB".parse().ok();
        options.extras.prefill_rate = "9000@0,3000@30000".parse().ok();
        options.extras.prices = Prices { accelerator_hour: Some(2.5), gib_hour: None };
        options.pool.questions.restarts = true;
        let done = replay(&options, None, &mut |_| {}).expect("a replay");
        let mut whole = done.whole.expect("counted requests");
        let restarts = whole.restarts.as_mut().expect("enabled");
        assert!(restarts.clock.take().is_some(), "{engine}");
        for at in &mut restarts.sizes {
            assert!(at.hours.iter().filter(|hour| hour.tokens > 0).count() > 1, "{engine}: {at:?}");
            let single = std::mem::take(&mut at.restarts);
            for hour in &mut at.hours {
                let of_hour =
                    single.iter().filter(|restart| restart.time_ms / 3_600_000 % 24 == i64::from(hour.hour));
                let each: Vec<u64> = of_hour.clone().map(|restart| restart.tokens).collect();
                assert_eq!(hour.tokens, each.iter().sum::<u64>(), "{engine}");
                assert_eq!(hour.restarts.take(), Some(each.len() as u64), "{engine}");
                assert_eq!(hour.most_tokens.take(), each.into_iter().max(), "{engine}");
                let seconds: f64 = of_hour.map(|restart| restart.prefill_seconds.expect("a rate")).sum();
                assert!((hour.prefill_seconds.expect("a rate") - seconds).abs() < 1e-6, "{engine}");
            }
        }
        let service = Service::start(10);
        service.take_up(0, 0);
        service.publish(std::slice::from_ref(&whole));
        let page = service.get("/").body;
        assert!(page.contains("What an emptied cache costs, by hour of the day (UTC)"), "{engine}: {page}");
        assert!(page.contains("GiB (provisioned): emptied every day at "), "{engine}: {page}");
    }
}

fn replayed_with(
    trace: &Path,
    engine: (Profile, OverlapMode),
    sample_rate: &str,
    capacities: &[&str],
) -> Replay {
    replay(&options(trace, engine, sample_rate, capacities), None, &mut |_| {}).expect("a replay")
}

fn options(
    trace: &Path,
    (engine, overlap): (Profile, OverlapMode),
    sample_rate: &str,
    capacities: &[&str],
) -> ReplayOptions {
    let capacities = capacities.iter().map(|text| text.parse::<CapacitySpec>().expect("a capacity"));
    let pool = PoolConfig {
        cache: CacheConfig {
            profile: engine,
            rules: EngineRules { overlap, ..EngineRules::default() },
            kv_bytes_per_token: COST.parse().ok(),
            sample_rate: sample_rate.parse().expect("a share"),
            capacities: capacities.collect(),
            ..CacheConfig::default()
        },
        min_requests: 1,
        ..PoolConfig::default()
    };
    ReplayOptions {
        extras: Default::default(),
        traces: vec![trace.to_owned()],
        read: ReadOptions::default(),
        pool,
        warm_up: WarmUp::Requests(0),
        pool_name: None,
        skip_bad_rows: false,
        provisioned: None,
        threads: 1,
    }
}

/// Sessions that overlap and whose log tells durations.
fn with_durations(directory: &Path) -> PathBuf {
    let trace = directory.join("durations.jsonl");
    let mut command = Command::cargo_bin("kvset").expect("the program");
    command.args(["generate", "--requests", "400", "--output"]).arg(&trace).assert().success();
    trace
}

/// Conversations that grow in turn, without a word about time.
fn without_durations(directory: &Path) -> PathBuf {
    let trace = directory.join("plain.jsonl");
    let mut rows = String::new();
    for request in 0..300_u32 {
        let (user, turn) = (request % 7, request / 7);
        let tokens: Vec<_> = (0..64 * (turn + 2) * (user + 1)).map(|at| user * 1_000_000 + at).collect();
        writeln!(rows, "{tokens:?}").expect("a text");
    }
    std::fs::write(&trace, rows).expect("a writable folder");
    trace
}

/// Asserts that every output gives the answer of the estimate.
fn all_agree(trace: &Path, args: &[&str], done: &Replay) {
    let whole = done.whole.as_ref().expect("counted requests");
    let answer = whole.recommendation().expect("an answer");
    let pages = answer.pages.expect("a capacity");
    let size = Bytes(answer.bytes.expect("bytes")).to_string();
    // Intervals are of the command alone: they take ten more replays.
    let args = [args, &["--kv-bytes-per-token", COST, "--certainty", "off"]].concat();

    let json: Value =
        serde_json::from_str(&printed(trace, &[&args[..], &["--json"]].concat())).expect("JSON");
    let told = &json["answer"];
    assert_eq!((told["pages"].as_u64(), told["bytes"].as_u64()), (Some(pages), answer.bytes));
    assert_eq!(told["hit_rate"].as_f64(), answer.hit_rate);
    assert!(answer.hit_rate.is_some(), "it is counted at the recommended capacity");
    let recommended: Vec<Recommendation> =
        serde_json::from_value(json["recommended"].clone()).expect("the estimate's own");
    assert_eq!(recommended, whole.recommended);
    let sentences: Vec<&str> =
        told["sentences"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(sentences[0].trim_start_matches("About ").starts_with(&size), "{sentences:?}: {size}");

    let text = printed(trace, &args);
    assert!(text.starts_with(&format!("{}\n", sentences[0])), "the answer comes first: {text}");
    assert!(text.ends_with(&format!("\n{}\n", sentences.join("\n"))), "and last: {text}");
    let row = text.lines().find(|line| line.starts_with(" 99 % ")).expect("a row");
    assert!(row.contains(&size), "{row}: {size}");

    let report = trace.with_extension("html");
    printed(trace, &[&args[..], &["--report", report.to_str().expect("UTF-8")]].concat());
    let html = std::fs::read_to_string(&report).expect("a report");
    for sentence in &sentences {
        assert!(html.contains(&format!("<p>{sentence}</p>")), "{sentence}");
    }
    let exact = format!("{} pages, ", thousands(pages));
    assert!(html.contains(&format!(">{size}</dd>")) && html.contains(&exact), "{size}, {exact}");
    assert!(html.contains(&format!("<th scope=\"row\">99 %</th><td title=\"{exact}")), "the table");

    live_agrees(whole, &size);
}

/// The same for what shows published estimates, whose curve is told at the requested capacities alone.
fn live_agrees(whole: &Estimate, size: &str) {
    let words = answer_in_words(whole, &Settings::default().provisioned());
    assert!(words.contains(size), "{words}");
    let mut table = EstimateTable::default();
    table.observe(whole.clone());
    let row = table.render(&Terminal::default());
    assert!(row.contains(&format!(" {size}")), "{row}");
    let service = Service::start(10);
    service.take_up(0, 0);
    service.publish(std::slice::from_ref(whole));
    let page = service.get("/").body;
    let lead = words.strip_prefix("trace: ").expect("the pool");
    assert!(page.contains(&format!("<p>{lead}</p>")) && page.contains(&format!(">{size}</dd>")), "{page}");
    let api: Value = service.get("/api/v1/estimates").json();
    let published: Estimate = serde_json::from_value(api["estimates"][0].clone()).expect("an estimate");
    assert_eq!(published.recommended, whole.recommended);
}

fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

#[test]
fn every_output_gives_the_same_answer_with_and_without_durations() {
    let directory = tempfile::tempdir().expect("a directory");
    let (timed, plain) = (with_durations(directory.path()), without_durations(directory.path()));
    for (name, engine) in
        [("paper", Profile::Paper), ("vllm", Profile::Vllm), ("leaf-first", Profile::LeafFirst)]
    {
        let done = replayed(&timed, engine, "1", &[]);
        let whole = done.whole.as_ref().expect("counted requests");
        let found = whole.in_flight.as_ref().expect("durations");
        assert!(found.max_pages > Some(0) && found.p99_pages > Some(0), "requests overlap");
        assert_eq!(found.modelled, engine.spec().can_overlap);
        let answer = whole.recommendation().expect("an answer");
        assert_eq!(answer.in_flight_pages, found.max_pages.filter(|_| !found.modelled));
        all_agree(&timed, &["--engine", name], &done);
        all_agree(&plain, &["--engine", name], &replayed(&plain, engine, "1", &[]));
    }
    let serial = replayed_with(&timed, (Profile::Vllm, OverlapMode::Off), "1", &[]);
    assert!(serial.whole.iter().all(|whole| whole.in_flight.as_ref().is_some_and(|found| !found.modelled)));
    all_agree(&timed, &["--engine", "vllm", "--overlap", "off"], &serial);
    let sampled = replayed(&timed, Profile::Paper, "0.5", &[]);
    all_agree(&timed, &["--sample-rate", "0.5"], &sampled);
}

/// Found: the sentence took the largest configured capacity's hit rate for that of the recommended size.
#[test]
fn the_hit_rate_told_is_that_of_exactly_the_recommended_size() {
    let directory = tempfile::tempdir().expect("a directory");
    for trace in [with_durations(directory.path()), without_durations(directory.path())] {
        for engine in [Profile::Paper, Profile::LeafFirst, Profile::Vllm] {
            let done = replayed(&trace, engine, "1", &["1p", "100p"]);
            let whole = done.whole.as_ref().expect("counted requests");
            for recommended in &whole.recommended {
                let pages = recommended.pages.expect("a capacity");
                let found = whole.counted.iter().find(|point| point.pages == pages).expect("it is counted");
                let asked = replayed(&trace, engine, "1", &[&format!("{pages}p")]);
                let asked = asked.whole.expect("counted requests").capacities.remove(0);
                assert_eq!(found.prefix_hits, asked.prefix_hits, "{engine} at {pages} pages");
                assert_eq!(found.prefix_hit_rate, asked.prefix_hit_rate, "{engine} at {pages} pages");
                assert_eq!(recommended.hit_rate, asked.prefix_hit_rate, "{engine} at {pages} pages");
            }
        }
    }
}

#[test]
fn needed_against_provisioned_is_said_first_everywhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = with_durations(directory.path());
    let done = replayed(&trace, Profile::Paper, "1", &[]);
    let whole = done.whole.as_ref().expect("counted requests");
    let needed = whole.recommendation().and_then(|answer| answer.pages).expect("a capacity");
    for (held, verdict) in
        [(needed - 1, "Too small: "), (needed, "Large enough: "), (needed + 1, "Large enough: ")]
    {
        let held = format!("{held}p");
        let args = ["--kv-bytes-per-token", COST, "--provisioned", &held];
        assert!(printed(&trace, &args).starts_with(verdict), "{held}");
        let report = directory.path().join("held.html");
        printed(&trace, &[&args[..], &["--report", report.to_str().expect("UTF-8")]].concat());
        let html = std::fs::read_to_string(report).expect("a report");
        assert!(html.contains(&format!("<div class=\"lead\">\n<p>{verdict}")), "{held}");
        let mut settings = Settings::default();
        settings.estimate.questions.provisioned = held.parse().ok();
        let service = Service::provisioned(10, settings.provisioned());
        service.take_up(0, 0);
        service.publish(std::slice::from_ref(whole));
        let page = service.get("/").body;
        assert!(page.contains(&format!("<div class=\"lead\">\n<p>{verdict}")), "{page}");
        assert!(answer_in_words(whole, &settings.provisioned()).starts_with(&format!("trace: {verdict}")));
        // "Large enough" was all that a reader saw while another pool needed half as much again.
        service.publish(&[Estimate {
            pool: "a first one".to_owned(),
            recommended: Vec::new(),
            ..whole.clone()
        }]);
        let shown = service.get("/").body.contains(&format!("<div class=\"lead\">\n<p>{verdict}"));
        assert!(shown, "the pool that lacks most is shown, whatever comes before it by name");
        let problems = service.get("/api/v1/pools").json()["problems"].clone();
        let too_small =
            problems.as_array().expect("a list").iter().any(|found| found["code"] == "pool_too_small");
        assert_eq!(too_small, verdict.starts_with("Too small"), "{problems}");
    }
    let mut refused = Command::cargo_bin("kvset").expect("the program");
    let said =
        refused.args(["replay", "--provisioned", "1GiB"]).arg(&trace).assert().code(2).get_output().clone();
    assert!(String::from_utf8_lossy(&said.stderr).contains("--provisioned"), "nothing to compare bytes with");
}

#[test]
fn a_curve_that_nobody_asked_for_has_at_most_a_dozen_rows_and_json_has_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = without_durations(directory.path());
    let rows = |text: &str| {
        let from = text.lines().skip_while(|line| !line.starts_with("Hit rate by capacity")).skip(3);
        from.take_while(|line| !line.is_empty()).count()
    };
    let shown = rows(&printed(&trace, &[]));
    assert!((4..=12).contains(&shown), "{shown}");
    let json: Value = serde_json::from_str(&printed(&trace, &["--json"])).expect("JSON");
    assert!(json["capacities"].as_array().is_some_and(|points| points.len() > 30), "{json}");
    let asked: Vec<_> = (1..=20).map(|pages| format!("{}p", pages * 40)).collect();
    assert_eq!(rows(&printed(&trace, &["--capacities", &asked.join(",")])), 20, "each has its row");
    assert_eq!(Ratio::per_mille(990).to_string(), json["answer"]["coverage"].to_string());
}

#[test]
fn the_plot_is_an_svg_of_its_own_that_follows_the_theme() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = without_durations(directory.path());
    let file = directory.path().join("curve.svg");
    printed(&trace, &["--kv-bytes-per-token", COST, "--plot", file.to_str().expect("UTF-8")]);
    let svg = std::fs::read_to_string(&file).expect("a plot");
    assert!(
        svg.starts_with("<svg") && svg.contains("prefers-color-scheme:dark") && svg.contains("99 %"),
        "{svg}"
    );
    printed(&trace, &["--engine", "paper,vllm", "--plot", file.to_str().expect("UTF-8")]);
    assert!(std::fs::read_to_string(&file).expect("a plot").contains("vllm"));
}
