//! Which configuration each pool has, and which pool has something to publish next.

use kvset_core::pool_config::{PoolConfig, PoolConfigError};
use kvset_core::units::EventTime;
use std::collections::{BTreeMap, BTreeSet};
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

/// The smallest watermark at which each pool has something to publish.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_pool: Vec<Option<EventTime>>,
    in_order: BTreeSet<(EventTime, usize)>,
}

impl Deadlines {
    /// Notes a pool's deadline; `None` while nothing waits in it.
    pub(super) fn set(&mut self, pool: usize, deadline: Option<EventTime>) {
        if pool >= self.by_pool.len() {
            self.by_pool.resize(pool + 1, None);
        }
        if self.by_pool[pool] == deadline {
            return;
        }
        if let Some(old) = std::mem::replace(&mut self.by_pool[pool], deadline) {
            self.in_order.remove(&(old, pool));
        }
        self.in_order.extend(deadline.map(|deadline| (deadline, pool)));
    }

    /// A pool whose deadline the watermark has reached.
    pub(super) fn due(&self, watermark: EventTime) -> Option<usize> {
        self.in_order.first().filter(|(deadline, _)| *deadline <= watermark).map(|(_, pool)| *pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_deadline_is_due_first(
            settings in prop::collection::vec((0usize..6, prop::option::of(0i64..50)), 1..60),
            watermark in 0i64..50,
        ) {
            let mut deadlines = Deadlines::default();
            let mut model = BTreeMap::new();
            for (pool, deadline) in settings {
                deadlines.set(pool, deadline.map(EventTime));
                model.insert(pool, deadline);
            }
            let waiting = model.iter().filter_map(|(pool, deadline)| deadline.map(|at| (at, *pool)));
            let expected = waiting.min().filter(|(at, _)| *at <= watermark).map(|(_, pool)| pool);
            prop_assert_eq!(deadlines.due(EventTime(watermark)), expected);
        }
    }
}
