//! The pure core: pages, stack distances, required capacity, windows, coverage, curves.
//!
//! Each room imports only those named before it:
//!
//! - [`units`]: pages, bytes, ratios, times and kinds of windows; page ids and how they are hashed.
//! - [`request`]: one request as it arrives, and what it found.
//! - [`stack`]: LRU stack distances of every capacity, in one pass.
//! - [`engines`]: caches as serving engines keep them, with their rules and the tiers below; how a cache is configured.
//! - [`families`]: what of a log is independent of the rest: how certain a figure is, what more traffic would need.
//! - [`sizing`]: from counts to sizes: curve, coverage, requirement, recommendation, plan, trend.
//! - [`questions`]: what is asked of a pool alongside its curve.
//! - [`windows`]: event time, and what is counted by window.
//! - [`estimate`]: the published result of a window, and everything that shapes it.
//! - [`pool`]: puts these together; a set of pools.
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

pub mod engines;
pub mod estimate;
pub mod families;
pub mod pool;
pub mod questions;
pub mod request;
pub mod sizing;
pub mod stack;
pub mod units;
pub mod windows;
