//! Bytes to typed values and back: request events, estimates and dead letters; trace files of every known
//! shape; generated workloads.

// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

pub mod almost_json;
pub mod any_value;
pub mod census;
pub mod codec;
pub mod identity;
pub mod key;
pub mod logs;
pub mod output;
mod packed;
pub mod placeholders;
pub mod position;
pub mod record;
pub mod retention_class;
mod row_values;
mod spelling;
pub mod stated;
pub mod time;
pub mod trace;
mod watched;
pub mod workload;
