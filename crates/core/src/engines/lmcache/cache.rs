//! Chunks in one LRU order, by rules that say how a request's are stored.

use super::held::HeldChunks;
use crate::engines::chunks::Chunks;
use crate::engines::hybrid::RulesError;
use crate::request::event::RequestEvent;
use crate::stack::runs::MAX_PAGES;
use crate::units::heap::HeapBytes;
use crate::units::{EventTime, PageCount, PageSize};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// What decides a cache's answers besides its capacity, and how it stores.
pub trait ChunkRules: fmt::Debug + Copy + PartialEq + Serialize + DeserializeOwned {
    /// What a cache of these rules remembers besides its chunks.
    type Memory: fmt::Debug + Copy + Default + PartialEq + Serialize + DeserializeOwned;

    /// Tokens per page of the log, and per chunk.
    fn sizes(&self) -> (PageSize, u32);

    /// Pages a chunk.
    ///
    /// # Errors
    /// [`RulesError::StoredChunk`] where it is no whole number of them.
    fn pages_a_chunk(&self) -> Result<u32, RulesError> {
        let (page_size, chunk_tokens) = self.sizes();
        let page = page_size.get();
        match chunk_tokens >= page && chunk_tokens.is_multiple_of(page) {
            true => Ok(chunk_tokens / page),
            false => Err(RulesError::StoredChunk { chunk_tokens, page_size }),
        }
    }

    /// What the cache does by itself up to now.
    fn pass_time(_: &mut LmcacheCache<Self>, _: EventTime) {}

    /// Stores the chunks of the request that was entered from `found` up to `end`; the request goes on.
    fn store(cache: &mut LmcacheCache<Self>, found: u32, end: u32);

    /// What the end of a request does, whose chunks `first..end` were looked up.
    fn end(_: &mut LmcacheCache<Self>, _first: u32, _end: u32) {}
}

/// Chunks in one LRU order.
#[derive(Debug, Clone)]
pub struct LmcacheCache<R: ChunkRules> {
    pub(super) rules: R,
    /// In pages of the log.
    capacity: u64,
    chunks: Chunks,
    pub(super) held: HeldChunks,
    pub(super) memory: R::Memory,
}

impl<R: ChunkRules> HeapBytes for LmcacheCache<R> {
    fn heap_bytes(&self) -> usize {
        self.chunks.heap_bytes() + self.held.heap_bytes()
    }
}

impl<R: ChunkRules> LmcacheCache<R> {
    /// An empty cache of so many pages of the log; what of them makes no whole chunk is not used.
    ///
    /// # Errors
    /// [`RulesError::StoredChunk`] where a chunk is no whole number of pages.
    pub fn new(capacity: PageCount, rules: R) -> Result<Self, RulesError> {
        let chunks = Chunks::new(rules.sizes().0, rules.pages_a_chunk()?);
        let capacity = capacity.0.min(MAX_PAGES);
        Ok(Self { rules, capacity, chunks, held: HeldChunks::new(), memory: R::Memory::default() })
    }

    /// The modelled capacity, in pages of the log.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// The rules it keeps.
    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// Pages the cache holds.
    pub fn resident(&self) -> PageCount {
        PageCount(self.held.count * self.pages_per_chunk())
    }

    /// Pages written since the start, or since it was restored.
    pub fn written(&self) -> PageCount {
        PageCount(self.held.put * self.pages_per_chunk())
    }

    /// Serves one request and says how many leading pages of its prompt it found, always whole chunks of them.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> u64 {
        self.request_after(event, 0)
    }

    /// Serves what is left of a request of which a tier above found so many leading pages: it is asked for the chunks
    /// from the one on that those end in, and says how many pages after them it found.
    pub fn request_after(&mut self, event: &RequestEvent<'_>, above: u64) -> u64 {
        R::pass_time(self, event.event_time);
        let (first, found, chunks) = self.look_up(event, above);
        R::store(self, found, chunks);
        R::end(self, first, chunks);
        self.held.leave();
        (u64::from(found) * self.pages_per_chunk()).saturating_sub(above)
    }

    /// Enters the path of a request and looks up its chunks behind what a tier above found, which become the
    /// youngest; the first chunk looked up, up to which one they were found, and how many there are.
    pub(super) fn look_up(&mut self, event: &RequestEvent<'_>, above: u64) -> (u32, u32, u32) {
        let pages = self.pages_per_chunk();
        let ids = self.chunks.take(event);
        self.held.enter(ids);
        let chunks = ids.len() as u32;
        // At most the chunks, which are counted in 32 bits.
        let first = (above / pages).min(u64::from(chunks)) as u32;
        let found = self.held.found((first, chunks));
        self.held.refresh(first, found);
        (first, found, chunks)
    }

    /// Pages of the log per chunk.
    pub(super) fn pages_per_chunk(&self) -> u64 {
        u64::from(self.chunks.pages)
    }

    /// Chunks the cache can hold.
    pub(super) fn most(&self) -> u64 {
        self.capacity / self.pages_per_chunk()
    }
}
