//! The measured requests of a trace or window, counted.

use super::consensus::Consensus;
use super::ledger::Ledger;
use super::reading::{CachedPages, Reading};
use super::restarts::{Restart, Restarts, Seen};
use crate::found::{FoundPages, FoundRun};
use crate::outcome::{Need, Outcome};

/// One measured request: what it found where.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredOutcome<'a> {
    /// What the engine says it found.
    pub cached: CachedPages,
    /// What one cache shared by all replicas says.
    pub shared: &'a Outcome,
    /// What the cache that served it says, where the log names that.
    pub routed: Option<&'a Outcome>,
    /// The replica that served it; 0 where there is one.
    pub replica: usize,
    /// Where it stands, numbered as the cache that served it numbers requests.
    pub seen: Seen,
}

/// A restart of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaRestart {
    /// Index of the replica.
    pub replica: usize,
    /// When, and how it shows.
    pub restart: Restart,
}

/// Counts over the requests that say what they found. Pages are followed pages, but for
/// [`MeasuredTally::cached_pages`].
#[derive(Debug, Clone, Default)]
pub struct MeasuredTally {
    requests: u64,
    /// Of the requests that can tell: those with something to reuse, or with hits.
    consensus: Consensus,
    cached_pages: u64,
    followed_hits: u64,
    page_accesses: u64,
    unlimited: u64,
    shared: FoundPages,
    /// The runs that replicas found; `None` as long as the log names none.
    routed: Option<FoundPages>,
    requests_beyond_log: u64,
    pages_beyond_log: u64,
    restarts: Vec<Restarts>,
}

impl MeasuredTally {
    /// Takes a request in.
    pub fn observe(&mut self, request: &MeasuredOutcome<'_>) {
        let served_by = request.routed.unwrap_or(request.shared);
        let hits = request.cached.followed;
        let reading = Reading::of(hits, served_by);
        self.requests += 1;
        let pages = hits.max(served_by.reusable_prefix());
        if pages > 0 {
            self.consensus.add(reading, pages);
        }
        if let Reading::BeyondLog { pages } = reading {
            self.requests_beyond_log += 1;
            self.pages_beyond_log += pages;
        }
        self.cached_pages += request.cached.all;
        self.followed_hits += hits;
        self.page_accesses += request.shared.page_accesses;
        self.unlimited += request.shared.reusable_prefix();
        if request.routed.is_some() && self.routed.is_none() {
            // Until now there was one cache only, as far as the log says.
            self.routed = Some(self.shared.clone());
        }
        add_runs(&mut self.shared, request.shared);
        if let Some(routed) = &mut self.routed {
            add_runs(routed, served_by);
        }
        if self.restarts.len() <= request.replica {
            self.restarts.resize_with(request.replica + 1, Restarts::default);
        }
        self.restarts[request.replica].observe(hits, served_by, request.seen);
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
        let told = |found: &FoundPages, pages: Need| (pages <= bound).then(|| found.hits_at(pages));
        let shared = told(&self.shared, all);
        let routed = self.routed.as_ref().map_or(shared, |routed| told(routed, each));
        Ledger {
            page_accesses: self.page_accesses,
            unlimited: self.unlimited,
            shared,
            routed,
            measured: self.followed_hits,
        }
    }

    /// The restarts of replicas that hold at least `each` pages, by replica and time.
    pub fn restarts(&self, each: Need) -> Vec<ReplicaRestart> {
        let of = |(replica, restarts): (usize, &Restarts)| {
            restarts.found(each).into_iter().map(move |restart| ReplicaRestart { replica, restart })
        };
        self.restarts.iter().enumerate().flat_map(of).collect()
    }
}

fn add_runs(found: &mut FoundPages, outcome: &Outcome) {
    outcome.runs.iter().filter_map(FoundRun::of).for_each(|run| found.add(&run));
}
