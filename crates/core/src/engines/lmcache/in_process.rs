//! LMCache's cache in the engine's process (docs/engines/lmcache.md).
//!
//! What a request finds moves to the young end, its first chunk youngest; then room is made for every chunk after
//! those, even where it is there already; then the missing ones are put in prefix order, their first chunk oldest.
//! Since room may be made for nothing and chunks move in two directions, inclusion is not shown. Where a request is
//! larger than the cache, its leading chunks are stored, as many as there is room for.

use super::held::HeldChunks;
use super::{SavedLmcache, pages_a_chunk};
use crate::engines::chunks::Chunks;
use crate::engines::hybrid::RulesError;
use crate::request::event::RequestEvent;
use crate::stack::runs::MAX_PAGES;
use crate::units::heap::heap_bytes;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// What decides a cache's answers besides its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LmcacheRules {
    /// Tokens per page of the log.
    pub page_size: PageSize,
    /// Tokens per chunk.
    pub chunk_tokens: u32,
}

impl LmcacheRules {
    /// Pages a chunk.
    ///
    /// # Errors
    /// [`RulesError::StoredChunk`] where it is no whole number of them.
    pub fn pages_a_chunk(&self) -> Result<u32, RulesError> {
        pages_a_chunk(self.chunk_tokens, self.page_size)
    }
}

/// Chunks in one LRU order.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SavedLmcache<LmcacheRules, ()>")]
pub struct LmcacheCache {
    pub(super) rules: LmcacheRules,
    /// In pages of the log.
    capacity: u64,
    chunks: Chunks,
    pub(super) held: HeldChunks,
}

heap_bytes!(LmcacheCache { chunks, held; rules, capacity });

impl LmcacheCache {
    /// An empty cache of so many pages of the log; what of them makes no whole chunk is not used.
    ///
    /// # Errors
    /// [`RulesError::StoredChunk`] where a chunk is no whole number of pages.
    pub fn new(capacity: PageCount, rules: LmcacheRules) -> Result<Self, RulesError> {
        let chunks = Chunks::new(rules.page_size, rules.pages_a_chunk()?);
        Ok(Self { rules, capacity: capacity.0.min(MAX_PAGES), chunks, held: HeldChunks::new() })
    }

    /// The modelled capacity, in pages of the log.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// The rules it keeps.
    pub fn rules(&self) -> &LmcacheRules {
        &self.rules
    }

    /// Pages the cache holds.
    pub fn resident(&self) -> PageCount {
        PageCount(self.held.count * u64::from(self.chunks.pages))
    }

    /// Pages written since the start, or since it was restored.
    pub fn written(&self) -> PageCount {
        PageCount(self.held.put * u64::from(self.chunks.pages))
    }

    /// Serves one request and says how many leading pages of its prompt it found, always whole chunks of them.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> u64 {
        self.request_after(event, 0)
    }

    /// Serves what is left of a request of which a tier above found so many leading pages: it is asked for the chunks
    /// from the one on that those end in, and says how many pages after them it found.
    pub fn request_after(&mut self, event: &RequestEvent<'_>, above: u64) -> u64 {
        let (found, chunks) = self.look_up(event, above);
        self.put_missing(found, chunks);
        self.held.leave();
        (u64::from(found) * self.pages_per_chunk()).saturating_sub(above)
    }

    /// Enters the path of a request and looks up its chunks behind what a tier above found, which become the
    /// youngest; up to which one they were found, and how many there are.
    pub(super) fn look_up(&mut self, event: &RequestEvent<'_>, above: u64) -> (u32, u32) {
        let ids = self.chunks.take(event);
        self.held.enter(ids);
        let chunks = ids.len() as u32;
        // At most the chunks, which are counted in 32 bits.
        let first = (above / self.pages_per_chunk()).min(u64::from(chunks)) as u32;
        let found = self.held.found((first, chunks));
        self.held.refresh(first, found);
        (found, chunks)
    }

    /// Makes room for the chunks of the request from `found` on, whether they are there or not, and puts those that
    /// are not.
    pub(super) fn put_missing(&mut self, found: u32, chunks: u32) {
        let room = self.make_room(u64::from(chunks - found));
        self.held.put(found, found + room as u32);
    }

    /// Pages of the log per chunk.
    pub(super) fn pages_per_chunk(&self) -> u64 {
        u64::from(self.chunks.pages)
    }

    /// Chunks the cache can hold.
    pub(super) fn most(&self) -> u64 {
        self.capacity / u64::from(self.chunks.pages)
    }

    /// Evicts the oldest chunks until there is room for so many, or nothing is left; returns how many there
    /// is room for.
    fn make_room(&mut self, chunks: u64) -> u64 {
        let wanted = chunks.min(self.most());
        self.held.evict(wanted.saturating_sub(self.most() - self.held.count));
        wanted
    }
}
