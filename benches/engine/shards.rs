//! SHARDS (FAST '15) at a fixed rate: the page-at-a-time baseline over a hash-chosen share of the pages.

use crate::fenwick::Fenwick;
use kvset::core::units::pages::{PageIds, Scope};

/// An approximate stack: needs are scaled up by the rate.
pub struct Shards {
    inner: Fenwick,
    threshold: u64,
    per_page: f64,
    sampled: Vec<u64>,
}

impl Shards {
    pub fn new(rate: f64) -> Self {
        let threshold = (rate * u64::MAX as f64) as u64;
        Self { inner: Fenwick::new(), threshold, per_page: 1.0 / rate, sampled: Vec::new() }
    }

    /// Touches the pages in prefix order; returns the estimated reusable prefix and its need.
    pub fn access(&mut self, scope: Scope, pages: PageIds<'_>) -> (u64, u64) {
        self.sampled.clear();
        self.sampled.extend(pages.iter().filter(|&id| scope.key(id) <= self.threshold));
        let (reusable, need) = self.inner.access(scope, PageIds::from_slice(&self.sampled));
        ((reusable as f64 * self.per_page) as u64, (need as f64 * self.per_page) as u64)
    }
}
