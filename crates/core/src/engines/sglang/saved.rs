//! The cache's state as plain data, for snapshots.

use super::host::{HicacheRules, HostTier, NoHost};
use super::node::{NONE, NodeIndex, ROOT};
use super::one_pool::PlainRules;
use super::tree::SglangTree;
use super::{PoolRules, SglangCache};
use crate::engines::hybrid::RulesError;
use crate::units::PageCount;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// All that decides the cache's future answers. Two caches that answer alike save alike, whatever
/// their arenas went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SglangSaved<R = PlainRules, H = NoHost> {
    /// The modelled capacity of the device, in pages of one group's layers.
    pub capacity: PageCount,
    /// What its pools keep to.
    pub rules: R,
    /// What is below the device.
    pub host: H,
    /// Whether each of its pools has all of the capacity, so that nothing is evicted.
    pub never_evicts: bool,
    /// Requests turned away since the start.
    pub refused: u64,
    /// The last stamp given.
    pub clock: u64,
    /// The last place given in the order of nodes on both sides.
    pub sequence: u64,
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
    /// Which sides hold it, over a host.
    pub sides: Option<SavedSides>,
    /// What the pool alongside has of it, where there is one.
    pub other: Option<OrderPlaces>,
}

/// The sides that hold a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSides {
    /// Whether the device holds it.
    pub on_device: bool,
    /// Whether the host holds it.
    pub on_host: bool,
    /// Insertions that passed it, as far as they count.
    pub insertions: u8,
    /// Its place in the order of nodes on both sides; 0 where it has none.
    pub duplicate: u64,
}

/// What the other pool has of a node: its place in the device's order, 1 the oldest and 0 where that holds nothing;
/// and in the host's, 0 where the device holds it as well.
type OrderPlaces = (u32, Option<u32>);

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

impl<R: PoolRules + Clone, H: HostTier + Clone> SglangCache<R, H> {
    /// The state as plain data.
    pub fn save(&self) -> SglangSaved<R, H> {
        let (tree, places) = (&self.tree, R::HAS_OTHER.then(|| saved_places(&self.tree)));
        let saved = |(parent, index): (u32, NodeIndex)| {
            let node = tree.node(index);
            SglangSavedNode {
                parent,
                stamp: node.stamp,
                private: node.private,
                ids: tree.label(index).to_vec(),
                sides: self.host.rules().map(|_| SavedSides {
                    on_device: node.on_device,
                    on_host: node.on_host,
                    insertions: node.insertions,
                    duplicate: node.duplicate,
                }),
                other: places.as_ref().map(|places| places[index as usize]),
            }
        };
        SglangSaved {
            capacity: self.capacity,
            rules: self.rules.clone(),
            host: self.host.clone(),
            never_evicts: self.never_evicts(),
            refused: self.refused,
            clock: tree.clock(),
            sequence: tree.sequence(),
            nodes: in_order(tree).into_iter().map(saved).collect(),
        }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// A node without pages or on no side, a parent that does not precede its child, cannot have one or is not where
    /// its child is, two children that begin alike, a stamp or a place given twice or not yet, too much in a pool.
    pub fn restore(saved: &SglangSaved<R, H>) -> Result<Self, SglangRestoreError> {
        let SglangSaved { capacity, clock, ref nodes, .. } = *saved;
        let mut cache = Self::empty(capacity, saved.rules.clone(), saved.host.clone(), saved.never_evicts)?;
        check_sides(nodes, saved.host.rules(), saved.sequence)?;
        let below = saved.host.rules().map_or(0, |host| host.host.0);
        let most = PageCount(capacity.0.saturating_add(below));
        let indices = restore_nodes(&mut cache.tree, nodes, clock, most)?;
        cache.tree.set_sequence(saved.sequence);
        if R::HAS_OTHER {
            restore_places(&mut cache.tree, nodes, &indices)?;
        }
        cache.filled(saved.refused)
    }
}

impl<R: PoolRules + Clone + Serialize, H: HostTier + Clone + Serialize> Serialize for SglangCache<R, H> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.save().serialize(serializer)
    }
}

impl<'de, R, H> Deserialize<'de> for SglangCache<R, H>
where
    R: PoolRules + Clone + Deserialize<'de>,
    H: HostTier + Clone + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::restore(&SglangSaved::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Lists the nodes level by level, those of one parent by stamp, each with the position of its parent counted from 1.
fn in_order(tree: &SglangTree) -> Vec<(u32, NodeIndex)> {
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

/// Rebuilds a tree from the list of its nodes, of at most so many pages; gives their places in it.
fn restore_nodes(
    tree: &mut SglangTree,
    nodes: &[SglangSavedNode],
    clock: u64,
    most: PageCount,
) -> Result<Vec<NodeIndex>, SglangRestoreError> {
    let mut stamps: Vec<u64> = nodes.iter().map(|node| node.stamp).collect();
    stamps.sort_unstable();
    let repeated = stamps.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let mut places: Vec<NodeIndex> = vec![ROOT];
    let mut pages = 0;
    for (position, node) in nodes.iter().enumerate() {
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
        if let Some(SavedSides { on_device, on_host, insertions, duplicate }) = node.sides {
            tree.restore_node(index, on_device, on_host, duplicate);
            tree.set_insertions(index, insertions);
        }
        places.push(index);
    }
    tree.set_clock(clock);
    places.remove(0);
    Ok(places)
}

/// Whether every node is on sides where it can be: over a host each says so, and without one none does.
fn check_sides(
    nodes: &[SglangSavedNode],
    host: Option<&HicacheRules>,
    sequence: u64,
) -> Result<(), SglangRestoreError> {
    let enough = host.and_then(|host| host.write.insertions());
    let sides = || nodes.iter().filter_map(|node| node.sides);
    let mut places: Vec<u64> = sides().map(|own| own.duplicate).filter(|place| *place > 0).collect();
    places.sort_unstable();
    let are_own = places.is_sorted_by(|a, b| a < b) && places.last().is_none_or(|last| *last <= sequence);
    let are_own = are_own && (enough.is_none() || places.is_empty());
    for (position, node) in nodes.iter().enumerate() {
        let own = match node.sides {
            None if host.is_none() => continue,
            found => found.filter(|own| host.is_some() && (own.on_device || own.on_host)),
        };
        // The root is on both sides; a parent that does not precede its child is refused with the nodes.
        let parent = node.parent.checked_sub(1).and_then(|parent| nodes.get(parent as usize)?.sides);
        let fault = match (own, parent) {
            (None, _) => "is on no side",
            _ if !are_own => "has an impossible place among nodes on both sides",
            (Some(own), _) if own.insertions > enough.unwrap_or(0) => {
                "has an impossible number of insertions"
            }
            (Some(own), Some(parent)) if own.on_device && !parent.on_device => {
                "is on the device without its parent"
            }
            (Some(own), Some(parent)) if own.on_host && !parent.on_host && enough.is_some() => {
                "is on the host without its parent"
            }
            _ => continue,
        };
        return Err(SglangRestoreError::Node { position, fault });
    }
    Ok(())
}

/// What the other pool has of each node on either side, by their places in the arena.
fn saved_places(tree: &SglangTree) -> Vec<OrderPlaces> {
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
fn restore_places(
    tree: &mut SglangTree,
    nodes: &[SglangSavedNode],
    indices: &[NodeIndex],
) -> Result<(), SglangRestoreError> {
    let fault = |position, fault| SglangRestoreError::Node { position, fault };
    let (mut device, mut host) = (Vec::new(), Vec::new());
    for (position, (&index, saved)) in indices.iter().zip(nodes).enumerate() {
        let Some((own, other)) = saved.other else {
            return Err(fault(position, "has no place in the orders of the other pool"));
        };
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
