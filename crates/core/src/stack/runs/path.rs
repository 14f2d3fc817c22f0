//! What of a path's pages the pieces hold, and what they do not.

use super::{PieceIndex, RunIndex, RunTree};

/// What a walk along a path comes by, the first page first.
enum Part {
    /// A piece that holds some of the pages.
    Held(PieceIndex),
    /// Pages of a node that none holds.
    Gap((RunIndex, u32, u32)),
}

impl RunTree {
    /// Visits those of the pages `from..to` of a path that no piece with one of these tags holds, as runs of one node
    /// each, the first page first.
    pub fn gaps(
        &mut self,
        path: &[RunIndex],
        tags: impl Fn(u32) -> bool + Copy,
        span: (u32, u32),
        mut visit: impl FnMut((RunIndex, u32, u32)),
    ) {
        self.walk(path, tags, span, |_, part| match part {
            Part::Held(_) => {}
            Part::Gap(run) => visit(run),
        });
    }

    /// The pieces with one of these tags that hold some of the pages `from..to` of a path, cut at these bounds, the
    /// first page's first. They replace what `found` holds. Visits the pages between them as [`RunTree::gaps`] does.
    pub fn cut_out(
        &mut self,
        path: &[RunIndex],
        tags: impl Fn(u32) -> bool + Copy,
        (from, to): (u32, u32),
        found: &mut Vec<PieceIndex>,
        mut visit: impl FnMut((RunIndex, u32, u32)),
    ) {
        found.clear();
        self.walk(path, tags, (from, to), |tree, part| match part {
            Part::Held(piece) => {
                let piece = if tree.arena.get(piece).from < from { tree.cut(piece, from) } else { piece };
                if tree.arena.get(piece).to > to {
                    tree.cut(piece, to);
                }
                found.push(piece);
            }
            Part::Gap(run) => visit(run),
        });
    }

    /// Visits the pieces with one of these tags that hold some of the pages `from..to` of a path, and what none holds.
    fn walk(
        &mut self,
        path: &[RunIndex],
        tags: impl Fn(u32) -> bool + Copy,
        (from, to): (u32, u32),
        mut visit: impl FnMut(&mut Self, Part),
    ) {
        let mut held = std::mem::take(&mut self.held);
        for node in path {
            let (first, end) = self.span(*node);
            let (mut at, end) = (first.max(from), end.min(to));
            if at >= end {
                continue;
            }
            held.clear();
            held.extend(self.within(*node, tags, (at, end)));
            held.sort_unstable();
            for (start, stop, piece) in &held {
                if *start > at {
                    visit(self, Part::Gap((*node, at, *start)));
                }
                at = at.max(*stop);
                visit(self, Part::Held(*piece));
            }
            if at < end {
                visit(self, Part::Gap((*node, at, end)));
            }
        }
        self.held = held;
    }

    /// Appends a piece that stands in no list, joined to the last one where it goes on as that does.
    pub fn append(&mut self, list: PieceIndex, piece: PieceIndex) {
        let last = self.arena.last(list);
        self.arena.push(list, piece);
        let Some(last) = last else { return };
        let (earlier, later) = (self.arena.get(last), self.arena.get(piece));
        let is_alike = (earlier.node, earlier.tag, earlier.order, earlier.ascending)
            == (later.node, later.tag, later.order, later.ascending);
        let (from, to) = (later.from, later.to);
        match later.ascending {
            true if is_alike && earlier.to == from => self.arena.get_mut(last).to = to,
            false if is_alike && earlier.from == to => self.arena.get_mut(last).from = from,
            _ => return,
        }
        self.remove_piece(piece);
    }

    /// What pieces of a node with one of these tags hold of the pages `from..to`.
    fn within(
        &self,
        node: RunIndex,
        tags: impl Fn(u32) -> bool,
        (from, to): (u32, u32),
    ) -> impl Iterator<Item = (u32, u32, PieceIndex)> {
        let pieces = self.pieces(node);
        let found = pieces.filter(move |(_, piece)| tags(piece.tag) && piece.from < to && piece.to > from);
        found.map(move |(index, piece)| (piece.from.max(from), piece.to.min(to), index))
    }
}
