//! The `sglang` profile: SGLang's prefix cache, node by node, at one capacity (docs/engines/sglang.md).
//!
//! SGLang evicts a whole leaf node at once, so more capacity can lose hits and no stack distance
//! exists: one [`SglangCache`] answers for one capacity, and a curve made of several is pointwise.
//! Requests come one after another, or overlap ([`load`](super::load)).

mod auxiliary;
mod flight;
mod hicache;
mod host;
mod node;
mod over_host;
mod progress;
mod saved;
mod saved_hicache;
mod saved_pools;
mod shape;
mod sides;
mod states;
mod tree;
mod windows;
mod writes;

pub use hicache::{HicacheCache, HicacheRules};
pub use host::WritePolicy;
pub use over_host::{OverHost, SavedOverHost};
pub use saved::{SglangRestoreError, SglangSavedCache, SglangSavedNode};
pub use saved_hicache::{SavedHicache, SavedHicacheNode};
pub use saved_pools::SavedPools;
pub use states::{StateCache, StateRules};
pub use windows::{WindowCache, WindowPoolRules};

use crate::engines::hits::CacheHits;
use crate::engines::hybrid::RulesError;
use crate::engines::profile::Outputs;
use crate::request::event::RequestEvent;
use crate::units::heap::heap_bytes;
use crate::units::{PageCount, PageSize, is_countable};
use node::{NodeIndex, ROOT};
use serde::Deserialize;
pub(in crate::engines) use shape::PagedRequest;
use shape::spare_pages;
use tree::SglangTree;

/// The largest capacity one cache models: nodes and pages are counted in 32 bits.
pub const MAX_CAPACITY: PageCount = PageCount(u32::MAX as u64 - 1);

/// Most tokens of an answer that a request reserves before it starts: SGLang's `CLIP_MAX_NEW_TOKENS`.
const MOST_RESERVED: u64 = 4096;

/// SGLang's radix cache of a fixed number of pages.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SglangSavedCache")]
pub struct SglangCache {
    capacity: u64,
    page_size: PageSize,
    outputs: Outputs,
    /// Whether a head drafts in the same cache; not saved.
    drafts: bool,
    /// Requests turned away since the start.
    refused: u64,
    tree: SglangTree,
    /// Pages that requests in flight hold and that are in no node.
    held: u64,
    /// The request's ids, prompt then known outputs, the first one scoped; kept for its memory.
    ids: Vec<u64>,
    /// The nodes from the root to where the request's pages end so far; kept for its memory.
    path: Vec<NodeIndex>,
}

heap_bytes!(SglangCache { tree, ids, path; capacity, page_size, outputs, drafts, refused, held });

impl SglangCache {
    /// An empty cache.
    ///
    /// # Errors
    /// When the capacity exceeds [`MAX_CAPACITY`].
    pub fn new(capacity: PageCount, page_size: PageSize, outputs: Outputs) -> Result<Self, RulesError> {
        if capacity > MAX_CAPACITY {
            return Err(RulesError::TooLarge { asked: capacity, most: MAX_CAPACITY });
        }
        Ok(Self {
            capacity: capacity.0,
            page_size,
            outputs,
            drafts: false,
            refused: 0,
            tree: SglangTree::new(),
            held: 0,
            ids: Vec::new(),
            path: Vec::new(),
        })
    }

    /// The same cache of a model with a draft head, which a saved state does not say.
    pub fn drafting(self) -> Self {
        Self { drafts: true, ..self }
    }

    /// Lets a head draft in the cache.
    pub(crate) fn draft(&mut self) {
        self.drafts = true;
    }

    /// The modelled capacity.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// Whether its counts are ones that a log can come to.
    pub(crate) fn is_countable(&self) -> bool {
        is_countable(self.tree.clock()) && is_countable(self.refused)
    }

    /// Pages the cache holds.
    pub fn resident(&self) -> PageCount {
        PageCount(self.tree.pages())
    }

    /// Requests turned away since the start because the cache cannot hold them even alone.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Serves one request to its end and says what it found at its start.
    ///
    /// Output pages whose ids the event does not tell are pages nobody shares. Ids beyond the
    /// tokens, and tokens beyond the ids, are left out.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> CacheHits {
        let shape = PagedRequest::of(event, self.page_size, self.outputs, self.drafts);
        if shape.least_capacity() > self.capacity {
            self.refused += 1;
            return CacheHits { hits: 0, refused: true };
        }
        let mut ids = std::mem::take(&mut self.ids);
        self.take_ids(event, &shape, &mut ids);
        self.ids = ids;
        let hits = self.prefill(&shape);
        if self.outputs == Outputs::Cached {
            self.decode(&shape);
            self.finish(&shape);
        }
        self.tree.unpin();
        self.tree.compact();
        CacheHits { hits, refused: false }
    }

    /// The request's ids, prompt then known outputs.
    fn take_ids(&self, event: &RequestEvent<'_>, shape: &PagedRequest, ids: &mut Vec<u64>) {
        match self.drafts {
            // Every request that is served advances the clock, and neither ids that count from 0 nor tokens are that large.
            true => shape.take_keyed_ids(event, self.page_size, !self.tree.clock(), ids),
            false => shape.take_ids(event, ids),
        }
    }

    /// Steps 1 to 3: match, make room for the rest of the prompt, insert it. Returns the hits.
    ///
    /// The time stamps a match leaves on its path are never looked at: the path is locked until the
    /// insertion of the same pages stamps it anew. So matching stamps only what it splits off.
    fn prefill(&mut self, shape: &PagedRequest) -> u64 {
        self.path.clear();
        self.path.push(ROOT);
        let hits = self.tree.descend(&mut self.path, &self.ids[..shape.hit_limit], 0, false);
        self.tree.pin(self.tip());
        let extension = shape.prompt_slots - hits as u64;
        self.make_room(extension + spare_pages(self.page_size), 0);
        self.tree.touch_all(&self.path);
        self.tree.insert(&mut self.path, &self.ids[..shape.prompt_pages], hits, 0);
        self.tree.pin(self.tip());
        hits as u64
    }

    /// The rest of step 3 up to the last token. The engine takes one page at a time as the output
    /// grows, which evicts the same leaves as asking for all of them at once. Before every token it wants a
    /// free page, whether it takes it or not, so one more where tokens follow in the last page taken; a
    /// request that fills the cache goes on without.
    fn decode(&mut self, shape: &PagedRequest) {
        let (grown, held) =
            (shape.all_slots - shape.prompt_slots, shape.prompt_slots - shape.prompt_pages as u64);
        self.make_room(grown, held);
        let spare = u64::from(shape.decodes_on);
        if shape.all_slots + spare <= self.capacity {
            self.make_room(grown + spare, held);
        }
    }

    /// The end of step 3: the whole sequence is inserted. The engine then inserts the prompt once
    /// more; its nodes are on the path already, no other request comes in between, and whatever got
    /// a later stamp lies below them and so goes before them: nothing to do.
    fn finish(&mut self, shape: &PagedRequest) {
        // Fits: `least_capacity` was checked against a capacity of 32 bits.
        let private = shape.private_outputs as u32;
        self.tree.insert(&mut self.path, &self.ids, shape.prompt_pages, private);
    }

    /// Evicts until `wanted` pages are free alongside the `held` ones, which belong to the request but
    /// are in no node.
    fn make_room(&mut self, wanted: u64, held: u64) {
        while self.capacity - self.tree.pages() < wanted + held {
            // Only this request's own path is locked, and `least_capacity` leaves room alongside it,
            // so there is a leaf to evict for as long as room is short.
            let evicted = self.tree.evict_oldest_leaf();
            debug_assert!(evicted, "the request fits the cache, so something is left to evict");
            if !evicted {
                return;
            }
        }
    }

    /// The node where the request's pages end so far.
    fn tip(&self) -> NodeIndex {
        self.path.last().copied().unwrap_or(ROOT)
    }
}
