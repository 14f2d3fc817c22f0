//! When the pages of every request in the list were written: a chain of runs each, from the shallowest page on.
//!
//! Chains lie in one arena, so that one is joined to another in a step however long both are.

use crate::units::EventTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// No run.
const NONE: u32 = u32::MAX;

/// Pages written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub at: EventTime,
    pub pages: u32,
}

/// A run and the one below it.
#[derive(Debug, Clone, Copy)]
struct Link {
    run: Written,
    next: u32,
}

/// One request's chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    first: u32,
    last: u32,
    /// No run of it was written before.
    oldest: EventTime,
}

impl Default for Line {
    fn default() -> Self {
        Self { first: NONE, last: NONE, oldest: EventTime(i64::MAX) }
    }
}

/// Every request's, in the order of the list.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    links: Vec<Link>,
    free: Vec<u32>,
}

impl Lines {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Adds the line of a request that came.
    pub(super) fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// No run of this line was written before; none where it has no runs.
    pub(super) fn oldest(&self, place: usize) -> Option<EventTime> {
        let line = self.lines[place];
        (line.first != NONE).then_some(line.oldest)
    }

    /// Takes the first run of a line, at most so many pages of it.
    pub(super) fn take_first(&mut self, place: usize, most: u32) -> Option<Written> {
        let first = self.lines[place].first;
        if first == NONE || most == 0 {
            return None;
        }
        let link = &mut self.links[first as usize];
        let taken = Written { pages: link.run.pages.min(most), ..link.run };
        link.run.pages -= taken.pages;
        if link.run.pages == 0 {
            self.lines[place].first = link.next;
            self.free.push(first);
        }
        Some(taken)
    }

    /// Adds a run below a line.
    pub(super) fn append(&mut self, line: &mut Line, run: Written) {
        line.oldest = line.oldest.min(run.at);
        if self.join(line, run) {
            return;
        }
        let link = Link { run, next: NONE };
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
    pub(super) fn append_rest(&mut self, place: usize, line: &mut Line) {
        let rest = std::mem::take(&mut self.lines[place]);
        line.oldest = line.oldest.min(rest.oldest);
        let Link { run, next } = self.links[rest.first as usize];
        if !self.join(line, run) {
            return self.chain(line, rest.first, rest.last);
        }
        self.free.push(rest.first);
        if next != NONE {
            self.chain(line, next, rest.last);
        }
    }

    /// Adds a run to the last one of a line, if both were written together.
    fn join(&mut self, line: &Line, run: Written) -> bool {
        let last = (line.first != NONE).then(|| &mut self.links[line.last as usize].run);
        match last.filter(|last| last.at == run.at) {
            Some(last) => {
                last.pages += run.pages;
                true
            }
            None => false,
        }
    }

    fn chain(&mut self, line: &mut Line, first: u32, last: u32) {
        if line.first == NONE {
            line.first = first;
        } else {
            self.links[line.last as usize].next = first;
        }
        line.last = last;
    }

    /// Keeps the lines at these places only.
    pub(super) fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let mut place = 0;
        let Self { lines, links, free } = self;
        lines.retain(|line| {
            place += 1;
            if stays(place - 1) {
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

    fn runs(&self, line: Line) -> impl Iterator<Item = Written> + '_ {
        let link = |at: u32| (at != NONE).then(|| self.links[at as usize]);
        std::iter::successors(link(line.first), move |before| link(before.next)).map(|link| link.run)
    }

    /// Bytes of memory held, nearly.
    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
            + self.links.capacity() * size_of::<Link>()
            + self.free.capacity() * size_of::<u32>()
    }
}

impl Serialize for Lines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines = self.lines.iter().map(|line| self.runs(*line).collect::<Vec<_>>());
        serializer.collect_seq(lines)
    }
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let saved = Vec::<Vec<Written>>::deserialize(deserializer)?;
        let mut lines = Self::default();
        for runs in saved {
            let mut line = Line::default();
            runs.into_iter().for_each(|run| lines.append(&mut line, run));
            lines.push(line);
        }
        Ok(lines)
    }
}
