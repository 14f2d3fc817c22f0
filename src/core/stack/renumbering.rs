//! The numbers slots get when the dead ones are dropped.

use super::slots::Slot;
use std::iter::from_fn;

/// Small, because every segment asks for a number.
#[derive(Debug)]
pub(super) struct Renumbering {
    /// For every 64 old slots, and those to come: how many live ones come before them, and which of them are
    /// live.
    ranks: Vec<(u32, u64)>,
}

impl Renumbering {
    /// What becomes of slots of which each word says for 64 which are live, the first in its lowest bit.
    pub(super) fn of_words(words: impl Iterator<Item = u64>) -> Self {
        let mut before = 0;
        let rank = |live: u64| {
            let rank = (before, live);
            before += live.count_ones();
            rank
        };
        // What comes next has a number too.
        Self { ranks: words.chain([0]).map(rank).collect() }
    }

    /// The new number of a live slot; of a dead one, that of the next live one.
    pub(super) fn of(&self, old: Slot) -> Slot {
        let (before, live) = self.ranks[old.index() / 64];
        let earlier = live & ((1 << (old.index() % 64)) - 1);
        Slot(before + earlier.count_ones())
    }

    /// The live slots before the renumbering, in order.
    pub(super) fn live(&self) -> impl Iterator<Item = usize> {
        let words = self.ranks.iter().map(|&(_, live)| live).enumerate();
        words.flat_map(|(word, mut live)| {
            from_fn(move || {
                let lowest = (live != 0).then(|| live.trailing_zeros() as usize)?;
                live &= live - 1;
                Some(64 * word + lowest)
            })
        })
    }
}
