//! The state of a cache over device and host as plain data, for snapshots.

use super::hicache::{HicacheCache, HicacheRules};
use super::node::NodeIndex;
use super::saved::{SglangRestoreError, SglangSavedNode, in_order, restore_nodes, saved_node};
use super::tree::SglangTree;
use crate::units::PageCount;
use serde::{Deserialize, Serialize};

/// All that decides the cache's future answers. Two caches that answer alike save alike, whatever
/// their arenas went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedHicache {
    /// Usable pages of the device.
    pub capacity: PageCount,
    /// The rules it keeps.
    pub rules: HicacheRules,
    /// Requests turned away since the start.
    pub refused: u64,
    /// The last stamp given.
    pub clock: u64,
    /// The last place given in the order of nodes on both sides.
    pub sequence: u64,
    /// Every node but the root, parents before their children.
    pub nodes: Vec<SavedHicacheNode>,
}

/// A node of the radix tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedHicacheNode {
    /// Its pages and its place.
    pub node: SglangSavedNode,
    /// Whether the device holds it.
    pub on_device: bool,
    /// Whether the host holds it.
    pub on_host: bool,
    /// Insertions that passed it, as far as they count.
    pub insertions: u8,
    /// Its place in the order of nodes on both sides; 0 where it has none.
    pub duplicate: u64,
}

/// The nodes with their sides.
pub(super) fn saved_sides(tree: &SglangTree) -> Vec<SavedHicacheNode> {
    let saved = |(parent, index)| {
        let node = tree.node(index);
        SavedHicacheNode {
            node: saved_node(tree, parent, index),
            on_device: node.on_device,
            on_host: node.on_host,
            insertions: node.insertions,
            duplicate: node.duplicate,
        }
    };
    in_order(tree).into_iter().map(saved).collect()
}

/// Gives an empty tree its nodes back on both sides; each of them is shown with its position and its place in the tree.
pub(super) fn restore_sides(
    tree: &mut SglangTree,
    saved: &SavedHicache,
    mut added: impl FnMut(usize, NodeIndex),
) -> Result<(), SglangRestoreError> {
    check_sides(saved)?;
    let most = PageCount(saved.capacity.0.saturating_add(saved.rules.host.0));
    let nodes = saved.nodes.iter().map(|own| &own.node);
    restore_nodes(tree, nodes, saved.clock, most, |tree, position, index| {
        let own = &saved.nodes[position];
        tree.restore_node(index, own.on_device, own.on_host, own.duplicate);
        tree.set_insertions(index, own.insertions);
        added(position, index);
    })?;
    tree.set_sequence(saved.sequence);
    Ok(())
}

impl HicacheCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedHicache {
        SavedHicache {
            capacity: self.capacity(),
            rules: *self.rules(),
            refused: self.refused,
            clock: self.tree.clock(),
            sequence: self.tree.sequence(),
            nodes: saved_sides(&self.tree),
        }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: what a cache of one side refuses, a node on no side or below one that must be there
    /// as well, a place given twice or not yet, too many pages on either side.
    pub fn restore(saved: &SavedHicache) -> Result<Self, SglangRestoreError> {
        let mut cache = Self::new(saved.capacity, saved.rules)?;
        cache.refused = saved.refused;
        restore_sides(&mut cache.tree, saved, |_, _| {})?;
        let sides = [(saved.capacity, cache.resident()), (saved.rules.host, cache.resident_on_host())];
        match sides.into_iter().find(|(capacity, pages)| pages > capacity) {
            Some((capacity, pages)) => Err(SglangRestoreError::Overfull { capacity, pages }),
            None => Ok(cache),
        }
    }
}

/// Whether every node is where it can be.
fn check_sides(saved: &SavedHicache) -> Result<(), SglangRestoreError> {
    let enough = saved.rules.write.insertions();
    let mut places: Vec<u64> =
        saved.nodes.iter().map(|own| own.duplicate).filter(|place| *place > 0).collect();
    places.sort_unstable();
    let are_own =
        places.is_sorted_by(|a, b| a < b) && places.last().is_none_or(|last| *last <= saved.sequence);
    let are_own = are_own && (enough.is_none() || places.is_empty());
    for (position, own) in saved.nodes.iter().enumerate() {
        // The root is on both sides; a parent that does not precede its child is refused with the nodes.
        let parent = own.node.parent.checked_sub(1).and_then(|parent| saved.nodes.get(parent as usize));
        let fault = match parent {
            _ if !own.on_device && !own.on_host => "is on no side",
            _ if !are_own => "has an impossible place among nodes on both sides",
            _ if own.insertions > enough.unwrap_or(0) => "has an impossible number of insertions",
            Some(parent) if own.on_device && !parent.on_device => "is on the device without its parent",
            Some(parent) if own.on_host && !parent.on_host && enough.is_some() => {
                "is on the host without its parent"
            }
            _ => continue,
        };
        return Err(SglangRestoreError::Node { position, fault });
    }
    Ok(())
}

saved_as! { HicacheCache, SavedHicache, SglangRestoreError }
