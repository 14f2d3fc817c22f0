//! What SGLang with a draft head finds at most, where a log has page ids.
//!
//! Its tree is then one of pairs of tokens: a page that is found loses nothing where the token behind it is the same,
//! too. Page ids do not say that token. The engine's own model takes two different pages to begin with different
//! tokens, which is the lower end; here they always begin alike. Without limit SGLang lies between the two. At a
//! capacity they are two models: leaves are evicted whole, and a tree that shares more has others. At pages of one
//! token a page and the one behind it are the pair, so the engine's own model is exact, and so it is where the log
//! has tokens. A page of pairs has one token more than a page, so a sequence has as many pages as a plain one that is
//! a token shorter.

mod observer;
mod tally;

pub use observer::DraftRangeObserver;
pub use tally::{DraftRangeShare, DraftRangeTally};

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
