//! vLLM's pool of blocks shared by several groups of layers, at one capacity (ENGINES 2, hybrid attention).
//!
//! Full attention keeps every page, windows the last few, Mamba layers one state; each keeps them in blocks
//! of one pool, so they evict each other. More memory can lose hits, so no stack distance exists: one
//! [`HybridCache`] answers for one capacity. One request at a time is modelled, as everywhere in the core.
//! Not modelled: matches shorter than a page, asynchronous scheduling, preemption, connectors.

mod attention;
mod ceiling;
mod lookup;
mod rules;
mod saved;
mod table;

pub use attention::{Attention, AttentionError, GroupKind, MAX_GROUPS, Retention};
pub use rules::{HybridRules, RulesError};
pub use saved::SavedHybrid;

use crate::request::event::RequestEvent;
use crate::stack::runs::{MAX_PAGES, NONE, NodeIndex, Piece, PieceIndex, RunTree};
use crate::units::{PageCount, is_countable};
use rules::{Shape, Steps};
use serde::Deserialize;
use std::sync::Arc;
use table::Tables;

/// What one request found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HybridHits {
    /// Leading prompt pages found in every group.
    pub hits: u64,
    /// The pool is too small to run the request even alone; it was turned away, changing nothing.
    pub refused: bool,
}

/// The blocks of a fixed number, serving one request after the other.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SavedHybrid")]
pub struct HybridCache {
    capacity: u64,
    rules: Arc<HybridRules>,
    /// Requests served since the start.
    requests: u64,
    /// Requests turned away since the start.
    refused: u64,
    tree: RunTree,
    /// The free blocks with a name, freed longest ago first.
    queue: PieceIndex,
    /// Free blocks without a name; they are taken first.
    unnamed: u64,
    /// Pages are kept once and blocks are taken for names only: nothing is evicted up to the capacity.
    never_evicts: bool,
    /// The request's ids, prompt then known outputs, the first one scoped; kept for its memory.
    ids: Vec<u64>,
    /// The nodes those ids lie in; kept for its memory.
    path: Vec<NodeIndex>,
    /// What each group holds of the request.
    tables: Tables,
}

impl HybridCache {
    /// A pool of free blocks; at most 2^32 - 2 of them are modelled.
    ///
    /// # Errors
    /// When the rules contradict each other.
    pub fn new(capacity: PageCount, rules: HybridRules) -> Result<Self, RulesError> {
        rules.check()?;
        let mut tree = RunTree::new();
        let queue = tree.arena.new_list();
        let capacity = capacity.0.min(MAX_PAGES);
        let tables = Tables::of(&rules.attention);
        Ok(Self {
            capacity,
            rules: Arc::new(rules),
            requests: 0,
            refused: 0,
            tree,
            queue,
            unnamed: capacity,
            never_evicts: false,
            ids: Vec::new(),
            path: Vec::new(),
            tables,
        })
    }

    /// The modelled capacity, in blocks of all groups together.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// The rules it keeps.
    pub fn rules(&self) -> &HybridRules {
        &self.rules
    }

    /// The same cache of a model whose head drafts so many tokens at a time, which a saved state does not say.
    pub fn drafting(mut self, draft_tokens: u32) -> Self {
        Arc::make_mut(&mut self.rules).draft_tokens = draft_tokens;
        self
    }

    /// Whether its counts are ones that a log can come to.
    pub(crate) fn is_countable(&self) -> bool {
        is_countable(self.requests) && is_countable(self.refused)
    }

    /// Blocks with a name.
    pub fn resident(&self) -> PageCount {
        PageCount(self.capacity - self.unnamed)
    }

    /// Requests turned away since the start because the pool cannot hold them even alone.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes of memory the model itself takes, near enough to watch a limit with.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.ids.capacity() * 8 + self.path.capacity() * size_of::<NodeIndex>()
    }

    /// Serves one request to its end and says what it found at its start.
    ///
    /// Output pages whose ids the event does not tell are pages nobody shares. Ids beyond the tokens, and
    /// tokens beyond the ids, are left out.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> HybridHits {
        let shape = Shape::of(event, &self.rules);
        if shape.stored.div_ceil(self.rules.page()) > self.capacity {
            self.refused += 1;
            return HybridHits { hits: 0, refused: true };
        }
        self.take_ids(event, &shape);
        let mut path = std::mem::take(&mut self.path);
        self.tree.enter(&self.ids, &mut path);
        self.path = path;
        let found = self.lookup(shape.looked_up as u32);
        let rules = Arc::clone(&self.rules);
        let steps = Steps::of(&rules, shape, found);
        let refused = !self.surely_holds(&steps) && steps.peak() > self.capacity;
        if refused {
            self.refused += 1;
        } else {
            self.serve(&steps);
            self.requests += 1;
        }
        self.tree.release(&self.path);
        HybridHits { hits: if refused { 0 } else { found.hits }, refused }
    }

    /// Whether the pool would hold every page in every group, and a state more; then the peak need not be known.
    fn surely_holds(&self, steps: &Steps<'_>) -> bool {
        let pages = steps.rules.begun(steps.shape.stored) + 1;
        pages.saturating_mul(self.rules.attention.groups().len() as u64) <= self.capacity
    }

    /// Copies the request's ids, the first one keyed by its scope.
    fn take_ids(&mut self, event: &RequestEvent<'_>, shape: &Shape) {
        self.ids.clear();
        self.ids.extend(event.page_ids.first(shape.prompt_pages).iter());
        self.ids.extend(event.output_page_ids.first(shape.known_outputs).iter());
        if let Some(first) = self.ids.first_mut() {
            *first = event.scope.first_page(*first);
        }
    }

    /// Steps 2 and 3 of the rules: prefill chunk by chunk, decode, give everything back.
    fn serve(&mut self, steps: &Steps<'_>) {
        match self.never_evicts {
            true => self.refresh(steps.found),
            false => self.pin(steps.found),
        }
        let shape = steps.shape;
        let mut done = steps.found.hits * steps.rules.page();
        let mut first = true;
        while done < shape.prompt {
            let next = steps.prefill(done);
            if !first {
                self.free_passed(steps, done);
            }
            self.take_up_to(steps, next);
            (done, first) = (next, false);
        }
        while done < shape.stored {
            if !first {
                self.free_passed(steps, done);
            }
            self.take_up_to(steps, done + 1);
            (done, first) = (steps.next_decode(done + 1).min(shape.stored), false);
        }
        self.finish(steps);
    }

    /// Takes free blocks, those without a name first, then the ones freed longest ago.
    fn take(&mut self, blocks: u64) {
        let unnamed = blocks.min(self.unnamed);
        self.unnamed -= unnamed;
        let mut left = blocks - unnamed;
        while left > 0 {
            // The request's peak was checked against the capacity, so there is a block to take.
            let Some(oldest) = self.tree.arena.first(self.queue) else {
                debug_assert!(false, "the request fits the pool, so a block is free");
                return;
            };
            let gone = u64::from(self.tree.arena.get(oldest).pages()).min(left);
            self.tree.drop_first(oldest, gone as u32);
            left -= gone;
        }
    }

    /// Appends blocks that a group gives back for the first time.
    fn queue_new(&mut self, blocks: Piece) {
        let piece = self.tree.add_piece(blocks);
        self.queue(piece);
    }

    /// Appends a run of named free blocks, joined to the one before it where it continues that.
    fn queue(&mut self, piece: PieceIndex) {
        let last = self.tree.arena.last(self.queue);
        self.tree.arena.push(self.queue, piece);
        let Some(last) = last else { return };
        let (earlier, later) = (self.tree.arena.get(last), self.tree.arena.get(piece));
        if (earlier.node, earlier.tag, earlier.order) != (later.node, later.tag, later.order) {
            return;
        }
        if later.node == NONE {
            let pages = later.pages();
            self.tree.arena.get_mut(last).to += pages;
            self.tree.remove_piece(piece);
        } else if later.to == earlier.from {
            let from = later.from;
            self.tree.arena.get_mut(last).from = from;
            self.tree.remove_piece(piece);
        }
    }
}
