//! What one request found in the stack: a short list of runs and a cold tail (docs/design.md, section 2, point 6).

use crate::units::PageCount;
use crate::units::heap::{flat, heap_bytes};

/// The capacity, in pages, that a page needs to be a hit: its stack distance plus one.
pub type Need = u64;

/// The need of a page that lies beyond the tracked bound: larger than any number reported.
pub const BEYOND: Need = u64::MAX;

/// Consecutive pages of a request's reusable prefix that were last touched by one earlier request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Pages in the run; never zero.
    pub pages: u32,
    /// Need of the run's first page; [`BEYOND`] where the whole run lies beyond the bound.
    pub need: Need,
    /// What each further page of the run needs more: 0 root-first, 1 leaf-first.
    pub step: u32,
    /// Number (counted from 0 in its pool) of the request that touched these pages last.
    pub last_touched_by: u64,
}

flat!(Run);

impl Run {
    /// Need of the run's page at `index` (0-based).
    pub fn need_at(&self, index: u32) -> Need {
        self.need.saturating_add(u64::from(index) * u64::from(self.step))
    }

    /// How many of the run's pages are hits at `capacity` pages: always its leading ones.
    pub fn hits_at(&self, capacity: u64) -> u32 {
        match (capacity.checked_sub(self.need), self.step) {
            (None, _) => 0,
            (Some(_), 0) => self.pages,
            (Some(slack), step) => {
                self.pages.min(u32::try_from(slack / u64::from(step)).unwrap_or(u32::MAX).saturating_add(1))
            }
        }
    }
}

impl Run {
    /// Adds the run to `runs`, cut where it passes the tracked bound; nothing where it has no pages.
    pub fn push_upto(self, bound: PageCount, runs: &mut Vec<Self>) {
        let within = self.hits_at(bound.0);
        if within > 0 {
            runs.push(Self { pages: within, ..self });
        }
        if within < self.pages {
            runs.push(Self { pages: self.pages - within, need: BEYOND, step: 0, ..self });
        }
    }
}

/// One request's result. Needs never decrease along the prefix, so page hits equal prefix hits and
/// the maximum need of the first `n` pages is the need of page `n`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Prompt pages the request accessed.
    pub page_accesses: u64,
    /// Tokens of the prompt behind its full pages, where a page that is not full does not count.
    pub rest_tokens: u32,
    /// Pages that entered the pool with this request (prompt and output); those the bound forgot and
    /// that came back are a run beyond it instead.
    pub new_pages: u64,
    /// Sampled ids of new pages that were already known under another prefix.
    pub chain_violations: u64,
    /// The reusable prefix, in prefix order.
    pub runs: Vec<Run>,
    /// Known pages after the reusable prefix that are computed anew all the same: they move, but cannot be hits.
    pub unlooked: Vec<Run>,
}

heap_bytes!(Outcome { runs, unlooked; page_accesses, rest_tokens, new_pages, chain_violations });

impl Outcome {
    /// Empties the result for the next request, keeping its memory.
    pub fn clear(&mut self) {
        (self.page_accesses, self.rest_tokens) = (0, 0);
        self.new_pages = 0;
        self.chain_violations = 0;
        self.runs.clear();
        self.unlooked.clear();
    }

    /// Takes over another request's result, in the memory of this one.
    pub fn copy(&mut self, other: &Self) {
        let Self { page_accesses, rest_tokens, new_pages, chain_violations, runs, unlooked } = self;
        (*page_accesses, *rest_tokens) = (other.page_accesses, other.rest_tokens);
        *new_pages = other.new_pages;
        *chain_violations = other.chain_violations;
        runs.clone_from(&other.runs);
        unlooked.clone_from(&other.unlooked);
    }

    /// Pages that the request left in the stack, output pages among them.
    pub fn touched_pages(&self) -> u64 {
        self.new_pages + self.known_pages()
    }

    /// Leading pages that were seen before in the pool, those among them that are computed anew.
    pub fn known_pages(&self) -> u64 {
        self.runs.iter().chain(&self.unlooked).map(|run| u64::from(run.pages)).sum()
    }

    /// Known pages that are computed anew all the same, up to the tracked bound.
    pub fn recomputed_pages(&self) -> u64 {
        let known = self.unlooked.iter().filter(|run| run.need != BEYOND);
        known.map(|run| u64::from(run.pages)).sum()
    }

    /// `H`: leading pages that were seen before in the pool.
    pub fn reusable_prefix(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.pages)).sum()
    }

    /// Capacity needed to hit the first `count` pages: 0 for none, [`BEYOND`] for more than `H`.
    pub fn need_of_prefix(&self, count: u64) -> Need {
        if count == 0 {
            return 0;
        }
        let mut left = count;
        for run in &self.runs {
            if left <= u64::from(run.pages) {
                return run.need_at(left as u32 - 1);
            }
            left -= u64::from(run.pages);
        }
        BEYOND
    }

    /// Leading hits at `capacity` pages.
    pub fn hits_at(&self, capacity: u64) -> u64 {
        self.runs.iter().map(|run| u64::from(run.hits_at(capacity))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_hits_page_by_page() {
        let run = Run { pages: 4, need: 10, step: 1, last_touched_by: 0 };
        assert_eq!([9, 10, 12, 13, 99].map(|c| run.hits_at(c)), [0, 1, 3, 4, 4]);
        assert_eq!(run.need_at(3), 13);
    }

    #[test]
    fn needs_of_prefixes_follow_the_runs() {
        let runs = vec![
            Run { pages: 2, need: 5, step: 0, last_touched_by: 1 },
            Run { pages: 3, need: BEYOND, step: 0, last_touched_by: 0 },
        ];
        let outcome = Outcome { runs, page_accesses: 9, ..Outcome::default() };
        assert_eq!(outcome.reusable_prefix(), 5);
        assert_eq!([0, 1, 2, 3, 5].map(|n| outcome.need_of_prefix(n)), [0, 5, 5, BEYOND, BEYOND]);
        assert_eq!(Outcome::default().need_of_prefix(0), 0, "a cold request needs nothing");
        assert_eq!([4, 5, 1 << 40].map(|c| outcome.hits_at(c)), [0, 2, 2]);
    }
}
