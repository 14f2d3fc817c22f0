//! Caches whose requests are followed while they are in flight.

use super::{BankHits, PointCache};
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::HybridCache;
use crate::engines::load::{CacheLoad, LoadedCache};
use crate::engines::sglang::SglangCache;
use crate::request::event::RequestEvent;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// vLLM's pools of blocks, saved with what a head drafts in them. Nothing is held in the one that never evicts, where every
/// request is over at once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "SavedHybridLoads")]
pub(super) struct HybridLoads {
    draft_tokens: u32,
    pub(super) loads: Vec<CacheLoad<HybridCache>>,
    pub(super) ceiling: Box<HybridCache>,
}

#[derive(Deserialize)]
struct SavedHybridLoads {
    draft_tokens: u32,
    loads: Vec<CacheLoad<HybridCache>>,
    ceiling: Box<HybridCache>,
}

impl From<SavedHybridLoads> for HybridLoads {
    fn from(SavedHybridLoads { draft_tokens, mut loads, ceiling }: SavedHybridLoads) -> Self {
        loads.iter_mut().for_each(|load| load.cache.draft(draft_tokens));
        Self { draft_tokens, loads, ceiling: Box::new(ceiling.drafting(draft_tokens)) }
    }
}

impl HybridLoads {
    /// Pools in which nobody is in flight.
    pub(super) fn of(draft_tokens: u32, caches: Vec<HybridCache>, ceiling: Box<HybridCache>) -> Self {
        Self { draft_tokens, loads: caches.into_iter().map(CacheLoad::new).collect(), ceiling }
    }
}

/// SGLang's caches, and where a head drafts in them one as large as the tracked bound, where every request is over at once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "SavedSglangLoads")]
pub(super) struct SglangLoads {
    pub(super) loads: Vec<CacheLoad<SglangCache>>,
    pub(super) ceiling: Option<Box<SglangCache>>,
}

#[derive(Deserialize)]
struct SavedSglangLoads {
    loads: Vec<CacheLoad<SglangCache>>,
    ceiling: Option<Box<SglangCache>>,
}

impl From<SavedSglangLoads> for SglangLoads {
    fn from(SavedSglangLoads { mut loads, ceiling }: SavedSglangLoads) -> Self {
        if ceiling.is_some() {
            loads.iter_mut().for_each(|load| load.cache.draft());
        }
        Self { loads, ceiling: ceiling.map(|ceiling| Box::new(ceiling.drafting())) }
    }
}

impl SglangLoads {
    /// Caches in which nobody is in flight.
    pub(super) fn of(caches: Vec<SglangCache>, ceiling: Option<Box<SglangCache>>) -> Self {
        Self { loads: caches.into_iter().map(CacheLoad::new).collect(), ceiling }
    }
}

impl<C: LoadedCache + PointCache> PointCache for CacheLoad<C> {
    fn capacity(&self) -> PageCount {
        self.cache.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        let (_, written) = self.cache.host();
        let hits = self.arrive(event);
        let (host_hits, written_since) = self.cache.host();
        BankHits { hits, host_hits, host_writes: written_since - written }
    }

    fn refused(&self) -> u64 {
        self.cache.refused()
    }

    fn memory_bytes(&self) -> usize {
        self.cache.memory_bytes() + CacheLoad::memory_bytes(self)
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        self.cache.is_sound(config, page_size) && self.is_countable()
    }
}
