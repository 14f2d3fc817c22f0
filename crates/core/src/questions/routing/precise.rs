//! A router that asks the caches: to the replica that holds the longest prefix of the prompt now, as far as
//! load allows. Routers that listen to the engines' cache events come close to it.
//!
//! Where requests go depends on how much each cache holds, so one run tells one capacity.

use super::loads::Loads;
use super::spec::PreciseRules;
use crate::engines::config::CacheConfig;
use crate::request::outcome::Need;
use crate::units::heap::heap_bytes;
use crate::units::{PageBytes, PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// The router.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PreciseRouter {
    /// What all replicas hold together, once a page's bytes are known.
    total: Option<PageCount>,
    loads: Loads,
}

heap_bytes!(PreciseRouter { loads; total });

impl PreciseRouter {
    pub(super) fn new(replicas: usize) -> Self {
        Self { total: None, loads: Loads::new(replicas.max(1)) }
    }

    /// Whether this, read back from a snapshot, is a router like the `fresh` one and can go on.
    pub(super) fn is_sound(&self, fresh: &Self) -> bool {
        self.loads.is_sound(fresh.loads.len())
    }

    /// What all replicas hold together, in pages; `None` before the first request.
    pub(super) fn total(&self) -> Option<PageCount> {
        self.total
    }

    /// What each replica holds, in followed pages.
    pub(super) fn each(&mut self, rules: &PreciseRules, page_size: PageSize, config: &CacheConfig) -> Need {
        let cost = config.kv_bytes_per_token;
        let page_bytes = cost.and_then(|cost| PageBytes::from_token_cost(cost, page_size));
        // Bytes without a cost are refused before anything is routed.
        let total = rules.at.pages(page_bytes).unwrap_or(PageCount(0));
        self.total = Some(total);
        config.followed_pages(PageCount(total.0 / self.loads.len() as u64))
    }

    /// The replica for a request of so many pages, of which `hits` tells what a replica would find.
    pub(super) fn route(
        &self,
        rules: &PreciseRules,
        pages: usize,
        mut hits: impl FnMut(usize) -> u64,
    ) -> usize {
        let found: Vec<_> = (0..self.loads.len()).map(&mut hits).collect();
        let most = found.iter().copied().max().unwrap_or(0);
        let best = self.loads.least(|replica| found[replica] == most);
        let is_best = most > 0 && !self.loads.is_overloaded(best, rules.balance_per_mille, pages);
        if is_best { best } else { self.loads.least(|_| true) }
    }

    /// Counts a request that left so many pages to compute.
    pub(super) fn send(&mut self, replica: usize, uncached: u64) {
        self.loads.send(replica, uncached);
    }
}
