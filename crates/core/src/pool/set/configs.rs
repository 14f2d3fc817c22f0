//! Which configuration each pool has.

use crate::estimate::config::{PoolConfig, PoolConfigError};
use crate::pool::PoolKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The configuration of every pool: by name, or the one that holds for all others.
#[derive(Debug, Clone)]
pub struct PoolConfigs {
    default: Arc<PoolKind>,
    named: BTreeMap<String, Arc<PoolKind>>,
}

impl PoolConfigs {
    /// Checks every configuration once, so that creating a pool later cannot fail on it.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn new(
        default: PoolConfig,
        named: impl IntoIterator<Item = (String, PoolConfig)>,
    ) -> Result<Self, PoolConfigError> {
        let kind = |config: PoolConfig| PoolKind::new(Arc::new(config)).map(Arc::new);
        let default = kind(default)?;
        let named = named.into_iter().map(|(name, config)| Ok((name, kind(config)?)));
        Ok(Self { default, named: named.collect::<Result<_, PoolConfigError>>()? })
    }

    /// The configuration of the pool of this name.
    pub fn of(&self, name: &str) -> &Arc<PoolConfig> {
        self.kind_of(name).config()
    }

    /// The same with what follows from it.
    pub fn kind_of(&self, name: &str) -> &Arc<PoolKind> {
        self.named.get(name).unwrap_or(&self.default)
    }

    /// Whether records of any pool may be held back.
    pub fn hold_back(&self) -> bool {
        self.kinds().any(|kind| kind.hold_back_ms().is_some())
    }

    /// Whether the configuration of any pool is such a one.
    pub fn any(&self, is: impl Fn(&PoolConfig) -> bool) -> bool {
        self.kinds().any(|kind| is(kind.config()))
    }

    fn kinds(&self) -> impl Iterator<Item = &Arc<PoolKind>> {
        self.named.values().chain([&self.default])
    }

    /// The configuration of pools that have none of their own.
    pub fn default_pool(&self) -> &PoolConfig {
        self.default.config()
    }
}
