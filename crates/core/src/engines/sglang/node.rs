//! A node of the radix tree.

use crate::units::heap::flat;

/// A node's place in the arena.
pub(super) type NodeIndex = u32;

/// The root: it has no pages and is never evicted.
pub(super) const ROOT: NodeIndex = 0;

/// No node: the parent of the root and of free places.
pub(super) const NONE: NodeIndex = u32::MAX;

/// A node: a run of pages that were inserted, and will be evicted, together.
#[derive(Debug, Clone)]
pub(super) struct SglangNode {
    /// When the node was last stamped; no two nodes have the same stamp.
    pub stamp: u64,
    /// Where its label starts in the tree's buffer.
    pub(super) start: usize,
    /// Pages with an id.
    pub(super) ids: u32,
    /// Pages after those that nobody can share, so they need no id. What continues such a node has no id either.
    pub private: u32,
    pub parent: NodeIndex,
    pub(super) children: u32,
    /// Children that the device holds.
    pub(super) device_children: u32,
    /// Requests in flight whose path it is on.
    pub(super) locks: u32,
    /// Whether the device holds it. What is above a node on the device is there as well.
    pub on_device: bool,
    /// Whether the host holds it.
    pub on_host: bool,
    /// Insertions that passed it, up to the number at which it is written to the host.
    pub insertions: u8,
    /// Whether it is being loaded back, so that its copy on the host must stay.
    pub loading: bool,
    /// Its place in the order of nodes on both sides; 0 where it has none.
    pub duplicate: u64,
    /// The step of the scheduler in which it was written to the host last.
    pub written: u64,
}

flat!(SglangNode);

impl SglangNode {
    /// Pages it stands for.
    pub(super) fn pages(&self) -> u64 {
        u64::from(self.ids) + u64::from(self.private)
    }

    /// Whether it is on both sides, and no copy from one to the other is on its way.
    pub(super) fn is_on_both(&self) -> bool {
        self.on_device && self.on_host && !self.loading
    }

    /// A node of no pages on the device.
    pub(super) fn on_device(stamp: u64, parent: NodeIndex) -> Self {
        Self {
            stamp,
            start: 0,
            ids: 0,
            private: 0,
            parent,
            children: 0,
            device_children: 0,
            locks: 0,
            on_device: true,
            on_host: false,
            insertions: 0,
            loading: false,
            duplicate: 0,
            written: 0,
        }
    }
}
