//! A tree of prefixes whose pages are kept in runs: what the caches by their own rules are made of.
//!
//! A node is a run of page ids that follow its parent's. A *piece* is a run of resident pages inside one
//! node, which entered the cache together and leave it in order; pieces stand in lists by age. So a request
//! costs nodes and pieces, not pages.

mod path;
mod pieces;
mod saved;

pub(crate) use pieces::{Piece, PieceArena, PieceIndex};
pub use saved::{SavedNode, SavedPiece, SavedRuns, StateFault};

use crate::units::heap::{flat, heap_bytes};
use crate::units::pages::PageIds;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A node's place in the tree.
pub(crate) type RunIndex = u32;

/// The root: it has no pages and never goes.
const ROOT: RunIndex = 0;

/// No node and no piece.
pub(crate) const NONE: u32 = u32::MAX;

/// Most pages a path may have, and most pages a cache may hold: depths are counted in 32 bits.
pub(crate) const MAX_PAGES: u64 = u32::MAX as u64 - 1;

/// Labels nobody reads any more are dropped once they outnumber the live ones by this many.
const SLACK: usize = 4096;

/// A run of page ids.
#[derive(Debug, Clone)]
struct RunNode {
    parent: RunIndex,
    /// Pages before it on its path.
    first: u32,
    pages: u32,
    /// Where its ids start in the tree's buffer.
    label: usize,
    children: u32,
    /// The first of its pieces.
    pieces: PieceIndex,
    /// Requests in flight whose path it is on: it stays as long as there are any, whatever leaves it.
    holders: u32,
}

flat!(RunNode);

/// The tree with its pieces. Leaves without pieces go, and a leaf is cut behind its last piece, so a tree
/// keeps ids of paths that end in a resident page only.
#[derive(Debug, Clone)]
pub(crate) struct RunTree {
    pub arena: PieceArena,
    nodes: Vec<RunNode>,
    vacant: Vec<RunIndex>,
    /// Ids as they lie in records, so that they are copied whole.
    labels: Vec<[u8; 8]>,
    live_labels: usize,
    children: HashMap<(RunIndex, u64), RunIndex, FixedState>,
    /// What pieces of one node hold of a span; kept for its memory.
    held: Vec<(u32, u32, PieceIndex)>,
}

heap_bytes!(RunTree { arena, nodes, vacant, labels, children, held; live_labels });

impl RunTree {
    pub fn new() -> Self {
        let root =
            RunNode { parent: NONE, first: 0, pages: 0, label: 0, children: 0, pieces: NONE, holders: 1 };
        Self {
            arena: PieceArena::default(),
            nodes: vec![root],
            vacant: Vec::new(),
            labels: Vec::new(),
            live_labels: 0,
            children: HashMap::with_hasher(FixedState::default()),
            held: Vec::new(),
        }
    }

    /// The pages of a node, as depths on its path.
    pub fn span(&self, node: RunIndex) -> (u32, u32) {
        let node = &self.nodes[node as usize];
        (node.first, node.first + node.pages)
    }

    /// The pieces of a node, in no order that means anything.
    pub fn pieces(&self, node: RunIndex) -> impl Iterator<Item = (PieceIndex, &Piece)> {
        let mut next = self.nodes[node as usize].pieces;
        std::iter::from_fn(move || {
            let index = (next != NONE).then_some(next)?;
            let piece = self.arena.get(index);
            next = piece.next_in_node;
            Some((index, piece))
        })
    }

    /// Finds the path of `ids` from the root, adding what is not there, and holds its nodes until
    /// [`RunTree::release`]. The last node may go on behind the last id.
    pub fn enter(&mut self, ids: PageIds<'_>, path: &mut Vec<RunIndex>) {
        path.clear();
        let (mut parent, mut rest) = (ROOT, ids);
        while let Some(next) = rest.get(0) {
            let Some(&child) = self.children.get(&(parent, next)) else {
                path.push(self.add(parent, rest));
                break;
            };
            let label = self.label(child);
            let common = label.common_prefix(rest);
            rest = rest.from(common);
            let is_whole = common == label.len() || rest.is_empty();
            let upper = if is_whole { child } else { self.split(child, common as u32) };
            path.push(upper);
            parent = upper;
        }
        for node in path {
            self.nodes[*node as usize].holders += 1;
        }
    }

    /// Lets a path go; what of it holds no piece is dropped.
    pub fn release(&mut self, path: &[RunIndex]) {
        for node in path {
            self.nodes[*node as usize].holders -= 1;
        }
        if let Some(last) = path.last() {
            self.trim(*last);
        }
        self.compact();
    }

    /// Finds the path that ends at a node, which is [held](RunTree::enter) and may have been split since it was
    /// entered.
    pub fn path_to(&self, tail: RunIndex, path: &mut Vec<RunIndex>) {
        path.clear();
        let mut node = tail;
        while node != NONE && node != ROOT {
            path.push(node);
            node = self.nodes[node as usize].parent;
        }
        path.reverse();
    }

    /// The first ids of a path, at most so many.
    pub fn ids_of(&self, path: &[RunIndex], most: usize) -> Vec<u64> {
        path.iter().flat_map(|node| self.label(*node).iter()).take(most).collect()
    }

    /// Adds a piece to a node (or to none: pages nobody shares); it stands in no list yet.
    pub fn add_piece(&mut self, piece: Piece) -> PieceIndex {
        let node = piece.node;
        let index = self.arena.place(piece);
        if node != NONE {
            let first = std::mem::replace(&mut self.nodes[node as usize].pieces, index);
            self.arena.chain(index, first);
        }
        index
    }

    /// Removes a piece, out of its list too.
    pub fn remove_piece(&mut self, index: PieceIndex) {
        self.arena.unlink(index);
        let node = self.arena.get(index).node;
        self.detach(index);
        self.arena.vacate(index);
        if node != NONE {
            self.trim(node);
        }
    }

    /// Cuts a piece before the page `at` inside it and returns the deeper part, which stands alongside it.
    pub fn cut(&mut self, index: PieceIndex, at: u32) -> PieceIndex {
        let piece = self.arena.get(index).clone();
        let deeper = self.add_piece(Piece { from: at, ..piece });
        self.arena.get_mut(index).to = at;
        self.arena.link_sibling(deeper, index);
        deeper
    }

    /// Takes the next so many pages to leave from a piece, at most all of them.
    pub fn drop_first(&mut self, index: PieceIndex, pages: u32) {
        if pages < self.arena.get(index).pages() {
            self.shorten(index, pages);
        } else {
            self.remove_piece(index);
        }
    }

    /// Takes so many pages, fewer than it has, off the end of a piece that leaves first.
    fn shorten(&mut self, index: PieceIndex, pages: u32) {
        let piece = self.arena.get_mut(index);
        if piece.ascending {
            piece.from += pages;
            return;
        }
        piece.to -= pages;
        if piece.node != NONE {
            let node = piece.node;
            self.trim(node);
        }
    }

    /// The end of the unbroken run of pages from `at` on that pieces with one of these tags hold in a node; `at` where
    /// there is none.
    pub fn covered_up_to(&self, node: RunIndex, tags: impl Fn(u32) -> bool, at: u32) -> u32 {
        let mut end = at;
        loop {
            let covering = |piece: &&Piece| tags(piece.tag) && piece.from <= end && end < piece.to;
            match self.pieces(node).map(|(_, piece)| piece).filter(covering).map(|piece| piece.to).max() {
                Some(further) => end = further,
                None => return end,
            }
        }
    }

    /// The start of the unbroken run of pages before `at` that pieces with one of these tags hold in a node; `at`
    /// where there is none.
    pub fn covered_down_to(&self, node: RunIndex, tags: impl Fn(u32) -> bool, at: u32) -> u32 {
        let mut start = at;
        loop {
            let covering = |piece: &&Piece| tags(piece.tag) && piece.from < start && start <= piece.to;
            match self.pieces(node).map(|(_, piece)| piece).filter(covering).map(|piece| piece.from).min() {
                Some(further) => start = further,
                None => return start,
            }
        }
    }

    /// Leading pages of a path that pieces with one of these tags hold, at most `limit`.
    pub fn leading(&self, path: &[RunIndex], tags: impl Fn(u32) -> bool + Copy, limit: u32) -> u32 {
        self.run_from(path, tags, (0, limit))
    }

    /// The end of the unbroken run of pages of a path from `start` on that pieces with one of these tags hold, at most
    /// `limit`.
    pub fn run_from(
        &self,
        path: &[RunIndex],
        tags: impl Fn(u32) -> bool + Copy,
        (start, limit): (u32, u32),
    ) -> u32 {
        let mut at = start;
        for node in path {
            let (_, end) = self.span(*node);
            if at >= limit {
                break;
            }
            if end <= at {
                continue;
            }
            at = self.covered_up_to(*node, tags, at);
            if at < end {
                break;
            }
        }
        at.min(limit)
    }

    fn label(&self, node: RunIndex) -> PageIds<'_> {
        let node = &self.nodes[node as usize];
        PageIds::from_le_bytes(&self.labels[node.label..node.label + node.pages as usize])
    }

    /// The id at a place of the buffer.
    fn id(&self, label: usize) -> u64 {
        u64::from_le_bytes(self.labels[label])
    }

    /// Adds a leaf; its first id must not lead to another child of `parent`.
    fn add(&mut self, parent: RunIndex, ids: PageIds<'_>) -> RunIndex {
        let label = self.labels.len();
        self.labels.extend_from_slice(ids.as_le_bytes());
        self.live_labels += ids.len();
        let first = self.span(parent).1;
        let pages = ids.len() as u32;
        let index =
            self.place(RunNode { parent, first, pages, label, children: 0, pieces: NONE, holders: 0 });
        self.nodes[parent as usize].children += 1;
        if let Some(id) = ids.get(0) {
            self.children.insert((parent, id), index);
        }
        index
    }

    /// Splits a node behind its first `at` pages, and the pieces that cross the edge; returns the upper part.
    fn split(&mut self, lower: RunIndex, at: u32) -> RunIndex {
        let node = self.nodes[lower as usize].clone();
        let edge = node.first + at;
        let upper = self.place(RunNode { pages: at, children: 1, pieces: NONE, ..node });
        self.children.insert((node.parent, self.id(node.label)), upper);
        self.children.insert((upper, self.id(node.label + at as usize)), lower);
        let part = &mut self.nodes[lower as usize];
        part.parent = upper;
        part.first = edge;
        part.pages -= at;
        part.label += at as usize;
        let crossing: Vec<PieceIndex> =
            self.pieces(lower).filter(|(_, piece)| piece.from < edge).map(|(index, _)| index).collect();
        for index in crossing {
            if self.arena.get(index).to > edge {
                self.cut(index, edge);
            }
            self.detach(index);
            let first = std::mem::replace(&mut self.nodes[upper as usize].pieces, index);
            self.arena.chain(index, first);
            self.arena.get_mut(index).node = upper;
        }
        upper
    }

    /// Takes a piece out of its node's chain.
    fn detach(&mut self, index: PieceIndex) {
        let (node, next) = (self.arena.get(index).node, self.arena.get(index).next_in_node);
        if node != NONE && self.nodes[node as usize].pieces == index {
            self.nodes[node as usize].pieces = next;
        }
        self.arena.unchain(index);
    }

    /// Cuts a leaf behind its last piece, and drops it and whatever above it has neither pieces nor children.
    fn trim(&mut self, mut index: RunIndex) {
        while index != ROOT {
            let node = &self.nodes[index as usize];
            if node.holders > 0 || node.children > 0 {
                return;
            }
            let (parent, pages, label) = (node.parent, node.pages, node.label);
            let kept = self.pages_to_last_piece(index);
            if kept == pages {
                return;
            }
            self.live_labels -= (pages - kept) as usize;
            self.nodes[index as usize].pages = kept;
            if kept > 0 {
                return;
            }
            self.children.remove(&(parent, self.id(label)));
            self.vacant.push(index);
            self.nodes[parent as usize].children -= 1;
            index = parent;
        }
    }

    /// Leading pages of a node up to the end of the piece that reaches deepest into it.
    fn pages_to_last_piece(&self, node: RunIndex) -> u32 {
        let (first, end) = self.span(node);
        let mut deepest = first;
        for (_, piece) in self.pieces(node) {
            deepest = deepest.max(piece.to);
            if deepest >= end {
                break;
            }
        }
        deepest - first
    }

    /// Drops the labels of nodes that are gone, once they are the greater part. The others move up where they lie:
    /// memory that was written to before costs nothing to write to again.
    fn compact(&mut self) {
        if self.labels.len() > 2 * self.live_labels + SLACK {
            self.close_gaps();
        }
    }

    #[cold]
    fn close_gaps(&mut self) {
        let mut live: Vec<&mut RunNode> = self.nodes.iter_mut().filter(|node| node.pages > 0).collect();
        live.sort_unstable_by_key(|node| node.label);
        let mut end = 0;
        for node in live {
            self.labels.copy_within(node.label..node.label + node.pages as usize, end);
            node.label = end;
            end += node.pages as usize;
        }
        self.labels.truncate(end);
    }

    fn place(&mut self, node: RunNode) -> RunIndex {
        if let Some(index) = self.vacant.pop() {
            self.nodes[index as usize] = node;
            return index;
        }
        self.nodes.push(node);
        // A node has at least one page of a path that a cache of 32 bits holds, so places fit.
        (self.nodes.len() - 1) as RunIndex
    }
}
