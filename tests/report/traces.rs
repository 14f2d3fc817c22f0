//! Reports of the public traces: what is drawn is what the replay counted.

use kvset::core::engines::config::CacheConfig;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::units::ratio::Ratio;
use kvset::present::html::render;
use kvset::present::pool::{ReportInput, headline};
use kvset::replay::{Replay, ReplayHistory, ReplayOptions, WarmUp, replay, replay_for_report, report_input};
use kvset::trace::ReadOptions;
use std::fs;
use std::path::{Path, PathBuf};

/// A trace alongside the repository, or a note that the test is skipped.
fn shared_trace(name: &str) -> Option<PathBuf> {
    crate::support::shared::shared_path(&format!("traces/{name}"))
}

fn options(trace: PathBuf, kv_bytes_per_token: f64) -> ReplayOptions {
    ReplayOptions {
        traces: vec![trace],
        read: ReadOptions::default(),
        pool: PoolConfig {
            cache: CacheConfig { kv_bytes_per_token: Some(kv_bytes_per_token), ..CacheConfig::default() },
            windows: vec!["tumbling:1d".parse().expect("a window")],
            ..PoolConfig::default()
        },
        warm_up: WarmUp::Requests(0),
        pool_name: None,
        skip_bad_rows: false,
        extras: Default::default(),
        provisioned: None,
        threads: 1,
    }
}

/// The report of a trace, checked against the replay without one, and left where a browser can open it.
fn reported(options: &ReplayOptions, title: &str) -> (Replay, ReplayHistory, String) {
    let (replayed, history) = replay_for_report(options, None, &mut |_| {}).expect("a replay");
    let plain = replay(options, None, &mut |_| {}).expect("a replay");
    let figures = |replay: &Replay| {
        replay.whole.as_ref().map(|whole| (whole.required.clone(), whole.capacities.clone()))
    };
    assert_eq!(figures(&replayed), figures(&plain), "keeping a history changes no figure");
    assert_eq!(replayed.windows.len(), plain.windows.len(), "nor the windows listed");
    let html = render(&shown(&replayed, &history, title)).expect("a drawable report");
    let name = format!("report-{}.html", title.split('.').next().unwrap_or("trace"));
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), &html).expect("a writable folder");
    (replayed, history, html)
}

fn shown<'a>(replayed: &'a Replay, history: &ReplayHistory, title: &str) -> ReportInput<'a> {
    let inputs = vec![("Files".to_owned(), title.to_owned())];
    report_input(vec![(replayed, history.clone())], title.to_owned(), inputs)
}

/// The distribution and the end of the history must tell the same story as the estimate.
fn consistent(replayed: &Replay, input: &ReportInput<'_>) {
    let whole = replayed.whole.as_ref().expect("counted requests");
    let pool = &input.pools[0];
    let steps = &pool.distribution.steps;
    assert_eq!(steps.iter().map(|step| step.requests).sum::<u64>(), whole.requests);
    for entry in &whole.required[0].coverage {
        let rank = entry.coverage.nearest_rank(whole.requests).expect("requests");
        let mut below = 0;
        let at = steps
            .iter()
            .find(|step| {
                below += step.requests;
                below >= rank
            })
            .expect("a rank");
        assert_eq!(Some(at.pages), entry.pages, "the drawn distribution at {}", entry.coverage);
    }
    let last = pool.history.points.last().expect("a history");
    assert_eq!((last.requests_seen, last.accumulated_pages), (whole.requests, whole.accumulated_pages));
    assert!(pool.history.points.len() > 100);
}

#[test]
fn the_week_of_coding_agents() {
    let Some(trace) = shared_trace("weka_claude_code_week.jsonl.zst") else { return };
    let (replayed, history, html) = reported(&options(trace, 61_464.0), "weka_claude_code_week.jsonl.zst");
    let input = shown(&replayed, &history, "weka_claude_code_week.jsonl.zst");
    consistent(&replayed, &input);
    let whole = &input.pools[0].estimate;
    assert_eq!((whole.requests, whole.page_accesses, whole.accumulated_pages), (4_002, 4_836_915, 306_502));
    assert!(html.contains("93.66 %"), "the theoretical hit rate");
    assert_eq!(html.matches("kv-plot kv-wide").count(), 4);
    assert_eq!(
        headline(&input.pools[0]).lead,
        "29.2 GiB keeps 99 % of requests at 99 % or more of their theoretical hit rate; \
         17.9 GiB is enough for 95 %; 56.2 GiB is needed for 99.9 %."
    );
}

#[test]
fn the_synthetic_trace_whose_times_come_in_steps() {
    let Some(trace) = shared_trace("mooncake_synthetic_trace.jsonl") else { return };
    let mut options = options(trace, 61_505.0);
    options.pool.cache.include_partial_page = true;
    options.pool.cache.target_ratios = vec![Ratio::ONE];
    let (replayed, history, _) = reported(&options, "mooncake_synthetic_trace.jsonl");
    let input = shown(&replayed, &history, "mooncake_synthetic_trace.jsonl");
    consistent(&replayed, &input);
    let pages = |at: usize| replayed.whole.as_ref().and_then(|whole| whole.required[0].coverage[at].pages);
    assert_eq!([pages(2), pages(3)], [Some(20_241), Some(31_290)]);
    let lead = headline(&input.pools[0]).lead;
    assert!(
        lead.starts_with(
            "918 GiB keeps 99 % of requests at their theoretical hit rate; 594 GiB is enough for 95 %"
        ),
        "{lead}"
    );
}
