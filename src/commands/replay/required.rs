//! What an estimate requires, and its curve, as scripts read them.

use crate::replay::{BelowHits, Replay};
use kvset_core::estimate::{CapacityPoint, CoverageCapacity, Estimate, InFlightFigures, RequiredCapacity};
use kvset_core::questions::reuse::ReuseSetting;
use kvset_core::sizing::curve::share;
use kvset_core::sizing::figures::EvictionAge;
use kvset_core::units::ratio::Ratio;
use serde::Serialize;

/// One capacity of the curve: the estimate's, always with a label.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CapacityResult<'a> {
    /// Its label is as it was written, or its pages. Numbers beyond the tracked bound are `null`.
    #[serde(flatten)]
    pub point: CapacityPoint,
    /// Requests that cannot run in so small a cache at all, where that is modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turned_away_requests: Option<u64>,
    /// What it finds at most, where page ids leave open what a draft head loses: the rest is the lower end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<AtMostResult>,
    /// What tiers below found, from the fastest.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub below: &'a [BelowHits],
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

/// What a capacity finds at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtMostResult {
    /// Page hits.
    pub page_hits: u64,
    /// Prefix hits, which are as many: what is behind a page that is not there is not found.
    pub prefix_hits: u64,
    /// Their share of the page accesses.
    pub page_hit_rate: f64,
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
    pub fn of(found: &InFlightFigures) -> Option<Self> {
        Some(Self { mean: found.mean_pages?, p99: found.p99_pages?, max: found.max_pages? })
    }
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequiredResult<'a> {
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
    pub coverage: Vec<CoverageResult<'a>>,
}

/// The capacity that is enough for a share of the requests: the estimate's, and how well it is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoverageResult<'a> {
    /// The capacity.
    #[serde(flatten)]
    pub found: &'a CoverageCapacity,
    /// Standard error of the capacity, as a share of it, where it was found in a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_error: Option<f64>,
}

impl From<&CapacityPoint> for CapacityResult<'_> {
    fn from(point: &CapacityPoint) -> Self {
        let label = point.label.clone().unwrap_or_else(|| format!("{}p", point.pages));
        // What is requested besides is written once, where it is.
        let besides = CapacityPoint { optimal_page_hits: None, eviction_age_ms: None, ..point.clone() };
        Self { point: CapacityPoint { label: Some(label), ..besides }, ..Self::default() }
    }
}

impl<'a> CapacityResult<'a> {
    /// The capacities of a replay, each with what was requested of it besides.
    pub(super) fn of_replay(done: &'a Replay) -> Vec<Self> {
        let estimate = done.estimate();
        let ReuseSetting { ttls, optimal, .. } = &done.config.questions.reuse;
        let places = estimate.capacities.iter().zip(capacities_of(estimate)).enumerate();
        let result = |(place, (point, result)): (usize, (&CapacityPoint, Self))| Self {
            turned_away_requests: done.turned_away.get(place).copied(),
            below: done.below.get(place).map_or(&[], Vec::as_slice),
            optimal_page_hits: optimal.then_some(point.optimal_page_hits),
            eviction_age_ms: (!ttls.is_empty()).then(|| point.eviction_age_ms.unwrap_or_default()),
            ..result
        };
        places.map(result).collect()
    }
}

/// The capacities that an estimate was counted at.
pub(crate) fn capacities_of(estimate: &Estimate) -> Vec<CapacityResult<'_>> {
    let in_flight = estimate.in_flight.as_ref().and_then(PagesInFlight::of);
    let at_most = |point: &CapacityPoint| {
        let page_hits = estimate.draft_range.as_ref()?.at_most(point.pages)?;
        let page_hit_rate = share(page_hits, estimate.page_accesses);
        Some(AtMostResult { page_hits, prefix_hits: page_hits, page_hit_rate })
    };
    let result =
        |point: &CapacityPoint| CapacityResult { in_flight, at_most: at_most(point), ..point.into() };
    estimate.capacities.iter().map(result).collect()
}

/// The requirements of an estimate.
pub(crate) fn required_of(estimate: &Estimate) -> Vec<RequiredResult<'_>> {
    estimate.required.iter().map(|required| RequiredResult::of(estimate, required)).collect()
}

impl<'a> RequiredResult<'a> {
    fn of(estimate: &Estimate, required: &'a RequiredCapacity) -> Self {
        Self {
            target_ratio: required.target_ratio,
            requests: estimate.requests,
            requests_with_reuse: estimate.requests_with_reuse,
            mean_pages: required.mean_pages,
            max_pages: required.max_pages,
            coverage: required.coverage.iter().map(|found| CoverageResult::of(estimate, found)).collect(),
        }
    }
}

impl<'a> CoverageResult<'a> {
    fn of(estimate: &Estimate, found: &'a CoverageCapacity) -> Self {
        let sampled = found.pages.filter(|_| estimate.sample_rate < 1.0);
        let sample_error = sampled.map(|pages| estimate.error_of(pages));
        Self { sample_error, found }
    }
}

/// For fields that are written only when they are true.
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
