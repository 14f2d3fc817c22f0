//! The service's events as metrics and health.

use crate::telemetry::catalog as metric;
use crate::telemetry::estimate_metrics::{show_estimate, show_provisioned};
use crate::telemetry::metric::Metric;
use crate::telemetry::question_metrics::{TenantLabels, show_questions};
use crate::telemetry::shown::GaugeSet;
use crate::telemetry::{Health, PoolLabels, from_start};
use kvset_core::estimate::Estimate;
use kvset_core::units::window::WindowKind;
use kvset_formats::output::{Destination, OutputRecord};
use kvset_formats::position::{NextOffset, Partition};
use kvset_kafka::kafka::statistics::{self, ClientRole};
use kvset_pipeline::publish::FailureKind;
use kvset_pipeline::task::{PoolRefusals, PoolTime, TaskCounts};
use kvset_service::events::{Observer, PrepareCounts, ServiceEvent};
use kvset_settings::Provisioned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often gauges that hold for long are set again. Far less than the recorder waits until it forgets them.
const AGAIN_EVERY: Duration = Duration::from_secs(60);

/// How long after its last request what is shown of a pool is set no more.
const DEAD_AFTER: Duration = Duration::from_secs(24 * 3600);

/// How long after the last refused record a pool counts as refused: as long as the page says so.
const REFUSED_FOR: Duration = Duration::from_secs(3600);

/// Counts and shows what happens.
#[derive(Debug)]
pub struct ServiceMetrics {
    health: Arc<Health>,
    /// Whether there are snapshots whose age says something.
    keeps_state: bool,
    inner: Mutex<MetricsState>,
}

#[derive(Debug, Default)]
struct MetricsState {
    labels: PoolLabels,
    tenants: TenantLabels,
    provisioned: Provisioned,
    /// When each partition was taken up, until it has caught up.
    restoring: BTreeMap<Partition, Instant>,
    /// What the last good snapshot of each partition lacks.
    snapshots: BTreeMap<Partition, SnapshotLag>,
    /// Per pool, the chain violations that estimates carry, already counted.
    violations: BTreeMap<String, u64>,
    /// Of each partition, the figures shown of its pools: of each window, and of the pool's state.
    shown: BTreeMap<Partition, BTreeMap<(String, Option<WindowKind>), GaugeSet>>,
    /// When a request of each pool was accepted last, or its state taken up.
    active: BTreeMap<String, Instant>,
    /// Pools that were refused anything.
    refused: BTreeMap<String, RefusedPool>,
    /// Of each partition, the figures of its own that hold until they are reported otherwise.
    standing: BTreeMap<Partition, GaugeSet>,
    /// Partitions that cannot go on.
    held: BTreeSet<Partition>,
    /// Of each pool with a label, its partition and how far event time is, in seconds.
    times: BTreeMap<String, (Partition, f64)>,
    /// Partitions in all, as the group decided last.
    assigned: usize,
    /// When gauges were set again.
    again: Option<Instant>,
}

/// What was refused of a pool.
#[derive(Debug)]
struct RefusedPool {
    partition: Partition,
    records: u64,
    /// Whether they were too many when the last was.
    is_over: bool,
    last: Instant,
}

impl RefusedPool {
    /// What its gauge says. A pool that has fallen silent is refused nothing.
    fn gauge(&self, now: Instant) -> f64 {
        let is_recent = now.saturating_duration_since(self.last) < REFUSED_FOR;
        if self.is_over && is_recent { 1.0 } else { 0.0 }
    }
}

/// What a partition's last good snapshot lacks. One that holds everything does not age, however long no record comes.
#[derive(Debug, Default)]
struct SnapshotLag {
    /// Everything before this was processed.
    next: Option<NextOffset>,
    /// Since when there are records that it lacks, if there are any.
    lacking_since: Option<Instant>,
}

impl SnapshotLag {
    fn progress(&mut self, next: NextOffset) {
        if self.next != Some(next) {
            self.lacking_since.get_or_insert_with(Instant::now);
        }
        self.next = Some(next);
    }

    /// A snapshot has everything before this.
    fn save(&mut self, saved: NextOffset) {
        let is_whole = self.next.is_none_or(|next| next <= saved);
        self.lacking_since = if is_whole { None } else { Some(Instant::now()) };
    }

    fn age(&self) -> Duration {
        self.lacking_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl ServiceMetrics {
    /// Metrics for at most this many pools, alongside what these hold today; health as the events tell it.
    pub fn new(health: Arc<Health>, max_pool_labels: u32, provisioned: Provisioned) -> Self {
        let (labels, again) = (PoolLabels::new(max_pool_labels), Some(Instant::now()));
        let inner = MetricsState { labels, provisioned, again, ..MetricsState::default() };
        Self { health, keeps_state: true, inner: Mutex::new(inner) }
    }

    /// Metrics of a stage that makes no snapshots.
    pub fn stateless(health: Arc<Health>, max_pool_labels: u32) -> Self {
        Self { keeps_state: false, ..Self::new(health, max_pool_labels, Provisioned::default()) }
    }

    /// Of a service that keeps nothing: there are no snapshots to become old.
    pub fn without_snapshots(self) -> Self {
        Self { keeps_state: false, ..self }
    }

    /// Shows at zero what the service counts, for these windows. The recorder must be there.
    pub fn begin_service(&self, windows: &[WindowKind]) {
        from_start::stage();
        from_start::service(windows);
    }

    /// Shows at zero what `kvset prepare` counts. The recorder must be there.
    pub fn begin_prepare(&self) {
        from_start::stage();
        from_start::prepare();
    }
}

impl Observer for ServiceMetrics {
    fn on(&self, event: &ServiceEvent<'_>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            ServiceEvent::Polled { restoring, lag, stalled, unowned, away_for } => {
                self.health.tick();
                self.health.set_away(*away_for);
                metric::KAFKA_UP.gauge(&[]).set(if away_for.is_zero() { 1.0 } else { 0.0 });
                self.health.set_restoring(*restoring as u64);
                self.health.set_stalled(stalled.len() as u64);
                self.health.set_held(inner.held.len() as u64);
                for (gauge, partitions) in [
                    (metric::RESTORING_PARTITIONS, *restoring),
                    (metric::STALLED_PARTITIONS, stalled.len()),
                    (metric::UNOWNED_PARTITIONS, unowned.len()),
                    (metric::HELD_PARTITIONS, inner.held.len()),
                ] {
                    gauge.gauge(&[]).set(partitions as f64);
                }
                self.health.set_lag(lag.iter().map(|(_, records)| records).sum());
                for (partition, records) in *lag {
                    metric::CONSUMER_LAG_RECORDS.gauge(&[&partition.to_string()]).set(*records as f64);
                }
                for (partition, saved) in &inner.snapshots {
                    metric::SNAPSHOT_AGE.gauge(&[&partition.to_string()]).set(saved.age().as_secs_f64());
                }
                if *restoring == 0 {
                    inner.restored();
                }
                show_clients();
                inner.show_again(Instant::now());
            }
            ServiceEvent::Assigned { partition, .. } => {
                metric::REBALANCES.counter(&["assigned"]).increment(1);
                from_start::partition(&partition.to_string());
                inner.standing.insert(*partition, GaugeSet::default());
                if self.keeps_state {
                    inner.restoring.insert(*partition, Instant::now());
                    inner.snapshots.insert(*partition, SnapshotLag::default());
                    inner.hold(*partition, metric::SNAPSHOT_SIZE, 0.0);
                }
            }
            ServiceEvent::Rebalanced { partitions } => {
                self.health.set_assigned(true);
                inner.assigned = *partitions;
                metric::ASSIGNED_PARTITIONS.gauge(&[]).set(*partitions as f64);
            }
            ServiceEvent::Revoked(partition) => {
                metric::REBALANCES.counter(&["revoked"]).increment(1);
                inner.given_up(*partition);
            }
            ServiceEvent::Lost(partition) => {
                metric::REBALANCES.counter(&["lost"]).increment(1);
                inner.given_up(*partition);
            }
            ServiceEvent::Progress { partition, counts, time, pools, next } => {
                let label = partition.to_string();
                if let Some(saved) = inner.snapshots.get_mut(partition) {
                    saved.progress(*next);
                }
                if let Some(time) = time {
                    let seconds = time.watermark.0 as f64 / 1000.0;
                    inner.hold(*partition, metric::WATERMARK, seconds);
                    metric::CONSUMER_LAG_SECONDS.gauge(&[&label]).set((now() - seconds).max(0.0));
                }
                inner.hold(*partition, metric::POOLS, *pools as f64);
                inner.progress(*partition, counts);
            }
            ServiceEvent::Restored { partition, time, times, pools, latest, .. } => {
                if let Some(time) = time {
                    inner.hold(*partition, metric::WATERMARK, time.watermark.0 as f64 / 1000.0);
                }
                for (pool, time) in *times {
                    inner.active.insert(pool.clone(), Instant::now());
                    inner.show_time(*partition, pool, *time);
                }
                inner.hold(*partition, metric::POOLS, *pools as f64);
                latest.iter().for_each(|estimate| inner.show(*partition, estimate));
            }
            ServiceEvent::Prepared { partition, counts, .. } => {
                inner.prepared(&partition.to_string(), counts)
            }
            ServiceEvent::NewPool { partition, pool } => {
                from_start::pool(inner.labels.counted(pool), &partition.to_string());
                let refused = inner.refused.get(*pool).map_or(0.0, |refused| refused.gauge(Instant::now()));
                if let Some(label) = inner.labels.own(pool) {
                    metric::POOL_REFUSED.gauge(&[label]).set(refused);
                }
            }
            ServiceEvent::SplitPool { .. } => metric::SPLIT_POOLS.counter(&[]).increment(1),
            ServiceEvent::Held { partition, .. } => {
                inner.held.insert(*partition);
            }
            ServiceEvent::Waiting => self.health.tick(),
            ServiceEvent::Committing => self.health.commit_begins(),
            ServiceEvent::Committed { outputs, took, .. } => {
                self.health.committed();
                count_published(outputs);
                metric::TRANSACTIONS.counter(&["committed"]).increment(1);
                metric::TRANSACTION_DURATION.histogram(&[]).record(took.as_secs_f64());
            }
            ServiceEvent::CommitFailed { kind } => {
                let outcome = if *kind == FailureKind::Migrated { "fenced" } else { "aborted" };
                metric::TRANSACTIONS.counter(&[outcome]).increment(1);
            }
            ServiceEvent::Captured { pause, .. } => {
                metric::SNAPSHOT_PAUSE.histogram(&[]).record(pause.as_secs_f64());
            }
            ServiceEvent::SnapshotSaved { partition, bytes, took, next } => {
                inner.hold(*partition, metric::SNAPSHOT_SIZE, *bytes as f64);
                metric::SNAPSHOT_DURATION.histogram(&[]).record(took.as_secs_f64());
                if let Some(saved) = inner.snapshots.get_mut(partition) {
                    saved.save(*next);
                }
            }
            ServiceEvent::SnapshotBytesWritten { bytes } => {
                metric::SNAPSHOT_WRITTEN.counter(&[]).increment(*bytes);
            }
            ServiceEvent::SnapshotFailed { .. } => metric::SNAPSHOT_FAILURES.counter(&[]).increment(1),
            ServiceEvent::SchemaRegistry { waiting } => {
                self.health.set_registry_away(*waiting);
                metric::SCHEMA_REGISTRY_UP.gauge(&[]).set(if *waiting { 0.0 } else { 1.0 });
            }
            ServiceEvent::Stopping => self.health.set_stopping(),
        }
    }
}

impl MetricsState {
    /// Another member counts from here on. What is waited for here is over at once; other gauges end as the recorder
    /// forgets them.
    fn given_up(&mut self, partition: Partition) {
        let label = partition.to_string();
        metric::CONSUMER_LAG_RECORDS.gauge(&[&label]).set(0.0);
        metric::WAITING_RECORDS.gauge(&[&label]).set(0.0);
        if self.snapshots.remove(&partition).is_some() {
            metric::SNAPSHOT_AGE.gauge(&[&label]).set(0.0);
        }
        self.restoring.remove(&partition);
        self.standing.remove(&partition);
        self.shown.remove(&partition);
        self.held.remove(&partition);
        for (pool, _) in self.refused.iter().filter(|(_, refused)| refused.partition == partition) {
            if let Some(label) = self.labels.own(pool) {
                metric::POOL_REFUSED.gauge(&[label]).set(0.0);
            }
        }
        self.refused.retain(|_, refused| refused.partition != partition);
        for (pool, _) in self.times.iter().filter(|(_, (of, _))| *of == partition) {
            self.active.remove(pool);
        }
        self.times.retain(|_, (of, _)| *of != partition);
    }

    /// Shows a figure of a partition, for as long as this member has the partition.
    fn hold(&mut self, partition: Partition, metric: Metric, value: f64) {
        let label = partition.to_string();
        match self.standing.get_mut(&partition) {
            Some(standing) => standing.replace(metric, &[&label], value),
            None => metric.gauge(&[&label]).set(value),
        }
    }

    /// Sets the gauges again that hold for longer than the recorder keeps them.
    fn show_again(&mut self, now: Instant) {
        if self.again.is_some_and(|last| now.saturating_duration_since(last) < AGAIN_EVERY) {
            return;
        }
        self.again = Some(now);
        self.standing.values().for_each(GaugeSet::again);
        metric::ASSIGNED_PARTITIONS.gauge(&[]).set(self.assigned as f64);
        // What is known of a pool that has died is no state of anything: its gauges end as the recorder forgets them.
        let is_alive = |pool: &str| {
            self.active.get(pool).is_some_and(|last| now.saturating_duration_since(*last) < DEAD_AFTER)
        };
        let shown = self.shown.values().flatten().filter(|((pool, _), _)| is_alive(pool));
        shown.for_each(|(_, figures)| figures.again());
        for (pool, (_, seconds)) in self.times.iter().filter(|(pool, _)| is_alive(pool)) {
            metric::POOL_WATERMARK.gauge(&[pool]).set(*seconds);
        }
        for (pool, refused) in &self.refused {
            if let Some(label) = self.labels.own(pool) {
                metric::POOL_REFUSED.gauge(&[label]).set(refused.gauge(now));
            }
        }
    }

    fn restored(&mut self) {
        for (_, begin) in std::mem::take(&mut self.restoring) {
            metric::RESTORE_DURATION.histogram(&[]).record(begin.elapsed().as_secs_f64());
        }
    }

    fn progress(&mut self, partition: Partition, counts: &TaskCounts) {
        let number = partition.to_string();
        metric::CONSUMED_RECORDS.counter(&[&number]).increment(counts.records);
        metric::CONSUMED_BYTES.counter(&[&number]).increment(counts.bytes);
        for (code, records) in &counts.refused {
            metric::DECODE_ERRORS.counter(&[code.name()]).increment(*records);
        }
        metric::TOMBSTONES.counter(&[&number]).increment(counts.tombstones);
        self.hold(partition, metric::WAITING_RECORDS, counts.waiting as f64);
        counts.refused_pools.iter().for_each(|(pool, refused)| self.refuse(partition, pool, refused));
        for (pool, activity) in &counts.pools {
            self.active.insert(pool.clone(), Instant::now());
            let label = self.labels.counted(pool);
            metric::CONSUMED_REQUESTS.counter(&[label, &number]).increment(activity.requests);
            metric::CONSUMED_PAGES.counter(&[label]).increment(activity.pages);
            metric::LATE_RECORDS.counter(&[label]).increment(activity.late);
            metric::OUT_OF_ORDER_RECORDS.counter(&[label]).increment(activity.out_of_order);
            metric::EARLY_RECORDS.counter(&[label]).increment(activity.early);
            activity.time.iter().for_each(|time| self.show_time(partition, pool, *time));
        }
        metric::FORGOTTEN_POOLS.counter(&[&number]).increment(counts.forgotten.len() as u64);
        counts.latest.values().for_each(|estimate| self.show(partition, estimate));
        for (pool, bytes) in &counts.memory {
            let Some(label) = self.labels.own(pool) else { continue };
            let mut shown = GaugeSet::default();
            shown.set(metric::ENGINE_BYTES, &[label], *bytes as f64);
            if let Some(requests) = counts.tracked_requests.get(pool) {
                shown.set(metric::TRACKED_REQUESTS, &[label], *requests as f64);
            }
            self.shown.entry(partition).or_default().insert((pool.clone(), None), shown);
        }
        counts.forgotten.iter().for_each(|pool| self.forget(partition, pool));
    }

    /// Counts and shows what was refused of a pool.
    fn refuse(&mut self, partition: Partition, pool: &str, refused: &PoolRefusals) {
        let (records, is_over, last) = (refused.records, refused.is_over_limit, Instant::now());
        let before = self.refused.get(pool).map_or(0, |known| known.records);
        let label = self.labels.counted(pool);
        metric::REFUSED_REQUESTS.counter(&[label]).increment(records.saturating_sub(before));
        let refused = RefusedPool { partition, records, is_over, last };
        if let Some(label) = self.labels.own(pool) {
            metric::POOL_REFUSED.gauge(&[label]).set(refused.gauge(last));
        }
        self.refused.insert(pool.to_owned(), refused);
    }

    /// Shows no more of a pool that is no more: its gauges end as the recorder forgets them.
    fn forget(&mut self, partition: Partition, pool: &str) {
        if let (Some(_), Some(label)) = (self.refused.remove(pool), self.labels.own(pool)) {
            metric::POOL_REFUSED.gauge(&[label]).set(0.0);
        }
        self.labels.release(pool);
        self.violations.remove(pool);
        self.active.remove(pool);
        self.times.remove(pool);
        if let Some(shown) = self.shown.get_mut(&partition) {
            shown.retain(|(name, _), _| name != pool);
        }
    }

    /// Shows how far event time is in a pool.
    fn show_time(&mut self, partition: Partition, pool: &str, time: PoolTime) {
        let Some(label) = self.labels.own(pool) else { return };
        let seconds = time.watermark.0 as f64 / 1000.0;
        metric::POOL_WATERMARK.gauge(&[label]).set(seconds);
        self.times.insert(label.to_owned(), (partition, seconds));
    }

    /// Shows the newest estimate of a pool and window, one from before a restart too.
    fn show(&mut self, partition: Partition, estimate: &Estimate) {
        self.count_violations(estimate);
        if let Some(pool) = self.labels.own(&estimate.pool) {
            let mut shown = GaugeSet::default();
            show_estimate(&mut shown, pool, estimate);
            show_questions(&mut shown, pool, estimate, &mut self.tenants);
            show_provisioned(&mut shown, pool, self.provisioned.of(pool), estimate.page_bytes);
            let windows = self.shown.entry(partition).or_default();
            windows.insert((pool.to_owned(), Some(estimate.window)), shown);
        }
    }

    fn prepared(&mut self, partition: &str, counts: &PrepareCounts) {
        metric::CONSUMED_RECORDS.counter(&[partition]).increment(counts.records);
        metric::CONSUMED_BYTES.counter(&[partition]).increment(counts.bytes);
        metric::TOMBSTONES.counter(&[partition]).increment(counts.tombstones);
        for (code, records) in &counts.refused {
            metric::DECODE_ERRORS.counter(&[code.name()]).increment(*records);
        }
        for (pool, made) in &counts.pools {
            let pool = self.labels.counted(pool);
            metric::PREPARED_REQUESTS.counter(&[pool]).increment(made.requests);
            metric::PREPARED_TOKENS.counter(&[pool]).increment(made.tokens);
            metric::PREPARED_PAGES.counter(&[pool]).increment(made.pages);
        }
        let durations = metric::PREPARE_DURATION.histogram(&[]);
        counts.durations.iter().for_each(|took| durations.record(took.as_secs_f64()));
    }

    /// Estimates carry the violations since the start; a counter wants what was added.
    fn count_violations(&mut self, estimate: &Estimate) {
        let label = self.labels.counted(&estimate.pool).to_owned();
        let counted = self.violations.entry(estimate.pool.clone()).or_default();
        let added = estimate.chain_violations.saturating_sub(*counted);
        *counted = estimate.chain_violations.max(*counted);
        metric::CHAIN_VIOLATIONS.counter(&[&label]).increment(added);
    }
}

/// Counts what was committed.
fn count_published(outputs: &[&OutputRecord]) {
    let (mut estimates, mut dead_letters) = (BTreeMap::new(), BTreeMap::new());
    for output in outputs {
        match (output.destination, output.window) {
            (Destination::DeadLetters, _) => *dead_letters.entry(output.partition).or_default() += 1,
            (Destination::Results, Some(window)) => *estimates.entry(window).or_default() += 1,
            // Request events, which are counted as they are prepared.
            (Destination::Results, None) => {}
        }
    }
    for (window, count) in estimates {
        metric::PUBLISHED_ESTIMATES.counter(&[&window.to_string()]).increment(count);
    }
    for (partition, count) in dead_letters {
        metric::DEAD_LETTERS.counter(&[&partition.to_string()]).increment(count);
    }
}

/// Shows what the clients report on themselves.
fn show_clients() {
    for client in ClientRole::ALL {
        let (found, labels) = (statistics::figures(client), [client.name()]);
        metric::CLIENT_RECEIVED_BYTES.counter(&labels).absolute(found.received_bytes);
        metric::CLIENT_SENT_BYTES.counter(&labels).absolute(found.sent_bytes);
        metric::CLIENT_TIMEOUTS.counter(&labels).absolute(found.timeouts);
        metric::CLIENT_IN_FLIGHT.gauge(&labels).set(found.in_flight as f64);
        metric::CLIENT_QUEUED.gauge(&labels).set(found.queued as f64);
        if let Some(round_trip) = found.round_trip {
            metric::CLIENT_ROUND_TRIP.gauge(&labels).set(round_trip.as_secs_f64());
        }
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests;
