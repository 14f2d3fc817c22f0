//! One LRU slot a request: how many pages still belong to it, and suffix sums over them.

use super::ids::{LEAF, ROOT, SegmentId, Slot};
use super::prefetch::prefetch;
use super::renumbering::Renumbering;
use super::sums::{Sums, reserve_in_steps, take_from};
use super::{MAX_REQUEST_PAGES, MAX_TRACKED_PAGES};
use crate::units::heap::{flat, heap_bytes};
use crate::units::packed::{self, DerivedArray};
use crate::units::pages::Scope;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize, Serializer};

/// What is requested when a slot's pages are met again, of a few slots in one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Leaf {
    /// The pages that belong to each slot.
    weights: [u32; LEAF],
    /// The lower halves of their requests' numbers in the pool.
    numbers: [u32; LEAF],
}

flat!(Leaf);

impl Leaf {
    fn total(&self) -> u32 {
        self.weights.iter().fold(0, |sum: u32, &weight| sum.wrapping_add(weight))
    }
}

/// What a snapshot keeps of a slot alongside its weight.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, packed(4))]
struct SlotOwner {
    number: u64,
    scope: Scope,
    tail: SegmentId,
}

/// What was known of a slot when pages were taken from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    /// The pages it had.
    pub(super) weight: u64,
    /// `W(slot + 1)`: the pages of all slots newer than this one.
    pub(super) newer: u64,
    /// Number of its request.
    pub(super) request: u64,
}

/// All slots in LRU order with sums over their weights.
#[derive(Debug, Deserialize)]
#[serde(try_from = "SlotColumns")]
pub(super) struct Slots {
    /// All are full but the last, which the next slot is in.
    leaves: Vec<Leaf>,
    /// Observers the leaves, the segment of each slot's last page with an id; the root when it only has unshared
    /// outputs. Read only when the slot is forgotten.
    tails: Vec<[SegmentId; LEAF]>,
    /// Slots, dead ones too.
    len: usize,
    /// What the full leaves add up to.
    sums: Sums,
    /// The pages of the last leaf.
    open: u32,
    /// The upper half of the request numbers from a slot on, in order of their slots. Numbers rise from slot to slot,
    /// but for those of requests that were in flight together, so there are few of these for every 4 billion requests
    /// that a pool had while its oldest page stayed.
    upper_halves: Vec<(Slot, u32)>,
    /// Scopes of the slots; empty as long as all of them are global.
    scopes: Vec<Scope>,
    /// Slots with a weight.
    live: u32,
    /// Sum of all weights.
    total: u64,
    /// No slot before this one has a weight.
    first_live: usize,
}

heap_bytes!(Slots { leaves, tails, sums, upper_halves, scopes; len, open, live, total, first_live });

/// What a snapshot keeps of the slots; the sums follow from it.
#[derive(Deserialize)]
struct SlotColumns {
    #[serde(with = "packed")]
    weights: Vec<u32>,
    #[serde(with = "packed")]
    owners: Vec<SlotOwner>,
}

impl TryFrom<SlotColumns> for Slots {
    type Error = &'static str;

    fn try_from(columns: SlotColumns) -> Result<Self, Self::Error> {
        if columns.weights.len() != columns.owners.len() {
            return Err("every slot has a weight and an owner");
        }
        let mut slots = Self::new();
        for (weight, owner) in columns.weights.into_iter().zip(columns.owners) {
            slots.push(weight, owner.tail, owner.number, owner.scope);
        }
        Ok(slots)
    }
}

impl Serialize for Slots {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let count = self.len();
        let weights = DerivedArray { count, element: |index: usize| self.weight_at(index) };
        let owner = |index: usize| {
            let slot = Slot(index as u32);
            SlotOwner { number: self.request_number(slot), scope: self.scope(slot), tail: self.tail(slot) }
        };
        // The fields of `SlotColumns`.
        (weights, DerivedArray { count, element: owner }).serialize(serializer)
    }
}

impl Slots {
    /// Dead slots tolerated before renumbering pays.
    const SLACK: usize = 1024;

    /// Live slots for each of which one more dead one is tolerated.
    const FEW: usize = 1 << 14;

    pub(super) fn new() -> Self {
        Self {
            leaves: vec![Leaf::default()],
            tails: vec![[ROOT; LEAF]],
            len: 0,
            sums: Sums::default(),
            open: 0,
            upper_halves: Vec::new(),
            scopes: Vec::new(),
            live: 0,
            total: 0,
            first_live: 0,
        }
    }

    fn weight_at(&self, index: usize) -> u32 {
        self.leaves[index / LEAF].weights[index % LEAF]
    }

    /// Has what reporting a slot's pages reads brought near; nothing for what is no slot of the order.
    #[inline]
    pub(super) fn prefetch(&self, slot: Slot) {
        self.leaves.get(slot.index() / LEAF).into_iter().for_each(prefetch);
    }

    /// Pages of all slots.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Slots that own pages.
    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    /// Pages of one slot.
    pub(super) fn weight(&self, slot: Slot) -> u64 {
        u64::from(self.weight_at(slot.index()))
    }

    /// Number of the request that owns the slot.
    #[inline]
    pub(super) fn request_number(&self, slot: Slot) -> u64 {
        let lower = self.leaves[slot.index() / LEAF].numbers[slot.index() % LEAF];
        let upper = self.upper_halves.iter().rev().find(|(from, _)| *from <= slot);
        u64::from(upper.map_or(0, |(_, half)| *half)) << 32 | u64::from(lower)
    }

    /// Scope of the request that owns the slot.
    pub(super) fn scope(&self, slot: Slot) -> Scope {
        self.scopes.get(slot.index()).copied().unwrap_or(Scope::GLOBAL)
    }

    /// Segment the slot's run ends in.
    pub(super) fn tail(&self, slot: Slot) -> SegmentId {
        self.tails[slot.index() / LEAF][slot.index() % LEAF]
    }

    /// Takes pages away from a slot.
    pub(super) fn take(&mut self, slot: Slot, pages: u32) -> Taken {
        let (at, entry) = (slot.index() / LEAF, slot.index() % LEAF);
        let request = self.request_number(slot);
        let leaf = &mut self.leaves[at];
        let weight = leaf.weights[entry];
        debug_assert!(weight >= pages, "a slot gives no more pages than it has");
        let mut newer = take_from(&mut leaf.weights, slot.index(), pages);
        self.live -= u32::from(weight == pages && pages > 0);
        self.total -= u64::from(pages);
        if at == self.sums.leaves() {
            self.open -= pages;
        } else {
            newer += self.sums.take(at, pages) + self.open;
        }
        Taken { weight: u64::from(weight), newer: u64::from(newer), request }
    }

    /// Adds pages that nobody asks for just above what a slot has, as the oldest ones of the next newer slot; whether
    /// there is one.
    pub(super) fn add_above(&mut self, slot: Slot, pages: u32) -> bool {
        let index = slot.index() + 1;
        if index >= self.len {
            return false;
        }
        let at = index / LEAF;
        let weight = &mut self.leaves[at].weights[index % LEAF];
        self.live += u32::from(*weight == 0 && pages > 0);
        *weight += pages;
        self.total += u64::from(pages);
        if at == self.sums.leaves() {
            self.open += pages;
        } else {
            self.sums.add(at, pages);
        }
        true
    }

    /// Takes all its pages away from a slot.
    pub(super) fn clear(&mut self, slot: Slot) {
        self.take(slot, self.weight_at(slot.index()));
    }

    /// The slot the next request will get.
    pub(super) fn next_slot(&self) -> Slot {
        Slot(self.len as u32)
    }

    /// Adds the newest slot.
    #[inline]
    pub(super) fn push(&mut self, weight: u32, tail: SegmentId, number: u64, scope: Scope) {
        let index = self.len;
        if scope != Scope::GLOBAL || !self.scopes.is_empty() {
            self.push_scope(scope);
        }
        let (half, lower) = ((number >> 32) as u32, number as u32);
        if self.upper_halves.last().is_none_or(|(_, last)| *last != half) {
            self.upper_halves.push((Slot(index as u32), half));
        }
        let (at, entry) = (index / LEAF, index % LEAF);
        let leaf = &mut self.leaves[at];
        (leaf.weights[entry], leaf.numbers[entry], self.tails[at][entry]) = (weight, lower, tail);
        self.len += 1;
        self.live += u32::from(weight > 0);
        self.total += u64::from(weight);
        // Wraps only on bytes that are no snapshot, which `is_sound` refuses.
        self.open = self.open.wrapping_add(weight);
        if self.begins_leaf() {
            self.push_leaf();
        }
    }

    fn push_scope(&mut self, scope: Scope) {
        self.scopes.resize(self.len, Scope::GLOBAL);
        self.scopes.push(scope);
    }

    /// Adds the sum of the last leaf, which is full, to the others, and another leaf.
    #[inline(never)]
    fn push_leaf(&mut self) {
        self.sums.push(std::mem::take(&mut self.open));
        reserve_in_steps(&mut self.tails);
        self.tails.push([ROOT; LEAF]);
        reserve_in_steps(&mut self.leaves);
        self.leaves.push(Leaf::default());
        if let Some(later) = self.leaves.spare_capacity_mut().first() {
            prefetch(later);
        }
    }

    /// The oldest slot that owns pages.
    pub(super) fn oldest(&mut self) -> Option<Slot> {
        while self.first_live < self.len() && self.weight_at(self.first_live) == 0 {
            self.first_live += 1;
        }
        (self.first_live < self.len()).then_some(Slot(self.first_live as u32))
    }

    /// Whether the next slot begins a leaf, which is often enough to look after the others.
    #[inline]
    pub(super) fn begins_leaf(&self) -> bool {
        self.len.is_multiple_of(LEAF)
    }

    /// Whether dead slots outnumber what is worth keeping: a renumbering visits every slot and every
    /// segment, so both pay for it. Where few are live, more dead ones fit into a processor's caches alongside them.
    pub(super) fn crowded(&self, segments: usize) -> bool {
        let live = self.live();
        self.len() - live >= live / 2 + live.min(Self::FEW) + segments / 8 + Self::SLACK
    }

    /// Drops the dead slots, keeping the order; returns the live ones' new numbers.
    pub(super) fn renumber(&mut self) -> Renumbering {
        let renumbering = self.keep_live();
        self.upper_halves.iter_mut().for_each(|(from, _)| *from = renumbering.of(*from));
        for from in 0..self.scopes.len() {
            self.scopes[renumbering.of(Slot(from as u32)).index()] = self.scopes[from];
        }
        self.truncate(self.live());
        self.first_live = 0;
        renumbering
    }

    /// Moves what is kept of each slot to its new place. That of a dead one is the next live one's, which comes
    /// after it and stays: nobody could predict a branch on which slots are dead. None goes where one lies that was
    /// not read yet.
    fn keep_live(&mut self) -> Renumbering {
        let Self { leaves, tails, .. } = self;
        let mut renumbering = Renumbering::with_capacity(leaves.len());
        for from in 0..leaves.len() {
            let ranks = renumbering.push(&leaves[from].weights);
            for entry in 0..LEAF {
                let (leaf, segment) = (&leaves[from], tails[from][entry]);
                let (weight, number) = (leaf.weights[entry], leaf.numbers[entry]);
                let to = ranks.of(entry) as usize;
                let (at, to) = (to / LEAF, to % LEAF);
                let place = &mut leaves[at];
                (place.weights[to], place.numbers[to]) = (weight, number);
                tails[at][to] = segment;
            }
        }
        renumbering
    }

    /// Drops all slots but the first `live`, and makes the sums anew.
    fn truncate(&mut self, live: usize) {
        let full = live / LEAF;
        self.len = live;
        self.scopes.truncate(live);
        self.tails.truncate(full + 1);
        self.leaves.truncate(full + 1);
        self.leaves[full].weights[live % LEAF..].fill(0);
        self.sums.clear();
        self.leaves[..full].iter().for_each(|leaf| self.sums.push(leaf.total()));
        self.open = self.leaves[full].total();
    }

    /// Slots, dead ones too.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Slots that own pages, from the oldest on.
    pub(super) fn owners(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.len()).filter(|&index| self.weight_at(index) > 0).map(|index| Slot(index as u32))
    }

    /// Pages of each slot and all newer ones.
    pub(super) fn at_or_above(&self) -> Vec<u64> {
        let mut above = 0;
        let mut all: Vec<u64> = (0..self.len)
            .rev()
            .map(|slot| {
                above += u64::from(self.weight_at(slot));
                above
            })
            .collect();
        all.reverse();
        all
    }

    /// Whether slots are in the order of their requests: as long as these are released in the order in which they came.
    pub(super) fn are_in_order(&self) -> bool {
        (0..self.len as u32).map(|slot| self.request_number(Slot(slot))).is_sorted()
    }

    /// Whether what a snapshot said fits together: every tail is a segment, the sums fit their type and leave
    /// room for the next request.
    pub(super) fn is_sound(&self, segments: usize) -> bool {
        self.tails.as_flattened()[..self.len].iter().all(|tail| tail.index() < segments)
            && self.total <= MAX_TRACKED_PAGES + 2 * MAX_REQUEST_PAGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn suffix_sums_equal_adding_up(
            weights in prop::collection::vec(1u32..50, 1..700),
            takes in prop::collection::vec((any::<prop::sample::Index>(), 0u32..50), 0..700),
        ) {
            let mut slots = Slots::new();
            let mut model = weights.clone();
            for &weight in &weights {
                slots.push(weight, ROOT, 0, Scope::GLOBAL);
            }
            for (index, pages) in takes {
                let index = index.index(model.len());
                let pages = pages.min(model[index]);
                let newer: u32 = model[index + 1..].iter().sum();
                prop_assert_eq!(slots.take(Slot(index as u32), pages).newer, u64::from(newer));
                model[index] -= pages;
                let above = model.get_mut(index + 1).map(|weight| *weight += pages);
                prop_assert_eq!(slots.add_above(Slot(index as u32), pages), above.is_some());
            }
            for index in 0..model.len() {
                let newer: u32 = model[index + 1..].iter().sum();
                prop_assert_eq!(slots.take(Slot(index as u32), 0).newer, u64::from(newer));
            }
            prop_assert_eq!(slots.live(), model.iter().filter(|&&weight| weight > 0).count());
            let renumbered = slots.renumber();
            for (index, &weight) in model.iter().enumerate().filter(|(_, weight)| **weight > 0) {
                prop_assert_eq!(slots.weight(renumbered.of(Slot(index as u32))), u64::from(weight));
                let newer: u32 = model[index + 1..].iter().sum();
                prop_assert_eq!(slots.take(renumbered.of(Slot(index as u32)), 0).newer, u64::from(newer));
            }
        }
    }

    /// Numbers up to 2^64, with slots that die before, between and after those where the upper half changes.
    #[test]
    fn request_numbers_are_whole_beyond_four_billion() {
        let numbers = [0, 7, u64::from(u32::MAX), 1 << 32, (1 << 32) + 7, 3 << 32, (3 << 32) + 1, u64::MAX];
        for dead in 0..1 << numbers.len() {
            let mut slots = Slots::new();
            numbers.iter().for_each(|&number| slots.push(1, ROOT, number, Scope::GLOBAL));
            let kept = |slots: &Slots| -> Vec<u64> {
                slots.owners().map(|slot| slots.request_number(slot)).collect()
            };
            assert_eq!(kept(&slots), numbers);
            (0..numbers.len() as u32)
                .filter(|slot| dead >> slot & 1 == 1)
                .for_each(|slot| slots.clear(Slot(slot)));
            let living = kept(&slots);
            slots.renumber();
            assert_eq!(kept(&slots), living);
            assert_eq!(slots.len(), living.len());
            slots.push(1, ROOT, u64::MAX, Scope::GLOBAL);
            assert_eq!(slots.request_number(Slot(living.len() as u32)), u64::MAX);
        }
    }

    /// The upper half of the next request's number outlives the last slot that has it, wherever a word of 64 ends.
    #[test]
    fn nobody_left_of_an_upper_half_survives_renumbering_twice() {
        for older in [0, 1, 63, 64, 65, 128] {
            let mut slots = Slots::new();
            (0..older).for_each(|number| slots.push(1, ROOT, number, Scope::GLOBAL));
            slots.push(1, ROOT, 1 << 32, Scope::GLOBAL);
            slots.clear(Slot(older as u32));
            slots.renumber();
            slots.renumber();
            slots.push(1, ROOT, (1 << 32) + 1, Scope::GLOBAL);
            let numbers: Vec<u64> = slots.owners().map(|slot| slots.request_number(slot)).collect();
            assert_eq!(numbers, (0..older).chain([(1 << 32) + 1]).collect::<Vec<_>>());
        }
    }

    /// The first of them late, some dead.
    #[test]
    fn scopes_stay_with_their_slots() {
        let mut slots = Slots::new();
        let scopes: Vec<Scope> = [b"a", b"b", b"c"].iter().map(|name| Scope::named(*name)).collect();
        let scope_of = |number: u64| match number {
            0..20 => Scope::GLOBAL,
            _ => scopes[number as usize % 3],
        };
        (0..60).for_each(|number| slots.push(1, ROOT, number, scope_of(number)));
        (0..60).step_by(7).for_each(|slot| slots.clear(Slot(slot)));
        for _ in 0..2 {
            assert!(slots.owners().all(|slot| slots.scope(slot) == scope_of(slots.request_number(slot))));
            slots.renumber();
        }
        assert_eq!(slots.len(), 60 - 9);
    }

    #[test]
    fn slots_tell_whether_they_are_in_order() {
        let mut slots = Slots::new();
        [5, 9].iter().for_each(|&number| slots.push(1, ROOT, number, Scope::GLOBAL));
        let bytes = postcard::to_allocvec(&slots).expect("memory");
        let read: Slots = postcard::from_bytes(&bytes).expect("what was written");
        assert_eq!([0, 1].map(|slot| read.request_number(Slot(slot))), [5, 9]);
        assert!(read.are_in_order());
        let mut slots = Slots::new();
        [9, 5].iter().for_each(|&number| slots.push(1, ROOT, number, Scope::GLOBAL));
        assert!(!slots.are_in_order());
    }
}
