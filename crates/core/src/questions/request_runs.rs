//! The runs of a set of requests, kept for what can be told of them only once they are all there: what passes
//! between tiers, whose sizes a plan gives, and what perfect foresight would find.
//!
//! 16 bytes a run and 32 a request.

use crate::request::outcome::{BEYOND, Outcome, Run};
use crate::units::{EventTime, is_countable};
use serde::{Deserialize, Serialize};

/// How far back the last touch lies where that was forgotten.
const FORGOTTEN: u32 = u32::MAX;

/// Known pages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedRun {
    need: u32,
    pages: u32,
    /// How many requests ago they were touched last.
    back: u32,
    /// What each further page needs more.
    step: u8,
    /// Whether they can be hits.
    pub(crate) can_hit: bool,
}

impl PassedRun {
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
pub(crate) struct Passed {
    /// Its number in the pool.
    pub number: u64,
    /// The latest event time as it came.
    pub at: EventTime,
    /// Distinct pages before it.
    pub distinct: u64,
    /// Pages that were new with it.
    pub new_pages: u32,
}

impl Passed {
    fn is_sound(&self) -> bool {
        is_countable(self.number) && is_countable(self.distinct)
    }
}

/// One request with its runs, as windows keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedShare {
    request: Passed,
    runs: Vec<PassedRun>,
}

impl PassedShare {
    /// The pool's request of this number, which came at `at` and found `distinct` pages in all.
    pub fn of(outcome: &Outcome, number: u64, at: EventTime, distinct: u64) -> Self {
        // A request's pages are counted in 32 bits everywhere.
        let request = Passed { number, at, distinct, new_pages: outcome.new_pages as u32 };
        Self { request, runs: runs(outcome, number).collect() }
    }

    /// Whether this, read back from a snapshot, can be counted.
    pub fn is_sound(&self) -> bool {
        self.request.is_sound() && self.runs.iter().all(PassedRun::is_sound)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.runs.len() * size_of::<PassedRun>()
    }
}

fn runs(outcome: &Outcome, number: u64) -> impl Iterator<Item = PassedRun> + '_ {
    let known = outcome.runs.iter().map(move |run| PassedRun::of(run, number, true));
    known.chain(outcome.unlooked.iter().map(move |run| PassedRun::of(run, number, false)))
}

/// Requests with their runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedLog {
    requests: Vec<Passed>,
    /// Where each request's runs end.
    ends: Vec<u32>,
    runs: Vec<PassedRun>,
    /// There were more than are kept: nothing can be told.
    is_full: bool,
}

impl PassedLog {
    /// Adds a request unless that would make more than `most` of requests or runs.
    pub fn add(&mut self, share: &PassedShare, most: usize) {
        self.push(share.request, share.runs.iter().copied(), most);
    }

    /// Adds the pool's request of this number.
    pub(crate) fn observe(&mut self, request: Passed, outcome: &Outcome, most: usize) {
        self.push(request, runs(outcome, request.number), most);
    }

    fn push(&mut self, request: Passed, runs: impl Iterator<Item = PassedRun>, most: usize) {
        if self.is_full {
            return;
        }
        self.runs.extend(runs);
        self.requests.push(request);
        if self.runs.len().max(self.requests.len()) > most.min(u32::MAX as usize) {
            *self = Self { is_full: true, ..Self::default() };
            return;
        }
        self.ends.push(self.runs.len() as u32);
    }

    /// The union of several, in the order in which the pool saw the requests.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        if parts.clone().any(|part| part.is_full) {
            return Self { is_full: true, ..Self::default() };
        }
        let mut all: Vec<_> = parts.flat_map(Self::iter).collect();
        all.sort_by_key(|(request, _)| request.number);
        let mut log = Self::default();
        all.into_iter().for_each(|(request, runs)| log.push(request, runs.iter().copied(), usize::MAX));
        log
    }

    /// The requests with their runs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Passed, &[PassedRun])> {
        let mut begin = 0;
        self.requests.iter().zip(&self.ends).map(move |(request, end)| {
            let runs = &self.runs[begin..*end as usize];
            begin = *end as usize;
            (*request, runs)
        })
    }

    /// Whether all requests could be kept; else nothing can be told.
    pub fn is_complete(&self) -> bool {
        !self.is_full
    }

    /// Whether this, read back from a snapshot, can be added to.
    pub fn is_sound(&self) -> bool {
        let ends =
            |ends: &[u32]| ends.is_sorted() && ends.last().copied().unwrap_or(0) as usize == self.runs.len();
        self.ends.len() == self.requests.len()
            && ends(&self.ends)
            && self.requests.iter().all(Passed::is_sound)
            && self.runs.iter().all(PassedRun::is_sound)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        self.requests.capacity() * (size_of::<Passed>() + size_of::<u32>())
            + self.runs.capacity() * size_of::<PassedRun>()
    }
}
