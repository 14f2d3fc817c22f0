//! Which pages were seen a second time.
//!
//! What a request left behind begins with pages that it had not been the first to touch, and later ones take its pages
//! from there on; so a number a request is enough.

use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Pages by how often they were seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sights {
    /// Leading pages of each request, of those still its own, that were touched before it, too.
    again: Vec<u32>,
    /// Pages ever seen.
    distinct: u64,
    /// Those of them that were touched at least twice.
    twice: u64,
    /// Known pages of the request that arrives, so far.
    known: u32,
    /// The stack forgot pages, so that this cannot be known.
    is_beyond_bound: bool,
}

heap_bytes!(Sights { again; distinct, twice, known, is_beyond_bound });

impl Sights {
    /// Takes pages of the request in this place over; of none where the stack forgot who had them.
    pub fn take(&mut self, place: Option<usize>, pages: u32) {
        self.known = self.known.saturating_add(pages);
        let Some(again) = place.and_then(|place| self.again.get_mut(place)) else {
            self.is_beyond_bound = true;
            return;
        };
        let seen = pages.min(*again);
        *again -= seen;
        self.twice += u64::from(pages - seen);
    }

    /// Gives the request that arrived what it took over, and so many new pages.
    pub fn arrive(&mut self, new_pages: u64) {
        self.again.push(std::mem::take(&mut self.known));
        self.distinct += new_pages;
    }

    /// Requests in the list.
    pub fn requests(&self) -> usize {
        self.again.len()
    }

    /// Pages ever seen.
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    /// Pages that were touched only once, and all; `None` where the stack forgot some.
    pub fn touched_once(&self) -> Option<(u64, u64)> {
        (!self.is_beyond_bound).then(|| (self.distinct.saturating_sub(self.twice), self.distinct))
    }

    /// Keeps the requests at these places only.
    pub fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let mut place = 0;
        self.again.retain(|_| {
            place += 1;
            stays(place - 1)
        });
    }
}
