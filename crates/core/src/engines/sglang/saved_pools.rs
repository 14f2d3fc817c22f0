//! The state of a cache with a pool alongside that of full attention as plain data, for snapshots.

use super::node::NodeIndex;
use super::saved::{SglangRestoreError, SglangSavedNode, in_order, restore_nodes, saved_node};
use super::states::{StateCache, StateRules};
use super::tree::SglangTree;
use super::windows::{WindowCache, WindowPoolRules};
use crate::units::PageCount;
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
    /// Every node but the root, parents before their children, each with its place in the order of the other pool: 1 the
    /// oldest, 0 where that holds nothing of it.
    pub nodes: Vec<(SglangSavedNode, u32)>,
}

/// The nodes with their places in the order of the other pool.
fn saved_nodes(tree: &SglangTree) -> Vec<(SglangSavedNode, u32)> {
    let mut places = vec![0; tree.nodes.len()];
    for (index, place) in tree.auxiliary.in_order().zip(1..) {
        places[index as usize] = place;
    }
    let saved = |(parent, index)| (saved_node(tree, parent, index), places[index as usize]);
    in_order(tree).into_iter().map(saved).collect()
}

/// Gives an empty tree its nodes back, and the other pool what it holds of each by `pages_of`.
fn restore_pools<Rules>(
    tree: &mut SglangTree,
    saved: &SavedPools<Rules>,
    pages_of: impl Fn(&SglangTree, NodeIndex) -> u64,
) -> Result<(), SglangRestoreError> {
    let nodes = saved.nodes.iter().map(|(node, _)| node);
    let mut held = Vec::new();
    restore_nodes(tree, nodes, saved.clock, saved.capacity, |_, position, index| {
        held.push((saved.nodes[position].1, position, index));
    })?;
    held.retain(|(place, ..)| *place > 0);
    held.sort_unstable();
    if let Some(pair) = held.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let fault = "has a place of another one in the order of the other pool";
        return Err(SglangRestoreError::Node { position: pair[1].1, fault });
    }
    for (_, _, index) in held {
        let pages = pages_of(tree, index);
        tree.auxiliary.hold(index, pages);
    }
    Ok(())
}

/// Saves and restores a cache of two pools: its rules, the pages that the other pool has of a node that it holds, and what
/// each pool has room for and holds.
macro_rules! saved_pools {
    ($cache:ty, $rules:ty, $pages_of:expr, $filled:expr) => {
        impl $cache {
            /// The state as plain data.
            pub fn save(&self) -> SavedPools<$rules> {
                SavedPools {
                    capacity: self.capacity(),
                    rules: self.rules().clone(),
                    never_evicts: self.never_evicts(),
                    refused: self.refused,
                    clock: self.tree.clock(),
                    nodes: saved_nodes(&self.tree),
                }
            }

            /// The cache a state was saved from.
            ///
            /// # Errors
            /// When the state is damaged: what a cache of one pool refuses, a place given twice, too much in either pool.
            pub fn restore(saved: &SavedPools<$rules>) -> Result<Self, SglangRestoreError> {
                let rules = saved.rules.clone();
                let mut cache = match saved.never_evicts {
                    true => Self::never_evicting(saved.capacity, rules)?,
                    false => Self::new(saved.capacity, rules)?,
                };
                cache.refused = saved.refused;
                restore_pools(&mut cache.tree, saved, $pages_of)?;
                let filled: [(PageCount, PageCount); 2] = $filled(cache.pools(), cache.resident());
                match filled.into_iter().find(|(room, pages)| pages > room) {
                    Some((capacity, pages)) => Err(SglangRestoreError::Overfull { capacity, pages }),
                    None => Ok(cache),
                }
            }
        }

        saved_as! { $cache, SavedPools<$rules>, SglangRestoreError }
    };
}

type Pools<T> = (PageCount, T);

saved_pools! {
    WindowCache,
    WindowPoolRules,
    |tree, index| tree.node(index).pages(),
    |room: Pools<PageCount>, held: Pools<PageCount>| [(room.0, held.0), (room.1, held.1)]
}

saved_pools! {
    StateCache,
    StateRules,
    |_, _| 1,
    |room: Pools<u64>, held: Pools<u64>| [(room.0, held.0), (PageCount(room.1), PageCount(held.1))]
}
