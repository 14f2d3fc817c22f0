//! Wiring: run, backfill, replay, produce, watch, demo, shutdown.

pub mod backfill;
pub mod checkpoints;
pub mod clock;
pub mod coordinator;
pub mod crew;
pub mod demo;
pub mod metrics;
pub mod observe;
mod parking;
pub mod parts;
pub mod patience;
pub mod plan;
pub mod produce;
pub mod replay;
pub mod schemas;
pub mod service;
pub mod shutdown;
pub mod stores;
pub mod watch;

mod recovery;
mod workers;
