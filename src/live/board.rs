//! The latest committed estimates and how far partitions are: bounded, and kept up to date by the service's events.

mod problems;

use super::condition::Condition;
use super::overview::{Overview, OverviewProblem, PartitionState, PoolState};
use super::stillness::Stillness;
use crate::present::pool::{EstimateHistory, PoolReport, WindowRow};
use crate::present::words;
use kvset_core::estimate::Estimate;
use kvset_core::units::PageBytes;
use kvset_core::units::window::WindowKind;
use kvset_formats::codec::ErrorCode;
use kvset_formats::position::{NextOffset, Partition};
use kvset_pipeline::task::{PoolActivity, PoolRefusals, PoolTime, TaskCounts};
use kvset_service::events::{Observer, ServiceEvent};
use kvset_settings::Provisioned;
use problems::still_split;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Most points kept of a history; when there are more every other one is dropped.
const MAX_POINTS: usize = 256;
/// Most windows listed; the latest ones.
const MAX_WINDOWS: usize = 24;
/// For how long records that are late, out of order or refused are a problem after the last of them.
const LATE_FOR: Duration = Duration::from_secs(3600);
/// How long after its last request a pool has died: what it needed then is no problem of today.
const DEAD_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Most pools named as being in several partitions.
const MAX_SPLIT: usize = 10;
/// Most pools named as needing more than they hold.
const MAX_SHORT: usize = 10;

/// What the service did last, for those who look. Estimates are shown once they are committed.
#[derive(Debug)]
pub struct Board {
    /// Tells this process's views from those of one before it at the same address.
    born: u128,
    provisioned: Provisioned,
    inner: Mutex<BoardState>,
}

/// What one view of the page shows.
#[derive(Debug, Clone, PartialEq)]
pub struct PageView {
    /// Changes when the rest does.
    pub tag: String,
    /// The pool and window shown, and the facts about them; `None` where there is no such estimate.
    pub shown: Option<(WindowKind, PoolReport<'static>)>,
}

#[derive(Debug, Default)]
struct BoardState {
    most_pools: usize,
    pools: BTreeMap<String, ShownBoard>,
    partitions: BTreeMap<Partition, BoardPlace>,
    /// Handed out and not committed yet: the newest of each pool and window.
    staged: BTreeMap<(String, WindowKind), Estimate>,
    /// Counts committed estimates.
    version: u64,
    refused: BTreeMap<ErrorCode, Refused>,
    /// Pools that were refused anything, each with its partition and when that was.
    refused_pools: BTreeMap<String, (Partition, PoolRefusals, Instant)>,
    /// Partitions that cannot go on, and why.
    held: BTreeMap<Partition, String>,
    /// Pools that were found in several partitions, and when each of these had the last record of theirs.
    split: BTreeMap<String, BTreeMap<Partition, Instant>>,
    condition: Condition,
    commits_fail: bool,
    /// When the first commit began after the last that went through.
    committing_since: Option<Instant>,
    registry_away: bool,
}

#[derive(Debug)]
struct ShownBoard {
    partition: Partition,
    requests: u64,
    page_accesses: u64,
    late: Late,
    /// Those that were taken after one that arrived later.
    out_of_order: Late,
    /// Those that were held back and taken early.
    early: u64,
    time: Option<PoolTime>,
    stillness: Stillness,
    /// When its last request was taken, or its state taken up.
    heard: Instant,
    engine_bytes: Option<u64>,
    series: BTreeMap<WindowKind, BoardSeries>,
}

/// Records that were refused with one code.
#[derive(Debug, Clone, Copy)]
struct Refused {
    records: u64,
    /// When the last of them came.
    last: Instant,
}

/// Records of a pool that came too late for a window, or for their place in the order, since this process took it up.
#[derive(Debug, Clone, Copy, Default)]
struct Late {
    records: u64,
    /// How far the farthest of them lay behind, in milliseconds.
    by_ms: u64,
    /// When the last of them came.
    last: Option<Instant>,
}

#[derive(Debug)]
struct BoardSeries {
    version: u64,
    latest: Estimate,
    history: EstimateHistory,
    windows: VecDeque<WindowRow>,
}

#[derive(Debug)]
struct BoardPlace {
    publish_from: NextOffset,
    next: Option<NextOffset>,
    lag: Option<u64>,
    waiting: u64,
    time: Option<PoolTime>,
    pools: usize,
    /// When the last one was made, up to where, and its bytes.
    snapshot: Option<(Instant, NextOffset, u64)>,
    snapshot_failed: bool,
}

impl Board {
    /// Shows at most this many pools (`http.max_pool_labels`), first come first served.
    /// Each is compared with what it holds today.
    pub fn new(max_pools: u32, provisioned: Provisioned) -> Self {
        let inner = BoardState { most_pools: max_pools as usize, ..BoardState::default() };
        let born = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_micros());
        Self { born, provisioned, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest committed estimates, by pool and window; of one pool or one kind of window if asked.
    pub fn estimates(&self, pool: Option<&str>, window: Option<WindowKind>) -> Vec<Estimate> {
        let inner = self.lock();
        let pools = inner.pools.iter().filter(|(name, _)| pool.is_none_or(|pool| pool == name.as_str()));
        let series = pools.flat_map(|(_, shown)| &shown.series);
        let asked = series.filter(|(kind, _)| window.is_none_or(|window| window == **kind));
        asked.map(|(_, series)| series.latest.clone()).collect()
    }

    /// The facts about a pool and window.
    fn report(&self, series: &BoardSeries) -> PoolReport<'static> {
        PoolReport {
            history: series.history.history(),
            windows: series.windows.iter().cloned().collect(),
            provisioned: self.provisioned.of(&series.latest.pool).cloned(),
            ..PoolReport::of(Cow::Owned(series.latest.clone()))
        }
    }

    /// How the service stands.
    pub fn overview(&self) -> Overview {
        let inner = self.lock();
        let with_state: usize = inner.partitions.values().map(|place| place.pools).sum();
        Overview {
            version: env!("CARGO_PKG_VERSION"),
            pools: inner.pools.iter().map(|(name, shown)| inner.pool_state(name, shown)).collect(),
            pools_not_shown: with_state.saturating_sub(inner.pools.len()) as u64,
            partitions: inner.partitions.iter().map(|(partition, place)| place.state(*partition)).collect(),
            problems: inner.problems().into_iter().chain(self.shortages(&inner)).collect(),
        }
    }

    /// What a pool needs by the number to act on, as it is held, and what it has today, in pages; `None` where either is
    /// not known.
    fn needed_and_held(&self, shown: &ShownBoard) -> Option<(u64, u64)> {
        let latest = &shown.to_act_on()?.latest;
        let held = self.provisioned.of(&latest.pool)?.pages(latest.page_bytes.map(PageBytes))?.0;
        let needed = latest.recommended.iter().find(|entry| entry.act_on)?.to_hold()?;
        Some((needed, held))
    }

    /// How many times over a pool needs what it holds; 0 where that is not known.
    fn strain(&self, shown: &ShownBoard) -> f64 {
        self.needed_and_held(shown).map_or(0.0, |(needed, held)| needed as f64 / held.max(1) as f64)
    }

    /// Pools that need more than they hold, the worst first.
    fn shortages(&self, inner: &BoardState) -> Vec<OverviewProblem> {
        let lives = |shown: &ShownBoard| shown.heard.elapsed() < DEAD_AFTER;
        let is_short = |shown: &ShownBoard| lives(shown) && self.strain(shown) > 1.0;
        let mut short: Vec<_> = inner.pools.iter().filter(|(_, shown)| is_short(shown)).collect();
        short.sort_by(|(_, one), (_, other)| self.strain(other).total_cmp(&self.strain(one)));
        let problem = |(pool, shown): (&String, &ShownBoard)| {
            let ((needed, held), page_bytes) =
                (self.needed_and_held(shown)?, shown.to_act_on()?.latest.page_bytes);
            let size = |pages| words::capacity(pages, page_bytes);
            let message = format!("{} needed, {} provisioned.", size(needed), size(held));
            Some(OverviewProblem::of_pool("pool_too_small", pool, message))
        };
        short.into_iter().filter_map(problem).take(MAX_SHORT).collect()
    }

    /// The pool and window a reader requested; where left out, the pool that lacks most, else the first one, and its
    /// window to act on, else its widest one.
    pub fn view(&self, pool: Option<&str>, window: Option<WindowKind>) -> PageView {
        let inner = self.lock();
        let found = match pool {
            Some(name) => inner.pools.get(name),
            None => {
                let shown = inner.pools.values().filter(|shown| !shown.series.is_empty());
                shown.min_by(|one, other| self.strain(other).total_cmp(&self.strain(one)))
            }
        };
        let series = found.and_then(|shown| match window {
            Some(window) => shown.series.get(&window),
            None => shown.to_act_on(),
        });
        PageView {
            tag: format!("\"{:x}-{}\"", self.born, series.map_or(0, |series| series.version)),
            shown: series.map(|series| (series.latest.window, self.report(series))),
        }
    }
}

impl Observer for Board {
    fn on(&self, event: &ServiceEvent<'_>) {
        let mut inner = self.lock();
        match event {
            ServiceEvent::Polled { restoring, lag, stalled, unowned, .. } => {
                inner.condition.note(*restoring, stalled, unowned);
                for (partition, records) in *lag {
                    inner.at(*partition, |place| place.lag = Some(*records));
                }
            }
            ServiceEvent::Assigned { partition, resume, .. } => {
                inner.drop_staged(*partition);
                inner.partitions.insert(*partition, BoardPlace::from(resume.publish_from));
            }
            ServiceEvent::Revoked(partition) | ServiceEvent::Lost(partition) => inner.give_up(*partition),
            ServiceEvent::Progress { partition, next, counts, time, pools } => {
                inner.at(*partition, |place| {
                    place.next = Some(*next);
                    place.waiting = counts.waiting;
                    // Records that were all refused say nothing of it.
                    place.time = time.or(place.time);
                    place.pools = *pools;
                });
                inner.progress(*partition, counts);
            }
            ServiceEvent::Restored { partition, next, time, times, pools, latest } => {
                inner.at(*partition, |place| {
                    place.next = Some(*next);
                    place.time = *time;
                    place.pools = *pools;
                });
                for (pool, time) in *times {
                    if let Some(shown) = inner.pool(pool, *partition) {
                        shown.time = Some(*time);
                    }
                }
                latest.iter().for_each(|estimate| inner.show(estimate.clone()));
            }
            ServiceEvent::NewPool { partition, pool } => {
                inner.pool(pool, *partition);
            }
            ServiceEvent::SplitPool { pool, first, second } => {
                inner.split_off(pool, [*first, *second], Instant::now());
            }
            ServiceEvent::Held { partition, why } => {
                inner.held.insert(*partition, (*why).to_owned());
            }
            ServiceEvent::Committing => {
                inner.committing_since.get_or_insert_with(Instant::now);
            }
            ServiceEvent::Committed { .. } => {
                inner.commits_fail = false;
                inner.committing_since = None;
                let committed = std::mem::take(&mut inner.staged);
                committed.into_values().for_each(|estimate| inner.show(estimate));
            }
            ServiceEvent::CommitFailed { .. } => inner.commits_fail = true,
            ServiceEvent::SnapshotSaved { partition, next, bytes, .. } => {
                let snapshot = (Instant::now(), *next, *bytes);
                inner.at(*partition, |place| {
                    place.snapshot = Some(snapshot);
                    place.snapshot_failed = false;
                });
            }
            ServiceEvent::SnapshotFailed { partition } => {
                inner.at(*partition, |place| place.snapshot_failed = true);
            }
            ServiceEvent::SchemaRegistry { waiting } => inner.registry_away = *waiting,
            ServiceEvent::Rebalanced { .. }
            | ServiceEvent::Prepared { .. }
            | ServiceEvent::Captured { .. }
            | ServiceEvent::SnapshotBytesWritten { .. }
            | ServiceEvent::Waiting
            | ServiceEvent::Stopping => {}
        }
    }
}

impl BoardState {
    fn at(&mut self, partition: Partition, change: impl FnOnce(&mut BoardPlace)) {
        if let Some(place) = self.partitions.get_mut(&partition) {
            change(place);
        }
    }

    /// What is shown of a pool; `None` when there are too many.
    fn pool(&mut self, name: &str, partition: Partition) -> Option<&mut ShownBoard> {
        if !self.pools.contains_key(name) {
            if self.pools.len() >= self.most_pools {
                return None;
            }
            self.pools.insert(name.to_owned(), ShownBoard::of(partition));
        }
        self.pools.get_mut(name)
    }

    fn progress(&mut self, partition: Partition, counts: &TaskCounts) {
        for (code, records) in &counts.refused {
            let refused = self.refused.entry(*code).or_insert(Refused { records: 0, last: Instant::now() });
            *refused = Refused { records: refused.records + records, last: Instant::now() };
        }
        for (pool, refused) in &counts.refused_pools {
            self.refused_pools.insert(pool.clone(), (partition, refused.clone(), Instant::now()));
        }
        // What has gone makes room for what has come.
        for name in &counts.forgotten {
            self.pools.remove(name);
            self.refused_pools.remove(name);
            if let Some(heard) = self.split.get_mut(name) {
                heard.remove(&partition);
            }
        }
        for (name, activity) in &counts.pools {
            if let Some(heard) = self.split.get_mut(name) {
                heard.insert(partition, Instant::now());
            }
            if !counts.forgotten.contains(name)
                && let Some(shown) = self.pool(name, partition)
            {
                shown.add(activity);
            }
        }
        for (name, bytes) in &counts.memory {
            if let Some(shown) = self.pool(name, partition) {
                shown.engine_bytes = Some(*bytes);
            }
        }
        let published = self.partitions.get(&partition).map(|place| place.publish_from);
        for ((name, window), estimate) in &counts.latest {
            if self.pool(name, partition).is_none() {
                continue;
            }
            // Replayed to rebuild the state: it was committed before, and is in no commit to come.
            if published.is_some_and(|from| estimate.next_offset <= from.0) {
                self.show(estimate.clone());
            } else {
                self.staged.insert((name.clone(), *window), estimate.clone());
            }
        }
    }

    /// Shows a committed estimate, unless a newer one is shown already.
    fn show(&mut self, estimate: Estimate) {
        let version = self.version + 1;
        let Some(shown) = self.pool(&estimate.pool, Partition(estimate.partition)) else { return };
        shown.partition = Partition(estimate.partition);
        match shown.series.get_mut(&estimate.window) {
            Some(series) if series.latest.end_ms >= estimate.end_ms => return,
            Some(series) => series.add(estimate, version),
            None => {
                shown.series.insert(estimate.window, BoardSeries::of(estimate, version));
            }
        }
        self.version = version;
    }

    fn drop_staged(&mut self, partition: Partition) {
        self.staged.retain(|_, estimate| estimate.partition != partition.0);
    }

    /// Another member shows it from here on.
    fn give_up(&mut self, partition: Partition) {
        self.drop_staged(partition);
        self.partitions.remove(&partition);
        self.held.remove(&partition);
        self.refused_pools.retain(|_, (of, _, _)| *of != partition);
        self.pools.retain(|_, shown| shown.partition != partition);
        self.split.values_mut().for_each(|heard| heard.retain(|of, _| *of != partition));
    }

    fn pool_state(&self, name: &str, shown: &ShownBoard) -> PoolState {
        let latest = shown.series.values().map(|series| &series.latest);
        let latest = latest.max_by_key(|estimate| estimate.next_offset);
        PoolState {
            pool: name.to_owned(),
            partition: shown.partition.0,
            lag_records: self.partitions.get(&shown.partition).and_then(|place| place.lag),
            requests: shown.requests,
            page_accesses: shown.page_accesses,
            late_records: shown.late.records,
            watermark_ms: shown.time.map(|time| time.watermark.0),
            next_close_ms: shown.time.and_then(|time| time.next_close).map(|time| time.0),
            engine_bytes: shown.engine_bytes,
            engine: latest.map(|estimate| estimate.engine),
            page_size: latest.map(|estimate| estimate.page_size),
            page_bytes: latest.and_then(|estimate| estimate.page_bytes),
            tracked_pages: latest.map(|estimate| estimate.tracked_pages),
            accumulated_pages: latest.map(|estimate| estimate.accumulated_pages),
            windows: shown.series.keys().copied().collect(),
        }
    }

    /// A pool was found in these partitions.
    fn split_off(&mut self, pool: &str, partitions: [Partition; 2], now: Instant) {
        if self.split.len() >= MAX_SPLIT {
            self.split.retain(|_, heard| still_split(heard, now).is_some());
        }
        if self.split.len() < MAX_SPLIT || self.split.contains_key(pool) {
            let heard = self.split.entry(pool.to_owned()).or_default();
            heard.extend(partitions.map(|partition| (partition, now)));
        }
    }
}

impl Late {
    fn add(&mut self, records: u64, by_ms: u64) {
        if records > 0 {
            self.records = self.records.saturating_add(records);
            self.by_ms = self.by_ms.max(by_ms);
            self.last = Some(Instant::now());
        }
    }
}

impl ShownBoard {
    fn of(partition: Partition) -> Self {
        Self {
            partition,
            requests: 0,
            page_accesses: 0,
            late: Late::default(),
            out_of_order: Late::default(),
            early: 0,
            time: None,
            stillness: Stillness::new(Instant::now()),
            heard: Instant::now(),
            engine_bytes: None,
            series: BTreeMap::new(),
        }
    }

    fn add(&mut self, activity: &PoolActivity) {
        self.requests = self.requests.saturating_add(activity.requests);
        self.page_accesses = self.page_accesses.saturating_add(activity.pages);
        self.heard = Instant::now();
        let moved = activity.time.map(|time| time.watermark) > self.time.map(|time| time.watermark);
        self.stillness.add(activity.requests, moved, Instant::now());
        self.time = activity.time.or(self.time);
        self.late.add(activity.late, activity.late_by_ms);
        self.out_of_order.add(activity.out_of_order, activity.out_of_order_by_ms);
        self.early = self.early.saturating_add(activity.early);
    }

    /// The window to act on; the widest one as long as that one has no estimate.
    fn to_act_on(&self) -> Option<&BoardSeries> {
        let of_all = self.series.values();
        // Kinds are in order of how much of the log they cover.
        of_all.clone().find(|series| series.latest.act_on).or_else(|| of_all.clone().next_back())
    }
}

impl BoardSeries {
    fn of(estimate: Estimate, version: u64) -> Self {
        let history = EstimateHistory::of_at_most(MAX_POINTS);
        let mut series = Self { version, latest: estimate.clone(), history, windows: VecDeque::new() };
        series.add(estimate, version);
        series
    }

    fn add(&mut self, estimate: Estimate, version: u64) {
        self.history.add(&estimate);
        if self.windows.len() == MAX_WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back(WindowRow::of(&estimate));
        (self.latest, self.version) = (estimate, version);
    }
}

impl BoardPlace {
    fn from(publish_from: NextOffset) -> Self {
        Self {
            publish_from,
            next: None,
            lag: None,
            waiting: 0,
            time: None,
            pools: 0,
            snapshot: None,
            snapshot_failed: false,
        }
    }

    fn state(&self, partition: Partition) -> PartitionState {
        let age = |made: Instant| u64::try_from(made.elapsed().as_millis()).unwrap_or(u64::MAX);
        PartitionState {
            partition: partition.0,
            next_offset: self.next.map(|next| next.0),
            lag_records: self.lag,
            waiting_records: self.waiting,
            watermark_ms: self.time.map(|time| time.watermark.0),
            next_close_ms: self.time.and_then(|time| time.next_close).map(|time| time.0),
            publish_from: self.publish_from.0,
            pools: self.pools as u64,
            restoring: self.next.is_some_and(|next| next < self.publish_from),
            snapshot_age_ms: self.snapshot.map(|(made, _, _)| age(made)),
            snapshot_next_offset: self.snapshot.map(|(_, next, _)| next.0),
            snapshot_bytes: self.snapshot.map(|(_, _, bytes)| bytes),
        }
    }
}
