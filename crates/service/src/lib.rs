//! The service: poll loop, workers, snapshots, recovery, backfill.

// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

pub mod backfill;
pub mod backoff;
pub mod clock;
pub mod error;
pub mod estimating;
pub mod events;
pub mod folder;
#[cfg(test)]
mod fresh_task;
pub mod plan;
pub mod poll_loop;
pub mod prepare;
pub mod shutdown;
pub mod snapshots;
pub mod workers;
