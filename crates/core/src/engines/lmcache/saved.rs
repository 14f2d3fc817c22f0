//! The caches' state as plain data, for snapshots.

use super::held::HeldChunks;
use super::{LmcacheCache, LmcacheMpCache, LmcacheMpRules, LmcacheRules};
use crate::engines::hybrid::RulesError;
use crate::stack::runs::{MAX_PAGES, SavedRuns, StateFault};
use crate::units::PageCount;
use serde::{Deserialize, Serialize};

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

fn fault(fault: &'static str) -> StateFault {
    StateFault { part: "cache", position: 0, fault }
}

fn no_chunks(_: RulesError) -> StateFault {
    fault("has chunks that are no whole pages")
}

fn checked(capacity: PageCount) -> Result<PageCount, StateFault> {
    if capacity.0 > MAX_PAGES { Err(fault("is larger than one is modelled")) } else { Ok(capacity) }
}

fn held(runs: &SavedRuns, most: u64) -> Result<HeldChunks, StateFault> {
    let held = HeldChunks::restore(runs)?;
    if held.count > most { Err(fault("holds more than its capacity")) } else { Ok(held) }
}

impl LmcacheCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedLmcache<LmcacheRules, ()> {
        SavedLmcache { capacity: self.capacity(), rules: self.rules, looked: (), runs: self.held.save() }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: a node or a run that contradicts the others, too many chunks.
    pub fn restore(saved: &SavedLmcache<LmcacheRules, ()>) -> Result<Self, StateFault> {
        let mut cache = Self::new(checked(saved.capacity)?, saved.rules).map_err(no_chunks)?;
        cache.held = held(&saved.runs, cache.most())?;
        Ok(cache)
    }
}

impl LmcacheMpCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedLmcache<LmcacheMpRules, Option<i64>> {
        let (capacity, looked) = (self.capacity(), self.looked);
        SavedLmcache { capacity, rules: self.rules, looked, runs: self.held.save() }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: a node or a run that contradicts the others, too many chunks.
    pub fn restore(saved: &SavedLmcache<LmcacheMpRules, Option<i64>>) -> Result<Self, StateFault> {
        let mut cache = Self::new(checked(saved.capacity)?, saved.rules).map_err(no_chunks)?;
        cache.held = held(&saved.runs, cache.most())?;
        cache.looked = saved.looked;
        Ok(cache)
    }
}

saved_as! { LmcacheCache, SavedLmcache<LmcacheRules, ()>, StateFault }

saved_as! { LmcacheMpCache, SavedLmcache<LmcacheMpRules, Option<i64>>, StateFault }
