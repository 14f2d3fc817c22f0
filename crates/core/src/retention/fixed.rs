//! A retention from the write on, that no use refreshes: a page goes so long after it was written, and what finds
//! it gone writes it anew. What is still there is not written again.
//!
//! When a page was written is not a function of its last use, so each retention is a state of its own. But pages
//! that one request touched last lie in one line, and requests take them from its shallow end; so for each such
//! line a few runs of pages written together are enough.

use super::Ttl;
use super::sliding::Level;
use crate::lifetimes::{Holders, Packed};
use crate::outcome::Outcome;
use crate::units::EventTime;
use std::collections::VecDeque;

/// Runs that may gather at the least; few in tests, so that they are dropped.
const SLACK: usize = if cfg!(test) { 8 } else { 4096 };

/// Pages written together.
#[derive(Debug, Clone, Copy)]
struct Written {
    at: EventTime,
    pages: u32,
}

/// Where the runs of one line are, from the shallowest on.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    from: u32,
    to: u32,
}

/// What such a cache holds, followed through a log.
#[derive(Debug)]
pub(super) struct Fixed {
    ttl: Ttl,
    /// One a request in the list.
    lines: Vec<Line>,
    runs: Vec<Written>,
    /// Runs that may gather until the dead ones are dropped.
    room: usize,
    /// What has not expired, by when it was written.
    there: VecDeque<Written>,
    pub(super) level: Level,
}

impl Fixed {
    pub(super) fn new(ttl: Ttl) -> Self {
        Self {
            ttl,
            lines: Vec::new(),
            runs: Vec::new(),
            room: SLACK,
            there: VecDeque::new(),
            level: Level::default(),
        }
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
        let mut arriving = Arriving { now: holders.now(), hits: 0, is_broken: false, written: 0 };
        let from = self.runs.len() as u32;
        for taken in holders.taken() {
            arriving.is_broken |= !taken.can_hit;
            match taken.from {
                Some(line) => self.take(line as usize, taken.pages, from, &mut arriving),
                None => self.write(taken.pages, from, &mut arriving),
            }
        }
        self.write(u32::try_from(outcome.new_pages).unwrap_or(u32::MAX), from, &mut arriving);
        self.lines.push(Line { from, to: self.runs.len() as u32 });
        self.level.pages += u64::from(arriving.written);
        if arriving.written > 0 {
            self.there.push_back(Written { at: arriving.now, pages: arriving.written });
        }
        arriving.hits
    }

    /// Moves the shallowest pages of a line to the one that begins at `to`.
    fn take(&mut self, line: usize, pages: u32, to: u32, arriving: &mut Arriving) {
        let mut left = pages;
        while left > 0 && self.lines[line].from < self.lines[line].to {
            let run = &mut self.runs[self.lines[line].from as usize];
            let Written { at, pages } = Written { pages: run.pages.min(left), ..*run };
            run.pages -= pages;
            self.lines[line].from += u32::from(run.pages == 0);
            left -= pages;
            if self.ttl.end_of(at).is_none_or(|end| arriving.now <= end) {
                arriving.hits += if arriving.is_broken { 0 } else { u64::from(pages) };
                self.push(Written { at, pages }, to);
            } else {
                self.write(pages, to, arriving);
            }
        }
    }

    /// Writes pages that are not there.
    fn write(&mut self, pages: u32, to: u32, arriving: &mut Arriving) {
        if pages > 0 {
            arriving.is_broken = true;
            arriving.written += pages;
            self.push(Written { at: arriving.now, pages }, to);
        }
    }

    /// Adds pages to the line that begins at `to`.
    fn push(&mut self, written: Written, to: u32) {
        match self.runs[to as usize..].last_mut() {
            Some(last) if last.at == written.at => last.pages += written.pages,
            _ => self.runs.push(written),
        }
    }

    /// Whether so many runs have gathered that dropping the dead ones pays.
    pub(super) fn is_crowded(&self) -> bool {
        self.runs.len() > self.room
    }

    /// Follows the list as it is packed: the lines of those who have pages stay.
    pub(super) fn renumber(&mut self, packed: &Packed) {
        let (mut lines, mut runs) = (Vec::new(), Vec::new());
        for (place, line) in self.lines.iter().enumerate() {
            if packed.place(place) == packed.place(place + 1) {
                continue;
            }
            let from = runs.len() as u32;
            runs.extend_from_slice(&self.runs[line.from as usize..line.to as usize]);
            lines.push(Line { from, to: runs.len() as u32 });
        }
        (self.lines, self.runs) = (lines, runs);
        self.room = 2 * self.runs.len() + SLACK;
    }
}

/// A request while its pages move.
struct Arriving {
    now: EventTime,
    /// Leading pages that were there.
    hits: u64,
    /// A page was not there, or cannot be a hit.
    is_broken: bool,
    written: u32,
}
