//! What the exporter renders of what it is told.

use super::*;
use crate::telemetry::recorder;
use kvset_formats::codec::ErrorCode;
use kvset_pipeline::resume::Resume;

fn output(destination: Destination, window: Option<&str>) -> OutputRecord {
    OutputRecord {
        destination,
        partition: Partition(3),
        window: window.map(|text| text.parse().expect("a window")),
        key: None,
        value: None,
        headers: vec![],
        placed_by: None,
    }
}

#[test]
fn what_is_counted_is_zero_before_anything_happened() {
    let recorder = recorder().expect("a recorder");
    let metrics = ServiceMetrics::new(Arc::new(Health::new()), 1, Provisioned::default());
    metrics::with_local_recorder(&recorder, || {
        metrics.begin_service(&["last:3000".parse().expect("a window")]);
        metrics.on(&ServiceEvent::NewPool { partition: Partition(0), pool: "a" });
        metrics.on(&ServiceEvent::NewPool { partition: Partition(0), pool: "b" });
        metrics.on(&ServiceEvent::Polled {
            restoring: 0,
            lag: &[],
            stalled: &[],
            unowned: &[],
            away_for: Duration::ZERO,
        });
    });
    let text = recorder.handle().render();
    for series in [
        "kvset_decode_errors_total{code=\"too_many_pages\"}",
        "kvset_transactions_total{outcome=\"fenced\"}",
        "kvset_rebalances_total{kind=\"lost\"}",
        "kvset_published_estimates_total{window=\"last:3000\"}",
        "kvset_chain_violations_total{pool=\"a\"}",
        "kvset_late_records_total{pool=\"other\"}",
        "kvset_consumed_requests_total{pool=\"a\",partition=\"0\"}",
        "kvset_refused_requests_total{pool=\"a\"}",
        "kvset_pool_refused{pool=\"a\"}",
        "kvset_snapshot_failures_total",
        "kvset_snapshot_duration_seconds_count",
        "kvset_kafka_client_timeouts_total{client=\"sink\"}",
        "kvset_assigned_partitions",
    ] {
        assert!(text.lines().any(|line| line == format!("{series} 0")), "no {series} 0 in:\n{text}");
    }
}

/// The shipped stack alerted for ever: most of its partitions have no pool.
#[test]
fn a_snapshot_of_a_partition_without_new_records_does_not_age() {
    let mut saved = SnapshotLag::default();
    assert_eq!(saved.age(), Duration::ZERO, "nothing came yet");
    saved.progress(NextOffset(5));
    std::thread::sleep(Duration::from_millis(2));
    let age = saved.age();
    assert!(age > Duration::ZERO);
    saved.progress(NextOffset(9));
    assert!(saved.age() >= age, "since the first record that it lacks");
    saved.save(NextOffset(5));
    assert!(saved.lacking_since.is_some(), "four came meanwhile");
    saved.save(NextOffset(9));
    assert_eq!(saved.age(), Duration::ZERO);
    saved.progress(NextOffset(9));
    assert_eq!(saved.age(), Duration::ZERO, "nothing new");
}

/// What a recorder says after these events.
fn rendered(tell: impl FnOnce(&ServiceMetrics)) -> String {
    let recorder = recorder().expect("a recorder");
    let metrics = ServiceMetrics::new(Arc::new(Health::new()), 2, Provisioned::default());
    metrics::with_local_recorder(&recorder, || tell(&metrics));
    recorder.handle().render()
}

fn assert_rendered(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no {line} in:\n{text}");
}

fn refuse_too_many(metrics: &ServiceMetrics) {
    let code = ErrorCode::UnknownPageSize;
    let refused = PoolRefusals { records: 1001, code, offset: 7, is_over_limit: true };
    let counts = TaskCounts { refused_pools: vec![("new".to_owned(), refused)], ..TaskCounts::default() };
    let (partition, next) = (Partition(0), NextOffset(8));
    metrics.on(&ServiceEvent::Progress { partition, next, counts: &counts, time: None, pools: 1 });
}

/// A producer that was stopped after its records were refused alerted for ever.
#[test]
fn a_refused_pool_that_falls_silent_is_refused_no_more_after_an_hour() {
    let refused = |later: Duration| {
        rendered(|metrics| {
            refuse_too_many(metrics);
            let mut inner = metrics.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.show_again(Instant::now() + later);
        })
    };
    assert_rendered(&refused(REFUSED_FOR / 2), "kvset_pool_refused{pool=\"new\"} 1");
    assert_rendered(&refused(REFUSED_FOR), "kvset_pool_refused{pool=\"new\"} 0");
}

/// The lag of a partition, the age of its snapshot and its refused pools alerted for an hour after it had moved.
#[test]
fn nothing_is_waited_for_in_a_partition_that_was_given_up() {
    let partition = Partition(0);
    let text = rendered(|metrics| {
        let resume = Resume::from_start();
        metrics.on(&ServiceEvent::Assigned { partition, resume: &resume, log_end: NextOffset(9) });
        refuse_too_many(metrics);
        let (lag, away_for) = (&[(partition, 200_000)][..], Duration::ZERO);
        metrics.on(&ServiceEvent::Polled { restoring: 0, lag, stalled: &[], unowned: &[], away_for });
        metrics.on(&ServiceEvent::Revoked(partition));
    });
    for gauge in ["consumer_lag_records", "snapshot_age_seconds", "waiting_records"] {
        assert_rendered(&text, &format!("kvset_{gauge}{{partition=\"0\"}} 0"));
    }
    assert_rendered(&text, "kvset_pool_refused{pool=\"new\"} 0");
}

/// What is reported with records only is to outlast a quiet hour, as long as the partition is this member's.
#[test]
fn what_holds_of_a_partition_is_shown_again_until_it_is_given_up() {
    let partition = Partition(0);
    let standing = |metrics: &ServiceMetrics| {
        let inner = metrics.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.standing.get(&partition).map_or(0, GaugeSet::len)
    };
    rendered(|metrics| {
        let resume = Resume::from_start();
        metrics.on(&ServiceEvent::Assigned { partition, resume: &resume, log_end: NextOffset(9) });
        (0..2).for_each(|_| refuse_too_many(metrics));
        assert_eq!(standing(metrics), 3, "snapshot, pools and what waits");
        metrics.on(&ServiceEvent::Lost(partition));
        refuse_too_many(metrics);
        assert_eq!(standing(metrics), 0);
    });
}

#[test]
fn outputs_are_counted_once_they_are_committed_and_split_pools_when_they_are_seen() {
    let recorder = recorder().expect("a recorder");
    let outputs = [
        output(Destination::Results, Some("last:3000")),
        output(Destination::DeadLetters, None),
        output(Destination::Results, Some("last:3000")),
        // A request event that `kvset prepare` made.
        output(Destination::Results, None),
    ];
    let (outputs, took) = (outputs.iter().collect::<Vec<_>>(), Duration::ZERO);
    let (first, second) = (Partition(0), Partition(3));
    let metrics = ServiceMetrics::new(Arc::new(Health::new()), 1, Provisioned::default());
    metrics::with_local_recorder(&recorder, || {
        metrics.on(&ServiceEvent::CommitFailed { kind: FailureKind::Abortable });
        metrics.on(&ServiceEvent::Committed { outputs: &outputs, partitions: 1, took });
        metrics.on(&ServiceEvent::SplitPool { pool: "a", first, second });
    });
    let text = recorder.handle().render();
    for line in [
        "kvset_published_estimates_total{window=\"last:3000\"} 2",
        "kvset_dead_letters_total{partition=\"3\"} 1",
        "kvset_split_pools_total 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
}
