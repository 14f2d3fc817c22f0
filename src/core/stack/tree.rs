//! The pool's pages as a path-compressed radix tree over page ids.
//!
//! Labels lie in one arena, so a label is a slice to compare with. What DESIGN 2 calls an edge is a *region*
//! here: the pages of a segment that one slot touched last. A segment, the unit that is allocated and
//! compared, is a line of such edges whose labels lie side by side: a request that leaves it half-way neither
//! splits nor moves it, it hangs a new segment at the page it left, and takes the regions above that page
//! over. A walk therefore costs one comparison a segment, however many requests branched off on its way,
//! and a region is taken over once for each time it was made.
//!
//! A segment costs 32 bytes. The child that goes on where a segment ends is found in it; further children,
//! and those that hang further up, through one hash index over (segment, page, first id).

use super::regions::{NONE, RegionId, Regions};
use super::slots::{Renumbering, Slot};
use crate::core::pages::PageIds;
use bytemuck::{Pod, Zeroable};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// A segment's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct SegmentId(pub(super) u32);

impl SegmentId {
    /// Position in the segment table.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where every path begins; it has no pages, and is nobody's child.
pub(super) const ROOT: SegmentId = SegmentId(0);

/// A place in the tree: after so many pages of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: SegmentId,
    pub(super) pages: u32,
}

/// Above the first page of every path.
pub(super) const TOP: Place = Place { segment: ROOT, pages: 0 };

/// Pages that lie side by side in the arena, the last of them one below the other.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct Segment {
    /// First id of the label in the arena.
    pub(super) start: u32,
    /// Pages of the label; none for the root and for a free place.
    pub(super) len: u32,
    /// The segment this one hangs in, and how many of its pages lie above.
    pub(super) parent: SegmentId,
    pub(super) offset: u32,
    /// The request that touched the first page last.
    pub(super) slot: Slot,
    /// Where pages begin that another request touched last.
    pub(super) deeper: RegionId,
    /// A child that hangs at the end; the root when there is none.
    next: SegmentId,
    /// Children in the index: all others.
    children: u32,
}

impl Segment {
    pub(super) fn hanging_at(place: Place, start: u32, len: u32, slot: Slot) -> Self {
        let Place { segment: parent, pages: offset } = place;
        Self { start, len, parent, offset, slot, deeper: NONE, next: ROOT, children: 0 }
    }

    /// What this hangs below.
    pub(super) fn place(&self) -> Place {
        Place { segment: self.parent, pages: self.offset }
    }
}

/// A segment in the index. Its first id is kept once more: whoever looks for a child compares it, and finds
/// it where the search led anyway.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Indexed {
    first: u64,
    id: SegmentId,
}

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) labels: Vec<u64>,
    pub(super) segments: Vec<Segment>,
    pub(super) regions: Regions,
    pub(super) free: Vec<SegmentId>,
    index: HashTable<Indexed>,
    hasher: FixedState,
    /// Ids in the arena no segment refers to.
    pub(super) garbage: usize,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self::of(Vec::new(), vec![Segment::hanging_at(TOP, 0, 0, Slot(0))], Vec::new(), 0)
    }

    /// A tree of segments that know what they hang below; [`Tree::find_children`] does the rest.
    pub(super) fn of(labels: Vec<u64>, segments: Vec<Segment>, free: Vec<SegmentId>, garbage: usize) -> Self {
        let (index, hasher) = (HashTable::new(), FixedState::default());
        Self { labels, segments, regions: Regions::new(), free, index, hasher, garbage }
    }

    fn segment(&self, id: SegmentId) -> &Segment {
        &self.segments[id.index()]
    }

    fn segment_mut(&mut self, id: SegmentId) -> &mut Segment {
        &mut self.segments[id.index()]
    }

    /// Segments in the tree, the root among them.
    pub(super) fn segment_count(&self) -> usize {
        self.segments.len() - self.free.len()
    }

    /// What a segment hangs below.
    pub(super) fn place(&self, id: SegmentId) -> Place {
        self.segment(id).place()
    }

    /// The ids of a segment.
    pub(super) fn label(&self, id: SegmentId) -> PageIds<'_> {
        let segment = self.segment(id);
        let start = segment.start as usize;
        PageIds::from_slice(&self.labels[start..start + segment.len as usize])
    }

    /// The ids of a segment below a place in it.
    pub(super) fn label_below(&self, place: Place) -> PageIds<'_> {
        self.label(place.segment).from(place.pages as usize)
    }

    /// Where the page above a place lies: in the segment itself, or where that hangs.
    pub(super) fn above(&self, place: Place) -> Place {
        if place.pages > 0 { place } else { self.place(place.segment) }
    }

    /// The id of the last page above a place; 0 at the root.
    pub(super) fn id_above(&self, place: Place) -> u64 {
        match place.pages {
            0 => 0,
            pages => self.labels[(self.segment(place.segment).start + pages - 1) as usize],
        }
    }

    fn first_id(&self, id: SegmentId) -> u64 {
        self.labels[self.segment(id).start as usize]
    }

    /// The segment at a place whose label begins with `first`.
    #[inline]
    pub(super) fn child(&self, place: Place, first: u64) -> Option<SegmentId> {
        let segment = self.segment(place.segment);
        let goes_on = place.pages == segment.len && segment.next != ROOT;
        if goes_on && self.first_id(segment.next) == first {
            return Some(segment.next);
        }
        if segment.children == 0 {
            return None;
        }
        let is_child = |child: &Indexed| child.first == first && self.place(child.id) == place;
        self.index.find(self.hash(place, first), is_child).map(|child| child.id)
    }

    fn hash(&self, place: Place, first: u64) -> u64 {
        hash_of(&self.hasher, place, first)
    }

    /// The child that [`Tree::child`] would look at first, right or wrong.
    #[inline]
    pub(super) fn guess_child(&self, place: Place, first: u64) -> Option<SegmentId> {
        let segment = self.segment(place.segment);
        match (segment.next, segment.children) {
            (next, 0) => (next != ROOT).then_some(next),
            _ => {
                let indexed = self.index.find(self.hash(place, first), |_| true).map(|child| child.id);
                indexed.or((segment.next != ROOT).then_some(segment.next))
            }
        }
    }

    /// Reads a segment.
    #[inline]
    pub(super) fn touch(&self, id: SegmentId) -> u32 {
        self.segment(id).start
    }

    /// The slot of a segment's first page, and the first and last id of its label, read.
    #[inline]
    pub(super) fn glance(&self, id: SegmentId) -> (Slot, u64) {
        let segment = self.segment(id);
        let (first, last) = (segment.start as usize, segment.start + segment.len.saturating_sub(1));
        (segment.slot, self.labels[first] ^ self.labels[last as usize])
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

    /// Gives a segment's first `pages` pages to a slot newer than all.
    pub(super) fn take_over(&mut self, id: SegmentId, pages: u32, slot: Slot) {
        let Segment { slot: first, deeper, len, .. } = *self.segment(id);
        if deeper != NONE || pages < len {
            self.segment_mut(id).deeper = self.regions.take_top(deeper, first, pages, len);
        }
        self.segment_mut(id).slot = slot;
    }

    /// The slot of a segment's last page, and the first page it has there; none of a place that is free.
    pub(super) fn deepest(&self, id: SegmentId) -> Option<(Slot, u32)> {
        let segment = self.segment(id);
        let first = (segment.slot, 0);
        let deepest =
            self.regions.deepest(segment.deeper).map_or(first, |region| (region.slot, region.begin));
        (segment.len > 0).then_some(deepest)
    }

    /// Adds new pages below a place whose pages all belong to `slot`: to the segment itself where its label
    /// is the arena's last, else as a segment of their own. Returns the segment that holds them.
    pub(super) fn append(&mut self, place: Place, first: u64, rest: PageIds<'_>, slot: Slot) -> SegmentId {
        let pages = rest.len() as u32 + 1;
        self.reserve(pages as usize);
        let start = self.labels.len() as u32;
        self.labels.push(first);
        self.labels.extend(rest.iter());
        let above = *self.segment(place.segment);
        let is_end = place.segment != ROOT && place.pages == above.len;
        if is_end && above.start + above.len == start {
            self.lengthen(place.segment, pages);
            return place.segment;
        }
        let id = self.new_segment(Segment::hanging_at(place, start, pages, slot));
        self.attach(id);
        id
    }

    fn lengthen(&mut self, id: SegmentId, pages: u32) {
        let next = std::mem::replace(&mut self.segment_mut(id).next, ROOT);
        if next != ROOT {
            // It hangs half-way from now on.
            self.index_child(next);
        }
        self.segment_mut(id).len += pages;
    }

    /// Makes a segment known to the one it hangs in.
    fn attach(&mut self, id: SegmentId) {
        let place = self.place(id);
        let parent = self.segment_mut(place.segment);
        if parent.next == ROOT && parent.len == place.pages {
            parent.next = id;
        } else {
            self.index_child(id);
        }
    }

    fn detach(&mut self, id: SegmentId) {
        let place = self.place(id);
        let parent = self.segment_mut(place.segment);
        if parent.next == id {
            parent.next = ROOT;
            return;
        }
        parent.children -= 1;
        let hash = self.hash(place, self.first_id(id));
        if let Ok(entry) = self.index.find_entry(hash, |child| { child.id } == id) {
            entry.remove();
        }
    }

    fn index_child(&mut self, id: SegmentId) {
        let place = self.place(id);
        self.segment_mut(place.segment).children += 1;
        let first = self.first_id(id);
        let hash = self.hash(place, first);
        let Self { index, segments, hasher, .. } = self;
        let rehash = |child: &Indexed| hash_of(hasher, segments[{ child.id }.index()].place(), child.first);
        index.insert_unique(hash, Indexed { first, id }, rehash);
    }

    /// Grows the arena in small steps, so that spare room stays a few per cent of the pages.
    fn reserve(&mut self, pages: usize) {
        /// One step of a small arena: 32 KiB, so that growing it is no work to speak of.
        const STEP_IDS: usize = 4096;
        let spare = self.labels.capacity() - self.labels.len();
        if spare < pages {
            self.labels.reserve_exact(pages.max(self.labels.len() / 32).max(STEP_IDS));
        }
    }

    fn new_segment(&mut self, segment: Segment) -> SegmentId {
        if let Some(id) = self.free.pop() {
            self.segments[id.index()] = segment;
            return id;
        }
        if self.segments.len() == self.segments.capacity() {
            self.segments.reserve_exact((self.segments.len() / 8).max(64));
        }
        self.segments.push(segment);
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
        let segment = self.segment_mut(id);
        let removed = segment.len - begin;
        segment.len = begin;
        self.garbage += removed as usize;
    }

    /// Gives every region its slot's new number.
    pub(super) fn renumber_slots(&mut self, renumbering: &Renumbering) {
        for segment in self.segments.iter_mut().skip(1).filter(|segment| segment.len > 0) {
            segment.slot = renumbering.of(segment.slot);
        }
        self.regions.renumber_slots(renumbering);
    }

    /// Closes the gaps of removed labels once they are a sixteenth of the arena and two a segment, so that each
    /// removed page pays for moving at most sixteen kept ones and for half a segment in the sorting.
    pub(super) fn collect_garbage(&mut self) {
        if self.garbage < self.labels.len() / 16 + 2 * self.segments.len() + 4096 {
            return;
        }
        let used = self.segments.iter().enumerate().skip(1).filter(|(_, segment)| segment.len > 0);
        // Sorting numbers, not segments looked up by their ids, stays in the cache.
        let mut in_arena_order: Vec<u64> =
            used.map(|(id, segment)| u64::from(segment.start) << 32 | id as u64).collect();
        in_arena_order.sort_unstable();
        let mut end = 0;
        for id in in_arena_order.into_iter().map(|key| key as u32) {
            let segment = &mut self.segments[id as usize];
            let start = segment.start as usize;
            self.labels.copy_within(start..start + segment.len as usize, end);
            segment.start = end as u32;
            end += segment.len as usize;
        }
        self.labels.truncate(end);
        self.garbage = 0;
    }

    /// Makes every segment known to the one it hangs in, as after reading a snapshot.
    pub(super) fn find_children(&mut self) {
        for id in (1..self.segments.len() as u32).map(SegmentId) {
            if self.segment(id).len > 0 {
                self.attach(id);
            }
        }
    }

    /// Every segment with what it hangs below, the slot of its first page and its label.
    pub(super) fn segments(&self) -> impl Iterator<Item = (Place, Slot, PageIds<'_>)> {
        let ids = (1..self.segments.len() as u32).map(SegmentId);
        let used = ids.filter(|&id| self.segment(id).len > 0);
        used.map(|id| (self.place(id), self.segment(id).slot, self.label(id)))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.labels.capacity() * size_of::<u64>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.free.capacity() * size_of::<SegmentId>()
            + self.regions.memory_bytes()
            + self.index.allocation_size()
    }
}

fn hash_of(hasher: &FixedState, place: Place, first: u64) -> u64 {
    hasher.hash_one((u64::from(place.segment.0) << 32 | u64::from(place.pages), first))
}
