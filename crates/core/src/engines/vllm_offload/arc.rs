//! Adaptive replacement as vLLM does it: chunks used once and chunks used again, each in one order, with ghosts of those
//! that left either.
//!
//! A request's use counts as it ends: what it only stored stays among those used once, what it found there moves to
//! those used again. Until then chunks keep their places, so those that a request found may leave before it ends. What is
//! being written, in the step and in the next one, and what a step offers cannot.

use super::residents::{ChunkSpan, ResidentPath, Residents, clip, total};
use crate::stack::runs::{Piece, PieceIndex, RunIndex, RunTree};
use std::ops::Range;

/// Chunks used once, used again, and the ghosts of those that left either.
const ONCE: u32 = 0;
const AGAIN: u32 = 1;
const ONCE_GHOSTS: u32 = 2;
const AGAIN_GHOSTS: u32 = 3;

const HELD: Range<u32> = ONCE..AGAIN + 1;
const GHOSTS: Range<u32> = ONCE_GHOSTS..AGAIN_GHOSTS + 1;

/// Marks in a piece's `order`, the rest of which is the last step in which it cannot leave: the request being served
/// found it, or stored it.
const FOUND: u64 = 1;
const STORED: u64 = 2;
const STEP: u32 = 2;

#[derive(Debug)]
pub(super) struct ArcChunks {
    path: ResidentPath,
    /// A list and its chunks, by tag, the oldest first.
    lists: [PieceIndex; 4],
    chunks: [u64; 4],
    /// How many chunks used once are wanted: a share of ghosts is added or taken at a time.
    wanted_once: f64,
    capacity: u64,
    /// Chunks stored since the start.
    stored: u64,
    /// Steps since the start.
    step: u64,
    /// What the request being served missed in steps that found no room.
    missed: Vec<ChunkSpan>,
}

impl ArcChunks {
    pub fn new(capacity: u64) -> Self {
        let mut tree = RunTree::new();
        let lists = [(); 4].map(|()| tree.arena.new_list());
        let path = ResidentPath::new(tree);
        Self {
            path,
            lists,
            chunks: [0; 4],
            wanted_once: 0.0,
            capacity,
            stored: 0,
            step: 0,
            missed: Vec::new(),
        }
    }

    fn free(&self) -> u64 {
        self.capacity - self.held()
    }

    /// Learns from ghosts of chunks that are missing, the last one first: each moves the wanted number by the ratio of
    /// the two lists of ghosts.
    fn learn(&mut self, wanted: &[(RunIndex, u32, u32)]) {
        let [_, _, once, again] = self.chunks.map(|chunks| chunks as f64);
        let most = self.capacity as f64;
        for (_, from, to) in wanted.iter().rev() {
            let ghosts = self.path.tree.cut_out(&self.path.nodes, GHOSTS, (*from, *to));
            for index in ghosts.into_iter().rev() {
                if self.was_missed(index) {
                    continue;
                }
                let arena = &mut self.path.tree.arena;
                let tag = arena.get(index).tag;
                for _ in 0..arena.get(index).pages() {
                    self.wanted_once = match tag {
                        ONCE_GHOSTS => (self.wanted_once + (again / once).max(1.0)).min(most),
                        _ => (self.wanted_once - (once / again).max(1.0)).max(0.0),
                    };
                }
                arena.unlink(index);
                arena.get_mut(index).ascending = false;
                self.path.tree.append(self.lists[tag as usize], index);
            }
        }
    }

    /// Whether an earlier step of the request has learnt from a ghost; cut at the ends of steps, it lies in one whole.
    fn was_missed(&self, index: PieceIndex) -> bool {
        let ghost = self.path.tree.arena.get(index);
        self.missed.iter().any(|(from, to)| *from <= ghost.from && ghost.to <= *to)
    }

    /// Chunks of a list that cannot leave in this step, all of them the request's own.
    fn fixed(&self, tag: u32) -> u64 {
        let own = self.path.nodes.iter().flat_map(|node| self.path.tree.pieces(*node));
        let fixed = own.filter(|(_, piece)| piece.tag == tag && self.is_fixed(piece));
        fixed.map(|(_, piece)| u64::from(piece.pages())).sum()
    }

    fn is_fixed(&self, piece: &Piece) -> bool {
        piece.order >> STEP >= self.step
    }

    /// Drops so many chunks; none where fewer can leave. Chunks used once go while there are as many as are wanted, then
    /// those used again.
    fn evict(&mut self, chunks: u64) -> bool {
        let once = self.chunks[ONCE as usize] - self.fixed(ONCE);
        let again = self.chunks[AGAIN as usize] - self.fixed(AGAIN);
        if chunks > once + again {
            return false;
        }
        // A count, not negative.
        let surplus = (self.chunks[ONCE as usize] + 1).saturating_sub(self.wanted_once as u64);
        let first = chunks.min(once).min(surplus);
        let second = (chunks - first).min(again);
        self.leave_list(ONCE, first);
        self.leave_list(AGAIN, second);
        self.leave_list(ONCE, chunks - first - second);
        for tag in GHOSTS {
            self.trim(tag);
        }
        true
    }

    /// The oldest chunks of a list that can leave become ghosts.
    fn leave_list(&mut self, tag: u32, chunks: u64) {
        let (list, mut left) = (self.lists[tag as usize], chunks);
        let mut next = self.path.tree.arena.first(list);
        while left > 0
            && let Some(index) = next
        {
            next = self.path.tree.arena.next(list, index);
            let piece = self.path.tree.arena.get(index);
            if self.is_fixed(piece) {
                continue;
            }
            let gone = u64::from(piece.pages()).min(left) as u32;
            left -= u64::from(gone);
            let (whole, ascending) = (gone == piece.pages(), piece.ascending);
            let edge = if ascending { piece.from + gone } else { piece.to - gone };
            let leaving = match (whole, ascending) {
                (true, _) => index,
                (false, true) => {
                    self.path.tree.cut(index, edge);
                    index
                }
                (false, false) => self.path.tree.cut(index, edge),
            };
            self.path.tree.arena.unlink(leaving);
            let piece = self.path.tree.arena.get_mut(leaving);
            (piece.tag, piece.order) = (tag + ONCE_GHOSTS, 0);
            self.path.tree.append(self.lists[(tag + ONCE_GHOSTS) as usize], leaving);
        }
        self.chunks[tag as usize] -= chunks;
        self.chunks[(tag + ONCE_GHOSTS) as usize] += chunks;
    }

    /// Forgets the oldest ghosts that are more than the capacity.
    fn trim(&mut self, tag: u32) {
        let (list, count) = (self.lists[tag as usize], &mut self.chunks[tag as usize]);
        while *count > self.capacity
            && let Some(oldest) = self.path.tree.arena.first(list)
        {
            let gone = u64::from(self.path.tree.arena.get(oldest).pages()).min(*count - self.capacity);
            self.path.tree.drop_first(oldest, gone as u32);
            *count -= gone;
        }
    }

    /// Stores chunks as used once; their ghosts are forgotten.
    fn store(&mut self, (node, from, to): (RunIndex, u32, u32)) {
        for ghost in self.path.tree.cut_out(&self.path.nodes, GHOSTS, (from, to)) {
            let piece = self.path.tree.arena.get(ghost);
            self.chunks[piece.tag as usize] -= u64::from(piece.pages());
            self.path.tree.remove_piece(ghost);
        }
        let order = ((self.step + 1) << STEP) | STORED;
        let piece = self.path.tree.add_piece(Piece::new(node, ONCE, (from, to), order).root_first());
        self.path.tree.append(self.lists[ONCE as usize], piece);
        self.chunks[ONCE as usize] += u64::from(to - from);
    }
}

impl Residents for ArcChunks {
    fn enter(&mut self, ids: &[u64]) {
        self.path.enter(ids);
        self.missed.clear();
        // The stores of the request before are done.
        self.step += 2;
    }

    fn found(&self, (first, end): ChunkSpan) -> u32 {
        let gaps = self.path.tree.gaps(&self.path.nodes, HELD, (first, end));
        gaps.first().map_or(end, |(_, from, _)| *from)
    }

    fn load(&mut self, span: ChunkSpan) {
        for index in self.path.tree.cut_out(&self.path.nodes, HELD, span) {
            self.path.tree.arena.get_mut(index).order |= FOUND;
        }
    }

    fn offer(&mut self, span: ChunkSpan, admitted: Option<&[ChunkSpan]>) -> bool {
        self.step += 1;
        let wanted = clip(self.path.tree.gaps(&self.path.nodes, HELD, span), admitted);
        self.learn(&wanted);
        for index in self.path.tree.cut_out(&self.path.nodes, HELD, span) {
            let piece = self.path.tree.arena.get_mut(index);
            let (marks, fixed) = (piece.order & (FOUND | STORED), piece.order >> STEP);
            let marks = if marks & STORED == 0 { FOUND } else { marks };
            piece.order = (fixed.max(self.step) << STEP) | marks;
        }
        let (chunks, free) = (total(&wanted), self.free());
        if chunks > free && !self.evict(chunks - free) {
            self.missed.extend(wanted.iter().map(|(_, from, to)| (*from, *to)));
            return false;
        }
        self.stored += chunks;
        wanted.into_iter().for_each(|run| self.store(run));
        true
    }

    fn leave(&mut self) {
        for index in self.path.tree.cut_out(&self.path.nodes, HELD, (0, u32::MAX)).into_iter().rev() {
            let arena = &mut self.path.tree.arena;
            let piece = arena.get_mut(index);
            if piece.order == 0 {
                continue;
            }
            let to = if piece.order & FOUND != 0 { AGAIN } else { piece.tag };
            self.chunks[piece.tag as usize] -= u64::from(piece.pages());
            self.chunks[to as usize] += u64::from(piece.pages());
            (piece.tag, piece.order, piece.ascending) = (to, 0, false);
            arena.unlink(index);
            self.path.tree.append(self.lists[to as usize], index);
        }
        self.path.leave();
    }

    fn stored(&self) -> u64 {
        self.stored
    }

    fn held(&self) -> u64 {
        self.chunks[ONCE as usize] + self.chunks[AGAIN as usize]
    }

    fn memory_bytes(&self) -> usize {
        self.path.memory_bytes()
    }
}
