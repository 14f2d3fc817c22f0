//! One stack a replica.

use crate::engines::one_pass::{Engine, EngineConfig, EngineRefusal};
use crate::request::event::RequestEvent;
use crate::request::outcome::{Need, Outcome};
use crate::stack::ChainPolicy;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// The caches of several replicas, made as requests reach them.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReplicaCaches {
    config: EngineConfig,
    /// The cache of each replica, and whether a page was found to break the chain, which a stack leaves to others to
    /// keep.
    engines: Vec<(Engine, bool)>,
    #[serde(skip)]
    outcome: Outcome,
}

heap_bytes!(ReplicaCaches { engines; config, outcome });

impl ReplicaCaches {
    /// No caches yet. Chain violations are the pool's to refuse; these only follow.
    pub fn new(config: EngineConfig) -> Self {
        Self::of(EngineConfig { chain_policy: ChainPolicy::Report, ..config }, std::iter::empty())
    }

    /// The caches of these engines, which are kept as `config` says.
    pub(super) fn of(config: EngineConfig, engines: impl Iterator<Item = Engine>) -> Self {
        let engines = engines.map(|engine| {
            let disproved = engine.stack().is_disproved();
            (engine, disproved)
        });
        Self { config, engines: engines.collect(), outcome: Outcome::default() }
    }

    /// Requests that this replica got.
    pub fn requests(&self, replica: usize) -> u64 {
        self.engines.get(replica).map_or(0, |(engine, _)| engine.stack().requests())
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
            self.engines.push((Engine::new(self.config), false));
        }
        let (engine, disproved) = &mut self.engines[replica];
        engine.observe(event, page_size, &mut self.outcome)?;
        *disproved |= self.outcome.chain_violations > 0;
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
        let Some((engine, _)) = self.engines.get_mut(replica) else { return 0 };
        // A request that does not fit its tokens is refused where it is observed.
        let read = engine.look_up(event, page_size, &mut self.outcome);
        read.map_or(0, |()| self.outcome.hits_at(pages))
    }

    /// Completes what was read back from a snapshot; whether these are at most `most` caches like the `fresh`
    /// ones that can go on.
    pub(super) fn resume(&mut self, fresh: &Self, most: usize) -> bool {
        for (engine, _) in self.engines.iter_mut().filter(|(_, disproved)| *disproved) {
            engine.disprove_chains();
        }
        let EngineConfig { overlap, keeps_copies, .. } = fresh.config;
        self.config = EngineConfig { overlap, keeps_copies, ..self.config };
        self.config == fresh.config
            && self.engines.len() <= most
            && self.engines.iter_mut().all(|(engine, _)| engine.resume(&fresh.config))
    }
}
