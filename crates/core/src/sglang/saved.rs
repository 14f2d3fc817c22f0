//! The cache's state as plain data, for snapshots.

use super::tree::{NONE, NodeIndex, ROOT, Tree};
use super::{CapacityTooLarge, SglangCache};
use crate::profile::Outputs;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize, Serializer};

/// All that decides the cache's future answers. Two caches that answer alike save alike, whatever
/// their arenas went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCache {
    /// The modelled capacity, in pages.
    pub capacity: PageCount,
    /// Tokens a page.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
    /// Requests turned away since the start.
    pub refused: u64,
    /// The last stamp given.
    pub clock: u64,
    /// Every node but the root, parents before their children.
    pub nodes: Vec<SavedNode>,
}

/// A node of the radix tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedNode {
    /// Position of the parent counted from 1 in the list of nodes; 0 is the root.
    pub parent: u32,
    /// When the node was last stamped.
    pub stamp: u64,
    /// Pages after those of `ids` that nobody can share.
    pub private: u32,
    /// The pages' ids, the first page of a prompt keyed by its scope.
    pub ids: Vec<u64>,
}

/// Why a saved state is no state of a cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The capacity is out of range.
    #[error(transparent)]
    Capacity(#[from] CapacityTooLarge),
    /// A node contradicts the others.
    #[error("node {position} of a saved sglang cache {fault}: the snapshot is damaged, rebuild from the log")]
    Node {
        /// Position in the list, from 0.
        position: usize,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The nodes hold more than fits.
    #[error(
        "a saved sglang cache of {capacity} pages holds {pages}: the snapshot is damaged, rebuild from the log"
    )]
    Overfull {
        /// The capacity it names.
        capacity: PageCount,
        /// The pages its nodes hold.
        pages: PageCount,
    },
}

impl SglangCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedCache {
        SavedCache {
            capacity: self.capacity(),
            page_size: self.page_size,
            outputs: self.outputs,
            refused: self.refused,
            clock: self.tree.clock(),
            nodes: saved_nodes(&self.tree),
        }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: a node without pages, a parent that does not precede its child or
    /// cannot have one, two children that begin alike, a stamp given twice or not yet, too many pages.
    pub fn restore(saved: &SavedCache) -> Result<Self, RestoreError> {
        let mut cache = Self::new(saved.capacity, saved.page_size, saved.outputs)?;
        cache.refused = saved.refused;
        restore_nodes(&mut cache.tree, saved)?;
        if cache.resident() > cache.capacity() {
            return Err(RestoreError::Overfull { capacity: saved.capacity, pages: cache.resident() });
        }
        Ok(cache)
    }
}

impl Serialize for SglangCache {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.save().serialize(serializer)
    }
}

impl TryFrom<SavedCache> for SglangCache {
    type Error = RestoreError;

    fn try_from(saved: SavedCache) -> Result<Self, RestoreError> {
        Self::restore(&saved)
    }
}

/// Lists the nodes level by level, those of one parent by stamp.
fn saved_nodes(tree: &Tree) -> Vec<SavedNode> {
    let mut by_parent: Vec<(NodeIndex, u64, NodeIndex)> =
        tree.occupied().map(|(index, node)| (node.parent, node.stamp, index)).collect();
    by_parent.sort_unstable();
    let mut order: Vec<NodeIndex> = Vec::with_capacity(by_parent.len());
    let mut nodes = Vec::with_capacity(by_parent.len());
    for position in 0..=by_parent.len() {
        let parent = if position == 0 { ROOT } else { order[position - 1] };
        let first = by_parent.partition_point(|(other, ..)| *other < parent);
        for &(_, stamp, index) in by_parent[first..].iter().take_while(|(other, ..)| *other == parent) {
            order.push(index);
            nodes.push(SavedNode {
                parent: position as u32,
                stamp,
                private: tree.node(index).private,
                ids: tree.label(index).to_vec(),
            });
        }
    }
    nodes
}

/// Rebuilds a tree from the list of its nodes.
fn restore_nodes(tree: &mut Tree, saved: &SavedCache) -> Result<(), RestoreError> {
    let mut stamps: Vec<u64> = saved.nodes.iter().map(|node| node.stamp).collect();
    stamps.sort_unstable();
    let repeated = stamps.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let mut places: Vec<NodeIndex> = vec![ROOT];
    for (position, node) in saved.nodes.iter().enumerate() {
        let fault = |fault| RestoreError::Node { position, fault };
        let parent = places.get(node.parent as usize).copied().ok_or(fault("precedes its parent"))?;
        if node.ids.is_empty() && node.private == 0 {
            return Err(fault("has no pages"));
        }
        if parent != ROOT && tree.node(parent).private > 0 {
            return Err(fault("continues pages that nobody shares"));
        }
        if node.ids.first().is_some_and(|&first| tree.child(parent, first) != NONE) {
            return Err(fault("begins like another child of its parent"));
        }
        if node.stamp == 0 || node.stamp > saved.clock || repeated == Some(node.stamp) {
            return Err(fault("has an impossible stamp"));
        }
        if tree.pages() > saved.capacity.0 {
            break;
        }
        places.push(tree.add(parent, &node.ids, node.private, node.stamp));
    }
    tree.set_clock(saved.clock);
    Ok(())
}
