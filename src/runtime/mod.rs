//! Wiring: run, replay, produce, watch, demo, shutdown.

pub mod metrics;
pub mod observe;
pub mod patience;
pub mod plan;
pub mod produce;
pub mod replay;
pub mod service;
pub mod shutdown;

mod coordinator;
mod workers;
