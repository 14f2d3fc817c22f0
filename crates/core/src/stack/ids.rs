//! What the parts of a stack name each other by: places in the tree of pages, slots of the LRU order.

use crate::units::heap::flat;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// A segment's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable, Serialize, Deserialize)]
#[repr(transparent)]
pub(super) struct SegmentId(pub(super) u32);

flat!(SegmentId);

impl SegmentId {
    /// Position in the segment table.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where every path begins; it has no pages, and is nobody's child.
pub(super) const ROOT: SegmentId = SegmentId(0);

/// A place in the tree: after so many pages of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) segment: SegmentId,
    pub(super) pages: u32,
}

flat!(Place);

/// Above the first page of every path.
pub(super) const TOP: Place = Place { segment: ROOT, pages: 0 };

/// A request's place in the LRU order; larger is more recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Slot(pub(super) u32);

flat!(Slot);

impl Slot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Slots in one leaf: a cache line of them.
pub(super) const LEAF: usize = 8;
