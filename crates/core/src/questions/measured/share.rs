//! What one measured request adds to windows.

use super::counts::Counts;
use super::reading::{CachedPages, Explanation, MeasuredReading};
use crate::questions::counters::Share;
use crate::request::outcome::Outcome;
use crate::sizing::exact_curve::FoundRun;
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// One measured request as every window counts it. Pages are followed pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredShare {
    pub(super) counts: Counts,
    reading: MeasuredReading,
    /// The larger of what could be reused and of what hit.
    weight: u64,
    /// What one cache shared by all replicas says.
    shared: Vec<FoundRun>,
    /// What the cache that served it says, where the log names that.
    routed: Option<Vec<FoundRun>>,
}

heap_bytes!(MeasuredShare { shared, routed; counts, reading, weight });

impl MeasuredShare {
    /// What the engine says of a request, what one shared cache does, what the cache that served it does where the log
    /// names that, and how far the log explains what was found there.
    pub fn of(
        cached: CachedPages,
        shared: &Outcome,
        routed: Option<&Outcome>,
        explanation: Explanation,
    ) -> Self {
        let hits = cached.followed;
        let shared = explanation.in_cache(hits, shared);
        let routed = routed.map(|routed| explanation.in_cache(hits, routed));
        let served_by = routed.as_ref().unwrap_or(&shared);
        Self {
            counts: Counts::of(cached, &shared, shared.reusable_prefix(), explanation),
            reading: MeasuredReading::of(hits, served_by),
            weight: hits.max(served_by.reusable_prefix()),
            shared: runs(&shared),
            routed: routed.as_deref().map(runs),
        }
    }

    /// What it tells of the cache that served it, with its weight in pages; nothing where it can tell nothing.
    pub(super) fn reading(&self) -> Option<(MeasuredReading, u64)> {
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
}

fn runs(outcome: &Outcome) -> Vec<FoundRun> {
    let mut runs = Vec::with_capacity(outcome.runs.len());
    runs.extend(outcome.runs.iter().filter_map(FoundRun::of));
    runs
}

impl Share for MeasuredShare {
    type Shape = ();

    fn is_sound(&self, (): ()) -> bool {
        let mut found = self.shared.iter().chain(self.routed.iter().flatten());
        let beyond = match self.reading {
            MeasuredReading::BeyondLog { pages } => pages,
            MeasuredReading::Between { .. } => 0,
        };
        self.counts.are_sound()
            && [self.weight, beyond].into_iter().all(is_countable)
            && found.all(FoundRun::is_of_an_engine)
    }
}
