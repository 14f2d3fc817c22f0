//! The published result: one capacity estimate for one pool and one window.
//!
//! A value carries no wall-clock time, so that the same log gives the same bytes (DESIGN 3).

use super::measured::MeasuredEstimate;
use super::profile::{Outputs, Profile};
use super::ratio::Ratio;
use super::retention::{EvictionAge, RequiredTtlEstimate, RetentionEstimate};
use super::routing::RouterEstimate;
use super::sample::sampling_error;
use super::tenants::TenantEstimate;
use super::tiers::{Settled, TierEstimates, TrafficEstimate};
use super::window::WindowKind;
use serde::{Deserialize, Serialize};

/// Whether a window was closed by data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Closed by the partition's watermark; never changes.
    Final,
    /// A view of a window still open; may change.
    Provisional,
}

/// A capacity estimate. Pages are pages of the pool, bytes are bytes of KV state, times are
/// milliseconds of event time, rates are shares between 0 and 1. Fields that came later than the first version, and
/// those that mostly say nothing, are left out of JSON where they have their schema's default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The cache that is planned.
    pub pool: String,
    /// Kind of window, as configured (`tumbling:5m`).
    pub window: WindowKind,
    /// Start of the window (inclusive); for `last` and `all`, event time of the earliest request in it.
    pub start_ms: i64,
    /// End of the window (exclusive); for `last` and `all`, the publishing boundary that was passed.
    pub end_ms: i64,
    pub status: Status,
    /// The window's history is shorter than configured, so hits are under-counted.
    pub warm_up: bool,
    pub engine: Profile,
    pub outputs: Outputs,
    /// Share of the pages that were followed; counts and capacities are already scaled up by it.
    pub sample_rate: f64,
    /// Standard error of the smallest required capacity, as a share of it: no larger one errs more. Of
    /// others see [`Estimate::error_of`]. 0 when exact.
    pub sample_error: f64,
    /// Identifies the configuration that shaped this result: 16 hexadecimal digits.
    pub fingerprint: String,
    /// Input partition the pool lives in.
    pub partition: i32,
    /// Offset of the first record counted in the window; -1 when there is none.
    pub first_offset: i64,
    /// Offset after the record that closed the window: the estimate is a function of what precedes it.
    pub next_offset: i64,
    /// Tokens a page.
    pub page_size: u32,
    /// Bytes a page; absent where no cost a token is configured.
    pub page_bytes: Option<u64>,
    pub requests: u64,
    pub requests_with_reuse: u64,
    /// Prompt pages accessed in the window.
    pub page_accesses: u64,
    /// Distinct pages touched in the window (output pages too where the engine caches them): those
    /// last touched before the window's first record.
    pub distinct_pages: u64,
    /// Distinct pages ever seen in the pool: what never evicting would hold.
    pub accumulated_pages: u64,
    pub accumulated_bytes: Option<u64>,
    /// Pages tracked at the close; less than accumulated once the bound forgot some.
    pub tracked_pages: u64,
    pub theoretical: TheoreticalHits,
    /// One entry a target ratio, as configured.
    pub required: Vec<RequiredCapacity>,
    /// The hit-rate curve at the configured capacities, ascending.
    pub capacities: Vec<CapacityPoint>,
    /// Records of the pool that came too late for this kind of window, since the start.
    pub late_records: u64,
    /// New pages whose (sampled) id was already known under another prefix, since the start.
    pub chain_violations: u64,
    /// Input records of this pool that were refused, since the start.
    pub rejected_records: u64,
    /// The log holds no output page ids though the engine caches outputs: hits are under-counted.
    pub output_reuse_unseen: bool,
    /// What requests met in flight; absent where the log tells no durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
    /// Windows of this kind that convergence was judged over; while fewer than configured, nothing has
    /// converged.
    #[serde(default)]
    pub trend_windows: u32,
    /// What to buy; absent where no tiers are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<TierEstimates>,
    /// How the cache in use compares with the modelled one; absent where that is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredEstimate>,
    /// What routers would give, in the order asked for; empty where none is asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routing: Vec<RouterEstimate>,
    /// What keeping pages for a time would give, one entry a time and kind; empty where none is asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retention: Vec<RetentionEstimate>,
    /// How long pages must be kept, one entry a target ratio; empty where no time to live is asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retention_required: Vec<RequiredTtlEstimate>,
    /// What passes between the planned tiers; absent where that is not asked, in `all`, which has no end, and in
    /// windows with more runs than are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficEstimate>,
    /// The tenants that hold the most, and all others as one; empty where that is not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantEstimate>,
}

/// Whether a flag says nothing, so that JSON can leave it out.
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Pages of a request that a sample should follow, on average.
pub const FEWEST_FOLLOWED: f64 = 10.0;

impl Estimate {
    /// Whether each capacity was modelled on its own: then, and only then, nothing is required at any target ratio,
    /// of which there is always one.
    pub fn is_pointwise(&self) -> bool {
        self.required.is_empty()
    }

    /// Standard error of a required capacity of so many pages, as a share of it; 0 when exact.
    pub fn error_of(&self, pages: u64) -> f64 {
        sampling_error(self.sample_rate, pages as f64 * self.sample_rate)
    }

    /// Leaves of the curve what says something: where neighbouring capacities have the same hits, the smallest and the
    /// largest of them, between which every other has those hits too. For capacities that nobody named.
    pub fn thin_curve(&mut self) {
        let hits: Vec<_> = self.capacities.iter().map(|point| (point.page_hits, point.prefix_hits)).collect();
        let is_inside = |at: usize| {
            at > 0 && hits[at - 1] == hits[at] && hits.get(at + 1).is_some_and(|next| *next == hits[at])
        };
        let mut at = 0..;
        self.capacities.retain(|_| at.next().is_some_and(|at| !is_inside(at)));
    }

    /// Pages of a request that a sample follows, on average, where they are too few: a request of which no
    /// page is followed seems to need nothing, so required capacities come out too small by more than
    /// their standard error.
    pub fn too_few_followed(&self) -> Option<f64> {
        let followed = self.sample_rate * self.page_accesses as f64 / self.requests.max(1) as f64;
        Some(followed).filter(|followed| self.sample_rate < 1.0 && *followed < FEWEST_FOLLOWED)
    }
}

/// Hits with unlimited capacity.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TheoreticalHits {
    pub page_hits: u64,
    pub prefix_hits: u64,
    pub page_hit_rate: f64,
    pub prefix_hit_rate: f64,
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
    /// Whether it has settled over the last windows of this kind.
    #[serde(default)]
    pub convergence: Settled,
    /// Its mean growth from one of these windows to the next, as a share; absent where it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_per_window: Option<f64>,
}

/// What other requests in flight held as the window's requests arrived: pages that a live engine cannot
/// evict, and that a model of one request after another does not see
/// ([`in_flight`](super::in_flight) says exactly what is measured).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    /// Most other requests in flight at once.
    pub max_requests: u64,
    /// Most distinct pages they held at once; absent when beyond the tracked bound.
    pub max_pages: Option<u64>,
    pub max_bytes: Option<u64>,
    /// Mean number of distinct pages they held; absent like `max_pages`.
    pub mean_pages: Option<f64>,
    /// The requirement with this room added: one entry a target ratio, as in `required`.
    pub required: Vec<RequiredInFlight>,
}

/// Capacities that are enough for requests that overlap: a requirement plus the most pages that others
/// held. Safe rather than exact: the requirement may count some of these pages already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequiredInFlight {
    pub target_ratio: Ratio,
    pub coverage: Vec<CoverageInFlight>,
}

/// The capacity that covers a share of the window's requests with room for those in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoverageInFlight {
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
    /// `1/(1-r)` at the prefix hit rate `r` (paper, equation 1); absent when `r` is 1.
    pub relative_prefill_throughput: Option<f64>,
    /// The capacity is larger than the tracked bound, so its hits cannot be told.
    #[serde(default, skip_serializing_if = "is_false")]
    pub beyond_bound: bool,
    /// Hits that perfect foresight would have of what the window itself uses again; absent where that is not asked,
    /// in `all`, and where requests of other windows came between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimal_page_hits: Option<u64>,
    /// How long a page lives unused in a cache of this size; absent where no time to live is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_age_ms: Option<EvictionAge>,
}
