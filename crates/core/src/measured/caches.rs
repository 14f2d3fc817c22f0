//! The caches that served a log's requests, as far as the log names them, and when each was emptied.

use super::reading::CachedPages;
use super::restarts::{Explained, ReplicaRestart, Restarts, Seen};
use super::share::MeasuredShare;
use crate::engine::Engine;
use crate::event::RequestEvent;
use crate::labels::Label;
use crate::outcome::{Need, Outcome};
use crate::pool_config::PoolConfig;
use crate::routing::{Arriving, MAX_REPLICAS, RoutedCaches, RouterKind, RouterSpec, RoutingError};
use crate::units::PageSize;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A request that a pool has accepted.
#[derive(Debug, Clone, Copy)]
pub struct Accepted<'a> {
    /// The request.
    pub event: &'a RequestEvent<'a>,
    /// The session it belongs to, where the log says.
    pub session: Option<&'a str>,
    /// What the pool's own stack says of it.
    pub outcome: &'a Outcome,
    /// Tokens a page.
    pub page_size: PageSize,
    /// Its number among the accepted ones, counted from 0.
    pub index: u64,
    /// Whether it counts, or only fills caches.
    pub counted: bool,
    /// The pool's engine, which has just accepted it.
    pub engine: &'a Engine,
}

impl<'a> Accepted<'a> {
    /// The request as a router sees it.
    pub fn arriving(&self) -> Arriving<'a> {
        Arriving { event: self.event, session: self.session }
    }
}

/// Follows them. The first costs nothing until a request names its replica, the second one look at a measured
/// request's outcome.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MeasuredCaches {
    /// The caches that the log names, from the first request on that names one.
    logged: Option<RoutedCaches>,
    /// Of what served requests before the log named any.
    alone: Restarts,
    /// By replica.
    restarts: Vec<Restarts>,
    /// Whether each replica has a stack of its own from the start ([`RoutedCaches::apart`]).
    #[serde(skip)]
    are_apart: bool,
}

/// The router that follows the log.
const LOGGED: RouterSpec = RouterSpec { kind: RouterKind::Logged, replicas: 0 };

impl MeasuredCaches {
    /// Caches of replicas that have stacks of their own from the start ([`RoutedCaches::apart`]).
    pub fn apart() -> Self {
        Self { are_apart: true, ..Self::default() }
    }

    /// Follows a request; gives what it tells where it counts and says what it found.
    ///
    /// # Errors
    /// [`RoutingError`]; nothing has changed then.
    pub fn observe(
        &mut self,
        request: &Accepted<'_>,
        config: &PoolConfig,
    ) -> Result<Option<MeasuredShare>, RoutingError> {
        if self.logged.is_none() && request.event.labels.get(Label::Replica).is_some() {
            self.logged = Some(match self.are_apart {
                true => RoutedCaches::apart(LOGGED, config),
                false => RoutedCaches::new(LOGGED),
            });
        }
        let logged = self.logged.as_mut();
        let (arriving, page_size) = (request.arriving(), request.page_size);
        let routed = logged.map(|caches| caches.observe(&arriving, page_size, config, request.engine));
        let routed = routed.transpose()?;
        let (partial, rate) = (config.include_partial_page, config.sample_rate);
        let cached = CachedPages::of(request.event, request.page_size, partial, rate);
        let Some(cached) = cached.filter(|_| request.counted) else { return Ok(None) };
        let number = routed.map_or(request.index, |routed| routed.number);
        let seen = Seen { number, index: request.index, event_time: request.event.event_time };
        let restarts = match routed {
            None => &mut self.alone,
            Some(routed) => of_replica(&mut self.restarts, routed.replica),
        };
        let routed = routed.map(|routed| routed.outcome);
        restarts.observe(cached.followed, routed.unwrap_or(request.outcome), seen);
        Ok(Some(MeasuredShare::of(cached, request.outcome, routed)))
    }

    /// Caches that served requests, as far as the log says.
    pub fn replicas(&self) -> u64 {
        self.logged.as_ref().map_or(1, |caches| caches.router().replicas().max(1) as u64)
    }

    /// The name of a replica, where the log has names.
    pub fn name(&self, replica: usize) -> Option<&str> {
        self.logged.as_ref()?.router().name(replica)
    }

    /// The restarts of replicas that hold at least `each` pages, by replica and time.
    pub fn restarts(&self, each: Need) -> impl Iterator<Item = ReplicaRestart> + '_ {
        let of = move |(replica, restarts): (Option<usize>, &Restarts)| {
            restarts.found(each).into_iter().map(move |restart| ReplicaRestart { replica, restart })
        };
        let replicas = self.restarts.iter().enumerate().map(|(replica, restarts)| (Some(replica), restarts));
        std::iter::once((None, &self.alone)).chain(replicas).flat_map(of)
    }

    /// What the restarts of replicas that hold at least `each` pages explain of the requests that arrived `during` these
    /// event times, in milliseconds.
    pub fn explained(&self, each: Need, during: &Range<i64>) -> Explained {
        let mut all = Explained::default();
        for restarts in std::iter::once(&self.alone).chain(&self.restarts) {
            let own = restarts.explained(each, during);
            all.restarts += own.restarts;
            all.ends.extend(own.ends);
        }
        all
    }

    /// Completes what was read back from a snapshot; whether it is of the configuration and can go on.
    pub fn resume(&mut self, config: &PoolConfig, pool: &Engine) -> bool {
        self.logged.iter_mut().all(|caches| caches.resume(LOGGED, config, pool))
            && self.alone.is_sound()
            && self.restarts.len() <= MAX_REPLICAS
            && self.restarts.iter().all(Restarts::is_sound)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> u64 {
        let restarts: usize = self.restarts.iter().map(Restarts::memory_bytes).sum();
        self.logged.as_ref().map_or(0, RoutedCaches::memory_bytes)
            + (self.alone.memory_bytes() + restarts) as u64
    }
}

/// The restarts of this replica.
fn of_replica(restarts: &mut Vec<Restarts>, replica: usize) -> &mut Restarts {
    if restarts.len() <= replica {
        restarts.resize_with(replica + 1, Restarts::default);
    }
    &mut restarts[replica]
}
