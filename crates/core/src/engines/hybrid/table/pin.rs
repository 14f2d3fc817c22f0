//! What a request finds: those blocks it holds, whoever holds them alongside (step 2b of the rules).

use super::{Hold, Tables, side};
use crate::engines::groups::GroupSet;
use crate::engines::hybrid::rules::HybridLookup;
use crate::engines::hybrid::{HybridCache, blocks_of, groups_of};
use crate::stack::runs::{PieceIndex, RunIndex};

impl HybridCache {
    /// Takes what was found out of the free order: all of it in full groups, in others what a hit needs.
    pub(in crate::engines::hybrid) fn pin(&mut self, tables: &mut Tables, found: HybridLookup) {
        for index in 0..self.path.len() {
            let node = self.path[index];
            let (first, end) = self.tree.span(node);
            let end = end.min(found.hits as u32);
            let (before, mut together) = (tables.holds.len(), GroupSet::default());
            for group in 0..self.rules.attention.groups().len() as u32 {
                let mut at = first.max(self.first_found(tables, group) as u32);
                while at < end {
                    // What another group shares with this one is pinned already.
                    let is_it = |hold: &Hold| hold.from == at && hold.groups.has(group);
                    if together.has(group) && tables.holds[before..].iter().any(is_it) {
                        at += 1;
                        continue;
                    }
                    let Some((piece, stop)) = self.oldest_copy(node, group, at, end) else { break };
                    let piece = self.of_all_or_one(piece, (node, group), at);
                    let groups = groups_of(self.tree.arena.get(piece));
                    together = if groups.is_shared() { together.with(groups) } else { together };
                    at = self.pin_piece(piece, at, stop, &mut tables.holds);
                }
            }
        }
    }

    /// A piece for the page `at` where it is the oldest copy for all of its groups; else that of this group, parted
    /// from the others.
    fn of_all_or_one(&mut self, piece: PieceIndex, (node, group): (RunIndex, u32), at: u32) -> PieceIndex {
        let groups = groups_of(self.tree.arena.get(piece));
        let is_oldest =
            |group| self.oldest_copy(node, group, at, at + 1).is_some_and(|(oldest, _)| oldest == piece);
        if !groups.is_shared() || groups.iter().all(is_oldest) {
            return piece;
        }
        self.part(piece, group)
    }

    /// Of several blocks that carry one name, the one named first: the piece of a node that has it for the page `at`,
    /// and where another takes over, at `end` at most.
    fn oldest_copy(&self, node: RunIndex, group: u32, at: u32, end: u32) -> Option<(PieceIndex, u32)> {
        let mine = || self.tree.pieces(node).filter(|(_, piece)| groups_of(piece).has(group));
        let covering = mine().filter(|(_, piece)| piece.from <= at && at < piece.to);
        let oldest = covering.map(|(index, piece)| (index, piece.order)).min_by_key(|(_, order)| *order);
        // The lookup saw every page, and nothing has moved since.
        debug_assert!(oldest.is_some(), "a page that was found is there");
        let (oldest, order) = oldest?;
        let older = mine().filter(|(_, piece)| piece.order < order && piece.from > at);
        let next = older.map(|(_, piece)| piece.from).min().unwrap_or(end);
        Some((oldest, next.min(end)))
    }

    /// Holds the pages of a piece from `at` up to `end` at most; returns where they end.
    fn pin_piece(&mut self, piece: PieceIndex, at: u32, end: u32, holds: &mut Vec<Hold>) -> u32 {
        let from = self.tree.arena.get(piece).from;
        let piece = if from < at { self.tree.cut(piece, at) } else { piece };
        if self.tree.arena.get(piece).to > end {
            self.tree.cut(piece, end);
        }
        if self.tree.arena.get(piece).holders == 0 {
            self.queued -= blocks_of(self.tree.arena.get(piece));
            self.tree.arena.unlink(piece);
            self.tree.arena.push(self.held, piece);
        }
        let index = piece;
        let piece = self.tree.arena.get_mut(index);
        piece.holders += 1;
        let (from, to) = (piece.from, piece.to);
        holds.push(Hold { groups: groups_of(piece), from, to, order: piece.order, piece: index });
        to
    }

    /// Blocks of the found pages `from..hits` that requests in flight hold already, in groups of a kind.
    pub(in crate::engines::hybrid) fn shared(&self, of: usize, (from, hits): (u32, u32)) -> u64 {
        let mut shared = 0;
        for (group, kind) in self.rules.attention.groups().iter().enumerate() {
            let mut at = from;
            for node in self.path.iter().copied().filter(|_| side(*kind) == of) {
                let end = self.tree.span(node).1.min(hits);
                while at < end
                    && let Some((piece, stop)) = self.oldest_copy(node, group as u32, at, end)
                {
                    let piece = self.tree.arena.get(piece);
                    let stop = piece.to.min(stop);
                    shared += if piece.holders > 0 { u64::from(stop - at) } else { 0 };
                    at = stop;
                }
            }
        }
        shared
    }
}
