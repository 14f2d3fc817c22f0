//! How many pages the newer slots have: sums over groups of slots, in levels.
//!
//! A group's sum enters the level above once the group is full, and what is still open is one number a level.
//! So a request that comes writes nothing but the open leaf, and one that meets the slots of the last few
//! requests, as most do, reads no further up than to the group both are in.

use crate::units::heap::{flat, heap_bytes};

/// Entries summed up in one of the level above: one cache line of them.
const FAN: usize = 16;

/// Sums of leaves or of lines that lie in one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct SumLine([u32; FAN]);

flat!(SumLine);

/// The sums of the full groups below.
#[derive(Debug, Default)]
struct SumLevel {
    lines: Vec<SumLine>,
    /// What the entries of the last line add up to, while the level above has no entry for it.
    open: u32,
}

heap_bytes!(SumLevel { lines; open });

impl SumLevel {
    /// Adds the next group's sum; returns that of the line if it is full now.
    fn push(&mut self, at: usize, sum: u32) -> Option<u32> {
        if at / FAN == self.lines.len() {
            reserve_in_steps(&mut self.lines);
            self.lines.push(SumLine::default());
        }
        self.lines[at / FAN].0[at % FAN] = sum;
        // Wraps only on bytes that are no snapshot, which `Slots::is_sound` refuses.
        self.open = self.open.wrapping_add(sum);
        (at % FAN == FAN - 1).then(|| std::mem::take(&mut self.open))
    }
}

/// Sums over all leaves that are full.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// The lowest level has an entry a leaf, every further one an entry for each full line below.
    levels: Vec<SumLevel>,
    leaves: usize,
}

heap_bytes!(Sums { levels; leaves });

impl Sums {
    /// Full leaves.
    pub(super) fn leaves(&self) -> usize {
        self.leaves
    }

    /// Forgets all leaves, keeping the memory for the next ones.
    pub(super) fn clear(&mut self) {
        self.leaves = 0;
        for level in &mut self.levels {
            level.lines.clear();
            level.open = 0;
        }
    }

    /// Adds a leaf that is full now, and what it adds up to.
    pub(super) fn push(&mut self, leaf: u32) {
        let (mut at, mut sum) = (self.leaves, leaf);
        self.leaves += 1;
        for level in &mut self.levels {
            let Some(line) = level.push(at, sum) else { return };
            (at, sum) = (at / FAN, line);
        }
        let mut top = SumLevel::default();
        top.push(at, sum);
        self.levels.push(top);
    }

    /// Adds pages to a leaf.
    pub(super) fn add(&mut self, leaf: usize, pages: u32) {
        let (mut at, mut full) = (leaf, self.leaves);
        for level in &mut self.levels {
            let line = at / FAN;
            level.lines[line].0[at % FAN] += pages;
            full /= FAN;
            if line == full {
                level.open += pages;
                return;
            }
            at = line;
        }
    }

    /// Takes pages away from a leaf. Returns those of all newer full ones.
    pub(super) fn take(&mut self, leaf: usize, pages: u32) -> u32 {
        let (mut at, mut full, mut newer) = (leaf, self.leaves, 0);
        for level in &mut self.levels {
            let line = at / FAN;
            newer += take_from(&mut level.lines[line].0, at, pages);
            full /= FAN;
            if line == full {
                level.open -= pages;
                break;
            }
            newer += level.open;
            at = line;
        }
        newer
    }
}

/// For every number of entries of a line, all ones at those after so many. No entry has the same in all of these: the
/// compiler would leave that one out, and make no vectors of the others.
const FROM: [SumLine; FAN + 1] = {
    let mut masks = [SumLine([0; FAN]); FAN + 1];
    let mut at = 0;
    while at < FAN * FAN {
        masks[at / FAN].0[at % FAN] = if at % FAN >= at / FAN { u32::MAX } else { 0 };
        at += 1;
    }
    masks
};

/// Takes pages away from an element, given its number among all and the group it is in; returns the sum of what follows
/// it there. All of the group are read and masked: nobody could predict a branch on which of them count. A function by
/// itself: among other sums the compiler makes no vectors of these.
#[inline(never)]
pub(super) fn take_from<const ENTRIES: usize>(group: &mut [u32; ENTRIES], element: usize, pages: u32) -> u32 {
    let entry = element % ENTRIES;
    let following = &FROM[FAN - ENTRIES + entry + 1].0[FAN - ENTRIES..];
    let newer = group.iter().zip(following).map(|(sum, mask)| sum & mask).sum();
    group[entry] -= pages;
    newer
}

/// Grows an array by half, so that spare room stays a third of it: smaller steps copy it more often.
pub(super) fn reserve_in_steps<T>(values: &mut Vec<T>) {
    if values.len() == values.capacity() {
        values.reserve_exact((values.len() / 2).max(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Leaves enough for three levels, and takes between the pushes.
        #[test]
        fn sums_of_full_groups_equal_adding_up(
            steps in prop::collection::vec((0u32..50, any::<prop::sample::Index>(), 0u32..50), 1..700),
            cleared_at in 0usize..700,
        ) {
            let (mut sums, mut model) = (Sums::default(), Vec::<u32>::new());
            for (at, (leaf, index, pages)) in steps.into_iter().enumerate() {
                if at == cleared_at {
                    sums.clear();
                    model.clear();
                }
                sums.push(leaf);
                model.push(leaf);
                prop_assert_eq!(sums.leaves(), model.len());
                let index = index.index(model.len());
                let pages = pages.min(model[index]);
                let newer: u32 = model[index + 1..].iter().sum();
                prop_assert_eq!(sums.take(index, pages), newer);
                model[index] -= pages;
                sums.add(index / 2, pages);
                model[index / 2] += pages;
            }
        }
    }
}
