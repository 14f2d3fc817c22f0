//! The ledger of a window: what an unlimited cache would have found, and where the rest was lost.

/// Hits over the requests that were measured, in pages, from the best case to what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// Pages accessed.
    pub page_accesses: u64,
    /// Hits of one cache without limit.
    pub unlimited: u64,
    /// Hits of one cache as large as all replicas together; `None` beyond the tracked bound.
    pub shared: Option<u64>,
    /// Hits of the replicas, routed as the log says; `None` beyond the tracked bound.
    pub routed: Option<u64>,
    /// Hits as the engine counted them.
    pub measured: u64,
}

impl Ledger {
    /// Pages lost to capacity.
    pub fn lost_to_capacity(&self) -> Option<i64> {
        Some(difference(self.unlimited, self.shared?))
    }

    /// Pages lost to routing; negative where the replicas find more than one large cache would.
    pub fn lost_to_routing(&self) -> Option<i64> {
        Some(difference(self.shared?, self.routed?))
    }

    /// Pages lost in the engine; negative where it finds more than the log's ids can show.
    pub fn lost_in_engine(&self) -> Option<i64> {
        Some(difference(self.routed?, self.measured))
    }

    /// Whether half or more of all that is lost is lost to routing, and that is not little.
    pub fn is_lost_to_routing(&self) -> bool {
        /// A share of the accesses below which a loss does not matter here.
        const LITTLE: f64 = 0.05;
        let all = difference(self.unlimited, self.measured);
        self.lost_to_routing().is_some_and(|lost| lost * 2 >= all && self.share(lost) >= LITTLE)
    }

    /// So many pages as a share of those accessed.
    pub fn share(&self, pages: i64) -> f64 {
        if self.page_accesses == 0 { 0.0 } else { pages as f64 / self.page_accesses as f64 }
    }
}

fn difference(more: u64, less: u64) -> i64 {
    let count = |pages: u64| i64::try_from(pages).unwrap_or(i64::MAX);
    count(more) - count(less)
}
