//! The recorder that collects metrics in Prometheus' form.

use super::catalog::ALL;
use super::metric::MetricKind;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use metrics_util::MetricKindMask;
use std::time::Duration;

/// Gauges that nobody set for this long are dropped: those of partitions and pools that went elsewhere, and those that
/// the newest estimate has no figure for. Whatever holds for longer is set again every minute. As long as Prometheus
/// itself looks back.
const FORGET_GAUGES_AFTER: Duration = Duration::from_secs(300);

/// A recorder with the help of every metric and the buckets of every histogram. Keep its handle for the
/// [`Server`](super::Server) and give it to [`metrics::set_global_recorder`].
///
/// # Errors
/// A histogram has no buckets.
pub fn recorder() -> anyhow::Result<PrometheusRecorder> {
    let mut builder = PrometheusBuilder::new().idle_timeout(MetricKindMask::GAUGE, Some(FORGET_GAUGES_AFTER));
    for metric in ALL {
        if let MetricKind::Histogram(bounds) = metric.kind {
            let of_metric = Matcher::Full(metric.name.to_owned());
            builder = builder
                .set_buckets_for_metric(of_metric, bounds)
                .map_err(|error| anyhow::anyhow!("cannot set up metrics: {error}"))?;
        }
    }
    let recorder = builder.build_recorder();
    metrics::with_local_recorder(&recorder, || ALL.iter().for_each(|metric| metric.describe()));
    Ok(recorder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::catalog;

    #[test]
    fn what_is_counted_is_rendered_with_its_help() {
        let recorder = recorder().expect("a recorder");
        metrics::with_local_recorder(&recorder, || {
            catalog::CONSUMED_RECORDS.counter(&["3"]).increment(7);
            catalog::REQUIRED_CAPACITY_PAGES.gauge(&["a\"b", "last:3000", "0.99", "0.95"]).set(12.0);
            catalog::SNAPSHOT_DURATION.histogram(&[]).record(0.2);
        });
        let text = recorder.handle().render();
        for line in [
            "# HELP kvset_consumed_records_total Records taken from the input topic.",
            "# TYPE kvset_consumed_records_total counter",
            "kvset_consumed_records_total{partition=\"3\"} 7",
            "kvset_required_capacity_pages{pool=\"a\\\"b\",window=\"last:3000\",target=\"0.99\",coverage=\"0.95\"} 12",
            "# TYPE kvset_snapshot_duration_seconds histogram",
            "kvset_snapshot_duration_seconds_bucket{le=\"0.25\"} 1",
            "kvset_snapshot_duration_seconds_bucket{le=\"0.1\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
        }
    }
}
