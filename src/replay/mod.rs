//! `kvset replay`: trace files in, estimates out, no Kafka.
//!
//! Rows stream through one pool per engine; nothing is kept of a row once it was observed.

mod ahead;
mod asked;
mod below;
mod cache_writes;
mod ceiling;
mod counted;
mod history;
mod lifetimes;
mod measured;
mod per_request;
mod search;
mod traffic;
mod windowed;

use crate::report::HistoryRecorder;
use ahead::serve_ahead;
use below::Tiers;
use ceiling::{Ceilings, Followed, has_ceiling};
use counted::CountedCurve;
use history::HISTORY_WINDOW;
use kvset_core::bank::CacheBank;
use kvset_core::capacity::CapacitySpec;
use kvset_core::engine::EngineRefusal;
use kvset_core::engine_rules::PageMismatch;
use kvset_core::estimate::{CapacityPoint, Estimate};
use kvset_core::event::RequestEvent;
use kvset_core::measured::{Accepted, MeasuredEstimate, PointError};
use kvset_core::pool::{Pool, Refusal};
use kvset_core::pool_config::{PoolConfig, PoolConfigError};
use kvset_core::pool_set::{
    History as LogHistory, ObserveError, PoolConfigs, PoolRecord, PoolSet, PoolSetConfig,
};
use kvset_core::profile::Profile;
use kvset_core::ratio::Ratio;
use kvset_core::routing::{RouterEstimate, RoutingError, SpecError};
use kvset_core::units::{Offset, PageBytes, PageCount, PageSize};
use kvset_core::window::WindowKind;
use kvset_formats::trace::{self, Progress, ReadOptions, RowError, TraceError, TraceItem, TraceRow};
use lifetimes::{LifetimesObserver, Lived};
use measured::{Ended, Observer};
use per_request::PerRequest;
use search::Sufficiency;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use traffic::TrafficObserver;

pub use ahead::cores;
pub use asked::{break_even, foresight, second_sight, tier_sentence};
pub use below::{Below, BelowHits};
pub use cache_writes::CacheWritesResult;
pub use ceiling::Ceiling;
pub use history::{ReplayHistory, pool_report, report_input};
pub use lifetimes::{LifetimesResult, OptimalCapacity, OptimalResult, WindowLifetimes};
pub use measured::Beside;
pub use search::{SearchResult, SearchedCapacity, search};
pub use traffic::{BusiestSpan, TierTraffic, TrafficResult};

/// Leading requests that touch the cache but do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// So many requests.
    Requests(u64),
    /// This share of the trace's requests, rounded down; the trace is read twice.
    Share(Ratio),
}

/// What to replay, and how.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// Trace files in order; `-` is standard input.
    pub traces: Vec<PathBuf>,
    /// How to read them.
    pub read: ReadOptions,
    /// How to estimate. `windows` are those the caller asked for.
    pub pool: PoolConfig,
    /// What does not count.
    pub warm_up: WarmUp,
    /// Go on past rows that cannot be used.
    pub skip_bad_rows: bool,
    /// What to measure and to route beside the estimates.
    pub beside: Beside,
    /// What the cache holds today, to compare with.
    pub provisioned: Option<CapacitySpec>,
    /// Threads over which the capacities of an engine are spread that is modelled a capacity at a time. The result is
    /// the same with any number of them.
    pub threads: usize,
}

/// A row that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// File and line.
    pub place: String,
    /// What is wrong with it; never quotes the row.
    pub reason: String,
}

/// Why a replay gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] PoolConfigError),
    /// Rows were passed over, and the caller did not allow that.
    #[error(
        "{count} of {rows} rows cannot be used, so the result would be wrong: mend them, or go on without them with --skip-bad-rows{}",
        listed(.first)
    )]
    BadRows { count: u64, rows: u64, first: Vec<BadRow> },
    /// A share of an unknown number of requests was asked for.
    #[error(
        "--warm-up with a share needs to read the trace twice, which standard input cannot: give a count"
    )]
    ShareOfStream,
    /// What was asked for needs one stack for all capacities.
    #[error(
        "{asked} needs an engine with one curve, which {engine} has not: choose another --engine, or with vllm \
         --attention full"
    )]
    NoStack { asked: &'static str, engine: &'static str },
    /// A router cannot be tried.
    #[error("--router: {0}")]
    Router(#[from] SpecError),
    /// A router goes by a name that no row has.
    #[error("--router {router}: no row names a {by}: hash something else, as in hash:4:first-page")]
    Unnamed { router: String, by: &'static str },
    /// A stream cannot be read several times.
    #[error("--search reads the trace several times, which standard input cannot: give a file")]
    SearchOfStream,
    /// The engine cannot be modelled at the trace's page size.
    #[error("{place}: {source}")]
    Page { place: String, source: PageMismatch },
    /// A tenant's part of a split refuses a request.
    #[error("{place}: {source}")]
    Quota { place: String, source: EngineRefusal },
    /// A request cannot be routed.
    #[error("{place}: {source}")]
    Routing { place: String, source: RoutingError },
    /// A request cannot be held against the caches of its replica.
    #[error("{place}: {source}")]
    Points { place: String, source: PointError },
    /// The per-request file cannot be written.
    #[error("cannot write the per-request rows: {0}")]
    PerRequest(std::io::Error),
}

fn listed(rows: &[BadRow]) -> String {
    rows.iter().map(|row| format!("\n  {}: {}", row.place, row.reason)).collect()
}

/// A finished replay.
#[derive(Debug, Clone)]
pub struct Replay {
    /// How it was estimated: the caller's configuration, with `all` among its windows.
    pub config: Arc<PoolConfig>,
    /// Requests accepted, those of the warm-up among them.
    pub requests: u64,
    /// Requests that only filled the cache.
    pub warm_up_requests: u64,
    /// Rows that were passed over.
    pub rejected_rows: u64,
    /// The first of them.
    pub bad_rows: Vec<BadRow>,
    /// Distinct pages whose id was already known under another prefix, among the ids watched.
    pub chain_violations: u64,
    /// Distinct pages of the whole trace.
    pub distinct_pages: PageCount,
    /// Tokens a page, once known.
    pub page_size: Option<PageSize>,
    /// Bytes a page, where a cost a token is configured.
    pub page_bytes: Option<PageBytes>,
    /// The estimate over every request that counts; none where no request does.
    pub whole: Option<Estimate>,
    /// Its curve at the recommended capacities; none where each capacity is modelled on its own.
    pub counted: Vec<CapacityPoint>,
    /// What the cache holds today, as the caller said.
    pub provisioned: Option<CapacitySpec>,
    /// The same at each further cost a token.
    pub at_further_costs: Vec<(f64, Estimate)>,
    /// The windows that were asked for, in the order in which they closed.
    pub windows: Vec<Estimate>,
    /// What tiers below found, one list a capacity of the engine; empty where none were asked for.
    pub below: Vec<Vec<BelowHits>>,
    /// What a hybrid model's rules lose at any size.
    pub ceiling: Option<Ceiling>,
    /// Requests too large to run at all, one a capacity, ascending; empty where the engine has a stack.
    pub turned_away: Vec<u64>,
    /// What the log's cached tokens say, where it has any.
    pub measured: Option<MeasuredEstimate>,
    /// What the log says was written to a provider's cache, where it counts that.
    pub cache_writes: Option<CacheWritesResult>,
    /// What each router gives, in the order asked for, at every capacity of the curve.
    pub routing: Vec<RouterEstimate>,
    /// What was asked about time, tenants and the optimum.
    pub lifetimes: LifetimesResult,
    /// What passes between the planned tiers, where there are several.
    pub traffic: Option<TrafficResult>,
    /// What the reader had to assume about the trace.
    pub notes: Vec<String>,
}

/// Replays traces. `progress` is called now and then; `per_request` receives one JSON line a counted
/// request.
///
/// # Errors
/// [`ReplayError`]; nothing was printed then.
pub fn replay(
    options: &ReplayOptions,
    per_request: Option<&mut dyn Write>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Replay, ReplayError> {
    let warm_up = warm_up_requests(options)?;
    Ok(run_one(Run::new(options, warm_up, per_request, None)?, options, progress)?.0)
}

/// Replays traces for several engines in one reading; all else about them is as in the options. With
/// `for_report`, what a report shows beside the estimates is kept.
///
/// # Errors
/// [`ReplayError`]; nothing was printed then.
pub fn replay_engines(
    options: &ReplayOptions,
    engines: &[Profile],
    for_report: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<(Replay, ReplayHistory)>, ReplayError> {
    let warm_up = warm_up_requests(options)?;
    let start = |profile: &Profile| {
        let pool = options.pool.with_profile(*profile);
        let recorder = for_report.then(HistoryRecorder::default);
        Run::new(&ReplayOptions { pool, ..options.clone() }, warm_up, None, recorder)
    };
    let mut runs = engines.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let notes = read(&mut runs, options, progress)?;
    let finish = |run: Run<'_>| run.finish(options.skip_bad_rows, notes.clone());
    runs.into_iter().map(finish).collect()
}

/// Replays traces as [`replay`] does, and keeps what a report shows beside the estimates: how they
/// moved, and every request's requirement.
///
/// # Errors
/// [`ReplayError`]; nothing was printed then.
pub fn replay_for_report(
    options: &ReplayOptions,
    per_request: Option<&mut dyn Write>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Replay, ReplayHistory), ReplayError> {
    let warm_up = warm_up_requests(options)?;
    run_one(Run::new(options, warm_up, per_request, Some(HistoryRecorder::default()))?, options, progress)
}

fn run_one(
    mut run: Run<'_>,
    options: &ReplayOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Replay, ReplayHistory), ReplayError> {
    let notes = read(std::slice::from_mut(&mut run), options, progress)?;
    run.finish(options.skip_bad_rows, notes)
}

/// Reads the traces once, for all runs. Returns what the reader had to assume.
fn read(
    runs: &mut [Run<'_>],
    options: &ReplayOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<String>, ReplayError> {
    let mut reader = trace::open_ahead(&options.traces, &options.read)?;
    loop {
        let items = reader.next_items()?;
        if items.is_empty() {
            break;
        }
        for run in &mut *runs {
            run.observe_items(&items)?;
        }
        progress(reader.progress());
    }
    progress(reader.progress());
    Ok(reader.notes())
}

/// Whether the trends of `last:N` and `all` see their windows after so many counted requests: 32 to 64
/// times in all, evenly spaced, so that the last dozen readings are the last fifth to third of the trace.
fn is_reading_due(requests: u64) -> bool {
    let spacing = (requests / READINGS).max(1);
    requests > 0 && requests.is_multiple_of(1 << spacing.ilog2())
}

/// Fewest readings of a trace that has as many requests.
const READINGS: u64 = 32;

/// The name of a trace's one pool.
const POOL: &str = "trace";

/// Bad rows kept to be shown.
const SHOWN_BAD_ROWS: usize = 5;

/// The number of requests that only warm the cache.
fn warm_up_requests(options: &ReplayOptions) -> Result<u64, ReplayError> {
    match options.warm_up {
        WarmUp::Requests(count) => Ok(count),
        WarmUp::Share(share) if share == Ratio::ZERO => Ok(0),
        WarmUp::Share(share) => Ok(share.share_of(count_requests(options)?)),
    }
}

fn count_requests(options: &ReplayOptions) -> Result<u64, ReplayError> {
    if options.traces.iter().any(|path| path.as_os_str() == "-") {
        return Err(ReplayError::ShareOfStream);
    }
    let mut reader = trace::open(&options.traces, &options.read)?;
    let mut requests = 0;
    while let Some(item) = reader.next_item()? {
        requests += u64::from(matches!(item, TraceItem::Request(_)));
    }
    Ok(requests)
}

/// A replay under way.
struct Run<'a> {
    pools: PoolSet,
    config: Arc<PoolConfig>,
    warm_up: u64,
    per_request: Option<PerRequest<'a>>,
    recorder: Option<HistoryRecorder>,
    observer: Observer,
    cache_writes: CacheWritesResult,
    lifetimes: LifetimesObserver,
    traffic: Option<TrafficObserver>,
    /// The whole curve, where the engine has one.
    curve: Option<CountedCurve>,
    ceilings: Option<Ceilings>,
    /// The tiers below the engine's own cache.
    below: Option<Tiers>,
    /// How many requests each capacity is enough for, while capacities are searched.
    sufficiency: Option<Sufficiency>,
    provisioned: Option<CapacitySpec>,
    threads: usize,
    /// Rows met, bad ones too.
    rows: u64,
    /// Requests accepted.
    requests: u64,
    rejected: u64,
    bad_rows: Vec<BadRow>,
    closed: Vec<Estimate>,
    /// All ids of a compact event; kept to reuse its memory.
    ids: Vec<u64>,
    wanted: Vec<WindowKind>,
}

impl<'a> Run<'a> {
    fn new(
        options: &ReplayOptions,
        warm_up: u64,
        per_request: Option<&'a mut dyn Write>,
        recorder: Option<HistoryRecorder>,
    ) -> Result<Self, ReplayError> {
        let wanted = options.pool.windows.clone();
        let mut config = options.pool.clone();
        if !config.windows.contains(&WindowKind::All) {
            config.windows.push(WindowKind::All);
        }
        // There are no requirements whose history or distribution could be shown.
        let recorder = recorder.filter(|_| !config.is_pointwise());
        if recorder.is_some() && !config.windows.contains(&HISTORY_WINDOW) {
            config.windows.push(HISTORY_WINDOW);
        }
        // `last` and `all` are wanted once, at the end of the trace.
        config.publish_every_ms = 0;
        let config = Arc::new(config);
        let pools = Arc::new(PoolConfigs::new(PoolConfig::clone(&config), [])?);
        let curve = (!config.is_pointwise()).then(CountedCurve::default);
        let ceilings = has_ceiling(&config).then(Ceilings::default);
        Ok(Self {
            pools: PoolSet::new(
                PoolSetConfig { pools, partition: 0, max_pools: 1, idle_after_ms: None },
                LogHistory::Whole,
            ),
            config,
            warm_up,
            per_request: per_request.map(PerRequest::new),
            recorder,
            cache_writes: CacheWritesResult::default(),
            observer: Observer::new(&options.beside, &options.pool)?,
            lifetimes: LifetimesObserver::new(&options.beside, &options.pool)?,
            traffic: TrafficObserver::new(&options.pool, options.beside.prefill_rate),
            curve,
            ceilings,
            below: Tiers::new(&options.beside.below, &options.beside.below_rules),
            sufficiency: None,
            provisioned: options.provisioned.clone(),
            threads: options.threads,
            rows: 0,
            requests: 0,
            rejected: 0,
            bad_rows: Vec::new(),
            closed: Vec::new(),
            ids: Vec::new(),
            wanted,
        })
    }

    fn observe_items(&mut self, items: &[TraceItem<'_>]) -> Result<(), ReplayError> {
        for (at, item) in items.iter().enumerate() {
            match item {
                TraceItem::Request(row) => {
                    serve_ahead(&mut self.pools, &items[at..], self.threads);
                    self.observe(row)?;
                }
                TraceItem::Refused(error) => self.refuse_row(error),
            }
        }
        Ok(())
    }

    fn observe(&mut self, row: &TraceRow<'_>) -> Result<(), ReplayError> {
        if row.event.known_prefix.is_none() {
            return self.observe_whole(row);
        }
        let mut ids = std::mem::take(&mut self.ids);
        let observed = match self.pools.complete(POOL, &row.event, &mut ids) {
            Ok(event) => self.observe_whole(&TraceRow { event, ..*row }),
            Err(refusal) => {
                self.rows += 1;
                self.refuse(format!("{}, line {}", row.file, row.line), &refusal);
                Ok(())
            }
        };
        self.ids = ids;
        observed
    }

    /// Observes a request whose pages are all listed.
    fn observe_whole(&mut self, row: &TraceRow<'_>) -> Result<(), ReplayError> {
        let event = &row.event;
        let counted = self.requests >= self.warm_up;
        let offset = Offset(self.rows as i64);
        if is_reading_due(self.requests.saturating_sub(self.warm_up)) {
            self.pools.take_reading(offset);
        }
        self.rows += 1;
        let record = PoolRecord { pool: POOL, event, offset, counted };
        let closed = self.closed.len();
        match self.pools.observe(record, &mut self.closed) {
            Ok(_) => {}
            Err(ObserveError::Refused(Refusal::UnfitPage(source))) => {
                let place = format!("{}, line {}", row.file, row.line);
                return Err(ReplayError::Page { place, source });
            }
            Err(refusal) => {
                self.refuse(format!("{}, line {}", row.file, row.line), &refusal);
                return Ok(());
            }
        }
        self.lifetimes.close(&self.closed[closed..], &self.config);
        self.observe_beside(row, counted)?;
        self.requests += 1;
        if counted {
            self.count_found();
            row.cache_writes.iter().for_each(|writes| self.cache_writes.add(writes));
            self.write_request().map_err(ReplayError::PerRequest)?;
            self.record(event);
        }
        Ok(())
    }

    /// The trace's pool, once a request was accepted.
    fn pool(&self) -> Option<&Pool> {
        self.pools.get(POOL)
    }

    fn observe_beside(&mut self, row: &TraceRow<'_>, counted: bool) -> Result<(), ReplayError> {
        let Some(pool) = self.pools.get(POOL) else { return Ok(()) };
        let (Some(page_size), Some((outcome, curve))) = (pool.page_size(), pool.last_request()) else {
            return Ok(());
        };
        let (event, session, index) = (&row.event, row.session, self.requests);
        self.traffic.iter_mut().for_each(|traffic| traffic.observe(event, outcome, counted));
        if let (Some(ceilings), Some(caches)) = (&mut self.ceilings, pool.caches()) {
            ceilings.observe(&Followed { event, outcome, caches, page_size, counted }, &self.config);
        }
        if let Some(below) = &mut self.below {
            below.observe(pool, event, counted).map_err(|source| {
                let place = format!("{}, line {}", row.file, row.line);
                ReplayError::Page { place, source }
            })?;
        }
        if let Some(sufficiency) = self.sufficiency.as_mut().filter(|_| counted) {
            sufficiency.count(pool, outcome);
        }
        let lived = Lived { event, outcome, page_size, thresholds: curve.thresholds(), counted };
        self.lifetimes.observe(&lived, &self.config).map_err(|source| {
            let place = format!("{}, line {}", row.file, row.line);
            ReplayError::Quota { place, source }
        })?;
        let request = Accepted { event, session, outcome, page_size, index, counted };
        let place = || format!("{}, line {}", row.file, row.line);
        match pool.caches() {
            Some(caches) => self
                .observer
                .observe_points(&request, caches, curve.thresholds(), &self.config)
                .map_err(|source| ReplayError::Points { place: place(), source }),
            None => self
                .observer
                .observe(&request, &self.config)
                .map_err(|source| ReplayError::Routing { place: place(), source }),
        }
    }

    fn count_found(&mut self) {
        let last = self.pools.get(POOL).and_then(Pool::last_request);
        if let (Some(curve), Some((outcome, _))) = (&mut self.curve, last) {
            curve.count(outcome);
        }
    }

    fn write_request(&mut self) -> std::io::Result<()> {
        let pool = self.pools.get(POOL);
        let (Some(per_request), Some(pool)) = (&mut self.per_request, pool) else { return Ok(()) };
        let Some((outcome, curve)) = pool.last_request() else { return Ok(()) };
        if let Some(below) = &self.below {
            per_request.set_below(below.last_hits());
        }
        match pool.caches() {
            Some(caches) => per_request.write_pointwise(outcome, caches, curve),
            None => per_request.write(outcome, &self.config, curve),
        }
    }

    fn record(&mut self, event: &RequestEvent<'_>) {
        let (Some(recorder), Some(pool)) = (&mut self.recorder, self.pools.get(POOL)) else { return };
        if recorder.is_due(self.requests, event.event_time.0)
            && let Some(estimate) = history::recent(pool, self.rows)
        {
            recorder.record(&estimate, self.requests);
        }
    }

    fn refuse_row(&mut self, error: &RowError) {
        self.rows += 1;
        self.refuse(format!("{}, line {}", error.file, error.line), &error.fault);
    }

    fn refuse(&mut self, place: String, reason: &dyn std::fmt::Display) {
        self.rejected += 1;
        if self.bad_rows.len() < SHOWN_BAD_ROWS {
            self.bad_rows.push(BadRow { place, reason: reason.to_string() });
        }
    }

    fn finish(
        mut self,
        skip_bad_rows: bool,
        notes: Vec<String>,
    ) -> Result<(Replay, ReplayHistory), ReplayError> {
        if self.rejected > 0 && !skip_bad_rows {
            return Err(ReplayError::BadRows { count: self.rejected, rows: self.rows, first: self.bad_rows });
        }
        if let Some(per_request) = &mut self.per_request {
            per_request.flush().map_err(ReplayError::PerRequest)?;
        }
        let end = Offset(self.rows as i64);
        let recorder = self.recorder.take();
        let pool = self.pool();
        let at_further_costs = pool.map(|pool| pool.at_further_costs(end)).unwrap_or_default();
        let history = match (pool, recorder) {
            (Some(pool), Some(recorder)) => ReplayHistory::of(pool, recorder, self.rows, self.requests),
            _ => ReplayHistory::default(),
        };
        let closed = self.closed.len();
        self.pools.finish(end, &mut self.closed);
        self.lifetimes.follow();
        self.lifetimes.close(&self.closed[closed..], &self.config);
        let whole = self.closed.iter().find(|estimate| estimate.window == WindowKind::All).cloned();
        let counted = whole.as_ref().zip(self.curve.as_ref());
        let counted = counted.map_or_else(Vec::new, |(whole, curve)| {
            let page_bytes = self.pools.get(POOL).and_then(Pool::page_bytes);
            curve.at_recommended(whole, self.provisioned.as_ref(), &self.config, page_bytes)
        });
        self.closed.retain(|estimate| self.wanted.contains(&estimate.window));
        let pool = self.pools.get(POOL);
        let caches = pool.and_then(Pool::caches);
        let page_size = pool.map_or(self.config.page_size, Pool::page_size);
        let page_bytes = pool.and_then(Pool::page_bytes);
        let ended = Ended {
            config: &self.config,
            page_size,
            page_bytes,
            provisioned: self.provisioned.as_ref(),
            whole: whole.as_ref(),
        };
        let (measured, routing) = (self.observer.measured(&ended), self.observer.routing(&ended)?);
        let replay = Replay {
            requests: self.requests,
            warm_up_requests: self.warm_up.min(self.requests),
            rejected_rows: self.rejected,
            bad_rows: self.bad_rows,
            chain_violations: pool.map_or(0, Pool::chain_violations),
            distinct_pages: pool.map_or(PageCount(0), Pool::accumulated_pages),
            page_size,
            page_bytes,
            below: self.below.as_ref().map(Tiers::result).unwrap_or_default(),
            ceiling: self.ceilings.as_ref().and_then(Ceilings::found),
            turned_away: caches.map(CacheBank::refused).unwrap_or_default(),
            measured,
            cache_writes: self.cache_writes.found(),
            routing,
            traffic: self.traffic.as_ref().and_then(|log| log.result(&self.config, whole.as_ref())),
            lifetimes: self.lifetimes.result(&self.config, whole.as_ref(), self.curve.as_ref()),
            config: self.config,
            whole,
            counted,
            provisioned: self.provisioned,
            at_further_costs,
            windows: self.closed,
            notes,
        };
        Ok((replay, history))
    }
}
