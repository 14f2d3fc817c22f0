//! One engine's replay: rows go through its pool and all that is asked alongside, in the order of the trace.

use super::ahead::serve_ahead;
use super::answer_reuse::UpperEnd;
use super::below::{Tiers, over_offload};
use super::ceiling::{Ceiling, Ceilings, has_ceiling};
use super::found::FoundTally;
use super::history::{self, HISTORY_WINDOW, ReplayHistory};
use super::ledger::EngineLedger;
use super::per_request::PerRequest;
use super::questions::{self, NamedFields};
use super::recomputed::{RecomputedPages, SecondCopies};
use super::search::Sufficiency;
use super::worth::{CacheWorth, RoutedTally};
use super::{CacheWritesResult, POOL, Replay, ReplayError, ReplayOptions, TraceFindings};
use crate::present::pool::HistoryRecorder;
use kvset_core::engines::bank::CacheBank;
use kvset_core::engines::config::CacheConfig;
use kvset_core::engines::hybrid::DraftLayers;
use kvset_core::engines::one_pass::EngineRange;
use kvset_core::engines::rules::EnginePart;
use kvset_core::estimate::Estimate;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::set::{
    ObserveError, PoolConfigs, PoolHistory as LogHistory, PoolRecord, PoolSet, PoolSetConfig,
};
use kvset_core::pool::{Pool, Refusal};
use kvset_core::questions::costs::Prices;
use kvset_core::request::event::RequestEvent;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::window::WindowKind;
use kvset_core::units::{Offset, PageCount};
use kvset_formats::trace::TraceRow;
use std::sync::Arc;

/// Whether the trends of `last:N` and `all` see their windows after so many counted requests: 32 to 64
/// times in all, evenly spaced, so that the last dozen readings are the last fifth to third of the trace.
fn is_reading_due(requests: u64) -> bool {
    let spacing = (requests / READINGS).max(1);
    requests > 0 && requests.is_multiple_of(1 << spacing.ilog2())
}

/// Fewest readings of a trace that has as many requests.
const READINGS: u64 = 32;

/// What runs have in common while rows are observed.
pub(super) struct RunContext<'a, 'w> {
    pub ledger: &'a mut EngineLedger,
    /// Where each counted request's row goes.
    pub per_request: Option<&'a mut PerRequest<'w>>,
    /// Leading requests of the trace that only warm the caches.
    pub warm_up: u64,
}

/// A replay under way.
pub(super) struct ReplayRun {
    pools: PoolSet,
    config: Arc<PoolConfig>,
    recorder: Option<HistoryRecorder>,
    names: NamedFields,
    /// The upper end, where the engine keeps what it generates.
    upper: Option<UpperEnd>,
    cache_writes: CacheWritesResult,
    found: FoundTally,
    /// What requests computed again, where one pass has no choice between second copies of it.
    recomputed: Option<RecomputedPages>,
    /// What the cache is worth, where it is known how fast prompts are computed.
    worth: Option<CacheWorth>,
    prices: Prices,
    /// What the replicas behind each router are worth.
    routed: Vec<RoutedTally>,
    ceilings: Option<Ceilings>,
    /// The tiers below the engine's own cache.
    below: Option<Tiers>,
    /// How many requests each capacity is enough for, while capacities are searched.
    sufficiency: Option<Sufficiency>,
    provisioned: Option<CapacitySpec>,
    threads: usize,
    /// Rows met, bad ones too.
    rows: u64,
    /// Requests accepted, and those of them that count.
    requests: u64,
    counted: u64,
    /// Requests of ranges that were merged.
    merged: u64,
    /// Rows that were passed over.
    rejected: u64,
    closed: Vec<Estimate>,
    wanted: Vec<WindowKind>,
}

impl ReplayRun {
    /// A replay that has seen nothing.
    ///
    /// # Errors
    /// [`ReplayError`] where the options cannot be followed.
    pub(super) fn new(
        options: &ReplayOptions,
        pool: &PoolConfig,
        recorder: Option<HistoryRecorder>,
    ) -> Result<Self, ReplayError> {
        let wanted = pool.windows.clone();
        let mut config = pool.clone();
        if !config.windows.contains(&WindowKind::All) {
            config.windows.push(WindowKind::All);
        }
        // There are no requirements whose history or distribution could be shown.
        let recorder = recorder.filter(|_| !config.cache.is_pointwise());
        if recorder.is_some() && !config.windows.contains(&HISTORY_WINDOW) {
            config.windows.push(HISTORY_WINDOW);
        }
        // `last` and `all` are wanted once, at the end of the trace.
        config.publish_every_ms = 0;
        // The whole log is what there is to act on.
        config.act_on = Some(WindowKind::All);
        questions::check(&config)?;
        config.questions = questions::of_finite_log(&config, options);
        if !options.extras.below.is_empty() {
            let CacheConfig { profile, rules, .. } = &config.cache;
            config.cache.rules = over_offload(rules.clone(), &options.extras.below).of_profile(*profile);
        }
        let below = Tiers::new(&options.extras, &config.cache);
        let config = Arc::new(config);
        let pools = Arc::new(PoolConfigs::new(PoolConfig::clone(&config), [])?);
        let ceilings = has_ceiling(&config).then(Ceilings::default);
        let keeps_answers = config.cache.caches_outputs() && !config.cache.is_pointwise();
        let has_copies = config.cache.has_copies_in_one_pass();
        Ok(Self {
            upper: keeps_answers.then(UpperEnd::default),
            pools: PoolSet::new(
                PoolSetConfig {
                    pools,
                    partition: 0,
                    max_pools: 1,
                    idle_timeout_ms: None,
                    forget_after_ms: None,
                    put_aside_after_ms: None,
                },
                LogHistory::Whole,
            ),
            config,
            recorder,
            recomputed: has_copies.then(RecomputedPages::default),
            cache_writes: CacheWritesResult::default(),
            found: FoundTally::default(),
            names: NamedFields::default(),
            worth: CacheWorth::new(options),
            prices: options.extras.prices,
            routed: RoutedTally::all(options),
            ceilings,
            below,
            sufficiency: None,
            provisioned: options.provisioned.clone(),
            threads: options.threads,
            rows: 0,
            requests: 0,
            counted: 0,
            merged: 0,
            rejected: 0,
            closed: Vec::new(),
            wanted,
        })
    }

    /// Counts from here on how many requests each capacity is enough for, and nothing of what the rules lose.
    pub(super) fn count_sufficient(&mut self) {
        (self.sufficiency, self.ceilings) = (Some(Sufficiency::default()), None);
    }

    /// Rows that were passed over.
    pub(super) fn rejected(&self) -> u64 {
        self.rejected
    }

    /// How many requests each capacity was enough for.
    pub(super) fn take_sufficient(&mut self) -> Sufficiency {
        self.sufficiency.take().unwrap_or_default()
    }

    /// Merges what rows that are about to be observed come to in the pool. A range that is not merged is observed
    /// request by request.
    pub(super) fn merge(&mut self, range: EngineRange, rows: &[TraceRow<'_>]) {
        let requests = range.requests() as u64;
        let merged = self.pools.merge(POOL, range, rows.iter().map(|row| row.event.event_time).collect());
        self.merged += merged.map_or(0, |()| requests);
    }

    /// Observes rows in their order.
    ///
    /// # Errors
    /// [`ReplayError`] where a row cannot be one of this replay; a refused one is counted.
    pub(super) fn observe_rows(
        &mut self,
        rows: &[TraceRow<'_>],
        mut with: RunContext<'_, '_>,
    ) -> Result<(), ReplayError> {
        for (at, row) in rows.iter().enumerate() {
            serve_ahead(&mut self.pools, &rows[at..], self.threads);
            self.observe(row, &mut with)?;
        }
        Ok(())
    }

    fn observe(&mut self, row: &TraceRow<'_>, with: &mut RunContext<'_, '_>) -> Result<(), ReplayError> {
        let event = &row.event;
        let counted = with.ledger.accepted >= with.warm_up;
        let offset = Offset(self.rows as i64);
        if is_reading_due(self.counted) {
            self.pools.take_reading(offset);
        }
        let record = PoolRecord::in_order(POOL, event, offset, counted).of_session(row.session);
        match self.pools.observe(record, &mut self.closed) {
            Ok(_) => {}
            Err(ObserveError::Refused(Refusal::UnfitPage(source))) => {
                let place = format!("{}, line {}", row.file, row.line);
                return Err(ReplayError::Page { place, source });
            }
            Err(refusal) => {
                self.refuse(row, &refusal, with.ledger);
                return Ok(());
            }
        }
        (self.rows, with.ledger.rows) = (self.rows + 1, with.ledger.rows + 1);
        self.names.note(row);
        if let (Some(upper), Some(pool)) = (&mut self.upper, self.pools.get(POOL)) {
            upper.observe(event, self.requests, pool, counted);
        }
        self.observe_extras(row, counted)?;
        (self.requests, with.ledger.accepted) = (self.requests + 1, with.ledger.accepted + 1);
        if counted {
            self.counted += 1;
            row.cache_writes.iter().for_each(|writes| self.cache_writes.add(writes));
            if let Some(per_request) = &mut with.per_request {
                self.write_request(row.pool, per_request).map_err(ReplayError::PerRequest)?;
            }
            self.record(event);
        }
        Ok(())
    }

    /// The trace's pool, once a request was accepted.
    pub(super) fn pool(&self) -> Option<&Pool> {
        self.pools.get(POOL)
    }

    fn observe_extras(&mut self, row: &TraceRow<'_>, counted: bool) -> Result<(), ReplayError> {
        let Some(pool) = self.pools.get(POOL) else { return Ok(()) };
        let (Some(page_size), Some((outcome, _))) = (pool.page_size(), pool.last_request()) else {
            return Ok(());
        };
        let place = || format!("{}, line {}", row.file, row.line);
        if let Some(source) = pool.question_refusal().cloned() {
            return Err(ReplayError::Question { place: place(), source });
        }
        self.recomputed.iter_mut().for_each(|recomputed| recomputed.count(outcome));
        let event = &row.event;
        self.found.observe(event, outcome, page_size, counted);
        if let Some(ceilings) = &mut self.ceilings {
            ceilings.observe(event, outcome, pool, page_size, counted);
        }
        if let Some(below) = &mut self.below {
            let observed = below.observe(pool, event, counted);
            observed.map_err(|source| ReplayError::Page { place: place(), source })?;
        }
        if counted {
            let routed = self.routed.iter_mut().enumerate();
            routed.for_each(|(place, routed)| routed.observe(place, pool, event));
            self.worth.iter_mut().for_each(|worth| worth.observe(pool, event, self.below.as_ref()));
        }
        questions::check_restarts(pool)?;
        if let Some(sufficiency) = self.sufficiency.as_mut().filter(|_| counted) {
            sufficiency.count(pool, outcome);
        }
        Ok(())
    }

    fn write_request(&self, name: Option<&str>, per_request: &mut PerRequest<'_>) -> std::io::Result<()> {
        let Some(pool) = self.pools.get(POOL) else { return Ok(()) };
        let Some((outcome, curve)) = pool.last_request() else { return Ok(()) };
        if let Some(below) = &self.below {
            per_request.set_below(below.last_hits());
        }
        per_request.set_draft_head(self.ceilings.as_ref().and_then(Ceilings::last_draft_head));
        per_request.set_at_most(pool.last_draft_range());
        match pool.caches() {
            Some(caches) if !self.config.cache.second_copies => {
                per_request.write_pointwise(name, outcome, caches, curve)
            }
            own => per_request.write(name, outcome, own, &self.config, curve),
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

    fn refuse(&mut self, row: &TraceRow<'_>, reason: &dyn std::fmt::Display, ledger: &mut EngineLedger) {
        (self.rows, self.rejected) = (self.rows + 1, self.rejected + 1);
        ledger.refuse(|| format!("{}, line {}", row.file, row.line), reason);
    }

    /// Closes every window and says what was found.
    ///
    /// # Errors
    /// What cannot be known.
    pub(super) fn finish(mut self, findings: &TraceFindings) -> Result<(Replay, ReplayHistory), ReplayError> {
        let end = Offset(self.rows as i64);
        let recorder = self.recorder.take();
        let pool = self.pool();
        let at_further_costs = pool.map(|pool| pool.at_further_costs(end)).unwrap_or_default();
        let history = match (pool, recorder) {
            (Some(pool), Some(recorder)) => ReplayHistory::of(pool, recorder, self.rows, self.requests),
            _ => ReplayHistory::default(),
        };
        self.pools.finish(end, &mut self.closed);
        self.closed.iter_mut().try_for_each(|closed| questions::set_clock(closed, &findings.times))?;
        let whole = self.closed.iter().find(|estimate| estimate.window == WindowKind::All).cloned();
        let with_answers = self.upper.as_ref().zip(self.pool());
        let with_answers = with_answers.and_then(|(upper, pool)| upper.result(pool, end));
        let of_pairs = whole.as_ref().and_then(|whole| whole.draft_range.as_ref());
        let these_rules_at_most = of_pairs.map(|range| range.page_hits);
        let ceiling = self.ceilings.as_ref().and_then(Ceilings::found);
        let ceiling = ceiling.map(|found| Ceiling { these_rules_at_most, ..found });
        let provisioned = self.provisioned.as_ref().zip(self.pool());
        let at_provisioned = provisioned.and_then(|(held, pool)| pool.point_since_start(held, end));
        self.closed.retain(|estimate| self.wanted.contains(&estimate.window));
        let pool = self.pools.get(POOL);
        let caches = pool.and_then(Pool::caches);
        let page_size = pool.map_or(self.config.cache.page_size, Pool::page_size);
        let page_bytes = pool.and_then(Pool::page_bytes);
        self.names.check(&self.config.questions.routers)?;
        let never_stated =
            pool.and_then(questions::never_stated).filter(|_| !findings.fields.counts_cached());
        let of_tiers = self.below.as_ref().and_then(|below| below.note(&self.config.cache));
        let of_heads = of_pairs.map(|_| crate::present::questions::draft_range::NOTE.to_owned());
        let of_heads = of_heads.or_else(|| draft_layers_note(&self.config.cache));
        let of_load = whole.as_ref().and_then(|whole| offload_note(&self.config.cache, whole));
        let said = [never_stated, of_tiers, of_heads, of_load].into_iter().flatten();
        let mut notes: Vec<String> = findings.notes.iter().cloned().chain(said).collect();
        let finds_nothing = whole.as_ref().is_some_and(finds_nothing);
        let of_nothing = findings.doubt_of_nothing.as_ref();
        let of_nothing = of_nothing.filter(|_| finds_nothing && findings.doubt.is_none());
        notes.extend(of_nothing.map(|(_, sentence)| sentence.clone()));
        let mut replay = Replay {
            requests: self.requests,
            merged_requests: self.merged,
            warm_up_requests: self.requests - self.counted,
            rejected_rows: self.rejected,
            bad_rows: Vec::new(),
            passed_over: findings.passed_over.clone(),
            chain_violations: pool.map_or(0, Pool::chain_violations),
            distinct_pages: pool.map_or(PageCount(0), Pool::accumulated_pages),
            page_size,
            page_bytes,
            below: self.below.as_ref().map(Tiers::result).unwrap_or_default(),
            ceiling,
            searched: None,
            second_copies: self.recomputed.and_then(SecondCopies::of),
            turned_away: caches.map(CacheBank::refused).unwrap_or_default(),
            with_answers,
            cache_writes: self.cache_writes.found(),
            worth: self.worth.as_ref().and_then(|worth| {
                let tiers = self.below.as_ref().map(Tiers::worth).unwrap_or_default();
                worth.result(pool?, whole.as_ref()?, tiers)
            }),
            routed_worth: {
                let result = |routed: &RoutedTally| routed.result(pool?, self.prices);
                self.routed.iter().filter_map(result).collect()
            },
            optimal: pool
                .zip(whole.as_ref())
                .and_then(|(pool, whole)| pool.optimal_capacity(whole.recommendation()?.so_far()?)),
            config: self.config,
            whole,
            provisioned: self.provisioned,
            at_provisioned,
            at_further_costs,
            windows: self.closed,
            traffic: Vec::new(),
            times: findings.times.clone(),
            notes,
            logged_replicas: findings.replicas,
            doubt: findings.doubt.clone().or(of_nothing.map(|(doubt, _)| doubt.clone())),
        };
        self.found.explain(&findings.times, &mut replay);
        Ok((replay, history))
    }
}

/// Whether nearly nothing is found again, without any limit.
fn finds_nothing(whole: &Estimate) -> bool {
    whole.theoretical.page_hits * 50 <= whole.page_accesses
}

/// What a reader should know of vLLM's tier where requests overlap.
fn offload_note(cache: &CacheConfig, whole: &Estimate) -> Option<String> {
    let is_over_tier = cache.has(EnginePart::HOST) && cache.rules.vllm_offload.is_some();
    let overlaps = whole.in_flight.as_ref().is_some_and(|found| found.max_requests > 0);
    (is_over_tier && overlaps).then(|| {
        "requests that overlap are taken one after another over vLLM's tier: what both tiers find together is within \
         3 % of \
         recorded runs under load, but in small pools most of it may come from the tier; the same without --below \
         says what \
         vLLM itself finds under load"
            .to_owned()
    })
}

/// What a reader should know of a draft head over vLLM's windows, where nothing says which groups its layers lie in.
pub fn draft_layers_note(cache: &CacheConfig) -> Option<String> {
    let is_open = cache.has(EnginePart::DRAFTED_WINDOWS) && cache.rules.draft_layers == DraftLayers::All;
    is_open.then(|| {
        "the draft head is taken to have layers in full groups and in windows, so both lose a page; --draft-layers \
         full \
         models one in full groups alone, of which small pools find up to 9 % more"
            .to_owned()
    })
}
