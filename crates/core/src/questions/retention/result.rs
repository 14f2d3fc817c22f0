//! What retention gives, in whole pages.

use super::{Ages, RetentionConfig, RetentionTally, Ttl};
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Whether a use keeps a page for longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionKind {
    /// Kept for so long after the last use.
    Sliding,
    /// Kept for so long after it was written.
    Fixed,
}

impl RetentionKind {
    /// The name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sliding => "sliding",
            Self::Fixed => "fixed",
        }
    }
}

/// A set of requests with every time to live. Pages are whole pages: sampled counts are scaled up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetentionResult {
    /// One a time to live and kind.
    pub points: Vec<RetentionPoint>,
    /// How long pages must be kept, one a target ratio.
    pub required: Vec<RequiredTtl>,
    /// The age at which capacities evict, as asked for.
    pub eviction_ages: Vec<EvictionAge>,
}

/// One time to live.
#[derive(Debug, Clone, PartialEq)]
pub struct RetentionPoint {
    /// How long pages are kept.
    pub ttl: Ttl,
    /// From when on.
    pub kind: RetentionKind,
    /// Accesses that hit; `None` where the stack forgot pages that it depends on. Prefix hits are the same pages.
    pub page_hits: Option<u64>,
    /// Pages held, over the time from the first to the last request.
    pub mean_pages: Option<f64>,
    /// Most pages held at a time.
    pub peak_pages: Option<u64>,
    /// Share of the requests that find as much of their prefix as the first target ratio asks for.
    pub covered: Option<f64>,
    /// The same with room for so many pages only, where the others are dropped by last use; of sliding ones.
    pub capacities: Vec<RetainedCapacity>,
}

/// A capacity that drops what is older than a time to live, too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetainedCapacity {
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Share of the arrivals after which it held everything that the time to live promises.
    pub honoured: Option<f64>,
}

/// How long pages must be kept at one target ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct RequiredTtl {
    /// Share of the reusable prefix that a request must find.
    pub target_ratio: Ratio,
    /// Exact quantiles.
    pub coverage: Vec<TtlQuantile>,
}

/// The smallest sliding time to live that is enough for a share of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlQuantile {
    /// The share.
    pub coverage: Ratio,
    /// In milliseconds; `None` where the stack forgot when pages were used.
    pub ttl_ms: Option<u64>,
}

/// How long a page lives unused in one capacity, in milliseconds, over the arrivals after which it drops something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EvictionAge {
    /// Of ten such arrivals one finds it smaller.
    pub p10: Option<u64>,
    /// The median.
    pub p50: Option<u64>,
    /// Of ten such arrivals nine find it smaller.
    pub p90: Option<u64>,
}

impl EvictionAge {
    fn of(ages: Cow<'_, Ages>) -> Self {
        let found = Ages::quantiles_of(ages, &[500, 100, 900].map(Ratio::per_mille), 0);
        Self { p10: found[1], p50: found[0], p90: found[2] }
    }
}

impl RetentionResult {
    /// The result of a tally; `rate` is the share of pages followed.
    pub fn of(tally: &RetentionTally, config: &RetentionConfig, coverages: &[Ratio], rate: Ratio) -> Self {
        let points = (0..config.ttls.len()).flat_map(|at| {
            [RetentionKind::Sliding, RetentionKind::Fixed].map(|kind| point(tally, config, at, kind, rate))
        });
        let required = tally.required.iter().zip(&config.targets).map(|(ages, target_ratio)| RequiredTtl {
            target_ratio: *target_ratio,
            coverage: coverages
                .iter()
                .zip(tally.required(ages, coverages))
                .map(|(coverage, ttl_ms)| TtlQuantile { coverage: *coverage, ttl_ms })
                .collect(),
        });
        Self {
            points: points.collect(),
            required: required.collect(),
            eviction_ages: tally.eviction_ages.columns().map(EvictionAge::of).collect(),
        }
    }
}

fn point(
    tally: &RetentionTally,
    config: &RetentionConfig,
    at: usize,
    kind: RetentionKind,
    rate: Ratio,
) -> RetentionPoint {
    let is_sliding = kind == RetentionKind::Sliding;
    let (held, hits) = match kind {
        RetentionKind::Sliding => (tally.sliding[at], tally.hits_within(at)),
        RetentionKind::Fixed => (tally.fixed[at], tally.fixed_hits(at)),
    };
    let is_told = !tally.is_beyond_bound[at];
    let share = |requests: u64| (tally.requests > 0).then(|| requests as f64 / tally.requests as f64);
    let within = |ages: &Ages| tally.requests - tally.with_reuse + ages.count_upto(config.ttls[at].ms());
    let covered = match kind {
        RetentionKind::Sliding => tally.required.first().map(within),
        RetentionKind::Fixed => tally.fixed_covered(at).filter(|_| !config.targets.is_empty()),
    };
    let capacity = |capacity: usize| RetainedCapacity {
        page_hits: is_told.then(|| rate.whole_of(tally.hits_within_at(at, capacity))),
        honoured: share(tally.honoured(at, capacity)).filter(|_| is_told),
    };
    let capacities = if is_sliding { 0..config.capacities.len() } else { 0..0 };
    RetentionPoint {
        ttl: config.ttls[at],
        kind,
        page_hits: is_told.then(|| rate.whole_of(hits)),
        mean_pages: is_told.then(|| held.mean(tally.span_ms()) / rate.as_f64()),
        peak_pages: is_told.then(|| rate.whole_of(held.peak)),
        covered: covered.filter(|_| is_told).and_then(share),
        capacities: capacities.map(capacity).collect(),
    }
}
