//! The pure core: pages, stack distances, required capacity, windows, coverage, curves.
//!
//! Nothing in here names a broker, a runtime, a file or a clock; `tests/architecture.rs` keeps it so.
//! Everything is a pure function of (configuration, requests in order).

pub mod capacity;
pub mod coverage;
pub mod curve;
pub mod engine;
pub mod estimate;
pub mod estimator;
pub mod event;
pub mod found;
pub mod hashing;
pub mod in_flight;
pub mod missing;
#[cfg(test)]
pub(crate) mod naive;
pub mod needs;
pub mod outcome;
mod packed;
pub mod pages;
pub mod pool;
pub mod pool_config;
pub mod profile;
pub mod ratio;
pub mod sample;
pub mod sglang;
pub mod stack;
pub mod tally;
pub mod tiers;
pub mod units;
pub mod window;
pub mod windows;
