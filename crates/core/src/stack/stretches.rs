//! Where the pages of a range's tree lie in the tree that the range is merged into.

use super::ids::{Place, SegmentId, TOP};
use crate::units::heap::{flat, heap_bytes};

/// Pages of one of the range's segments that lie one below the other in one of the tree's.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// The first of them in the range's segment.
    begin: u32,
    /// The place in the tree before it.
    above: Place,
    /// The stretch above in the range's segment, by its number.
    before: u32,
}

flat!(Stretch);

/// No stretch of a segment yet.
const NONE: u32 = u32::MAX;

/// Maps places of a range's tree to places of another.
#[derive(Debug)]
pub(super) struct Stretches {
    all: Vec<Stretch>,
    /// The deepest stretch of each of the range's segments.
    deepest: Vec<u32>,
}

heap_bytes!(Stretches { all, deepest });

impl Stretches {
    /// Of a range with so many segments, none of which is placed.
    pub(super) fn new(segments: usize) -> Self {
        Self { all: Vec::new(), deepest: vec![NONE; segments] }
    }

    /// Says where pages of a range's segment lie, from its page `begin` on and below all that are placed.
    pub(super) fn push(&mut self, segment: SegmentId, begin: u32, above: Place) {
        let before = self.deepest[segment.index()];
        if let Some(last) = self.all.get(before as usize) {
            let goes_on = last.above.segment == above.segment
                && above.pages.checked_sub(last.above.pages) == Some(begin - last.begin);
            if goes_on {
                return;
            }
        }
        self.deepest[segment.index()] = self.all.len() as u32;
        self.all.push(Stretch { begin, above, before });
    }

    /// The place of the tree that is a range's place: below the same page.
    pub(super) fn place(&self, place: Place) -> Place {
        let Some(page) = place.pages.checked_sub(1) else { return TOP };
        let mut at = self.deepest[place.segment.index()];
        while self.all[at as usize].begin > page {
            at = self.all[at as usize].before;
        }
        let Stretch { begin, above, .. } = self.all[at as usize];
        Place { segment: above.segment, pages: above.pages + (place.pages - begin) }
    }
}
