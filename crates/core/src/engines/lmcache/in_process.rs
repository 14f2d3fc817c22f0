//! LMCache's cache in the engine's process (docs/engines/lmcache.md).
//!
//! What a request finds moves to the young end, its first chunk youngest; then room is made for every chunk after
//! those, even where it is there already; then the missing ones are put in prefix order, their first chunk oldest.
//! Since room may be made for nothing and chunks move in two directions, inclusion is not shown. Where a request is
//! larger than the cache, its leading chunks are stored, as many as there is room for.

use super::{ChunkRules, LmcacheCache};
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// What decides a cache's answers besides its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LmcacheRules {
    /// Tokens per page of the log.
    pub page_size: PageSize,
    /// Tokens per chunk.
    pub chunk_tokens: u32,
}

impl ChunkRules for LmcacheRules {
    type Memory = ();

    fn sizes(&self) -> (PageSize, u32) {
        (self.page_size, self.chunk_tokens)
    }

    /// Makes room for the chunks, whether they are there or not, and puts those that are not.
    fn store(cache: &mut LmcacheCache<Self>, found: u32, end: u32) {
        let room = u64::from(end - found).min(cache.most());
        cache.held.evict(room.saturating_sub(cache.most() - cache.held.count));
        cache.held.put(found, found + room as u32);
    }
}
