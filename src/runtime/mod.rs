//! Wiring: run, prepare, backfill, replay, produce, watch, demo, shutdown.

pub mod backfill;
pub mod checkpoints;
pub mod clock;
pub mod coordinator;
pub mod crew;
pub mod demo;
pub mod estimating;
pub mod metrics;
pub mod observe;
pub mod parts;
pub mod patience;
pub mod plan;
pub mod prepare;
pub mod produce;
pub mod replay;
pub mod schemas;
pub mod service;
pub mod shutdown;
pub mod stage;
pub mod stores;
pub mod watch;

mod homes;
mod parking;
mod recovery;
mod workers;
