//! What other traffic would need, as scripts read it.

use super::required::{CapacityResult, RequiredResult, required_of};
use crate::replay::{GrownTraffic, TrafficStatus, WorthResult};
use kvset_core::estimate::{InFlightFigures, TheoreticalHits};
use kvset_core::questions::routing::RouterEstimate;
use kvset_core::sizing::recommendation::Recommendation;
use kvset_core::sizing::tiers::TierEstimates;
use serde::Serialize;

/// What so many times the traffic would need.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FactorResult<'a> {
    /// How many times.
    pub factor: f64,
    /// What chance began from, and how many seeds the requirement is the mean of.
    pub seed: u64,
    /// See `seed`.
    pub seeds: u64,
    /// How far apart the copies of a conversation are on average; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_apart_ms: Option<u64>,
    /// Whether it is answered: `ready`, `few_conversations`, or why it is not. What follows is then absent.
    pub status: TrafficStatus,
    /// Requests that count; of a factor below 1, like all counts, of all parts together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Hits with unlimited capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theoretical: Option<TheoreticalHits>,
    /// Hits at the capacities of the log's own curve.
    pub capacities: Vec<CapacityResult<'a>>,
    /// Hits at the provisioned capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_provisioned: Option<CapacityResult<'a>>,
    /// One entry per target ratio.
    pub required: Vec<RequiredResult<'a>>,
    /// One entry per target ratio and coverage.
    pub recommended: &'a [Recommendation],
    /// What requests met in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<&'a InFlightFigures>,
    /// What to buy then, where tiers were asked; of the first seed, and none of a factor below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<&'a TierEstimates>,
    /// What routers would give then; none of a factor below 1.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub routing: &'a [RouterEstimate],
    /// What the cache is worth then; absent of a factor below 1, and without a prefill rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<&'a WorthResult>,
    /// Second opinions; absent where nothing is required of any capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckResult>,
    /// What a reader must know, in the order of what it costs; why it is refused.
    pub notes: &'a [String],
}

/// Second opinions on the requirement to act on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CheckResult {
    /// By what share halves of the log are off that were grown twofold; absent without a common clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_halves: Option<f64>,
    /// The straight line through half the traffic and all of it.
    pub straight_line_pages: u64,
}

impl<'a> FactorResult<'a> {
    pub(super) fn of(found: &'a GrownTraffic) -> Self {
        let whole = found.replay.as_ref().and_then(|replay| replay.whole.as_ref());
        let provisioned = found.replay.as_ref().and_then(|replay| replay.at_provisioned.as_ref());
        Self {
            factor: found.growth.factor,
            seed: found.growth.seed,
            seeds: found.seeds,
            copies_apart_ms: found.copies_apart_ms,
            status: found.status,
            requests: whole.map(|whole| whole.requests),
            theoretical: whole.map(|whole| whole.theoretical),
            capacities: found.replay.as_ref().map(CapacityResult::of_replay).unwrap_or_default(),
            at_provisioned: provisioned.map(CapacityResult::from),
            required: whole.map(required_of).unwrap_or_default(),
            recommended: whole.map(|whole| whole.recommended.as_slice()).unwrap_or_default(),
            in_flight: whole.and_then(|whole| whole.in_flight.as_ref()),
            plan: whole.and_then(|whole| whole.plan.as_ref()),
            routing: whole.map(|whole| whole.routing.as_slice()).unwrap_or_default(),
            worth: found.replay.as_ref().and_then(|replay| replay.worth.as_ref()),
            check: found.check.map(|check| CheckResult {
                from_halves: check.from_halves,
                straight_line_pages: check.straight_line(found.growth.factor),
            }),
            notes: &found.notes,
        }
    }
}
