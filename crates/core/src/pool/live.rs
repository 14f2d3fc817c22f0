//! What a pool has from its first accepted record on: the modelled cache and the windows over it.

use super::kind::PoolKind;
use super::{Arrival, Refusal, RestoreError};
use crate::engines::bank::CacheBank;
use crate::engines::hybrid::RulesError;
use crate::engines::one_pass::Engine;
use crate::engines::sglang::MAX_CAPACITY;
use crate::estimate::config::PoolConfig;
use crate::questions::observers::{Observation, Observers, PoolSections, RestoredSections};
use crate::questions::question::Accepted;
use crate::request::event::RequestEvent;
use crate::request::outcome::{BEYOND, Outcome};
use crate::sizing::curve::Curve;
use crate::sizing::tiers::Trend;
use crate::stack::{MAX_TRACKED_PAGES, Overlap};
use crate::units::heap::heap_bytes;
use crate::units::{EventTime, PageBytes, PageSize, is_countable};
use crate::windows::WindowSet;
use crate::windows::in_flight::InFlight;
use crate::windows::tally::{CountingRules, Position, RequestSummary, TallyShape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The pool from its first accepted record on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LivePool {
    pub(super) cache: ModelledCache,
    pub(super) windows: WindowSet,
    /// One a kind of window, in the order of the configuration.
    pub(super) trends: Vec<Trend>,
}

heap_bytes!(LivePool { cache, windows, trends });

/// The modelled cache and what was seen of it alongside the windows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ModelledCache {
    pub(super) page_size: PageSize,
    /// This and the curve follow from the page size and the configuration.
    #[serde(skip)]
    pub(super) page_bytes: Option<PageBytes>,
    #[serde(skip)]
    pub(super) curve: Arc<Curve>,
    pub(super) engine: Engine,
    /// One cache a capacity, where the profile models each on its own; the engine alongside them then knows
    /// what could be found with unlimited capacity.
    pub(super) caches: CacheBank,
    /// The requests in flight.
    pub(super) in_flight: InFlight,
    /// Event time of the first record.
    pub(super) first_seen: EventTime,
    pub(super) chain_violations: u64,
    pub(super) output_reuse_unseen: bool,
    /// What is followed for the questions; a snapshot keeps it apart.
    #[serde(skip)]
    pub(super) observers: Option<Box<Observers>>,
    /// The last request's result.
    #[serde(skip)]
    pub(super) outcome: Outcome,
}

heap_bytes!(ModelledCache {
    engine, caches, in_flight, observers, outcome;
    page_size, page_bytes, curve, first_seen, chain_violations, output_reuse_unseen
});

// A capacity within the tracked bound is one that a single cache can model.
const _: () = assert!(MAX_TRACKED_PAGES <= MAX_CAPACITY.0);

/// Refuses what is larger than the limit, before it moves anything.
pub(super) fn check_size(
    event: &RequestEvent<'_>,
    page_size: PageSize,
    config: &PoolConfig,
) -> Result<(), Refusal> {
    let generated = match config.cache.caches_outputs() {
        true => event.output_tokens.unwrap_or(0) / u64::from(page_size.get()),
        false => 0,
    };
    let outputs = generated.max(event.output_page_ids.len() as u64);
    let pages = (event.page_ids.len() as u64).saturating_add(outputs);
    if pages > u64::from(config.cache.max_pages_per_request) {
        return Err(Refusal::TooManyPages { pages, limit: config.cache.max_pages_per_request });
    }
    Ok(())
}

/// The trends of one kind of window, as they begin.
fn fresh_trend(config: &PoolConfig) -> Trend {
    let requirements = config.cache.measured_ratios().len() * config.cache.coverages.len();
    Trend::new(requirements, config.tiers.len(), &config.trend, config.min_requests)
}

impl ModelledCache {
    fn new(page_size: PageSize, first_seen: EventTime, kind: &PoolKind) -> Result<Self, RulesError> {
        let config = kind.config();
        let mut cache = Self {
            page_size,
            page_bytes: None,
            curve: Arc::default(),
            engine: Engine::new(config.cache.engine()),
            caches: CacheBank::default(),
            in_flight: InFlight::default(),
            first_seen,
            chain_violations: 0,
            output_reuse_unseen: false,
            observers: None,
            outcome: Outcome::default(),
        };
        cache.place_capacities(kind);
        cache.observers = Observers::new(config.observed(), cache.curve.thresholds(), page_size);
        cache.caches = CacheBank::new(cache.curve.thresholds(), page_size, &config.cache)?;
        Ok(cache)
    }

    fn shape(&self, config: &PoolConfig) -> TallyShape {
        TallyShape {
            targets: config.cache.measured_ratios().len(),
            thresholds: self.curve.thresholds().len(),
            whole_curve: config.counts_whole_curve(),
            observation: self.observers.as_ref().map(|observers| observers.shape()).unwrap_or_default(),
        }
    }

    /// What windows measure requests by.
    pub(super) fn counting_rules<'a>(&'a self, config: &'a PoolConfig) -> CountingRules<'a> {
        CountingRules {
            target_ratios: config.cache.measured_ratios(),
            thresholds: self.curve.thresholds(),
            whole_curve: config.counts_whole_curve(),
        }
    }

    /// Takes what follows from the page size and the configuration.
    fn place_capacities(&mut self, kind: &PoolKind) {
        self.page_bytes = kind.page_bytes(self.page_size);
        self.curve = kind.curve(self.page_size);
    }

    /// What follows once the engine has taken a request, the pool's number `index`.
    pub(super) fn follow(
        &mut self,
        event: &RequestEvent<'_>,
        index: u64,
        (counted, session): (bool, Option<&str>),
        config: &PoolConfig,
    ) -> (Option<Overlap>, Option<Arc<Observation>>) {
        if !self.caches.is_none() {
            self.caches.request(event, self.outcome.reusable_prefix(), &config.cache, self.page_size);
        }
        self.chain_violations += self.outcome.chain_violations;
        // An answer that fills no page has none to be found.
        let fills_pages = event.answer_pages(self.page_size).is_none_or(|pages| pages > 0);
        self.output_reuse_unseen |=
            config.cache.caches_outputs() && fills_pages && event.output_page_ids.is_empty();
        let overlap = match self.engine.others_in_flight() {
            Some(Overlap { requests, pages, room }) => {
                let rate = config.cache.sample_rate;
                let whole = |pages| if pages == BEYOND { BEYOND } else { rate.whole_of(pages) };
                Some(Overlap { requests, pages: whole(pages), room: room.map(whole) })
            }
            None => self.in_flight.arrive(event, self.page_size, &config.cache),
        };
        (overlap, self.observe_questions(event, index, (counted, session), config))
    }

    /// What the last request, the pool's number `index`, adds where more is asked.
    fn observe_questions(
        &mut self,
        event: &RequestEvent<'_>,
        index: u64,
        (counted, session): (bool, Option<&str>),
        config: &PoolConfig,
    ) -> Option<Arc<Observation>> {
        let observers = self.observers.as_mut()?;
        Some(observers.observe(&Accepted {
            event,
            session,
            outcome: &self.outcome,
            page_size: self.page_size,
            index,
            counted,
            engine: &self.engine,
            own: &self.caches,
            cache: config.observed().provisioned(),
            generated: None,
        }))
    }

    /// Completes what was read back from a snapshot; whether it is of the configuration and can go on.
    fn resume(&mut self, config: &PoolConfig) -> bool {
        self.engine.resume(&config.cache.engine())
            && self.caches.resume(self.curve.thresholds(), self.page_size, &config.cache)
            && self.in_flight.is_sound(config.cache.max_tracked_pages)
            && is_countable(self.chain_violations)
    }
}

impl LivePool {
    pub(super) fn new(
        page_size: PageSize,
        first_seen: EventTime,
        kind: &PoolKind,
    ) -> Result<Self, RulesError> {
        let config = kind.config();
        let cache = ModelledCache::new(page_size, first_seen, kind)?;
        let shape = cache.shape(config);
        Ok(Self {
            cache,
            windows: WindowSet::new(&config.window_rules(), shape),
            trends: vec![fresh_trend(config); config.windows.len()],
        })
    }

    /// What is followed for the questions, to be serialised into a snapshot.
    pub(super) fn sections(&self) -> Option<PoolSections<'_>> {
        let mut sections = self.cache.observers.as_ref()?.sections();
        self.windows.save_observations(&mut sections);
        Some(sections)
    }

    /// Takes it back; whether it was all there, and no more.
    fn take_sections(&mut self, sections: Option<RestoredSections>, config: &PoolConfig) -> bool {
        let pool = config.observed().followed(self.cache.curve.thresholds(), self.cache.page_size);
        let fresh = Observers::new(config.observed(), pool.capacities, pool.page_size);
        let resumed = match (fresh, sections) {
            (None, None) => return true,
            (Some(fresh), Some(sections)) => fresh.resumed(sections, pool, &self.cache.engine),
            _ => return false,
        };
        let Some((observers, mut unread)) = resumed else { return false };
        self.cache.observers = Some(observers);
        let shape = self.cache.shape(config);
        self.windows.take_question_counts(shape, &mut unread);
        unread.is_empty()
    }

    /// Completes what was read back from a snapshot.
    pub(super) fn resume(
        &mut self,
        kind: &PoolKind,
        sections: Option<RestoredSections>,
    ) -> Result<(), RestoreError> {
        let config = kind.config();
        self.cache.place_capacities(kind);
        let sections_fit = self.take_sections(sections, config);
        if self.cache.chain_violations > 0 {
            self.cache.engine.disprove_chains();
        }
        let windows_fit = self.windows.are_those_of(&config.window_rules(), self.cache.shape(config));
        let fresh = fresh_trend(config);
        let trends_fit = self.trends.len() == config.windows.len()
            && self.trends.iter().all(|trend| trend.are_like(&fresh));
        let cache_fits = self.cache.resume(config);
        let whole = sections_fit && windows_fit && trends_fit && cache_fits;
        if whole { Ok(()) } else { Err(RestoreError::Inconsistent) }
    }

    /// Counts the last request, the pool's number `number`, in every window; whether it came too late for one it
    /// belongs to. `summary` is room to sum it up in.
    pub(super) fn count(
        &mut self,
        number: u64,
        event_time: EventTime,
        arrival: Arrival,
        (overlap, observation): (Option<Overlap>, Option<Arc<Observation>>),
        config: &PoolConfig,
        summary: &mut RequestSummary,
    ) -> bool {
        let cache = &self.cache;
        let rules = cache.counting_rules(config);
        let position = Position { arrival: number, offset: arrival.offset, event_time };
        summary.read(&cache.outcome, position, &rules);
        summary.overlap = overlap;
        summary.observation = observation;
        if !cache.caches.is_none() {
            summary.set_pointwise_hits(cache.caches.last_hits(), cache.caches.last_ceiling());
        }
        let is_late = self.windows.observe(summary, arrival.watermark);
        // Where no window holds on to it, the next request takes its room.
        summary.observation = None;
        is_late
    }
}
