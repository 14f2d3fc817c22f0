//! The measured requests of a trace or window, counted.

use super::consensus::Consensus;
use super::ledger::Ledger;
use super::reading::{CachedPages, Reading};
use crate::found::{FoundPages, FoundRun};
use crate::outcome::{Need, Outcome};
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// One measured request as every window counts it. Pages are followed pages, but for those of
/// [`MeasuredTally::cached_pages`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredShare {
    cached: u64,
    hits: u64,
    page_accesses: u64,
    unlimited: u64,
    reading: Reading,
    /// The larger of what could be reused and of what hit.
    weight: u64,
    /// What one cache shared by all replicas says.
    shared: Vec<FoundRun>,
    /// What the cache that served it says, where the log names that.
    routed: Option<Vec<FoundRun>>,
}

impl MeasuredShare {
    /// What the engine says of a request, what one shared cache does, and what the cache that served it does
    /// where the log names that.
    pub fn of(cached: CachedPages, shared: &Outcome, routed: Option<&Outcome>) -> Self {
        let served_by = routed.unwrap_or(shared);
        let hits = cached.followed;
        Self {
            cached: cached.all,
            hits,
            page_accesses: shared.page_accesses,
            unlimited: shared.reusable_prefix(),
            reading: Reading::of(hits, served_by),
            weight: hits.max(served_by.reusable_prefix()),
            shared: runs(shared),
            routed: routed.map(runs),
        }
    }

    /// Whether this, read back from a snapshot, can be counted.
    pub fn is_sound(&self) -> bool {
        let mut found = self.shared.iter().chain(self.routed.iter().flatten());
        let beyond = match self.reading {
            Reading::BeyondLog { pages } => pages,
            Reading::Between { .. } => 0,
        };
        let pages = [self.cached, self.hits, self.page_accesses, self.unlimited, self.weight, beyond];
        pages.into_iter().all(is_countable) && found.all(FoundRun::is_of_an_engine)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        let runs = self.shared.capacity() + self.routed.as_ref().map_or(0, Vec::capacity);
        size_of::<Self>() + runs * size_of::<FoundRun>()
    }
}

fn runs(outcome: &Outcome) -> Vec<FoundRun> {
    let mut runs = Vec::with_capacity(outcome.runs.len());
    runs.extend(outcome.runs.iter().filter_map(FoundRun::of));
    runs
}

/// Counts over the requests that say what they found. Pages are followed pages, but for
/// [`MeasuredTally::cached_pages`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredTally {
    requests: u64,
    /// Of the requests that can tell: those with something to reuse, or with hits.
    consensus: Consensus,
    cached_pages: u64,
    followed_hits: u64,
    page_accesses: u64,
    unlimited: u64,
    /// Runs of requests of which the log does not say what served them: one cache did.
    alone: FoundPages,
    /// Runs that one cache finds of the requests that replicas served, and those that the replicas do.
    shared: FoundPages,
    routed: FoundPages,
    requests_beyond_log: u64,
    pages_beyond_log: u64,
}

impl MeasuredTally {
    /// Takes a request in.
    pub fn add(&mut self, request: &MeasuredShare) {
        self.requests += 1;
        if request.weight > 0 {
            self.consensus.add(request.reading, request.weight);
        }
        if let Reading::BeyondLog { pages } = request.reading {
            self.requests_beyond_log += 1;
            self.pages_beyond_log += pages;
        }
        self.cached_pages += request.cached;
        self.followed_hits += request.hits;
        self.page_accesses += request.page_accesses;
        self.unlimited += request.unlimited;
        self.each_run(request, FoundPages::add);
    }

    /// Takes a request out that was taken in before.
    pub fn remove(&mut self, request: &MeasuredShare) {
        self.requests -= 1;
        if request.weight > 0 {
            self.consensus.remove(request.reading, request.weight);
        }
        if let Reading::BeyondLog { pages } = request.reading {
            self.requests_beyond_log -= 1;
            self.pages_beyond_log -= pages;
        }
        self.cached_pages -= request.cached;
        self.followed_hits -= request.hits;
        self.page_accesses -= request.page_accesses;
        self.unlimited -= request.unlimited;
        self.each_run(request, FoundPages::remove);
    }

    fn each_run(&mut self, request: &MeasuredShare, change: impl Fn(&mut FoundPages, &FoundRun)) {
        let one = if request.routed.is_some() { &mut self.shared } else { &mut self.alone };
        request.shared.iter().for_each(|run| change(one, run));
        request.routed.iter().flatten().for_each(|run| change(&mut self.routed, run));
    }

    /// The union of several.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let sum = |count: fn(&Self) -> u64| parts.clone().map(count).sum();
        Self {
            requests: sum(|part| part.requests),
            consensus: Consensus::merged(parts.clone().map(|part| &part.consensus)),
            cached_pages: sum(|part| part.cached_pages),
            followed_hits: sum(|part| part.followed_hits),
            page_accesses: sum(|part| part.page_accesses),
            unlimited: sum(|part| part.unlimited),
            alone: FoundPages::merged(parts.clone().map(|part| &part.alone)),
            shared: FoundPages::merged(parts.clone().map(|part| &part.shared)),
            routed: FoundPages::merged(parts.clone().map(|part| &part.routed)),
            requests_beyond_log: sum(|part| part.requests_beyond_log),
            pages_beyond_log: sum(|part| part.pages_beyond_log),
        }
    }

    /// Merges what is pending, so that reading copies nothing.
    pub fn consolidate(&mut self) {
        self.consensus.consolidate();
        [&mut self.alone, &mut self.shared, &mut self.routed].into_iter().for_each(FoundPages::consolidate);
    }

    /// Whether nothing is pending.
    pub fn is_consolidated(&self) -> bool {
        self.consensus.is_consolidated()
            && [&self.alone, &self.shared, &self.routed].into_iter().all(FoundPages::is_consolidated)
    }

    /// Whether this, read back from a snapshot, can be counted on.
    pub fn is_sound(&self) -> bool {
        let counts =
            [self.requests, self.cached_pages, self.followed_hits, self.page_accesses, self.unlimited];
        let beyond = [self.requests_beyond_log, self.pages_beyond_log];
        counts.into_iter().chain(beyond).all(is_countable)
            && self.consensus.is_sound()
            && [&self.alone, &self.shared, &self.routed].into_iter().all(FoundPages::is_sound)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        let found = [&self.alone, &self.shared, &self.routed].map(FoundPages::memory_bytes);
        self.consensus.memory_bytes() + found.iter().sum::<usize>()
    }

    /// Requests that say what they found.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Full pages in their cached tokens.
    pub fn cached_pages(&self) -> u64 {
        self.cached_pages
    }

    /// The intervals of the requests that can tell: those with something to reuse, or with hits.
    pub fn consensus(&self) -> &Consensus {
        &self.consensus
    }

    /// Requests, and pages, that hit though the log never shows them touched before.
    pub fn beyond_log(&self) -> (u64, u64) {
        (self.requests_beyond_log, self.pages_beyond_log)
    }

    /// The ledger at `each` pages a replica and `all` pages together; nothing is told beyond `bound` pages.
    pub fn ledger(&self, all: Need, each: Need, bound: Need) -> Ledger {
        let hits = |found: &FoundPages, pages: Need| found.hits_at(pages) + self.alone.hits_at(pages);
        let told = |found: &FoundPages, pages: Need| (pages <= bound).then(|| hits(found, pages));
        Ledger {
            page_accesses: self.page_accesses,
            unlimited: self.unlimited,
            shared: told(&self.shared, all),
            routed: told(&self.routed, each),
            measured: self.followed_hits,
        }
    }
}
