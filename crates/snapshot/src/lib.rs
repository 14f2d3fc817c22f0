//! Snapshots: a partition's state kept so that a restart need not read the whole log again (DESIGN 4).
//!
//! A snapshot is a cache, the log is the truth: losing one costs time, never a result.
//!
//! ```text
//! task -> capture -> writer -> store -> directory -> files
//!                              store -> stream -> format -> task
//! ```
// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

pub mod capture;
#[cfg(feature = "object-store")]
mod clouds;
pub mod directory;
mod durable;
pub mod files;
pub mod format;
pub mod layered;
pub mod lock;
#[cfg(any(test, feature = "test-support"))]
pub mod memory;
#[cfg(feature = "object-store")]
pub mod objects;
#[cfg(feature = "cloud")]
mod signatures;
pub mod store;
pub mod stream;
pub mod writer;
