//! How often chunks were offered, each group's by themselves: a table of bounded size, those offered longest ago
//! forgotten first.

use super::residents::{GroupSpan, ResidentPath};
use super::saved::fault;
use crate::stack::runs::{Piece, PieceIndex, RunTree, SavedRuns, StateFault};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;

/// Chunks that are remembered (`max_tracker_size`).
const MOST: u64 = 64_000;

/// A piece's tag is its group; its `order` is how often its chunks were offered, up to the threshold.
#[derive(Debug)]
pub(super) struct Offers {
    path: ResidentPath,
    /// The ones offered longest ago first.
    queue: PieceIndex,
    count: u64,
    most: u64,
    threshold: u64,
}

heap_bytes!(Offers { path; queue, count, most, threshold });

impl Offers {
    pub fn new(threshold: u32) -> Self {
        let mut tree = RunTree::new();
        let queue = tree.arena.new_list();
        Self { path: ResidentPath::new(tree), queue, count: 0, most: MOST, threshold: u64::from(threshold) }
    }

    pub fn enter(&mut self, ids: PageIds<'_>) {
        self.path.enter(ids);
    }

    pub fn leave(&mut self) {
        self.path.leave();
    }

    /// Counts an offer of these chunks, and says which of them were offered as often as it takes.
    ///
    /// Known ones become the youngest, then come new ones. An offer forgets none of its own: where the table is full of
    /// it, the rest of the new ones are not remembered.
    pub fn count(&mut self, spans: &[GroupSpan]) -> Vec<GroupSpan> {
        let mut known = 0;
        let mut found = std::mem::take(&mut self.path.pieces);
        let mut gaps = std::mem::take(&mut self.path.runs);
        gaps.clear();
        for (group, span) in spans {
            let tree = &mut self.path.tree;
            let gap = |run| gaps.push((*group, run));
            tree.cut_out(&self.path.nodes, |tag| tag == *group, *span, &mut found, gap);
            for index in found.drain(..) {
                tree.arena.unlink(index);
                let piece = tree.arena.get_mut(index);
                (piece.order, piece.ascending) = ((piece.order + 1).min(self.threshold), true);
                known += u64::from(piece.pages());
                tree.append(self.queue, index);
            }
        }
        self.path.pieces = found;
        let mut room = self.most - known;
        for (group, (node, from, to)) in gaps.drain(..) {
            let new = u64::from(to - from).min(room);
            if new == 0 {
                break;
            }
            room -= new;
            self.forget((self.count + new).saturating_sub(self.most));
            self.count += new;
            let piece = Piece::new(node, group, (from, from + new as u32), 1).root_first();
            let piece = self.path.tree.add_piece(piece);
            self.path.tree.append(self.queue, piece);
        }
        self.path.runs = gaps;
        self.often_enough(spans)
    }

    fn often_enough(&mut self, spans: &[GroupSpan]) -> Vec<GroupSpan> {
        let tree = &mut self.path.tree;
        let mut enough = Vec::new();
        let mut found = std::mem::take(&mut self.path.pieces);
        for (group, span) in spans {
            tree.cut_out(&self.path.nodes, |tag| tag == *group, *span, &mut found, |_| {});
            let pieces = found.iter().map(|index| tree.arena.get(*index));
            let often = pieces.filter(|piece| piece.order >= self.threshold);
            enough.extend(often.map(|piece| (*group, (piece.from, piece.to))));
        }
        self.path.pieces = found;
        enough
    }

    /// Drops the chunks offered longest ago.
    fn forget(&mut self, chunks: u64) {
        let mut left = chunks;
        self.count -= chunks;
        while left > 0
            && let Some(oldest) = self.path.tree.arena.first(self.queue)
        {
            let gone = u64::from(self.path.tree.arena.get(oldest).pages()).min(left);
            self.path.tree.drop_first(oldest, gone as u32);
            left -= gone;
        }
    }

    /// The table as plain data.
    pub fn save(&self) -> SavedRuns {
        self.path.tree.save([self.queue])
    }

    /// Takes a saved table of so many groups up where nothing is counted yet.
    pub fn restore(&mut self, saved: &SavedRuns, groups: u32) -> Result<(), StateFault> {
        let is_one = |order| (1..=self.threshold).contains(&order);
        if saved.pages() > self.most
            || !saved.pieces.iter().all(|piece| piece.node != 0 && is_one(piece.order))
        {
            return Err(fault("has offers that were not made"));
        }
        let mut queue = None;
        let tree = RunTree::restore(saved, groups, |tree, piece| {
            let list = *queue.get_or_insert_with(|| tree.arena.new_list());
            tree.arena.push(list, piece);
        })?;
        if let Some(queue) = queue {
            (self.path.tree, self.queue, self.count) = (tree, queue, saved.pages());
        }
        Ok(())
    }
}
