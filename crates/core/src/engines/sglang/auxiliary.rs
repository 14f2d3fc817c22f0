//! What a pool alongside that of full attention holds of a tree's nodes, in the order in which it gives them up.
//!
//! The pool of windows has the last pages of what was computed, of whole nodes; a pool of states has one at the end of a node.
//! A node is in the order while the pool holds it, and the order is a list, for a part that is split off comes right behind
//! the rest.

use super::node::{NONE, NodeIndex};

/// A node's place in the order.
#[derive(Debug, Clone, Copy)]
struct OrderLink {
    /// Pages of the pool that the node has; 0 where it is not in the order.
    pages: u32,
    /// Whether the request being served reads them.
    is_locked: bool,
    newer: NodeIndex,
    older: NodeIndex,
}

impl OrderLink {
    const NONE: Self = Self { pages: 0, is_locked: false, newer: NONE, older: NONE };
}

/// The order of the nodes that the pool holds; empty in a tree of one pool.
#[derive(Debug, Clone)]
pub(super) struct Auxiliary {
    /// By the node's place in the arena, as far as any was in the order.
    links: Vec<OrderLink>,
    newest: NodeIndex,
    oldest: NodeIndex,
    pages: u64,
    /// Whether what a node has lies at its end, so that a split leaves it to the lower part.
    is_at_end: bool,
}

impl Auxiliary {
    pub(super) fn new() -> Self {
        Self { links: Vec::new(), newest: NONE, oldest: NONE, pages: 0, is_at_end: false }
    }

    /// The same of a pool of states: each node that it holds counts as one page.
    pub(super) fn of_states() -> Self {
        Self { is_at_end: true, ..Self::new() }
    }

    /// Pages of the pool that nodes have.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Bytes of memory taken.
    pub(super) fn memory_bytes(&self) -> usize {
        self.links.capacity() * size_of::<OrderLink>()
    }

    /// Pages of the pool that a node has.
    pub(super) fn pages_of(&self, index: NodeIndex) -> u64 {
        u64::from(self.link(index).pages)
    }

    /// Whether the pool holds a node.
    pub(super) fn holds(&self, index: NodeIndex) -> bool {
        self.link(index).pages > 0
    }

    /// Whether the request being served reads a node.
    pub(super) fn is_locked(&self, index: NodeIndex) -> bool {
        self.link(index).is_locked
    }

    /// Locks or unlocks a node, held or not.
    pub(super) fn set_locked(&mut self, index: NodeIndex, is_locked: bool) {
        if is_locked || self.is_locked(index) {
            self.link_mut(index).is_locked = is_locked;
        }
    }

    /// Holds a node of so many pages, the newest of all.
    pub(super) fn hold(&mut self, index: NodeIndex, pages: u64) {
        debug_assert!(pages > 0 && !self.holds(index), "a node enters the order once");
        // A node's pages are counted in 32 bits.
        self.link_mut(index).pages = pages as u32;
        self.pages += pages;
        self.put_behind(NONE, index);
    }

    /// Drops a node, where it is held.
    pub(super) fn drop(&mut self, index: NodeIndex) {
        if self.holds(index) {
            self.take_out(index);
            self.pages -= self.pages_of(index);
            self.link_mut(index).pages = 0;
        }
    }

    /// A held node becomes the next older one of `younger`, or the newest where that is [`NONE`].
    pub(super) fn move_behind(&mut self, younger: NodeIndex, index: NodeIndex) {
        self.take_out(index);
        self.put_behind(younger, index);
    }

    /// A node is split: the first pages of what it has are those of `upper`, right behind it, which is locked as it is; a
    /// state stays with `lower`, and so does its lock.
    pub(super) fn split(&mut self, lower: NodeIndex, upper: NodeIndex, at: u64) {
        if self.is_at_end {
            return;
        }
        let OrderLink { pages, is_locked, .. } = self.link(lower);
        self.set_locked(upper, is_locked);
        if pages > 0 {
            self.link_mut(lower).pages = pages - at as u32;
            self.link_mut(upper).pages = at as u32;
            self.put_behind(lower, upper);
        }
    }

    /// A node leaves the tree.
    pub(super) fn forget(&mut self, index: NodeIndex) {
        self.drop(index);
        self.set_locked(index, false);
    }

    /// The oldest node that is not locked, or the next newer one of `older`.
    pub(super) fn oldest_unlocked(&self, older: Option<NodeIndex>) -> Option<NodeIndex> {
        let mut index = older.map_or(self.oldest, |older| self.link(older).newer);
        while index != NONE && self.is_locked(index) {
            index = self.link(index).newer;
        }
        (index != NONE).then_some(index)
    }

    /// Every node held, from the oldest.
    pub(super) fn in_order(&self) -> impl Iterator<Item = NodeIndex> {
        let next = |index: &NodeIndex| Some(self.link(*index).newer);
        std::iter::successors(Some(self.oldest), next).take_while(|index| *index != NONE)
    }

    fn link(&self, index: NodeIndex) -> OrderLink {
        self.links.get(index as usize).copied().unwrap_or(OrderLink::NONE)
    }

    fn link_mut(&mut self, index: NodeIndex) -> &mut OrderLink {
        if self.links.len() <= index as usize {
            self.links.resize(index as usize + 1, OrderLink::NONE);
        }
        &mut self.links[index as usize]
    }

    fn take_out(&mut self, index: NodeIndex) {
        let OrderLink { newer, older, .. } = self.link(index);
        match newer {
            NONE => self.newest = older,
            newer => self.link_mut(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.link_mut(older).newer = newer,
        }
    }

    fn put_behind(&mut self, younger: NodeIndex, index: NodeIndex) {
        let older = match younger {
            NONE => std::mem::replace(&mut self.newest, index),
            younger => std::mem::replace(&mut self.link_mut(younger).older, index),
        };
        match older {
            NONE => self.oldest = index,
            older => self.link_mut(older).newer = index,
        }
        let link = self.link_mut(index);
        (link.newer, link.older) = (younger, older);
    }
}
