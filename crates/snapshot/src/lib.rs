//! Snapshots: a partition's state kept so that a restart need not read the whole log again (docs/design.md, section 4).
//!
//! A snapshot is a cache, the log is the truth: losing one costs time, never a result.
//!
//! ```text
//! task -> capture -> writer -> store -> directory -> files
//!                              store -> stream -> format -> task
//! ```
//!
//! A small state is one file. Of a large one each snapshot writes what is new, into a file of parts that later
//! snapshots refer to ([`contents`], [`known`]).
// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod assembled;
pub mod capture;
#[cfg(feature = "object-store")]
mod clouds;
pub mod contents;
pub mod directory;
mod durable;
pub mod files;
pub mod format;
pub mod known;
pub mod layered;
pub mod limits;
pub mod lock;
#[cfg(any(test, feature = "test-support"))]
pub mod memory;
mod names;
#[cfg(feature = "object-store")]
pub mod objects;
#[cfg(feature = "cloud")]
mod signatures;
mod source;
pub mod store;
pub mod stream;
#[cfg(feature = "object-store")]
mod window;
pub mod writer;
