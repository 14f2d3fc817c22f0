//! Report inputs made from formulas: shaped like a week of a coding-agent service.

// Every test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::estimate::{
    CapacityPoint, CoverageCapacity, CoverageSize, Estimate, InFlightFigures, Required, RequiredCapacity,
    SCHEMA_VERSION, Status, TheoreticalHits,
};
use kvset::core::sizing::recommendation::{Recommendation, RecommendationBasis, recommend};
use kvset::core::sizing::tiers::Settled;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::{PageBytes, PageCount};
use kvset::present::pool::{
    Caveats, HistoryPoint, PoolEstimates, PoolReport, ReportInput, RequirementStep, ShownDistribution,
    WindowRow,
};
use std::borrow::Cow;

/// 64 tokens of about 60 KiB each.
pub const PAGE_BYTES: u64 = 64 * 61_464;
const PAGE_SIZE: u32 = 64;
const REQUESTS: u64 = 24_000;
const COVERAGE: [&str; 5] = ["0.5", "0.9", "0.95", "0.99", "0.999"];
const REQUIRED: [u64; 5] = [21_300, 140_000, 270_500, 1_411_000, 4_902_000];
const ACCUMULATED: u64 = 6_204_331;
/// Sunday 2026-11-15 00:00 UTC.
const START_MS: i64 = 1_794_700_800_000;
const HOUR_MS: i64 = 3_600_000;

pub fn ratio(text: &str) -> Ratio {
    text.parse().expect("a share")
}

/// One coverage entry, complete.
pub fn covered(coverage: &str, pages: Option<u64>) -> CoverageCapacity {
    CoverageCapacity {
        bytes: pages.map(|pages| pages * PAGE_BYTES),
        tokens: pages.map(|pages| pages * u64::from(PAGE_SIZE)),
        pages_with_reuse: pages.map(|pages| pages + pages / 50),
        beyond_bound: pages.is_none(),
        convergence: Settled::Converged,
        growth_per_window: Some(0.001),
        ..CoverageCapacity::of(ratio(coverage), pages)
    }
}

/// One recommended capacity of a log without durations.
pub fn recommended(coverage: &str, pages: Option<u64>) -> Recommendation {
    let coverage = vec![covered(coverage, pages)];
    let required = [RequiredCapacity { coverage, ..requirement("0.99", 1.0) }];
    recommendations(&required, None, REQUESTS, Some(PAGE_BYTES)).remove(0)
}

/// What is recommended where these requirements are those of the window to act on.
pub fn recommendations(
    required: &[RequiredCapacity],
    in_flight: Option<&InFlightFigures>,
    requests: u64,
    page_bytes: Option<u64>,
) -> Vec<Recommendation> {
    let basis = RecommendationBasis {
        room: &[],
        in_flight,
        page_bytes: page_bytes.map(PageBytes),
        requests,
        min_requests: 1000,
        bound: PageCount(3_000_000),
        act_on: true,
    };
    recommend(required, &basis)
}

/// The pool with what follows from its requirements.
pub fn recommending(mut pool: PoolReport<'_>) -> PoolReport<'_> {
    pool.estimate = Cow::Owned(estimate_recommending(pool.estimate.into_owned()));
    pool
}

/// The same of an estimate.
pub fn estimate_recommending(mut estimate: Estimate) -> Estimate {
    let (requests, page_bytes) = (estimate.requests, estimate.page_bytes);
    estimate.recommended =
        recommendations(&estimate.required, estimate.in_flight.as_ref(), requests, page_bytes);
    estimate
}

/// A point of a curve at `pages` with these hits.
pub fn point(pages: u64, page_rate: f64, prefix_rate: f64) -> CapacityPoint {
    let hits = |rate: f64| Some((rate * 29_000_000.0) as u64);
    CapacityPoint {
        label: None,
        pages,
        bytes: Some(pages * PAGE_BYTES),
        page_hits: hits(page_rate),
        prefix_hits: hits(prefix_rate),
        page_hit_rate: Some(page_rate),
        reuse_hit_rate: Some(page_rate / 0.9366),
        prefix_hit_rate: Some(prefix_rate),
        relative_prefill_throughput: Some(1.0 / (1.0 - prefix_rate)),
        beyond_bound: false,
        ..CapacityPoint::default()
    }
}

/// The share of reuse a cache of `pages` keeps: most of it early, the rest slowly.
fn kept(pages: f64) -> f64 {
    (1.0 - (-(pages / 30_000.0).powf(0.42)).exp()).min(1.0)
}

fn requirement(target: &str, scale: f64) -> RequiredCapacity {
    let entries = COVERAGE
        .iter()
        .zip(REQUIRED)
        .map(|(share, pages)| covered(share, Some((pages as f64 * scale) as u64)));
    RequiredCapacity {
        target_ratio: ratio(target),
        mean_pages: Some(88_213.4 * scale),
        max_pages: Some((5_600_000.0 * scale) as u64),
        coverage: entries.collect(),
    }
}

fn history() -> PoolEstimates {
    let hours = 168;
    let mut requests_seen = 0;
    let points = (1..=hours).map(|hour| {
        let day = (f64::from(hour) / 24.0 * std::f64::consts::TAU - 2.2).sin();
        let crowd = if hour > 140 { 0.35 } else { 1.0 };
        let requests = ((150.0 + 120.0 * day) * crowd) as u64;
        requests_seen += requests;
        let grown = f64::from(hour) / f64::from(hours);
        let level = |index: usize| {
            let settled = 1.0 - (-f64::from(hour) / [6.0, 10.0, 16.0, 30.0, 200.0][index]).exp();
            let wave = 1.0 + 0.12 * (day + (f64::from(hour) * 1.7 + index as f64).sin() * 0.5);
            Some((REQUIRED[index] as f64 * settled * wave * crowd.sqrt()) as u64)
        };
        let start = START_MS + i64::from(hour - 1) * HOUR_MS;
        HistoryPoint {
            requests_seen,
            span_ms: Some((start, start + HOUR_MS)),
            requests,
            required: (0..COVERAGE.len()).map(level).collect(),
            accumulated_pages: (ACCUMULATED as f64 * grown.powf(0.85)) as u64,
            hit_rate: (requests > 0).then_some(0.93 - 0.25 * (-f64::from(hour) / 8.0).exp() + 0.01 * day),
        }
    });
    PoolEstimates {
        window: Some("tumbling:1h".parse().expect("a window")),
        coverage: COVERAGE.map(ratio).to_vec(),
        points: points.collect(),
    }
}

fn distribution() -> ShownDistribution {
    let cumulative = |pages: f64| {
        let at = REQUIRED.iter().zip([0.5, 0.9, 0.95, 0.99, 0.999]);
        let known: Vec<(f64, f64)> = at.map(|(pages, share)| ((*pages as f64).ln(), share)).collect();
        let x = pages.ln();
        let pair = known.windows(2).find(|pair| x < pair[1].0).unwrap_or(&known[3..]);
        (pair[0].1 + (pair[1].1 - pair[0].1) * (x - pair[0].0) / (pair[1].0 - pair[0].0)).clamp(0.03, 1.0)
    };
    let mut steps = vec![RequirementStep { pages: 0, requests: 720 }];
    let mut below = 720;
    for index in 0..400 {
        let pages = (40.0 * 1.03f64.powi(index)) as u64;
        let upto = (cumulative(pages as f64) * REQUESTS as f64) as u64;
        steps.push(RequirementStep { pages, requests: upto.saturating_sub(below) });
        below = below.max(upto);
    }
    steps.push(RequirementStep { pages: 5_600_000, requests: REQUESTS - below });
    ShownDistribution { steps, beyond_bound: 0 }
}

fn windows() -> Vec<WindowRow> {
    let day = |day: i64| WindowRow {
        kind: "tumbling:1d".parse().expect("a window"),
        start_ms: START_MS + day * 24 * HOUR_MS,
        end_ms: START_MS + (day + 1) * 24 * HOUR_MS,
        status: Status::Final,
        warm_up: false,
        requests: 3_400 + 37 * day as u64,
        coverage: COVERAGE
            .iter()
            .zip(REQUIRED)
            .map(|(share, pages)| recommended(share, Some(pages - pages / (day as u64 + 4))))
            .collect(),
    };
    (0..7).map(day).collect()
}

/// So many other requests in flight at most, holding so many pages.
pub fn in_flight(max_requests: u64, pages: u64) -> InFlightFigures {
    in_flight_over(&[requirement("0.99", 1.0), requirement("0.9", 0.7)], max_requests, pages)
}

/// The same over these requirements.
pub fn in_flight_over(required: &[RequiredCapacity], max_requests: u64, pages: u64) -> InFlightFigures {
    let with_room = |required: &RequiredCapacity| Required {
        target_ratio: required.target_ratio,
        coverage: required
            .coverage
            .iter()
            .map(|entry| CoverageSize {
                coverage: entry.coverage,
                pages: entry.pages.map(|own| own + pages),
                bytes: entry.pages.map(|own| (own + pages) * PAGE_BYTES),
            })
            .collect(),
    };
    InFlightFigures {
        modelled: false,
        max_requests,
        max_pages: Some(pages),
        max_bytes: Some(pages * PAGE_BYTES),
        mean_pages: Some(pages as f64 / 2.0),
        p99_pages: Some(pages),
        required: required.iter().map(with_room).collect(),
        without_room: Vec::new(),
    }
}

/// The estimate of a whole week: root-first order, byte costs known, nothing wrong.
fn week_estimate() -> Estimate {
    let pages = (0..64)
        .map(|index| (64.0 * 2f64.powf(f64::from(index) / 4.0)) as u64)
        .take_while(|pages| *pages < 8_000_000);
    Estimate {
        engine: Profile::Paper,
        outputs: Outputs::Cached,
        page_size: PAGE_SIZE,
        page_bytes: Some(PAGE_BYTES),
        sample_rate: 1.0,
        requests: REQUESTS,
        requests_with_reuse: 23_280,
        page_accesses: 29_000_000,
        accumulated_pages: ACCUMULATED,
        theoretical: TheoreticalHits {
            page_hits: 27_161_400,
            prefix_hits: 27_161_400,
            page_hit_rate: 0.9366,
            prefix_hit_rate: 0.9366,
            hit_rate_tokens: Some(0.9341),
        },
        required: vec![requirement("0.99", 1.0), requirement("0.9", 0.7)],
        in_flight: Some(in_flight(0, 0)),
        capacities: pages
            .map(|pages| point(pages, 0.9366 * kept(pages as f64), 0.9366 * kept(pages as f64)))
            .collect(),
        trend_windows: 12,
        ..Estimate::default()
    }
}

/// The pool of that week.
pub fn week_pool() -> PoolReport<'static> {
    recommending(PoolReport {
        name: None,
        distribution: distribution(),
        history: history(),
        windows: windows(),
        ..PoolReport::of(Cow::Owned(week_estimate()))
    })
}

/// A report of that week alone.
pub fn week() -> ReportInput<'static> {
    ReportInput {
        title: "coding-agents-week.jsonl.zst".to_owned(),
        inputs: vec![
            ("Files".to_owned(), "coding-agents-week.jsonl.zst".to_owned()),
            ("Format".to_owned(), "weka, page ids unique within the file".to_owned()),
            ("KV bytes per token".to_owned(), "61,464 (given)".to_owned()),
        ],
        pools: vec![week_pool()],
        compares_engines: false,
    }
}

/// A pool with everything the caveats know: pages only, bounded, sampled, late, warm-up.
pub fn troubled_pool() -> PoolReport<'static> {
    let mut pool = week_pool();
    pool.name = Some("eu-west/coding".to_owned());
    pool.estimate.to_mut().engine = Profile::Mooncake;
    pool.estimate.to_mut().page_bytes = None;
    pool.estimate.to_mut().sample_rate = 0.1;
    pool.estimate.to_mut().sample_error = 0.012;
    pool.bound_pages = Some(3_000_000);
    pool.estimate.to_mut().required.truncate(1);
    pool.estimate.to_mut().required[0].coverage[4] = covered("0.999", None);
    pool.estimate.to_mut().required[0].max_pages = None;
    let in_flight = in_flight_over(&pool.estimate.required, 0, 0);
    pool.estimate.to_mut().in_flight = Some(in_flight);
    pool.distribution.steps.retain(|step| step.pages <= 3_000_000);
    pool.distribution.beyond_bound = 61;
    for point in &mut pool.estimate.to_mut().capacities {
        point.prefix_hit_rate = point.page_hit_rate.map(|rate| rate * 0.96);
        if point.pages > 3_000_000 {
            *point = CapacityPoint {
                page_hits: None,
                prefix_hits: None,
                page_hit_rate: None,
                reuse_hit_rate: None,
                prefix_hit_rate: None,
                relative_prefill_throughput: None,
                beyond_bound: true,
                ..point.clone()
            };
        }
    }
    for history in &mut pool.history.points {
        history.required[4] = history.required[4].filter(|pages| *pages <= 3_000_000);
        history.span_ms = None;
    }
    pool.windows[6].status = Status::Provisional;
    pool.windows[0].warm_up = true;
    pool.caveats = Caveats {
        late_records: 17,
        chain_violations: 1_204,
        chain_checked_fully: false,
        rejected_records: 3,
        warm_up_requests: 0,
        ..Caveats::default()
    };
    let estimate = pool.estimate.to_mut();
    (estimate.warm_up, estimate.output_reuse_unseen) = (true, true);
    recommending(pool)
}

/// An estimate after so many requests.
pub fn estimate(requests: u64) -> Estimate {
    estimate_recommending(Estimate {
        schema_version: SCHEMA_VERSION,
        pool: "pool".to_owned(),
        window: "last:3000".parse().expect("a window"),
        act_on: true,
        end_ms: requests as i64 * 1000,
        status: Status::Provisional,
        fingerprint: "0123456789abcdef".to_owned(),
        next_offset: requests as i64,
        requests: requests.min(3000),
        requests_with_reuse: requests / 2,
        page_accesses: requests * 1000,
        prompt_tokens: requests * 1000 * u64::from(PAGE_SIZE),
        distinct_pages: requests * 10,
        accumulated_pages: requests * 12,
        tracked_pages: requests * 12,
        capacities: Vec::new(),
        in_flight: None,
        ..week_estimate()
    })
}
