//! Where a capacity ends in the stack: a pointer a capacity, which only moves towards younger requests.
//!
//! Whoever takes pages over becomes the youngest owner of them all, so the pages from any request on never become
//! fewer, and what no longer fits never fits again.

use super::holders::{Holders, Packed};
use serde::{Deserialize, Serialize};

/// What of the stack fits into one capacity.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Boundary {
    /// In followed pages.
    pub capacity: u64,
    /// The youngest request of which not every page fits; none while all do, or where the stack forgot it.
    pub end: Option<u32>,
    /// Whether something did not fit yet.
    pub(super) is_full: bool,
    /// Pages of all younger ones, once something did not fit.
    pub(super) younger: u64,
}

impl Boundary {
    pub(crate) fn at(capacity: u64) -> Self {
        Self { capacity, end: None, is_full: false, younger: 0 }
    }

    /// Pages of the boundary request that fit.
    pub(crate) fn inside(&self) -> u64 {
        self.capacity - self.younger
    }

    /// Follows a request that has taken its `pages` over. `passed` is reported of every request, from the oldest on,
    /// that no longer fits whole and was not the boundary before: its place, and the pages it has left.
    #[inline]
    pub(crate) fn follow(&mut self, holders: &Holders, pages: u32, mut passed: impl FnMut(u32, u32)) {
        if self.is_full {
            let from_younger = |from: u32| Some(from) > self.end;
            let taken = holders.taken().iter().filter(|taken| taken.from.is_some_and(from_younger));
            self.younger -= taken.map(|taken| u64::from(taken.pages)).sum::<u64>();
            self.younger += u64::from(pages);
        } else if holders.total() > self.capacity {
            self.is_full = true;
            self.younger = holders.total();
        }
        while self.younger > self.capacity {
            let end = self.end.map_or(0, |end| end + 1);
            self.end = Some(end);
            let held = holders.entries()[end as usize].pages;
            self.younger -= u64::from(held);
            if held > 0 {
                passed(end, held);
            }
        }
    }

    /// Whether this, read back from a snapshot, is where such a capacity ends in the list.
    pub(crate) fn is_sound(&self, capacity: u64, holders: &Holders) -> bool {
        let from = self.end.map_or(0, |end| end as usize + 1);
        let Some(younger) = holders.entries().get(from..) else { return false };
        let pages: u64 = younger.iter().map(|holder| u64::from(holder.pages)).sum();
        let is_full = self.younger == pages && pages <= capacity;
        self.capacity == capacity
            && if self.is_full {
                is_full
            } else {
                self.end.is_none() && self.younger == 0 && pages <= capacity
            }
    }

    pub(crate) fn renumber(&mut self, packed: &Packed) {
        let place = |end: u32| {
            // The stack may have forgotten it: then the next one is younger.
            let (place, next) = (packed.place(end as usize), packed.place(end as usize + 1));
            if place < next { Some(place as u32) } else { place.checked_sub(1).map(|place| place as u32) }
        };
        self.end = self.end.and_then(place);
    }
}
