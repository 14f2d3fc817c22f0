//! One stack a replica.

use crate::engines::one_pass::{Engine, EngineConfig, EngineRefusal};
use crate::request::event::RequestEvent;
use crate::request::outcome::{Need, Outcome};
use crate::stack::ChainPolicy;
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// The caches of several replicas, made as requests reach them.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReplicaCaches {
    config: EngineConfig,
    engines: Vec<ReplicaEngine>,
    #[serde(skip)]
    outcome: Outcome,
}

/// The cache of one replica.
#[derive(Debug, Serialize, Deserialize)]
struct ReplicaEngine {
    engine: Engine,
    /// Whether a page was found to break the chain, which a stack leaves to others to keep.
    disproved: bool,
}

impl ReplicaCaches {
    /// No caches yet. Chain violations are the pool's to refuse; these only follow.
    pub fn new(config: EngineConfig) -> Self {
        Self::of(EngineConfig { chain_policy: ChainPolicy::Report, ..config }, std::iter::empty())
    }

    /// The caches of these engines, which are kept as `config` says.
    pub(super) fn of(config: EngineConfig, engines: impl Iterator<Item = Engine>) -> Self {
        let held = |engine: Engine| ReplicaEngine { disproved: engine.stack().is_disproved(), engine };
        Self { config, engines: engines.map(held).collect(), outcome: Outcome::default() }
    }

    /// Requests that this replica got.
    pub fn requests(&self, replica: usize) -> u64 {
        self.engines.get(replica).map_or(0, |held| held.engine.stack().requests())
    }

    /// What the request finds in this replica, which it then is the latest of.
    ///
    /// # Errors
    /// [`EngineRefusal`]; nothing has changed then.
    pub fn observe(
        &mut self,
        replica: usize,
        event: &RequestEvent<'_>,
        page_size: PageSize,
    ) -> Result<&Outcome, EngineRefusal> {
        while self.engines.len() <= replica {
            self.engines.push(ReplicaEngine { engine: Engine::new(self.config), disproved: false });
        }
        let held = &mut self.engines[replica];
        held.engine.observe(event, page_size, &mut self.outcome)?;
        held.disproved |= self.outcome.chain_violations > 0;
        Ok(&self.outcome)
    }

    /// Leading pages of the request that this replica would find at so many followed pages; nothing is touched.
    pub(super) fn hits_at(
        &mut self,
        replica: usize,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        pages: Need,
    ) -> u64 {
        let Some(held) = self.engines.get_mut(replica) else { return 0 };
        // A request that does not fit its tokens is refused where it is observed.
        let read = held.engine.look_up(event, page_size, &mut self.outcome);
        read.map_or(0, |()| self.outcome.hits_at(pages))
    }

    /// Completes what was read back from a snapshot; whether these are at most `most` caches like the `fresh`
    /// ones that can go on.
    pub(super) fn resume(&mut self, fresh: &Self, most: usize) -> bool {
        for held in self.engines.iter_mut().filter(|held| held.disproved) {
            held.engine.disprove_chains();
        }
        self.config.overlap = fresh.config.overlap;
        self.config == fresh.config
            && self.engines.len() <= most
            && self.engines.iter_mut().all(|held| held.engine.resume(&fresh.config))
    }

    /// Bytes of memory held, nearly.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.engines.iter().map(|held| held.engine.stack().memory_bytes()).sum()
    }
}
