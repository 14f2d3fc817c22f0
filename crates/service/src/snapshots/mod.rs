//! When snapshots of the partitions' states are written, and where.

pub mod checkpoints;
pub mod stores;
