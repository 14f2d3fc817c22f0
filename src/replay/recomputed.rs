//! What requests computed again although a cache had it, and what a replay knows of the second copies that vLLM keeps.

use crate::present::words;
use kvset_core::request::outcome::Outcome;
use serde::Serialize;

/// Pages that requests computed again although an earlier request had left them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RecomputedPages {
    /// The requests.
    pub requests: u64,
    /// Their pages: at most so many blocks hold second copies.
    pub pages: u64,
}

impl RecomputedPages {
    /// Takes a request in.
    pub(super) fn count(&mut self, outcome: &Outcome) {
        let pages = outcome.recomputed_pages();
        self.requests += u64::from(pages > 0);
        self.pages += pages;
    }
}

/// What second copies make of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecondCopies {
    /// What was computed again.
    #[serde(flatten)]
    pub recomputed: RecomputedPages,
    /// Capacities that were modelled by themselves: their hits are exact. Those of all others are a bound.
    pub exact_pages: Vec<u64>,
    /// By how many pages at most a recommended capacity was moved up that one pass had found enough.
    pub moved_up_pages: u64,
}

impl SecondCopies {
    /// Nothing modelled by itself yet.
    pub(super) fn of(recomputed: RecomputedPages) -> Option<Self> {
        let is_any = recomputed.pages > 0;
        is_any.then_some(Self { recomputed, exact_pages: Vec::new(), moved_up_pages: 0 })
    }
}

impl SecondCopies {
    /// What a reader of the figures should know.
    pub(super) fn note(&self) -> String {
        let [requests, pages] = [self.recomputed.requests, self.recomputed.pages].map(words::integer);
        let bound = format!(
            "the curve counts the room of both, but not which of them a prompt finds that goes on behind one: a pool with \
             room for what is in flight finds at least what the curve says of {pages} pages fewer, and at most what it \
             says of {pages} more"
        );
        let point_by_point = match self.exact_pages.is_empty() {
            true => "",
            false => "; the capacities named and recommended are modelled one by one",
        };
        format!(
            "{requests} requests computed {pages} pages again that earlier ones had left, and vLLM keeps both copies: \
             {bound}{point_by_point}"
        )
    }
}
