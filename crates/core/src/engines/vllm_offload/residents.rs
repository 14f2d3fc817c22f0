//! The chunks that the tier holds, whatever its policy. A key is a chunk of one group of layers; groups that hold the
//! same chunks, and let go of them together, share a piece.

use super::SavedOffload;
use crate::engines::groups::GroupSet;
use crate::stack::runs::{Piece, PieceIndex, RunIndex, RunTree, StateFault};
use crate::units::heap::{HeapBytes, heap_bytes};
use crate::units::pages::PageIds;
use std::fmt;

/// Chunks of one request, counted from its first, up to the second one.
pub(super) type ChunkSpan = (u32, u32);

/// Those of one group.
pub(super) type GroupSpan = (u32, ChunkSpan);

/// Those of one group that lie in one node.
pub(super) type GroupRun = (u32, (RunIndex, u32, u32));

/// Bits of a piece's tag that say which list it stands in; each of the others stands for a group.
const LIST_BITS: u32 = 2;

/// Most groups of layers that the tier is modelled for: no tag is the largest number, which a saved tree refuses.
pub(super) const MOST_GROUPS: usize = (u32::BITS - LIST_BITS - 1) as usize;

/// The tag of a piece of these groups in a list.
pub(super) fn tag(list: u32, groups: GroupSet) -> u32 {
    groups.bits() << LIST_BITS | list
}

/// The list of a piece with this tag.
pub(super) fn list_of(tag: u32) -> u32 {
    tag & ((1 << LIST_BITS) - 1)
}

/// Its groups.
pub(super) fn groups_of(tag: u32) -> GroupSet {
    GroupSet::of_bits(tag >> LIST_BITS)
}

/// Keys of a piece.
pub(super) fn keys(piece: &Piece) -> u64 {
    u64::from(piece.pages()) * groups_of(piece.tag).len()
}

/// Moments of which each step of the scheduler has many, one an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct OfferClock(u64);

impl OfferClock {
    const MOMENTS: u32 = 20;

    /// Goes on by steps.
    pub fn pass(&mut self, steps: u64) {
        self.0 = ((self.0 >> Self::MOMENTS) + steps) << Self::MOMENTS;
    }

    /// Goes on to the next offer.
    pub fn tick(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    pub fn now(self) -> u64 {
        self.0
    }

    /// The end of the next step, until which what is stored now is being written.
    pub fn written(self) -> u64 {
        (((self.0 >> Self::MOMENTS) + 2) << Self::MOMENTS) - 1
    }
}

/// The chunks held, by one policy. Calls come request by request: [`Residents::enter`], at most one
/// [`Residents::load`], in each step [`Residents::step`] and its offers, [`Residents::leave`].
pub(super) trait Residents: fmt::Debug + HeapBytes {
    /// Begins a request with these chunks.
    fn enter(&mut self, ids: PageIds<'_>);

    /// Up to which of its chunks, from the first one of the span on, all are there in a group.
    fn found(&self, span: GroupSpan) -> u32;

    /// From which of its chunks on, down to the first one of the span, all are there up to its end.
    fn found_down(&self, span: GroupSpan) -> u32;

    /// The end of the last chunk of the span that is there; the first where none is.
    fn last_found(&self, span: GroupSpan) -> u32;

    /// Reads chunks that are there.
    fn load(&mut self, spans: &[GroupSpan]);

    /// Begins a step of the scheduler.
    fn step(&mut self);

    /// One offer: chunks that are there are used, the others stored, as far as `admitted` (all of them
    /// where that is `None`), all of them or none. Whether there was room.
    fn offer(&mut self, spans: &[GroupSpan], admitted: Option<&[GroupSpan]>) -> bool;

    /// Ends the request.
    fn leave(&mut self);

    /// Keys stored since the start.
    fn stored(&self) -> u64;

    /// Keys held.
    fn held(&self) -> u64;

    /// Writes down what decides future answers, while no request is served.
    fn save(&self, saved: &mut SavedOffload);

    /// Takes that up where nothing is held yet; the groups are those of the tier.
    fn restore(&mut self, saved: &SavedOffload, groups: GroupSet) -> Result<(), StateFault>;
}

/// A tree with the path of the request being served.
#[derive(Debug)]
pub(super) struct ResidentPath {
    pub tree: RunTree,
    pub nodes: Vec<RunIndex>,
    /// Room for what [`ResidentPath::cut_out`] and [`ResidentPath::gaps`] find, where it was given back.
    pub pieces: Vec<PieceIndex>,
    pub runs: Vec<GroupRun>,
}

heap_bytes!(ResidentPath { tree, nodes, pieces, runs });

impl ResidentPath {
    pub fn new(tree: RunTree) -> Self {
        Self { tree, nodes: Vec::new(), pieces: Vec::new(), runs: Vec::new() }
    }

    pub fn enter(&mut self, ids: PageIds<'_>) {
        self.tree.enter(ids, &mut self.nodes);
    }

    pub fn leave(&mut self) {
        self.tree.release(&self.nodes);
    }

    /// What no piece with one of these tags holds, the groups in the order of the spans.
    pub fn gaps(&mut self, tags: impl Fn(u32) -> bool + Copy, spans: &[GroupSpan]) -> Vec<GroupRun> {
        let mut gaps = std::mem::take(&mut self.runs);
        gaps.clear();
        for (group, span) in spans {
            let is_meant = |tag| groups_of(tag).has(*group) && tags(tag);
            self.tree.gaps(&self.nodes, is_meant, *span, |run| gaps.push((*group, run)));
        }
        gaps
    }

    /// The pieces with one of these tags that hold some of these chunks in one of the groups, cut at the span's bounds.
    pub fn cut_out(
        &mut self,
        tags: impl Fn(u32) -> bool + Copy,
        (span, groups): (ChunkSpan, GroupSet),
    ) -> Vec<PieceIndex> {
        let mut found = std::mem::take(&mut self.pieces);
        let is_meant = |tag| groups_of(tag).meets(groups) && tags(tag);
        self.tree.cut_out(&self.nodes, is_meant, span, &mut found, |_| {});
        found
    }

    /// The pieces that hold some chunks of one group, and what none holds of them.
    pub fn cut_out_with_gaps(&mut self, (group, span): GroupSpan) -> (Vec<PieceIndex>, Vec<GroupRun>) {
        let (mut found, mut gaps) = (std::mem::take(&mut self.pieces), std::mem::take(&mut self.runs));
        gaps.clear();
        let gap = |run| gaps.push((group, run));
        self.tree.cut_out(&self.nodes, |tag| groups_of(tag).has(group), span, &mut found, gap);
        (found, gaps)
    }

    /// See [`Residents::found`].
    pub fn found(&self, tags: impl Fn(u32) -> bool + Copy, (group, span): GroupSpan) -> u32 {
        self.tree.run_from(&self.nodes, |tag| groups_of(tag).has(group) && tags(tag), span)
    }

    /// See [`Residents::found_down`].
    pub fn found_down(&self, tags: impl Fn(u32) -> bool + Copy, (group, (first, end)): GroupSpan) -> u32 {
        let mut at = end;
        for node in self.nodes.iter().rev() {
            let below = self.tree.span(*node).0;
            while at > below.max(first)
                && let Some(from) = self.covering(*node, |tag| groups_of(tag).has(group) && tags(tag), at)
            {
                at = from;
            }
            if at > below {
                break;
            }
        }
        at.max(first)
    }

    /// Where the lowest piece of a node begins that holds the chunk before `at`, and such a tag.
    fn covering(&self, node: RunIndex, tags: impl Fn(u32) -> bool, at: u32) -> Option<u32> {
        let pieces = self.tree.pieces(node).map(|(_, piece)| piece);
        pieces
            .filter(|piece| tags(piece.tag) && piece.from < at && at <= piece.to)
            .map(|piece| piece.from)
            .min()
    }

    /// See [`Residents::last_found`].
    pub fn last_found(&self, tags: impl Fn(u32) -> bool + Copy, (group, (first, end)): GroupSpan) -> u32 {
        for node in self.nodes.iter().rev() {
            let pieces = self.tree.pieces(*node).map(|(_, piece)| piece);
            let below =
                pieces.filter(|piece| groups_of(piece.tag).has(group) && tags(piece.tag) && piece.from < end);
            if let Some(last) = below.map(|piece| piece.to.min(end)).max() {
                return last.max(first);
            }
        }
        first
    }

    /// Takes groups out of a piece, into one that stands in no list.
    pub fn take_out(&mut self, index: PieceIndex, groups: GroupSet) -> PieceIndex {
        let held = groups_of(self.tree.arena.get(index).tag);
        if held.is_in(groups) {
            self.tree.arena.unlink(index);
            return index;
        }
        self.split(index, held.and(groups))
    }

    /// Takes some of the groups of a piece, not all of them, into a piece that stands in no list.
    fn split(&mut self, index: PieceIndex, groups: GroupSet) -> PieceIndex {
        let piece = self.tree.arena.get_mut(index);
        let list = list_of(piece.tag);
        piece.tag = tag(list, groups_of(piece.tag).without(groups));
        let mut own = Piece::new(piece.node, tag(list, groups), (piece.from, piece.to), piece.order);
        own.ascending = piece.ascending;
        self.tree.add_piece(own)
    }

    /// Appends the pieces that hold these groups of a piece in a list, each at its keys' place: where others share
    /// the piece, it is cut into chunks, for the groups of one chunk leave before those of the next.
    pub fn single_out(&mut self, index: PieceIndex, groups: GroupSet, meant: &mut Vec<PieceIndex>) {
        let piece = self.tree.arena.get(index);
        if groups_of(piece.tag).is_in(groups) {
            meant.push(index);
            return;
        }
        let inner = piece.from + 1..piece.to;
        let mut chunks: Vec<PieceIndex> = inner.rev().map(|at| self.tree.cut(index, at)).collect();
        chunks.push(index);
        chunks.into_iter().for_each(|chunk| self.part(chunk, groups, meant));
    }

    /// Parts the groups of one chunk into those that are meant, which are appended, and the others, the last group
    /// first.
    fn part(&mut self, chunk: PieceIndex, groups: GroupSet, meant: &mut Vec<PieceIndex>) {
        loop {
            let held = groups_of(self.tree.arena.get(chunk).tag);
            let is_meant = groups.has(held.last());
            // Those above the highest of the other kind.
            let others = if is_meant { held.without(groups) } else { held.and(groups) };
            if others.is_empty() {
                meant.extend(is_meant.then_some(chunk));
                return;
            }
            let first = held.behind(others.last());
            let part = self.split(chunk, first);
            self.tree.arena.push_before(part, chunk);
            meant.extend(is_meant.then_some(part));
        }
    }

    /// Drops the keys of a piece that leave it first, at most so many; how many.
    pub fn drop_first(&mut self, index: PieceIndex, most: u64) -> u64 {
        let piece = self.tree.arena.get(index);
        let (each, pages) = (groups_of(piece.tag).len(), piece.pages());
        let whole = (most / each).min(u64::from(pages));
        if whole > 0 {
            self.tree.drop_first(index, whole as u32);
            return whole * each;
        }
        let part: Vec<PieceIndex> = self.cut_first(index, most).collect();
        part.into_iter().for_each(|gone| self.tree.remove_piece(gone));
        most
    }

    /// Cuts off a piece the keys that leave it first, at most all of them, in the order in which they do: whole
    /// chunks, and of one more the last groups.
    pub fn cut_first(&mut self, index: PieceIndex, most: u64) -> impl Iterator<Item = PieceIndex> + use<> {
        let piece = self.tree.arena.get(index);
        if most >= keys(piece) {
            return [Some(index), None].into_iter().flatten();
        }
        let groups = groups_of(piece.tag);
        let each = groups.len();
        let (whole, part) = ((most / each) as u32, (most % each) as u32);
        let (from, to, ascending) = (piece.from, piece.to, piece.ascending);
        let (gone, kept) = match ascending {
            _ if whole == 0 => (None, index),
            true => {
                let kept = self.tree.cut(index, from + whole);
                (Some(index), kept)
            }
            false => (Some(self.tree.cut(index, to - whole)), index),
        };
        let of_chunk = (part > 0).then(|| {
            let kept = self.tree.arena.get(kept);
            let (from, last) = (kept.from, kept.to - 1);
            let chunk = if last > from { self.tree.cut(index, last) } else { index };
            self.split(chunk, groups.last_ones(u64::from(part)))
        });
        [gone, of_chunk].into_iter().flatten()
    }

    /// Moves the path's pieces that are meant into a list, joined where they hold chunks of the same groups, the last
    /// chunk first; their keys.
    pub fn join(&mut self, is_meant: impl Fn(&Piece) -> bool, to: (u32, PieceIndex)) -> u64 {
        let (mut moved, mut meant) = (0, std::mem::take(&mut self.pieces));
        for at in (0..self.nodes.len()).rev() {
            meant.clear();
            let pieces = self.tree.pieces(self.nodes[at]);
            meant.extend(pieces.filter(|(_, piece)| is_meant(piece)).map(|(index, _)| index));
            meant.sort_unstable_by_key(|index| self.tree.arena.get(*index).from);
            moved += self.join_in_node(&meant, to);
        }
        self.pieces = meant;
        moved
    }

    fn join_in_node(&mut self, pieces: &[PieceIndex], to: (u32, PieceIndex)) -> u64 {
        let get = |index: &PieceIndex| self.tree.arena.get(*index);
        let Some((node, groups)) = pieces.first().map(get).map(|first| (first.node, groups_of(first.tag)))
        else {
            return 0;
        };
        if pieces.iter().map(get).all(|piece| groups_of(piece.tag) == groups) {
            return pieces.iter().rev().map(|index| self.append(*index, to)).sum();
        }
        let runs = self.union(pieces);
        pieces.iter().for_each(|index| self.tree.remove_piece(*index));
        let mut moved = 0;
        for (span, groups) in runs.into_iter().rev() {
            let piece = self.tree.add_piece(Piece::new(node, tag(to.0, groups), span, 0));
            moved += self.append(piece, to);
        }
        moved
    }

    /// Makes a piece the youngest of a list; its keys.
    fn append(&mut self, index: PieceIndex, (list, place): (u32, PieceIndex)) -> u64 {
        self.tree.arena.unlink(index);
        let piece = self.tree.arena.get_mut(index);
        (piece.tag, piece.order, piece.ascending) = (tag(list, groups_of(piece.tag)), 0, false);
        let moved = keys(piece);
        self.tree.append(place, index);
        moved
    }

    /// What pieces of one node hold, as runs of chunks of the same groups, the first chunk first.
    fn union(&self, pieces: &[PieceIndex]) -> Vec<(ChunkSpan, GroupSet)> {
        let pieces = pieces.iter().map(|index| self.tree.arena.get(*index));
        let held = pieces.map(|piece| ((piece.from, piece.to), groups_of(piece.tag)));
        let mut runs: Vec<(ChunkSpan, GroupSet)> = Vec::new();
        by_edges(held.collect(), |span, groups| match runs.last_mut() {
            Some(((_, to), same)) if *to == span.0 && *same == groups => *to = span.1,
            _ => runs.push((span, groups)),
        });
        runs
    }
}

/// Visits the same chunks by the groups that are meant of each, the first ones first.
pub(super) fn by_groups(spans: &[GroupSpan], mut visit: impl FnMut(ChunkSpan, GroupSet)) {
    match spans {
        [(group, span)] => visit(*span, GroupSet::of(*group)),
        _ => by_edges(spans.iter().map(|(group, span)| (*span, GroupSet::of(*group))).collect(), visit),
    }
}

/// Visits the chunks between the edges of spans, with the groups of all spans that they lie in, the first ones first.
/// No two spans hold a chunk of the same group.
fn by_edges(spans: Vec<(ChunkSpan, GroupSet)>, mut visit: impl FnMut(ChunkSpan, GroupSet)) {
    let edges = spans.into_iter().flat_map(|((from, to), groups)| [(from, groups), (to, groups)]);
    let mut edges: Vec<(u32, GroupSet)> = edges.collect();
    edges.sort_unstable_by_key(|(edge, _)| *edge);
    let (mut held, mut at) = (GroupSet::default(), 0);
    for (edge, groups) in edges {
        if !held.is_empty() && edge > at {
            visit((at, edge), held);
        }
        (held, at) = (held.in_one(groups), edge);
    }
}

/// What of runs lies in one of these spans; all of it where there are none.
pub(super) fn clip(runs: Vec<GroupRun>, spans: Option<&[GroupSpan]>) -> Vec<GroupRun> {
    let Some(spans) = spans else { return runs };
    let of_run = |(group, (node, from, to)): &GroupRun| {
        let (group, node, from, to) = (*group, *node, *from, *to);
        let of_group = spans.iter().filter(move |(other, _)| *other == group);
        let parts = of_group.map(move |(_, (start, end))| (group, (node, from.max(*start), to.min(*end))));
        parts.filter(|(_, (_, from, to))| from < to)
    };
    runs.iter().flat_map(of_run).collect()
}

/// Keys in all of these runs.
pub(super) fn total(runs: &[GroupRun]) -> u64 {
    runs.iter().map(|(_, (_, from, to))| u64::from(to - from)).sum()
}
