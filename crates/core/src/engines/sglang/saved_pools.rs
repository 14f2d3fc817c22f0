//! The state of a cache with a pool alongside that of full attention as plain data, for snapshots.

use super::host::NoHost;
use super::node::NodeIndex;
use super::saved::{SglangRestoreError, SglangSavedNode, in_order, restore_nodes, saved_node};
use super::tree::SglangTree;
use super::{SavedForm, SecondPool, SglangCache};
use crate::units::PageCount;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// All that decides the cache's future answers. Two caches that answer alike save alike, whatever
/// their arenas went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPools<Rules> {
    /// The modelled capacity, in pages of one group's layers.
    pub capacity: PageCount,
    /// The rules it keeps.
    pub rules: Rules,
    /// Whether both pools have all of the capacity, so that nothing is evicted.
    pub never_evicts: bool,
    /// Requests turned away since the start.
    pub refused: u64,
    /// The last stamp given.
    pub clock: u64,
    /// Every node but the root, parents before their children, each with its place in the order of the other pool: 1
    /// the oldest, 0 where that holds nothing of it.
    pub nodes: Vec<(SglangSavedNode, u32)>,
}

/// What the other pool has of a node: its place in the device's order, 1 the oldest and 0 where that holds nothing;
/// and in the host's, 0 where the device holds it as well.
pub(super) type OrderPlaces = (u32, Option<u32>);

/// What the other pool has of each node on either side, by their places in the arena.
pub(super) fn saved_places(tree: &SglangTree) -> Vec<OrderPlaces> {
    let mut places: Vec<OrderPlaces> = vec![(0, None); tree.nodes.len()];
    for (index, place) in tree.auxiliary.in_order().zip(1..) {
        places[index as usize].0 = place;
    }
    for (index, _) in tree.occupied().filter(|(index, _)| tree.host.auxiliary.holds(*index)) {
        places[index as usize].1 = Some(0);
    }
    for (index, place) in tree.host.auxiliary.in_order().zip(1..) {
        places[index as usize].1 = Some(place);
    }
    places
}

/// Gives a tree that has its nodes back what the other pool has of them.
pub(super) fn restore_places(
    tree: &mut SglangTree,
    places: &[OrderPlaces],
    indices: &[NodeIndex],
) -> Result<(), SglangRestoreError> {
    let fault = |position, fault| SglangRestoreError::Node { position, fault };
    if places.len() != indices.len() {
        return Err(fault(places.len().min(indices.len()), "has no place in the orders of the other pool"));
    }
    let (mut device, mut host) = (Vec::new(), Vec::new());
    for (position, (&index, &(own, other))) in indices.iter().zip(places).enumerate() {
        let node = tree.node(index);
        if own > 0 && !node.on_device || other.is_some() && !node.on_device && !node.on_host {
            return Err(fault(position, "is held by the other pool where it is not"));
        }
        if other.is_some_and(|place| (place == 0) != (own > 0)) {
            return Err(fault(position, "has an impossible place in the host's order of the other pool"));
        }
        device.extend((own > 0).then_some((own, position, index)));
        host.extend(other.map(|place| (place, position, index)));
    }
    for (is_host, mut held) in [(false, device), (true, host)] {
        held.sort_unstable();
        if let Some(pair) = held.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].0 > 0) {
            return Err(fault(pair[1].1, "has a place of another one in the order of the other pool"));
        }
        for (place, _, index) in held {
            // Of a node that it holds a pool of windows has all pages, one of states a state.
            let pages = tree.auxiliary.window().map_or(1, |_| tree.node(index).pages());
            let side = if is_host { &mut tree.host.auxiliary } else { &mut tree.auxiliary };
            side.hold_apart(index, pages);
            if place > 0 {
                side.list(index);
            }
        }
    }
    Ok(())
}

impl<R: SecondPool + Clone + Serialize + DeserializeOwned> SavedForm for SglangCache<R> {
    type Saved = SavedPools<R>;

    fn save(&self) -> SavedPools<R> {
        let places = saved_places(&self.tree);
        let saved = |(parent, index)| (saved_node(&self.tree, parent, index), places[index as usize].0);
        SavedPools {
            capacity: self.capacity,
            rules: self.rules.clone(),
            never_evicts: self.never_evicts(),
            refused: self.refused,
            clock: self.tree.clock(),
            nodes: in_order(&self.tree).into_iter().map(saved).collect(),
        }
    }

    /// Refuses what a cache of one pool does, a place given twice, too much in either pool.
    fn restore(saved: &SavedPools<R>) -> Result<Self, SglangRestoreError> {
        let mut cache = Self::empty(saved.capacity, saved.rules.clone(), NoHost, saved.never_evicts)?;
        let (nodes, mut indices) = (saved.nodes.iter().map(|(node, _)| node), Vec::new());
        restore_nodes(&mut cache.tree, nodes, saved.clock, saved.capacity, |_, _, index| {
            indices.push(index)
        })?;
        let places: Vec<OrderPlaces> = saved.nodes.iter().map(|(_, place)| (*place, None)).collect();
        restore_places(&mut cache.tree, &places, &indices)?;
        cache.filled(saved.refused)
    }
}
