//! The pure core: pages, stack distances, required capacity, windows, coverage, curves.
//!
//! Nothing in here names a broker, a runtime, a file or a clock; `tests/repository/architecture.rs` keeps it so.
//! Everything is a pure function of (configuration, requests in order).
// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

#[cfg(not(target_endian = "little"))]
compile_error!("kvset reads packed little-endian page ids in place and needs a little-endian target");

pub mod answer_reuse;
pub mod asked;
pub mod bank;
pub mod beside;
pub mod capacity;
pub mod chain;
pub mod chat_engine;
pub mod coverage;
pub mod curve;
pub mod engine;
pub mod engine_rules;
pub mod estimate;
pub mod estimator;
pub mod event;
pub mod features;
mod figures;
pub mod found;
pub mod generated;
pub mod hashing;
pub mod hybrid;
pub mod in_flight;
pub mod keyed;
pub mod labels;
pub mod lifetimes;
pub mod lmcache;
pub mod measured;
pub mod missing;
pub mod mooncake;
#[cfg(test)]
pub(crate) mod naive;
pub mod needs;
pub mod optimum;
pub mod outcome;
pub mod overlaps;
pub mod packed;
pub mod pages;
pub mod passed;
pub mod pool;
pub mod pool_config;
pub mod pool_set;
pub mod profile;
pub mod ratio;
pub mod recommendation;
pub mod retention;
pub mod routing;
pub mod runs;
pub mod sample;
pub mod sglang;
pub mod stack;
pub mod step_counts;
pub mod tally;
pub mod tenants;
pub mod tiers;
pub mod units;
pub mod window;
pub mod windows;
