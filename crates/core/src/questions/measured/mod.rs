//! Measured alongside modelled: what the engine's own count of cached tokens says about its cache.
//!
//! A log that says how many prompt tokens came from cache says, request by request, between which two
//! capacities the cache behaved: [`MeasuredReading`]. [`Intervals`] find the capacity that most requests agree
//! on, [`Restarts`] the moments from which a cache knew nothing older, and [`Ledger`] splits what was
//! lost between capacity, routing and the engine.

mod agreement;
mod answers;
mod caches;
mod consensus;
mod counts;
mod estimate;
mod intervals;
mod latest;
mod ledger;
mod modelled;
mod observer;
mod point_tally;
mod points;
mod reading;
mod restarts;
mod share;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;

pub use caches::MeasuredCaches;
pub use consensus::Consensus;
pub use counts::Counts;
pub use estimate::{
    EffectiveCapacity, LedgerEstimate, Loss, MeasuredEstimate, MeasuredFigures, RestartEstimate,
};
pub use intervals::{Agreed, Intervals};
pub use ledger::Ledger;
pub use modelled::Modelled;
pub use observer::MeasuredObserver;
pub use point_tally::{PointShare, PointTally};
pub use points::PointCaches;
pub use reading::{CachedPages, Explanation, MeasuredReading};
pub use restarts::{MAX_RESTARTS, RequestPosition, Restarts};
pub use share::MeasuredShare;
pub use tally::MeasuredTally;
pub use verdict::{MIN_AGREEMENT, Verdict};
