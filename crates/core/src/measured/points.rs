//! Measured hits beside caches that are modelled a capacity at a time (WHATIF 1): the capacity at which most
//! requests find exactly what they report.

use super::caches::Accepted;
use super::consensus::Agreed;
use super::counted::Counted;
use super::ledger::Ledger;
use super::reading::CachedPages;
use crate::bank::CacheBank;
use crate::engine_rules::PageMismatch;
use crate::labels::Label;
use crate::outcome::{Need, Outcome};
use crate::pool_config::PoolConfig;
use crate::routing::{Router, RouterKind, RouterSpec, TooManyReplicas};

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
#[derive(Debug)]
pub struct PointCaches {
    /// In followed pages, ascending.
    capacities: Vec<Need>,
    /// Names replicas, from the first request on that does.
    router: Option<Router>,
    /// One a replica.
    banks: Vec<CacheBank>,
    tally: PointTally,
}

/// Counts over the measured requests. Pages are followed pages, but for `cached_pages`.
#[derive(Debug, Default)]
struct PointTally {
    requests: u64,
    cached_pages: u64,
    measured: u64,
    page_accesses: u64,
    unlimited: u64,
    requests_beyond_log: u64,
    pages_beyond_log: u64,
    /// Requests with something to reuse, or with hits, and their pages.
    told: (u64, u64),
    /// One a capacity.
    points: Vec<Point>,
}

/// The counts of one capacity.
#[derive(Debug, Clone, Copy, Default)]
struct Point {
    /// Requests that can tell and found exactly this, and their pages.
    agreeing: (u64, u64),
    /// Hits of one cache for all requests.
    shared: u64,
    /// Hits of the caches that served them.
    routed: u64,
}

impl PointCaches {
    /// Caches of these capacities, in followed pages and ascending, that have seen nothing.
    pub fn new(capacities: Vec<Need>) -> Self {
        let points = vec![Point::default(); capacities.len()];
        Self {
            capacities,
            router: None,
            banks: Vec::new(),
            tally: PointTally { points, ..PointTally::default() },
        }
    }

    /// Follows a request that the pool's own caches have served.
    ///
    /// # Errors
    /// [`PointError`].
    pub fn observe(
        &mut self,
        request: &Accepted<'_>,
        own: &CacheBank,
        config: &PoolConfig,
    ) -> Result<(), PointError> {
        let replica = self.serve(request, config)?;
        let (partial, rate) = (config.include_partial_page, config.sample_rate);
        let cached = CachedPages::of(request.event, request.page_size, partial, rate);
        let Some(cached) = cached.filter(|_| request.counted) else { return Ok(()) };
        let served_by = replica.map_or(own, |replica| &self.banks[replica]);
        let unlimited = own.last_ceiling().unwrap_or(request.outcome.reusable_prefix());
        self.tally.add(cached, request.outcome, unlimited, own.last_hits(), served_by.last_hits());
        Ok(())
    }

    /// Serves a request at its replica; gives the replica where the log names any.
    fn serve(&mut self, request: &Accepted<'_>, config: &PoolConfig) -> Result<Option<usize>, PointError> {
        if self.router.is_none() && request.event.labels.get(Label::Replica).is_none() {
            return Ok(None);
        }
        let logged = RouterSpec { kind: RouterKind::Logged, replicas: 0 };
        let router = self.router.get_or_insert_with(|| Router::new(logged));
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

    /// Requests that say what they found.
    pub fn requests(&self) -> u64 {
        self.tally.requests
    }

    pub(super) fn counted(&self) -> Counted {
        let tally = &self.tally;
        Counted {
            requests: tally.requests,
            cached_pages: tally.cached_pages,
            agreed: self.agreed(),
            told: tally.told,
            replicas: self.banks.len().max(1) as u64,
            requests_beyond_log: tally.requests_beyond_log,
            pages_beyond_log: tally.pages_beyond_log,
        }
    }

    /// The capacity that most requests agree on, and those next to it that just as many do; of equals the one with
    /// the most pages, of these the smallest.
    fn agreed(&self) -> Option<Agreed> {
        let points = &self.tally.points;
        let best = points.iter().map(|point| point.agreeing).max().filter(|(requests, _)| *requests > 0)?;
        let first = points.iter().position(|point| point.agreeing == best)?;
        let alike = points[first..].iter().take_while(|point| point.agreeing == best).count();
        let to = self.capacities[first + alike - 1];
        Some(Agreed { from: self.capacities[first], to: Some(to), requests: best.0, pages: best.1 })
    }

    /// The ledger at `each` pages a replica and `all` pages together; what is not among the capacities is not told.
    pub(super) fn ledger(&self, all: Need, each: Need) -> Ledger {
        let tally = &self.tally;
        let at = |pages: Need| self.capacities.binary_search(&pages).ok().map(|index| tally.points[index]);
        Ledger {
            page_accesses: tally.page_accesses,
            unlimited: tally.unlimited,
            shared: at(all).map(|point| point.shared),
            routed: at(each).map(|point| point.routed),
            measured: tally.measured,
        }
    }
}

impl PointTally {
    fn add(
        &mut self,
        cached: CachedPages,
        outcome: &Outcome,
        unlimited: u64,
        shared: &[u64],
        routed: &[u64],
    ) {
        let hits = cached.followed;
        self.requests += 1;
        self.cached_pages += cached.all;
        self.measured += hits;
        self.page_accesses += outcome.page_accesses;
        self.unlimited += unlimited;
        let beyond = hits.saturating_sub(outcome.reusable_prefix());
        self.requests_beyond_log += u64::from(beyond > 0);
        self.pages_beyond_log += beyond;
        let weight = hits.max(outcome.reusable_prefix());
        let can_tell = weight > 0;
        self.told.0 += u64::from(can_tell);
        self.told.1 += weight;
        for ((point, shared), routed) in self.points.iter_mut().zip(shared).zip(routed) {
            point.shared += shared;
            point.routed += routed;
            if can_tell && *routed == hits {
                point.agreeing.0 += 1;
                point.agreeing.1 += weight;
            }
        }
    }
}
