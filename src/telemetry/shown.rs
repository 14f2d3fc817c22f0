//! Gauges that hold until they are reported otherwise, kept from being forgotten.
//!
//! The recorder drops gauges that nobody set for minutes, so that those of partitions and pools which went
//! elsewhere go. The figures of a window of a day hold for a day: whoever shows them sets them again.

use super::metric::Metric;
use metrics::Gauge;

/// Gauges set together, which end together.
#[derive(Debug, Default)]
pub(super) struct GaugeSet(Vec<(&'static str, Gauge, f64)>);

impl GaugeSet {
    /// Sets a gauge, and keeps it.
    pub(super) fn set(&mut self, metric: Metric, labels: &[&str], value: f64) {
        let gauge = metric.gauge(labels);
        gauge.set(value);
        self.0.push((metric.name, gauge, value));
    }

    /// Sets a gauge where its value is known, and keeps it.
    pub(super) fn set_known(&mut self, metric: Metric, labels: &[&str], value: Option<f64>) {
        value.into_iter().for_each(|value| self.set(metric, labels, value));
    }

    /// Sets a gauge that says whether something is so, and keeps it.
    pub(super) fn set_flag(&mut self, metric: Metric, labels: &[&str], is_so: bool) {
        self.set(metric, labels, if is_so { 1.0 } else { 0.0 });
    }

    /// Sets a gauge, and keeps it in place of what was kept of this metric.
    pub(super) fn replace(&mut self, metric: Metric, labels: &[&str], value: f64) {
        self.0.retain(|(name, _, _)| *name != metric.name);
        self.set(metric, labels, value);
    }

    /// Sets all of them again, so that they are not forgotten.
    pub(super) fn again(&self) {
        self.0.iter().for_each(|(_, gauge, value)| gauge.set(*value));
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog;
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use metrics_util::MetricKindMask;
    use std::time::Duration;

    /// Figures of a window of a day were gone an hour after it had closed.
    #[test]
    fn figures_that_are_shown_again_are_not_forgotten() {
        let timeout = Duration::from_millis(40);
        let recorder = PrometheusBuilder::new().idle_timeout(MetricKindMask::GAUGE, Some(timeout));
        let recorder = recorder.build_recorder();
        let mut shown = GaugeSet::default();
        metrics::with_local_recorder(&recorder, || {
            shown.set(catalog::TRACKED_PAGES, &["kept"], 7.0);
            catalog::TRACKED_PAGES.gauge(&["left"]).set(8.0);
        });
        let kept = "kvset_tracked_pages{pool=\"kept\"} 7\n";
        let first = recorder.handle().render();
        assert!(first.contains(kept) && first.contains("pool=\"left\""), "{first}");
        for _ in 0..2 {
            std::thread::sleep(timeout * 2);
            shown.again();
            let later = recorder.handle().render();
            assert!(later.contains(kept) && !later.contains("pool=\"left\""), "{later}");
        }
    }
}
