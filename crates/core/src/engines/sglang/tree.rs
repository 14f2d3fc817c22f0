//! The radix tree of the `sglang` profile: nodes in an arena, labels in one buffer, leaves by age.
//!
//! With HiCache the host holds nodes too; what that adds is in `sides`, and when it is written to in `writes`.
//! Without it every node is on the device. A pool alongside that of full attention has an order of its own, in
//! `auxiliary`.

use super::auxiliary::Auxiliary;
use super::host::{HostSide, WritePolicy};
use super::node::{NONE, NodeIndex, ROOT, SglangNode};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// Labels nobody reads any more are dropped once they outnumber the live ones by this many.
const SLACK: usize = 4096;

/// The tree. Stamps come from one counter, so the order of events alone decides who is evicted;
/// places in the arena and in the map decide nothing.
#[derive(Debug, Clone)]
pub(super) struct SglangTree {
    pub(super) nodes: Vec<SglangNode>,
    vacant: Vec<NodeIndex>,
    /// Labels of all nodes, and of some that are gone.
    labels: Vec<u64>,
    /// Ids in `labels` that belong to a node.
    live_labels: usize,
    /// Child by parent and first id. Children without an id are counted in their parent only.
    children: HashMap<(NodeIndex, u64), NodeIndex, FixedState>,
    /// Nodes with no child on the device that may be evicted from it, by stamp: all of them but those that are locked.
    pub(super) evictable: BTreeMap<u64, NodeIndex>,
    /// Where the path locked by the only request being served ends.
    pinned: NodeIndex,
    /// Pages of nodes that are locked.
    locked_pages: u64,
    clock: u64,
    /// Pages on the device.
    pub(super) pages: u64,
    pub(super) host: HostSide,
    /// What a pool alongside that of full attention holds.
    pub(super) auxiliary: Auxiliary,
}

heap_bytes!(SglangTree {
    nodes, vacant, labels, children, evictable, host, auxiliary;
    live_labels, pinned, locked_pages, clock, pages
});

impl SglangTree {
    /// An empty tree, alongside another pool of windows of so many pages, or of states.
    pub(super) fn new(window: Option<u64>) -> Self {
        let root = SglangNode::on_device(0, NONE);
        Self {
            nodes: vec![root],
            vacant: Vec::new(),
            labels: Vec::new(),
            live_labels: 0,
            children: HashMap::with_hasher(FixedState::default()),
            evictable: BTreeMap::new(),
            pinned: NONE,
            locked_pages: 0,
            clock: 0,
            pages: 0,
            host: HostSide::new(Auxiliary::new(window)),
            auxiliary: Auxiliary::new(window),
        }
    }

    /// The same over a host, written to by a policy, of so many usable pages and so many of its pool alongside.
    pub(super) fn over_host(mut self, write: WritePolicy, room: u64, other_room: u64) -> Self {
        (self.host.write, self.host.room, self.host.other_room) = (Some(write), room, other_room);
        self
    }

    /// Pages of the nodes on the device.
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

    pub(super) fn node(&self, index: NodeIndex) -> &SglangNode {
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
    pub(super) fn occupied(&self) -> impl Iterator<Item = (NodeIndex, &SglangNode)> {
        let numbered = self.nodes.iter().enumerate().skip(1);
        numbered.filter(|(_, node)| node.parent != NONE).map(|(index, node)| (index as NodeIndex, node))
    }

    /// Gives each node of a path a new stamp, from the root down.
    pub(super) fn touch_all(&mut self, path: &[NodeIndex]) {
        for &index in path {
            self.touch(index);
        }
    }

    /// Follows `ids` down from the end of `path` and extends the path by every node passed. A node that `ids` leave
    /// half-way is split. Returns how many ids the path was extended by.
    pub(super) fn descend(&mut self, path: &mut Vec<NodeIndex>, ids: &[u64]) -> usize {
        let mut parent = path.last().copied().unwrap_or(ROOT);
        let mut matched = 0;
        while let Some(next) = self.step(parent, &ids[matched..], false) {
            matched += self.node(next).ids as usize;
            path.push(next);
            parent = next;
        }
        matched
    }

    /// The node below `parent` that `ids` lead to, split where they leave it half-way, so that all of its pages are
    /// among them; `None` where they lead nowhere. Where it `touches`, the node is stamped before that.
    pub(super) fn step(&mut self, parent: NodeIndex, ids: &[u64], touches: bool) -> Option<NodeIndex> {
        let child = self.children.get(&(parent, *ids.first()?)).copied()?;
        if touches {
            self.touch(child);
        }
        let common = PageIds::from_slice(self.label(child)).common_prefix(PageIds::from_slice(ids));
        let node = self.node(child);
        let is_whole = common == node.ids as usize && node.private == 0;
        Some(if is_whole { child } else { self.split(child, common) })
    }

    /// Adds a leaf that is as old as this moment.
    pub(super) fn add_leaf(&mut self, parent: NodeIndex, ids: &[u64], private: u32) -> NodeIndex {
        let stamp = self.tick();
        self.add(parent, ids, private, stamp)
    }

    /// Adds a leaf. Its first id must not lead to another child of `parent`.
    pub(super) fn add(&mut self, parent: NodeIndex, ids: &[u64], private: u32, stamp: u64) -> NodeIndex {
        let start = self.labels.len();
        self.labels.extend_from_slice(ids);
        self.live_labels += ids.len();
        let node =
            SglangNode { start, ids: ids.len() as u32, private, ..SglangNode::on_device(stamp, parent) };
        self.pages += node.pages();
        let index = self.place(node);
        if let Some(&first) = ids.first() {
            self.children.insert((parent, first), index);
        }
        self.withhold(parent);
        self.nodes[parent as usize].children += 1;
        self.nodes[parent as usize].device_children += 1;
        self.offer(index);
        index
    }

    /// Locks the path that ends at `index`, and unlocks the one locked so before.
    pub(super) fn pin(&mut self, index: NodeIndex) {
        self.unpin();
        self.lock(index);
        self.pinned = index;
    }

    /// Unlocks the path locked so.
    pub(super) fn unpin(&mut self) {
        let pinned = std::mem::replace(&mut self.pinned, NONE);
        if pinned != NONE {
            self.unlock(pinned);
        }
    }

    /// Keeps the nodes of the path that ends at `index` from being evicted, until they are unlocked as often.
    pub(super) fn lock(&mut self, index: NodeIndex) {
        self.withhold(index);
        self.withhold(self.last_on_device(index));
        let mut at = index;
        while at != ROOT {
            let node = &mut self.nodes[at as usize];
            node.locks += 1;
            self.locked_pages += if node.locks == 1 { node.pages() } else { 0 };
            at = node.parent;
        }
    }

    /// Unlocks the path that ends at `index` once.
    pub(super) fn unlock(&mut self, index: NodeIndex) {
        let mut at = index;
        while at != ROOT {
            let node = &mut self.nodes[at as usize];
            node.locks -= 1;
            self.locked_pages -= if node.locks == 0 { node.pages() } else { 0 };
            at = node.parent;
        }
        self.offer(index);
        self.offer(self.last_on_device(index));
    }

    /// The last node of the path to `index` that the device has, which is a leaf of it where what follows is on the
    /// host alone.
    fn last_on_device(&self, mut index: NodeIndex) -> NodeIndex {
        while !self.node(index).on_device {
            index = self.node(index).parent;
        }
        index
    }

    /// Pages that could be evicted one after another.
    pub(super) fn unlocked_pages(&self) -> u64 {
        self.pages.saturating_sub(self.locked_pages)
    }

    /// Finds the path that ends at a node, which may have been split since it was locked.
    pub(super) fn path_to(&self, tail: NodeIndex, path: &mut Vec<NodeIndex>) {
        path.clear();
        let mut at = tail;
        while at != ROOT {
            path.push(at);
            at = self.node(at).parent;
        }
        path.push(ROOT);
        path.reverse();
    }

    /// Evicts the unlocked leaf of the device with the oldest stamp, whole; `false` when there is none.
    pub(super) fn evict_oldest_leaf(&mut self) -> bool {
        let Some(index) = self.oldest_leaf() else { return false };
        self.evict_leaf(index);
        true
    }

    /// Whether a node is an unlocked leaf of the device.
    pub(super) fn is_evictable(&self, index: NodeIndex) -> bool {
        self.evictable.get(&self.node(index).stamp) == Some(&index)
    }

    /// The unlocked leaf of the device with the oldest stamp.
    pub(super) fn oldest_leaf(&self) -> Option<NodeIndex> {
        self.evictable.first_key_value().map(|(_, index)| *index)
    }

    /// Removes a node without children from wherever it is.
    pub(super) fn remove(&mut self, index: NodeIndex) {
        self.withhold(index);
        self.forget_duplicate(index);
        self.auxiliary.forget(index);
        self.host.auxiliary.forget(index);
        let node = self.node(index).clone();
        debug_assert_eq!(node.children, 0, "a node with children stays");
        if let Some(&first) = self.label(index).first() {
            self.children.remove(&(node.parent, first));
        }
        self.live_labels -= node.ids as usize;
        self.pages -= if node.on_device { node.pages() } else { 0 };
        self.host.pages -= if node.on_host { node.pages() } else { 0 };
        self.nodes[index as usize].parent = NONE;
        self.vacant.push(index);
        let parent = &mut self.nodes[node.parent as usize];
        parent.children -= 1;
        parent.device_children -= u32::from(node.on_device);
        self.offer(node.parent);
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

    /// Splits a node after its first `at` pages and returns the upper part. Both parts get a new
    /// stamp, the lower one the later: SGLang refreshes what a request did *not* match.
    pub(super) fn split(&mut self, lower: NodeIndex, at: usize) -> NodeIndex {
        let node = self.node(lower).clone();
        let (upper_stamp, lower_stamp) = (self.tick(), self.tick());
        let ids = (node.ids as usize).min(at);
        let upper = SglangNode {
            stamp: upper_stamp,
            ids: ids as u32,
            private: (at - ids) as u32,
            children: 1,
            device_children: u32::from(node.on_device),
            duplicate: 0,
            ..node
        };
        let upper = self.place(upper);
        if ids > 0 {
            self.children.insert((node.parent, self.labels[node.start]), upper);
        }
        if at < node.ids as usize {
            self.children.insert((upper, self.labels[node.start + at]), lower);
        }
        let part = &mut self.nodes[lower as usize];
        part.parent = upper;
        part.start += ids;
        part.ids -= ids as u32;
        part.private -= (at - ids) as u32;
        part.stamp = lower_stamp;
        self.move_leaf(node.stamp, lower);
        self.auxiliary.split(lower, upper, at as u64);
        self.host.auxiliary.split(lower, upper, at as u64);
        self.note_duplicate(upper);
        upper
    }

    /// Stamps one node.
    pub(super) fn touch(&mut self, index: NodeIndex) {
        let new = self.tick();
        let old = std::mem::replace(&mut self.nodes[index as usize].stamp, new);
        self.move_leaf(old, index);
    }

    /// Puts a leaf that had the stamp `old` where its stamp belongs.
    fn move_leaf(&mut self, old: u64, index: NodeIndex) {
        let new = self.node(index).stamp;
        for leaves in [&mut self.evictable, &mut self.host.leaves] {
            if leaves.remove(&old).is_some() {
                leaves.insert(new, index);
            }
        }
    }

    /// Keeps a node from being evicted.
    pub(super) fn withhold(&mut self, index: NodeIndex) {
        let stamp = self.node(index).stamp;
        self.evictable.remove(&stamp);
        self.host.leaves.remove(&stamp);
    }

    /// Makes a node evictable if it is an unlocked leaf: of the device, or of the host where it is nowhere else.
    pub(super) fn offer(&mut self, index: NodeIndex) {
        let node = &self.nodes[index as usize];
        if index == ROOT {
            return;
        }
        if node.on_device && node.device_children == 0 && node.locks == 0 {
            self.evictable.insert(node.stamp, index);
        }
        if !node.on_device && node.children == 0 && index != self.host.pinned {
            self.host.leaves.insert(node.stamp, index);
        }
    }

    /// The next moment of the logical clock.
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Puts a node into the arena.
    fn place(&mut self, node: SglangNode) -> NodeIndex {
        if let Some(index) = self.vacant.pop() {
            self.nodes[index as usize] = node;
            return index;
        }
        self.nodes.push(node);
        // A node holds at least one page and capacities fit 32 bits, so places do too.
        (self.nodes.len() - 1) as NodeIndex
    }
}
