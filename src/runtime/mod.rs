//! Wiring: run, replay, produce, watch, demo, shutdown.

pub mod replay;
