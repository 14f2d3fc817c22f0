//! The pool's state as plain data, for snapshots.

use super::{HybridCache, HybridRules, groups_of};
use crate::engines::groups::GroupSet;
use crate::stack::runs::{MAX_PAGES, RunTree, SavedPiece, SavedRuns, StateFault};
use crate::units::PageCount;
use serde::{Deserialize, Serialize};

/// All that decides the pool's future answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedHybrid {
    /// The modelled capacity, in blocks.
    pub capacity: PageCount,
    /// The rules it keeps.
    pub rules: HybridRules,
    /// Whether nothing is evicted up to the capacity.
    pub never_evicts: bool,
    /// Requests served since the start.
    pub requests: u64,
    /// Requests turned away since the start.
    pub refused: u64,
    /// The named blocks: free ones, freed longest ago first, and behind them those that requests in flight hold.
    pub runs: SavedRuns,
}

impl HybridCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedHybrid {
        let mut runs = self.tree.save([self.queue, self.held]);
        runs.pieces = each_group(&runs.pieces);
        let free = self.tree.arena.in_list(self.queue).map(|piece| groups_of(piece).len()).sum::<u64>();
        let place = |piece: &SavedPiece| (piece.node, piece.tag, piece.from, piece.order);
        runs.pieces[free as usize..].sort_unstable_by_key(place);
        SavedHybrid {
            capacity: self.capacity(),
            rules: HybridRules::clone(&self.rules),
            never_evicts: self.never_evicts,
            requests: self.requests,
            refused: self.refused,
            runs,
        }
    }

    /// The pool a state was saved from. What requests in flight held is free until they
    /// [take it again](super::super::load::LoadedCache::rejoin).
    ///
    /// # Errors
    /// When the state is damaged: a node or a run that contradicts the others, too many blocks, rules that
    /// contradict each other.
    pub fn restore(saved: &SavedHybrid) -> Result<Self, StateFault> {
        let fault = |fault| StateFault { part: "cache", position: 0, fault };
        if saved.capacity.0 > MAX_PAGES {
            return Err(fault("is larger than one is modelled"));
        }
        let mut cache = Self::new(saved.capacity, saved.rules.clone())
            .map_err(|_| fault("has rules that contradict each other"))?;
        let mut queue = None;
        let groups = saved.rules.attention.groups().len() as u32;
        let mut tree = RunTree::restore(&saved.runs, groups, |tree, piece| {
            let list = *queue.get_or_insert_with(|| tree.arena.new_list());
            tree.arena.push(list, piece);
            let piece = tree.arena.get_mut(piece);
            piece.tag = GroupSet::of(piece.tag).bits();
        })?;
        let named = saved.runs.pages();
        cache.unnamed = saved.capacity.0.checked_sub(named).ok_or(fault("holds more than its capacity"))?;
        if saved.runs.pieces.iter().any(|piece| piece.order >= saved.requests.max(1)) {
            return Err(fault("names a request that was not served yet"));
        }
        // The paths of requests in flight may lie in it even where nothing has a name yet.
        cache.queue = queue.unwrap_or_else(|| tree.arena.new_list());
        cache.held = tree.arena.new_list();
        (cache.tree, cache.queued) = (tree, named);
        (cache.requests, cache.refused) = (saved.requests, saved.refused);
        cache.never_evicts = saved.never_evicts;
        Ok(cache)
    }
}

/// The same pieces, each of one group, whose place is its tag.
fn each_group(pieces: &[SavedPiece]) -> Vec<SavedPiece> {
    let of_piece = |piece: &SavedPiece| {
        let piece = piece.clone();
        GroupSet::of_bits(piece.tag).iter().map(move |group| SavedPiece { tag: group, ..piece.clone() })
    };
    pieces.iter().flat_map(of_piece).collect()
}

saved_as! { HybridCache, SavedHybrid, StateFault }
