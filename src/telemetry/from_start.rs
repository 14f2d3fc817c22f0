//! Series that exist before anything happened, at zero: a rate over a series that began with its first
//! event does not see that event, and a panel without series looks like a service that is down.
//!
//! Only label values that the program or its configuration bounds are made here; those of partitions and
//! pools come with them.

use super::catalog as metric;
use kvset_core::units::window::WindowKind;
use kvset_formats::codec::ErrorCode;

/// What every stage counts.
pub(super) fn stage() {
    for code in ErrorCode::ALL {
        metric::DECODE_ERRORS.counter(&[code.name()]).increment(0);
    }
    for outcome in ["committed", "aborted", "fenced"] {
        metric::TRANSACTIONS.counter(&[outcome]).increment(0);
    }
    for kind in ["assigned", "revoked", "lost"] {
        metric::REBALANCES.counter(&[kind]).increment(0);
    }
    // A histogram exists with its handle.
    drop(metric::TRANSACTION_DURATION.histogram(&[]));
    for gauge in [
        metric::ASSIGNED_PARTITIONS,
        metric::RESTORING_PARTITIONS,
        metric::STALLED_PARTITIONS,
        metric::UNOWNED_PARTITIONS,
    ] {
        gauge.gauge(&[]).set(0.0);
    }
    metric::KAFKA_UP.gauge(&[]).set(0.0);
}

/// What the service counts alongside.
pub(super) fn service(windows: &[WindowKind]) {
    for window in windows {
        metric::PUBLISHED_ESTIMATES.counter(&[&window.to_string()]).increment(0);
    }
    metric::SPLIT_POOLS.counter(&[]).increment(0);
    metric::SNAPSHOT_FAILURES.counter(&[]).increment(0);
    metric::SNAPSHOT_WRITTEN.counter(&[]).increment(0);
    for histogram in [metric::SNAPSHOT_DURATION, metric::SNAPSHOT_PAUSE, metric::RESTORE_DURATION] {
        drop(histogram.histogram(&[]));
    }
}

/// What `kvset prepare` counts alongside.
pub(super) fn prepare() {
    drop(metric::PREPARE_DURATION.histogram(&[]));
}

/// What is counted of a partition that was taken up.
pub(super) fn partition(partition: &str) {
    for counter in
        [metric::CONSUMED_RECORDS, metric::CONSUMED_BYTES, metric::TOMBSTONES, metric::DEAD_LETTERS]
    {
        counter.counter(&[partition]).increment(0);
    }
}

/// What is counted of a pool under this label, found in this partition.
pub(super) fn pool(label: &str, partition: &str) {
    metric::CONSUMED_REQUESTS.counter(&[label, partition]).increment(0);
    for counter in
        [metric::CONSUMED_PAGES, metric::LATE_RECORDS, metric::CHAIN_VIOLATIONS, metric::REFUSED_REQUESTS]
    {
        counter.counter(&[label]).increment(0);
    }
}
