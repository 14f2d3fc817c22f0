//! The caches that served a log's requests, as far as the log names them, and when each was emptied.

use super::answers::{Answers, explained};
use super::reading::CachedPages;
use super::restarts::{RequestPosition, Restarts};
use super::share::MeasuredShare;
use crate::engines::bank::CacheBank;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::Engine;
use crate::questions::question::{Accepted, MAX_REPLICAS, QuestionError};
use crate::questions::routing::{RoutedCaches, RouterKind, RouterSpec};
use crate::request::labels::Label;
use crate::request::outcome::Need;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::ops::Range;

/// Follows them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MeasuredCaches {
    served: ServingCaches,
    answers: Answers,
}

heap_bytes!(MeasuredCaches { served, answers });

/// What served requests. The caches cost nothing until a request names its replica, restarts one look at a measured
/// request's outcome.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ServingCaches {
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

heap_bytes!(ServingCaches { logged, alone, restarts; are_apart });

/// The router that follows the log.
const LOGGED: RouterSpec = RouterSpec { kind: RouterKind::Logged, replicas: 0 };

impl MeasuredCaches {
    /// Caches of replicas that have stacks of their own from the start ([`RoutedCaches::apart`]).
    pub fn apart() -> Self {
        Self {
            served: ServingCaches { are_apart: true, ..ServingCaches::default() },
            answers: Answers::default(),
        }
    }

    /// Expects of a log, of which no request has come yet, that it does not say what requests found.
    pub fn expect_nothing(&mut self) {
        self.answers = Answers::unexpected();
    }

    /// Follows a request; gives what it tells where it counts and says what it found.
    ///
    /// # Errors
    /// [`QuestionError`]; nothing has changed then.
    pub fn observe(&mut self, request: &Accepted<'_>) -> Result<Option<MeasuredShare>, QuestionError> {
        let Self { served, answers } = self;
        let fresh_bank = || Ok::<_, Infallible>(CacheBank::default());
        let Ok(observed) = answers.follow(request, fresh_bank, |request| served.observe(request));
        observed
    }

    /// Caches that served requests, as far as the log says.
    pub fn replicas(&self) -> u64 {
        self.served.logged.as_ref().map_or(1, |caches| caches.router().replicas().max(1) as u64)
    }

    /// The name of a replica, where the log has names.
    pub fn name(&self, replica: usize) -> Option<&str> {
        self.served.logged.as_ref()?.router().name(replica)
    }

    /// The restarts of replicas that hold at least `each` pages, by replica and time: the replica's index, where the
    /// log names it, and what [`Restarts::found`] says.
    pub fn restarts(&self, each: Need) -> impl Iterator<Item = (Option<usize>, (RequestPosition, u64))> + '_ {
        let of = move |(replica, restarts): (Option<usize>, &Restarts)| {
            restarts.found(each).into_iter().map(move |restart| (replica, restart))
        };
        let ServingCaches { alone, restarts, .. } = &self.served;
        let replicas = restarts.iter().enumerate().map(|(replica, restarts)| (Some(replica), restarts));
        std::iter::once((None, alone)).chain(replicas).flat_map(of)
    }

    /// What the restarts of replicas that hold at least `each` pages explain of the requests that arrived `during`
    /// these event times, in milliseconds.
    pub fn explained(&self, each: Need, during: &Range<i64>) -> (u64, Vec<Need>) {
        let (mut count, mut ends) = (0, Vec::new());
        for restarts in std::iter::once(&self.served.alone).chain(&self.served.restarts) {
            let (own, own_ends) = restarts.explained(each, during);
            count += own;
            ends.extend(own_ends);
        }
        (count, ends)
    }

    /// Completes what was read back from a snapshot; whether it is of the configuration and can go on.
    pub fn resume(&mut self, config: &CacheConfig, page_size: PageSize, pool: &Engine) -> bool {
        let Self { served: ServingCaches { logged, alone, restarts, .. }, answers } = self;
        let answers_fit = answers.resume(&[], page_size, config);
        let engine = answers.engine().unwrap_or(pool);
        logged.iter_mut().all(|caches| caches.resume(LOGGED, config, engine))
            && answers_fit
            && alone.is_sound()
            && restarts.len() <= MAX_REPLICAS
            && restarts.iter().all(Restarts::is_sound)
    }
}

impl ServingCaches {
    /// Follows a request whose generated pages have names, where they get any.
    fn observe(&mut self, request: &Accepted<'_>) -> Result<Option<MeasuredShare>, QuestionError> {
        let config = request.cache.cache;
        if self.logged.is_none() && request.event.labels.get(Label::Replica).is_some() {
            self.logged = Some(match self.are_apart {
                true => RoutedCaches::apart(LOGGED, config),
                false => RoutedCaches::new(LOGGED),
            });
        }
        let routed = self.logged.as_mut().map(|caches| caches.observe(request)).transpose()?;
        let (partial, rate) = (config.include_partial_page, config.sample_rate);
        let cached = CachedPages::of(request.event, request.page_size, partial, rate);
        let Some(cached) = cached.filter(|_| request.counted) else { return Ok(None) };
        let number = routed.map_or(request.index, |(_, number, _)| number);
        let seen = RequestPosition { number, index: request.index, event_time: request.event.event_time };
        let restarts = match routed {
            None => &mut self.alone,
            Some((replica, ..)) => of_replica(&mut self.restarts, replica),
        };
        let routed = routed.map(|(.., outcome)| outcome);
        restarts.observe(cached.followed, routed.unwrap_or(request.outcome), seen);
        let explained = explained(request, cached, routed.unwrap_or(request.outcome), config);
        Ok(Some(MeasuredShare::of(cached, request.outcome, routed, explained)))
    }
}

/// The restarts of this replica.
fn of_replica(restarts: &mut Vec<Restarts>, replica: usize) -> &mut Restarts {
    if restarts.len() <= replica {
        restarts.resize_with(replica + 1, Restarts::default);
    }
    &mut restarts[replica]
}
