//! The `trtllm` profile: TensorRT-LLM's block manager at one capacity (docs/engines/trtllm.md).
//!
//! Free blocks stand in a queue for each priority, of which the lowest that is not empty gives its block released
//! longest ago. So a page can go before those that follow it, which nobody finds then; more capacity can lose hits,
//! and no stack distance exists: one [`TrtllmCache`] answers for one capacity, one request after another. Under it
//! may lie blocks in host memory, which swap places with those of the device.

mod class;
mod queues;
mod saved;

pub use queues::{DEFAULT_PRIORITY, MAX_PRIORITY, OFFLOAD_PRIORITY, QueueKey};
pub use saved::SavedTrtllm;

use crate::engines::hits::CacheHits;
use crate::engines::profile::Outputs;
use crate::engines::sglang::PagedRequest;
use crate::request::event::RequestEvent;
use crate::request::labels::Label;
use crate::stack::runs::{MAX_PAGES, Piece, PieceIndex, RunIndex, RunTree};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use crate::units::{PageCount, PageSize, is_countable};
use queues::{BlockContent, DEVICE, FreeQueues, HOST, tag_of};
use serde::{Deserialize, Serialize};

/// What decides a cache's answers besides its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrtllmRules {
    /// Tokens per block.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
    /// Blocks in host memory.
    pub host: PageCount,
}

/// The blocks of a fixed number.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SavedTrtllm")]
pub struct TrtllmCache {
    capacity: u64,
    rules: TrtllmRules,
    /// Requests served since the start: what the pages that one of them stores are named with. A page is found only
    /// below one that was stored no later; else the page above it had gone meanwhile, and this one with it.
    requests: u64,
    /// Requests turned away since the start.
    refused: u64,
    tree: RunTree,
    queues: FreeQueues,
    /// The request's ids, prompt then known outputs, the first one scoped; kept for its memory.
    ids: Vec<u64>,
    /// The nodes those ids lie in; kept for its memory.
    path: Vec<RunIndex>,
    /// The pieces that a request found, its first pages first; kept for its memory.
    found: Vec<PieceIndex>,
}

heap_bytes!(TrtllmCache { tree, queues, ids, path, found; capacity, rules, requests, refused });

impl TrtllmCache {
    /// Free blocks; at most 2^32 - 2 of them are modelled, and as many on the host.
    pub fn new(capacity: PageCount, rules: TrtllmRules) -> Self {
        let capacity = capacity.0.min(MAX_PAGES);
        let rules = TrtllmRules { host: PageCount(rules.host.0.min(MAX_PAGES)), ..rules };
        let mut cache = Self::empty(capacity, rules);
        cache.queues.push_new(&mut cache.tree, QueueKey::default_of(DEVICE), BlockContent::Blank, capacity);
        cache.queues.push_new(&mut cache.tree, QueueKey::default_of(HOST), BlockContent::Blank, rules.host.0);
        cache
    }

    /// No blocks at all.
    fn empty(capacity: u64, rules: TrtllmRules) -> Self {
        Self {
            capacity,
            rules,
            requests: 0,
            refused: 0,
            tree: RunTree::new(),
            queues: FreeQueues::default(),
            ids: Vec::new(),
            path: Vec::new(),
            found: Vec::new(),
        }
    }

    /// The modelled capacity, in blocks of the device.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// The rules it keeps.
    pub fn rules(&self) -> &TrtllmRules {
        &self.rules
    }

    /// Requests turned away since the start because the cache cannot hold them even alone.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether its counts are ones that a log can come to.
    pub(crate) fn is_countable(&self) -> bool {
        is_countable(self.requests) && is_countable(self.refused)
    }

    /// Serves one request and says what it found.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> CacheHits {
        self.queues.expire(&mut self.tree, event.event_time);
        let shape = PagedRequest::of(event, self.rules.page_size, self.rules.outputs, false);
        if shape.all_slots > self.capacity {
            self.refused += 1;
            return CacheHits { hits: 0, refused: true };
        }
        shape.take_ids(event, &mut self.ids);
        self.tree.enter(PageIds::from_slice(&self.ids), &mut self.path);
        // A prompt has fewer pages than 2^32: all of its slots fit the device.
        let hits = self.claim(shape.hit_limit as u32);
        self.load();
        self.take(shape.all_slots - u64::from(hits));
        self.requests += 1;
        self.give_back(
            &shape,
            hits,
            event.labels.get(Label::RetentionClass).and_then(|class| class.parse().ok()),
        );
        self.tree.release(&self.path);
        CacheHits { hits: u64::from(hits), refused: false }
    }

    /// Takes the leading pages of the path that are found, at most so many, out of their queues; how many they are.
    fn claim(&mut self, limit: u32) -> u32 {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let end = self.walk((0, limit), 0, |cache, piece| {
            if cache.tree.arena.get(piece).to > limit {
                cache.tree.cut(piece, limit);
            }
            cache.tree.arena.unlink(piece);
            found.push(piece);
        });
        self.found = found;
        end
    }

    /// Visits the pieces of the run of pages of the path from `start` on, up to `limit`, of which the page before was
    /// stored by the request `stored`; where it ends.
    fn walk(
        &mut self,
        (start, limit): (u32, u32),
        mut stored: u64,
        mut visit: impl FnMut(&mut Self, PieceIndex),
    ) -> u32 {
        let mut at = start;
        for index in 0..self.path.len() {
            let node = self.path[index];
            let end = self.tree.span(node).1.min(limit);
            while at < end {
                let covering = |(_, piece): &(PieceIndex, &Piece)| piece.from <= at && at < piece.to;
                let latest = self.tree.pieces(node).filter(covering).max_by_key(|(_, piece)| piece.order);
                let Some((piece, Piece { order, to, .. })) =
                    latest.filter(|(_, piece)| piece.order >= stored)
                else {
                    return at;
                };
                (at, stored) = ((*to).min(limit), *order);
                visit(self, piece);
            }
        }
        at
    }

    /// Loads what was found on the host, block by block: each takes a free block of the device, and what is left on
    /// the host holds nothing.
    fn load(&mut self) {
        for index in 0..self.found.len() {
            let piece = self.found[index];
            let Piece { tag, from, to, .. } = *self.tree.arena.get(piece);
            let QueueKey { level: HOST, priority, .. } = QueueKey::of_tag(tag) else { continue };
            for _ in from..to {
                self.take(1);
                self.queues.push_new(&mut self.tree, QueueKey::default_of(HOST), BlockContent::Lost, 1);
            }
            self.tree.arena.get_mut(piece).tag = tag_of(DEVICE, priority);
        }
    }

    /// Takes so many free blocks of the device, which the caller knows to be there.
    fn take(&mut self, blocks: u64) {
        let mut left = blocks;
        while left > 0 {
            let Some(victim) = self.queues.front(&mut self.tree, DEVICE) else {
                debug_assert!(false, "a block is free");
                return;
            };
            left -= self.evict(victim, left);
        }
    }

    /// Evicts blocks from the front of a piece of the device, at most so many: to the host where they may go there.
    /// Returns how many.
    fn evict(&mut self, victim: PieceIndex, most: u64) -> u64 {
        let piece = self.tree.arena.get(victim);
        // At most a piece, which is counted in 32 bits.
        let pages = u64::from(piece.pages()).min(most) as u32;
        let QueueKey { priority, .. } = QueueKey::of_tag(piece.tag);
        let host = match BlockContent::of(piece) != BlockContent::Blank && priority >= OFFLOAD_PRIORITY {
            true => self.queues.front(&mut self.tree, HOST),
            false => None,
        };
        let Some(host) = host else {
            self.tree.drop_first(victim, pages);
            return u64::from(pages);
        };
        let last = self.tree.arena.get(host);
        // Blocks of a lower priority than any on the host push each other out.
        let is_lower = priority < QueueKey::of_tag(last.tag).priority;
        let pages = if is_lower { 1 } else { pages.min(last.pages()) };
        let Piece { from, to, .. } = *self.tree.arena.get(victim);
        let victim = if to - pages > from { self.tree.cut(victim, to - pages) } else { victim };
        self.tree.arena.unlink(victim);
        self.queues.push(&mut self.tree, QueueKey { level: HOST, priority, duration_ms: 0 }, victim);
        self.tree.drop_first(host, pages);
        u64::from(pages)
    }

    /// Stores what the request computed and gives all of its blocks back, the last one first.
    fn give_back(&mut self, shape: &PagedRequest, hits: u32, class: Option<QueueKey>) {
        let known = self.ids.len() as u32;
        // What is there already is not stored again: the request's own blocks of it are found by nobody.
        let above = self.found.last().map_or(0, |piece| self.tree.arena.get(*piece).order);
        let stored = self.walk((hits, known), above, |_, _| {});
        let of_prompt = class.unwrap_or(QueueKey::default_of(DEVICE));
        let slot = |slots: u64| slots.min(MAX_PAGES) as u32;
        let mut edges = [hits, stored, known, slot(shape.prompt_slots), slot(shape.all_slots)];
        edges.sort_unstable();
        for span in edges.windows(2).rev().filter(|span| span[0] < span[1] && span[0] >= hits) {
            let (from, to) = (span[0], span[1]);
            let is_of_prompt = u64::from(from) < shape.prompt_slots;
            let queue = if is_of_prompt { of_prompt } else { QueueKey::default_of(DEVICE) };
            match from >= stored && from < known {
                true => self.store(queue, (from, to)),
                false => {
                    self.queues.push_new(&mut self.tree, queue, BlockContent::Lost, u64::from(to - from))
                }
            }
        }
        while let Some(piece) = self.found.pop() {
            let own = QueueKey::of_tag(self.tree.arena.get(piece).tag);
            self.queues.push(&mut self.tree, class.unwrap_or(own), piece);
        }
    }

    /// Gives back pages of the path that get their names, the last one first.
    fn store(&mut self, queue: QueueKey, (from, to): (u32, u32)) {
        for index in (0..self.path.len()).rev() {
            let node = self.path[index];
            let (first, end) = self.tree.span(node);
            let (low, high) = (from.max(first), to.min(end));
            if low < high {
                let piece = self.tree.add_piece(Piece::new(node, 0, (low, high), self.requests));
                self.queues.push(&mut self.tree, queue, piece);
            }
        }
    }
}
