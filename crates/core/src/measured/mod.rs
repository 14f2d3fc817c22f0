//! Measured beside modelled: what the engine's own count of cached tokens says about its cache (WHATIF 1).
//!
//! A log that says how many prompt tokens came from cache says, request by request, between which two
//! capacities the cache behaved: [`Reading`]. [`Consensus`] finds the capacity that most requests agree
//! on, [`Restarts`] the moments from which a cache knew nothing older, and [`Ledger`] splits what was
//! lost between capacity, routing and the engine.

mod consensus;
mod ledger;
mod reading;
mod restarts;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;

pub use consensus::{Agreed, Consensus};
pub use ledger::Ledger;
pub use reading::{CachedPages, Reading};
pub use restarts::{MAX_RESTARTS, Restart, Restarts, Seen};
pub use tally::{MeasuredOutcome, MeasuredTally, ReplicaRestart};
pub use verdict::{Findings, MIN_AGREEMENT, Verdict};
