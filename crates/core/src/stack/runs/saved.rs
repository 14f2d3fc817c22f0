//! A tree of runs as plain data, for snapshots.

use super::{MAX_PAGES, NONE, Piece, PieceIndex, ROOT, RunIndex, RunTree};
use crate::units::pages::PageIds;
use serde::{Deserialize, Serialize};

/// The nodes of a tree and its pieces. Two trees whose pages stand alike save alike, but for how their
/// paths are cut into nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SavedRuns {
    /// Every node but the root, parents before their children.
    pub nodes: Vec<SavedNode>,
    /// Every piece, list after list, oldest first.
    pub pieces: Vec<SavedPiece>,
}

/// A run of page ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedNode {
    /// Position of the parent counted from 1 in the list of nodes; 0 is the root.
    pub parent: u32,
    /// The pages' ids, the first page of a prompt keyed by its scope.
    pub ids: Vec<u64>,
}

/// A run of resident pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPiece {
    /// Position of its node counted from 1; 0 for pages that nobody shares.
    pub node: u32,
    /// The group it belongs to.
    pub tag: u32,
    /// First page, counted from the node's first.
    pub from: u32,
    /// Behind its last page, counted likewise.
    pub to: u32,
    /// When its pages got their names, or when they may go.
    pub order: u64,
    /// Whether its first page leaves first.
    pub ascending: bool,
}

/// Why a saved state is no state of a cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {position} of a saved cache {fault}: the snapshot is damaged, rebuild from the log")]
pub struct StateFault {
    /// `node`, `piece` or `cache`.
    pub part: &'static str,
    /// Position in its list, from 0.
    pub position: usize,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl SavedRuns {
    /// Pages of all pieces.
    pub fn pages(&self) -> u64 {
        // Not `to - from`: what was read back from a damaged snapshot is not checked yet.
        self.pieces.iter().map(|piece| u64::from(piece.to.saturating_sub(piece.from))).sum()
    }
}

impl RunTree {
    /// The tree and the pieces of these lists as plain data.
    pub fn save(&self, lists: impl IntoIterator<Item = PieceIndex>) -> SavedRuns {
        let order = self.by_level();
        let mut positions = vec![0u32; self.nodes.len()];
        for (position, node) in order.iter().enumerate() {
            positions[*node as usize] = position as u32 + 1;
        }
        let nodes = order.iter().map(|node| SavedNode {
            parent: positions[self.nodes[*node as usize].parent as usize],
            ids: self.label(*node).iter().collect(),
        });
        let pieces = lists.into_iter().flat_map(|list| self.arena.in_list(list));
        let saved = |piece: &Piece| {
            let (node, first) = match piece.node {
                NONE => (0, 0),
                node => (positions[node as usize], self.nodes[node as usize].first),
            };
            let (from, to) = (piece.from - first, piece.to - first);
            SavedPiece { node, tag: piece.tag, from, to, order: piece.order, ascending: piece.ascending }
        };
        SavedRuns { nodes: nodes.collect(), pieces: pieces.map(saved).collect() }
    }

    /// Every node but the root, level by level, those of one parent by their first id.
    fn by_level(&self) -> Vec<RunIndex> {
        let mut children: Vec<(RunIndex, u64, RunIndex)> =
            self.children.iter().map(|((parent, id), node)| (*parent, *id, *node)).collect();
        children.sort_unstable();
        let mut order = Vec::with_capacity(children.len());
        for level in 0..=children.len() {
            let parent = if level == 0 { ROOT } else { order[level - 1] };
            let first = children.partition_point(|(other, ..)| *other < parent);
            let of_parent = children[first..].iter().take_while(|(other, ..)| *other == parent);
            order.extend(of_parent.map(|(.., node)| *node));
        }
        order
    }

    /// Puts a tree together again; `link` says where each piece stands.
    ///
    /// # Errors
    /// [`StateFault`] for a node without ids, out of order or beginning like another, and for a piece
    /// outside its node or of a group there is not.
    pub fn restore(
        saved: &SavedRuns,
        tags: u32,
        mut link: impl FnMut(&mut RunTree, PieceIndex),
    ) -> Result<RunTree, StateFault> {
        let mut tree = RunTree::new();
        let places = tree.restore_nodes(&saved.nodes)?;
        let mut pages = 0u64;
        for (position, piece) in saved.pieces.iter().enumerate() {
            let fault = |fault| StateFault { part: "piece", position, fault };
            let node = *places.get(piece.node as usize).ok_or(fault("is of no node"))?;
            let (first, end) = if node == ROOT { (0, u32::MAX) } else { tree.span(node) };
            if piece.from >= piece.to || piece.to > end - first {
                return Err(fault("lies outside its node"));
            }
            if piece.tag >= tags {
                return Err(fault("is of no group"));
            }
            pages += u64::from(piece.to - piece.from);
            if pages > MAX_PAGES {
                return Err(fault("is more than fits"));
            }
            let node = if node == ROOT { NONE } else { node };
            let span = (first + piece.from, first + piece.to);
            let restored =
                Piece { ascending: piece.ascending, ..Piece::new(node, piece.tag, span, piece.order) };
            let index = tree.add_piece(restored);
            link(&mut tree, index);
        }
        Ok(tree)
    }

    fn restore_nodes(&mut self, nodes: &[SavedNode]) -> Result<Vec<RunIndex>, StateFault> {
        let mut places = vec![ROOT];
        for (position, node) in nodes.iter().enumerate() {
            let fault = |fault| StateFault { part: "node", position, fault };
            let parent = *places.get(node.parent as usize).ok_or(fault("precedes its parent"))?;
            let first = node.ids.first().ok_or(fault("has no pages"))?;
            if self.children.contains_key(&(parent, *first)) {
                return Err(fault("begins like another child of its parent"));
            }
            if u64::from(self.span(parent).1) + node.ids.len() as u64 > MAX_PAGES {
                return Err(fault("is deeper than a path can be"));
            }
            places.push(self.add(parent, PageIds::from_slice(&node.ids)));
        }
        Ok(places)
    }
}
