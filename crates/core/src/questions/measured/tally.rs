//! The measured requests of a trace or window, counted.

use super::consensus::Consensus;
use super::counts::Counts;
use super::intervals::Intervals;
use super::latest::{Latest, hits_at};
use super::ledger::Ledger;
use super::share::MeasuredShare;
use crate::questions::counters::Counter;
use crate::request::outcome::Need;
use crate::sizing::exact_curve::{FoundPages, FoundRun};
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Counts over the requests that say what they found. Pages are followed pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredTally {
    counts: Counts,
    /// Of the requests that can tell: those with something to reuse, or with hits. This and the runs leave the
    /// latest requests out.
    consensus: Consensus,
    /// Runs of requests of which the log does not say what served them: one cache did.
    alone: FoundPages,
    /// Runs that one cache finds of the requests that replicas served, and those that the replicas do.
    shared: FoundPages,
    routed: FoundPages,
    latest: Latest,
}

heap_bytes!(MeasuredTally { consensus, alone, shared, routed, latest; counts });

impl MeasuredTally {
    /// Sorts the latest requests in.
    fn sort_latest(&mut self) {
        let Latest { readings, alone, shared, routed } = &self.latest;
        self.consensus.extend(readings);
        self.alone.extend(alone);
        self.shared.extend(shared);
        self.routed.extend(routed);
        self.latest.clear();
    }

    /// What the requests that say what they found add up to.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The intervals of the requests that can tell: those with something to reuse, or with hits.
    pub fn intervals(&self) -> Intervals {
        self.consensus.intervals(&self.latest.readings)
    }

    /// The ledger at `each` pages a replica and `all` pages together; nothing is reported beyond `bound` pages.
    pub fn ledger(&self, all: Need, each: Need, bound: Need) -> Ledger {
        let Latest { alone, shared, routed, .. } = &self.latest;
        let told = |sorted: &FoundPages, latest: &[FoundRun], pages: Need| {
            let hits = || hits_at(sorted, latest, pages) + hits_at(&self.alone, alone, pages);
            (pages <= bound).then(hits)
        };
        Ledger {
            page_accesses: self.counts.page_accesses,
            unlimited: self.counts.unlimited,
            shared: told(&self.shared, shared, all),
            routed: told(&self.routed, routed, each),
            measured: self.counts.hits,
        }
    }
}

impl Counter for MeasuredTally {
    type Share = MeasuredShare;

    fn new((): ()) -> Self {
        Self::default()
    }

    fn add(&mut self, request: &MeasuredShare) {
        self.counts.add(&request.counts);
        if self.latest.push(request) {
            self.sort_latest();
        }
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        parts.clone().next()?;
        let mut merged = Self {
            counts: Counts::default(),
            consensus: Consensus::merged(parts.clone().map(|part| &part.consensus)),
            alone: FoundPages::merged(parts.clone().map(|part| &part.alone)),
            shared: FoundPages::merged(parts.clone().map(|part| &part.shared)),
            routed: FoundPages::merged(parts.clone().map(|part| &part.routed)),
            latest: Latest::default(),
        };
        for part in parts {
            merged.counts.add(&part.counts);
            if merged.latest.append(&part.latest) {
                merged.sort_latest();
            }
        }
        Some(merged)
    }

    fn is_sound(&self, (): ()) -> bool {
        self.counts.are_sound()
            && self.consensus.is_sound()
            && self.latest.are_sound()
            && [&self.alone, &self.shared, &self.routed].into_iter().all(FoundPages::is_sound)
    }
}
