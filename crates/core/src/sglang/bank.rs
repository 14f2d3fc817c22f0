//! Several caches side by side, one a capacity: what a curve of single points is made of.

use super::{CapacityTooLarge, SglangCache};
use crate::event::RequestEvent;
use crate::profile::Outputs;
use crate::units::{PageCount, PageSize, is_countable};
use serde::{Deserialize, Serialize};

/// One cache a capacity; every one of them serves every request.
///
/// A request costs one lookup a capacity. Memory is bounded by the sum of the capacities: about 8 bytes a
/// resident page and 100 bytes a node, of which there are at most two a request resident.
#[derive(Debug, Serialize, Deserialize)]
pub struct CacheBank {
    caches: Vec<SglangCache>,
    /// Hits of the last request, one a cache.
    #[serde(skip)]
    last_hits: Vec<u64>,
}

impl CacheBank {
    /// Empty caches of these capacities, kept in this order.
    ///
    /// # Errors
    /// When one is larger than a cache models.
    pub fn new(capacities: &[u64], page_size: PageSize, outputs: Outputs) -> Result<Self, CapacityTooLarge> {
        let cache = |pages: &u64| SglangCache::new(PageCount(*pages), page_size, outputs);
        Ok(Self { caches: capacities.iter().map(cache).collect::<Result<_, _>>()?, last_hits: Vec::new() })
    }

    /// Whether these, read back from a snapshot, are the caches of these capacities and can go on.
    pub fn are_sound(&self, capacities: &[u64]) -> bool {
        self.caches.iter().map(|cache| cache.capacity().0).eq(capacities.iter().copied())
            && self.caches.iter().all(|cache| is_countable(cache.tree.clock()) && is_countable(cache.refused))
    }

    /// Serves a request at every capacity.
    pub fn request(&mut self, event: &RequestEvent<'_>) {
        self.last_hits.clear();
        self.last_hits.extend(self.caches.iter_mut().map(|cache| cache.request(event).hits));
    }

    /// Pages the last request found, one entry a capacity.
    pub fn last_hits(&self) -> &[u64] {
        &self.last_hits
    }

    /// Requests since the start that are larger than the whole cache, one entry a capacity.
    pub fn refused(&self) -> impl Iterator<Item = u64> + '_ {
        self.caches.iter().map(SglangCache::refused)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        self.caches.iter().map(SglangCache::memory_bytes).sum::<usize>() + self.last_hits.capacity() * 8
    }
}
