//! The state of a cache with a pool of states as plain data, for snapshots.

use super::saved::{RestoreError, SavedNode, in_order, restore_nodes, saved_node};
use super::states::{StateCache, StateRules};
use crate::units::PageCount;
use serde::{Deserialize, Serialize, Serializer};

/// All that decides the cache's future answers. Two caches that answer alike save alike, whatever
/// their arenas went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedStates {
    /// The modelled capacity, in pages of one group's layers.
    pub capacity: PageCount,
    /// The rules it keeps.
    pub rules: StateRules,
    /// Whether both pools have all of the capacity, so that nothing is evicted.
    pub never_evicts: bool,
    /// Requests turned away since the start.
    pub refused: u64,
    /// The last stamp given.
    pub clock: u64,
    /// Every node but the root, parents before their children.
    pub nodes: Vec<SavedStateNode>,
}

/// A node of the radix tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedStateNode {
    /// Its pages and its place.
    pub node: SavedNode,
    /// The place of the state at its end among all states, 1 the oldest; 0 where there is none.
    pub place: u32,
}

impl StateCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedStates {
        let mut places = vec![0; self.tree.nodes.len()];
        for (index, place) in self.tree.auxiliary.in_order().zip(1..) {
            places[index as usize] = place;
        }
        let saved = |(parent, index)| SavedStateNode {
            node: saved_node(&self.tree, parent, index),
            place: places[index as usize],
        };
        SavedStates {
            capacity: self.capacity(),
            rules: self.rules().clone(),
            never_evicts: self.never_evicts(),
            refused: self.refused,
            clock: self.tree.clock(),
            nodes: in_order(&self.tree).into_iter().map(saved).collect(),
        }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: what a cache of one pool refuses, a place given twice, too many pages or states.
    pub fn restore(saved: &SavedStates) -> Result<Self, RestoreError> {
        let rules = saved.rules.clone();
        let mut cache = match saved.never_evicts {
            true => Self::never_evicting(saved.capacity, rules)?,
            false => Self::new(saved.capacity, rules)?,
        };
        cache.refused = saved.refused;
        let nodes = saved.nodes.iter().map(|own| &own.node);
        let mut held = Vec::new();
        restore_nodes(&mut cache.tree, nodes, saved.clock, saved.capacity, |_, position, index| {
            held.push((saved.nodes[position].place, position, index));
        })?;
        held.retain(|(place, ..)| *place > 0);
        held.sort_unstable();
        if let Some(pair) = held.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let fault = "has a place of another one in the pool of states";
            return Err(RestoreError::Node { position: pair[1].1, fault });
        }
        held.into_iter().for_each(|(_, _, index)| cache.tree.auxiliary.hold(index, 1));
        let ((pages, states), (full, most)) = (cache.resident(), cache.pools());
        match [(full, pages), (PageCount(most), PageCount(states))]
            .into_iter()
            .find(|(most, held)| held > most)
        {
            Some((capacity, pages)) => Err(RestoreError::Overfull { capacity, pages }),
            None => Ok(cache),
        }
    }
}

impl Serialize for StateCache {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.save().serialize(serializer)
    }
}

impl TryFrom<SavedStates> for StateCache {
    type Error = RestoreError;

    fn try_from(saved: SavedStates) -> Result<Self, RestoreError> {
        Self::restore(&saved)
    }
}
