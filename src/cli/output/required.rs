//! What an estimate requires, and its curve: as scripts read them, and as tables.

use crate::cli::output::{Column, Sheet, bytes, known, share_name, thousands};
use kvset_core::estimate::{CapacityPoint, CoverageCapacity, Estimate, RequiredCapacity, RequiredInFlight};
use kvset_core::ratio::Ratio;
use kvset_core::tiers::Settled;
use serde::Serialize;

/// One capacity of the curve. Numbers beyond the tracked bound are `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityResult {
    /// As it was written, or its pages.
    pub label: String,
    /// The capacity.
    pub pages: u64,
    /// The capacity, where a cost a token is known.
    pub bytes: Option<u64>,
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Pages in the leading runs of hits.
    pub prefix_hits: Option<u64>,
    /// Page hits a page access.
    pub page_hit_rate: Option<f64>,
    /// Page hits an access that was not cold.
    pub reuse_hit_rate: Option<f64>,
    /// Prefix hits a page access.
    pub prefix_hit_rate: Option<f64>,
    /// `1/(1-r)` at the prefix hit rate `r`.
    pub relative_prefill_throughput: Option<f64>,
    /// The capacity is larger than the tracked bound.
    #[serde(skip_serializing_if = "is_false")]
    pub beyond_bound: bool,
    /// Requests that cannot run in so small a cache at all, where that is modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turned_away_requests: Option<u64>,
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

/// The capacity that is enough for a share of the requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoverageResult {
    /// The share.
    pub coverage: Ratio,
    /// The capacity.
    pub pages: Option<u64>,
    /// The capacity, where a cost a token is known.
    pub bytes: Option<u64>,
    /// Standard error of the capacity, as a share of it, where it was found in a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_error: Option<f64>,
    /// The requirement is larger than the tracked bound.
    #[serde(skip_serializing_if = "is_false")]
    pub beyond_bound: bool,
    /// Whether it has settled over the last readings or windows.
    pub convergence: Settled,
    /// Its mean growth from one to the next, as a share.
    pub growth_per_window: Option<f64>,
}

impl RequiredResult {
    pub(crate) fn render(&self, with_room: Option<&RequiredInFlight>) -> String {
        let mut columns = vec![Column::Text("coverage"), Column::Number("pages"), Column::Number("size")];
        let sampled = self.coverage.iter().any(|entry| entry.sample_error.is_some());
        if sampled {
            columns.push(Column::Number("std. error"));
        }
        if with_room.is_some() {
            columns.extend([Column::Number("with in-flight pages"), Column::Number("size")]);
        }
        columns.push(Column::Text("trend"));
        let mut sheet = Sheet::new(&columns);
        for (at, entry) in self.coverage.iter().enumerate() {
            let pages = known(entry.pages, thousands, entry.beyond_bound);
            let mut cells = vec![share_name(entry.coverage), pages, bytes(entry.bytes)];
            if sampled {
                let error = entry.sample_error.map(|error| format!("{:.1} %", error * 100.0));
                cells.push(error.unwrap_or_else(|| "-".to_owned()));
            }
            if let Some(sum) = with_room.and_then(|with_room| with_room.coverage.get(at)) {
                cells.extend([known(sum.pages, thousands, true), bytes(sum.bytes)]);
            }
            cells.push(entry.convergence.with_growth(entry.growth_per_window));
            sheet.row(cells);
        }
        format!(
            "\nrequired capacity at target ratio {}; {} of {} requests have something to reuse\n{}",
            self.target_ratio,
            thousands(self.requests_with_reuse),
            thousands(self.requests),
            sheet.render()
        )
    }
}

impl CoverageResult {
    pub(crate) fn cell(&self) -> String {
        match self.bytes {
            Some(_) => bytes(self.bytes),
            None => known(self.pages, |pages| format!("{} p", thousands(pages)), self.beyond_bound),
        }
    }
}

impl From<&CapacityPoint> for CapacityResult {
    fn from(point: &CapacityPoint) -> Self {
        Self {
            label: point.label.clone().unwrap_or_else(|| format!("{}p", point.pages)),
            pages: point.pages,
            bytes: point.bytes,
            page_hits: point.page_hits,
            prefix_hits: point.prefix_hits,
            page_hit_rate: point.page_hit_rate,
            reuse_hit_rate: point.reuse_hit_rate,
            prefix_hit_rate: point.prefix_hit_rate,
            relative_prefill_throughput: point.relative_prefill_throughput,
            beyond_bound: point.beyond_bound,
            turned_away_requests: None,
        }
    }
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
        Self {
            sample_error: sampled.map(|pages| estimate.error_of(pages)),
            coverage: found.coverage,
            pages: found.pages,
            bytes: found.bytes,
            beyond_bound: found.beyond_bound,
            convergence: found.convergence,
            growth_per_window: found.growth_per_window,
        }
    }
}

/// For fields that are written only when they are true.
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
