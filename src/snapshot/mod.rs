//! Snapshots: a partition's state kept so that a restart need not read the whole log again (DESIGN 4).
//!
//! A snapshot is a cache, the log is the truth: losing one costs time, never a result.

pub mod capture;
pub mod format;
pub mod stream;
