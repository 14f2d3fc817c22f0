//! Snapshots on disk, in shared stores, after crashes.

mod cli;
mod crash;
mod directory;
#[cfg(feature = "object-store")]
mod objects;
mod parts;
mod writer;
