//! One LRU slot a request: how many pages still belong to it, and suffix sums over them.

use super::tree::SegmentId;
use super::{MAX_REQUEST_PAGES, MAX_TRACKED_PAGES};
use crate::core::packed::{self, Made};
use crate::core::pages::Scope;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize, Serializer};

/// A request's place in the LRU order; larger is more recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Slot(pub(super) u32);

impl Slot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Entries summed up in one of the level above: one cache line of them.
const FAN: usize = 16;

/// Entries that lie in one cache line.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u32; FAN]);

/// A level of sums. Entries nothing was added to yet are zero.
type Level = Vec<Line>;

/// What a slot keeps beside its weight, read only when its pages are met again or forgotten.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Toucher {
    /// Number of the request in its pool.
    number: u64,
    /// The segment of its last page with an id; the root when it only has unshared outputs.
    tail: SegmentId,
}

/// What a snapshot keeps of a slot beside its weight.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, packed(4))]
struct Owner {
    number: u64,
    scope: Scope,
    tail: SegmentId,
}

/// All slots in LRU order with sums over their weights.
///
/// The sums are a tree without pointers: changing a weight changes one number a level, and the pages newer
/// than a slot are what follows it in its group, a cache line at most, on every level.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Columns")]
pub(super) struct Slots {
    /// `sums[0]` holds the pages that belong to each slot, every further level the sums of [`FAN`] entries
    /// below. The highest one is a single line.
    sums: Vec<Level>,
    touchers: Vec<Toucher>,
    /// Scopes of the slots; empty as long as all of them are global.
    scopes: Vec<Scope>,
    /// Slots with a weight.
    live: usize,
    /// Sum of all weights.
    total: u64,
    /// No slot before this one has a weight.
    first_live: usize,
}

/// What a snapshot keeps of the slots; the sums follow from it.
#[derive(Deserialize)]
struct Columns {
    #[serde(with = "packed")]
    weights: Vec<u32>,
    #[serde(with = "packed")]
    owners: Vec<Owner>,
}

impl TryFrom<Columns> for Slots {
    type Error = &'static str;

    fn try_from(columns: Columns) -> Result<Self, Self::Error> {
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

/// [`Columns`] to be written.
#[derive(Serialize)]
struct ColumnsRef<W, O> {
    weights: W,
    owners: O,
}

impl Serialize for Slots {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let count = self.len();
        let weights = Made { count, element: |index: usize| self.weight_at(index) };
        let owner = |index: usize| {
            let Toucher { number, tail } = self.touchers[index];
            Owner { number, scope: self.scope(Slot(index as u32)), tail }
        };
        ColumnsRef { weights, owners: Made { count, element: owner } }.serialize(serializer)
    }
}

/// The numbers slots get when the dead ones are dropped: small, because every segment asks for one.
#[derive(Debug)]
pub(super) struct Renumbering {
    /// For every 64 old slots: how many live ones come before them, and which of them are live.
    ranks: Vec<(u32, u64)>,
}

impl Renumbering {
    /// The new number of a live slot.
    pub(super) fn of(&self, old: Slot) -> Slot {
        let (before, live) = self.ranks[old.index() / 64];
        let earlier = live & ((1 << (old.index() % 64)) - 1);
        Slot(before + earlier.count_ones())
    }

    /// Moves the elements of live slots to the front, without a branch on each: nobody can predict which are
    /// dead. Returns how many there are.
    fn compact<T: Copy>(&self, column: &mut [T]) -> usize {
        let mut kept = 0;
        for index in 0..column.len() {
            column[kept] = column[index];
            kept += (self.ranks[index / 64].1 >> (index % 64) & 1) as usize;
        }
        kept
    }
}

impl Slots {
    /// Dead slots tolerated before renumbering pays.
    const SLACK: usize = 1024;

    pub(super) fn new() -> Self {
        let sums = vec![Vec::new()];
        Self { sums, touchers: Vec::new(), scopes: Vec::new(), live: 0, total: 0, first_live: 0 }
    }

    fn weight_at(&self, index: usize) -> u32 {
        self.sums[0][index / FAN].0[index % FAN]
    }

    /// Reads what reporting a slot's pages reads.
    #[inline]
    pub(super) fn glance(&self, slot: Slot) -> u64 {
        self.weight(slot) ^ self.request_number(slot)
    }

    /// Pages of all slots.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Slots that own pages.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Pages of one slot.
    pub(super) fn weight(&self, slot: Slot) -> u64 {
        u64::from(self.weight_at(slot.index()))
    }

    /// `W(slot + 1)`: pages of all slots newer than this one.
    pub(super) fn newer_pages(&self, slot: Slot) -> u64 {
        let (mut newer, mut at) = (0, slot.index());
        for level in &self.sums {
            newer += sum_after(&level[at / FAN], at % FAN);
            at /= FAN;
            // A request nearly always meets slots of the last few requests: this was the level's last line.
            if at + 1 == level.len() {
                break;
            }
        }
        u64::from(newer)
    }

    /// Number of the request that owns the slot.
    pub(super) fn request_number(&self, slot: Slot) -> u64 {
        self.touchers[slot.index()].number
    }

    /// Scope of the request that owns the slot.
    pub(super) fn scope(&self, slot: Slot) -> Scope {
        self.scopes.get(slot.index()).copied().unwrap_or(Scope::GLOBAL)
    }

    /// Segment the slot's stretch ends in.
    pub(super) fn tail(&self, slot: Slot) -> SegmentId {
        self.touchers[slot.index()].tail
    }

    /// Takes pages away from a slot.
    pub(super) fn take(&mut self, slot: Slot, pages: u32) {
        if pages == 0 {
            return;
        }
        debug_assert!(self.weight(slot) >= u64::from(pages), "a slot gives no more pages than it has");
        let mut at = slot.index();
        for level in &mut self.sums {
            level[at / FAN].0[at % FAN] -= pages;
            at /= FAN;
        }
        self.live -= usize::from(self.weight(slot) == 0);
        self.total -= u64::from(pages);
    }

    /// Takes all its pages away from a slot.
    pub(super) fn clear(&mut self, slot: Slot) {
        self.take(slot, self.weight_at(slot.index()));
    }

    /// The slot the next request will get.
    pub(super) fn next_slot(&self) -> Slot {
        Slot(self.touchers.len() as u32)
    }

    /// Adds the newest slot.
    pub(super) fn push(&mut self, weight: u32, tail: SegmentId, number: u64, scope: Scope) {
        let index = self.touchers.len();
        reserve_in_steps(&mut self.touchers);
        self.touchers.push(Toucher { number, tail });
        if scope != Scope::GLOBAL || !self.scopes.is_empty() {
            self.scopes.resize(index, Scope::GLOBAL);
            self.scopes.push(scope);
        }
        self.live += usize::from(weight > 0);
        self.total += u64::from(weight);
        let mut at = index;
        for level in &mut self.sums {
            if at / FAN == level.len() {
                reserve_in_steps(level);
                level.push(Line::default());
            }
            // Wraps only on bytes that are no snapshot, which `is_sound` refuses.
            let sum = &mut level[at / FAN].0[at % FAN];
            *sum = sum.wrapping_add(weight);
            at /= FAN;
        }
        self.raise_sums();
    }

    /// Adds levels until the highest one is a single line.
    fn raise_sums(&mut self) {
        while let Some(top) = self.sums.last().filter(|top| top.len() > 1) {
            let add_up = |line: &Line| line.0.iter().fold(0, |sum: u32, &below| sum.wrapping_add(below));
            let mut above = vec![Line::default(); top.len().div_ceil(FAN)];
            for (at, line) in top.iter().enumerate() {
                above[at / FAN].0[at % FAN] = add_up(line);
            }
            self.sums.push(above);
        }
    }

    /// The oldest slot that owns pages.
    pub(super) fn oldest(&mut self) -> Option<Slot> {
        while self.first_live < self.len() && self.weight_at(self.first_live) == 0 {
            self.first_live += 1;
        }
        (self.first_live < self.len()).then_some(Slot(self.first_live as u32))
    }

    /// Whether dead slots outnumber what is worth keeping: a renumbering visits every slot and every
    /// segment, so both pay for it.
    pub(super) fn crowded(&self, segments: usize) -> bool {
        self.len() >= self.live + self.live / 2 + segments / 8 + Self::SLACK
    }

    /// Drops the dead slots, keeping the order; returns the live ones' new numbers.
    pub(super) fn renumber(&mut self) -> Renumbering {
        let mut ranks = Vec::with_capacity(self.len().div_ceil(64));
        let mut before = 0;
        for lines in self.sums[0].chunks(64 / FAN) {
            let weights = lines.iter().flat_map(|line| line.0).enumerate();
            let live = weights.fold(0, |live, (bit, weight)| live | u64::from(weight > 0) << bit);
            ranks.push((before, live));
            before += live.count_ones();
        }
        let renumbering = Renumbering { ranks };
        let live = renumbering.compact(&mut self.touchers);
        self.touchers.truncate(live);
        let scopes = renumbering.compact(&mut self.scopes);
        self.scopes.truncate(scopes);
        self.keep_live_weights(&renumbering);
        self.first_live = 0;
        renumbering
    }

    /// Drops the weights of dead slots, and makes the sums anew.
    fn keep_live_weights(&mut self, renumbering: &Renumbering) {
        let weights: &mut [u32] = bytemuck::cast_slice_mut(&mut self.sums[0]);
        let live = renumbering.compact(weights);
        weights[live..].fill(0);
        self.sums[0].truncate(live.div_ceil(FAN));
        self.sums.truncate(1);
        self.raise_sums();
    }

    /// Slots, dead ones too.
    pub(super) fn len(&self) -> usize {
        self.touchers.len()
    }

    /// Slots that own pages, from the oldest on.
    pub(super) fn owners(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.len()).filter(|&index| self.weight_at(index) > 0).map(|index| Slot(index as u32))
    }

    /// Whether what a snapshot said fits together: every tail is a segment, the sums fit their type and leave
    /// room for the next request.
    pub(super) fn is_sound(&self, segments: usize) -> bool {
        self.touchers.iter().all(|toucher| { toucher.tail }.index() < segments)
            && self.total <= MAX_TRACKED_PAGES + 2 * MAX_REQUEST_PAGES
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let sums: usize = self.sums.iter().map(|level| level.capacity() * size_of::<Line>()).sum();
        sums + self.touchers.capacity() * size_of::<Toucher>() + self.scopes.capacity() * size_of::<Scope>()
    }
}

/// For every entry of a line, all ones at those that follow it.
const FOLLOWING: [[u32; FAN]; FAN] = {
    let mut masks = [[0; FAN]; FAN];
    let mut at = 0;
    while at < FAN * FAN {
        masks[at / FAN][at % FAN] = if at % FAN > at / FAN { u32::MAX } else { 0 };
        at += 1;
    }
    masks
};

/// The sum of what follows an entry in its line. All entries are read and masked: nobody could predict a
/// branch on which of them count.
fn sum_after(line: &Line, entry: usize) -> u32 {
    line.0.iter().zip(&FOLLOWING[entry]).map(|(sum, mask)| sum & mask).sum()
}

/// Grows an array in small steps, so that spare room stays an eighth of it.
fn reserve_in_steps<T>(values: &mut Vec<T>) {
    if values.len() == values.capacity() {
        values.reserve_exact((values.len() / 8).max(64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::ROOT;
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
                slots.take(Slot(index as u32), pages);
                model[index] -= pages;
            }
            for index in 0..model.len() {
                let newer: u32 = model[index + 1..].iter().sum();
                prop_assert_eq!(slots.newer_pages(Slot(index as u32)), u64::from(newer));
            }
            prop_assert_eq!(slots.live(), model.iter().filter(|&&weight| weight > 0).count());
            let renumbered = slots.renumber();
            for (index, &weight) in model.iter().enumerate().filter(|(_, weight)| **weight > 0) {
                prop_assert_eq!(slots.weight(renumbered.of(Slot(index as u32))), u64::from(weight));
                let newer: u32 = model[index + 1..].iter().sum();
                prop_assert_eq!(slots.newer_pages(renumbered.of(Slot(index as u32))), u64::from(newer));
            }
        }
    }
}
