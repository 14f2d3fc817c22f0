//! Wiring: run, prepare, replay, produce, watch, demo, shutdown.

pub mod demo;
pub mod metrics;
pub mod observe;
pub mod patience;
pub mod plan;
pub mod prepare;
pub mod produce;
pub mod replay;
pub mod service;
pub mod shutdown;
pub mod watch;

mod checkpoints;
mod coordinator;
mod estimating;
mod recovery;
mod stage;
mod workers;
