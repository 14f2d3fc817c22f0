//! Pieces in one arena, each in the chain of its node and in at most one list by age.

use super::{NONE, RunIndex};
use crate::units::heap::{flat, heap_bytes};

/// A piece's place in the arena.
pub(crate) type PieceIndex = u32;

/// A run of resident pages of one node, or a number of pages that nobody shares.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// The node its pages lie in; [`NONE`] for pages without ids, of which only the number counts.
    pub node: RunIndex,
    /// What keeps its pages apart from those of other pieces of the node: a group.
    pub tag: u32,
    /// Depth of its first page on the node's path.
    pub from: u32,
    /// Depth behind its last page.
    pub to: u32,
    /// When its pages got their names, or when they may go: a number the cache gives.
    pub order: u64,
    /// When its pages were given back last, where the cache asks for it; not saved.
    pub stamp: u64,
    /// Whether its first page leaves first; else its last one does.
    pub ascending: bool,
    /// Requests in flight that hold its pages.
    pub holders: u32,
    pub(super) before: PieceIndex,
    pub(super) after: PieceIndex,
    pub(super) next_in_node: PieceIndex,
    pub(super) previous_in_node: PieceIndex,
}

flat!(Piece);

impl Piece {
    /// Pages `from..to` of a node, whose last page leaves first.
    pub fn new(node: RunIndex, tag: u32, (from, to): (u32, u32), order: u64) -> Self {
        Self {
            node,
            tag,
            from,
            to,
            order,
            stamp: 0,
            ascending: false,
            holders: 0,
            before: NONE,
            after: NONE,
            next_in_node: NONE,
            previous_in_node: NONE,
        }
    }

    /// The same, whose first page leaves first.
    pub fn root_first(self) -> Self {
        Self { ascending: true, ..self }
    }

    /// The same, held by one request in flight.
    pub fn held_once(self) -> Self {
        Self { holders: 1, ..self }
    }

    /// Pages it holds.
    pub fn pages(&self) -> u32 {
        self.to - self.from
    }
}

/// The pieces. A list is the place of a piece without pages that closes its ring.
#[derive(Debug, Clone, Default)]
pub(crate) struct PieceArena {
    pieces: Vec<Piece>,
    vacant: Vec<PieceIndex>,
}

heap_bytes!(PieceArena { pieces, vacant });

impl PieceArena {
    pub fn get(&self, index: PieceIndex) -> &Piece {
        &self.pieces[index as usize]
    }

    pub fn get_mut(&mut self, index: PieceIndex) -> &mut Piece {
        &mut self.pieces[index as usize]
    }

    /// An empty list.
    pub fn new_list(&mut self) -> PieceIndex {
        let list = self.place(Piece::new(NONE, 0, (0, 0), 0));
        (self.get_mut(list).before, self.get_mut(list).after) = (list, list);
        list
    }

    /// Drops an empty list.
    pub fn drop_list(&mut self, list: PieceIndex) {
        self.vacate(list);
    }

    /// The oldest piece of a list.
    pub fn first(&self, list: PieceIndex) -> Option<PieceIndex> {
        Some(self.get(list).after).filter(|first| *first != list)
    }

    /// The youngest piece of a list.
    pub fn last(&self, list: PieceIndex) -> Option<PieceIndex> {
        Some(self.get(list).before).filter(|last| *last != list)
    }

    /// The piece of a list that is the next younger one than this.
    pub fn next(&self, list: PieceIndex, index: PieceIndex) -> Option<PieceIndex> {
        Some(self.get(index).after).filter(|next| *next != list)
    }

    /// The pieces of a list, oldest first.
    pub fn in_list(&self, list: PieceIndex) -> impl Iterator<Item = &Piece> {
        let mut next = self.get(list).after;
        std::iter::from_fn(move || {
            let piece = (next != list).then(|| self.get(next))?;
            next = piece.after;
            Some(piece)
        })
    }

    /// Appends a piece that stands in no list.
    pub fn push(&mut self, list: PieceIndex, index: PieceIndex) {
        self.link_between(index, self.get(list).before, list);
    }

    /// Puts a piece that stands in no list before another, as the next older one.
    pub fn push_before(&mut self, index: PieceIndex, other: PieceIndex) {
        self.link_between(index, self.get(other).before, other);
    }

    /// Takes a piece out of its list, if it is in one.
    pub fn unlink(&mut self, index: PieceIndex) {
        let (before, after) = (self.get(index).before, self.get(index).after);
        if before == NONE {
            return;
        }
        self.get_mut(before).after = after;
        self.get_mut(after).before = before;
        (self.get_mut(index).before, self.get_mut(index).after) = (NONE, NONE);
    }

    pub(super) fn place(&mut self, piece: Piece) -> PieceIndex {
        let piece = Piece { before: NONE, after: NONE, next_in_node: NONE, previous_in_node: NONE, ..piece };
        if let Some(index) = self.vacant.pop() {
            self.pieces[index as usize] = piece;
            return index;
        }
        self.pieces.push(piece);
        // A piece holds at least one page of a cache of 32 bits, and lists are fewer than pieces.
        (self.pieces.len() - 1) as PieceIndex
    }

    pub(super) fn vacate(&mut self, index: PieceIndex) {
        self.vacant.push(index);
    }

    /// Puts the deeper part of a piece that was cut alongside it, on the side that its pages leave from.
    pub(super) fn link_sibling(&mut self, deeper: PieceIndex, upper: PieceIndex) {
        let piece = self.get(upper);
        if piece.before == NONE {
            return;
        }
        match piece.ascending {
            true => self.link_between(deeper, upper, piece.after),
            false => self.link_between(deeper, piece.before, upper),
        }
    }

    fn link_between(&mut self, index: PieceIndex, before: PieceIndex, after: PieceIndex) {
        (self.get_mut(index).before, self.get_mut(index).after) = (before, after);
        self.get_mut(before).after = index;
        self.get_mut(after).before = index;
    }

    /// Puts a piece before the first of its node's chain.
    pub(super) fn chain(&mut self, index: PieceIndex, first: PieceIndex) {
        (self.get_mut(index).previous_in_node, self.get_mut(index).next_in_node) = (NONE, first);
        if first != NONE {
            self.get_mut(first).previous_in_node = index;
        }
    }

    /// Takes a piece out of its node's chain; the node looks after its first one itself.
    pub(super) fn unchain(&mut self, index: PieceIndex) {
        let (previous, next) = (self.get(index).previous_in_node, self.get(index).next_in_node);
        if previous != NONE {
            self.get_mut(previous).next_in_node = next;
        }
        if next != NONE {
            self.get_mut(next).previous_in_node = previous;
        }
    }
}
