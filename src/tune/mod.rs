//! Every single change of a configuration that makes sense, replayed; then the best of them in pairs.
//!
//! [`Setup`] is a configuration of a cache with what it finds of a log. [`changes`] lists what can be changed about
//! one; a new option of an engine is a few lines there. The log is in memory, so a change costs a replay and no
//! reading.

mod changes;
mod grown;
mod limits;
mod setup;

pub use changes::{Change, Topic, changes};
pub use grown::AtTraffic;
pub use limits::{EightBits, ModelLimits};
pub use setup::{Hits, Setup};

use crate::replay::{GrownLog, ReplayError, ReplayOptions, RequestLog, parallel};
use grown::Grown;
use kvset_core::questions::worth::WorthAt;
use kvset_core::sizing::curve::share;
use kvset_core::units::capacity::CapacitySpec;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Best single changes that are tried in pairs.
const PAIRED: usize = 6;

/// How exact a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Exactness {
    /// Equal to the engine's own, at any capacity.
    Exact,
    /// Equal to the engine's own at this one capacity, by its rules.
    Pointwise,
    /// The model is known to differ from the engine.
    Approximate,
}

/// What is left to compute, and what that and the memory cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Prefill of the whole log.
    pub accelerator_hours: f64,
    /// Prefill a day; absent where the log spans no time.
    pub accelerator_hours_a_day: Option<f64>,
    /// What that costs a day, where the price is known.
    pub money_a_day: Option<f64>,
    /// What the memory costs a day, where the price is known.
    pub memory_a_day: Option<f64>,
}

impl Cost {
    fn of(worth: WorthAt) -> Self {
        let WorthAt { accelerator_hours, accelerator_hours_a_day, money_a_day, memory_a_day, .. } = worth;
        Self { accelerator_hours, accelerator_hours_a_day, money_a_day, memory_a_day }
    }
}

/// What the present configuration finds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Base {
    /// The engine that is modelled.
    pub engine: &'static str,
    /// Tokens per page.
    pub page_size: u32,
    /// What the cache holds, of all replicas together.
    pub capacity_pages: u64,
    /// What it holds in bytes, where a cost per token is known.
    pub capacity_bytes: Option<u64>,
    /// Requests that count.
    pub requests: u64,
    /// Pages of their prompts, and tokens.
    pub page_accesses: u64,
    /// See `page_accesses`.
    pub prompt_tokens: u64,
    /// Pages that hit.
    pub hit_pages: u64,
    /// At most, where page ids leave open what SGLang's draft head loses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_pages_at_most: Option<u64>,
    /// Their tokens.
    pub hit_tokens: u64,
    /// Their share of all tokens of the prompts.
    pub hit_rate_tokens: f64,
    /// How exact that is.
    pub exactness: Exactness,
    /// What it costs, where the prefill rate is known; not with a time to live.
    #[serde(flatten)]
    pub cost: Option<Cost>,
    /// What it finds of other traffic, where that was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_traffic: Vec<AtTraffic>,
}

/// A number of replicas behind the present router, each with the memory that it has now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicasResult {
    /// How many.
    pub replicas: u64,
    /// What they hold together.
    pub capacity_pages: u64,
    /// Pages that hit.
    pub hit_pages: u64,
    /// Their tokens.
    pub hit_tokens: u64,
    /// Their share of all tokens of the prompts.
    pub hit_rate_tokens: f64,
    /// What it costs, where the prefill rate is known.
    #[serde(flatten)]
    pub cost: Option<Cost>,
}

/// A change, and what it finds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeResult {
    /// The change, in the words of the options.
    pub change: String,
    /// Pages that hit, of the changed size where that is changed; absent where it is impossible.
    pub hit_pages: Option<u64>,
    /// At most, where page ids leave open what SGLang's draft head loses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_pages_at_most: Option<u64>,
    /// Their tokens.
    pub hit_tokens: Option<u64>,
    /// Hit rate by tokens gained, in points of a hundred.
    pub points: Option<f64>,
    /// How exact that is.
    pub exactness: Exactness,
    /// Whether it needs more memory than there is.
    pub costs_memory: bool,
    /// Why it cannot be had; absent where it can.
    pub impossible: Option<String>,
    /// What it costs, where the prefill rate is known; not with a time to live.
    #[serde(flatten)]
    pub cost: Option<Cost>,
    /// What it finds of other traffic, where that was asked and it is possible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_traffic: Vec<AtTraffic>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuneResult {
    /// The present configuration.
    pub base: Base,
    /// Single changes, the best first, the impossible ones last.
    pub changes: Vec<ChangeResult>,
    /// The best changes two by two, the best first.
    pub pairs: Vec<ChangeResult>,
    /// A replica less than there are, as many, and one more; none where no router is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicasResult>,
}

/// Tries every change of a configuration on a log.
///
/// `options` are as for a replay of it, with a capacity, or none where the recommended one is to be taken; `limits` are
/// those of the model. `grown` are logs of other traffic, on which every change is tried as well. `progress` is told how
/// many replays of how many are done.
///
/// # Errors
/// The present configuration itself cannot be replayed.
pub fn tune(
    log: &RequestLog,
    grown: &[GrownLog],
    options: &ReplayOptions,
    limits: &ModelLimits,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<TuneResult, TuneError> {
    let base = Setup::present(log, options)?;
    let found = base.hits(log)?;
    let grown = grown.iter().map(|grown| Grown::new(&base, grown)).collect::<Result<Vec<_>, _>>()?;
    let all = changes(&base, log, limits);
    let (done, total) = (AtomicU64::new(0), all.len() as u64);
    let try_all = |changes: &[&Change]| {
        let mut result = tried(&base, &found, log, changes);
        if result.impossible.is_none() {
            result.at_traffic = grown.iter().map(|grown| grown.tried(changes)).collect();
        }
        result
    };
    let run = |change: &Change| {
        let tried = try_all(std::slice::from_ref(&change));
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        tried
    };
    let singles = parallel::map(options.threads, &all, run);
    let mut ranked: Vec<(usize, ChangeResult)> = singles.into_iter().enumerate().collect();
    ranked.sort_by(|(_, one), (_, other)| rank(one, other));
    let pairs = pairs(&all, &ranked);
    let pairs = parallel::map(options.threads, &pairs, |pair| try_all(pair));
    let best = ranked.first().and_then(|(_, best)| best.hit_tokens).unwrap_or(0);
    let mut pairs: Vec<ChangeResult> =
        pairs.into_iter().filter(|pair| pair.hit_tokens.is_some_and(|tokens| tokens > best)).collect();
    pairs.sort_by(rank);
    Ok(TuneResult {
        replicas: replicas(&base, log)?,
        base: Base { at_traffic: grown.iter().map(Grown::present).collect(), ..base.summary(&found) },
        changes: ranked.into_iter().map(|(_, tried)| tried).collect(),
        pairs,
    })
}

/// What a replica less, as many as there are behind the first router, and one more find of a log. `options` are as for
/// [`tune`].
///
/// # Errors
/// [`TuneError`].
pub fn replicas_of(log: &RequestLog, options: &ReplayOptions) -> Result<Vec<ReplicasResult>, TuneError> {
    replicas(&Setup::present(log, options)?, log)
}

/// What replicas of the present configuration find, one fewer and one more among them.
fn replicas(base: &Setup, log: &RequestLog) -> Result<Vec<ReplicasResult>, TuneError> {
    let router = base.options.pool.questions.routers.first().filter(|router| router.replicas > 0);
    let Some(present) = router.map(|router| router.replicas) else { return Ok(Vec::new()) };
    let result = |count: usize| {
        let setup = base.with_replicas(count)?;
        let found = setup.hits(log);
        Some(found.map(|hits| ReplicasResult {
            replicas: count as u64,
            capacity_pages: setup.capacity().pages(setup.page_bytes()).map_or(0, |pages| pages.0),
            hit_pages: hits.pages,
            hit_tokens: hits.tokens,
            hit_rate_tokens: share(hits.tokens, hits.prompt_tokens),
            cost: hits.worth.map(Cost::of),
        }))
    };
    let counts: Vec<usize> = (present - 1..=present + 1).filter(|count| *count > 0).collect();
    parallel::map(base.options.threads, &counts, |count| result(*count)).into_iter().flatten().collect()
}

/// Why nothing was tuned.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The present configuration cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Nothing says how large the cache is, and the model does not either.
    #[error(
        "what the cache holds is not known, and engines modelled a capacity at a time recommend none: give --provisioned, \
         such as 80GiB or 5000p"
    )]
    NoCapacity,
    /// Its hits are beyond what is tracked.
    #[error(
        "the capacity is larger than the pages that are tracked: raise --max-tracked-pages, or name a smaller one"
    )]
    Beyond,
    /// Tiers are modelled below one cache.
    #[error(
        "tiers below the replicas of a router are not modelled together with them: leave out --below, or --router"
    )]
    BelowReplicas,
    /// The log is empty.
    #[error("the trace has no request that counts, so there is nothing to tune for")]
    NoRequests,
}

/// The best changes two by two, where they are of two topics.
fn pairs<'c>(all: &'c [Change], ranked: &[(usize, ChangeResult)]) -> Vec<[&'c Change; 2]> {
    let mut best: Vec<&Change> = Vec::new();
    for (at, tried) in ranked.iter().filter(|(_, tried)| tried.points.is_some_and(|points| points > 0.0)) {
        let _ = tried;
        // The best of each topic: another one of the same cannot be had with it.
        if best.len() < PAIRED && best.iter().all(|known| known.topic != all[*at].topic) {
            best.push(&all[*at]);
        }
    }
    let with = |at: usize| best[at + 1..].iter().map(move |other| (at, *other));
    (0..best.len()).flat_map(|at| with(at).map(|(at, other)| [best[at], other]).collect::<Vec<_>>()).collect()
}

/// The most tokens first; of equals those that cost nothing, then as they were listed.
fn rank(one: &ChangeResult, other: &ChangeResult) -> std::cmp::Ordering {
    let key = |tried: &ChangeResult| (std::cmp::Reverse(tried.hit_tokens), tried.costs_memory);
    key(one).cmp(&key(other))
}

fn tried(base: &Setup, found: &Hits, log: &RequestLog, changes: &[&Change]) -> ChangeResult {
    let changed = changes.iter().try_fold(base.clone(), |mut setup, change| {
        (change.apply)(&mut setup)?;
        Ok(setup)
    });
    let hits = changed.and_then(|setup: Setup| {
        let hits = setup.hits(log).map_err(|error| first_line(&error.to_string()))?;
        Ok((setup.exactness(), hits))
    });
    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
    let (change, costs_memory) = (names.join(" and "), changes.iter().any(|change| change.costs_memory));
    let (exactness, hits, impossible) = match hits {
        Ok((exactness, hits)) => (exactness, Some(hits), None),
        Err(why) => (base.exactness(), None, Some(why)),
    };
    let gained = |tokens: u64| tokens as f64 - found.tokens as f64;
    let tokens = hits.as_ref().map(|hits| hits.tokens);
    ChangeResult {
        change,
        hit_pages: hits.as_ref().map(|hits| hits.pages),
        hit_pages_at_most: hits.as_ref().and_then(|hits| hits.at_most),
        hit_tokens: tokens,
        points: tokens.map(|tokens| gained(tokens) / found.prompt_tokens.max(1) as f64 * 100.0),
        exactness,
        costs_memory,
        impossible,
        cost: hits.and_then(|hits| hits.worth).map(Cost::of),
        at_traffic: Vec::new(),
    }
}

/// What an error says first; the rest lists rows.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A capacity times `numerator / denominator`, at least a page or byte.
fn scaled(capacity: &CapacitySpec, numerator: u64, denominator: u64) -> CapacitySpec {
    use kvset_core::units::capacity::CapacitySize;
    use kvset_core::units::{Bytes, PageCount};
    let scale = |size: u64| {
        let scaled = u128::from(size) * u128::from(numerator) / u128::from(denominator);
        u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
    };
    let size = match capacity.size {
        CapacitySize::Pages(pages) => CapacitySize::Pages(PageCount(scale(pages.0))),
        CapacitySize::Bytes(bytes) => CapacitySize::Bytes(Bytes(scale(bytes.0))),
    };
    CapacitySpec { label: None, size }
}
