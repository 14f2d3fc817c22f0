//! What one measured request adds to windows.

use super::reading::{CachedPages, Reading};
use crate::found::FoundRun;
use crate::outcome::Outcome;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// One measured request as every window counts it. Pages are followed pages, but for those of
/// [`MeasuredTally::cached_pages`](super::MeasuredTally::cached_pages).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredShare {
    pub(super) cached: u64,
    pub(super) hits: u64,
    pub(super) page_accesses: u64,
    pub(super) unlimited: u64,
    pub(super) reading: Reading,
    /// The larger of what could be reused and of what hit.
    weight: u64,
    /// What one cache shared by all replicas says.
    shared: Vec<FoundRun>,
    /// What the cache that served it says, where the log names that.
    routed: Option<Vec<FoundRun>>,
}

impl MeasuredShare {
    /// What the engine says of a request, what one shared cache does, and what the cache that served it does
    /// where the log names that.
    pub fn of(cached: CachedPages, shared: &Outcome, routed: Option<&Outcome>) -> Self {
        let served_by = routed.unwrap_or(shared);
        let hits = cached.followed;
        Self {
            cached: cached.all,
            hits,
            page_accesses: shared.page_accesses,
            unlimited: shared.reusable_prefix(),
            reading: Reading::of(hits, served_by),
            weight: hits.max(served_by.reusable_prefix()),
            shared: runs(shared),
            routed: routed.map(runs),
        }
    }

    /// Whether this, read back from a snapshot, can be counted.
    pub fn is_sound(&self) -> bool {
        let mut found = self.shared.iter().chain(self.routed.iter().flatten());
        let beyond = match self.reading {
            Reading::BeyondLog { pages } => pages,
            Reading::Between { .. } => 0,
        };
        let pages = [self.cached, self.hits, self.page_accesses, self.unlimited, self.weight, beyond];
        pages.into_iter().all(is_countable) && found.all(FoundRun::is_of_an_engine)
    }

    /// What it tells of the cache that served it, with its weight in pages; nothing where it can tell nothing.
    pub(super) fn told(&self) -> Option<(Reading, u64)> {
        (self.weight > 0).then_some((self.reading, self.weight))
    }

    /// What one shared cache finds.
    pub(super) fn shared(&self) -> &[FoundRun] {
        &self.shared
    }

    /// What the cache that served it finds, where the log names that.
    pub(super) fn routed(&self) -> Option<&[FoundRun]> {
        self.routed.as_deref()
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        let runs = self.shared.capacity() + self.routed.as_ref().map_or(0, Vec::capacity);
        size_of::<Self>() + runs * size_of::<FoundRun>()
    }
}

fn runs(outcome: &Outcome) -> Vec<FoundRun> {
    let mut runs = Vec::with_capacity(outcome.runs.len());
    runs.extend(outcome.runs.iter().filter_map(FoundRun::of));
    runs
}
