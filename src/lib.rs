//! kvset: how much KV cache does this LLM traffic need?
//!
//! Data flows one way and imports point inward:
//!
//! ```text
//! kafka/source -> codec -> pipeline/task -> core -> pipeline (commit) -> kafka/outlet -> snapshot
//! ```

// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]
// One module asks for it, and says why.
#![deny(unsafe_code)]

#[cfg(not(target_endian = "little"))]
compile_error!("kvset reads packed little-endian page ids in place and needs a little-endian target");

pub mod cli;
pub mod codec;
pub mod core;
mod http;
pub mod kafka;
pub mod live;
pub mod model;
pub mod pipeline;
pub mod prepare;
pub mod registry;
pub mod report;
pub mod runtime;
pub mod settings;
pub mod snapshot;
pub mod telemetry;
#[cfg(feature = "tokenize")]
pub mod tokenize;
pub mod trace;
pub mod workload;
