//! The latest measured requests as they came, before they are sorted into multisets.
//!
//! A window is read at two capacities, once or now and then: a pass over the latest runs costs less than sorting each
//! in as it comes.

use super::reading::MeasuredReading;
use super::share::MeasuredShare;
use crate::request::outcome::Need;
use crate::sizing::exact_curve::{FoundPages, FoundRun};
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// Requests kept as they came at most: a megabyte.
const MOST: usize = 1 << 13;

/// Requests in the order they came in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Latest {
    /// What those tell that can, each with the larger of what it could reuse and of what hit.
    pub(super) readings: Vec<(MeasuredReading, u64)>,
    /// The runs of requests of which the log does not say what served them.
    pub(super) alone: Vec<FoundRun>,
    /// Of the others, what one cache finds and what their replicas do.
    pub(super) shared: Vec<FoundRun>,
    pub(super) routed: Vec<FoundRun>,
}

heap_bytes!(Latest { readings, alone, shared, routed });

impl Latest {
    /// Takes a request in; whether there are so many that they should be sorted.
    pub(super) fn push(&mut self, request: &MeasuredShare) -> bool {
        self.readings.extend(request.reading());
        match request.routed() {
            None => self.alone.extend(request.shared()),
            Some(routed) => {
                self.shared.extend(request.shared());
                self.routed.extend(routed);
            }
        }
        self.readings.len() >= MOST
    }

    /// Forgets them, but for their room.
    pub(super) fn clear(&mut self) {
        self.readings.clear();
        [&mut self.alone, &mut self.shared, &mut self.routed].into_iter().for_each(Vec::clear);
    }

    /// Whether these, read back from a snapshot, can be counted.
    pub(super) fn are_sound(&self) -> bool {
        let runs = self.alone.iter().chain(&self.shared).chain(&self.routed);
        self.readings.len() < MOST
            && self.readings.iter().all(|(_, pages)| is_countable(*pages))
            && runs.into_iter().all(FoundRun::is_of_an_engine)
    }

    /// Takes others in behind these; whether there are so many that they should be sorted.
    pub(super) fn append(&mut self, other: &Self) -> bool {
        self.readings.extend(&other.readings);
        self.alone.extend(&other.alone);
        self.shared.extend(&other.shared);
        self.routed.extend(&other.routed);
        self.readings.len() >= MOST
    }
}

/// Pages that a cache of so many (followed) pages finds, of the sorted runs and of the latest.
pub(super) fn hits_at(sorted: &FoundPages, latest: &[FoundRun], pages: Need) -> u64 {
    sorted.hits_at(pages) + latest.iter().map(|run| run.hits_at(pages)).sum::<u64>()
}
