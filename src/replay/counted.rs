//! The hit-rate curve at the recommended capacities, which are known only at the end of the trace.

use kvset_core::capacity::CapacitySpec;
use kvset_core::curve::{Accesses, Curve};
use kvset_core::estimate::{CapacityPoint, Estimate};
use kvset_core::found::{FoundPages, FoundRun};
use kvset_core::outcome::Outcome;
use kvset_core::pool_config::PoolConfig;
use kvset_core::units::PageBytes;
use std::collections::BTreeSet;

/// Every found page by the capacity it needs, of the requests that count. Its memory is that of two
/// numbers a distinct need, which the tracked bound bounds.
#[derive(Debug, Default)]
pub(super) struct CountedCurve {
    found: FoundPages,
    /// In followed pages.
    accesses: u64,
    reusable: u64,
}

impl CountedCurve {
    /// Takes a request in.
    pub(super) fn count(&mut self, outcome: &Outcome) {
        self.accesses += outcome.page_accesses;
        self.reusable += outcome.reusable_prefix();
        outcome.runs.iter().filter_map(FoundRun::of).for_each(|run| self.found.add(&run));
    }

    /// Followed pages that so many of them find.
    pub(super) fn hits_at(&self, followed: u64) -> u64 {
        self.found.hits_at(followed)
    }

    /// The points at every capacity recommended, and at the one provisioned.
    pub(super) fn at_recommended(
        &self,
        whole: &Estimate,
        provisioned: Option<&CapacitySpec>,
        config: &PoolConfig,
        page_bytes: Option<PageBytes>,
    ) -> Vec<CapacityPoint> {
        let targets = 0..whole.required.len();
        let needed =
            targets.flat_map(|target| whole.basis().recommended(target)).filter_map(|entry| entry.pages);
        let held = provisioned.and_then(|held| held.pages(page_bytes)).map(|pages| pages.0);
        let pages: BTreeSet<u64> = needed.chain(held).filter(|pages| *pages > 0).collect();
        let specs: Vec<_> = pages.into_iter().map(CapacitySpec::of_pages).collect();
        let curve = Curve::new(&specs, page_bytes, config.max_tracked_pages, config.held_shares());
        let found = self.found.consolidated();
        // A curve is made of the hits that each threshold adds to those of the one before it.
        let mut below = 0;
        let added = curve.thresholds().iter().map(|threshold| {
            let hits = found.hits_at(*threshold);
            let added = hits.saturating_sub(below);
            below = hits;
            added
        });
        let added: Vec<u64> = added.collect();
        curve.points(&added, Accesses { all: self.accesses, reusable: self.reusable }, curve.len())
    }
}
