//! Replicas and routing: what each of several caches finds when a router spreads the requests.
//!
//! A router that is blind to what caches hold decides alike whatever their capacity is. So one pass with one
//! stack a replica is exact for all capacities at once, at the cost of one engine pass a router.

mod caches;
mod estimate;
mod following;
mod least_in_flight;
mod loads;
mod observer;
mod precise;
mod prefix;
mod router;
mod run;
mod spec;
mod tally;
#[cfg(test)]
mod tests;

pub use caches::ReplicaCaches;
pub use estimate::{RoutedCapacity, RouterCoverage, RouterEstimate, RouterRequirement, RoutingFigures};
pub(super) use following::FollowingCaches;
pub use observer::{MAX_ROUTERS, RoutersObserver};
pub use router::Router;
pub use run::RoutedCaches;
pub use spec::{HashBy, PreciseRules, PrefixRules, RouterKind, RouterSpec, SpecError};
pub use tally::{RoutingShare, RoutingTally};
