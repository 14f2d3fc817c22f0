//! Measured hits alongside caches that are modelled a capacity at a time: the capacity at which most
//! requests find exactly what they report.

use super::answers::{Answers, explained};
use super::point_tally::PointShare;
use super::reading::CachedPages;
use crate::engines::bank::CacheBank;
use crate::engines::config::CacheConfig;
use crate::questions::question::{Accepted, MAX_REPLICAS, QuestionError};
use crate::questions::routing::{Router, RouterKind, RouterSpec};
use crate::request::labels::Label;
use crate::request::outcome::Need;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// Follows them. Until a request names its replica one cache a capacity serves all, the pool's own; from then on each
/// replica has its own at every capacity.
#[derive(Debug, Serialize, Deserialize)]
pub struct PointCaches {
    /// In followed pages, ascending.
    capacities: Vec<Need>,
    served: ServedBanks,
    answers: Answers,
}

heap_bytes!(PointCaches { capacities, served, answers });

/// What served requests of replicas.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ServedBanks {
    /// Names replicas, from the first request on that does.
    router: Option<Router>,
    /// One per replica.
    banks: Vec<CacheBank>,
}

heap_bytes!(ServedBanks { router, banks });

/// The router that follows the log.
const LOGGED: RouterSpec = RouterSpec { kind: RouterKind::Logged, replicas: 0 };

impl PointCaches {
    /// Caches of these capacities, in followed pages and ascending, that have seen nothing.
    pub fn new(capacities: Vec<Need>) -> Self {
        Self { capacities, served: ServedBanks::default(), answers: Answers::default() }
    }

    /// Expects of a log, of which no request has come yet, that it does not say what requests found: caches of replicas
    /// then serve from the first one on that does.
    pub fn expect_nothing(&mut self) {
        self.answers = Answers::unexpected();
    }

    /// Follows a request that the pool's own caches have served; gives what it tells where it counts and says what it
    /// found.
    ///
    /// # Errors
    /// [`QuestionError`].
    pub fn observe(&mut self, request: &Accepted<'_>) -> Result<Option<PointShare>, QuestionError> {
        let config = request.cache.cache;
        let Self { capacities, served, answers } = self;
        if answers.wait_for(request) {
            return Ok(None);
        }
        let fresh_bank = || CacheBank::new(capacities, request.page_size, config);
        answers.follow(request, fresh_bank, |request| served.observe(request, capacities))?
    }

    /// The capacities, in followed pages and ascending.
    pub(super) fn capacities(&self) -> &[Need] {
        &self.capacities
    }

    /// Caches that served requests, as far as the log says.
    pub(super) fn replicas(&self) -> u64 {
        self.served.banks.len().max(1) as u64
    }

    /// Completes what was read back from a snapshot; whether these are caches of these capacities and the
    /// configuration and can go on.
    pub fn resume(&mut self, capacities: &[Need], page_size: PageSize, config: &CacheConfig) -> bool {
        let ServedBanks { router, banks } = &mut self.served;
        let fresh = Router::new(LOGGED);
        self.capacities == capacities
            && router.iter().all(|router| router.is_sound(&fresh))
            && banks.len() <= router.as_ref().map_or(0, Router::replicas).min(MAX_REPLICAS)
            && banks.iter_mut().all(|bank| bank.resume(capacities, page_size, config))
            && self.answers.resume(capacities, page_size, config)
    }
}

impl ServedBanks {
    /// Follows a request whose generated pages have names, where they get any.
    fn observe(
        &mut self,
        request: &Accepted<'_>,
        capacities: &[Need],
    ) -> Result<Option<PointShare>, QuestionError> {
        let (replica, own, config) = (self.serve(request, capacities)?, request.own, request.cache.cache);
        let (partial, rate) = (config.include_partial_page, config.sample_rate);
        let cached = CachedPages::of(request.event, request.page_size, partial, rate);
        let Some(cached) = cached.filter(|_| request.counted) else { return Ok(None) };
        let routed = replica.map(|replica| self.banks[replica].last_hits());
        let unlimited = own.last_ceiling().unwrap_or(request.outcome.reusable_prefix());
        let explained = explained(request, cached, request.outcome, config);
        Ok(Some(PointShare::of(cached, request.outcome, unlimited, own.last_hits(), routed, explained)))
    }

    /// Serves a request at its replica; gives the replica where the log names any.
    fn serve(&mut self, request: &Accepted<'_>, capacities: &[Need]) -> Result<Option<usize>, QuestionError> {
        let config = request.cache.cache;
        if self.router.is_none() && request.event.labels.get(Label::Replica).is_none() {
            return Ok(None);
        }
        let router = self.router.get_or_insert_with(|| Router::new(LOGGED));
        let replica = router.route(request.event, request.session)?;
        while self.banks.len() <= replica {
            self.banks.push(CacheBank::new(capacities, request.page_size, config)?);
        }
        self.banks[replica].request(
            request.event,
            request.outcome.reusable_prefix(),
            config,
            request.page_size,
        );
        Ok(Some(replica))
    }
}
