//! The same rules where nothing is evicted: what they find at any size.
//!
//! Without eviction only the names count, not who holds a block. So a page is kept once, where the shared pool
//! would hold second copies, and blocks without a name are not counted. Names are given up, the ones that nobody
//! found for longest first, only where there are more than the capacity.

use super::rules::HybridLookup;
use super::table::Tables;
use super::{HybridCache, HybridRules, RulesError};
use crate::engines::groups::GroupSet;
use crate::stack::runs::{Piece, PieceIndex, RunIndex};
use crate::units::PageCount;

impl HybridCache {
    /// A pool that evicts nothing while it has no more names than this.
    ///
    /// # Errors
    /// When the rules contradict each other.
    pub fn never_evicting(capacity: PageCount, rules: HybridRules) -> Result<Self, RulesError> {
        Ok(Self { never_evicts: true, ..Self::new(capacity, rules)? })
    }

    /// Whether it is such a pool.
    pub fn never_evicts(&self) -> bool {
        self.never_evicts
    }

    /// Moves what was found to the end of the order in which names would go.
    pub(super) fn refresh(&mut self, tables: &Tables, found: HybridLookup) {
        for group in 0..self.rules.attention.groups().len() as u32 {
            let (low, tag) = (self.first_found(tables, group), GroupSet::of(group).bits());
            for index in 0..self.path.len() {
                let node = self.path[index];
                let touched = |piece: &Piece| {
                    piece.tag == tag && u64::from(piece.from) < found.hits && u64::from(piece.to) > low
                };
                let pieces: Vec<PieceIndex> = self
                    .tree
                    .pieces(node)
                    .filter(|(_, piece)| touched(piece))
                    .map(|(index, _)| index)
                    .collect();
                for piece in pieces {
                    self.tree.arena.unlink(piece);
                    self.tree.arena.push(self.queue, piece);
                }
            }
        }
    }

    /// Names the pages `from..to` of a node that have no name in the group yet.
    pub(super) fn keep_once(&mut self, node: RunIndex, group: u32, (from, to): (u32, u32)) {
        let tag = GroupSet::of(group).bits();
        let mut at = from;
        while at < to {
            let there = self.tree.covered_up_to(node, |other| other == tag, at);
            if there > at {
                at = there;
                continue;
            }
            let mine = || self.tree.pieces(node).map(|(_, piece)| piece).filter(|piece| piece.tag == tag);
            let gap = mine().map(|piece| piece.from).filter(|from| *from > at).min().unwrap_or(to).min(to);
            self.take(u64::from(gap - at));
            self.queued += u64::from(gap - at);
            self.add_joined(node, tag, (at, gap));
            at = gap;
        }
    }

    /// Adds a run of names, joined to the one that it continues.
    fn add_joined(&mut self, node: RunIndex, tag: u32, (from, to): (u32, u32)) {
        let before = |piece: &Piece| piece.tag == tag && piece.to == from;
        let joined = self.tree.pieces(node).find(|(_, piece)| before(piece)).map(|(index, _)| index);
        match joined {
            Some(piece) => {
                self.tree.arena.get_mut(piece).to = to;
                self.tree.arena.unlink(piece);
                self.tree.arena.push(self.queue, piece);
            }
            None => {
                let piece = self.tree.add_piece(Piece::new(node, tag, (from, to), 0));
                self.tree.arena.push(self.queue, piece);
            }
        }
    }
}
