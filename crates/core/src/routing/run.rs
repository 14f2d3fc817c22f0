//! A router under way: where requests went, and what they found there.

use super::caches::ReplicaCaches;
use super::result::{ReplicaTally, RoutedNeeds, RoutingResult};
use super::router::{Arriving, Router, TooManyReplicas};
use super::spec::RouterSpec;
use crate::engine::EngineRefusal;
use crate::outcome::Outcome;
use crate::pool_config::PoolConfig;
use crate::units::{PageCount, PageSize};

/// A request cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The log names too many replicas.
    #[error(transparent)]
    Replicas(#[from] TooManyReplicas),
    /// A replica's cache refuses it.
    #[error(transparent)]
    Refused(#[from] EngineRefusal),
}

/// What a request found where.
#[derive(Debug, Clone, Copy)]
pub struct Routed<'a> {
    /// Index of its replica.
    pub replica: usize,
    /// Its number in that replica, counted from 0.
    pub number: u64,
    /// What it found there.
    pub outcome: &'a Outcome,
}

/// One router over one trace.
#[derive(Debug)]
pub struct RouterRun {
    router: Router,
    caches: ReplicaCaches,
    replicas: Vec<ReplicaTally>,
    needs: RoutedNeeds,
}

impl RouterRun {
    /// A run that has seen nothing, of the engine that `config` models. A profile that has no stack cannot be
    /// routed: [`crate::profile::Profile::is_pointwise`].
    pub fn new(spec: RouterSpec, config: &PoolConfig) -> Self {
        Self {
            router: Router::new(spec),
            caches: ReplicaCaches::new(config.engine()),
            replicas: Vec::new(),
            needs: RoutedNeeds::new(config.target_ratios.len()),
        }
    }

    /// Routes a request. One that is not counted only fills a cache.
    ///
    /// # Errors
    /// [`RoutingError`].
    pub fn observe(
        &mut self,
        request: &Arriving<'_>,
        page_size: PageSize,
        config: &PoolConfig,
        counted: bool,
    ) -> Result<Routed<'_>, RoutingError> {
        let replica = self.router.route(request)?;
        let number = self.caches.requests(replica);
        let outcome = self.caches.observe(replica, request.event, page_size)?;
        if self.replicas.len() <= replica {
            self.replicas.resize_with(replica + 1, ReplicaTally::default);
        }
        if counted {
            self.replicas[replica].add(outcome);
            self.needs.add(outcome, &config.target_ratios);
        }
        Ok(Routed { replica, number, outcome })
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// What was found, at these total capacities.
    pub fn result(&self, totals: &[PageCount], config: &PoolConfig) -> RoutingResult {
        let replicas = self.router.replicas();
        RoutingResult::of(self.router.spec(), replicas, &self.replicas, &self.needs, totals, config)
    }
}
