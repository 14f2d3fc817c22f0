//! The runs of a set of requests, kept for what can be known of them only once they are all there: what passes
//! between tiers, whose sizes a plan gives, and what perfect foresight would find.
//!
//! 16 bytes a run and 32 a request.

use crate::questions::counters::{Counter, Share};
use crate::request::outcome::{BEYOND, Outcome, Run};
use crate::units::heap::{flat, heap_bytes};
use crate::units::{EventTime, is_countable};
use serde::{Deserialize, Serialize};

/// How far back the last touch lies where that was forgotten.
const FORGOTTEN: u32 = u32::MAX;

/// Known pages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedRun {
    need: u32,
    pages: u32,
    /// How many requests ago they were touched last.
    back: u32,
    /// What each further page needs more.
    step: u8,
    /// Whether they can be hits.
    pub(crate) can_hit: bool,
}

flat!(LoggedRun);

impl LoggedRun {
    fn of(run: &Run, number: u64, can_hit: bool) -> Self {
        // Tracked pages stay far below, so the largest number stands for what lies beyond.
        let need = u32::try_from(run.need).unwrap_or(u32::MAX);
        let back = number.checked_sub(run.last_touched_by).filter(|back| *back > 0 && run.need != BEYOND);
        let back = back.and_then(|back| u32::try_from(back).ok()).unwrap_or(FORGOTTEN);
        // Engines have steps of 0 and 1.
        Self { need, pages: run.pages, back, step: run.step as u8, can_hit }
    }

    /// How many pages.
    pub(crate) fn pages(self) -> u64 {
        u64::from(self.pages)
    }

    /// How many requests ago they were touched last; none where that was forgotten.
    pub(crate) fn back(self) -> Option<u32> {
        (self.back != FORGOTTEN).then_some(self.back)
    }

    /// How many of the pages lie within so many of the youngest.
    pub(crate) fn hits_at(self, capacity: u64) -> u64 {
        let need = if self.need == u32::MAX { BEYOND } else { u64::from(self.need) };
        let run = Run { pages: self.pages, need, step: u32::from(self.step), last_touched_by: 0 };
        u64::from(run.hits_at(capacity))
    }

    fn is_sound(&self) -> bool {
        self.pages > 0 && self.back > 0 && self.step <= 1
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NumberedRequest {
    /// Its number in the pool.
    pub number: u64,
    /// The latest event time as it came.
    pub at: EventTime,
    /// Distinct pages before it.
    pub distinct: u64,
    /// Pages that were new with it.
    pub new_pages: u32,
}

flat!(NumberedRequest);

impl NumberedRequest {
    fn is_sound(&self) -> bool {
        is_countable(self.number) && is_countable(self.distinct)
    }
}

/// One request with its runs, as windows keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRuns {
    request: NumberedRequest,
    runs: Vec<LoggedRun>,
}

heap_bytes!(RequestRuns { runs; request });

impl RequestRuns {
    /// A request with its runs.
    pub(crate) fn of(request: NumberedRequest, outcome: &Outcome) -> Self {
        Self { request, runs: runs(outcome, request.number).collect() }
    }
}

fn runs(outcome: &Outcome, number: u64) -> impl Iterator<Item = LoggedRun> + '_ {
    let known = outcome.runs.iter().map(move |run| LoggedRun::of(run, number, true));
    known.chain(outcome.unlooked.iter().map(move |run| LoggedRun::of(run, number, false)))
}

/// Most runs, and most requests, that a window keeps; of one with more nothing is reported. 16 MB.
pub const MAX_WINDOW_RUNS: usize = 1 << 20;

/// The same of a log that ends, and of its windows.
pub const MAX_LOG_RUNS: usize = 1 << 28;

fn window_runs() -> usize {
    MAX_WINDOW_RUNS
}

/// Requests with their runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLog {
    requests: Vec<NumberedRequest>,
    /// Where each request's runs end.
    ends: Vec<u32>,
    runs: Vec<LoggedRun>,
    /// There were more than are kept: nothing can be known.
    is_full: bool,
    /// Most of requests or runs.
    #[serde(skip, default = "window_runs")]
    most: usize,
}

heap_bytes!(RunLog { requests, ends, runs; is_full, most });

impl RunLog {
    /// Adds the pool's request of this number.
    pub(crate) fn observe(&mut self, request: NumberedRequest, outcome: &Outcome) {
        self.push(request, runs(outcome, request.number));
    }

    fn push(&mut self, request: NumberedRequest, runs: impl Iterator<Item = LoggedRun>) {
        if self.is_full {
            return;
        }
        self.runs.extend(runs);
        self.requests.push(request);
        if self.runs.len().max(self.requests.len()) > self.most {
            *self = Self { is_full: true, ..Self::new(self.most) };
            return;
        }
        self.ends.push(self.runs.len() as u32);
    }

    /// The requests with their runs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NumberedRequest, &[LoggedRun])> {
        let mut begin = 0;
        self.requests.iter().zip(&self.ends).map(move |(request, end)| {
            let runs = &self.runs[begin..*end as usize];
            begin = *end as usize;
            (*request, runs)
        })
    }

    /// Whether all requests could be kept; else nothing can be known.
    pub fn is_complete(&self) -> bool {
        !self.is_full
    }
}

impl Share for RequestRuns {
    type Shape = usize;

    fn is_sound(&self, _most: usize) -> bool {
        self.request.is_sound() && self.runs.iter().all(LoggedRun::is_sound)
    }
}

impl Counter for RunLog {
    type Share = RequestRuns;

    /// An empty log that keeps at most so many requests, and runs.
    fn new(most: usize) -> Self {
        let (requests, ends, runs) = (Vec::new(), Vec::new(), Vec::new());
        Self { requests, ends, runs, is_full: false, most: most.min(u32::MAX as usize) }
    }

    fn add(&mut self, share: &RequestRuns) {
        self.push(share.request, share.runs.iter().copied());
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let most = parts.clone().map(|part| part.most).max()?;
        if parts.clone().any(|part| part.is_full) {
            return Some(Self { is_full: true, ..Self::new(most) });
        }
        let mut all: Vec<_> = parts.flat_map(Self::iter).collect();
        all.sort_by_key(|(request, _)| request.number);
        let mut log = Self::new(usize::MAX);
        all.into_iter().for_each(|(request, runs)| log.push(request, runs.iter().copied()));
        Some(Self { most, ..log })
    }

    fn is_sound(&self, _most: usize) -> bool {
        let ends =
            |ends: &[u32]| ends.is_sorted() && ends.last().copied().unwrap_or(0) as usize == self.runs.len();
        self.ends.len() == self.requests.len()
            && ends(&self.ends)
            && self.requests.iter().all(NumberedRequest::is_sound)
            && self.runs.iter().all(LoggedRun::is_sound)
    }
}
