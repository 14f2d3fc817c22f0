//! The numbers slots get when the dead ones are dropped.

use super::ids::{LEAF, Slot};

/// The new numbers of one leaf's slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranks {
    /// Live slots before the leaf.
    before: u32,
    /// Live slots before each of its slots, in four bits each.
    within: u32,
}

impl Ranks {
    /// The new number of a live slot of the leaf; of a dead one, that of the next live one.
    #[inline]
    pub(super) fn of(self, entry: usize) -> u32 {
        self.before + (self.within >> (4 * entry) & 15)
    }
}

/// Small, because every segment asks for a number: a byte a slot.
#[derive(Debug)]
pub(super) struct Renumbering {
    leaves: Vec<Ranks>,
    /// Live slots so far.
    live: u32,
}

impl Renumbering {
    /// Of no leaf yet, with room for so many.
    pub(super) fn with_capacity(leaves: usize) -> Self {
        Self { leaves: Vec::with_capacity(leaves), live: 0 }
    }

    /// Adds a leaf whose slots have these weights.
    #[inline]
    pub(super) fn push(&mut self, weights: &[u32; LEAF]) -> Ranks {
        /// A product with it adds up, for each four bits, those below too.
        const ONES: u32 = 0x1111_1111;
        let lives = weights.iter().rev().fold(0, |lives, &weight| lives << 4 | u32::from(weight > 0));
        let up_to = lives.wrapping_mul(ONES);
        let ranks = Ranks { before: self.live, within: up_to << 4 };
        self.live += up_to >> 28;
        self.leaves.push(ranks);
        ranks
    }

    /// The new number of a live slot; of a dead one, that of the next live one. What is no slot of the order stays.
    #[inline]
    pub(super) fn of(&self, old: Slot) -> Slot {
        let leaf = self.leaves.get(old.index() / LEAF);
        leaf.map_or(old, |ranks| Slot(ranks.of(old.index() % LEAF)))
    }
}
