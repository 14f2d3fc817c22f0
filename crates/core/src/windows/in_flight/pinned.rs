//! The distinct pages that requests hold: a radix tree over page ids whose nodes count their holders.
//!
//! A path that leaves a node half-way splits it; the lower part keeps its place, so that what ended
//! there still does. A node is gone when nobody holds it, and its children, held by no more requests than
//! it is, are gone by then.

use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

/// A node's place in the table.
pub(super) type PinnedIndex = u32;

/// Where every path begins; it has no pages.
const ROOT: PinnedIndex = 0;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PinnedNode {
    parent: PinnedIndex,
    /// Requests whose path leads through the node; 0 for a free place, and for the root.
    holders: u32,
    /// Ids of its pages, at least one but for the root.
    label: Vec<u64>,
}

heap_bytes!(PinnedNode { label; parent, holders });

/// The pages held, each once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "Vec<PinnedNode>")]
pub(super) struct PinnedPages {
    nodes: Vec<PinnedNode>,
    #[serde(skip)]
    free: Vec<PinnedIndex>,
    /// Child by parent and first id.
    #[serde(skip)]
    children: HashMap<(PinnedIndex, u64), PinnedIndex, FixedState>,
    #[serde(skip)]
    pages: u64,
}

heap_bytes!(PinnedPages { nodes, free, children; pages });

/// A snapshot keeps the nodes; the rest follows from them.
impl From<Vec<PinnedNode>> for PinnedPages {
    fn from(nodes: Vec<PinnedNode>) -> Self {
        let mut pages = Self { nodes, ..Self::default() };
        for (index, node) in pages.nodes.iter().enumerate().skip(1) {
            match node.label.first() {
                Some(&first) if node.holders > 0 => {
                    pages.children.insert((node.parent, first), index as PinnedIndex);
                    pages.pages += node.label.len() as u64;
                }
                _ => pages.free.push(index as PinnedIndex),
            }
        }
        pages
    }
}

impl Default for PinnedPages {
    fn default() -> Self {
        let nodes = vec![PinnedNode::default()];
        Self { nodes, free: Vec::new(), children: HashMap::with_hasher(FixedState::default()), pages: 0 }
    }
}

impl PinnedPages {
    /// Distinct pages held.
    pub(super) fn count(&self) -> u64 {
        self.pages
    }

    /// Holds the pages of a path; returns where it ends, which is what releases it. May take the ids.
    pub(super) fn hold(&mut self, ids: &mut Vec<u64>) -> PinnedIndex {
        let (mut end, mut rest) = (ROOT, &ids[..]);
        while let Some(first) = rest.first()
            && let Some(&child) = self.children.get(&(end, *first))
        {
            let label = PageIds::from_slice(&self.nodes[child as usize].label);
            let common = label.common_prefix(PageIds::from_slice(rest));
            end = self.split(child, common);
            self.nodes[end as usize].holders += 1;
            rest = &rest[common..];
        }
        if !rest.is_empty() {
            self.pages += rest.len() as u64;
            // Long ids are copied once, where they are all new and their memory has not much to spare.
            let are_taken = end == ROOT && ids.capacity() / 2 <= ids.len();
            let label = if are_taken { std::mem::take(ids) } else { rest.to_vec() };
            end = self.place(PinnedNode { parent: end, holders: 1, label });
        }
        end
    }

    /// Gives back a path that was held. The memory of its ids may be put into `spare`.
    pub(super) fn release(&mut self, tail: PinnedIndex, spare: &mut Vec<u64>) {
        let mut index = tail;
        while index != ROOT {
            let node = &mut self.nodes[index as usize];
            let parent = node.parent;
            node.holders -= 1;
            if node.holders == 0 {
                let label = std::mem::take(&mut node.label);
                self.pages -= label.len() as u64;
                self.children.remove(&(parent, label[0]));
                self.free.push(index);
                if label.capacity() > spare.capacity() {
                    *spare = label;
                }
            }
            index = parent;
        }
    }

    /// Splits a node after `pages` of its label and returns the upper part; the whole node when `pages` is
    /// all of it.
    fn split(&mut self, lower: PinnedIndex, pages: usize) -> PinnedIndex {
        let node = &mut self.nodes[lower as usize];
        if pages == node.label.len() {
            return lower;
        }
        let rest = node.label.split_off(pages);
        let next = rest[0];
        let upper = PinnedNode { label: std::mem::replace(&mut node.label, rest), ..*node };
        // Placing it makes it the child that `lower` was.
        let upper = self.place(upper);
        self.nodes[lower as usize].parent = upper;
        self.children.insert((upper, next), lower);
        upper
    }

    /// Puts a node into the table and below its parent.
    fn place(&mut self, node: PinnedNode) -> PinnedIndex {
        let edge = (node.parent, node.label[0]);
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                // A node has a page and a holder, and both are bounded far below 32 bits.
                (self.nodes.len() - 1) as PinnedIndex
            }
        };
        self.children.insert(edge, index);
        index
    }

    /// Whether the nodes are exactly those on the paths that end at `tails`, held as often: what a
    /// snapshot says may be damaged.
    pub(super) fn are_held_by(&self, tails: impl Iterator<Item = PinnedIndex>) -> bool {
        let mut holders = vec![0_u32; self.nodes.len()];
        for tail in tails {
            let (mut index, mut steps) = (tail, 0);
            while index != ROOT {
                let Some(node) = self.nodes.get(index as usize) else { return false };
                if node.label.is_empty() || steps == self.nodes.len() {
                    return false;
                }
                holders[index as usize] += 1;
                (index, steps) = (node.parent, steps + 1);
            }
        }
        let used = self.nodes.iter().filter(|node| node.holders > 0).count();
        self.nodes.iter().map(|node| node.holders).eq(holders)
            && used == self.children.len()
            && !self.nodes.is_empty()
    }
}
