//! A retention from the write on, that no use refreshes: a page goes so long after it was written, and what finds
//! it gone writes it anew. What is still there is not written again.
//!
//! When a page was written is not a function of its last use, so each retention is a state of its own. But pages
//! that one request touched last lie in one line, and requests take them from its shallow end; so for each such
//! line a few runs of pages written together are enough, and whoever takes a whole line takes its runs in one piece.

use super::Ttl;
use super::lines::{Line, Lines, Written};
use super::sliding::Level;
use crate::lifetimes::{Holders, Packed, Taken};
use crate::outcome::Outcome;
use crate::units::EventTime;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What such a cache holds, followed through a log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Fixed {
    ttl: Ttl,
    /// One a request in the list.
    lines: Lines,
    /// What has not expired, by when it was written.
    there: VecDeque<Written>,
    pub(super) level: Level,
}

impl Fixed {
    pub(super) fn new(ttl: Ttl) -> Self {
        Self { ttl, lines: Lines::default(), there: VecDeque::new(), level: Level::default() }
    }

    /// Drops what expires before `now`.
    pub(super) fn advance(&mut self, now: EventTime) {
        while let Some((oldest, end)) =
            self.there.front().and_then(|old| Some((*old, self.ttl.end_of(old.at)?)))
            && end < now
        {
            self.level.last_until(end);
            self.level.pages -= u64::from(oldest.pages);
            self.there.pop_front();
        }
        self.level.last_until(now);
    }

    /// Follows a request that has taken its pages over. Returns the leading pages that were there.
    pub(super) fn follow(&mut self, holders: &Holders, outcome: &Outcome) -> u64 {
        let now = holders.now();
        let mut arriving = Arriving { line: Line::default(), hits: 0, is_broken: false, written: 0, now };
        for taken in holders.taken() {
            arriving.is_broken |= !taken.can_hit;
            match taken.from {
                Some(from) => self.take(from as usize, taken, &mut arriving),
                None => self.write(taken.pages, &mut arriving),
            }
        }
        self.write(u32::try_from(outcome.new_pages).unwrap_or(u32::MAX), &mut arriving);
        self.lines.push(arriving.line);
        self.level.pages += u64::from(arriving.written);
        if arriving.written > 0 {
            self.there.push_back(Written { at: now, pages: arriving.written });
        }
        arriving.hits
    }

    /// Moves the shallowest pages of a line to the request that arrives.
    fn take(&mut self, from: usize, taken: &Taken, arriving: &mut Arriving) {
        let is_there = |at: EventTime| self.ttl.end_of(at).is_none_or(|end| arriving.now <= end);
        if taken.is_rest && self.lines.oldest(from).is_some_and(is_there) {
            arriving.hit(taken.pages);
            self.lines.append_rest(from, &mut arriving.line);
            return;
        }
        let mut left = taken.pages;
        while let Some(run) = self.lines.take_first(from, left) {
            left -= run.pages;
            if self.ttl.end_of(run.at).is_none_or(|end| arriving.now <= end) {
                arriving.hit(run.pages);
                self.lines.append(&mut arriving.line, run);
            } else {
                self.write(run.pages, arriving);
            }
        }
    }

    /// Writes pages that are not there.
    fn write(&mut self, pages: u32, arriving: &mut Arriving) {
        if pages > 0 {
            arriving.is_broken = true;
            arriving.written += pages;
            self.lines.append(&mut arriving.line, Written { at: arriving.now, pages });
        }
    }

    /// Follows the list as it is packed: the lines of those who have pages stay.
    pub(super) fn renumber(&mut self, packed: &Packed) {
        self.lines.retain(|place| packed.place(place) < packed.place(place + 1));
    }

    /// Whether this, read back from a snapshot, keeps pages for so long and follows the list.
    pub(super) fn is_sound(&self, ttl: Ttl, holders: &Holders) -> bool {
        let there: u64 = self.there.iter().map(|run| u64::from(run.pages)).sum();
        self.ttl == ttl
            && self.lines.len() == holders.entries().len()
            && self.there.iter().is_sorted_by_key(|run| run.at)
            && self.there.back().is_none_or(|run| run.at <= holders.now())
            && self.level.is_sound(there, holders)
    }

    /// Bytes of memory held, nearly.
    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.there.capacity() * size_of::<Written>()
    }
}

/// A request while its pages move.
struct Arriving {
    now: EventTime,
    line: Line,
    /// Leading pages that were there.
    hits: u64,
    /// A page was not there, or cannot be a hit.
    is_broken: bool,
    written: u32,
}

impl Arriving {
    /// Finds pages there.
    fn hit(&mut self, pages: u32) {
        self.hits += if self.is_broken { 0 } else { u64::from(pages) };
    }
}
