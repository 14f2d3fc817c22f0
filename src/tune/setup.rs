//! A configuration of a cache, and what it finds of a log.

use super::{Base, Cost, Exactness, TuneError, scaled};
use crate::replay::{BelowOption, Replay, ReplayOptions, RequestLog, TierBelow, check_page_size};
use kvset_core::engines::below::Store;
use kvset_core::engines::rules::{EngineOption, EngineRules};
use kvset_core::questions::routing::{PreciseRules, RouterKind, RouterSpec};
use kvset_core::questions::worth::WorthAt;
use kvset_core::units::capacity::{CapacitySize, CapacitySpec};
use kvset_core::units::window::WindowKind;
use kvset_core::units::{PageBytes, PageSize};

/// A configuration of a cache.
#[derive(Debug, Clone)]
pub struct Setup {
    /// As a replay takes it, with one capacity.
    pub options: ReplayOptions,
    /// Tokens per page.
    pub page_size: PageSize,
    /// That of the log, where its pages have ids; else pages of any size can be made.
    pub logged_page_size: Option<PageSize>,
}

/// What a configuration finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hits {
    /// Pages, in all tiers.
    pub pages: u64,
    /// What SGLang with a draft head finds at most, where page ids leave that open.
    pub at_most: Option<u64>,
    /// Their tokens.
    pub tokens: u64,
    /// Pages of all prompts.
    pub page_accesses: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Requests that count.
    pub requests: u64,
    /// What is left to compute, where the prefill rate is known; not known with a time to live.
    pub worth: Option<WorthAt>,
}

impl Setup {
    /// The present configuration: the capacity is the provisioned one, else the first that is given, else the
    /// recommended one.
    ///
    /// # Errors
    /// There is none, or it cannot be replayed.
    pub fn present(log: &RequestLog, options: &ReplayOptions) -> Result<Self, TuneError> {
        let page_size = log.page_size(options).ok_or(TuneError::NoRequests)?;
        let logged_page_size = (!log.has_tokens()).then_some(page_size);
        let mut options = ReplayOptions { threads: 1, ..options.clone() };
        options.pool.windows = vec![WindowKind::All];
        let given = options.provisioned.take().or_else(|| options.pool.cache.capacities.first().cloned());
        let capacity = match given {
            Some(capacity) => capacity,
            None if options.pool.cache.is_pointwise() => return Err(TuneError::NoCapacity),
            None => {
                let whole = log.replay(&options, None, &|_, _| {})?.whole.ok_or(TuneError::NoRequests)?;
                let recommended = whole.recommendation().and_then(|found| found.pages);
                CapacitySpec::of_pages(recommended.unwrap_or(whole.accumulated_pages).max(1))
            }
        };
        options.pool.cache.capacities = vec![capacity];
        Ok(Self { options, page_size, logged_page_size })
    }

    /// What the cache holds.
    pub fn capacity(&self) -> CapacitySpec {
        self.options.pool.cache.capacities.first().cloned().unwrap_or_else(|| CapacitySpec::of_pages(1))
    }

    /// Makes the cache `numerator / denominator` times as large.
    pub fn scale(&mut self, numerator: u64, denominator: u64) {
        self.options.pool.cache.capacities = vec![scaled(&self.capacity(), numerator, denominator)];
    }

    /// Gives the options of a name this value, those of the engine and those of the tiers below it.
    ///
    /// # Errors
    /// The text is none of their values.
    pub fn give(&mut self, key: &str, text: &str) -> Result<(), String> {
        for option in EngineRules::options_named(key) {
            option.read(&mut self.options.pool.cache.rules, text)?;
            option.read(&mut self.options.extras.below_rules, text)?;
        }
        Ok(())
    }

    /// Leaves an option of the engine out, and with it those that need it.
    pub fn leave_out(&mut self, option: &EngineOption) {
        let cache = &mut self.options.pool.cache;
        option.take(&mut cache.rules, &EngineRules::default());
        cache.rules = cache.rules.of_profile(cache.profile);
        option.take(&mut self.options.extras.below_rules, &EngineRules::default());
    }

    /// Takes pages of another size, of the same memory.
    ///
    /// # Errors
    /// The log does not show such pages.
    pub fn set_page_size(&mut self, page_size: PageSize) -> Result<(), String> {
        if let Some(logged) = self.logged_page_size {
            check_page_size(logged, page_size)?;
        }
        let (old, new) = (u64::from(self.page_size.get()), u64::from(page_size.get()));
        let same = |capacity: &CapacitySpec| match capacity.size {
            CapacitySize::Pages(_) => scaled(capacity, old, new),
            CapacitySize::Bytes(_) => capacity.clone(),
        };
        self.options.pool.cache.capacities = vec![same(&self.capacity())];
        self.each_below(same);
        self.page_size = page_size;
        Ok(())
    }

    /// How exact its figures are.
    pub fn exactness(&self) -> Exactness {
        let pool = &self.options.pool;
        let below = self.options.extras.below.iter().filter_map(|below| below.tier.store());
        let mut engines = below.filter_map(Store::profile).chain([pool.cache.profile]);
        if engines.any(|engine| engine.spec().approximation.is_some()) {
            Exactness::Approximate
        } else if pool.cache.is_pointwise() || !self.options.extras.below.is_empty() {
            Exactness::Pointwise
        } else {
            Exactness::Exact
        }
    }

    /// What it finds of a log.
    ///
    /// # Errors
    /// It cannot be replayed.
    pub fn hits(&self, log: &RequestLog) -> Result<Hits, TuneError> {
        if !self.options.extras.below.is_empty() && !self.options.pool.questions.routers.is_empty() {
            return Err(TuneError::BelowReplicas);
        }
        let done = log.replay(&self.options, Some(self.page_size), &|_, _| {})?;
        if done.whole.is_none() {
            return Err(TuneError::NoRequests);
        }
        let pages = self.own(&done).ok_or(TuneError::Beyond)? + self.below(&done);
        let whole = done.whole.as_ref();
        Ok(Hits {
            pages,
            at_most: whole.and_then(|whole| Some(whole.draft_range.as_ref()?.capacities.first()?.page_hits)),
            tokens: pages * u64::from(self.page_size.get()),
            page_accesses: whole.map_or(0, |whole| whole.page_accesses),
            prompt_tokens: whole.map_or(0, |whole| whole.prompts().all),
            requests: done.requests - done.warm_up_requests,
            worth: self.worth(&done),
        })
    }

    fn worth(&self, done: &Replay) -> Option<WorthAt> {
        let asked = &self.options.pool.questions;
        let worth = if !asked.routers.is_empty() {
            done.routed_worth.first().map(|routed| &routed.worth)
        } else if !asked.reuse.ttls.is_empty() {
            None
        } else {
            done.worth.as_ref().map(|worth| &worth.estimate)
        };
        worth?.capacities.first().copied()
    }

    /// So many such replicas, `count` of them, each as large as it is; none where that is no number of replicas that the
    /// router can have.
    pub fn with_replicas(&self, count: usize) -> Option<Self> {
        let present = self.options.pool.questions.routers.first()?;
        let mut changed = self.clone();
        changed.scale(count as u64, present.replicas as u64);
        let kind = match present.kind {
            RouterKind::Precise(rules) => {
                RouterKind::Precise(PreciseRules { at: changed.capacity().size, ..rules })
            }
            kind => kind,
        };
        let spec = RouterSpec { kind, replicas: count };
        changed.options.pool.questions.routers = vec![spec.written().parse().ok()?];
        Some(changed)
    }

    /// Pages that the engine's own caches find.
    fn own(&self, done: &Replay) -> Option<u64> {
        if let Some(router) = done.whole.as_ref().and_then(|all| all.routing.first()) {
            return router.capacities.first()?.prefix_hits;
        }
        let retention = done.whole.iter().flat_map(|all| &all.retention);
        if let Some(sliding) = retention.clone().find(|point| !point.kind.is_fixed()) {
            return sliding.capacities.first()?.page_hits;
        }
        done.whole.as_ref()?.capacities.first()?.prefix_hits
    }

    /// Pages that the tiers below find in addition.
    fn below(&self, done: &Replay) -> u64 {
        done.below.first().into_iter().flatten().map(|tier| tier.page_hits).sum()
    }

    /// The setup with what it finds, as the result reports it.
    pub fn summary(&self, hits: &Hits) -> Base {
        let page_bytes = self.page_bytes();
        let capacity = self.capacity();
        Base {
            engine: self.options.pool.cache.profile.name(),
            page_size: self.page_size.get(),
            capacity_pages: capacity.pages(page_bytes).map_or(0, |pages| pages.0),
            capacity_bytes: capacity.bytes(page_bytes).map(|bytes| bytes.0),
            requests: hits.requests,
            page_accesses: hits.page_accesses,
            prompt_tokens: hits.prompt_tokens,
            hit_pages: hits.pages,
            hit_pages_at_most: hits.at_most,
            hit_tokens: hits.tokens,
            hit_rate_tokens: kvset_core::sizing::curve::share(hits.tokens, hits.prompt_tokens),
            exactness: self.exactness(),
            cost: hits.worth.map(Cost::of),
            at_traffic: Vec::new(),
        }
    }

    /// Bytes per page, where a cost per token is known.
    pub fn page_bytes(&self) -> Option<PageBytes> {
        let cost = self.options.pool.cache.kv_bytes_per_token?;
        PageBytes::from_token_cost(cost, self.page_size)
    }
}

impl Setup {
    /// Keeps `now` pages where there were `before`, in every tier: as smaller elements do.
    pub fn shrink_pages(&mut self, now: u64, before: u64) {
        if let Some(cost) = &mut self.options.pool.cache.kv_bytes_per_token {
            *cost *= before as f64 / now as f64;
        }
        let more = |capacity: &CapacitySpec| match capacity.size {
            CapacitySize::Pages(_) => scaled(capacity, now, before),
            CapacitySize::Bytes(_) => capacity.clone(),
        };
        self.options.pool.cache.capacities = vec![more(&self.capacity())];
        self.each_below(more);
    }

    /// Makes the tiers below `numerator / denominator` times as large.
    pub fn scale_below(&mut self, numerator: u64, denominator: u64) {
        self.each_below(|capacity| scaled(capacity, numerator, denominator));
    }

    /// Sets an option of vLLM's own tier, written as `NAME=VALUE`.
    ///
    /// # Errors
    /// It is none.
    pub fn set_offload(&mut self, option: &str) -> Result<(), String> {
        for below in &mut self.options.extras.below {
            if let TierBelow::Store(Store::VllmOffload(options)) = &mut below.tier {
                options.set(option)?;
            }
        }
        Ok(())
    }

    /// Puts a tier under the engine, `times` as large as its cache.
    ///
    /// # Errors
    /// There is no such tier.
    pub fn add_tier(&mut self, name: &str, times: u64) -> Result<(), String> {
        let below: BelowOption = format!("{name}:{}", scaled(&self.capacity(), times, 1)).parse()?;
        if below.tier == TierBelow::Hicache {
            self.options.pool.cache.rules.hicache = Some(below.capacity.clone());
        }
        self.options.extras.below = vec![below];
        Ok(())
    }

    fn each_below(&mut self, change: impl Fn(&CapacitySpec) -> CapacitySpec) {
        self.options.extras.below.iter_mut().for_each(|below| below.capacity = change(&below.capacity));
        let host = self.options.pool.cache.rules.hicache.as_ref().map(&change);
        self.options.pool.cache.rules.hicache = host;
    }
}
