//! One LRU slot a request: how many pages still belong to it, and suffix sums over them.

use super::tree::NodeId;
use crate::core::packed;
use crate::core::pages::Scope;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// A request's place in the LRU order; larger is more recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Slot(pub(super) u32);

/// What a slot keeps beside its weight, read only when its pages are met again or forgotten.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, packed(4))]
struct Owner {
    /// Number of the request in its pool.
    number: u64,
    /// The scope its ids live in.
    scope: Scope,
    /// The node its last page with an id ends at; the root when it only has unshared outputs.
    tail: NodeId,
}

/// All slots in LRU order with a Fenwick tree over their weights.
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Columns")]
pub(super) struct Slots {
    /// Pages that belong to each slot.
    #[serde(with = "packed")]
    weights: Vec<u32>,
    /// `sums[i]` holds the weights of the `lowbit(i + 1)` slots that end at `i`.
    #[serde(skip)]
    sums: Vec<u32>,
    #[serde(with = "packed")]
    owners: Vec<Owner>,
    /// Slots with a weight.
    #[serde(skip)]
    live: usize,
    /// Sum of all weights.
    #[serde(skip)]
    total: u64,
    /// No slot before this one has a weight.
    #[serde(skip)]
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
            slots.push_owned(weight, owner);
        }
        Ok(slots)
    }
}

impl Slots {
    /// Dead slots tolerated before renumbering pays.
    const SLACK: usize = 1024;

    pub(super) fn new() -> Self {
        Self { weights: Vec::new(), sums: Vec::new(), owners: Vec::new(), live: 0, total: 0, first_live: 0 }
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
        u64::from(self.weights[slot.0 as usize])
    }

    /// `W(slot + 1)`: pages of all slots newer than this one.
    pub(super) fn newer_pages(&self, slot: Slot) -> u64 {
        let index = slot.0 as usize;
        // A request nearly always meets slots of the last few requests: adding those up directly reads
        // one cache line where the tree would read one a level.
        let newer = &self.weights[index + 1..];
        if newer.len() <= 32 {
            return newer.iter().map(|&weight| u64::from(weight)).sum();
        }
        self.total - self.prefix(index + 1)
    }

    /// Pages of the first `count` slots.
    fn prefix(&self, count: usize) -> u64 {
        let mut sum = 0;
        let mut end = count;
        while end > 0 {
            sum += u64::from(self.sums[end - 1]);
            end &= end - 1;
        }
        sum
    }

    /// Number of the request that owns the slot.
    pub(super) fn request_number(&self, slot: Slot) -> u64 {
        self.owners[slot.0 as usize].number
    }

    /// Scope of the request that owns the slot.
    pub(super) fn scope(&self, slot: Slot) -> Scope {
        self.owners[slot.0 as usize].scope
    }

    /// Node where the slot's stretch ends.
    pub(super) fn tail(&self, slot: Slot) -> NodeId {
        self.owners[slot.0 as usize].tail
    }

    /// Takes pages away from a slot.
    pub(super) fn take(&mut self, slot: Slot, pages: u32) {
        if pages == 0 {
            return;
        }
        let index = slot.0 as usize;
        debug_assert!(self.weights[index] >= pages, "a slot gives no more pages than it has");
        self.weights[index] -= pages;
        self.live -= usize::from(self.weights[index] == 0);
        self.total -= u64::from(pages);
        let mut at = index;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum -= pages;
            at |= at + 1;
        }
    }

    /// Takes all its pages away from a slot.
    pub(super) fn clear(&mut self, slot: Slot) {
        self.take(slot, self.weights[slot.0 as usize]);
    }

    /// The slot the next request will get.
    pub(super) fn next_slot(&self) -> Slot {
        Slot(self.weights.len() as u32)
    }

    /// Adds the newest slot.
    pub(super) fn push(&mut self, weight: u32, tail: NodeId, number: u64, scope: Scope) {
        self.push_owned(weight, Owner { number, scope, tail });
    }

    fn push_owned(&mut self, weight: u32, owner: Owner) {
        let index = self.weights.len();
        // Wraps only on bytes that are no snapshot, which `is_sound` refuses.
        let mut sum = weight;
        let first = index & (index + 1);
        let mut end = index;
        while end > first {
            sum = sum.wrapping_add(self.sums[end - 1]);
            end &= end - 1;
        }
        self.weights.push(weight);
        self.sums.push(sum);
        self.owners.push(owner);
        self.live += usize::from(weight > 0);
        self.total += u64::from(weight);
    }

    /// The oldest slot that owns pages.
    pub(super) fn oldest(&mut self) -> Option<Slot> {
        while *self.weights.get(self.first_live)? == 0 {
            self.first_live += 1;
        }
        Some(Slot(self.first_live as u32))
    }

    /// Whether dead slots outnumber what is worth keeping: a renumbering visits every slot and every
    /// node, so both pay for it.
    pub(super) fn crowded(&self, nodes: usize) -> bool {
        self.weights.len() >= 2 * self.live + nodes / 8 + Self::SLACK
    }

    /// Drops the dead slots, keeping the order; returns the new number of every old one. A dead
    /// slot's number is unused: no node carries it.
    pub(super) fn renumber(&mut self) -> Vec<Slot> {
        let mut renumbered = Vec::with_capacity(self.weights.len());
        let weights = std::mem::take(&mut self.weights);
        let owners = std::mem::take(&mut self.owners);
        self.sums.clear();
        (self.live, self.total, self.first_live) = (0, 0, 0);
        for (weight, owner) in weights.into_iter().zip(owners) {
            renumbered.push(self.next_slot());
            if weight > 0 {
                self.push_owned(weight, owner);
            }
        }
        renumbered
    }

    /// Slots, dead ones too.
    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether what a snapshot said fits together: every tail is a node, the sums fit their type.
    pub(super) fn is_sound(&self, nodes: usize) -> bool {
        let tails_exist = self.owners.iter().all(|owner| { owner.tail }.index() < nodes);
        tails_exist && self.total <= u64::from(u32::MAX)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.weights.capacity() + self.sums.capacity()) * size_of::<u32>()
            + self.owners.capacity() * size_of::<Owner>()
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
            weights in prop::collection::vec(1u32..50, 1..200),
            takes in prop::collection::vec((any::<prop::sample::Index>(), 0u32..50), 0..200),
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
                prop_assert_eq!(slots.weight(renumbered[index]), u64::from(weight));
                let newer: u32 = model[index + 1..].iter().sum();
                prop_assert_eq!(slots.newer_pages(renumbered[index]), u64::from(newer));
            }
        }
    }
}
