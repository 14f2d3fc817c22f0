//! kvset: how much KV cache does this LLM traffic need?
//!
//! The program over its layers, which are crates of their own so that an import in the wrong direction does
//! not compile:
//!
//! ```text
//! core <- tokenize <- formats <- pipeline <- kafka, snapshot <- service <- this package
//! ```

// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

pub use kvset_core as core;
pub use kvset_formats::{codec, logs, output, position, trace, workload};
pub use kvset_kafka::{kafka, registry};
pub use kvset_pipeline as pipeline;
pub use kvset_prepare as prepare;
pub use kvset_service as service;
pub use kvset_settings as settings;
pub use kvset_snapshot as snapshot;
#[cfg(feature = "tokenize")]
pub use kvset_tokenize as tokenize;

pub mod cli;
pub mod commands;
pub mod doctor;
pub mod live;
pub mod model;
pub mod prefixes;
pub mod present;
pub mod program;
pub mod replay;
pub mod telemetry;
pub mod tune;
