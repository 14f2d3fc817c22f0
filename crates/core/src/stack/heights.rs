//! How many pages lie at or above each slot, and the most that ever did since the slot was made.
//!
//! Pages of requests in flight lie above every slot. Some of them have no id and go again when their request ends (a
//! partial page, above all), so that the height of a slot may fall; what was evicted while it was high stays evicted.
//! A page therefore needs the *highest* height of its slot since its release, not the present one.
//!
//! A complete binary tree over the slots, in their order. A node holds what was added to all slots below it and not
//! handed down yet: the sum, and the largest sum on the way there. Ancestors are handed down before anything is added
//! below them, so what a node holds is always later than what its descendants hold. Adding to the newer slots,
//! adding a slot and asking for one cost a step a level.

use super::ids::Slot;
use crate::units::heap::{flat, heap_bytes};
use serde::{Deserialize, Serialize};

/// Additions in their order: their sum, and the largest sum of the first few of them. Of a leaf: the height and the
/// highest one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Height {
    now: i64,
    most: i64,
}

flat!(Height);

impl Height {
    /// A height that was never higher.
    pub(super) fn new(now: u64) -> Self {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        Self { now, most: now }
    }

    /// The same once it is lower, with what it was at most.
    pub(super) fn fall_to(self, now: u64) -> Self {
        Self { now: Self::new(now).now, ..self }
    }

    /// The height of a slot that lies above so many pages of this one.
    pub(super) fn lower(&mut self, pages: u32) {
        self.now -= i64::from(pages);
        self.most -= i64::from(pages);
    }

    /// The same with so many pages above for a moment.
    pub(super) fn with_room(self, pages: u64) -> Self {
        let raised = Self::new(self.now.unsigned_abs() + pages);
        Self { most: self.most.max(raised.most), ..self }
    }

    /// How much higher it was once.
    pub(super) fn fallen(self) -> u64 {
        self.most.abs_diff(self.now)
    }

    /// Pages at or above the slot, at the worst moment since it was made.
    pub(super) fn most(self) -> u64 {
        u64::try_from(self.most).unwrap_or(0)
    }

    /// Appends later additions.
    fn then(&mut self, later: Self) {
        self.most = self.most.max(self.now + later.most);
        self.now += later.now;
    }
}

/// The heights of all slots.
#[derive(Debug, Default)]
pub(super) struct Heights {
    /// The root at 1, the children of `n` at `2n` and `2n + 1`, the leaves in the second half.
    nodes: Vec<Height>,
    len: usize,
}

heap_bytes!(Heights { nodes; len });

const ROOT: usize = 1;

impl Heights {
    /// The heights of slots that exist already, the oldest first.
    pub(super) fn of(heights: impl ExactSizeIterator<Item = Height>) -> Self {
        let len = heights.len();
        let room = len.next_power_of_two().max(2);
        let mut nodes = vec![Height::default(); 2 * room];
        nodes[room..].iter_mut().zip(heights).for_each(|(leaf, height)| *leaf = height);
        Self { nodes, len }
    }

    fn room(&self) -> usize {
        self.nodes.len() / 2
    }

    /// Adds the newest slot.
    pub(super) fn push(&mut self, height: Height) {
        if self.len == self.room() {
            let mut heights: Vec<Height> = self.iter().collect();
            heights.resize(2 * self.len.max(1), Height::default());
            let len = self.len;
            *self = Self { len, ..Self::of(heights.into_iter()) };
        }
        let leaf = self.room() + self.len;
        self.hand_down_to(leaf, |_, _| {});
        self.nodes[leaf] = height;
        self.len += 1;
    }

    /// Adds so many pages above every slot, or takes them away.
    pub(super) fn add_to_all(&mut self, pages: i64) {
        if let Some(root) = self.nodes.get_mut(ROOT) {
            root.then(Height { now: pages, most: pages.max(0) });
        }
    }

    /// Adds so many pages above every slot newer than this one, or takes them away.
    pub(super) fn add_to_newer(&mut self, slot: Slot, pages: i64) {
        let addition = Height { now: pages, most: pages.max(0) };
        let leaf = self.room() + slot.index();
        self.hand_down_to(leaf, |nodes, node| {
            if node & 1 == 0 {
                nodes[node | 1].then(addition);
            }
        });
    }

    /// Hands down what the ancestors of a leaf hold, from the root on; calls `passed` for every node below the root on
    /// the way, the leaf too, once its parent is empty.
    fn hand_down_to(&mut self, leaf: usize, passed: impl Fn(&mut [Height], usize)) {
        for level in (0..leaf.ilog2()).rev() {
            let (parent, node) = (leaf >> (level + 1), leaf >> level);
            let held = std::mem::take(&mut self.nodes[parent]);
            if held != Height::default() {
                self.nodes[node & !1].then(held);
                self.nodes[node | 1].then(held);
            }
            passed(&mut self.nodes, node);
        }
    }

    /// The height of a slot.
    pub(super) fn get(&self, slot: Slot) -> Height {
        let leaf = self.room() + slot.index();
        let mut height = self.nodes[leaf];
        let ancestors = std::iter::successors(Some(leaf / 2), |node| Some(node / 2));
        ancestors.take_while(|node| *node >= ROOT).for_each(|node| height.then(self.nodes[node]));
        height
    }

    /// The heights of all slots, the oldest first.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Height> + '_ {
        (0..self.len).map(|slot| self.get(Slot(slot as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u64),
        All(i64),
        Newer(prop::sample::Index, i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..100).prop_map(Step::Push),
            (-20i64..20).prop_map(Step::All),
            (any::<prop::sample::Index>(), -20i64..20).prop_map(|(slot, pages)| Step::Newer(slot, pages)),
        ]
    }

    proptest! {
        #[test]
        fn heights_equal_those_kept_slot_by_slot(steps in prop::collection::vec(step(), 0..300)) {
            let mut heights = Heights::default();
            let mut model: Vec<Height> = Vec::new();
            for step in steps {
                let add = |model: &mut [Height], pages: i64| {
                    for height in model {
                        height.now += pages;
                        height.most = height.most.max(height.now);
                    }
                };
                match step {
                    Step::Push(height) => {
                        heights.push(Height::new(height));
                        model.push(Height::new(height));
                    }
                    Step::All(pages) => {
                        heights.add_to_all(pages);
                        add(&mut model, pages);
                    }
                    Step::Newer(..) if model.is_empty() => {}
                    Step::Newer(slot, pages) => {
                        let slot = slot.index(model.len());
                        heights.add_to_newer(Slot(slot as u32), pages);
                        add(&mut model[slot + 1..], pages);
                    }
                }
                prop_assert_eq!(heights.iter().collect::<Vec<_>>(), model.clone());
            }
        }
    }
}
