//! A retention that every use refreshes: pages stay until they were not used for so long.

use super::Ttl;
use crate::lifetimes::{Holders, Packed};
use crate::units::EventTime;

/// What such a cache holds, followed through a log.
#[derive(Debug)]
pub(super) struct Sliding {
    ttl: Ttl,
    /// No request before this one in the list holds pages here.
    first: usize,
    pub(super) level: Level,
    /// The stack forgot pages that are held here.
    pub(super) is_beyond_bound: bool,
}

/// A number of pages over time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    /// Pages now.
    pub(super) pages: u64,
    /// Page-milliseconds so far.
    pub(super) integral: u128,
    since: Option<EventTime>,
}

impl Level {
    /// Lets time pass, pages staying as they are.
    pub(super) fn last_until(&mut self, time: EventTime) {
        let since = self.since.replace(time).unwrap_or(time);
        self.integral += u128::from(self.pages) * u128::from(time.0.abs_diff(since.0));
    }
}

impl Sliding {
    pub(super) fn new(ttl: Ttl) -> Self {
        Self { ttl, first: 0, level: Level::default(), is_beyond_bound: false }
    }

    /// Drops what expires before `now`.
    pub(super) fn advance(&mut self, holders: &Holders, now: EventTime) {
        while let Some(holder) = holders.entries().get(self.first) {
            if holder.pages > 0 {
                match self.ttl.end_of(holder.time) {
                    Some(end) if end < now => self.level.last_until(end),
                    _ => break,
                }
                self.level.pages -= u64::from(holder.pages);
            }
            self.first += 1;
        }
        self.level.last_until(now);
    }

    /// Follows a request that has taken its `pages` over.
    pub(super) fn follow(&mut self, holders: &Holders, pages: u32) {
        let here = |from: u32| from as usize >= self.first;
        let here = holders.taken().iter().filter(|taken| taken.from.is_some_and(here));
        self.level.pages -= here.map(|taken| u64::from(taken.pages)).sum::<u64>();
        self.level.pages += u64::from(pages);
    }

    /// Follows the stack as it forgets a request's pages.
    pub(super) fn forget(&mut self, place: usize, pages: u32) {
        if place >= self.first {
            self.level.pages -= u64::from(pages);
            self.is_beyond_bound = true;
        }
    }

    pub(super) fn renumber(&mut self, packed: &Packed) {
        self.first = packed.place(self.first);
    }
}
