//! What perfect foresight keeps in one capacity.

use super::Future;
use super::bits::Bits;

/// The pages kept, by the run that uses them next. Runs are numbered by (request, depth), so the largest number is
/// the one to drop from, at its deep end.
#[derive(Debug)]
pub(super) struct NextUses<'a> {
    future: &'a Future<'a>,
    capacity: u64,
    /// Number of the range's first run.
    first: u32,
    /// Leading pages kept of each run of the range.
    pages: Vec<u32>,
    /// Runs of which pages are kept.
    runs: Bits,
    total: u64,
}

impl<'a> NextUses<'a> {
    pub(super) fn new(future: &'a Future<'a>, capacity: u64) -> Self {
        let runs = future.runs();
        Self {
            future,
            capacity,
            first: runs.start,
            pages: vec![0; runs.len()],
            runs: Bits::below(runs.len()),
            total: 0,
        }
    }

    /// Serves a request; returns its hits.
    pub(super) fn access(&mut self, request: u32) -> u64 {
        let mut hits = 0;
        for run in self.future.log.runs_of(request) {
            let at = (run - self.first) as usize;
            if self.pages[at] > 0 {
                hits += u64::from(std::mem::take(&mut self.pages[at]));
                self.runs.remove(at);
            }
        }
        self.total -= hits;
        for run in self.future.uses_after(request) {
            let at = (*run - self.first) as usize;
            self.pages[at] = self.future.log.runs[*run as usize].0;
            self.total += u64::from(self.pages[at]);
            self.runs.insert(at);
        }
        self.drop_what_does_not_fit();
        hits
    }

    fn drop_what_does_not_fit(&mut self) {
        while self.total > self.capacity
            && let Some(last) = self.runs.largest()
        {
            let dropped = (self.total - self.capacity).min(u64::from(self.pages[last]));
            self.pages[last] -= dropped as u32;
            self.total -= dropped;
            if self.pages[last] == 0 {
                self.runs.remove(last);
            }
        }
    }
}
