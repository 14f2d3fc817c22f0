//! Metrics, logging, health.
