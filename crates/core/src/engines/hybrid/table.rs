//! What one request holds of each group, and how it comes and goes (steps 2 and 3 of the rules).
//!
//! The groups alongside the full ones are of one kind, so groups of a kind hold the same pages at every step. What is
//! taken and given back is found once per kind. A page that stands by itself is also held once per kind
//! ([`GroupSet`]), a longer run once per group.

mod give_back;
mod names;
mod pin;

use super::rules::{HybridLookup, RequestShape, RequestSteps};
use super::{GroupKind, HybridCache, groups_of};
use crate::engines::groups::GroupSet;
use crate::stack::runs::{Piece, PieceIndex, RunIndex};
use crate::units::heap::{flat, heap_bytes};
use serde::{Deserialize, Serialize};

/// The place of the full groups in what is kept per kind.
pub(super) const FULL: usize = 0;
/// The place of the other groups.
pub(super) const OTHERS: usize = 1;

/// The order of pages that nobody can ask for.
const PRIVATE: u64 = u64::MAX;

/// Where pages lie that nobody has looked for yet; that a piece is there by chance costs nothing.
const NOWHERE: PieceIndex = 0;

pub(super) fn side(kind: GroupKind) -> usize {
    if kind == GroupKind::Full { FULL } else { OTHERS }
}

/// A request in flight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engines) struct HybridRequest {
    /// Where its pages with ids end; of a snapshot's no use.
    #[serde(skip)]
    pub(super) tail: RunIndex,
    /// The ids of those pages, in a snapshot alone.
    pub(super) ids: Vec<u64>,
    /// How many they are.
    pub(super) known: u32,
    pub(super) shape: RequestShape,
    pub(super) found: HybridLookup,
    /// Tokens computed before the step that comes next.
    pub(super) done: u64,
    /// Whether that step is the first one.
    pub(super) is_first: bool,
    /// Whether nobody else is served before it ends.
    pub(super) is_alone: bool,
    /// What its blocks are named with: when it last gave names.
    pub(super) order: u64,
    pub(super) tables: Tables,
}

heap_bytes!(HybridRequest { ids, tables; tail, known, shape, found, done, is_first, is_alone, order });

/// The pages of a request that each group of a kind holds: `low..len`, of which those before `hits` were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KindPages {
    hits: u64,
    low: u64,
    len: u64,
    /// The page of the state before the last one, until the next step gives it back.
    previous: Option<u64>,
}

/// A run of pages with names that a request holds of one group, or one page of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    groups: GroupSet,
    from: u32,
    to: u32,
    /// When they got their names, which tells these blocks apart from others of the same names.
    order: u64,
    /// Where the last of them lies, or lay before its piece was cut; a search looks there first.
    #[serde(skip)]
    piece: PieceIndex,
}

flat!(Hold);

impl Hold {
    /// Blocks of all its groups.
    fn blocks(&self) -> u64 {
        u64::from(self.to.saturating_sub(self.from)) * self.groups.len()
    }
}

/// Pages of one group, up to the second one.
pub(super) type PageRun = (u32, u32, u32);

/// What a request holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tables {
    held: [KindPages; 2],
    /// The pages before this one are full, and have names where they are kept.
    named: u64,
    holds: Vec<Hold>,
}

heap_bytes!(Tables { holds; held, named });

impl Tables {
    /// As a request finds them.
    pub(super) fn begin(&mut self, found: HybridLookup, need: u64) {
        let held = KindPages { hits: found.hits, low: 0, len: found.hits, previous: None };
        self.held = [held, KindPages { low: found.hits.saturating_sub(need), ..held }];
        self.named = found.hits;
        self.holds.clear();
    }

    /// Lets the groups alongside the full ones begin at a later page: what they held before it is not needed.
    pub(super) fn pass_to(&mut self, low: u64) {
        self.held[OTHERS].low = low;
    }

    /// The pages before this one are full, and have names where they are kept.
    pub(super) fn named(&self) -> u64 {
        self.named
    }

    /// The end of the pages with names that nobody can ask for; `None` where there are none.
    pub(super) fn private_end(&self) -> Option<u32> {
        self.holds.iter().filter(|hold| hold.order == PRIVATE).map(|hold| hold.to).max()
    }

    /// The same, each hold of one group, as snapshots have them.
    pub(super) fn each_group(&self) -> Self {
        Self { holds: each_group(&self.holds), ..*self }
    }

    /// Pages that each group of a kind keeps of what was found.
    pub(super) fn found_pages(&self, side: usize) -> u64 {
        self.held[side].hits - self.held[side].low
    }

    /// Blocks that each group of a kind holds, with states or without.
    fn blocks(&self, side: usize, states: bool) -> u64 {
        let KindPages { low, len, previous, .. } = self.held[side];
        match states && side == OTHERS {
            true => u64::from(len > 0) + u64::from(previous.is_some()),
            false => len.saturating_sub(low),
        }
    }
}

impl HybridCache {
    /// Parts the groups of a piece, each one at its place in the free order; that of this one.
    fn part(&mut self, piece: PieceIndex, group: u32) -> PieceIndex {
        let groups = groups_of(self.tree.arena.get(piece));
        let mut meant = piece;
        for other in groups.iter().filter(|other| *other != groups.last()) {
            let mut own = self.tree.arena.get(piece).clone();
            own.tag = GroupSet::of(other).bits();
            let own = self.tree.add_piece(own);
            self.tree.arena.push_before(own, piece);
            meant = if other == group { own } else { meant };
        }
        self.tree.arena.get_mut(piece).tag = GroupSet::of(groups.last()).bits();
        meant
    }

    /// The first page that a group keeps of what was found.
    pub(super) fn first_found(&self, tables: &Tables, group: u32) -> u64 {
        tables.held[side(self.rules.attention.groups()[group as usize])].low
    }

    /// The same of the groups alongside the full ones.
    pub(super) fn first_other(&self, tables: &Tables) -> u64 {
        tables.held[OTHERS].low
    }

    /// Takes blocks for all pages begun by `next` tokens; a state takes one. Whether there are so many.
    pub(super) fn take_up_to(&mut self, steps: &RequestSteps<'_>, tables: &mut Tables, next: u64) -> bool {
        let states = steps.other == Some(GroupKind::Mamba);
        let (mut held, mut blocks) = (tables.held, 0);
        for side in [FULL, OTHERS] {
            // Drafts have no states.
            let is_state = side == OTHERS && states;
            let wanted = if is_state { next.div_ceil(steps.rules.page()) } else { steps.rules.begun(next) };
            let held = &mut held[side];
            if held.len >= wanted {
                continue;
            }
            let mut each = wanted - held.len;
            if is_state {
                held.previous = held.len.checked_sub(1);
                each = 1;
            }
            held.len = wanted;
            blocks += each * self.counts[side];
        }
        if !self.never_evicts {
            if blocks > self.unnamed + self.queued {
                return false;
            }
            self.take(blocks);
        }
        tables.held = held;
        true
    }

    /// Takes blocks for the pages behind those found, up to the first step's: a state takes one.
    pub(super) fn take_loaded(&mut self, steps: &RequestSteps<'_>, tables: &mut Tables) {
        let end = steps.start.div_ceil(steps.rules.page());
        let mut blocks = 0;
        for (held, groups) in tables.held.iter_mut().zip(self.counts) {
            blocks += groups * end.saturating_sub(held.len.max(held.low));
            held.len = end;
        }
        self.take(blocks);
    }

    /// The piece of a node with the page before `at` of these blocks.
    fn copy_below(&self, node: RunIndex, hold: Hold, at: u32) -> Option<PieceIndex> {
        let is_it = |piece: &Piece| {
            groups_of(piece).meets(hold.groups)
                && piece.order == hold.order
                && piece.from < at
                && at <= piece.to
        };
        let likely = self.tree.arena.get(hold.piece);
        if likely.node == node && is_it(likely) {
            return Some(hold.piece);
        }
        self.tree.pieces(node).find(|(_, piece)| is_it(piece)).map(|(index, _)| index)
    }

    /// The part of a piece that lies in `low..at`.
    fn cut_to(&mut self, piece: PieceIndex, (low, at): (u32, u32)) -> PieceIndex {
        if self.tree.arena.get(piece).to > at {
            self.tree.cut(piece, at);
        }
        if self.tree.arena.get(piece).from < low { self.tree.cut(piece, low) } else { piece }
    }

    /// Takes again what a request held that was read back from a snapshot, which stands among the free blocks;
    /// whether all of it was there.
    pub(super) fn hold_again(&mut self, steps: &RequestSteps<'_>, tables: &Tables) -> bool {
        let states = steps.other == Some(GroupKind::Mamba);
        let blocks: u64 = [FULL, OTHERS]
            .map(|side| tables.blocks(side, states).saturating_mul(self.counts[side]))
            .iter()
            .sum();
        let groups = self.rules.attention.groups().len() as u32;
        let mut named = 0u64;
        for hold in &tables.holds {
            if hold.from >= hold.to || hold.groups.last() >= groups {
                return false;
            }
            named = named.saturating_add(hold.blocks());
            if hold.order == PRIVATE {
                continue;
            }
            let mut left = hold.blocks();
            for index in (0..self.path.len()).rev() {
                let node = self.path[index];
                let (first, end) = self.tree.span(node);
                let (low, mut at) = (hold.from.max(first), hold.to.min(end));
                while low < at
                    && let Some(piece) = self.copy_below(node, *hold, at)
                {
                    let piece = self.cut_to(piece, (low, at));
                    let Piece { from, to, holders, .. } = *self.tree.arena.get(piece);
                    if holders == 0 {
                        self.queued -= u64::from(to - from) * hold.groups.len();
                        self.tree.arena.unlink(piece);
                        self.tree.arena.push(self.held, piece);
                    }
                    self.tree.arena.get_mut(piece).holders += 1;
                    left -= u64::from(at - from);
                    at = from;
                }
            }
            if left > 0 {
                return false;
            }
        }
        let private: u64 = tables.holds.iter().filter(|hold| hold.order == PRIVATE).map(Hold::blocks).sum();
        let Some(unnamed) = blocks.checked_sub(named) else { return false };
        match self.unnamed.checked_sub(unnamed.saturating_add(private)) {
            Some(left) => self.unnamed = left,
            None => return false,
        }
        true
    }
}

/// The same pages, each hold of one group.
fn each_group(holds: &[Hold]) -> Vec<Hold> {
    let alone =
        |hold: Hold| hold.groups.iter().map(move |group| Hold { groups: GroupSet::of(group), ..hold });
    holds.iter().copied().flat_map(alone).collect()
}
