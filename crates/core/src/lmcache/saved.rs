//! The cache's state as plain data, for snapshots.

use super::{LmcacheCache, LmcacheRules};
use crate::runs::{MAX_PAGES, RunTree, SavedRuns, StateFault};
use crate::units::PageCount;
use serde::{Deserialize, Serialize, Serializer};

/// All that decides the cache's future answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedLmcache {
    /// The modelled capacity, in pages of the log.
    pub capacity: PageCount,
    /// The rules it keeps.
    pub rules: LmcacheRules,
    /// The chunks, oldest first.
    pub runs: SavedRuns,
}

impl LmcacheCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedLmcache {
        SavedLmcache { capacity: self.capacity(), rules: self.rules, runs: self.tree.save([self.queue]) }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: a node or a run that contradicts the others, too many chunks.
    pub fn restore(saved: &SavedLmcache) -> Result<Self, StateFault> {
        let fault = |fault| StateFault { part: "cache", position: 0, fault };
        if saved.capacity.0 > MAX_PAGES {
            return Err(fault("is larger than one is modelled"));
        }
        let mut cache = Self::new(saved.capacity, saved.rules)
            .map_err(|_| fault("has chunks that are no whole pages"))?;
        let mut queue = None;
        let tree = RunTree::restore(&saved.runs, 1, |tree, piece| {
            let list = *queue.get_or_insert_with(|| tree.arena.new_list());
            tree.arena.push(list, piece);
        })?;
        if let Some(queue) = queue {
            (cache.tree, cache.queue) = (tree, queue);
        }
        cache.resident = saved.runs.pages();
        if cache.resident > cache.chunks() {
            return Err(fault("holds more than its capacity"));
        }
        Ok(cache)
    }
}

impl Serialize for LmcacheCache {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.save().serialize(serializer)
    }
}

impl TryFrom<SavedLmcache> for LmcacheCache {
    type Error = StateFault;

    fn try_from(saved: SavedLmcache) -> Result<Self, StateFault> {
        Self::restore(&saved)
    }
}
