//! The state of a cache over device and host as plain data, for snapshots.

use super::host::HicacheRules;
use super::node::NodeIndex;
use super::one_pool::{HicacheCache, PlainRules};
use super::saved::{SglangRestoreError, SglangSavedNode, in_order, restore_nodes, saved_node};
use super::saved_pools::{OrderPlaces, restore_places, saved_places};
use super::{PoolRules, SavedForm, SecondPool, SglangCache};
use crate::units::PageCount;
use serde::de::DeserializeOwned;
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

/// The same with a pool alongside that of full attention on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedOverHost<Rules> {
    /// The nodes on both sides; capacities are pages of one group's layers.
    pub tree: SavedHicache,
    /// The rules of the pools.
    pub rules: Rules,
    /// What the other pool has of each node: its place in the device's order, 1 the oldest and 0 where that holds
    /// nothing; and in the host's, 0 where the device holds it as well.
    pub places: Vec<(u32, Option<u32>)>,
}

impl<R: PoolRules> SglangCache<R, HicacheRules> {
    /// The nodes with their sides.
    fn save_sides(&self) -> SavedHicache {
        let saved = |(parent, index)| {
            let node = self.tree.node(index);
            SavedHicacheNode {
                node: saved_node(&self.tree, parent, index),
                on_device: node.on_device,
                on_host: node.on_host,
                insertions: node.insertions,
                duplicate: node.duplicate,
            }
        };
        SavedHicache {
            capacity: self.capacity,
            rules: self.host,
            refused: self.refused,
            clock: self.tree.clock(),
            sequence: self.tree.sequence(),
            nodes: in_order(&self.tree).into_iter().map(saved).collect(),
        }
    }

    /// A cache of these rules with its nodes back on both sides, and their places in the tree.
    fn restore_sides(saved: &SavedHicache, rules: R) -> Result<(Self, Vec<NodeIndex>), SglangRestoreError> {
        let mut cache = Self::new(saved.capacity, rules, saved.rules)?;
        check_sides(saved)?;
        let most = PageCount(saved.capacity.0.saturating_add(saved.rules.host.0));
        let (nodes, mut indices) = (saved.nodes.iter().map(|own| &own.node), Vec::new());
        restore_nodes(&mut cache.tree, nodes, saved.clock, most, |tree, position, index| {
            let own = &saved.nodes[position];
            tree.restore_node(index, own.on_device, own.on_host, own.duplicate);
            tree.set_insertions(index, own.insertions);
            indices.push(index);
        })?;
        cache.tree.set_sequence(saved.sequence);
        Ok((cache, indices))
    }
}

impl SavedForm for HicacheCache {
    type Saved = SavedHicache;

    fn save(&self) -> SavedHicache {
        self.save_sides()
    }

    /// Refuses what a cache of one side does, a node on no side or below one that must be there as well, a place
    /// given twice or not yet, too many pages on either side.
    fn restore(saved: &SavedHicache) -> Result<Self, SglangRestoreError> {
        let (cache, _) = Self::restore_sides(saved, PlainRules::over(&saved.rules))?;
        cache.filled(saved.refused)
    }
}

impl<R: SecondPool + Clone + Serialize + DeserializeOwned> SavedForm for SglangCache<R, HicacheRules> {
    type Saved = SavedOverHost<R>;

    fn save(&self) -> SavedOverHost<R> {
        let places = saved_places(&self.tree);
        let of_node = |(_, index): (u32, NodeIndex)| places[index as usize];
        let places: Vec<OrderPlaces> = in_order(&self.tree).into_iter().map(of_node).collect();
        SavedOverHost { tree: self.save_sides(), rules: self.rules.clone(), places }
    }

    /// Refuses what a cache of one pool over a host does, a place given twice or of a node that is not there, too
    /// much in any pool.
    fn restore(saved: &SavedOverHost<R>) -> Result<Self, SglangRestoreError> {
        let (mut cache, indices) = Self::restore_sides(&saved.tree, saved.rules.clone())?;
        restore_places(&mut cache.tree, &saved.places, &indices)?;
        cache.filled(saved.tree.refused)
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
