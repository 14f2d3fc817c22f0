//! The answers of a pool's requests, in caches that know which pages of later prompts they are.
//!
//! A pool's own caches have an answer that the log gives no ids of as pages that nobody shares, and again as pages of
//! the prompt that it comes back in. What a real cache found is compared with caches that have it once.

use super::reading::{CachedPages, Explanation};
use crate::engines::bank::CacheBank;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::{Engine, EngineConfig};
use crate::questions::generated::GeneratedPages;
use crate::questions::question::Accepted;
use crate::request::event::{CachedTokens, RequestEvent};
use crate::request::outcome::{Need, Outcome};
use crate::stack::ChainPolicy;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Follows a pool's requests. Where its caches keep what is generated, from the first one on, unless nobody expects
/// that the log says what requests found; else from the first one on that says so. A log that never does costs
/// nothing then.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Answers {
    pages: Option<GeneratedPages>,
    /// The pool's caches once more, where they keep what is generated.
    caches: Option<Box<NamedCaches>>,
    /// Nobody expects that the log says what requests found: what was before the first that does, no cache has
    /// followed, so none gets named pages.
    #[serde(skip)]
    is_unexpected: bool,
}

heap_bytes!(Answers { pages, caches; is_unexpected });

/// Caches that have generated pages under their names.
#[derive(Debug, Serialize, Deserialize)]
struct NamedCaches {
    engine: Engine,
    bank: CacheBank,
    /// Whether a page was found to break the chain, which the engine's stack leaves to others to keep.
    disproved: bool,
    #[serde(skip)]
    outcome: Outcome,
}

heap_bytes!(NamedCaches { engine, bank, outcome; disproved });

impl Answers {
    /// Those of a log of which nobody expects that it says what requests found.
    pub(super) fn unexpected() -> Self {
        Self { is_unexpected: true, ..Self::default() }
    }

    /// Whether nobody expects that the log says what requests found, and neither this request nor one before it does.
    pub(super) fn wait_for(&self, request: &Accepted<'_>) -> bool {
        self.is_unexpected && self.pages.is_none() && request.event.cached_tokens == CachedTokens::Unstated
    }

    /// Follows a request, and hands it on as caches have it that know which pages are an answer's: the pool's own,
    /// or those kept here, of which `fresh_bank` are those that model single capacities. What somebody else follows
    /// already is handed on as it is.
    ///
    /// # Errors
    /// That of `fresh_bank`.
    pub(super) fn follow<T, E>(
        &mut self,
        request: &Accepted<'_>,
        fresh_bank: impl FnOnce() -> Result<CacheBank, E>,
        hand_on: impl FnOnce(&Accepted<'_>) -> T,
    ) -> Result<T, E> {
        let config = request.cache.cache;
        let is_silent = request.event.cached_tokens == CachedTokens::Unstated;
        let names_pages = config.caches_outputs() && !self.is_unexpected;
        let is_idle = self.pages.is_none() && is_silent && !names_pages;
        if request.generated.is_some() || is_idle {
            return Ok(hand_on(request));
        }
        let page_size = request.page_size;
        let pages = self.pages.get_or_insert_with(|| match names_pages {
            true => GeneratedPages::new(config),
            false => GeneratedPages::of_lengths(config),
        });
        if !pages.is_naming() {
            pages.follow(request.event, page_size, config.sample_rate, |_| 0);
            return Ok(hand_on(&Accepted { generated: Some(pages), ..*request }));
        }
        let caches = match &mut self.caches {
            Some(caches) => caches,
            none => none.insert(Box::new(NamedCaches::new(config, fresh_bank()?))),
        };
        let known =
            |prompt: &RequestEvent<'_>| caches.engine.known_pages(prompt, page_size, &mut caches.outcome);
        pages.follow(request.event, page_size, config.sample_rate, known);
        let event = pages.named(request.event);
        let NamedCaches { engine, bank, disproved, outcome } = &mut **caches;
        // The pool has accepted it: its ids fit its tokens, and violations of the chain are counted only.
        let taken = engine.observe(&event, page_size, outcome);
        debug_assert!(taken.is_ok(), "accepted before");
        *disproved |= outcome.chain_violations > 0;
        if !bank.is_none() {
            bank.request(&event, outcome.reusable_prefix(), config, page_size);
        }
        let (event, generated) = (&event, Some(&*pages));
        Ok(hand_on(&Accepted { event, outcome, engine, generated, own: bank, ..*request }))
    }

    /// The engine of the caches kept here.
    pub(super) fn engine(&self) -> Option<&Engine> {
        self.caches.as_ref().map(|caches| &caches.engine)
    }

    /// Completes what was read back from a snapshot; whether it is of the configuration and can go on.
    pub(super) fn resume(&mut self, capacities: &[Need], page_size: PageSize, config: &CacheConfig) -> bool {
        let fresh = GeneratedPages::new(config);
        let has_caches = self.pages.is_some() && fresh.is_naming();
        self.pages.iter().all(|pages| pages.is_like(&fresh))
            && self.caches.is_some() == has_caches
            && self.caches.iter_mut().all(|caches| {
                if caches.disproved {
                    caches.engine.disprove_chains();
                }
                caches.engine.resume(&engine_config(config))
                    && caches.bank.resume(capacities, page_size, config)
            })
    }
}

impl NamedCaches {
    fn new(config: &CacheConfig, bank: CacheBank) -> Self {
        Self {
            engine: Engine::new(engine_config(config)),
            bank,
            disproved: false,
            outcome: Outcome::default(),
        }
    }
}

/// The pool's engine, but that it refuses nothing more than the pool has.
fn engine_config(config: &CacheConfig) -> EngineConfig {
    EngineConfig { chain_policy: ChainPolicy::Report, ..config.engine() }
}

/// How far the log explains what a request found in the cache that served it, which has `outcome`.
pub(super) fn explained(
    request: &Accepted<'_>,
    cached: CachedPages,
    outcome: &Outcome,
    config: &CacheConfig,
) -> Explanation {
    let reusable = outcome.reusable_prefix();
    let Some(generated) = request.generated else { return Explanation::by_prompts(reusable) };
    let by_prompts = generated.known().map_or(reusable, |known| known.min(reusable));
    // Seldom is there more to explain, and looking for it takes a look at every page.
    let by_answers = match cached.followed > reusable {
        true => generated.explained(request.event, request.page_size, reusable, config.sample_rate),
        false => reusable,
    };
    Explanation { by_prompts, by_answers }
}
