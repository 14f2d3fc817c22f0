//! The chunks that a cache holds, in one order.

use crate::stack::runs::{NONE, Piece, PieceIndex, RunIndex, RunTree, SavedRuns, StateFault};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;

/// Chunks in one order, the ones that leave next first.
#[derive(Debug, Clone)]
pub(super) struct HeldChunks {
    tree: RunTree,
    /// The chunks, oldest first.
    queue: PieceIndex,
    /// How many.
    pub(super) count: u64,
    /// How many were put since the start; not saved.
    pub(super) put: u64,
    /// The nodes that the latest request's chunks lie in; kept for its memory.
    path: Vec<RunIndex>,
    /// Pieces that were found; kept for its memory.
    found: Vec<PieceIndex>,
}

heap_bytes!(HeldChunks { tree, path, found; queue, count, put });

impl HeldChunks {
    /// None.
    pub(super) fn new() -> Self {
        let mut tree = RunTree::new();
        let queue = tree.arena.new_list();
        Self { tree, queue, count: 0, put: 0, path: Vec::new(), found: Vec::new() }
    }

    /// Begins a request with these chunks, which [`HeldChunks::leave`] ends.
    pub(super) fn enter(&mut self, ids: PageIds<'_>) {
        let mut path = std::mem::take(&mut self.path);
        self.tree.enter(ids, &mut path);
        self.path = path;
    }

    /// Ends the request.
    pub(super) fn leave(&mut self) {
        self.tree.release(&self.path);
    }

    /// Where the path of the request ends, which others may enter before it is left.
    pub(super) fn tail(&self) -> RunIndex {
        self.path.last().copied().unwrap_or(NONE)
    }

    /// Goes on with a request whose path ends here.
    pub(super) fn return_to(&mut self, tail: RunIndex) {
        let mut path = std::mem::take(&mut self.path);
        self.tree.path_to(tail, &mut path);
        self.path = path;
    }

    /// The ids of the first chunks of a path.
    pub(super) fn ids_to(&self, tail: RunIndex, chunks: u32) -> Vec<u64> {
        let mut path = Vec::new();
        self.tree.path_to(tail, &mut path);
        self.tree.ids_of(&path, chunks as usize)
    }

    /// Up to which of the request's chunks, from the first one on, all are there, at most the last one.
    pub(super) fn found(&self, (first, last): (u32, u32)) -> u32 {
        self.tree.run_from(&self.path, |_| true, (first, last))
    }

    /// Moves those of the chunks `first..end` that are there to the young end, the first one youngest.
    pub(super) fn refresh(&mut self, first: u32, end: u32) {
        let mut found = std::mem::take(&mut self.found);
        self.tree.cut_out(&self.path, |_| true, (first, end), &mut found, |_| {});
        for piece in found.iter().rev() {
            self.tree.arena.unlink(*piece);
            self.tree.arena.get_mut(*piece).ascending = false;
            self.tree.append(self.queue, *piece);
        }
        self.found = found;
    }

    /// Drops so many of the oldest chunks, all where there are fewer.
    pub(super) fn evict(&mut self, chunks: u64) {
        let mut left = chunks.min(self.count);
        self.count -= left;
        while left > 0
            && let Some(oldest) = self.tree.arena.first(self.queue)
        {
            let gone = u64::from(self.tree.arena.get(oldest).pages()).min(left);
            self.tree.drop_first(oldest, gone as u32);
            left -= gone;
        }
    }

    /// Puts the chunks `from..to` at the young end, in prefix order; one that is there keeps its place.
    pub(super) fn put(&mut self, from: u32, to: u32) {
        for (node, from, to) in self.missing(from, to) {
            let piece = self.tree.add_piece(Piece::new(node, 0, (from, to), 0));
            self.tree.arena.get_mut(piece).ascending = true;
            self.tree.arena.push(self.queue, piece);
            self.count += u64::from(to - from);
            self.put += u64::from(to - from);
        }
    }

    /// Puts the chunks `from..to` that are not there at the young end, the first one youngest.
    pub(super) fn put_first_youngest(&mut self, from: u32, to: u32) {
        for (node, from, to) in self.missing(from, to).into_iter().rev() {
            let piece = self.tree.add_piece(Piece::new(node, 0, (from, to), 0));
            self.tree.append(self.queue, piece);
            self.count += u64::from(to - from);
            self.put += u64::from(to - from);
        }
    }

    /// Those of the chunks `from..to` that are not there.
    pub(super) fn missing(&mut self, from: u32, to: u32) -> Vec<(RunIndex, u32, u32)> {
        let mut missing = Vec::new();
        self.tree.gaps(&self.path, |_| true, (from, to), |run| missing.push(run));
        missing
    }

    /// The chunks as plain data, oldest first.
    pub(super) fn save(&self) -> SavedRuns {
        self.tree.save([self.queue])
    }

    /// The chunks that were saved.
    ///
    /// # Errors
    /// When the state is damaged: a node or a run that contradicts the others.
    pub(super) fn restore(saved: &SavedRuns) -> Result<Self, StateFault> {
        let mut held = Self::new();
        let mut queue = None;
        let mut tree = RunTree::restore(saved, 1, |tree, piece| {
            let list = *queue.get_or_insert_with(|| tree.arena.new_list());
            tree.arena.push(list, piece);
        })?;
        // The paths of requests in flight may lie in it even where nothing is stored yet.
        held.queue = queue.unwrap_or_else(|| tree.arena.new_list());
        (held.tree, held.count) = (tree, saved.pages());
        Ok(held)
    }
}
