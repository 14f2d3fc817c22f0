//! The caches' state as plain data, for snapshots.

use super::held::HeldChunks;
use super::{ChunkRules, LmcacheCache};
use crate::stack::runs::{MAX_PAGES, SavedRuns, StateFault};
use crate::units::PageCount;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// All that decides the future answers of a cache of these rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedLmcache<Rules, Looked> {
    /// The modelled capacity, in pages of the log.
    pub capacity: PageCount,
    /// The rules it keeps.
    pub rules: Rules,
    /// Of a process of its own, the whole second of event time at which its loop looked last; nothing in the engine's
    /// process.
    pub looked: Looked,
    /// The chunks, oldest first.
    pub runs: SavedRuns,
}

impl<R: ChunkRules> LmcacheCache<R> {
    /// The state as plain data.
    pub fn save(&self) -> SavedLmcache<R, R::Memory> {
        let (capacity, rules, looked) = (self.capacity(), self.rules, self.memory);
        SavedLmcache { capacity, rules, looked, runs: self.held.save() }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: a node or a run that contradicts the others, too many chunks.
    pub fn restore(saved: &SavedLmcache<R, R::Memory>) -> Result<Self, StateFault> {
        let fault = |fault| StateFault { part: "cache", position: 0, fault };
        if saved.capacity.0 > MAX_PAGES {
            return Err(fault("is larger than one is modelled"));
        }
        let mut cache = Self::new(saved.capacity, saved.rules)
            .map_err(|_| fault("has chunks that are no whole pages"))?;
        cache.held = HeldChunks::restore(&saved.runs)?;
        if cache.held.count > cache.most() {
            return Err(fault("holds more than its capacity"));
        }
        cache.memory = saved.looked;
        Ok(cache)
    }
}

impl<R: ChunkRules> Serialize for LmcacheCache<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.save().serialize(serializer)
    }
}

impl<'de, R: ChunkRules> Deserialize<'de> for LmcacheCache<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::restore(&SavedLmcache::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
