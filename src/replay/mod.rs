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
mod pointwise;
mod reading;
mod run;
mod search;
mod traffic;
mod windowed;

use crate::report::HistoryRecorder;
use kvset_core::capacity::CapacitySpec;
use kvset_core::engine::EngineRefusal;
use kvset_core::engine_rules::PageMismatch;
use kvset_core::estimate::{CapacityPoint, Estimate};
use kvset_core::measured::{MeasuredEstimate, PointError};
use kvset_core::pool_config::{PoolConfig, PoolConfigError};
use kvset_core::profile::Profile;
use kvset_core::ratio::Ratio;
use kvset_core::routing::{RouterEstimate, RoutingError, SpecError};
use kvset_core::units::{PageBytes, PageCount, PageSize};
use kvset_formats::trace::{Progress, ReadOptions, TimeFacts, TraceError};
use reading::{Known, read};
use run::Run;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

pub use ahead::cores;
pub use asked::{break_even, foresight, second_sight, tier_sentence};
pub use below::{Below, BelowHits, TierBelow};
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
    /// Threads that read lines, take ranges of the requests, and serve the capacities of an engine that is modelled a
    /// capacity at a time. The result is the same with any number of them.
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
    /// The traces have records, and none of them gave a request.
    #[error(
        "no request could be read: {rejected} rows cannot be used, and {} were passed over{}{}",
        .passed_over.values().sum::<u64>(),
        reasons(.passed_over),
        listed(.first)
    )]
    NoRequest { rejected: u64, passed_over: BTreeMap<&'static str, u64>, first: Vec<BadRow> },
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

fn reasons(why: &BTreeMap<&'static str, u64>) -> String {
    why.iter().map(|(why, records)| format!("\n  {records} passed over: {why}")).collect()
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
    /// Those of them that other threads took in ranges, to be merged in order.
    pub merged_requests: u64,
    /// Requests that only filled the cache.
    pub warm_up_requests: u64,
    /// Rows that were passed over.
    pub rejected_rows: u64,
    /// The first of them.
    pub bad_rows: Vec<BadRow>,
    /// Records of the log that are of no request which a cache served, by the reason.
    pub passed_over: BTreeMap<&'static str, u64>,
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
    /// What was searched, where the caller did ([`search`]).
    pub searched: Option<SearchResult>,
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
    /// When the requests of the trace came.
    pub times: TimeFacts,
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
    Ok(replay_one(options, per_request, false, progress)?.0)
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
    let known = Known::of(options, false)?;
    let start = |profile: &Profile| {
        let pool = options.pool.with_profile(*profile);
        let recorder = for_report.then(HistoryRecorder::default);
        Run::new(&ReplayOptions { pool, ..options.clone() }, known.warm_up, None, recorder)
    };
    let (runs, findings) = read(options, known, || engines.iter().map(start).collect(), progress)?;
    runs.into_iter().map(|run| run.finish(options.skip_bad_rows, &findings)).collect()
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
    replay_one(options, per_request, true, progress)
}

fn replay_one(
    options: &ReplayOptions,
    per_request: Option<&mut dyn Write>,
    for_report: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Replay, ReplayHistory), ReplayError> {
    // Rows that were written stay written.
    let known = Known::of(options, per_request.is_some())?;
    let mut per_request = per_request;
    let start = || {
        let recorder = for_report.then(HistoryRecorder::default);
        Ok(vec![Run::new(options, known.warm_up, per_request.take(), recorder)?])
    };
    let (mut runs, findings) = read(options, known, start, progress)?;
    runs.swap_remove(0).finish(options.skip_bad_rows, &findings)
}

/// What the reader found out about the trace.
#[derive(Debug, Clone, Default)]
struct Findings {
    /// When its requests came.
    times: TimeFacts,
    /// What it had to assume.
    notes: Vec<String>,
    /// What it passed over, by the reason.
    passed_over: BTreeMap<&'static str, u64>,
}

/// The name of a trace's one pool.
const POOL: &str = "trace";

/// Bad rows kept to be shown.
const SHOWN_BAD_ROWS: usize = 5;
