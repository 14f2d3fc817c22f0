//! Caches whose requests are followed while they are in flight.

use super::{BankHits, PointCache};
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::DraftHead;
use crate::engines::load::{CacheLoad, LoadedCache};
use crate::engines::sglang::SglangCache;
use crate::request::event::RequestEvent;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// SGLang's caches, and where a head drafts in them one as large as the tracked bound, where every request is over at once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "(Vec<CacheLoad<SglangCache>>, Option<Box<SglangCache>>)")]
pub(super) struct SglangLoads {
    pub(super) loads: Vec<CacheLoad<SglangCache>>,
    pub(super) ceiling: Option<Box<SglangCache>>,
}

impl From<(Vec<CacheLoad<SglangCache>>, Option<Box<SglangCache>>)> for SglangLoads {
    fn from((mut loads, ceiling): (Vec<CacheLoad<SglangCache>>, Option<Box<SglangCache>>)) -> Self {
        if ceiling.is_some() {
            loads.iter_mut().for_each(|load| load.cache.draft());
        }
        Self { loads, ceiling: ceiling.map(|ceiling| Box::new(ceiling.drafting())) }
    }
}

/// Caches in which nobody is in flight.
pub(super) fn idle<C: LoadedCache>(caches: Vec<C>) -> Vec<CacheLoad<C>> {
    caches.into_iter().map(CacheLoad::new).collect()
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

    fn draft(&mut self, head: DraftHead) {
        self.cache.draft(head);
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        // Steps are not kept.
        self.cache.is_sound(config, page_size) && self.is_countable() && !config.ends_as_logged
    }
}
