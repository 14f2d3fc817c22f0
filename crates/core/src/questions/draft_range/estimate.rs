//! What SGLang with a draft head finds at most, as it is published.

use serde::{Deserialize, Serialize};

/// The upper end of what is found; the lower one is what the estimate says elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftRangeEstimate {
    /// Requests of which the log does not say which tokens follow their pages.
    pub requests: u64,
    /// Page hits with unlimited capacity, at most.
    pub page_hits: u64,
    /// The same if no head drafted.
    pub page_hits_without_head: u64,
    /// Page hits at the capacities of the curve, at most, ascending; without those beyond the tracked bound.
    pub capacities: Vec<DraftRangePoint>,
}

/// What a capacity finds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftRangePoint {
    /// The capacity.
    pub pages: u64,
    /// Page hits, at most.
    pub page_hits: u64,
}

impl DraftRangeEstimate {
    /// What a capacity of the curve finds at most, where that is known.
    pub fn at_most(&self, pages: u64) -> Option<u64> {
        let at = self.capacities.iter().find(|at| at.pages == pages);
        at.map(|at| at.page_hits)
    }
}
