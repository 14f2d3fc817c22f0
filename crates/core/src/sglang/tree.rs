//! The radix tree of the `sglang` profile: nodes in an arena, labels in one buffer, leaves by age.

use crate::pages::PageIds;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// A node's place in the arena.
pub(super) type NodeIndex = u32;

/// The root: it has no pages and is never evicted.
pub(super) const ROOT: NodeIndex = 0;

/// No node: the parent of the root and of free places.
pub(super) const NONE: NodeIndex = u32::MAX;

/// Labels nobody reads any more are dropped once they outnumber the live ones by this many.
const SLACK: usize = 4096;

/// A node: a run of pages that were inserted, and will be evicted, together.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// When the node was last stamped; no two nodes have the same stamp.
    pub stamp: u64,
    /// Where its label starts in the tree's buffer.
    start: usize,
    /// Pages with an id.
    ids: u32,
    /// Pages after those that nobody can share, so they need no id. Such a node is always a leaf.
    pub private: u32,
    pub parent: NodeIndex,
    children: u32,
}

/// The tree. Stamps come from one counter, so the order of events alone decides who is evicted;
/// places in the arena and in the map decide nothing.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    vacant: Vec<NodeIndex>,
    /// Labels of all nodes, and of some that are gone.
    labels: Vec<u64>,
    /// Ids in `labels` that belong to a node.
    live_labels: usize,
    /// Child by parent and first id. Children without an id are counted in their parent only.
    children: HashMap<(NodeIndex, u64), NodeIndex, FixedState>,
    /// Leaves that may be evicted, by stamp: all of them but the pinned node.
    evictable: BTreeMap<u64, NodeIndex>,
    /// Where the path locked by the request being served ends. One mark is enough for the lock:
    /// the nodes above it have a child for as long as it stays, so they are no leaves.
    pinned: NodeIndex,
    clock: u64,
    pages: u64,
}

impl Tree {
    pub(super) fn new() -> Self {
        let root = Node { stamp: 0, start: 0, ids: 0, private: 0, parent: NONE, children: 0 };
        Self {
            nodes: vec![root],
            vacant: Vec::new(),
            labels: Vec::new(),
            live_labels: 0,
            children: HashMap::with_hasher(FixedState::default()),
            evictable: BTreeMap::new(),
            pinned: NONE,
            clock: 0,
            pages: 0,
        }
    }

    /// Pages of all nodes.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// The stamp given last.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    /// Moves the clock on to `clock`, for a tree that is put together again.
    pub(super) fn set_clock(&mut self, clock: u64) {
        self.clock = self.clock.max(clock);
    }

    /// Bytes of memory taken, near enough to watch a limit with.
    pub(super) fn memory_bytes(&self) -> usize {
        const MAP_ENTRY: usize = size_of::<((NodeIndex, u64), NodeIndex)>() + 1;
        const LEAF_ENTRY: usize = size_of::<(u64, NodeIndex)>() * 3 / 2;
        self.nodes.capacity() * size_of::<Node>()
            + self.vacant.capacity() * size_of::<NodeIndex>()
            + self.labels.capacity() * size_of::<u64>()
            + self.children.capacity() * MAP_ENTRY
            + self.evictable.len() * LEAF_ENTRY
    }

    pub(super) fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index as usize]
    }

    /// The ids a node begins with.
    pub(super) fn label(&self, index: NodeIndex) -> &[u64] {
        let node = self.node(index);
        &self.labels[node.start..node.start + node.ids as usize]
    }

    /// The child of `parent` that begins with `first`; [`NONE`] when there is none.
    pub(super) fn child(&self, parent: NodeIndex, first: u64) -> NodeIndex {
        self.children.get(&(parent, first)).copied().unwrap_or(NONE)
    }

    /// Every node but the root with its place, in no order that means anything.
    pub(super) fn occupied(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        let numbered = self.nodes.iter().enumerate().skip(1);
        numbered.filter(|(_, node)| node.parent != NONE).map(|(index, node)| (index as NodeIndex, node))
    }

    /// Gives each node of a path a new stamp, from the root down.
    pub(super) fn touch_all(&mut self, path: &[NodeIndex]) {
        for &index in path {
            self.touch(index);
        }
    }

    /// Follows `ids` down from the end of `path`, which stands for the first `matched` of them, and
    /// extends the path by every node passed. A node that `ids` leave half-way is split. Returns how
    /// many ids the path stands for then. Where `touching`, each node entered is stamped.
    pub(super) fn descend(
        &mut self,
        path: &mut Vec<NodeIndex>,
        ids: &[u64],
        mut matched: usize,
        touching: Touching,
    ) -> usize {
        let mut parent = path.last().copied().unwrap_or(ROOT);
        while let Some(&next) = ids.get(matched)
            && let Some(&child) = self.children.get(&(parent, next))
        {
            if touching == Touching::Yes {
                self.touch(child);
            }
            let rest = PageIds::from_slice(&ids[matched..]);
            let common = PageIds::from_slice(self.label(child)).common_prefix(rest);
            matched += common;
            let node = self.node(child);
            if common == node.ids as usize && node.private == 0 {
                path.push(child);
                parent = child;
                continue;
            }
            path.push(self.split(child, common));
            break;
        }
        matched
    }

    /// Inserts `ids` and `private` pages after them, the path standing for the first `matched` ids,
    /// and extends the path to the node they end at. Pages that are there already stay.
    pub(super) fn insert(&mut self, path: &mut Vec<NodeIndex>, ids: &[u64], matched: usize, private: u32) {
        let matched = self.descend(path, ids, matched, Touching::Yes);
        if matched < ids.len() || private > 0 {
            let parent = path.last().copied().unwrap_or(ROOT);
            let stamp = self.tick();
            path.push(self.add(parent, &ids[matched..], private, stamp));
        }
    }

    /// Adds a leaf. Its first id must not lead to another child of `parent`.
    pub(super) fn add(&mut self, parent: NodeIndex, ids: &[u64], private: u32, stamp: u64) -> NodeIndex {
        let start = self.labels.len();
        self.labels.extend_from_slice(ids);
        self.live_labels += ids.len();
        self.pages += ids.len() as u64 + u64::from(private);
        let node = Node { stamp, start, ids: ids.len() as u32, private, parent, children: 0 };
        let index = self.place(node);
        if let Some(&first) = ids.first() {
            self.children.insert((parent, first), index);
        }
        self.withhold(parent);
        self.nodes[parent as usize].children += 1;
        self.offer(index);
        index
    }

    /// Locks the path that ends at `index`, and unlocks the one locked before.
    pub(super) fn pin(&mut self, index: NodeIndex) {
        self.unpin();
        self.withhold(index);
        self.pinned = index;
    }

    /// Unlocks the locked path.
    pub(super) fn unpin(&mut self) {
        let pinned = std::mem::replace(&mut self.pinned, NONE);
        if pinned != NONE {
            self.offer(pinned);
        }
    }

    /// Evicts the unlocked leaf with the oldest stamp, whole; `false` when there is none.
    pub(super) fn evict_oldest_leaf(&mut self) -> bool {
        let Some((_, index)) = self.evictable.pop_first() else { return false };
        let node = self.node(index);
        let (parent, ids, private) = (node.parent, node.ids, node.private);
        if let Some(&first) = self.label(index).first() {
            self.children.remove(&(parent, first));
        }
        self.live_labels -= ids as usize;
        self.pages -= u64::from(ids) + u64::from(private);
        self.nodes[index as usize].parent = NONE;
        self.vacant.push(index);
        self.nodes[parent as usize].children -= 1;
        self.offer(parent);
        true
    }

    /// Drops the labels of nodes that are gone, once they are the greater part of the buffer.
    pub(super) fn compact(&mut self) {
        if self.labels.len() <= 2 * self.live_labels + SLACK {
            return;
        }
        let mut kept = Vec::with_capacity(self.live_labels + SLACK);
        for node in self.nodes.iter_mut().filter(|node| node.parent != NONE) {
            let start = kept.len();
            kept.extend_from_slice(&self.labels[node.start..node.start + node.ids as usize]);
            node.start = start;
        }
        self.labels = kept;
    }

    /// Splits a node after its first `at` ids and returns the upper part. Both parts get a new
    /// stamp, the lower one the later: SGLang refreshes what a request did *not* match.
    fn split(&mut self, lower: NodeIndex, at: usize) -> NodeIndex {
        let node = self.node(lower).clone();
        let (upper_stamp, lower_stamp) = (self.tick(), self.tick());
        let upper = Node { stamp: upper_stamp, ids: at as u32, private: 0, children: 1, ..node };
        let upper = self.place(upper);
        self.children.insert((node.parent, self.labels[node.start]), upper);
        if at < node.ids as usize {
            self.children.insert((upper, self.labels[node.start + at]), lower);
        }
        let was_evictable = self.evictable.remove(&node.stamp).is_some();
        let part = &mut self.nodes[lower as usize];
        part.parent = upper;
        part.start += at;
        part.ids -= at as u32;
        part.stamp = lower_stamp;
        if was_evictable {
            self.evictable.insert(lower_stamp, lower);
        }
        upper
    }

    /// Stamps one node.
    fn touch(&mut self, index: NodeIndex) {
        let new = self.tick();
        let old = std::mem::replace(&mut self.nodes[index as usize].stamp, new);
        if self.evictable.remove(&old).is_some() {
            self.evictable.insert(new, index);
        }
    }

    /// Keeps a node from being evicted.
    fn withhold(&mut self, index: NodeIndex) {
        let stamp = self.node(index).stamp;
        self.evictable.remove(&stamp);
    }

    /// Makes a node evictable if it is an unlocked leaf.
    fn offer(&mut self, index: NodeIndex) {
        let node = self.node(index);
        if node.children == 0 && index != ROOT && index != self.pinned {
            self.evictable.insert(node.stamp, index);
        }
    }

    /// The next moment of the logical clock.
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Puts a node into the arena.
    fn place(&mut self, node: Node) -> NodeIndex {
        if let Some(index) = self.vacant.pop() {
            self.nodes[index as usize] = node;
            return index;
        }
        self.nodes.push(node);
        // A node holds at least one page and capacities fit 32 bits, so places do too.
        (self.nodes.len() - 1) as NodeIndex
    }
}

/// Whether a descent stamps the nodes it enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touching {
    Yes,
    No,
}
