//! The cache's state as plain data, for snapshots.

use super::host::NoHost;
use super::node::{NONE, NodeIndex, ROOT};
use super::one_pool::PlainRules;
use super::tree::SglangTree;
use super::{SavedForm, SglangCache};
use crate::engines::hybrid::RulesError;
use crate::engines::profile::Outputs;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// All that decides the cache's future answers. Two caches that answer alike save alike, whatever
/// their arenas went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SglangSavedCache {
    /// The modelled capacity, in pages.
    pub capacity: PageCount,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
    /// Requests turned away since the start.
    pub refused: u64,
    /// The last stamp given.
    pub clock: u64,
    /// Every node but the root, parents before their children.
    pub nodes: Vec<SglangSavedNode>,
}

/// A node of the radix tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SglangSavedNode {
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
pub enum SglangRestoreError {
    /// The capacity is out of range.
    #[error(transparent)]
    Capacity(#[from] RulesError),
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

impl<R, H> SglangCache<R, H> {
    /// The cache, with what was turned away, where what its nodes hold fits each of its pools.
    pub(super) fn filled(self, refused: u64) -> Result<Self, SglangRestoreError> {
        let (tree, host) = (&self.tree, &self.tree.host);
        let pools = [
            (self.full, tree.pages()),
            (self.other, tree.auxiliary.pages()),
            (host.room, host.pages),
            (host.other_room, host.auxiliary.pages()),
        ];
        match pools.map(|(room, held)| (PageCount(room), PageCount(held))).into_iter().find(|(a, b)| b > a) {
            Some((capacity, pages)) => Err(SglangRestoreError::Overfull { capacity, pages }),
            None => Ok(Self { refused, ..self }),
        }
    }
}

impl SavedForm for SglangCache {
    type Saved = SglangSavedCache;

    fn save(&self) -> SglangSavedCache {
        let saved = |(parent, index)| saved_node(&self.tree, parent, index);
        SglangSavedCache {
            capacity: self.capacity,
            page_size: self.rules.page_size,
            outputs: self.rules.outputs,
            refused: self.refused,
            clock: self.tree.clock(),
            nodes: in_order(&self.tree).into_iter().map(saved).collect(),
        }
    }

    /// Refuses a node without pages, a parent that does not precede its child or cannot have one, two children that
    /// begin alike, a stamp given twice or not yet, too many pages.
    fn restore(saved: &SglangSavedCache) -> Result<Self, SglangRestoreError> {
        let SglangSavedCache { capacity, page_size, outputs, refused, clock, ref nodes } = *saved;
        let mut cache = Self::new(capacity, PlainRules { page_size, outputs, drafts: false }, NoHost)?;
        restore_nodes(&mut cache.tree, nodes.iter(), clock, capacity, |_, _, _| {})?;
        cache.filled(refused)
    }
}

/// Lists the nodes level by level, those of one parent by stamp, each with the position of its parent counted from 1.
pub(super) fn in_order(tree: &SglangTree) -> Vec<(u32, NodeIndex)> {
    let mut by_parent: Vec<(NodeIndex, u64, NodeIndex)> =
        tree.occupied().map(|(index, node)| (node.parent, node.stamp, index)).collect();
    by_parent.sort_unstable();
    let mut order: Vec<(u32, NodeIndex)> = Vec::with_capacity(by_parent.len());
    for position in 0..=by_parent.len() {
        let parent = if position == 0 { ROOT } else { order[position - 1].1 };
        let first = by_parent.partition_point(|(other, ..)| *other < parent);
        let children = by_parent[first..].iter().take_while(|(other, ..)| *other == parent);
        order.extend(children.map(|(_, _, index)| (position as u32, *index)));
    }
    order
}

/// One node, its parent at this position.
pub(super) fn saved_node(tree: &SglangTree, parent: u32, index: NodeIndex) -> SglangSavedNode {
    let node = tree.node(index);
    SglangSavedNode { parent, stamp: node.stamp, private: node.private, ids: tree.label(index).to_vec() }
}

/// Rebuilds a tree from the list of its nodes, of at most so many pages; each of them is shown as it is added, with
/// its position and its place in the tree.
pub(super) fn restore_nodes<'a>(
    tree: &mut SglangTree,
    nodes: impl Iterator<Item = &'a SglangSavedNode> + Clone,
    clock: u64,
    most: PageCount,
    mut added: impl FnMut(&mut SglangTree, usize, NodeIndex),
) -> Result<(), SglangRestoreError> {
    let mut stamps: Vec<u64> = nodes.clone().map(|node| node.stamp).collect();
    stamps.sort_unstable();
    let repeated = stamps.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let mut places: Vec<NodeIndex> = vec![ROOT];
    let mut pages = 0;
    for (position, node) in nodes.enumerate() {
        let fault = |fault| SglangRestoreError::Node { position, fault };
        let parent = places.get(node.parent as usize).copied().ok_or(fault("precedes its parent"))?;
        if node.ids.is_empty() && node.private == 0 {
            return Err(fault("has no pages"));
        }
        if parent != ROOT && tree.node(parent).private > 0 && !node.ids.is_empty() {
            return Err(fault("continues pages that nobody shares"));
        }
        if node.ids.first().is_some_and(|&first| tree.child(parent, first) != NONE) {
            return Err(fault("begins like another child of its parent"));
        }
        if node.stamp == 0 || node.stamp > clock || repeated == Some(node.stamp) {
            return Err(fault("has an impossible stamp"));
        }
        if pages > most.0 {
            return Err(SglangRestoreError::Overfull { capacity: most, pages: PageCount(pages) });
        }
        let index = tree.add(parent, &node.ids, node.private, node.stamp);
        pages += tree.node(index).pages();
        added(tree, position, index);
        places.push(index);
    }
    tree.set_clock(clock);
    Ok(())
}
