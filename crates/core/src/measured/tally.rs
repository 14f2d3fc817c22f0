//! The measured requests of a trace or window, counted.

use super::consensus::Consensus;
use super::intervals::Intervals;
use super::latest::{Latest, hits_at};
use super::ledger::Ledger;
use super::reading::Reading;
use super::share::MeasuredShare;
use crate::found::{FoundPages, FoundRun};
use crate::outcome::Need;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// Counts over the requests that say what they found. Pages are followed pages, but for
/// [`MeasuredTally::cached_pages`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredTally {
    requests: u64,
    /// Of the requests that can tell: those with something to reuse, or with hits. This and the runs leave the
    /// latest requests out.
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
    latest: Latest,
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
            self.sort_latest();
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
                merged.sort_latest();
            }
        }
        merged
    }

    /// Sorts the latest requests in.
    fn sort_latest(&mut self) {
        let Latest { readings, alone, shared, routed } = &self.latest;
        self.consensus.extend(readings);
        self.alone.extend(alone);
        self.shared.extend(shared);
        self.routed.extend(routed);
        self.latest.clear();
    }

    /// Whether this, read back from a snapshot, can be counted on.
    pub fn is_sound(&self) -> bool {
        let counts =
            [self.requests, self.cached_pages, self.followed_hits, self.page_accesses, self.unlimited];
        let beyond = [self.requests_beyond_log, self.pages_beyond_log];
        counts.into_iter().chain(beyond).all(is_countable)
            && self.consensus.is_sound()
            && self.latest.are_sound()
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
