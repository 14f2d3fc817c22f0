//! What of a path's pages the pieces hold, and what they do not.

use super::{PieceIndex, RunIndex, RunTree};

impl RunTree {
    /// Visits those of the pages `from..to` of a path that no piece with one of these tags holds, as runs of one node each,
    /// the first page first.
    pub fn gaps(
        &mut self,
        path: &[RunIndex],
        tags: impl Fn(u32) -> bool + Copy,
        (from, to): (u32, u32),
        mut visit: impl FnMut((RunIndex, u32, u32)),
    ) {
        let mut held = std::mem::take(&mut self.held);
        for node in path {
            let (first, end) = self.span(*node);
            let (mut at, end) = (first.max(from), end.min(to));
            if at >= end {
                continue;
            }
            held.clear();
            held.extend(self.within(*node, tags, (at, end)).map(|(_, span)| span));
            held.sort_unstable();
            for (start, stop) in &held {
                if *start > at {
                    visit((*node, at, *start));
                }
                at = at.max(*stop);
            }
            if at < end {
                visit((*node, at, end));
            }
        }
        self.held = held;
    }

    /// The pieces with one of these tags that hold some of the pages `from..to` of a path, cut at these bounds, the first
    /// page's first. They replace what `found` holds.
    pub fn cut_out(
        &mut self,
        path: &[RunIndex],
        tags: impl Fn(u32) -> bool + Copy,
        (from, to): (u32, u32),
        found: &mut Vec<PieceIndex>,
    ) {
        found.clear();
        let mut held = std::mem::take(&mut self.held);
        for node in path {
            let (first, end) = self.span(*node);
            if first >= to || end <= from {
                continue;
            }
            held.clear();
            held.extend(self.within(*node, tags, (from, to)).map(|(piece, (start, _))| (start, piece)));
            held.sort_unstable();
            for (_, piece) in &held {
                let piece = if self.arena.get(*piece).from < from { self.cut(*piece, from) } else { *piece };
                if self.arena.get(piece).to > to {
                    self.cut(piece, to);
                }
                found.push(piece);
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

    /// The pieces of a node with one of these tags that hold some of the pages `from..to`, with what they hold of them.
    fn within(
        &self,
        node: RunIndex,
        tags: impl Fn(u32) -> bool,
        (from, to): (u32, u32),
    ) -> impl Iterator<Item = (PieceIndex, (u32, u32))> {
        let pieces = self.pieces(node);
        let found = pieces.filter(move |(_, piece)| tags(piece.tag) && piece.from < to && piece.to > from);
        found.map(move |(index, piece)| (index, (piece.from.max(from), piece.to.min(to))))
    }
}
