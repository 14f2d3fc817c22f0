//! Which configuration each pool has.

use crate::pool_config::{PoolConfig, PoolConfigError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The configuration of every pool: by name, or the one that holds for all others.
#[derive(Debug, Clone)]
pub struct PoolConfigs {
    default: Arc<PoolConfig>,
    named: BTreeMap<String, Arc<PoolConfig>>,
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
        default.check()?;
        let checked = |(name, config): (String, PoolConfig)| {
            config.check()?;
            Ok((name, Arc::new(config)))
        };
        let named = named.into_iter().map(checked).collect::<Result<_, PoolConfigError>>()?;
        Ok(Self { default: Arc::new(default), named })
    }

    /// The configuration of the pool of this name.
    pub fn of(&self, name: &str) -> &Arc<PoolConfig> {
        self.named.get(name).unwrap_or(&self.default)
    }

    /// The configuration of pools that have none of their own.
    pub fn default_pool(&self) -> &PoolConfig {
        &self.default
    }
}
