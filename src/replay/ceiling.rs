//! What the rules of windows, states and draft heads lose at any size: hits where nothing is ever evicted.

use kvset_core::engines::hybrid::{BlockRetention, DraftHead, HybridCache, HybridRules};
use kvset_core::engines::rules::EnginePart;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::Pool;
use kvset_core::request::event::RequestEvent;
use kvset_core::request::outcome::Outcome;
use kvset_core::units::PageSize;
use serde::Serialize;

/// Page hits with unlimited capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Ceiling {
    /// If every layer had full attention.
    pub full_attention: u64,
    /// By the rules modelled.
    pub these_rules: u64,
    /// At most, by the same rules, where page ids leave open what a draft head loses: the former is the lower end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub these_rules_at_most: Option<u64>,
    /// By the same rules if windows and states kept all their names (`--retention-interval none`), where vLLM keeps
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_retention: Option<u64>,
    /// By these rules if no head drafted in the same cache, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_draft_head: Option<u64>,
}

impl Ceiling {
    /// What the draft head loses, where there is one: at least and at most.
    pub fn draft_head(&self) -> Option<[u64; 2]> {
        let without = self.without_draft_head?;
        let ends = [self.these_rules_at_most.unwrap_or(self.these_rules), self.these_rules];
        Some(ends.map(|found| without.saturating_sub(found)))
    }
}

/// Follows a replay of a hybrid model.
#[derive(Debug, Default)]
pub(super) struct Ceilings {
    dense: Option<HybridCache>,
    /// Without the draft head, where there is one.
    headless: Option<HybridCache>,
    found: Ceiling,
    is_counting: bool,
    last_draft_head: Option<u64>,
}

impl Ceilings {
    /// Takes a request in that the pool has taken.
    pub(super) fn observe(
        &mut self,
        event: &RequestEvent<'_>,
        outcome: &Outcome,
        pool: &Pool,
        page_size: PageSize,
        counted: bool,
    ) {
        let (Some(caches), config) = (pool.caches(), pool.config()) else { return };
        let these_rules = caches.last_ceiling().unwrap_or(0);
        let full = outcome.reusable_prefix();
        if !config.cache.has(EnginePart::BLOCK_POOL) {
            // Without a head its tree finds, without limit, what the stack does.
            let headless = config.cache.has(EnginePart::PAIRS).then_some(full);
            return self.count(counted, [full, these_rules], None, headless);
        }
        if self.dense.is_none() {
            let rules = config.cache.rules.hybrid(page_size, config.cache.outputs);
            if rules.head.drafts() {
                let headless = HybridRules { head: DraftHead::default(), ..rules.clone() };
                self.headless = HybridCache::never_evicting(config.cache.max_tracked_pages, headless).ok();
            }
            let rules = HybridRules { retention: BlockRetention::All, ..rules };
            // Cannot fail where the pool's own rules hold: without an interval there is less to contradict.
            self.dense = HybridCache::never_evicting(config.cache.max_tracked_pages, rules).ok();
        }
        let dense = self.dense.as_mut().map_or(0, |dense| dense.request(event).hits);
        let headless = self.headless.as_mut().map(|headless| headless.request(event).hits);
        self.count(counted, [full, these_rules], Some(dense), headless);
    }

    /// Takes hits in: if every layer had full attention and by the rules modelled, with dense retention and without a
    /// draft head where there are such.
    fn count(
        &mut self,
        counted: bool,
        [full, these_rules]: [u64; 2],
        dense: Option<u64>,
        headless: Option<u64>,
    ) {
        self.last_draft_head = headless.map(|headless| headless.saturating_sub(these_rules));
        if counted {
            self.is_counting = true;
            self.found.full_attention += full;
            self.found.these_rules += these_rules;
            if let Some(dense) = dense {
                *self.found.dense_retention.get_or_insert(0) += dense;
            }
            if let Some(headless) = headless {
                *self.found.without_draft_head.get_or_insert(0) += headless;
            }
        }
    }

    /// Pages of the last request that the draft head loses at any size, where there is one.
    pub(super) fn last_draft_head(&self) -> Option<u64> {
        self.last_draft_head
    }

    /// What was found; none where the engine has no groups.
    pub(super) fn found(&self) -> Option<Ceiling> {
        (self.dense.is_some() || self.is_counting).then_some(self.found)
    }
}

/// Whether a pool has a ceiling of its own rules that full attention, or a model without a draft head, could lift.
pub(super) fn has_ceiling(config: &PoolConfig) -> bool {
    [EnginePart::PAIRS, EnginePart::OTHER_POOL, EnginePart::BLOCK_POOL]
        .into_iter()
        .any(|part| config.cache.has(part))
}
