//! The other classic: Olken's method, a splay tree over pages ordered by last access.

use hashbrown::HashMap;
use kvset::core::units::pages::{PageIds, Scope, mix};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    left: u32,
    right: u32,
    size: u32,
}

/// A page-at-a-time LRU stack: in-order the tree lists pages from the least to the most recent.
pub struct Splay {
    nodes: Vec<Node>,
    root: u32,
    node_of: HashMap<u64, u32, foldhash::fast::RandomState>,
}

impl Splay {
    pub fn new() -> Self {
        Self { nodes: Vec::new(), root: NONE, node_of: HashMap::default() }
    }

    /// Touches the pages in prefix order; returns the reusable prefix and the capacity it needs.
    pub fn access(&mut self, scope: Scope, pages: PageIds<'_>) -> (u64, u64) {
        let (mut reusable, mut need, mut unbroken) = (0, 0, true);
        for id in pages.iter() {
            let key = if scope == Scope::GLOBAL { id } else { mix(scope.key(id)) };
            let next = self.nodes.len() as u32;
            let node = *self.node_of.entry(key).or_insert(next);
            if node == next {
                unbroken = false;
                self.nodes.push(Node { parent: NONE, left: NONE, right: NONE, size: 1 });
            } else {
                self.splay(node);
                if unbroken {
                    reusable += 1;
                    need = need.max(u64::from(self.size(self.nodes[node as usize].right)) + 1);
                }
                self.remove_root();
            }
            self.push_most_recent(node);
        }
        (reusable, need)
    }

    fn size(&self, node: u32) -> u32 {
        if node == NONE { 0 } else { self.nodes[node as usize].size }
    }

    fn update(&mut self, node: u32) {
        let Node { left, right, .. } = self.nodes[node as usize];
        self.nodes[node as usize].size = 1 + self.size(left) + self.size(right);
    }

    /// Everything in the tree is less recent: it becomes the new root's left child.
    fn push_most_recent(&mut self, node: u32) {
        self.nodes[node as usize] = Node { parent: NONE, left: self.root, right: NONE, size: 1 };
        if self.root != NONE {
            self.nodes[self.root as usize].parent = node;
        }
        self.root = node;
        self.update(node);
    }

    fn remove_root(&mut self) {
        let Node { left, right, .. } = self.nodes[self.root as usize];
        for child in [left, right].into_iter().filter(|&child| child != NONE) {
            self.nodes[child as usize].parent = NONE;
        }
        if left == NONE {
            self.root = right;
            return;
        }
        self.root = left;
        let mut newest = left;
        while self.nodes[newest as usize].right != NONE {
            newest = self.nodes[newest as usize].right;
        }
        self.splay(newest);
        self.nodes[newest as usize].right = right;
        if right != NONE {
            self.nodes[right as usize].parent = newest;
        }
        self.update(newest);
    }

    fn rotate(&mut self, node: u32) {
        let parent = self.nodes[node as usize].parent;
        let above = self.nodes[parent as usize].parent;
        let is_left = self.nodes[parent as usize].left == node;
        let inner = if is_left { self.nodes[node as usize].right } else { self.nodes[node as usize].left };
        if is_left {
            self.nodes[parent as usize].left = inner;
            self.nodes[node as usize].right = parent;
        } else {
            self.nodes[parent as usize].right = inner;
            self.nodes[node as usize].left = parent;
        }
        if inner != NONE {
            self.nodes[inner as usize].parent = parent;
        }
        self.nodes[parent as usize].parent = node;
        self.nodes[node as usize].parent = above;
        if above == NONE {
            self.root = node;
        } else if self.nodes[above as usize].left == parent {
            self.nodes[above as usize].left = node;
        } else {
            self.nodes[above as usize].right = node;
        }
        self.update(parent);
        self.update(node);
    }

    fn splay(&mut self, node: u32) {
        loop {
            let parent = self.nodes[node as usize].parent;
            if parent == NONE {
                return;
            }
            let above = self.nodes[parent as usize].parent;
            if above != NONE {
                let straight =
                    (self.nodes[parent as usize].left == node) == (self.nodes[above as usize].left == parent);
                self.rotate(if straight { parent } else { node });
            }
            self.rotate(node);
        }
    }
}
