//! Wiring: run, replay, produce, watch, demo, shutdown.
