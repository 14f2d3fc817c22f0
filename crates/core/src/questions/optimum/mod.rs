//! The offline optimum: what a cache would find that knew every request to come.
//!
//! Of pages that do not all fit it drops the one whose next use is furthest, which may be one that just came (MIN
//! with bypass). Whoever touches a page touches its ancestors, so next uses never decrease along a path; of those
//! that are equal the deeper one goes first. So what it holds is closed under prefixes, and the optimum over pages
//! is that over prefixes.
//!
//! It needs the future, so it is reported of a log or a window that has ended, in two passes: the runs of the engine
//! tell who uses which pages next ([`ReuseLog`]); then each capacity is followed on its own ([`NextUses`]), a few
//! steps a run. Room for what is being computed is not requested, so nobody reaches it.

mod bits;
mod kept;
#[cfg(test)]
mod tests;

use crate::questions::request_runs::RunLog;
use kept::NextUses;
use serde::Serialize;
use std::ops::Range;

/// Two capacities with the same hits: nobody reaches the smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OptimalCapacity {
    /// What the engine needs.
    pub pages: u64,
    /// What perfect foresight would need.
    pub optimal_pages: u64,
    /// The one over the other.
    pub times: f64,
}

/// The runs of a log: who touched which pages, and who had touched them before. 8 bytes a run and 4 a request.
#[derive(Debug, Clone)]
pub struct ReuseLog {
    /// Where each request's runs begin, and where the last one's end.
    starts: Vec<u32>,
    /// In order of requests and, within one, of prefix.
    runs: Vec<(u32, u32)>,
}

impl ReuseLog {
    /// The requests of a log or window, numbered from 1, with one before them that stands for all that lies before;
    /// none where requests of other windows came between, or the stack forgot pages.
    pub fn of(log: &RunLog) -> Option<Self> {
        let first = log.iter().next()?.0.number;
        let mut reuse = Self { starts: vec![0, 0], runs: Vec::new() };
        for ((request, runs), next) in log.iter().zip(first..) {
            let own = u32::try_from(reuse.starts.len() - 1).ok().filter(|_| request.number == next)?;
            for run in runs.iter().filter(|run| run.can_hit) {
                let owner = own.saturating_sub(run.back()?);
                reuse.runs.push((run.pages() as u32, owner));
            }
            reuse.starts.push(reuse.runs.len() as u32);
        }
        log.is_complete().then_some(reuse)
    }

    /// The future as all its requests know it.
    pub fn within_window(&self) -> Future<'_> {
        self.future(1..self.requests())
    }

    /// Requests in the log, the one before them too.
    pub fn requests(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// The future, as the requests of a range know it: nothing is there when they begin, and nothing counts after.
    pub fn future(&self, range: Range<u32>) -> Future<'_> {
        Future::of(self, range)
    }

    fn runs_of(&self, request: u32) -> Range<u32> {
        self.starts[request as usize]..self.starts[request as usize + 1]
    }
}

/// Who uses what next, within a range of requests.
#[derive(Debug)]
pub struct Future<'a> {
    log: &'a ReuseLog,
    range: Range<u32>,
    /// Where the next uses of each request's pages begin.
    starts: Vec<u32>,
    /// Runs that are next uses, by owner and from the first use, which is that of the shallowest pages, to the last.
    uses: Vec<u32>,
}

impl<'a> Future<'a> {
    fn of(log: &'a ReuseLog, range: Range<u32>) -> Self {
        let range = range.start.min(log.requests())..range.end.min(log.requests());
        let first = log.starts[range.start as usize];
        let runs = &log.runs[first as usize..log.starts[range.end.max(range.start) as usize] as usize];
        let within = |owner: u32| owner.checked_sub(range.start).map(|owner| owner as usize);
        let mut starts = vec![0; range.len() + 1];
        runs.iter().filter_map(|(_, owner)| within(*owner)).for_each(|owner| starts[owner + 1] += 1);
        for at in 0..range.len() {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut uses = vec![0; starts[range.len()] as usize];
        for (run, (_, owner)) in (first..).zip(runs) {
            if let Some(owner) = within(*owner) {
                uses[next[owner] as usize] = run;
                next[owner] += 1;
            }
        }
        Self { log, range, starts, uses }
    }

    /// Accesses that hit with so many pages (followed ones, as all here), from the request numbered `counted` on.
    pub fn hits_at(&self, capacity: u64, counted: u32) -> u64 {
        let mut kept = NextUses::new(self, capacity);
        let mut hits = 0;
        for request in self.range.clone() {
            let found = kept.access(request);
            hits += if request >= counted { found } else { 0 };
        }
        hits
    }

    /// The same at each capacity. One that never has to drop anything is not followed.
    pub fn curve(&self, capacities: &[u64], counted: u32) -> Vec<u64> {
        let enough = self.enough();
        let mut unlimited = None;
        let at = |capacity: &u64| match *capacity < enough {
            true => self.hits_at(*capacity, counted),
            false => *unlimited.get_or_insert_with(|| self.hits_at(enough, counted)),
        };
        capacities.iter().map(at).collect()
    }

    /// The fewest pages with so many hits; `None` where none has.
    pub fn least_capacity(&self, hits: u64, counted: u32) -> Option<u64> {
        let (mut too_few, mut enough) = (None, self.enough());
        if self.hits_at(enough, counted) < hits {
            return None;
        }
        // Hits never decrease with the capacity.
        while too_few.map_or(0, |few: u64| few + 1) < enough {
            let middle = too_few.map_or(enough / 2, |few: u64| few + (enough - few) / 2);
            match self.hits_at(middle, counted) >= hits {
                true => enough = middle,
                false => too_few = Some(middle),
            }
        }
        Some(enough)
    }

    /// Most pages that are used again at a time: with so many none has to go.
    fn enough(&self) -> u64 {
        let (mut pages, mut most) = (0_u64, 0);
        for request in self.range.clone() {
            let runs = &self.log.runs[range_of(self.log.runs_of(request))];
            let here = runs.iter().filter(|(_, owner)| *owner >= self.range.start);
            pages -= here.map(|(pages, _)| u64::from(*pages)).sum::<u64>();
            let next = self.uses_after(request).iter().map(|run| self.log.runs[*run as usize].0);
            pages += next.map(u64::from).sum::<u64>();
            most = most.max(pages);
        }
        most
    }

    /// The next uses of a request's pages, the shallowest first.
    fn uses_after(&self, request: u32) -> &[u32] {
        let at = (request - self.range.start) as usize;
        &self.uses[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// The runs of all its requests.
    fn runs(&self) -> Range<u32> {
        self.log.starts[self.range.start as usize]..self.log.starts[self.range.end as usize]
    }
}

fn range_of(range: Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
