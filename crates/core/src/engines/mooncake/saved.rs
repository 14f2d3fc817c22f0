//! The store's state as plain data, for snapshots.

use super::{MooncakeCache, MooncakeRules};
use crate::stack::runs::{MAX_PAGES, RunTree, SavedRuns, StateFault};
use crate::units::PageCount;
use serde::{Deserialize, Serialize};

/// All that decides the store's future answers. Moments are in microseconds from 10^15 ms before 1970 on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMooncake {
    /// The modelled capacity, in objects.
    pub capacity: PageCount,
    /// The rules it keeps.
    pub rules: MooncakeRules,
    /// A put has failed since the last batch.
    pub failed: bool,
    /// When the store looked last.
    pub checked: u64,
    /// The last request's time stamp, when it was served, and when the next one can be.
    pub last: (u64, u64, u64),
    /// Puts that found no room, since the start.
    pub failed_puts: u64,
    /// The objects, by stamp.
    pub runs: SavedRuns,
}

impl MooncakeCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedMooncake {
        SavedMooncake {
            capacity: self.capacity(),
            rules: self.rules,
            failed: self.failed,
            checked: self.checked,
            last: self.last,
            failed_puts: self.failed_puts,
            runs: self.tree.save(self.buckets.values().map(|(list, _)| *list)),
        }
    }

    /// The store a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: a node or a run that contradicts the others, too many objects, an object
    /// without ids, a moment out of range.
    pub fn restore(saved: &SavedMooncake) -> Result<Self, StateFault> {
        let fault = |fault| StateFault { part: "cache", position: 0, fault };
        if saved.capacity.0 > MAX_PAGES {
            return Err(fault("is larger than one is modelled"));
        }
        let moments = [saved.checked, saved.last.0, saved.last.1, saved.last.2];
        if moments.iter().any(|moment| *moment > 1 << 62) {
            return Err(fault("names a moment that no request has"));
        }
        if saved.runs.pieces.iter().any(|piece| piece.node == 0) {
            return Err(fault("holds an object without an id"));
        }
        if saved.runs.pages() > saved.capacity.0 {
            return Err(fault("holds more than its capacity"));
        }
        let mut pieces = Vec::with_capacity(saved.runs.pieces.len());
        let mut store = Self::new(saved.capacity, saved.rules);
        store.tree = RunTree::restore(&saved.runs, 1, |_, piece| pieces.push(piece))?;
        for piece in pieces {
            store.file(piece);
        }
        (store.failed, store.checked, store.last) = (saved.failed, saved.checked, saved.last);
        store.failed_puts = saved.failed_puts;
        Ok(store)
    }
}

saved_as! { MooncakeCache, SavedMooncake, StateFault }
