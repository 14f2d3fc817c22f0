//! What each replica holds, along the stack of the pool's engine while that holds every page it ever saw.

use super::caches::ReplicaCaches;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::{Engine, EngineConfig, EngineRefusal, FollowingEngine};
use crate::questions::question::Accepted;
use crate::request::outcome::{Need, Outcome};
use crate::stack::ChainPolicy;
use crate::units::heap::HeapBytes;
use serde::{Deserialize, Serialize};

/// The caches of several replicas that serve a pool's requests, made as requests reach them.
///
/// The pool's tree has the pages of all of them, so one tree and one walk serve all, until the pool is about to forget
/// pages, or to follow requests while they are in flight; from then on each replica has a stack of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::questions) enum FollowingCaches {
    Along {
        engines: Vec<FollowingEngine>,
        #[serde(skip)]
        outcome: Outcome,
    },
    Apart(ReplicaCaches),
}

impl FollowingCaches {
    /// No caches yet.
    pub(in crate::questions) fn new() -> Self {
        Self::along(Vec::new())
    }

    /// No caches yet, each with a stack of its own from the start: the pool's engine need not be asked.
    pub(super) fn apart(config: &CacheConfig) -> Self {
        Self::Apart(ReplicaCaches::new(config.engine()))
    }

    fn along(engines: Vec<FollowingEngine>) -> Self {
        Self::Along { engines, outcome: Outcome::default() }
    }

    /// Gets ready for a request that the pool has accepted, and for the pool to accept another one: whoever is to serve
    /// the first must be ready for each that the pool accepts.
    pub(in crate::questions) fn prepare(&mut self, pool: &Engine, config: &CacheConfig) {
        let Self::Along { engines, .. } = self else { return };
        let may_go_on = !pool.may_forget(u64::from(config.max_pages_per_request));
        if may_go_on && !pool.follows_flights() {
            return;
        }
        // Chain violations are the pool's to refuse; these only follow.
        let config = EngineConfig { chain_policy: ChainPolicy::Report, ..config.engine() };
        let engines = std::mem::take(engines).into_iter();
        *self =
            Self::Apart(ReplicaCaches::of(config, engines.map(|engine| engine.into_engine(pool, config))));
    }

    /// Requests that this replica got.
    pub(super) fn requests(&self, replica: usize) -> u64 {
        match self {
            Self::Along { engines, .. } => engines.get(replica).map_or(0, FollowingEngine::requests),
            Self::Apart(caches) => caches.requests(replica),
        }
    }

    /// What the request finds in this replica, which it then is the latest of.
    ///
    /// # Errors
    /// [`EngineRefusal`]; nothing has changed then.
    pub(in crate::questions) fn observe(
        &mut self,
        replica: usize,
        request: &Accepted<'_>,
    ) -> Result<&Outcome, EngineRefusal> {
        match self {
            Self::Along { engines, outcome } => {
                if engines.len() <= replica {
                    engines.resize_with(replica + 1, FollowingEngine::default);
                }
                engines[replica].observe(request.engine, outcome);
                Ok(outcome)
            }
            Self::Apart(caches) => caches.observe(replica, request.event, request.page_size),
        }
    }

    /// Leading pages of the request that this replica would find at so many followed pages; nothing is touched.
    pub(super) fn hits_at(&mut self, replica: usize, request: &Accepted<'_>, pages: Need) -> u64 {
        match self {
            Self::Along { engines, outcome } => {
                let Some(engine) = engines.get_mut(replica) else { return 0 };
                engine.look_up(request.engine, outcome);
                outcome.hits_at(pages)
            }
            Self::Apart(caches) => caches.hits_at(replica, request.event, request.page_size, pages),
        }
    }

    /// Completes what was read back from a snapshot; whether these are at most `most` caches that can go on alongside
    /// the pool's engine.
    pub(in crate::questions) fn resume(&mut self, config: &CacheConfig, most: usize, pool: &Engine) -> bool {
        match self {
            Self::Along { engines, .. } => {
                engines.len() <= most
                    && !pool.may_forget(u64::from(config.max_pages_per_request))
                    && !pool.follows_flights()
                    && engines.iter_mut().all(|engine| engine.resume(pool))
            }
            Self::Apart(caches) => caches.resume(&ReplicaCaches::new(config.engine()), most),
        }
    }
}

impl HeapBytes for FollowingCaches {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Along { engines, .. } => engines.heap_bytes(),
            Self::Apart(caches) => caches.heap_bytes(),
        }
    }
}
