//! The service: poll loop, workers, snapshots, recovery, backfill.

// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

pub mod backfill;
pub mod backoff;
pub mod checkpoints;
pub mod clock;
pub mod coordinator;
pub mod error;
pub mod estimating;
pub mod events;
pub mod features;
pub mod parts;
pub mod plan;
pub mod prepare;
pub mod schemas;
pub mod service;
pub mod shutdown;
pub mod stage;
pub mod stores;
pub mod worker_pool;

mod parking;
mod pool_partitions;
mod recovery;
mod refusals;
mod workers;
