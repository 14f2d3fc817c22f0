//! Replicas and routing: what each of several caches finds when a router spreads the requests.
//!
//! A router that is blind to what caches hold decides alike whatever their capacity is. So one pass with one
//! stack a replica is exact for all capacities at once, at the cost of one engine pass a router.

mod caches;
mod estimate;
mod following;
mod least_in_flight;
mod loads;
mod precise;
mod prefix;
mod refusal;
mod router;
mod run;
mod spec;
mod tally;
#[cfg(test)]
mod tests;

use crate::questions::needs::QuestionNeeds;

pub use caches::ReplicaCaches;
pub use estimate::{RoutedCapacity, RouterCoverage, RouterEstimate, RouterRequirement, RoutingFigures};
pub(super) use following::FollowingCaches;
pub use refusal::QuestionError;
pub use router::Router;
pub use run::RoutedCaches;
pub use spec::{HashBy, PreciseRules, PrefixRules, RouterKind, RouterSpec, SpecError};
pub use tally::{RoutingShare, RoutingTally};

/// Most replicas of one router.
pub const MAX_REPLICAS: usize = 1024;

/// What reporting routers needs.
pub const NEEDS: QuestionNeeds = QuestionNeeds {
    setting: "routers",
    revision: 0,
    one_stack: true,
    few_capacities: false,
    each_request: false,
};
