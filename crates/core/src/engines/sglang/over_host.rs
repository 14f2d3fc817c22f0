//! SGLang's caches of two pools over a host tier, HiCache, which has both pools as well (docs/engines/sglang.md).

use super::MAX_CAPACITY;
use super::hicache::HicacheRules;
use super::node::NodeIndex;
use super::saved::SglangRestoreError;
use super::saved_hicache::{SavedHicache, restore_sides, saved_sides};
use super::states::{StateCache, StateRules};
use super::tree::SglangTree;
use super::windows::{WindowCache, WindowPoolRules};
use crate::engines::hits::CacheHits;
use crate::engines::hybrid::RulesError;
use crate::request::event::RequestEvent;
use crate::units::heap::heap_bytes;
use crate::units::{PageCount, is_countable};
use serde::{Deserialize, Serialize, Serializer};

/// A cache of two pools over a host tier with both of them.
#[derive(Debug, Clone)]
pub struct OverHost<C> {
    cache: C,
    host: HicacheRules,
}

heap_bytes!(OverHost<C> { cache; host });

/// All that decides its future answers. Two caches that answer alike save alike, whatever their arenas went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedOverHost<Rules> {
    /// The nodes on both sides; capacities are pages of one group's layers.
    pub tree: SavedHicache,
    /// The rules of the pools.
    pub rules: Rules,
    /// What the other pool has of each node: its place in the device's order, 1 the oldest and 0 where that holds nothing; and
    /// in the host's, 0 where the device holds it as well.
    pub places: Vec<(u32, Option<u32>)>,
}

/// What the other pool has of each node on either side, in the order in which nodes are saved.
fn saved_places(tree: &SglangTree) -> Vec<(u32, Option<u32>)> {
    let mut places: Vec<(u32, Option<u32>)> = vec![(0, None); tree.nodes.len()];
    for (index, place) in tree.auxiliary.in_order().zip(1..) {
        places[index as usize].0 = place;
    }
    for (index, _) in tree.occupied().filter(|(index, _)| tree.host.auxiliary.holds(*index)) {
        places[index as usize].1 = Some(0);
    }
    for (index, place) in tree.host.auxiliary.in_order().zip(1..) {
        places[index as usize].1 = Some(place);
    }
    super::saved::in_order(tree).into_iter().map(|(_, index)| places[index as usize]).collect()
}

/// Gives a tree that has its nodes back what the other pool has of them; `pages_of` says how much that is.
fn restore_places(
    tree: &mut SglangTree,
    places: &[(u32, Option<u32>)],
    indices: &[NodeIndex],
    pages_of: impl Fn(&SglangTree, NodeIndex) -> u64,
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
            let pages = pages_of(tree, index);
            let side = if is_host { &mut tree.host.auxiliary } else { &mut tree.auxiliary };
            side.hold_apart(index, pages);
            if place > 0 {
                side.list(index);
            }
        }
    }
    Ok(())
}

/// A cache of two pools over a host: its rules, its count of the other pool, and the pages that this has of a node it holds.
macro_rules! over_host {
    ($cache:ty, $rules:ty, $other:ty, $count:expr, $pages_of:expr) => {
        impl OverHost<$cache> {
            /// An empty cache in the memory of so many pages of one group's layers.
            ///
            /// # Errors
            /// When both capacities together exceed [`MAX_CAPACITY`].
            pub fn new(capacity: PageCount, rules: $rules, host: HicacheRules) -> Result<Self, RulesError> {
                let together = PageCount(capacity.0.saturating_add(host.host.0));
                if together > MAX_CAPACITY {
                    return Err(RulesError::TooLarge { asked: together, most: MAX_CAPACITY });
                }
                Ok(Self { cache: <$cache>::new(capacity, rules)?.over_host(&host), host })
            }

            /// The modelled capacity of the device.
            pub fn capacity(&self) -> PageCount {
                self.cache.capacity()
            }

            /// What its pools keep to.
            pub fn rules(&self) -> &$rules {
                self.cache.rules()
            }

            /// What its host keeps to.
            pub fn host(&self) -> &HicacheRules {
                &self.host
            }

            /// The pools of the device, of full attention and the other one.
            pub fn pools(&self) -> (PageCount, $other) {
                self.cache.pools()
            }

            /// The pools of the host.
            pub fn host_pools(&self) -> (PageCount, $other) {
                let host = &self.cache.tree.host;
                (PageCount(host.room), $count(host.other_room))
            }

            /// What the nodes have of the device's pools.
            pub fn resident(&self) -> (PageCount, $other) {
                self.cache.resident()
            }

            /// What they have of the host's.
            pub fn resident_on_host(&self) -> (PageCount, $other) {
                let host = &self.cache.tree.host;
                (PageCount(host.pages), $count(host.auxiliary.pages()))
            }

            /// Whether its counts are ones that a log can come to.
            pub(crate) fn is_countable(&self) -> bool {
                self.cache.is_countable() && is_countable(self.cache.tree.sequence())
            }

            /// Pages of full attention written to the host since the start, those that were there when it was restored among them.
            pub fn written(&self) -> PageCount {
                PageCount(self.cache.tree.host.written)
            }

            /// Requests turned away since the start because the pools cannot hold them even alone.
            pub fn refused(&self) -> u64 {
                self.cache.refused()
            }

            /// Serves one request to its end and says what it found at its start: pages that it could go on from on the device, and
            /// those behind them that it could for what was loaded back.
            pub fn request(&mut self, event: &RequestEvent<'_>) -> (CacheHits, u64) {
                let found = self.cache.request(event);
                (found, self.cache.loaded())
            }

            /// The state as plain data.
            pub fn save(&self) -> SavedOverHost<$rules> {
                let tree = &self.cache.tree;
                SavedOverHost {
                    tree: SavedHicache {
                        capacity: self.capacity(),
                        rules: self.host,
                        refused: self.cache.refused,
                        clock: tree.clock(),
                        sequence: tree.sequence(),
                        nodes: saved_sides(tree),
                    },
                    rules: self.rules().clone(),
                    places: saved_places(tree),
                }
            }

            /// The cache a state was saved from.
            ///
            /// # Errors
            /// When the state is damaged: what a cache of one pool over a host refuses, a place given twice or of a node that is not
            /// there, too much in any pool.
            pub fn restore(saved: &SavedOverHost<$rules>) -> Result<Self, SglangRestoreError> {
                let mut restored = Self::new(saved.tree.capacity, saved.rules.clone(), saved.tree.rules)?;
                let cache = &mut restored.cache;
                cache.refused = saved.tree.refused;
                let mut indices = Vec::new();
                restore_sides(&mut cache.tree, &saved.tree, |_, index| indices.push(index))?;
                restore_places(&mut cache.tree, &saved.places, &indices, $pages_of)?;
                let (full, host) = (restored.cache.pools().0, &restored.cache.tree.host);
                let tree = &restored.cache.tree;
                let filled = [
                    (full, tree.pages()),
                    (restored.cache.other_room(), tree.auxiliary.pages()),
                    (PageCount(host.room), host.pages),
                    (PageCount(host.other_room), host.auxiliary.pages()),
                ];
                let filled = filled.map(|(room, pages)| (room, PageCount(pages)));
                match filled.into_iter().find(|(room, pages)| pages > room) {
                    Some((capacity, pages)) => Err(SglangRestoreError::Overfull { capacity, pages }),
                    None => Ok(restored),
                }
            }
        }

        impl Serialize for OverHost<$cache> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.save().serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for OverHost<$cache> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let saved = SavedOverHost::<$rules>::deserialize(deserializer)?;
                Self::restore(&saved).map_err(serde::de::Error::custom)
            }
        }
    };
}

over_host! { WindowCache, WindowPoolRules, PageCount, PageCount, |tree, index| tree.node(index).pages() }
over_host! { StateCache, StateRules, u64, |states| states, |_, _| 1 }
