//! The host's part of a tree, which is empty without HiCache.

use super::node::{NONE, NodeIndex};
use std::collections::BTreeMap;

/// The host's part of a tree.
#[derive(Debug, Clone)]
pub(super) struct HostSide {
    /// Nodes without children that only the host holds and that may be evicted from it, by stamp.
    pub(super) leaves: BTreeMap<u64, NodeIndex>,
    /// The node that is matched, while room is made to load it back.
    pub(super) pinned: NodeIndex,
    /// Pages on the host.
    pub(super) pages: u64,
    /// Pages written to it since the start; not saved.
    pub(super) written: u64,
    /// Nodes that were on both sides when they got their place, in that order. Who left a side since stays until
    /// somebody looks.
    pub(super) duplicates: BTreeMap<u64, NodeIndex>,
    /// The last place given.
    pub(super) sequence: u64,
}

impl HostSide {
    pub(super) fn new() -> Self {
        let (leaves, duplicates) = (BTreeMap::new(), BTreeMap::new());
        Self { leaves, pinned: NONE, pages: 0, written: 0, duplicates, sequence: 0 }
    }

    /// Entries of its maps.
    pub(super) fn entries(&self) -> usize {
        self.leaves.len() + self.duplicates.len()
    }
}
