//! The LRU order of some of a stack's requests, kept along its tree.
//!
//! A replica serves some of its pool's requests, so the pages it has seen are some of the pool's: of each segment on a
//! request's path the leading ones. Its requests therefore need no tree and no walk of their own. What is its own is
//! who of *its* requests touched which page last: an order of slots, and for each segment it has pages of, regions of
//! them.
//!
//! A segment is named by its place in the pool's tree, which is another one's once that was forgotten. So a follower
//! is good as long as its stack has forgotten nothing ([`Stack::may_forget`]), and becomes a stack of its own
//! ([`Follower::into_stack`]) before that.

mod saved;

use super::ids::{Place, ROOT, SegmentId, Slot};
use super::regions::{NONE, RegionId, Regions};
use super::slots::{Slots, Taken};
use super::walk::{SlotRun, lengthen_run};
use super::{Lookup, Stack};
use crate::request::outcome::Outcome;
use crate::units::heap::{flat, heap_bytes};
use crate::units::pages::Scope;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use saved::{PageOwner, Saved};
use serde::Deserialize;

/// The leading pages of a segment that the follower has.
#[derive(Debug, Clone, Copy)]
struct FollowedPart {
    pages: u32,
    /// Whose the first of them is.
    slot: Slot,
    /// Where pages begin that another request touched last.
    deeper: RegionId,
}

flat!(FollowedPart);

/// The LRU order of a stack's requests that one replica serves.
#[derive(Debug, Deserialize)]
#[serde(from = "Saved")]
pub struct Follower {
    slots: Slots,
    /// Nothing depends on its order.
    parts: HashMap<SegmentId, FollowedPart, foldhash::fast::RandomState>,
    regions: Regions,
    requests: u64,
    accumulated: u64,
    /// What a snapshot kept, until [`Follower::resume`].
    unread: Vec<PageOwner>,
    /// Kept to reuse its memory.
    slot_runs: Vec<SlotRun>,
}

heap_bytes!(Follower { slots, parts, regions, unread, slot_runs; requests, accumulated });

impl Default for Follower {
    fn default() -> Self {
        Self {
            slots: Slots::new(),
            parts: HashMap::default(),
            regions: Regions::new(),
            requests: 0,
            accumulated: 0,
            unread: Vec::new(),
            slot_runs: Vec::new(),
        }
    }
}

impl FollowedPart {
    /// The slots of its first `pages` pages, each with how many of them it has.
    fn owners<'a>(&self, regions: &'a Regions, pages: u32) -> impl Iterator<Item = (Slot, u32)> + 'a {
        let mut deeper = regions.from(self.deeper).take_while(move |region| region.begin < pages);
        let mut owner = Some((self.slot, 0));
        std::iter::from_fn(move || {
            let (slot, begin) = owner?;
            owner = deeper.next().map(|region| (region.slot, region.begin));
            Some((slot, owner.map_or(pages, |(_, end)| end) - begin))
        })
    }

    /// Gives the first `pages` pages of the segment, known or not, to a slot newer than all.
    fn take_over(&mut self, regions: &mut Regions, pages: u32, slot: Slot) {
        if self.deeper != NONE || pages < self.pages {
            let known = pages.min(self.pages);
            self.deeper = regions.take_top(self.deeper, self.slot, known, self.pages);
        }
        self.slot = slot;
        self.pages = self.pages.max(pages);
    }
}

impl Follower {
    /// Takes the request that `stack` has just accepted: what [`Stack::access`] would find in a stack of this
    /// follower's requests alone. `outputs` are its output pages with no ids.
    ///
    /// `outcome` receives the runs of the reusable prefix and `new_pages`; `page_accesses` is the caller's.
    pub fn access(&mut self, stack: &Stack, lookup: Lookup, outputs: u32, outcome: &mut Outcome) {
        let pages = self.take_over(stack.path());
        let (mut known, mut copies) = (0, 0);
        outcome.clear();
        for at in 0..self.slot_runs.len() {
            let slot_run = self.slot_runs[at];
            let taken = self.slots.take(slot_run.slot, slot_run.pages);
            // Slots only get older along a path, so the pages above were those of newer ones.
            let taken = Taken { newer: taken.newer + known as u64 + u64::from(copies), ..taken };
            stack.write_run(slot_run, taken, known, lookup, outcome);
            let left = lookup.copies_of(slot_run, known);
            if left > 0 && !self.slots.add_above(slot_run.slot, left) {
                copies += left;
            }
            known += slot_run.pages as usize;
        }
        outcome.new_pages = (pages as usize - known) as u64 + u64::from(outputs);
        self.accumulated += outcome.new_pages;
        self.push_slot(stack.path(), pages + outputs + copies, self.requests);
        self.requests += 1;
    }

    /// What [`Follower::access`] would find; nothing is touched.
    pub fn look_up(&mut self, stack: &Stack, lookup: Lookup, outcome: &mut Outcome) {
        self.slot_runs.clear();
        for place in stack.path() {
            let Some(part) = self.parts.get(&place.segment) else { break };
            let known = place.pages.min(part.pages);
            part.owners(&self.regions, known)
                .for_each(|(slot, pages)| lengthen_run(&mut self.slot_runs, slot, pages));
            if known < place.pages {
                break;
            }
        }
        let mut above = 0;
        outcome.clear();
        for at in 0..self.slot_runs.len() {
            let slot_run = self.slot_runs[at];
            // Nothing is taken, so the newer slots still hold the pages above.
            stack.write_run(slot_run, self.slots.take(slot_run.slot, 0), above, lookup, outcome);
            above += slot_run.pages as usize;
        }
    }

    /// Requests taken so far; also the number the next one gets.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Gives the pages of a path to the next slot; leaves those that were known with the slots that had them in
    /// `slot_runs`, and returns how many pages the path has.
    fn take_over(&mut self, path: &[Place]) -> u32 {
        let slot = self.slots.next_slot();
        let (mut pages, mut is_known) = (0, true);
        self.slot_runs.clear();
        for place in path {
            pages += place.pages;
            match self.parts.entry(place.segment) {
                Entry::Vacant(entry) => {
                    is_known = false;
                    entry.insert(FollowedPart { pages: place.pages, slot, deeper: NONE });
                }
                Entry::Occupied(mut entry) => {
                    let part = entry.get_mut();
                    debug_assert!(is_known, "pages are known from the root on");
                    let known = place.pages.min(part.pages);
                    part.owners(&self.regions, known)
                        .for_each(|(slot, pages)| lengthen_run(&mut self.slot_runs, slot, pages));
                    part.take_over(&mut self.regions, place.pages, slot);
                    is_known = known == place.pages;
                }
            }
        }
        pages
    }

    /// Gives the request of this number the newest slot; none if it has no pages.
    fn push_slot(&mut self, path: &[Place], weight: u32, number: u64) {
        if weight == 0 {
            return;
        }
        let tail = path.last().map_or(ROOT, |place| place.segment);
        self.slots.push(weight, tail, number, Scope::GLOBAL);
        if self.slots.begins_leaf() && self.slots.crowded(self.parts.len()) {
            let renumbered = self.slots.renumber();
            self.parts.values_mut().for_each(|part| part.slot = renumbered.of(part.slot));
            self.regions.renumber_slots(&renumbered);
        }
    }
}
