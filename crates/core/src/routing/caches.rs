//! One stack a replica.

use crate::engine::{Engine, EngineConfig, EngineRefusal};
use crate::event::RequestEvent;
use crate::outcome::Outcome;
use crate::stack::ChainPolicy;
use crate::units::PageSize;

/// The caches of several replicas, made as requests reach them.
#[derive(Debug)]
pub struct ReplicaCaches {
    config: EngineConfig,
    engines: Vec<Engine>,
    outcome: Outcome,
}

impl ReplicaCaches {
    /// No caches yet. Chain violations are the pool's to refuse; these only follow.
    pub fn new(config: EngineConfig) -> Self {
        let config = EngineConfig { chain_policy: ChainPolicy::Report, ..config };
        Self { config, engines: Vec::new(), outcome: Outcome::default() }
    }

    /// Requests that this replica got.
    pub fn requests(&self, replica: usize) -> u64 {
        self.engines.get(replica).map_or(0, |engine| engine.stack().requests())
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
            self.engines.push(Engine::new(self.config));
        }
        self.engines[replica].observe(event, page_size, &mut self.outcome)?;
        Ok(&self.outcome)
    }
}
