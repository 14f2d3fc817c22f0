//! LMCache as a process of its own, which the engines of a host share (docs/engines/lmcache.md).
//!
//! All chunks of a request that are there move to the young end as it ends, its first chunk youngest. The missing ones
//! are stored in one call, and where they do not all fit none is. Room is made by a loop that wakes every second: where
//! the cache is full up to its watermark it drops a share of its chunks, the oldest first, at least one.
//!
//! Event time drives the loop, which is taken to wake at whole seconds. No chunk is locked while others go; an engine
//! that stores a prompt in several steps may keep the first of them where the whole does not fit.

use super::{ChunkRules, LmcacheCache};
use crate::units::ratio::Ratio;
use crate::units::{EventTime, PageSize};
use serde::{Deserialize, Serialize};

/// Between two looks of the loop, in milliseconds.
const LOOK_EVERY_MS: i64 = 1_000;

/// What decides a cache's answers besides its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LmcacheMpRules {
    /// Tokens per page of the log.
    pub page_size: PageSize,
    /// Tokens per chunk.
    pub chunk_tokens: u32,
    /// Share of the capacity from which on chunks go.
    pub watermark: Ratio,
    /// Share of the chunks that goes at once.
    pub eviction_ratio: Ratio,
}

impl ChunkRules for LmcacheMpRules {
    /// The whole second of event time at which the loop looked last.
    type Memory = Option<i64>;

    fn sizes(&self) -> (PageSize, u32) {
        (self.page_size, self.chunk_tokens)
    }

    /// Lets the loop look at every whole second up to now; time never runs backwards.
    fn pass_time(cache: &mut LmcacheCache<Self>, now: EventTime) {
        let now = now.0.div_euclid(LOOK_EVERY_MS);
        let looked = *cache.memory.get_or_insert(now);
        for _ in looked..now {
            if !cache.is_full() {
                break;
            }
            cache.held.evict(cache.rules.eviction_ratio.share_of(cache.held.count).max(1));
        }
        cache.memory = Some(looked.max(now));
    }

    /// Stores those that are missing where they all fit.
    fn store(cache: &mut LmcacheCache<Self>, found: u32, end: u32) {
        let missing = cache.held.missing(found, end);
        let missing = missing.iter().map(|(_, from, to)| u64::from(to - from)).sum::<u64>();
        if missing <= cache.most() - cache.held.count {
            cache.held.put_first_youngest(found, end);
        }
    }

    fn end(cache: &mut LmcacheCache<Self>, first: u32, end: u32) {
        cache.held.refresh(first, end);
    }
}

impl LmcacheCache<LmcacheMpRules> {
    /// Whether it is full up to its watermark, and anything can go.
    fn is_full(&self) -> bool {
        let goes = self.rules.eviction_ratio > Ratio::ZERO && self.held.count > 0;
        goes && self.held.count >= self.rules.watermark.ceil_of(self.most())
    }
}
