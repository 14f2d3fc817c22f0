//! The measured requests of a trace or window, counted.

use super::consensus::Consensus;
use super::intervals::Intervals;
use super::latest::{Latest, hits_at};
use super::ledger::Ledger;
use super::reading::{CachedPages, Reading};
use crate::found::{FoundPages, FoundRun};
use crate::outcome::{Need, Outcome};
use crate::units::is_countable;
use serde::{Deserialize, Serialize, Serializer};

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

    /// What it tells of the cache that served it, with its weight in pages; nothing where it can tell nothing.
    pub(super) fn reading(&self) -> Option<(Reading, u64)> {
        (self.weight > 0).then_some((self.reading, self.weight))
    }

    /// What one shared cache finds.
    pub(super) fn shared(&self) -> &[FoundRun] {
        &self.shared
    }

    /// What the cache that served it finds, where the log names that.
    pub(super) fn routed(&self) -> Option<&[FoundRun]> {
        self.routed.as_deref()
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct MeasuredTally {
    requests: u64,
    /// Of the requests that can tell: those with something to reuse, or with hits. This and the runs leave
    /// the latest requests out.
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
    /// A snapshot keeps them sorted in.
    #[serde(skip)]
    latest: Latest,
}

/// The same with nothing left to sort in, as a snapshot keeps it.
#[derive(Serialize)]
struct Sorted<'a> {
    requests: u64,
    consensus: &'a Consensus,
    cached_pages: u64,
    followed_hits: u64,
    page_accesses: u64,
    unlimited: u64,
    alone: &'a FoundPages,
    shared: &'a FoundPages,
    routed: &'a FoundPages,
    requests_beyond_log: u64,
    pages_beyond_log: u64,
}

impl Serialize for MeasuredTally {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut sorted = self.clone();
        sorted.consolidate();
        Sorted {
            requests: sorted.requests,
            consensus: &sorted.consensus,
            cached_pages: sorted.cached_pages,
            followed_hits: sorted.followed_hits,
            page_accesses: sorted.page_accesses,
            unlimited: sorted.unlimited,
            alone: &sorted.alone,
            shared: &sorted.shared,
            routed: &sorted.routed,
            requests_beyond_log: sorted.requests_beyond_log,
            pages_beyond_log: sorted.pages_beyond_log,
        }
        .serialize(to)
    }
}

impl MeasuredTally {
    /// Takes a request in.
    pub fn add(&mut self, request: &MeasuredShare) {
        self.requests += 1;
        if let Reading::BeyondLog { pages } = request.reading {
            self.requests_beyond_log += 1;
            self.pages_beyond_log += pages;
        }
        self.cached_pages += request.cached;
        self.followed_hits += request.hits;
        self.page_accesses += request.page_accesses;
        self.unlimited += request.unlimited;
        if self.latest.push(request) {
            self.consolidate();
        }
    }

    /// The union of several.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let sum = |count: fn(&Self) -> u64| parts.clone().map(count).sum();
        let mut merged = Self {
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
            latest: Latest::default(),
        };
        for part in parts {
            if merged.latest.append(&part.latest) {
                merged.consolidate();
            }
        }
        merged
    }

    /// Sorts the latest requests in, for a window that will be read again.
    pub fn consolidate(&mut self) {
        let Latest { readings, alone, shared, routed } = std::mem::take(&mut self.latest);
        readings.iter().for_each(|(reading, pages)| self.consensus.add(*reading, *pages));
        self.consensus.consolidate();
        for (sorted, latest) in
            [(&mut self.alone, alone), (&mut self.shared, shared), (&mut self.routed, routed)]
        {
            latest.iter().for_each(|run| sorted.add(run));
            sorted.consolidate();
        }
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
        self.consensus.memory_bytes() + found.iter().sum::<usize>() + self.latest.memory_bytes()
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
    pub fn intervals(&self) -> Intervals {
        self.consensus.intervals(&self.latest.readings)
    }

    /// Requests, and pages, that hit though the log never shows them touched before.
    pub fn beyond_log(&self) -> (u64, u64) {
        (self.requests_beyond_log, self.pages_beyond_log)
    }

    /// The ledger at `each` pages a replica and `all` pages together; nothing is told beyond `bound` pages.
    pub fn ledger(&self, all: Need, each: Need, bound: Need) -> Ledger {
        let Latest { alone, shared, routed, .. } = &self.latest;
        let told = |sorted: &FoundPages, latest: &[FoundRun], pages: Need| {
            let hits = || hits_at(sorted, latest, pages) + hits_at(&self.alone, alone, pages);
            (pages <= bound).then(hits)
        };
        Ledger {
            page_accesses: self.page_accesses,
            unlimited: self.unlimited,
            shared: told(&self.shared, shared, all),
            routed: told(&self.routed, routed, each),
            measured: self.followed_hits,
        }
    }
}
