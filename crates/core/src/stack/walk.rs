//! Following a request down the tree.

use super::ids::{Place, SegmentId, Slot, TOP};
use super::tree::Tree;
use super::{Access, ChainCheck, ChainPolicy, Stack};
use crate::units::heap::flat;
use crate::units::pages::{PageIds, mix};

/// Consecutive pages of a request's walk that belong to one slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotRun {
    pub(super) slot: Slot,
    pub(super) pages: u32,
}

flat!(SlotRun);

impl Stack {
    /// Whether every id of a request is read: unless that is not wanted of any, or its maker declares that they
    /// are chained, in a pool where that was never found to be wrong and violations are not counted exactly.
    #[inline]
    pub(super) fn reads_every_page(&self, ids_chained: bool) -> bool {
        match self.config.chain_policy {
            ChainPolicy::Report => {
                !ids_chained || self.disproved || self.config.chain_check == ChainCheck::Full
            }
            ChainPolicy::Reject => true,
            ChainPolicy::Trust => false,
        }
    }

    /// Whether the current request tests if ids are chained: one in 64, at no regular distance, so that no
    /// rhythm of the traffic escapes.
    fn tests_the_chain(&self) -> bool {
        mix(self.requests).is_multiple_of(64)
    }

    /// The segment that begins with the page of a request for one, if that is known.
    #[inline]
    pub(super) fn only_page(&self, access: &Access<'_>) -> Option<SegmentId> {
        if access.pages.len() != 1 {
            return None;
        }
        self.tree.child(TOP, access.scope.first_page(access.pages.get(0)?))
    }

    /// Follows the request's pages down the tree into `self.path` and `self.slot_runs`. [`Stack::only_page`] goes
    /// before. Returns how many leading pages of the request are in the tree, and how many were taken for known or
    /// unknown on trust in chained ids, and were not.
    pub(super) fn walk(&mut self, access: &Access<'_>) -> (usize, u64) {
        if access.pages.len() == 1 {
            // Looked up before, and not found: else the request would not walk.
            self.path.clear();
            self.slot_runs.clear();
            return (0, 0);
        }
        if self.reads_every_page(access.ids_chained) {
            return (self.follow(TOP, access, Tree::shared_pages), 0);
        }
        let trusted =
            self.follow(TOP, access, |tree, segment, rest| tree.shared_chained_pages(segment, rest));
        if !self.tests_the_chain() {
            return (trusted, 0);
        }
        let known = self.follow(TOP, access, Tree::shared_pages);
        (known, known.abs_diff(trusted) as u64)
    }

    /// Follows pages that hang below a place whose pages above have one owner, as [`Stack::walk`] does from the top;
    /// returns how many are known.
    pub(super) fn walk_below(&mut self, place: Place, access: &Access<'_>) -> usize {
        self.follow(place, access, Tree::shared_pages)
    }

    /// The walk itself, with what tells how many pages of a segment a request has; returns how many are
    /// known.
    #[inline]
    fn follow(
        &mut self,
        from: Place,
        access: &Access<'_>,
        shared: impl Fn(&mut Tree, SegmentId, PageIds<'_>) -> usize,
    ) -> usize {
        self.path.clear();
        self.slot_runs.clear();
        let (mut place, mut at) = (from, 0);
        if from != TOP {
            at = self.follow_rest(from, access.pages);
            place.pages += at as u32;
        }
        while let Some(id) = access.pages.get(at) {
            let key = if place == TOP { access.scope.first_page(id) } else { id };
            let Some(segment) = self.tree.child(place, key) else { break };
            // The key is the segment's first id, so only the rest needs comparing.
            let pages = shared(&mut self.tree, segment, access.pages.from(at + 1));
            place = Place { segment, pages: pages as u32 };
            self.path.push(place);
            for (slot, pages) in self.tree.owners(segment, place.pages) {
                lengthen_run(&mut self.slot_runs, slot, pages);
            }
            at += pages;
        }
        at
    }

    /// Follows pages down the rest of a segment whose pages above have one owner; returns how many it has.
    fn follow_rest(&mut self, from: Place, pages: PageIds<'_>) -> usize {
        let shared = self.tree.shared_below(from, pages);
        if shared > 0 {
            let place = Place { pages: from.pages + shared as u32, ..from };
            self.path.push(place);
            for (slot, pages) in self.tree.owners(place.segment, place.pages).skip(1) {
                lengthen_run(&mut self.slot_runs, slot, pages);
            }
        }
        shared
    }
}

/// Adds pages of a walk to the run of their slot.
pub(super) fn lengthen_run(slot_runs: &mut Vec<SlotRun>, slot: Slot, pages: u32) {
    match slot_runs.last_mut() {
        Some(last) if last.slot == slot => last.pages += pages,
        _ => slot_runs.push(SlotRun { slot, pages }),
    }
}
