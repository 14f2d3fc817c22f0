//! A router under way: where requests went, and what they found there.

use super::following::FollowingCaches;
use super::router::Router;
use super::spec::RouterSpec;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::Engine;
use crate::questions::question::{Accepted, MAX_REPLICAS, QuestionError};
use crate::request::outcome::Outcome;
use crate::units::PageCount;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// A router and the caches behind it.
#[derive(Debug, Serialize, Deserialize)]
pub struct RoutedCaches {
    router: Router,
    caches: FollowingCaches,
}

heap_bytes!(RoutedCaches { router, caches });

impl RoutedCaches {
    /// Caches that have seen nothing, of a pool whose engine has a stack: others cannot be routed
    /// ([`CacheConfig::is_pointwise`]).
    pub fn new(spec: RouterSpec) -> Self {
        Self { router: Router::new(spec), caches: FollowingCaches::new() }
    }

    /// The same with a stack of its own for each replica, whatever state the pool's engine is in: where ranges of
    /// requests are merged into that.
    pub fn apart(spec: RouterSpec, config: &CacheConfig) -> Self {
        Self { router: Router::new(spec), caches: FollowingCaches::apart(config) }
    }

    /// Routes a request to its replica, which it then is the latest of: from the first request on all that the pool's
    /// engine accepts come here. Gives the replica, the request's number in it, counted from 0, and what it found
    /// there.
    ///
    /// # Errors
    /// [`QuestionError`].
    pub fn observe(&mut self, request: &Accepted<'_>) -> Result<(usize, u64, &Outcome), QuestionError> {
        let config = request.cache.cache;
        self.caches.prepare(request.engine, config);
        let Some((rules, router)) = self.router.precise() else {
            let replica = self.router.route(request.event, request.session)?;
            let number = self.caches.requests(replica);
            let outcome = self.caches.observe(replica, request)?;
            return Ok((replica, number, outcome));
        };
        let (caches, each) = (&mut self.caches, router.each(&rules, request.page_size, config));
        let pages = PageCount(request.event.page_ids.len() as u64);
        let followed = config.followed_pages(pages) as usize;
        let replica = router.route(&rules, followed, |replica| caches.hits_at(replica, request, each));
        let number = caches.requests(replica);
        let outcome = caches.observe(replica, request)?;
        router.send(replica, outcome.page_accesses - outcome.hits_at(each));
        Ok((replica, number, outcome))
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Completes what was read back from a snapshot; whether it is of this router and can go on alongside the pool's
    /// engine.
    pub fn resume(&mut self, spec: RouterSpec, config: &CacheConfig, pool: &Engine) -> bool {
        let most = match spec.replicas {
            0 => MAX_REPLICAS,
            replicas => replicas,
        };
        self.router.is_sound(&Router::new(spec)) && self.caches.resume(config, most, pool)
    }
}
