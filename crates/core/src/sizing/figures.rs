//! The figures of an estimate: what a window requires, and the points of its hit-rate curve.

use crate::families::certainty::{FigureStanding, Interval};
use crate::sizing::tiers::Settled;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// Whether a count says what its default says: then JSON leaves it out.
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Whether a flag says what its default says.
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// Leaves what says something of points that ascend: where neighbouring capacities have the same hits, the smallest and
/// the largest of them, between which every other has those hits too.
pub(crate) fn thin(points: &mut Vec<CapacityPoint>) {
    let hits: Vec<_> = points.iter().map(|point| (point.page_hits, point.prefix_hits)).collect();
    let is_inside = |at: usize| {
        at > 0 && hits[at - 1] == hits[at] && hits.get(at + 1).is_some_and(|next| *next == hits[at])
    };
    let mut at = 0..;
    points.retain(|_| at.next().is_some_and(|at| !is_inside(at)));
}

/// Hits with unlimited capacity.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TheoreticalHits {
    pub page_hits: u64,
    pub prefix_hits: u64,
    pub page_hit_rate: f64,
    pub prefix_hit_rate: f64,
    /// Prefix hits by their tokens as a share of all tokens of the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
}

/// The requirement distribution at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequiredCapacity {
    pub target_ratio: Ratio,
    pub mean_pages: Option<f64>,
    /// Absent when the largest lies beyond the tracked bound.
    pub max_pages: Option<u64>,
    pub coverage: Vec<CoverageCapacity>,
}

/// The capacity that covers a share of the window's requests: an exact nearest-rank quantile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoverageCapacity {
    pub coverage: Ratio,
    /// Absent when beyond the tracked bound, or when the window is empty.
    pub pages: Option<u64>,
    pub bytes: Option<u64>,
    pub tokens: Option<u64>,
    /// The same quantile over the requests that had something to reuse.
    pub pages_with_reuse: Option<u64>,
    /// The requirement is larger than the tracked bound.
    #[serde(default, skip_serializing_if = "is_false")]
    pub beyond_bound: bool,
    /// Whether it has settled over the last steps of this kind of window.
    #[serde(default)]
    pub convergence: Settled,
    /// Its mean growth from one of these steps to the next, as a share; absent where too little is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_per_window: Option<f64>,
    /// The lower end of its 90 % interval, in pages; absent, like all that follows, where certainty is not asked, and
    /// where nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<u64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// Its standard error, as a share of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// Conversations with a request that needs more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversations_above: Option<u64>,
    /// How much stands behind the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FigureStanding>,
}

impl CoverageCapacity {
    /// So many pages for this share of the requests, of which nothing else is known.
    pub fn of(coverage: Ratio, pages: Option<u64>) -> Self {
        Self {
            coverage,
            pages,
            bytes: None,
            tokens: None,
            pages_with_reuse: None,
            beyond_bound: false,
            convergence: Settled::NotConverged,
            growth_per_window: None,
            low: None,
            high: None,
            standard_error: None,
            conversations_above: None,
            status: None,
        }
    }

    /// Takes in how certain it is.
    pub fn take_interval(&mut self, found: &Interval) {
        (self.low, self.high, self.standard_error) = (found.low, found.high, found.standard_error);
        (self.conversations_above, self.status) = (Some(found.conversations_above), Some(found.standing));
    }
}

/// What other requests in flight held as the window's requests arrived: pages that a live engine cannot
/// evict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InFlightFigures {
    /// Requirements and hits are those of requests that overlap: what these hold is counted in them. Else they are
    /// those of one request after another, and what others hold is room to be added.
    #[serde(default, skip_serializing_if = "is_false")]
    pub modelled: bool,
    /// Most other requests in flight at once.
    pub max_requests: u64,
    /// Most distinct pages they held at once; absent when beyond the tracked bound.
    pub max_pages: Option<u64>,
    pub max_bytes: Option<u64>,
    /// Mean number of distinct pages they held; absent like `max_pages`.
    pub mean_pages: Option<f64>,
    /// Distinct pages that they held at most as 99 % of the requests arrived; absent beyond the tracked bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_pages: Option<u64>,
    /// The requirement with room for the most they held added: one entry per target ratio, as in `required`. None
    /// where they are modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Required<CoverageSize>>,
    /// Capacities that were asked for, or are provisioned, which had no room for all that was in flight at times;
    /// only where that is modelled. Records leave it out.
    #[serde(skip)]
    pub without_room: Vec<RoomShortage>,
}

/// A capacity that lacks room for what is in flight at times: requests wait there, or are preempted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RoomShortage {
    /// The capacity.
    pub pages: u64,
    /// Requests that arrived as, or right after, more was in flight than it holds, their own prompt included.
    pub requests: u64,
    /// The same as a share of all requests.
    pub share: f64,
}

impl InFlightFigures {
    /// Pages by which a requirement has to grow; none where it counts them, absent beyond the tracked bound.
    pub fn room(&self) -> Option<u64> {
        if self.modelled { Some(0) } else { self.max_pages }
    }
}

/// Capacities that are enough for requests that overlap: a requirement plus the most pages that others
/// held. Safe rather than exact: the requirement may count some of these pages already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Required<C> {
    pub target_ratio: Ratio,
    pub coverage: Vec<C>,
}

/// The capacity that covers a share of the window's requests with room for those in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoverageSize {
    pub coverage: Ratio,
    /// Absent when either part of the sum is.
    pub pages: Option<u64>,
    pub bytes: Option<u64>,
}

/// One point of the hit-rate curve.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CapacityPoint {
    /// As the operator wrote it (`100GiB`), where it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub pages: u64,
    pub bytes: Option<u64>,
    /// Absent beyond the tracked bound, like the rates below.
    pub page_hits: Option<u64>,
    pub prefix_hits: Option<u64>,
    pub page_hit_rate: Option<f64>,
    /// Hits as a share of the accesses that were not cold.
    pub reuse_hit_rate: Option<f64>,
    pub prefix_hit_rate: Option<f64>,
    /// Prefix hits by their tokens as a share of all tokens of the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
    /// `1/(1-r)` at the prefix hit rate `r` (paper, equation 1); absent when `r` is 1.
    pub relative_prefill_throughput: Option<f64>,
    /// The capacity is larger than the tracked bound, so its hits cannot be known.
    #[serde(default, skip_serializing_if = "is_false")]
    pub beyond_bound: bool,
    /// Hits that perfect foresight would have of what the window itself uses again; absent where that is not enabled,
    /// in `all`, and where requests of other windows came between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimal_page_hits: Option<u64>,
    /// How long a page lives unused in a cache of this size; absent where no time to live is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_age_ms: Option<EvictionAge>,
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
