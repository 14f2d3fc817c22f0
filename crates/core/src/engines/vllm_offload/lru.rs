//! Chunks in the order of the requests that used them last, a request's last chunk before its first.
//!
//! While a request runs, its chunks are the youngest. Where room is made and nobody else's are left, its own go, the
//! last ones first, but for those of this step and those that the step before stored: these are still being written.

use super::residents::{ChunkSpan, ResidentPath, Residents, clip, total};
use crate::stack::runs::{Piece, PieceIndex, RunTree};

/// Chunks that wait in the order of their last use.
const QUEUED: u32 = 0;
/// Those that the request being served has used.
const OWN: u32 = 1;

#[derive(Debug)]
pub(super) struct LruChunks {
    path: ResidentPath,
    /// The oldest first. A chunk of the request's own stands in no list; its `order` is the last step in which it cannot
    /// leave.
    queue: PieceIndex,
    queued: u64,
    held: u64,
    stored: u64,
    capacity: u64,
    /// Steps since the start.
    step: u64,
}

impl LruChunks {
    pub fn new(capacity: u64) -> Self {
        let mut tree = RunTree::new();
        let queue = tree.arena.new_list();
        Self { path: ResidentPath::new(tree), queue, queued: 0, held: 0, stored: 0, capacity, step: 0 }
    }

    /// Moves chunks that are there to the request's own, of which they cannot leave up to this step.
    fn use_up_to(&mut self, span: ChunkSpan, step: u64) {
        let tree = &mut self.path.tree;
        for index in tree.cut_out(&self.path.nodes, QUEUED..OWN + 1, span) {
            if tree.arena.get(index).tag == QUEUED {
                tree.arena.unlink(index);
                self.queued -= u64::from(tree.arena.get(index).pages());
            }
            let piece = tree.arena.get_mut(index);
            (piece.tag, piece.order) = (OWN, piece.order.max(step));
        }
    }

    /// Drops so many chunks; none where fewer can leave.
    fn evict(&mut self, chunks: u64) -> bool {
        let own = if chunks > self.queued { self.own_that_can_leave() } else { Vec::new() };
        let tree = &mut self.path.tree;
        let idle: u64 = own.iter().map(|index| u64::from(tree.arena.get(*index).pages())).sum();
        if chunks > self.queued + idle {
            return false;
        }
        self.held -= chunks;
        let mut left = chunks;
        while left > 0
            && let Some(oldest) = tree.arena.first(self.queue)
        {
            let gone = u64::from(tree.arena.get(oldest).pages()).min(left);
            tree.drop_first(oldest, gone as u32);
            (self.queued, left) = (self.queued - gone, left - gone);
        }
        for index in own {
            let gone = u64::from(tree.arena.get(index).pages()).min(left);
            if gone > 0 {
                tree.drop_first(index, gone as u32);
            }
            left -= gone;
        }
        true
    }

    /// The request's own chunks that can leave, the last ones first.
    fn own_that_can_leave(&mut self) -> Vec<PieceIndex> {
        let tree = &mut self.path.tree;
        let mut own = tree.cut_out(&self.path.nodes, OWN..OWN + 1, (0, u32::MAX));
        own.retain(|index| tree.arena.get(*index).order < self.step);
        own.reverse();
        own
    }
}

impl Residents for LruChunks {
    fn enter(&mut self, ids: &[u64]) {
        self.path.enter(ids);
        // The stores of the request before are done.
        self.step += 2;
    }

    fn found(&self, (first, end): ChunkSpan) -> u32 {
        let gaps = self.path.tree.gaps(&self.path.nodes, QUEUED..OWN + 1, (first, end));
        gaps.first().map_or(end, |(_, from, _)| *from)
    }

    fn load(&mut self, span: ChunkSpan) {
        self.use_up_to(span, 0);
    }

    fn offer(&mut self, span: ChunkSpan, admitted: Option<&[ChunkSpan]>) -> bool {
        self.step += 1;
        self.use_up_to(span, self.step);
        let wanted = clip(self.path.tree.gaps(&self.path.nodes, OWN..OWN + 1, span), admitted);
        let (chunks, free) = (total(&wanted), self.capacity - self.held);
        if chunks > free && !self.evict(chunks - free) {
            return false;
        }
        self.held += chunks;
        self.stored += chunks;
        for (node, from, to) in wanted {
            self.path.tree.add_piece(Piece::new(node, OWN, (from, to), self.step + 1));
        }
        true
    }

    fn leave(&mut self) {
        let tree = &mut self.path.tree;
        for index in tree.cut_out(&self.path.nodes, OWN..OWN + 1, (0, u32::MAX)).into_iter().rev() {
            let piece = tree.arena.get_mut(index);
            (piece.tag, piece.order) = (QUEUED, 0);
            self.queued += u64::from(piece.pages());
            tree.append(self.queue, index);
        }
        self.path.leave();
    }

    fn stored(&self) -> u64 {
        self.stored
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn memory_bytes(&self) -> usize {
        self.path.memory_bytes()
    }
}
