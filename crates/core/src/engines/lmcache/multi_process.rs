//! LMCache as a process of its own, which the engines of a host share (docs/engines/lmcache.md).
//!
//! All chunks of a request that are there move to the young end as it ends, its first chunk youngest. The missing ones
//! are stored in one call, and where they do not all fit none is. Room is made by a loop that wakes every second: where
//! the cache is full up to its watermark it drops a share of its chunks, the oldest first, at least one.
//!
//! Event time drives the loop, which is taken to wake at whole seconds. No chunk is locked while others go; an engine
//! that stores a prompt in several steps may keep the first of them where the whole does not fit.

use super::held::HeldChunks;
use super::{SavedLmcache, pages_a_chunk};
use crate::engines::chunks::Chunks;
use crate::engines::hybrid::RulesError;
use crate::request::event::RequestEvent;
use crate::stack::runs::MAX_PAGES;
use crate::units::heap::heap_bytes;
use crate::units::ratio::Ratio;
use crate::units::{EventTime, PageCount, PageSize};
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

/// The chunks.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SavedLmcache<LmcacheMpRules, Option<i64>>")]
pub struct LmcacheMpCache {
    pub(super) rules: LmcacheMpRules,
    /// In pages of the log.
    capacity: u64,
    chunks: Chunks,
    pub(super) held: HeldChunks,
    /// The whole second of event time at which the loop looked last.
    pub(super) looked: Option<i64>,
}

heap_bytes!(LmcacheMpCache { chunks, held; rules, capacity, looked });

impl LmcacheMpCache {
    /// An empty cache of so many pages of the log; what of them makes no whole chunk is not used.
    ///
    /// # Errors
    /// [`RulesError::StoredChunk`] where a chunk is no whole number of pages.
    pub fn new(capacity: PageCount, rules: LmcacheMpRules) -> Result<Self, RulesError> {
        let pages = pages_a_chunk(rules.chunk_tokens, rules.page_size)?;
        let chunks = Chunks::new(rules.page_size, pages);
        let capacity = capacity.0.min(MAX_PAGES);
        Ok(Self { rules, capacity, chunks, held: HeldChunks::new(), looked: None })
    }

    /// The modelled capacity, in pages of the log.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// The rules it keeps.
    pub fn rules(&self) -> &LmcacheMpRules {
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
        self.look_up_to(event.event_time);
        let (first, found, chunks) = self.store(event, above);
        self.held.refresh(first, chunks);
        self.held.leave();
        (u64::from(found) * self.pages_per_chunk()).saturating_sub(above)
    }

    /// Enters the path of a request, looks up its chunks behind what a tier above found, which become the youngest,
    /// and stores those that are missing where they all fit; the first chunk looked up, up to which one they were
    /// found, and how many there are.
    pub(super) fn store(&mut self, event: &RequestEvent<'_>, above: u64) -> (u32, u32, u32) {
        let ids = self.chunks.take(event);
        self.held.enter(ids);
        let chunks = ids.len() as u32;
        // At most the chunks, which are counted in 32 bits.
        let first = (above / self.pages_per_chunk()).min(u64::from(chunks)) as u32;
        let found = self.held.found((first, chunks));
        let missing =
            self.held.missing(found, chunks).iter().map(|(_, from, to)| u64::from(to - from)).sum::<u64>();
        self.held.refresh(first, found);
        if missing <= self.most() - self.held.count {
            self.held.put_first_youngest(found, chunks);
        }
        (first, found, chunks)
    }

    /// Pages of the log per chunk.
    pub(super) fn pages_per_chunk(&self) -> u64 {
        u64::from(self.chunks.pages)
    }

    /// Chunks the cache can hold.
    pub(super) fn most(&self) -> u64 {
        self.capacity / u64::from(self.chunks.pages)
    }

    /// Lets the loop look at every whole second up to now; time never runs backwards.
    pub(super) fn look_up_to(&mut self, now: EventTime) {
        let now = now.0.div_euclid(LOOK_EVERY_MS);
        let looked = *self.looked.get_or_insert(now);
        for _ in looked..now {
            if !self.is_full() {
                break;
            }
            self.held.evict(self.rules.eviction_ratio.share_of(self.held.count).max(1));
        }
        self.looked = Some(looked.max(now));
    }

    /// Whether it is full up to its watermark, and anything can go.
    fn is_full(&self) -> bool {
        let goes = self.rules.eviction_ratio > Ratio::ZERO && self.held.count > 0;
        goes && self.held.count >= self.rules.watermark.ceil_of(self.most())
    }
}
