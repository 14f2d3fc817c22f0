//! When the pages of every request in the list were written: a chain of runs each and time to live, from the shallowest
//! page on.
//!
//! Chains lie in one arena, so that one is joined to another in a step however long both are; and those of one request
//! lie side by side for all times to live, since all of them are looked at together.
//!
//! What moves runs is inlined, so that the line of the request that arrives stays in registers: eight of them written
//! and read back at once took as long as all else.

use crate::units::EventTime;
use crate::units::heap::{flat, heap_bytes};
use serde::{Deserialize, Serialize};

/// No run.
const NONE: u32 = u32::MAX;

/// Pages written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageLine {
    pub at: EventTime,
    pub pages: u32,
}

flat!(PageLine);

/// A run and the one below it.
#[derive(Debug, Clone, Copy)]
struct RunLink {
    at: EventTime,
    pages: u32,
    next: u32,
}

flat!(RunLink);

/// One request's chain with one time to live.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainLine {
    first: u32,
    last: u32,
    /// No run of it was written before.
    oldest: EventTime,
}

flat!(ChainLine);

impl Default for ChainLine {
    fn default() -> Self {
        Self { first: NONE, last: NONE, oldest: EventTime(i64::MAX) }
    }
}

/// Every request's, in the order of the list.
#[derive(Debug)]
pub(super) struct ChainLines {
    /// Times to live, each with a line a request.
    ttls: usize,
    lines: Vec<ChainLine>,
    links: Vec<RunLink>,
    free: Vec<u32>,
}

heap_bytes!(ChainLines { lines, links, free; ttls });

impl ChainLines {
    /// Nobody's yet, with so many times to live.
    pub(super) fn new(ttls: usize) -> Self {
        Self { ttls, lines: Vec::new(), links: Vec::new(), free: Vec::new() }
    }

    /// How many requests there are.
    pub(super) fn requests(&self) -> usize {
        self.lines.len() / self.ttls.max(1)
    }

    /// Adds the line of a request that came: one time to live after the other.
    pub(super) fn push(&mut self, line: ChainLine) {
        self.lines.push(line);
    }

    /// Where the line of the request in this place is, with one of the times to live.
    pub(super) fn index(&self, place: usize, ttl: usize) -> usize {
        place * self.ttls + ttl
    }

    /// No run of this line was written before; none where it has no runs.
    pub(super) fn oldest(&self, index: usize) -> Option<EventTime> {
        let line = self.lines[index];
        (line.first != NONE).then_some(line.oldest)
    }

    /// Takes the first run of a line, at most so many pages of it.
    #[inline(always)]
    pub(super) fn take_first(&mut self, index: usize, most: u32) -> Option<PageLine> {
        let first = self.lines[index].first;
        if first == NONE || most == 0 {
            return None;
        }
        let link = &mut self.links[first as usize];
        let taken = PageLine { at: link.at, pages: link.pages.min(most) };
        link.pages -= taken.pages;
        if link.pages == 0 {
            self.lines[index].first = link.next;
            self.free.push(first);
        }
        Some(taken)
    }

    /// Adds a run below a line.
    #[inline(always)]
    pub(super) fn append(&mut self, line: &mut ChainLine, run: PageLine) {
        line.oldest = line.oldest.min(run.at);
        if self.join(line, run) {
            return;
        }
        let link = RunLink { at: run.at, pages: run.pages, next: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                self.links[place as usize] = link;
                place
            }
            None => {
                // A run has pages of its own, of which fewer than 2^31 are tracked.
                self.links.push(link);
                (self.links.len() - 1) as u32
            }
        };
        self.chain(line, place, place);
    }

    /// Adds all that is left of a line below another.
    #[inline(always)]
    pub(super) fn append_rest(&mut self, index: usize, line: &mut ChainLine) {
        let rest = std::mem::take(&mut self.lines[index]);
        line.oldest = line.oldest.min(rest.oldest);
        let RunLink { at, pages, next } = self.links[rest.first as usize];
        if !self.join(line, PageLine { at, pages }) {
            return self.chain(line, rest.first, rest.last);
        }
        self.free.push(rest.first);
        if next != NONE {
            self.chain(line, next, rest.last);
        }
    }

    /// Adds a run to the last one of a line, if both were written together.
    #[inline(always)]
    fn join(&mut self, line: &ChainLine, run: PageLine) -> bool {
        let last = (line.first != NONE).then(|| &mut self.links[line.last as usize]);
        match last.filter(|last| last.at == run.at) {
            Some(last) => {
                last.pages += run.pages;
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    fn chain(&mut self, line: &mut ChainLine, first: u32, last: u32) {
        if line.first == NONE {
            line.first = first;
        } else {
            self.links[line.last as usize].next = first;
        }
        line.last = last;
    }

    /// Keeps the lines of the requests in these places only.
    pub(super) fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let mut index = 0;
        let Self { ttls, lines, links, free } = self;
        lines.retain(|line| {
            index += 1;
            if stays((index - 1) / *ttls) {
                return true;
            }
            let mut at = line.first;
            while at != NONE {
                free.push(at);
                at = links[at as usize].next;
            }
            false
        });
    }

    /// The runs of every request with one time to live, in the order of the list.
    pub(super) fn all_runs(&self, ttl: usize) -> impl Iterator<Item = Vec<PageLine>> + '_ {
        let lines = self.lines.iter().skip(ttl).step_by(self.ttls.max(1));
        lines.map(|line| self.runs(*line).collect())
    }

    fn runs(&self, line: ChainLine) -> impl Iterator<Item = PageLine> + '_ {
        let link = |at: u32| (at != NONE).then(|| self.links[at as usize]);
        std::iter::successors(link(line.first), move |before| link(before.next))
            .map(|RunLink { at, pages, .. }| PageLine { at, pages })
    }
}
