//! vLLM's pool of blocks shared by several groups of layers, at one capacity (docs/engines/vllm.md, hybrid attention).
//!
//! Full attention keeps every page, windows the last few, Mamba layers one state; each keeps them in blocks of one
//! pool, so they evict each other. More memory can lose hits, so no stack distance exists: one [`HybridCache`]
//! answers for one capacity, one request after another or requests that overlap ([`load`](super::load)), or one after
//! another over a tier that it stores prompts in ([`LowerTier`]). Not modelled: matches shorter than a page,
//! asynchronous scheduling, other connectors.

mod attention;
mod below;
mod ceiling;
mod flight;
mod head;
mod lookup;
mod offloaded;
mod rules;
mod saved;
mod table;

pub use attention::{Attention, AttentionError, BlockRetention, GroupKind, MAX_GROUPS};
pub(in crate::engines) use below::{LookedUpPrompt, LowerTier, PromptStep};
pub use head::{DraftHead, DraftLayers};
pub use rules::{HybridRules, RulesError};
pub use saved::SavedHybrid;

use crate::engines::groups::GroupSet;
use crate::request::event::RequestEvent;
use crate::stack::runs::{MAX_PAGES, NONE, Piece, PieceIndex, RunIndex, RunTree};
use crate::units::heap::heap_bytes;
use crate::units::{PageCount, is_countable};
use rules::RequestShape;
use serde::Deserialize;
use std::sync::Arc;
use table::{FULL, Hold, OTHERS, PageRun, Tables, side};

/// The groups whose pages a piece holds: one, or several of one page. Groups of a kind hold the same pages at every
/// step, and a page that stands by itself (a state, the last page of a window) is one piece of all of them; of longer
/// runs, a group's pages leave before those of the next one, so each is a piece by itself.
fn groups_of(piece: &Piece) -> GroupSet {
    GroupSet::of_bits(piece.tag)
}

fn blocks_of(piece: &Piece) -> u64 {
    u64::from(piece.pages()) * groups_of(piece).len()
}

/// The blocks of a fixed number.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SavedHybrid")]
pub struct HybridCache {
    capacity: u64,
    rules: Arc<HybridRules>,
    /// What the next blocks are named with: counts requests since the start, and the times that one of several in
    /// flight named blocks after another.
    requests: u64,
    /// Requests turned away since the start.
    refused: u64,
    tree: RunTree,
    /// The free blocks with a name, freed longest ago first.
    queue: PieceIndex,
    /// How many they are.
    queued: u64,
    /// The blocks with a name that requests in flight hold.
    held: PieceIndex,
    /// Free blocks without a name; they are taken first.
    unnamed: u64,
    /// Pages are kept once and blocks are taken for names only: nothing is evicted up to the capacity.
    never_evicts: bool,
    /// The groups of each kind, and how many they are.
    groups: [GroupSet; 2],
    counts: [u64; 2],
    /// The request's ids, prompt then known outputs, the first one scoped; kept for its memory.
    ids: Vec<u64>,
    /// The nodes those ids lie in; kept for its memory.
    path: Vec<RunIndex>,
    /// What a request gives back; kept for its memory.
    freed: Vec<Hold>,
    /// Tables of requests that have ended; kept for their memory.
    spare: Vec<Tables>,
    /// What the request that is served over a tier gave back without a name, and nobody has taken since, the next one
    /// last: blocks without a name are taken in the reverse order of their return.
    loose: Vec<PageRun>,
    /// Whether that is noted.
    notes_loose: bool,
}

heap_bytes!(HybridCache {
    tree, ids, path, freed, spare, loose;
    capacity, rules, requests, refused, queue, queued, held, unnamed, never_evicts, groups,
    counts, notes_loose
});

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
        let held = tree.arena.new_list();
        let of_side = |at| {
            let groups = rules.attention.groups().iter().zip(0u32..).filter(|(kind, _)| side(**kind) == at);
            groups.fold(GroupSet::default(), |all, (_, group)| all.with(GroupSet::of(group)))
        };
        let groups = [FULL, OTHERS].map(of_side);
        Ok(Self {
            capacity,
            rules: Arc::new(rules),
            requests: 0,
            refused: 0,
            tree,
            queue,
            queued: 0,
            held,
            unnamed: capacity,
            never_evicts: false,
            groups,
            counts: groups.map(GroupSet::len),
            ids: Vec::new(),
            path: Vec::new(),
            freed: Vec::new(),
            spare: Vec::new(),
            loose: Vec::new(),
            notes_loose: false,
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

    /// The same cache of a model with this head, which a saved state does not say.
    pub fn drafting(mut self, head: DraftHead) -> Self {
        self.draft(head);
        self
    }

    /// Lets a head draft.
    pub(crate) fn draft(&mut self, head: DraftHead) {
        Arc::make_mut(&mut self.rules).head = head;
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

    /// Copies the request's ids, the first one keyed by its scope.
    fn take_ids(&mut self, event: &RequestEvent<'_>, shape: &RequestShape) {
        self.ids.clear();
        self.ids.extend(event.page_ids.first(shape.prompt_pages).iter());
        self.ids.extend(event.output_page_ids.first(shape.known_outputs).iter());
        if let Some(first) = self.ids.first_mut() {
            *first = event.scope.first_page(*first);
        }
    }

    /// Takes free blocks, those without a name first, then the ones freed longest ago.
    fn take(&mut self, blocks: u64) {
        let unnamed = blocks.min(self.unnamed);
        self.unnamed -= unnamed;
        self.take_loose(unnamed);
        let mut left = blocks - unnamed;
        while left > 0 {
            // Whoever takes blocks has counted those that are free.
            let Some(oldest) = self.tree.arena.first(self.queue) else {
                debug_assert!(false, "a block is free");
                return;
            };
            let piece = self.tree.arena.get_mut(oldest);
            let (gone, groups) = (blocks_of(piece).min(left), groups_of(piece));
            if gone < groups.len() {
                piece.tag = groups.skip(gone).bits();
            } else {
                self.tree.drop_first(oldest, (gone / groups.len()) as u32);
            }
            self.queued -= gone;
            left -= gone;
        }
    }

    /// Appends blocks that nobody can ask for.
    fn queue_private(&mut self, blocks: u32) {
        let piece = self.tree.add_piece(Piece::new(NONE, GroupSet::of(0).bits(), (0, blocks), 0));
        self.queue(piece);
    }

    /// Appends a run of named free blocks, joined to the one before it where it continues that.
    fn queue(&mut self, piece: PieceIndex) {
        let last = self.tree.arena.last(self.queue);
        self.queued += blocks_of(self.tree.arena.get(piece));
        self.tree.arena.push(self.queue, piece);
        let Some(last) = last else { return };
        let (earlier, later) = (self.tree.arena.get(last), self.tree.arena.get(piece));
        if (earlier.node, earlier.tag, earlier.order) != (later.node, later.tag, later.order)
            || groups_of(later).is_shared()
        {
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
