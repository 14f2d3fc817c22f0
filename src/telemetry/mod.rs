//! Metrics, logging, health.
//!
//! [`metric`] and [`catalog`] define every metric as data, [`recorder`] collects them, [`server`] serves
//! them with the health that the service's loops note in [`Health`], and [`logging`] sets up the log.

pub mod catalog;
mod estimate_metrics;
mod from_start;
mod health;
mod known_hosts;
mod labels;
pub mod logging;
mod metric;
mod process;
mod question_metrics;
mod recorder;
mod server;
pub mod service_metrics;
mod shown;

pub use health::{Health, HealthBounds};
pub use labels::PoolLabels;
pub use metric::{Metric, MetricKind, MetricUnit};
pub use process::set_configured;
pub use recorder::recorder;
pub use server::Server;
