//! Measured hits beside caches that are modelled a capacity at a time (WHATIF 1): the capacity at which most
//! requests find exactly what they report.

use super::caches::Accepted;
use super::point_tally::PointShare;
use super::reading::CachedPages;
use crate::bank::CacheBank;
use crate::engine_rules::PageMismatch;
use crate::labels::Label;
use crate::outcome::Need;
use crate::pool_config::PoolConfig;
use crate::routing::{MAX_REPLICAS, Router, RouterKind, RouterSpec, TooManyReplicas};
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// A request cannot be held against these caches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// The log names too many replicas.
    #[error(transparent)]
    Replicas(#[from] TooManyReplicas),
    /// The engine has no such pages.
    #[error(transparent)]
    Page(#[from] PageMismatch),
}

/// Follows them. Until a request names its replica one cache a capacity serves all, the pool's own; from then on each
/// replica has its own at every capacity.
#[derive(Debug, Serialize, Deserialize)]
pub struct PointCaches {
    /// In followed pages, ascending.
    capacities: Vec<Need>,
    /// Names replicas, from the first request on that does.
    router: Option<Router>,
    /// One a replica.
    banks: Vec<CacheBank>,
}

/// The router that follows the log.
const LOGGED: RouterSpec = RouterSpec { kind: RouterKind::Logged, replicas: 0 };

impl PointCaches {
    /// Caches of these capacities, in followed pages and ascending, that have seen nothing.
    pub const fn new(capacities: Vec<Need>) -> Self {
        Self { capacities, router: None, banks: Vec::new() }
    }

    /// Follows a request that the pool's own caches have served; gives what it tells where it counts and says what it
    /// found.
    ///
    /// # Errors
    /// [`PointError`].
    pub fn observe(
        &mut self,
        request: &Accepted<'_>,
        own: &CacheBank,
        config: &PoolConfig,
    ) -> Result<Option<PointShare>, PointError> {
        let replica = self.serve(request, config)?;
        let (partial, rate) = (config.include_partial_page, config.sample_rate);
        let cached = CachedPages::of(request.event, request.page_size, partial, rate);
        let Some(cached) = cached.filter(|_| request.counted) else { return Ok(None) };
        let routed = replica.map(|replica| self.banks[replica].last_hits());
        let unlimited = own.last_ceiling().unwrap_or(request.outcome.reusable_prefix());
        Ok(Some(PointShare::of(cached, request.outcome, unlimited, own.last_hits(), routed)))
    }

    /// Serves a request at its replica; gives the replica where the log names any.
    fn serve(&mut self, request: &Accepted<'_>, config: &PoolConfig) -> Result<Option<usize>, PointError> {
        if self.router.is_none() && request.event.labels.get(Label::Replica).is_none() {
            return Ok(None);
        }
        let router = self.router.get_or_insert_with(|| Router::new(LOGGED));
        let replica = router.route(&request.arriving())?;
        while self.banks.len() <= replica {
            self.banks.push(CacheBank::new(&self.capacities, request.page_size, config)?);
        }
        self.banks[replica].request(
            request.event,
            request.outcome.reusable_prefix(),
            config,
            request.page_size,
        );
        Ok(Some(replica))
    }

    /// The capacities, in followed pages and ascending.
    pub(super) fn capacities(&self) -> &[Need] {
        &self.capacities
    }

    /// Caches that served requests, as far as the log says.
    pub(super) fn replicas(&self) -> u64 {
        self.banks.len().max(1) as u64
    }

    /// Whether these, read back from a snapshot, are caches of these capacities and the configuration and can go on.
    pub fn is_sound(&self, capacities: &[Need], page_size: PageSize, config: &PoolConfig) -> bool {
        let fresh = Router::new(LOGGED);
        let router = self.router.as_ref();
        self.capacities == capacities
            && router.is_none_or(|router| router.is_sound(&fresh))
            && self.banks.len() <= router.map_or(0, Router::replicas).min(MAX_REPLICAS)
            && self.banks.iter().all(|bank| bank.are_sound(capacities, page_size, config))
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> u64 {
        let banks: usize = self.banks.iter().map(|bank| size_of::<CacheBank>() + bank.memory_bytes()).sum();
        (banks + self.capacities.capacity() * size_of::<Need>()) as u64
    }
}
