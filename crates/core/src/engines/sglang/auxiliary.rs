//! What a pool alongside that of full attention holds of a tree's nodes, in the order in which it gives them up.
//!
//! The pool of windows has the last pages of what was computed, of whole nodes; a pool of states has one at the end
//! of a node. Device and host have one each. The order is a list, for a part that is split off comes right behind the
//! rest. On the device a node is in it while the pool holds it; on the host while the device does not hold it as
//! well.

use super::node::{NONE, NodeIndex};
use crate::units::heap::{flat, heap_bytes};

/// A node's place in the order.
#[derive(Debug, Clone, Copy)]
struct OrderLink {
    /// Pages of the pool that the node has.
    pages: u32,
    /// Who reads them: the request being served, and copies to the host.
    locks: u32,
    /// Whether it is in the order.
    is_listed: bool,
    newer: NodeIndex,
    older: NodeIndex,
}

flat!(OrderLink);

impl OrderLink {
    const NONE: Self = Self { pages: 0, locks: 0, is_listed: false, newer: NONE, older: NONE };
}

/// The nodes that the pool holds, and their order; empty in a tree of one pool.
#[derive(Debug, Clone)]
pub(super) struct Auxiliary {
    /// By the node's place in the arena, as far as any was held.
    links: Vec<OrderLink>,
    newest: NodeIndex,
    oldest: NodeIndex,
    pages: u64,
    locked_pages: u64,
    /// Pages of a window; none where what a node has lies at its end, so that a split leaves it to the lower part.
    window: Option<u64>,
}

heap_bytes!(Auxiliary { links; newest, oldest, pages, locked_pages, window });

impl Auxiliary {
    /// An empty pool: of windows of so many pages, or of states, where each node that it holds counts as one page.
    pub(super) fn new(window: Option<u64>) -> Self {
        Self { links: Vec::new(), newest: NONE, oldest: NONE, pages: 0, locked_pages: 0, window }
    }

    /// Pages of a window; none in a pool of states.
    pub(super) fn window(&self) -> Option<u64> {
        self.window
    }

    /// Pages of the pool that nodes have.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Those of nodes that are locked.
    pub(super) fn locked_pages(&self) -> u64 {
        self.locked_pages
    }

    /// Pages of the pool that a node has.
    pub(super) fn pages_of(&self, index: NodeIndex) -> u64 {
        u64::from(self.link(index).pages)
    }

    /// Whether the pool holds a node.
    pub(super) fn holds(&self, index: NodeIndex) -> bool {
        self.link(index).pages > 0
    }

    /// Keeps a node, held or not, from being given up, until it is unlocked as often.
    pub(super) fn lock(&mut self, index: NodeIndex) {
        let link = self.link_mut(index);
        link.locks += 1;
        let first = u64::from(link.locks == 1);
        self.locked_pages += first * self.pages_of(index);
    }

    /// Unlocks a node once.
    pub(super) fn unlock(&mut self, index: NodeIndex) {
        let link = self.link_mut(index);
        debug_assert!(link.locks > 0, "what is unlocked was locked");
        link.locks = link.locks.saturating_sub(1);
        let last = u64::from(link.locks == 0);
        self.locked_pages -= last * self.pages_of(index);
    }

    /// Holds a node of so many pages, the newest of all.
    pub(super) fn hold(&mut self, index: NodeIndex, pages: u64) {
        self.hold_apart(index, pages);
        self.list(index);
    }

    /// Holds a node of so many pages that is not in the order.
    pub(super) fn hold_apart(&mut self, index: NodeIndex, pages: u64) {
        debug_assert!(pages > 0 && !self.holds(index), "a node is held once");
        let link = self.link_mut(index);
        // A node's pages are counted in 32 bits.
        link.pages = pages as u32;
        let is_locked = link.locks > 0;
        self.pages += pages;
        self.locked_pages += if is_locked { pages } else { 0 };
    }

    /// Drops a node, where it is held.
    pub(super) fn drop(&mut self, index: NodeIndex) {
        self.unlist(index);
        let OrderLink { pages, locks, .. } = self.link(index);
        if pages > 0 {
            self.pages -= u64::from(pages);
            self.locked_pages -= if locks > 0 { u64::from(pages) } else { 0 };
            self.link_mut(index).pages = 0;
        }
    }

    /// A held node that is not in the order becomes the newest.
    pub(super) fn list(&mut self, index: NodeIndex) {
        if self.holds(index) && !self.link(index).is_listed {
            self.put_behind(NONE, index);
        }
    }

    /// Takes a node out of the order, which is held all the same.
    pub(super) fn unlist(&mut self, index: NodeIndex) {
        if self.link(index).is_listed {
            self.take_out(index);
        }
    }

    /// A node in the order becomes the next older one of `younger`, or the newest where that is [`NONE`].
    pub(super) fn move_behind(&mut self, younger: NodeIndex, index: NodeIndex) {
        self.take_out(index);
        self.put_behind(younger, index);
    }

    /// A node is split: the first pages of what it has are those of `upper`, right behind it, which is locked as it
    /// is; a state stays with `lower`, and so does its lock.
    pub(super) fn split(&mut self, lower: NodeIndex, upper: NodeIndex, at: u64) {
        let OrderLink { pages, locks, is_listed, .. } = self.link(lower);
        if self.window.is_none() || pages == 0 && locks == 0 {
            return;
        }
        self.link_mut(upper).locks = locks;
        if pages > 0 {
            self.link_mut(lower).pages = pages - at as u32;
            self.link_mut(upper).pages = at as u32;
        }
        if is_listed {
            self.put_behind(lower, upper);
        }
    }

    /// A node leaves the tree.
    pub(super) fn forget(&mut self, index: NodeIndex) {
        self.drop(index);
        debug_assert_eq!(self.link(index).locks, 0, "nobody reads what leaves");
    }

    /// The oldest node that is not locked, or the next newer one of `older`.
    pub(super) fn oldest_unlocked(&self, older: Option<NodeIndex>) -> Option<NodeIndex> {
        let mut index = older.map_or(self.oldest, |older| self.link(older).newer);
        while index != NONE && self.link(index).locks > 0 {
            index = self.link(index).newer;
        }
        (index != NONE).then_some(index)
    }

    /// Every node in the order, from the oldest.
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
        self.link_mut(index).is_listed = false;
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
        (link.newer, link.older, link.is_listed) = (younger, older, true);
    }
}
