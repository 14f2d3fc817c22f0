//! Who touched which part of a segment last: a list of regions a segment, shallowest first.
//!
//! The first region lies in the segment itself, since most segments have no other. The further ones are
//! linked here in both directions, so that a request takes regions off the top and forgetting takes the
//! deepest one, each in constant time.

use super::ids::Slot;
use super::renumbering::Renumbering;
use crate::units::heap::{flat, heap_bytes};

/// A region's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RegionId(u32);

/// No region: the first region of the segment is its only one.
pub(super) const NONE: RegionId = RegionId(0);

/// A part of a segment's pages below the first region: from `begin` to where the next region begins, or to
/// the end of the segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    pub(super) slot: Slot,
    /// Pages of the segment above the region; zero marks a place that is free.
    pub(super) begin: u32,
    pub(super) deeper: RegionId,
    /// The region above; of the list's head, the deepest one.
    shallower: RegionId,
}

flat!(Region);

/// All regions of all segments but the segments' first ones.
#[derive(Debug)]
pub(super) struct Regions {
    /// The first element stands for [`NONE`].
    table: Vec<Region>,
    /// Head of the free places, linked by `deeper`.
    free: RegionId,
}

heap_bytes!(Regions { table; free });

impl Regions {
    pub(super) fn new() -> Self {
        Self { table: vec![Region { slot: Slot(0), begin: 0, deeper: NONE, shallower: NONE }], free: NONE }
    }

    pub(super) fn get(&self, id: RegionId) -> &Region {
        &self.table[id.0 as usize]
    }

    fn get_mut(&mut self, id: RegionId) -> &mut Region {
        &mut self.table[id.0 as usize]
    }

    /// The regions from `head` on, shallowest first.
    pub(super) fn from(&self, head: RegionId) -> impl Iterator<Item = &Region> {
        let at = |id: RegionId| (id != NONE).then(|| self.get(id));
        std::iter::successors(at(head), move |region| at(region.deeper))
    }

    /// The last region of a list.
    pub(super) fn deepest(&self, head: RegionId) -> Option<&Region> {
        (head != NONE).then(|| self.get(self.get(head).shallower))
    }

    /// Gives a segment's first `pages` pages to somebody else; `first` is who has the segment's first page.
    /// Returns the new head: the region that begins after them, none where `pages` reaches `len`.
    pub(super) fn take_top(&mut self, mut head: RegionId, first: Slot, pages: u32, len: u32) -> RegionId {
        let mut owner = first;
        while head != NONE && self.get(head).begin < pages {
            owner = self.get(head).slot;
            head = self.pop_top(head);
        }
        let begins_there = head != NONE && self.get(head).begin == pages;
        if pages == len || begins_there { head } else { self.push_top(head, owner, pages) }
    }

    fn pop_top(&mut self, head: RegionId) -> RegionId {
        let Region { deeper, shallower: deepest, .. } = *self.get(head);
        if deeper != NONE {
            self.get_mut(deeper).shallower = deepest;
        }
        self.give_back(head);
        deeper
    }

    fn push_top(&mut self, head: RegionId, slot: Slot, begin: u32) -> RegionId {
        let id = self.place();
        let deepest =
            if head == NONE { id } else { std::mem::replace(&mut self.get_mut(head).shallower, id) };
        *self.get_mut(id) = Region { slot, begin, deeper: head, shallower: deepest };
        id
    }

    /// Adds a region below all others; returns the list's head.
    pub(super) fn push_bottom(&mut self, head: RegionId, slot: Slot, begin: u32) -> RegionId {
        if head == NONE {
            return self.push_top(head, slot, begin);
        }
        let id = self.place();
        let above = std::mem::replace(&mut self.get_mut(head).shallower, id);
        self.get_mut(above).deeper = id;
        *self.get_mut(id) = Region { slot, begin, deeper: NONE, shallower: above };
        head
    }

    /// Takes the deepest region off; returns the list's head.
    pub(super) fn pop_bottom(&mut self, head: RegionId) -> RegionId {
        let deepest = self.get(head).shallower;
        if deepest == head {
            self.give_back(head);
            return NONE;
        }
        let above = self.get(deepest).shallower;
        self.get_mut(above).deeper = NONE;
        self.get_mut(head).shallower = above;
        self.give_back(deepest);
        head
    }

    fn place(&mut self) -> RegionId {
        if self.free != NONE {
            let id = self.free;
            self.free = self.get(id).deeper;
            return id;
        }
        if self.table.len() == self.table.capacity() {
            self.table.reserve_exact((self.table.len() / 8).max(self.table.len().min(64)));
        }
        self.table.push(Region { slot: Slot(0), begin: 0, deeper: NONE, shallower: NONE });
        RegionId(self.table.len() as u32 - 1)
    }

    fn give_back(&mut self, id: RegionId) {
        *self.get_mut(id) = Region { slot: Slot(0), begin: 0, deeper: self.free, shallower: NONE };
        self.free = id;
    }

    /// Gives every region its slot's new number.
    pub(super) fn renumber_slots(&mut self, renumbering: &Renumbering) {
        for region in self.table.iter_mut().filter(|region| region.begin > 0) {
            region.slot = renumbering.of(region.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slot of every page of a segment.
    fn pages(regions: &Regions, head: RegionId, first: Slot, len: u32) -> Vec<u32> {
        let mut slots = vec![first.0; len as usize];
        for region in regions.from(head) {
            slots[region.begin as usize..].fill(region.slot.0);
        }
        slots
    }

    proptest! {
        #[test]
        fn regions_equal_a_slot_a_page(
            len in 1u32..30,
            steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..60),
        ) {
            let (mut regions, mut head, mut first, mut len) = (Regions::new(), NONE, Slot(0), len);
            let mut model = vec![0; len as usize];
            for (number, (share, cut)) in (1..).zip(steps) {
                if cut && head != NONE {
                    let deepest = *regions.deepest(head).expect("a region");
                    prop_assert_eq!(deepest.slot.0, model[model.len() - 1]);
                    len = deepest.begin;
                    model.truncate(len as usize);
                    head = regions.pop_bottom(head);
                } else {
                    let pages = 1 + share.index(len as usize) as u32;
                    head = regions.take_top(head, first, pages, len);
                    first = Slot(number);
                    model[..pages as usize].fill(number);
                }
                prop_assert_eq!(&pages(&regions, head, first, len), &model);
                let distinct = model.windows(2).filter(|pair| pair[0] != pair[1]).count();
                prop_assert_eq!(regions.from(head).count(), distinct, "no region too many");
            }
            prop_assert!(regions.table.len() <= 1 + 30, "places are used again");
        }
    }
}
