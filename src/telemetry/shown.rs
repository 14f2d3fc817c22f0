//! Gauges that hold until they are told otherwise, kept from being forgotten.
//!
//! The recorder drops gauges that nobody set for an hour, so that those of partitions and pools which went
//! elsewhere go. The figures of a window of a day hold for a day: whoever shows them sets them again.

use super::metric::Metric;
use metrics::Gauge;

/// Gauges set together, which end together.
#[derive(Debug, Default)]
pub(super) struct Shown(Vec<(Gauge, f64)>);

impl Shown {
    /// Sets a gauge, and keeps it.
    pub(super) fn set(&mut self, metric: Metric, labels: &[&str], value: f64) {
        let gauge = metric.gauge(labels);
        gauge.set(value);
        self.0.push((gauge, value));
    }

    /// Sets all of them again, so that they are not forgotten.
    pub(super) fn again(&self) {
        self.0.iter().for_each(|(gauge, value)| gauge.set(*value));
    }
}
