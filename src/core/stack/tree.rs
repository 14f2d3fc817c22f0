//! The pool's pages as a path-compressed radix tree over page ids.
//!
//! Labels lie in one arena, so splitting an edge moves no ids and a label is a slice to compare with.
//! A node costs 32 bytes; children of a node that has several are found through one hash index.

use super::slots::{Renumbering, Slot};
use crate::core::packed::{self, Made};
use crate::core::pages::PageIds;
use bytemuck::{Pod, Zeroable};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::HashSet;
use std::hash::BuildHasher;

/// A node's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct NodeId(u32);

impl NodeId {
    /// Position in the node table.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where every path begins; it has no pages.
pub(super) const ROOT: NodeId = NodeId(0);

/// An edge with its lower end: the label leading here and what hangs below. As a snapshot keeps it.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Edge {
    /// First id of the label in the arena.
    start: u32,
    /// Pages of the label; at least one but for the root.
    len: u32,
    /// The request that touched these pages last.
    slot: Slot,
    parent: NodeId,
    children: u32,
    /// All children's ids combined by exclusive or: with one child left, its id, found without a probe.
    child_xor: u32,
}

/// An edge as the tree keeps it.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Node {
    /// The label's first id once more: whoever looks for a child compares it, and finds it in the cache
    /// line of the node itself.
    first: u64,
    edge: Edge,
}

/// The tree. A node's children are in `index` when it has several, and only in `child_xor` when one.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Arrays")]
pub(super) struct Tree {
    labels: Vec<u64>,
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    index: HashTable<NodeId>,
    hasher: FixedState,
    /// Ids in the arena no node refers to.
    garbage: usize,
}

/// What a snapshot keeps of the tree; the index follows from it.
#[derive(Deserialize)]
struct Arrays {
    #[serde(with = "packed")]
    labels: Vec<u64>,
    #[serde(with = "packed")]
    edges: Vec<Edge>,
    #[serde(with = "packed")]
    free: Vec<NodeId>,
    garbage: usize,
}

/// [`Arrays`] to be written.
#[derive(Serialize)]
struct ArraysRef<'a, E> {
    #[serde(with = "packed")]
    labels: &'a [u64],
    edges: E,
    #[serde(with = "packed")]
    free: &'a [NodeId],
    garbage: usize,
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { labels, nodes, free, garbage, .. } = self;
        let edges = Made { count: nodes.len(), element: |index: usize| nodes[index].edge };
        ArraysRef { labels, edges, free, garbage: *garbage }.serialize(serializer)
    }
}

impl TryFrom<Arrays> for Tree {
    type Error = &'static str;

    /// The index of edges is still to be built, by [`Tree::rebuild_index`].
    fn try_from(arrays: Arrays) -> Result<Self, Self::Error> {
        let Arrays { labels, edges, free, garbage } = arrays;
        let node = |edge: Edge| match labels.get(edge.start as usize) {
            Some(&first) => Ok(Node { first, edge }),
            None if edge.len == 0 => Ok(Node { first: 0, edge }),
            None => Err("a label lies outside the arena"),
        };
        let nodes = edges.into_iter().map(node).collect::<Result<_, _>>()?;
        Ok(Self { labels, nodes, free, index: HashTable::new(), hasher: FixedState::default(), garbage })
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        let root = Edge { start: 0, len: 0, slot: Slot(0), parent: ROOT, children: 0, child_xor: 0 };
        Self {
            labels: Vec::new(),
            nodes: vec![Node { first: 0, edge: root }],
            free: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::default(),
            garbage: 0,
        }
    }

    fn node(&self, id: NodeId) -> &Edge {
        &self.nodes[id.index()].edge
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Edge {
        &mut self.nodes[id.index()].edge
    }

    /// Nodes in the tree, the root among them.
    pub(super) fn node_count(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub(super) fn slot(&self, id: NodeId) -> Slot {
        self.node(id).slot
    }

    pub(super) fn set_slot(&mut self, id: NodeId, slot: Slot) {
        self.node_mut(id).slot = slot;
    }

    pub(super) fn parent(&self, id: NodeId) -> NodeId {
        self.node(id).parent
    }

    /// Pages on the edge that leads to this node; none for the root and for a free place.
    pub(super) fn pages(&self, id: NodeId) -> u32 {
        self.node(id).len
    }

    /// The ids on the edge that leads to this node.
    pub(super) fn label(&self, id: NodeId) -> PageIds<'_> {
        let node = self.node(id);
        let start = node.start as usize;
        PageIds::from_slice(&self.labels[start..start + node.len as usize])
    }

    /// The id of the node's last page.
    pub(super) fn last_id(&self, id: NodeId) -> u64 {
        let node = self.node(id);
        self.labels[(node.start + node.len - 1) as usize]
    }

    fn first_id(&self, id: NodeId) -> u64 {
        self.nodes[id.index()].first
    }

    /// The child whose label begins with `first`.
    #[inline]
    pub(super) fn child(&self, parent: NodeId, first: u64) -> Option<NodeId> {
        let node = self.node(parent);
        match node.children {
            0 => None,
            1 => Some(NodeId(node.child_xor)).filter(|&only| self.first_id(only) == first),
            _ => {
                self.index.find(self.edge_hash(parent, first), |&id| self.is_edge(id, parent, first)).copied()
            }
        }
    }

    fn is_edge(&self, id: NodeId, parent: NodeId, first: u64) -> bool {
        self.node(id).parent == parent && self.first_id(id) == first
    }

    fn edge_hash(&self, parent: NodeId, first: u64) -> u64 {
        self.hasher.hash_one((parent.0, first))
    }

    /// Hangs an existing node below `parent`.
    fn attach(&mut self, parent: NodeId, child: NodeId) {
        self.node_mut(child).parent = parent;
        let node = self.node_mut(parent);
        let only = NodeId(node.child_xor);
        node.children += 1;
        node.child_xor ^= child.0;
        match node.children {
            1 => {}
            2 => {
                self.index_edge(only);
                self.index_edge(child);
            }
            _ => self.index_edge(child),
        }
    }

    /// Takes a node off its parent. Its label must still be readable.
    fn detach(&mut self, child: NodeId) {
        let parent = self.node(child).parent;
        let node = self.node_mut(parent);
        node.children -= 1;
        node.child_xor ^= child.0;
        let (children, only) = (node.children, NodeId(node.child_xor));
        match children {
            0 => {}
            1 => {
                self.unindex_edge(child);
                self.unindex_edge(only);
            }
            _ => self.unindex_edge(child),
        }
    }

    fn index_edge(&mut self, id: NodeId) {
        let hash = self.edge_hash(self.node(id).parent, self.first_id(id));
        let Self { index, nodes, hasher, .. } = self;
        let rehash = |id: &NodeId| {
            let Node { first, edge } = &nodes[id.index()];
            hasher.hash_one((edge.parent.0, *first))
        };
        index.insert_unique(hash, id, rehash);
    }

    fn unindex_edge(&mut self, id: NodeId) {
        let hash = self.edge_hash(self.node(id).parent, self.first_id(id));
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
    }

    /// Puts `new` where `old` hangs; both labels begin with the same id.
    fn replace_child(&mut self, old: NodeId, new: NodeId) {
        let parent = self.node(old).parent;
        self.node_mut(new).parent = parent;
        let node = self.node_mut(parent);
        node.child_xor ^= old.0 ^ new.0;
        if node.children > 1 {
            let hash = self.edge_hash(parent, self.first_id(old));
            if let Some(entry) = self.index.find_mut(hash, |&other| other == old) {
                *entry = new;
            }
        }
    }

    /// Splits an edge after `pages` of its label and returns the upper part; the whole edge when
    /// `pages` is all of it. The lower part keeps its id: its children and its owner refer to it.
    pub(super) fn split_at(&mut self, lower: NodeId, pages: u32) -> NodeId {
        let whole = *self.node(lower);
        if pages == whole.len {
            return lower;
        }
        let first = self.first_id(lower);
        let edge = Edge { len: pages, children: 0, child_xor: 0, ..whole };
        let upper = self.new_node(Node { first, edge });
        self.replace_child(lower, upper);
        let start = whole.start + pages;
        let node = &mut self.nodes[lower.index()];
        node.first = self.labels[start as usize];
        node.edge = Edge { start, len: whole.len - pages, ..node.edge };
        self.attach(upper, lower);
        upper
    }

    /// Joins a node to its parent when nothing else hangs there and their labels lie side by side;
    /// returns the node that holds the pages, always `child`. Both must belong to one slot.
    pub(super) fn join(&mut self, parent: NodeId, child: NodeId) -> NodeId {
        let upper = *self.node(parent);
        if parent == ROOT || upper.children != 1 || upper.start + upper.len != self.node(child).start {
            return child;
        }
        let first = self.first_id(parent);
        self.replace_child(parent, child);
        let node = &mut self.nodes[child.index()];
        node.first = first;
        node.edge.start = upper.start;
        node.edge.len += upper.len;
        self.node_mut(parent).len = 0;
        self.free.push(parent);
        child
    }

    /// Adds new pages below `parent`: in place where its label is the arena's last, else as a leaf.
    pub(super) fn append(&mut self, parent: NodeId, first: u64, rest: PageIds<'_>, slot: Slot) -> NodeId {
        let pages = rest.len() + 1;
        self.reserve(pages);
        let start = self.labels.len() as u32;
        self.labels.push(first);
        self.labels.extend(rest.iter());
        let above = *self.node(parent);
        if parent != ROOT && above.children == 0 && above.start + above.len == start {
            self.node_mut(parent).len += pages as u32;
            return parent;
        }
        let edge = Edge { start, len: pages as u32, slot, parent, children: 0, child_xor: 0 };
        let leaf = self.new_node(Node { first, edge });
        self.attach(parent, leaf);
        leaf
    }

    /// Grows the arena in small steps, so that spare room stays a few per cent of the pages.
    fn reserve(&mut self, pages: usize) {
        /// One step of a small arena: 32 KiB, so that growing it is no work to speak of.
        const STEP_IDS: usize = 4096;
        let spare = self.labels.capacity() - self.labels.len();
        if spare < pages {
            self.labels.reserve_exact(pages.max(self.labels.len() / 32).max(STEP_IDS));
        }
    }

    fn new_node(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.free.pop() {
            self.nodes[id.index()] = node;
            return id;
        }
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact((self.nodes.len() / 8).max(64));
        }
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Removes a node without children.
    pub(super) fn remove_leaf(&mut self, id: NodeId) {
        debug_assert_eq!(self.node(id).children, 0, "only a leaf can go");
        self.detach(id);
        self.garbage += self.node(id).len as usize;
        self.node_mut(id).len = 0;
        self.free.push(id);
    }

    /// Gives every node its slot's new number.
    pub(super) fn renumber_slots(&mut self, renumbering: &Renumbering) {
        for Node { edge, .. } in self.nodes.iter_mut().skip(1).filter(|node| node.edge.len > 0) {
            edge.slot = renumbering.of(edge.slot);
        }
    }

    /// Closes the gaps of removed labels once they are a sixteenth of the arena and two a node, so that each
    /// removed page pays for moving at most sixteen kept ones and for half a node in the sorting.
    pub(super) fn collect_garbage(&mut self) {
        if self.garbage < self.labels.len() / 16 + 2 * self.nodes.len() + 4096 {
            return;
        }
        let used = self.nodes.iter().enumerate().skip(1).filter(|(_, node)| node.edge.len > 0);
        // Sorting numbers, not nodes looked up by their ids, stays in the cache.
        let mut in_arena_order: Vec<u64> =
            used.map(|(id, node)| u64::from(node.edge.start) << 32 | id as u64).collect();
        in_arena_order.sort_unstable();
        let mut end = 0;
        for id in in_arena_order.into_iter().map(|key| key as u32) {
            let node = &mut self.nodes[id as usize].edge;
            let start = node.start as usize;
            self.labels.copy_within(start..start + node.len as usize, end);
            node.start = end as u32;
            end += node.len as usize;
        }
        self.labels.truncate(end);
        self.garbage = 0;
    }

    /// Places in the node table, free ones too.
    pub(super) fn table_len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether what was read from a snapshot is a tree: every index points into its array, every node is
    /// either free or the child of one that is not and was touched no earlier, and what counts them is true.
    pub(super) fn is_sound(&self, slots: usize) -> bool {
        let is_node = |id: NodeId| id.index() < self.nodes.len();
        let is_free = |id: NodeId| id != ROOT && self.node(id).len == 0;
        let edge_is_sound = |node: &Edge| {
            let end = u64::from(node.start) + u64::from(node.len);
            let lies_below = |parent| parent == ROOT || node.slot <= self.slot(parent);
            let hangs = is_node(node.parent) && !is_free(node.parent) && lies_below(node.parent);
            end <= self.labels.len() as u64 && node.slot.index() < slots && hangs
        };
        let edges = || self.nodes.iter().skip(1).map(|node| &node.edge).filter(|node| node.len > 0);
        let pages: u64 = edges().map(|node| u64::from(node.len)).sum();
        let free: HashSet<u32> = self.free.iter().map(|id| id.0).collect();
        self.nodes.first().is_some_and(|root| root.edge.len == 0 && root.edge.start == 0)
            && edges().all(edge_is_sound)
            && pages.checked_add(self.garbage as u64) == Some(self.labels.len() as u64)
            && self.free.iter().all(|&id| is_node(id) && is_free(id))
            && free.len() == self.free.len()
            && 1 + edges().count() + free.len() == self.nodes.len()
            && self.knows_its_children()
    }

    /// Whether every node counts the children it has.
    fn knows_its_children(&self) -> bool {
        let mut children = vec![(0, 0); self.nodes.len()];
        for (id, ..) in self.edges() {
            let (count, xor) = &mut children[self.parent(id).index()];
            *count += 1;
            *xor ^= id.0;
        }
        let knows =
            |(node, counted): (&Node, (u32, u32))| (node.edge.children, node.edge.child_xor) == counted;
        let mut nodes = self.nodes.iter().zip(children);
        nodes.next().is_some_and(knows) && nodes.filter(|(node, _)| node.edge.len > 0).all(knows)
    }

    /// Indexes the children of all nodes that have several, as after reading a snapshot.
    pub(super) fn rebuild_index(&mut self) {
        for id in (1..self.nodes.len() as u32).map(NodeId) {
            let node = self.node(id);
            if node.len > 0 && self.node(node.parent).children > 1 {
                self.index_edge(id);
            }
        }
    }

    /// Every edge with the slot it carries and its label.
    pub(super) fn edges(&self) -> impl Iterator<Item = (NodeId, Slot, PageIds<'_>)> {
        let ids = (1..self.nodes.len() as u32).map(NodeId);
        ids.filter(|&id| self.node(id).len > 0).map(|id| (id, self.slot(id), self.label(id)))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.labels.capacity() * size_of::<u64>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.free.capacity() * size_of::<NodeId>()
            + self.index.allocation_size()
    }
}
