//! The pool's pages as a path-compressed radix tree over page ids.
//!
//! What docs/design.md, section 2 calls an edge is a *region* here: the pages of a segment that one slot touched
//! last. A segment is a line of such edges. A request that goes on where it ends lengthens it; one that leaves it
//! half-way neither splits nor moves it, it hangs a new segment at the page it left, and takes the regions above that
//! page over. A walk therefore follows one segment for each time the path branched off another, and a region is taken
//! over once for each time it was made.
//!
//! A segment costs 32 bytes and its ids ([`super::segment_labels`]). What hangs in it is found through one index
//! ([`super::index`]) over (segment, page, first id).

use super::digests::{Digests, SHORTEST};
use super::ids::{Place, SegmentId, Slot, TOP};
use super::index::SegmentIndex;
use super::keys::ChildKey;
use super::prefetch::{LINE, LINES_AHEAD, prefetch};
use super::regions::{NONE, RegionId, Regions};
use super::renumbering::Renumbering;
use super::segment_labels::{SegmentLabel, SegmentLabels};
use super::table::AppendTable;
use crate::units::heap::heap_bytes;
use crate::units::pages::{PageIds, first_probe};

/// Pages one below the other.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct Segment {
    /// The pages' ids; none for the root and for a free place.
    pub(super) label: SegmentLabel,
    /// The segment this one hangs in, and how many of its pages lie above.
    pub(super) parent: SegmentId,
    pub(super) offset: u32,
    /// The request that touched the first page last.
    pub(super) slot: Slot,
    /// Where pages begin that another request touched last.
    pub(super) deeper: RegionId,
    /// Segments that hang in this one.
    children: u32,
}

impl Segment {
    pub(super) fn hanging_at(place: Place, label: SegmentLabel, slot: Slot) -> Self {
        let Place { segment: parent, pages: offset } = place;
        Self { label, parent, offset, slot, deeper: NONE, children: 0 }
    }

    /// Pages of the segment.
    pub(super) fn len(&self) -> u32 {
        self.label.len()
    }

    /// What this hangs below.
    pub(super) fn place(&self) -> Place {
        Place { segment: self.parent, pages: self.offset }
    }
}

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) labels: SegmentLabels,
    pub(super) segments: AppendTable<Segment>,
    pub(super) regions: Regions,
    pub(super) free: Vec<SegmentId>,
    index: SegmentIndex,
    digests: Digests,
}

heap_bytes!(Tree { labels, segments, regions, free, index, digests });

impl Tree {
    pub(super) fn new() -> Self {
        let root = Segment::hanging_at(TOP, SegmentLabel::EMPTY, Slot(0));
        Self::of(SegmentLabels::default(), AppendTable::from_iter([root]), Vec::new())
    }

    /// A tree of segments that know what they hang below; [`Tree::find_children`] does the rest.
    pub(super) fn of(labels: SegmentLabels, segments: AppendTable<Segment>, free: Vec<SegmentId>) -> Self {
        let (regions, index, digests) = (Regions::new(), SegmentIndex::new(), Digests::new());
        Self { labels, segments, regions, free, index, digests }
    }

    fn segment(&self, id: SegmentId) -> &Segment {
        &self.segments[id.index()]
    }

    fn segment_mut(&mut self, id: SegmentId) -> &mut Segment {
        &mut self.segments[id.index()]
    }

    /// Segments in the tree, but for the root.
    pub(super) fn segment_count(&self) -> usize {
        self.index.len()
    }

    /// Places in the segment table, free ones and the root too.
    pub(super) fn table_len(&self) -> usize {
        self.segments.len()
    }

    /// What a segment hangs below.
    pub(super) fn place(&self, id: SegmentId) -> Place {
        self.segment(id).place()
    }

    /// Whether a place lies in a segment that has pages, no further down than it reaches.
    pub(super) fn holds(&self, place: Place) -> bool {
        let segment = (place.segment.index() < self.segments.len()).then(|| self.segment(place.segment));
        segment.is_some_and(|segment| segment.len() > 0 && place.pages <= segment.len())
    }

    /// The ids of a segment below a place in it, in one run or several.
    pub(super) fn ids_below(&self, place: Place) -> impl Iterator<Item = PageIds<'_>> + Clone {
        self.labels.runs(self.segment(place.segment).label, place.pages)
    }

    /// The ids of a segment above a place in it, in one run or several.
    pub(super) fn ids_above(&self, place: Place) -> impl Iterator<Item = PageIds<'_>> {
        let mut left = place.pages as usize;
        self.labels.runs(self.segment(place.segment).label, 0).map_while(move |run| {
            let run = run.first(left);
            left -= run.len();
            (!run.is_empty()).then_some(run)
        })
    }

    /// Pages of a segment.
    pub(super) fn len(&self, id: SegmentId) -> u32 {
        self.segment(id).len()
    }

    /// How many pages of a segment a request has that begins with the segment's first page and goes on with
    /// `rest`.
    #[inline]
    pub(super) fn shared_pages(&mut self, id: SegmentId, rest: PageIds<'_>) -> usize {
        if self.pays_to_digest(rest) {
            return 1 + self.shared_by_digest(id, rest);
        }
        if rest.is_empty() {
            return 1;
        }
        1 + self.labels.common_prefix(self.segment(id).label, 1, rest)
    }

    /// How many pages of a segment below a place a request has that goes on with `ids` there.
    pub(super) fn shared_below(&self, place: Place, ids: PageIds<'_>) -> usize {
        self.labels.common_prefix(self.segment(place.segment).label, place.pages, ids)
    }

    /// Whether reading the label alongside these ids may mean waiting for memory.
    #[inline]
    fn pays_to_digest(&self, rest: PageIds<'_>) -> bool {
        rest.len() >= SHORTEST && !self.labels.are_near()
    }

    /// How many of the ids that follow a segment's first one a request has, by their digest as far as it goes.
    #[inline(never)]
    fn shared_by_digest(&mut self, id: SegmentId, rest: PageIds<'_>) -> usize {
        let known = self.digests.shared(id, rest);
        let place = Place { segment: id, pages: known as u32 + 1 };
        // What hangs below a page begins with another id than the segment goes on with, which need not be read then.
        let leaves = |next| known > 0 && self.child(place, next).is_some();
        if rest.get(known).is_none_or(leaves) {
            return known;
        }
        let label = self.segment(id).label;
        let shared = known + self.labels.common_prefix(label, place.pages, rest.from(known));
        self.digests.remember(id, rest.first(shared), known);
        shared
    }

    /// The same where ids are chained.
    #[inline]
    pub(super) fn shared_chained_pages(&self, id: SegmentId, rest: PageIds<'_>) -> usize {
        let label = self.segment(id).label;
        1 + self.labels.common_chained_prefix(label, 1, rest, self.last_left(id) as usize - 1)
    }

    /// Above which page of a segment the last request left it; its end where that was there.
    #[inline]
    fn last_left(&self, id: SegmentId) -> u32 {
        let Segment { label, deeper, .. } = *self.segment(id);
        if deeper == NONE { label.len() } else { self.regions.get(deeper).begin }
    }

    /// Where the page above a place lies: in the segment itself, or where that hangs.
    pub(super) fn above(&self, place: Place) -> Place {
        if place.pages > 0 { place } else { self.place(place.segment) }
    }

    /// The id of the last page above a place; 0 at the root.
    pub(super) fn id_above(&self, place: Place) -> u64 {
        match place.pages {
            0 => 0,
            pages => self.labels.id(self.segment(place.segment).label, pages - 1),
        }
    }

    fn first_id(&self, id: SegmentId) -> u64 {
        self.labels.id(self.segment(id).label, 0)
    }

    /// The segment at a place whose label begins with `first`.
    #[inline(always)]
    pub(super) fn child(&self, place: Place, first: u64) -> Option<SegmentId> {
        let key = self.key_of_child(place, first)?;
        self.index.find(key, |id| self.place(id) == place)
    }

    /// By which key [`Tree::child`] looks for a child; none if the segment has no children. The root has some.
    #[inline]
    pub(super) fn key_of_child(&self, place: Place, first: u64) -> Option<ChildKey> {
        let may_have_children = place == TOP || self.segment(place.segment).children > 0;
        may_have_children.then(|| self.index.key(place, first))
    }

    /// Has brought near where the index has a child.
    #[inline]
    pub(super) fn prefetch_child(&self, key: ChildKey) {
        self.index.prefetch(key);
    }

    /// The child that [`Tree::child`] would look at first, right or wrong, on its way from memory.
    #[inline]
    pub(super) fn guess_child(&self, key: ChildKey) -> Option<SegmentId> {
        self.index.find(key, |_| true).inspect(|child| prefetch(self.segment(*child)))
    }

    /// Has the first and last id of a segment brought near; tells the slot of its first page. A single id is
    /// known from the index.
    #[inline]
    pub(super) fn prefetch_ids(&self, id: SegmentId) -> Slot {
        let Segment { slot, label, .. } = *self.segment(id);
        if label.len() > 1 {
            self.labels.prefetch_ends(label);
        }
        slot
    }

    /// Has what [`Tree::prefetch_guess`] reads of a segment brought near; tells the slot of its first page.
    pub(super) fn prefetch_places(&self, id: SegmentId) -> Slot {
        let Segment { slot, label, deeper, .. } = *self.segment(id);
        self.labels.prefetch_pieces(label);
        prefetch(self.regions.get(deeper));
        slot
    }

    /// Has the id of a segment that [`Tree::shared_chained_pages`] compares first brought near; tells with which of the
    /// ids after the segment's first one, of which a request has so many. None where it compares none.
    pub(super) fn prefetch_guess(&self, id: SegmentId, rest: usize) -> Option<usize> {
        let label = self.segment(id).label;
        let length = rest.min(label.len() as usize - 1);
        let page = first_probe(self.last_left(id) as usize - 1, length);
        (length > 0).then(|| {
            self.labels.prefetch(label, page as u32 + 1);
            page
        })
    }

    /// The slot of a segment's first page.
    #[inline]
    pub(super) fn owner(&self, id: SegmentId) -> Slot {
        self.segment(id).slot
    }

    /// Whether all of a segment's pages above a place belong to this slot.
    #[inline]
    pub(super) fn belongs_to(&self, place: Place, slot: Slot) -> bool {
        self.owner(place.segment) == slot && self.last_left(place.segment) >= place.pages
    }

    /// The slots of a segment's first `pages` pages, each with how many of them it has.
    pub(super) fn owners(&self, id: SegmentId, pages: u32) -> impl Iterator<Item = (Slot, u32)> {
        let segment = self.segment(id);
        let mut regions = self.regions.from(segment.deeper).take_while(move |region| region.begin < pages);
        let mut owner = Some((segment.slot, 0));
        std::iter::from_fn(move || {
            let (slot, begin) = owner?;
            owner = regions.next().map(|region| (region.slot, region.begin));
            Some((slot, owner.map_or(pages, |(_, end)| end) - begin))
        })
    }

    /// Gives a segment's first `pages` pages to a slot newer than all. Always in line: for most segments it is one
    /// store.
    #[inline(always)]
    pub(super) fn take_over(&mut self, id: SegmentId, pages: u32, slot: Slot) {
        let Self { segments, regions, .. } = self;
        let segment = &mut segments[id.index()];
        if segment.deeper != NONE || pages < segment.len() {
            segment.deeper = regions.take_top(segment.deeper, segment.slot, pages, segment.len());
        }
        segment.slot = slot;
    }

    /// Gives the pages from `begin` on, of those that belong to the owner of a segment's first page, to a slot that
    /// is older than that owner and newer than all others.
    pub(super) fn release(&mut self, id: SegmentId, begin: u32, slot: Slot) {
        let owner = std::mem::replace(&mut self.segment_mut(id).slot, slot);
        if begin > 0 {
            self.take_over(id, begin, owner);
        }
    }

    /// The slot of a segment's last page, and the first page it has there; none of a place that is free.
    pub(super) fn deepest(&self, id: SegmentId) -> Option<(Slot, u32)> {
        let segment = self.segment(id);
        let first = (segment.slot, 0);
        let deepest =
            self.regions.deepest(segment.deeper).map_or(first, |region| (region.slot, region.begin));
        (segment.len() > 0).then_some(deepest)
    }

    /// Adds new pages below a place whose pages all belong to `slot`: to the segment itself where that ends
    /// there, else as a segment of their own. Returns the segment that holds them.
    pub(super) fn append(&mut self, place: Place, first: u64, rest: PageIds<'_>, slot: Slot) -> SegmentId {
        let segment = &mut self.segments[place.segment.index()];
        if place != TOP && place.pages == segment.len() {
            self.labels.lengthen(&mut segment.label, first, rest);
            return place.segment;
        }
        let label = self.labels.add(first, rest);
        let id = self.new_segment(Segment::hanging_at(place, label, slot));
        self.index_child(id, place, first);
        id
    }

    /// Digests the ids of a segment that went on below `end`, while a request has them at hand: the next one is
    /// likely to come with the same.
    pub(super) fn remember_lengthened(&mut self, end: Place, ids: PageIds<'_>) {
        let rest = ids.from(1);
        if self.pays_to_digest(rest) {
            self.digests.remember(end.segment, rest, end.pages as usize - 1);
        }
    }

    fn detach(&mut self, id: SegmentId) {
        let place = self.place(id);
        self.segment_mut(place.segment).children -= 1;
        let key = self.index.key(place, self.first_id(id));
        self.index.remove(key, id);
    }

    /// Makes a segment known to the one it hangs in.
    fn index_child(&mut self, id: SegmentId, place: Place, first: u64) {
        self.segment_mut(place.segment).children += 1;
        let key = self.index.key(place, first);
        self.index.insert(key, id);
    }

    fn new_segment(&mut self, segment: Segment) -> SegmentId {
        if let Some(id) = self.free.pop() {
            self.segments[id.index()] = segment;
            return id;
        }
        self.segments.push(segment);
        if let Some(later) = self.segments.spare(LINES_AHEAD * LINE / size_of::<Segment>()) {
            prefetch(later);
        }
        SegmentId(self.segments.len() as u32 - 1)
    }

    /// Removes the pages of a segment's deepest region, which must have nothing below them; with the
    /// first region the segment goes.
    pub(super) fn remove_deepest(&mut self, id: SegmentId) {
        let begin = self.deepest(id).map_or(0, |(_, begin)| begin);
        if begin == 0 {
            self.detach(id);
            self.free.push(id);
        } else {
            let deeper = self.segment(id).deeper;
            self.segment_mut(id).deeper = self.regions.pop_bottom(deeper);
        }
        self.digests.truncate(id, begin);
        self.labels.truncate(&mut self.segments[id.index()].label, begin);
    }

    /// Gives every region its slot's new number.
    pub(super) fn renumber_slots(&mut self, renumbering: &Renumbering) {
        let segments = self.segments.iter_mut().skip(1).filter(|segment| segment.len() > 0);
        segments.for_each(|segment| segment.slot = renumbering.of(segment.slot));
        self.regions.renumber_slots(renumbering);
    }

    /// Closes the gaps of removed labels once that pays.
    pub(super) fn collect_garbage(&mut self) {
        if self.labels.is_worth_collecting(self.segments.len()) {
            self.labels.collect_garbage(self.segments.iter_mut().map(|segment| &mut segment.label));
        }
    }

    /// Makes every segment known to the one it hangs in, as after reading a snapshot.
    pub(super) fn find_children(&mut self) {
        for id in (1..self.segments.len() as u32).map(SegmentId) {
            if self.segment(id).len() > 0 {
                self.index_child(id, self.place(id), self.first_id(id));
            }
        }
    }

    /// Every segment that has pages.
    pub(super) fn segments(&self) -> impl Iterator<Item = (SegmentId, &Segment)> {
        (0..).map(SegmentId).zip(self.segments.iter()).filter(|(_, segment)| segment.len() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_two_places_with_one_key_are_told_apart() {
        let mut tree = Tree::new();
        let path = tree.append(TOP, 1, PageIds::from_slice(&[2, 3]), Slot(0));
        let below = Place { segment: path, pages: 1 };
        let child = tree.append(below, 100, PageIds::default(), Slot(1));
        let same = tree.index.first_with(tree.index.key(below, 100), TOP);
        assert_eq!(tree.index.key(TOP, same), tree.index.key(below, 100));
        assert_eq!(tree.child(TOP, same), None);
        let other = tree.append(TOP, same, PageIds::default(), Slot(2));
        assert_eq!((tree.child(below, 100), tree.child(TOP, same)), (Some(child), Some(other)));
    }

    /// The root is none, nor is a free place.
    #[test]
    fn a_tree_counts_the_segments_that_have_pages() {
        let mut tree = Tree::new();
        assert_eq!(tree.segment_count(), 0);
        let path = tree.append(TOP, 1, PageIds::from_slice(&[2, 3]), Slot(0));
        let child = tree.append(Place { segment: path, pages: 1 }, 9, PageIds::default(), Slot(1));
        assert_eq!(tree.segment_count(), 2);
        tree.remove_deepest(child);
        assert_eq!(tree.segment_count(), tree.segments().count());
        assert_eq!(tree.segment_count(), 1);
    }
}
