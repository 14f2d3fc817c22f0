//! `kvset replay`: trace files in, estimates out, no Kafka.
//!
//! Rows stream through one pool per engine; nothing is kept of a row once it was observed.

mod ahead;
mod answer_reuse;
mod below;
mod cache_writes;
mod ceiling;
mod channels;
mod found;
mod growth;
mod history;
mod ledger;
mod log;
mod memory_split;
pub mod parallel;
mod per_request;
mod pointwise;
mod providers;
mod questions;
mod reading;
mod recomputed;
mod run;
mod search;
mod second_copies;
mod worth;

use crate::present::pool::HistoryRecorder;
use channels::Channels;
use kvset_core::engines::hybrid::RulesError;
use kvset_core::engines::profile::Profile;
use kvset_core::engines::rules::EngineRules;
use kvset_core::estimate::config::{PoolConfig, PoolConfigError};
use kvset_core::estimate::{CapacityPoint, Estimate};
use kvset_core::questions::costs::{PrefillRate, Prices};
use kvset_core::questions::optimum::OptimalCapacity;
use kvset_core::questions::question::QuestionError;
use kvset_core::questions::restarts::TooManyRestarts;
use kvset_core::questions::routing::SpecError;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::clash::Clash;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::{PageBytes, PageCount, PageSize};
use kvset_formats::trace::{ReadOptions, ReadProgress, Recording, RowOrder, TimeFacts, TraceError, TraceRow};
use per_request::PerRequest;
use reading::{TraceReading, UNNAMED, listed as listed_names, order_and_warm_up};
use run::ReplayRun;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use ahead::cores;
pub use below::{BelowHits, BelowOption, TierBelow, over_offload};
pub use cache_writes::CacheWritesResult;
pub use ceiling::Ceiling;
pub use channels::RowCensus;
pub use growth::{FamilyLog, GrownLog, GrownTraffic, TrafficBy, TrafficStatus, certainty};
pub use history::{ReplayHistory, pool_report, report_input};
pub use kvset_formats::trace::TraceFindings;
pub use ledger::EngineLedger;
pub use log::{LogEntry, LogFacts, PromptPath, PromptTree, RequestLog, check_page_size};
pub use memory_split::{Demand, MemorySplit};
pub use per_request::RowSink;
pub use recomputed::{RecomputedPages, SecondCopies};
pub use run::draft_layers_note;
pub use search::{SearchResult, SearchedCapacity, search};
pub use worth::{RoutedWorth, WorthResult};

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
    /// How to estimate, and what to ask alongside. `windows` are those the caller requested.
    pub pool: PoolConfig,
    /// What does not count.
    pub warm_up: WarmUp,
    /// The model whose requests are replayed, where it is not all of them.
    pub pool_name: Option<String>,
    /// Go on past rows that cannot be used.
    pub skip_bad_rows: bool,
    /// What to follow besides the pool.
    pub extras: Extras,
    /// What the cache holds today, to compare with.
    pub provisioned: Option<CapacitySpec>,
    /// Threads that read lines, take ranges of the requests, and serve the capacities of an engine that is modelled a
    /// capacity at a time. The result is the same with any number of them.
    pub threads: usize,
}

/// What a replay follows besides its pool.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Tokens prefilled a second: what a cache is worth, and what loading compares with.
    pub prefill_rate: Option<PrefillRate>,
    /// What accelerators and memory cost.
    pub prices: Prices,
    /// Bytes per token of models by name, in place of those of all.
    pub pool_costs: Vec<(String, f64)>,
    /// Tiers under the engine's own cache, from the fastest, and what their engines are reported.
    pub below: Vec<BelowOption>,
    /// See `below`.
    pub below_rules: EngineRules,
    /// Layers of the model, and those of one group, where its config says so: how full blocks of groups are.
    pub layers: Option<(u64, u64)>,
}

impl ReplayOptions {
    /// How to read in this order. A model that is requested is a pool of its own.
    fn read_in(&self, order: RowOrder) -> ReadOptions {
        let weka_models_apart = self.read.weka_models_apart || self.pool_name.is_some();
        let keeps_tokens_behind = self.looks_at_tokens_behind();
        ReadOptions { order, weka_models_apart, keeps_tokens_behind, ..self.read.clone() }
    }

    /// Whether somebody may look at the token behind each page: a model with a draft head may be SGLang's, by whatever
    /// engines the log is replayed.
    fn looks_at_tokens_behind(&self) -> bool {
        self.pool.cache.rules.draft_tokens > 0
    }

    /// Whether a trace can be read but once: standard input, or a pipe.
    pub fn has_stream(&self) -> bool {
        let is_stream = |path: &PathBuf| {
            path.as_os_str() == "-" || std::fs::metadata(path).is_ok_and(|found| !found.is_file())
        };
        self.traces.iter().any(is_stream)
    }

    /// Whether a row is of a pool that is replayed.
    fn replays(&self, row: &TraceRow<'_>) -> bool {
        self.pool_name.as_deref().is_none_or(|name| row.pool == Some(name))
    }
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
        "{count} of {rows} rows cannot be used, so the result would be wrong: {}{}",
        mend_rows(*.count, *.rows),
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
    /// A share of an unknown number of requests was requested.
    #[error(
        "--warm-up with a share needs to read the trace twice, which standard input cannot: give a count"
    )]
    ShareOfStream,
    /// What was requested needs one stack for all capacities.
    #[error(
        "{asked} {}, which {engine} has not: {}", Clash::NO_STACK.why, Clash::NO_STACK.flag
    )]
    NoStack { asked: String, engine: &'static str },
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
    Page { place: String, source: RulesError },
    /// A request cannot be followed for a question.
    #[error("{place}: {source}")]
    Question { place: String, source: QuestionError },
    /// What is asked of one pool is asked of several.
    #[error(
        "{asked} is of one pool, and the trace names several models, each with a cache of its own: {names}; choose \
         one with \
         --pool, or merge them with --id-scope global"
    )]
    SeveralPools { asked: &'static str, names: String },
    /// No request is of the pool that is requested.
    #[error("--pool {wanted}: no request names this model; the trace names {names}")]
    NoSuchPool { wanted: String, names: String },
    /// More pools than are kept apart.
    #[error(
        "the trace names more than {most} models, each with a cache of its own: choose one with --pool, or merge \
         them with \
         --id-scope global"
    )]
    TooManyPools { most: usize },
    /// A log is kept in memory to be replayed several times, and is too large for that.
    #[error(
        "the prompts have more than {most} different ids, which are kept in memory to be replayed several times: \
         take a \
         part of the trace, or one pool with --pool"
    )]
    TooManyIds { most: usize },
    /// There are more restarts to count than there is room for.
    #[error(transparent)]
    Restarts(#[from] TooManyRestarts),
    /// Restarts are counted by the hour.
    #[error(
        "--restarts goes by the hour in which requests came, and {0}: log the time of each request, or leave \
         --restarts out"
    )]
    NoHours(&'static str),
    /// No row says when its request came.
    #[error(
        "--ttl goes by the times between requests, and no row says when its request came: log the time of each, or leave \
         --ttl out"
    )]
    NoTimes,
    /// Not all hits at the provisioned size are known.
    #[error(
        "--restarts at --provisioned needs {pages} pages, and {most} are tracked: name a smaller size, or raise \
         --max-tracked-pages"
    )]
    RestartsBeyond { pages: u64, most: u64 },
    /// The per-request file cannot be written.
    #[error("cannot write the per-request rows: {0}")]
    PerRequest(std::io::Error),
}

fn reasons(why: &BTreeMap<&'static str, u64>) -> String {
    why.iter().map(|(why, records)| format!("\n  {records} passed over: {why}")).collect()
}

/// What can be done about rows that cannot be used, of so many.
pub(crate) fn mend_rows(count: u64, rows: u64) -> &'static str {
    match count < rows {
        true => "mend them, or go on without them with --skip-bad-rows",
        false => "mend them",
    }
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
    /// The first of those of all pools.
    pub bad_rows: Vec<BadRow>,
    /// Records of the log that are of no request which a cache served, by the reason.
    pub passed_over: BTreeMap<&'static str, u64>,
    /// Distinct pages whose id was already known under another prefix, among the ids watched.
    pub chain_violations: u64,
    /// Distinct pages of the whole trace.
    pub distinct_pages: PageCount,
    /// Tokens per page, once known.
    pub page_size: Option<PageSize>,
    /// Bytes per page, where a cost per token is configured.
    pub page_bytes: Option<PageBytes>,
    /// The estimate over every request that counts; none where no request does.
    pub whole: Option<Estimate>,
    /// What the cache holds today, as the caller said.
    pub provisioned: Option<CapacitySpec>,
    /// The curve at that capacity; absent where each capacity is modelled on its own.
    pub at_provisioned: Option<CapacityPoint>,
    /// The estimate at each further cost per token.
    pub at_further_costs: Vec<(f64, Estimate)>,
    /// The windows that were requested, in the order in which they closed.
    pub windows: Vec<Estimate>,
    /// What tiers below found, one list per capacity of the engine; empty where none were requested.
    pub below: Vec<Vec<BelowHits>>,
    /// What a hybrid model's rules lose at any size.
    pub ceiling: Option<Ceiling>,
    /// What was searched, where the caller did ([`search`]).
    pub searched: Option<SearchResult>,
    /// What vLLM's pool holds twice, where the log computes pages again.
    pub second_copies: Option<SecondCopies>,
    /// Requests too large to run at all, one per capacity, ascending; empty where the engine has a stack.
    pub turned_away: Vec<u64>,
    /// The figures if prompts bring answers back, where they differ from those of the windows: pages that prompts
    /// brought back, and the estimate over every request that counts.
    pub with_answers: Option<(u64, Estimate)>,
    /// What the log says was written to a provider's cache, where it counts that.
    pub cache_writes: Option<CacheWritesResult>,
    /// The recommended capacity alongside the one that perfect foresight would need, where that was requested.
    pub optimal: Option<OptimalCapacity>,
    /// What the cache is worth, where it is known how fast prompts are computed.
    pub worth: Option<WorthResult>,
    /// What replicas behind routers are worth, in the order of these.
    pub routed_worth: Vec<RoutedWorth>,
    /// What other traffic would need, where that was asked.
    pub traffic: Vec<GrownTraffic>,
    /// When the requests of the trace came.
    pub times: TimeFacts,
    /// What the reader had to assume about the trace.
    pub notes: Vec<String>,
    /// How many caches its rows name.
    pub logged_replicas: u64,
    /// What could change the answer by itself, in a few words.
    pub doubt: Option<String>,
}

impl Replay {
    /// The estimate over every request that counts; where none does, that of no request.
    pub fn estimate(&self) -> &Estimate {
        self.whole.as_ref().unwrap_or_else(|| Estimate::of_nothing())
    }

    /// This replay with curves that end at the first capacity that reaches this one.
    pub fn up_to(&self, footprint: PageCount) -> Self {
        let points = &self.estimate().capacities;
        let last = points.iter().position(|point| point.pages >= footprint.0);
        let capacities = last.map_or(points.len(), |last| last + 1);
        let mut cut = self.clone();
        let further = cut.at_further_costs.iter_mut().map(|(_, estimate)| estimate);
        let upper = cut.with_answers.iter_mut().map(|(_, estimate)| estimate);
        cut.whole.iter_mut().chain(further).chain(upper).for_each(|own| own.cut_curve(capacities));
        let routed = cut.routed_worth.iter_mut().map(|routed| &mut routed.worth);
        let own = cut.worth.iter_mut().map(|worth| &mut worth.estimate);
        own.chain(routed).for_each(|worth| worth.capacities.truncate(capacities));
        cut
    }
}

/// What a trace came to, for one engine.
#[derive(Debug, Clone)]
pub struct PoolReplay {
    /// The model whose pool this is; nothing where the trace names none.
    pub name: Option<String>,
    /// What it came to.
    pub replay: Replay,
    /// What a report shows alongside the estimates.
    pub history: ReplayHistory,
    /// Rows of the whole trace that were passed over.
    pub rejected_rows: u64,
}

/// Replays traces of one pool. `progress` is called now and then; `per_request` receives one JSON line a counted
/// request.
///
/// # Errors
/// [`ReplayError`]; nothing was printed then.
pub fn replay(
    options: &ReplayOptions,
    per_request: Option<&mut dyn RowSink>,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<Replay, ReplayError> {
    let pools = replay_pools(options, per_request, false, progress)?;
    Ok(only(pools, "kvset replay of one pool")?.replay)
}

/// Replays traces of one pool for several engines in one reading; all else about them is as in the options. With
/// `for_report`, what a report shows alongside the estimates is kept.
///
/// # Errors
/// [`ReplayError`]; nothing was printed then.
pub fn replay_engines(
    options: &ReplayOptions,
    engines: &[Profile],
    for_report: bool,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<Vec<(Replay, ReplayHistory)>, ReplayError> {
    let config = |profile: &Profile| PoolConfig {
        cache: options.pool.cache.with_profile(*profile),
        ..options.pool.clone()
    };
    let engines: Vec<_> = engines.iter().map(config).collect();
    let pools = replay_all(options, &engines, Channels::default(), for_report, progress)?;
    let firsts = pools.iter().filter_map(|by_engine| by_engine.first());
    if pools.len() != 1 {
        return Err(several_pools(firsts, "--engine with several engines"));
    }
    Ok(pools.into_iter().flatten().map(|pool| (pool.replay, pool.history)).collect())
}

/// Replays traces of one pool as [`replay`] does, and keeps what a report shows alongside the estimates: how they
/// moved, and every request's requirement.
///
/// # Errors
/// [`ReplayError`]; nothing was printed then.
pub fn replay_for_report(
    options: &ReplayOptions,
    per_request: Option<&mut dyn RowSink>,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<(Replay, ReplayHistory), ReplayError> {
    let pool = only(replay_pools(options, per_request, true, progress)?, "kvset replay of one pool")?;
    Ok((pool.replay, pool.history))
}

/// Replays traces, each model that they name as a pool of its own, in the order in which these come. At least one.
///
/// # Errors
/// [`ReplayError`]; nothing was printed then.
pub fn replay_pools(
    options: &ReplayOptions,
    per_request: Option<&mut dyn RowSink>,
    for_report: bool,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<Vec<PoolReplay>, ReplayError> {
    let channels = Channels { per_request: per_request.map(PerRequest::new), ..Channels::default() };
    replay_through(options, channels, for_report, progress)
}

/// Replays traces as [`replay_pools`] does, or what was recorded in their place, with each row shown to a census.
///
/// # Errors
/// [`ReplayError`]. What the census saw until then stays.
pub fn replay_counted(
    options: &ReplayOptions,
    recording: Option<&Recording>,
    census: &mut dyn RowCensus,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<Vec<PoolReplay>, ReplayError> {
    let channels = Channels { recording, census: Some(census), ..Channels::default() };
    replay_through(options, channels, false, progress)
}

fn replay_through(
    options: &ReplayOptions,
    channels: Channels<'_>,
    for_report: bool,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<Vec<PoolReplay>, ReplayError> {
    let engines = [options.pool.clone()];
    let pools = replay_all(options, &engines, channels, for_report, progress)?;
    Ok(pools.into_iter().flatten().collect())
}

/// What each pool came to, by engine.
fn replay_all(
    options: &ReplayOptions,
    engines: &[PoolConfig],
    channels: Channels<'_>,
    for_report: bool,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<Vec<Vec<PoolReplay>>, ReplayError> {
    let start =
        move |pool: &PoolConfig| ReplayRun::new(options, pool, for_report.then(HistoryRecorder::default));
    let known = order_and_warm_up(options)?;
    let (reading, findings) = TraceReading::read(options, known, engines, &start, channels, progress)?;
    let TraceReading { pools, ledgers, channels, .. } = reading;
    ledgers.iter().try_for_each(|ledger| ledger.check(options.skip_bad_rows))?;
    let (rejected, passed_over) =
        (ledgers.first().map_or(0, |ledger| ledger.rejected), &findings.passed_over);
    if ledgers.iter().all(|ledger| ledger.accepted == 0) && (rejected > 0 || !passed_over.is_empty()) {
        let first = ledgers.first().map(|ledger| ledger.bad_rows.clone()).unwrap_or_default();
        return Err(ReplayError::NoRequest { rejected, passed_over: passed_over.clone(), first });
    }
    let is_only = pools.len() == 1;
    let finish = |(name, runs): (Option<Box<str>>, Vec<ReplayRun>)| -> Result<Vec<PoolReplay>, ReplayError> {
        let runs = runs.into_iter().zip(&ledgers).map(|(run, ledger)| {
            let refused = run.rejected();
            // Rows that cannot be read are of no pool, unless there is but one.
            let (mut replay, history) = run.finish(&findings)?;
            replay.rejected_rows += if is_only { ledger.rejected - refused } else { 0 };
            replay.bad_rows.clone_from(&ledger.bad_rows);
            providers::say_least_cached(name.as_deref(), &mut replay);
            Ok(PoolReplay {
                name: name.as_deref().map(str::to_owned),
                replay,
                history,
                rejected_rows: rejected,
            })
        });
        runs.collect()
    };
    let mut pools = pools.into_iter().map(finish).collect::<Result<Vec<_>, _>>()?;
    if channels.recording.is_none() {
        second_copies::confirm(options, known, engines, &mut pools, channels.per_request)?;
    }
    Ok(pools)
}

/// That something was requested which is of one pool.
pub fn several_pools<'a>(
    pools: impl IntoIterator<Item = &'a PoolReplay>,
    asked: &'static str,
) -> ReplayError {
    let name = |pool: &PoolReplay| Box::from(pool.name.as_deref().unwrap_or(UNNAMED));
    let names: Vec<_> = pools.into_iter().map(name).collect();
    ReplayError::SeveralPools { asked, names: listed_names(&names) }
}

/// The only pool.
fn only(mut pools: Vec<PoolReplay>, asked: &'static str) -> Result<PoolReplay, ReplayError> {
    match pools.pop() {
        Some(only) if pools.is_empty() => Ok(only),
        last => {
            pools.extend(last);
            Err(several_pools(&pools, asked))
        }
    }
}

/// The name of a trace's one pool.
const POOL: &str = "trace";
