//! The pure core: pages, stack distances, required capacity, windows, coverage, curves.
//!
//! Nothing in here names a broker, a runtime, a file or a clock; `tests/architecture.rs` keeps it so.
//! Everything is a pure function of (configuration, requests in order).

pub mod estimate;
pub mod event;
pub mod outcome;
pub mod pages;
pub mod profile;
pub mod ratio;
pub mod sglang;
pub mod tiers;
pub mod units;
pub mod window;
