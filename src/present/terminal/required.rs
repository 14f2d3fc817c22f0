//! What an estimate requires, and its curve: as scripts read them, and as tables.

use crate::present::pool::PoolReport;
use crate::present::terminal::number::UNKNOWN;
use crate::present::terminal::{Column, Sheet, Terminal, capacity, known, percent, share_name, thousands};
use crate::present::words::BY_TOKENS;
use crate::replay::BelowHits;
use kvset_core::estimate::recommendation::{Recommendation, RecommendationStatus};
use kvset_core::estimate::{CapacityPoint, CoverageCapacity, Estimate, InFlight, RequiredCapacity};
use kvset_core::questions::retention::EvictionAge;
use kvset_core::units::ratio::Ratio;
use serde::Serialize;

/// One capacity of the curve: the estimate's, always with a label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityResult {
    /// Its label is as it was written, or its pages. Numbers beyond the tracked bound are `null`.
    #[serde(flatten)]
    pub point: CapacityPoint,
    /// Requests that cannot run in so small a cache at all, where that is modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turned_away_requests: Option<u64>,
    /// What tiers below found, from the fastest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<BelowHits>,
    /// Hits that perfect foresight would have; `null` where the tracked bound hides them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal_page_hits: Option<Option<u64>>,
    /// How long unused pages live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_age_ms: Option<EvictionAge>,
    /// What requests in flight hold of it, where durations are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<PagesInFlight>,
}

/// Pages that requests in flight hold as another one arrives: as many at every capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PagesInFlight {
    /// On average.
    pub mean: f64,
    /// At most, for 99 % of the requests.
    pub p99: u64,
    /// At most.
    pub max: u64,
}

impl PagesInFlight {
    /// None where the tracked bound hides them.
    pub fn of(found: &InFlight) -> Option<Self> {
        Some(Self { mean: found.mean_pages?, p99: found.p99_pages?, max: found.max_pages? })
    }
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequiredResult {
    /// Share of the reusable prefix a request must find.
    pub target_ratio: Ratio,
    /// Requests that count.
    pub requests: u64,
    /// Those of them with something to reuse.
    pub requests_with_reuse: u64,
    /// Mean requirement.
    pub mean_pages: Option<f64>,
    /// Largest requirement.
    pub max_pages: Option<u64>,
    /// Exact quantiles.
    pub coverage: Vec<CoverageResult>,
}

/// The capacity that is enough for a share of the requests: the estimate's, and how well it is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoverageResult {
    /// The capacity.
    #[serde(flatten)]
    pub found: CoverageCapacity,
    /// Standard error of the capacity, as a share of it, where it was found in a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_error: Option<f64>,
}

/// The recommended capacities at one target ratio as a table: the numbers of the answer, one row a
/// coverage. `errors` are the standard errors of the requirements, where they were found in a sample.
pub(crate) fn required_table(
    facts: &PoolReport,
    target: usize,
    errors: &[Option<f64>],
    terminal: &Terminal,
) -> String {
    let Some(required) = facts.required.get(target) else { return String::new() };
    let all = facts.recommended_at(target);
    let with_room = facts.in_flight.as_ref().is_some_and(|found| found.room() != Some(0));
    let sampled = errors.iter().any(Option::is_some);
    let counted = all.iter().any(|entry| entry.hit_rate.is_some());
    let known_pages = |pages: Option<u64>, entry: &Recommendation| {
        known(pages, thousands, entry.status == RecommendationStatus::BeyondBound)
    };
    let in_bytes = facts.page_bytes.is_some();
    let mut columns = vec![Column::Text("coverage")];
    columns.extend(in_bytes.then_some(Column::Number("size")));
    columns.push(Column::Number("pages"));
    if counted {
        columns.extend([Column::Number("hit rate"), Column::Number(BY_TOKENS)]);
    }
    columns.extend(sampled.then_some(Column::Number("std. error")));
    columns.extend(with_room.then_some(Column::Number("without room")));
    columns.push(Column::Text("trend"));
    let mut sheet = Sheet::new(&columns).spare(&["trend", "std. error", "without room", BY_TOKENS]);
    for (at, entry) in all.iter().enumerate() {
        let mut cells = vec![share_name(entry.coverage)];
        cells.extend(in_bytes.then(|| recommended_cell(entry, facts.page_bytes)));
        cells.push(match entry.status {
            RecommendationStatus::TooFew => in_parentheses(entry.so_far().map(thousands)),
            _ => known_pages(entry.pages, entry),
        });
        if counted {
            cells.extend([entry.hit_rate, entry.hit_rate_tokens].map(|rate| known(rate, percent, false)));
        }
        let error = errors.get(at).copied().flatten().map(|error| format!("{:.1} %", error * 100.0));
        cells.extend(sampled.then(|| error.unwrap_or_else(|| "-".to_owned())));
        let alone = |pages| capacity(pages, facts.page_bytes);
        let is_beyond = entry.status == RecommendationStatus::BeyondBound;
        cells.extend(with_room.then(|| known(entry.required_pages, alone, is_beyond)));
        cells.push(entry.convergence.with_growth(entry.growth_per_window));
        sheet.row(cells);
    }
    let room = if with_room { ", with room for requests in flight" } else { "" };
    let heading = format!(
        "required capacity at target ratio {}{room}; {} of {} requests have something to reuse",
        required.target_ratio,
        thousands(facts.requests_with_reuse),
        thousands(facts.requests),
    );
    format!("\n{}{}", terminal.paragraph(&heading), sheet.render(terminal))
}

/// A recommended capacity in a cell; in parentheses what too few requests ask for so far.
pub(crate) fn recommended_cell(entry: &Recommendation, page_bytes: Option<u64>) -> String {
    let size = |pages| capacity(pages, page_bytes);
    match entry.status {
        RecommendationStatus::TooFew => in_parentheses(entry.so_far().map(size)),
        status => known(entry.pages, size, status == RecommendationStatus::BeyondBound),
    }
}

fn in_parentheses(size: Option<String>) -> String {
    size.map_or_else(|| UNKNOWN.to_owned(), |size| format!("({size})"))
}

impl From<&CapacityPoint> for CapacityResult {
    fn from(point: &CapacityPoint) -> Self {
        let label = point.label.clone().unwrap_or_else(|| format!("{}p", point.pages));
        Self {
            point: CapacityPoint {
                label: Some(label),
                // Written once, where they are requested.
                optimal_page_hits: None,
                eviction_age_ms: None,
                ..point.clone()
            },
            turned_away_requests: None,
            below: Vec::new(),
            optimal_page_hits: None,
            eviction_age_ms: None,
            in_flight: None,
        }
    }
}

/// The capacities that an estimate was counted at.
pub(crate) fn capacities_of(estimate: &Estimate) -> Vec<CapacityResult> {
    let in_flight = estimate.in_flight.as_ref().and_then(PagesInFlight::of);
    estimate.capacities.iter().map(|point| CapacityResult { in_flight, ..point.into() }).collect()
}

/// The requirements of an estimate.
pub(crate) fn required_of(estimate: &Estimate) -> Vec<RequiredResult> {
    let convert = |required: &RequiredCapacity| RequiredResult {
        target_ratio: required.target_ratio,
        requests: estimate.requests,
        requests_with_reuse: estimate.requests_with_reuse,
        mean_pages: required.mean_pages,
        max_pages: required.max_pages,
        coverage: required.coverage.iter().map(|found| CoverageResult::of(estimate, found)).collect(),
    };
    estimate.required.iter().map(convert).collect()
}

impl CoverageResult {
    fn of(estimate: &Estimate, found: &CoverageCapacity) -> Self {
        let sampled = found.pages.filter(|_| estimate.sample_rate < 1.0);
        Self { sample_error: sampled.map(|pages| estimate.error_of(pages)), found: found.clone() }
    }
}

/// For fields that are written only when they are true.
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
