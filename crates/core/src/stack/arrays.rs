//! The tree as a snapshot keeps it: plain arrays, and whether bytes that claim to be such are a tree.
//!
//! Of a large tree each array keeps its order while the tree grows, and changes where the tree changed: whoever
//! keeps snapshots writes what is new of it only.

use super::arena::Arena;
use super::flight::{HELD, is_owner};
use super::ids::{Place, ROOT, SegmentId, Slot};
use super::regions::{NONE, Region};
use super::segment_labels::{SegmentLabel, SegmentLabels};
use super::slots::Slots;
use super::tree::{Segment, Tree};
use crate::units::packed::{self, ConcatenatedSlices, DerivedArray, GroupedArray};
use crate::units::pages::PageIds;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::HashSet;
use std::ops::Range;

/// Ids up to which a tree's labels are written whole and without gaps; those of a larger one are written where they
/// lie. Tests cross the border.
const WRITTEN_WHOLE: usize = if cfg!(test) { 40 } else { 1 << 16 };

/// Segments whose changes, and whose pieces, are written together, so that one more of them moves no others.
const GROUP: u32 = 1 << 12;

/// A segment: its label and what it hangs below.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct SegmentSpan {
    /// Where its ids begin; of a label in pieces, the first piece's.
    start: u32,
    /// None for the root and for a free place.
    len: u32,
    parent: SegmentId,
    offset: u32,
    /// The slot of the first page.
    slot: Slot,
}

/// Pages of a segment that another slot touched than the pages above: from `begin` on.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct TouchChange {
    segment: SegmentId,
    begin: u32,
    slot: Slot,
}

/// A further piece of a segment's label.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct LaterPiece {
    segment: SegmentId,
    start: u32,
    /// Pages of the label above.
    above: u32,
}

/// What is kept; which child is found how follows from it.
#[derive(Debug, Deserialize)]
pub(super) struct Arrays {
    #[serde(deserialize_with = "Arena::from_packed")]
    labels: Arena,
    #[serde(with = "packed")]
    spans: Vec<SegmentSpan>,
    /// In order of segment and page.
    #[serde(with = "packed")]
    changes: Vec<TouchChange>,
    #[serde(with = "packed")]
    free: Vec<SegmentId>,
    garbage: usize,
    /// In order of segment and page.
    #[serde(with = "packed")]
    pieces: Vec<LaterPiece>,
}

/// Whether what belongs to two segments is written together.
fn are_grouped(one: SegmentId, other: SegmentId) -> bool {
    one.0 / GROUP == other.0 / GROUP
}

impl Serialize for Tree {
    /// Writes the fields of [`Arrays`].
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (labels, changes) = (&self.labels, self.changes());
        let free = ConcatenatedSlices { count: self.free.len(), slices: std::iter::once(&*self.free) };
        let same = |one: &TouchChange, other: &TouchChange| are_grouped(one.segment, other.segment);
        let changes = GroupedArray { elements: &changes, same };
        let count = self.segments.len();
        let span = |index: usize, start| {
            let Segment { parent, offset, slot, .. } = self.segments[index];
            let len = self.segments[index].len();
            SegmentSpan { start: if len > 0 { start } else { 0 }, len, parent, offset, slot }
        };
        if labels.arena().len() > WRITTEN_WHOLE {
            let pieces = self.later_pieces();
            let same = |one: &LaterPiece, other: &LaterPiece| are_grouped(one.segment, other.segment);
            let pieces = GroupedArray { elements: &pieces, same };
            let spans = DerivedArray {
                count,
                element: |index| span(index, labels.start(self.segments[index].label)),
            };
            let (garbage, ids) = (labels.garbage(), labels.arena());
            let labels = ConcatenatedSlices { count: size_of::<u64>() * ids.len(), slices: ids.as_packed() };
            return (labels, spans, changes, free, garbage, pieces).serialize(serializer);
        }
        // One after another in order of their segments, whatever pieces they lie in.
        let mut end = 0;
        let start = |segment: &Segment| {
            end += segment.len();
            end - segment.len()
        };
        let starts: Vec<u32> = self.segments.iter().map(start).collect();
        let spans = DerivedArray { count, element: |index| span(index, starts[index]) };
        let runs = self.segments.iter().flat_map(|segment| labels.runs(segment.label, 0));
        let labels = ConcatenatedSlices {
            count: size_of::<u64>() * end as usize,
            slices: runs.map(PageIds::as_packed),
        };
        let pieces = GroupedArray { elements: &[], same: |_: &LaterPiece, _: &LaterPiece| true };
        (labels, spans, changes, free, 0usize, pieces).serialize(serializer)
    }
}

impl Tree {
    /// Where pages of a segment begin that another slot touched than those above.
    fn changes(&self) -> Vec<TouchChange> {
        let changed = (0..).zip(self.segments.iter()).filter(|(_, segment)| segment.deeper != NONE);
        let changes = changed.flat_map(|(id, segment)| {
            let change = move |region: &Region| TouchChange {
                segment: SegmentId(id),
                begin: region.begin,
                slot: region.slot,
            };
            self.regions.from(segment.deeper).map(change)
        });
        changes.collect()
    }

    /// The pieces of labels that lie in several, but for the first of each.
    fn later_pieces(&self) -> Vec<LaterPiece> {
        let pieces = (0..).zip(self.segments.iter()).flat_map(|(id, segment)| {
            let later = self.labels.later_pieces(segment.label);
            later.map(move |(start, above)| LaterPiece { segment: SegmentId(id), start, above })
        });
        pieces.collect()
    }
}

impl Arrays {
    /// The tree of these arrays, which must be [sound](Self::are_sound).
    pub(super) fn build(self) -> Tree {
        let mut labels = SegmentLabels::of(self.labels, self.garbage);
        let mut pieces = self.pieces.iter().peekable();
        let segment = |(id, span): (u32, &SegmentSpan)| {
            let place = Place { segment: span.parent, pages: span.offset };
            let end = |next: Option<&&LaterPiece>| match next {
                Some(next) if next.segment.0 == id => next.above,
                _ => span.len,
            };
            let mut label = SegmentLabel::whole(span.start, end(pieces.peek()));
            while let Some(piece) = pieces.next_if(|piece| piece.segment.0 == id) {
                labels.lengthen_by(&mut label, piece.start, end(pieces.peek()) - piece.above);
            }
            Segment::hanging_at(place, label, span.slot)
        };
        let segments = (0..).zip(&self.spans).map(segment).collect();
        let mut tree = Tree::of(labels, segments, self.free);
        for TouchChange { segment, begin, slot } in self.changes {
            let head = tree.segments[segment.index()].deeper;
            tree.segments[segment.index()].deeper = tree.regions.push_bottom(head, slot, begin);
        }
        tree.find_children();
        tree
    }

    /// Places in the segment table, free ones too.
    pub(super) fn table_len(&self) -> usize {
        self.spans.len()
    }

    /// Whether this is a tree in which every page belongs to a slot: every index points into its array, every
    /// segment is either free or hangs in one that is not, at a page that was touched no earlier, and what
    /// counts pages and places is true.
    ///
    /// Pages may belong to requests in flight where `may_be_held`.
    pub(super) fn are_sound(&self, slots: &Slots, may_be_held: bool) -> bool {
        let used = || self.spans.iter().skip(1).filter(|span| span.len > 0);
        let pages: u64 = used().map(|span| u64::from(span.len)).sum();
        let free: HashSet<u32> = self.free.iter().map(|id| id.0).collect();
        let is_free = |id: &SegmentId| *id != ROOT && self.spans.get(id.index()).is_some_and(|s| s.len == 0);
        let root_is_sound =
            |root: &SegmentSpan| (root.start, root.len, root.offset, root.parent) == (0, 0, 0, ROOT);
        let counts_are_true = self.spans.first().is_some_and(root_is_sound)
            && pages.checked_add(self.garbage as u64) == Some(self.labels.len() as u64)
            && self.free.iter().all(is_free)
            && free.len() == self.free.len()
            && 1 + used().count() + free.len() == self.spans.len();
        if !counts_are_true
            || !self.changes_are_sound(slots)
            || !self.pieces_are_sound()
            || !self.labels_are_sound()
        {
            return false;
        }
        let parts = OwnerParts::of(self);
        used().all(|span| parts.span_is_sound(span, slots, may_be_held)) && parts.stretches_fit(slots)
    }

    /// Whether the changes are in order and lead from newer slots to older ones.
    fn changes_are_sound(&self, slots: &Slots) -> bool {
        let above = |index: usize| {
            let TouchChange { segment, .. } = self.changes[index];
            match index.checked_sub(1).map(|above| self.changes[above]) {
                Some(above) if above.segment == segment => Some((above.begin, above.slot)),
                Some(above) if above.segment.0 > segment.0 => None,
                _ => self.spans.get(segment.index()).map(|span| (0, span.slot)),
            }
        };
        let is_sound = |(index, change): (usize, &TouchChange)| {
            let within = |(begin, slot)| begin < change.begin && change.slot < slot;
            above(index).is_some_and(within)
                && change.segment != ROOT
                && change.begin < self.spans[change.segment.index()].len
                && change.slot.index() < slots.len()
        };
        self.changes.iter().enumerate().all(is_sound)
    }

    /// Whether later pieces are in order of segment and page, in segments that reach so far.
    fn pieces_are_sound(&self) -> bool {
        let mut above = (ROOT, 0);
        self.pieces.iter().all(|piece| {
            let begins_below = match piece.segment == above.0 {
                true => piece.above > above.1,
                false => piece.segment.0 > above.0.0 && piece.above > 0,
            };
            above = (piece.segment, piece.above);
            begins_below && self.spans.get(piece.segment.index()).is_some_and(|span| piece.above < span.len)
        })
    }

    /// Whether every piece of every label lies in the arena.
    fn labels_are_sound(&self) -> bool {
        let lie_within = |start: u32, pages: u32| {
            u64::from(start) + u64::from(pages) <= self.labels.len() as u64 || pages == 0
        };
        let mut later = self.pieces.iter().peekable();
        (0..).zip(&self.spans).all(|(id, span)| {
            let (mut start, mut above) = (span.start, 0);
            while let Some(next) = later.next_if(|next| next.segment.0 == id) {
                if !lie_within(start, next.above - above) {
                    return false;
                }
                (start, above) = (next.start, next.above);
            }
            lie_within(start, span.len - above)
        })
    }
}

/// The segments' parts with one owner each, of arrays whose changes are sound.
struct OwnerParts<'a> {
    spans: &'a [SegmentSpan],
    changes: &'a [TouchChange],
    /// For every segment, where its changes begin.
    begins: Vec<u32>,
}

impl<'a> OwnerParts<'a> {
    fn of(arrays: &'a Arrays) -> Self {
        let Arrays { spans, changes, .. } = arrays;
        let mut begins = vec![0; spans.len() + 1];
        changes.iter().for_each(|change| begins[change.segment.index() + 1] += 1);
        for id in 0..spans.len() {
            begins[id + 1] += begins[id];
        }
        Self { spans, changes, begins }
    }

    fn span_is_sound(&self, span: &SegmentSpan, slots: &Slots, may_be_held: bool) -> bool {
        let hangs = match span.parent {
            ROOT => span.offset == 0,
            parent => self.spans.get(parent.index()).is_some_and(|above| {
                (1..=above.len).contains(&span.offset)
                    && span.slot <= self.part_with(parent, span.offset - 1).0
            }),
        };
        is_owner(span.slot, slots.len(), may_be_held) && hangs
    }

    /// The changes within one segment.
    fn changes_of(&self, id: SegmentId) -> &[TouchChange] {
        &self.changes[self.begins[id.index()] as usize..self.begins[id.index() + 1] as usize]
    }

    /// The part of a segment with one owner that a page lies in: the owner, and its pages.
    fn part_with(&self, id: SegmentId, page: u32) -> (Slot, Range<u32>) {
        let changes = self.changes_of(id);
        let further = changes.partition_point(|change| change.begin <= page);
        let span = &self.spans[id.index()];
        let (slot, begin) = match further.checked_sub(1) {
            Some(last) => (changes[last].slot, changes[last].begin),
            None => (span.slot, 0),
        };
        (slot, begin..changes.get(further).map_or(span.len, |next| next.begin))
    }

    /// The pages of a segment that a slot owns.
    fn part_of(&self, id: SegmentId, slot: Slot) -> Option<Range<u32>> {
        let span = self.spans.get(id.index()).filter(|span| span.len > 0)?;
        let changes = self.changes_of(id);
        let page = match span.slot <= slot {
            true => 0,
            // They lead from newer slots to older ones.
            false => changes.get(changes.partition_point(|change| change.slot > slot))?.begin,
        };
        self.part_owned_by(slot, id, page)
    }

    /// The part that a page lies in, where this slot owns it.
    fn part_owned_by(&self, slot: Slot, id: SegmentId, page: u32) -> Option<Range<u32>> {
        let (owner, pages) = self.part_with(id, page);
        (owner == slot).then_some(pages)
    }

    /// Whether every slot that owns pages owns one line of them, from its tail upwards, with no more than it
    /// counts, and every page lies on such a line.
    fn stretches_fit(&self, slots: &Slots) -> bool {
        // What is held is the first part of its segment, and on the path of a request in flight.
        let lines = self.spans.iter().skip(1).filter(|span| span.len > 0 && span.slot != HELD);
        let mut left = lines.count() + self.changes.len();
        for slot in slots.owners() {
            let (mut id, mut pages) = (slots.tail(slot), 0);
            let mut part = self.part_of(id, slot);
            while let Some(Range { start, end }) = part {
                // A line that leads back to itself ends here, for it runs out of parts.
                if left == 0 {
                    return false;
                }
                left -= 1;
                pages += u64::from(end - start);
                let span = &self.spans[id.index()];
                if start > 0 || span.parent == ROOT {
                    break;
                }
                part = self.part_owned_by(slot, span.parent, span.offset - 1);
                // Its path left the segment there, so it owns nothing further down.
                if part.as_ref().is_some_and(|part| part.end != span.offset) {
                    return false;
                }
                id = span.parent;
            }
            if pages > slots.weight(slot) {
                return false;
            }
        }
        left == 0
    }
}
