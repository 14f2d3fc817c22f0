//! What the requests of a window met in flight, as far as the log tells it.

use crate::stack::Overlap;
use crate::stack::needs::Needs;
use crate::units::heap::{HeapBytes, heap_bytes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What requests met in flight: one entry a request that it was measured for. A log without durations has none,
/// and takes no room for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlaps(Option<Box<MeasuredOverlaps>>);

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct MeasuredOverlaps {
    requests: Needs,
    pages: Needs,
    room: Needs,
}

heap_bytes!(MeasuredOverlaps { requests, pages, room });

/// What there is where nothing was measured.
static NOTHING: MeasuredOverlaps =
    MeasuredOverlaps { requests: Needs::EMPTY, pages: Needs::EMPTY, room: Needs::EMPTY };

impl Overlaps {
    /// Other requests in flight.
    pub fn requests(&self) -> &Needs {
        &self.measured().requests
    }

    /// The pages they held.
    pub fn pages(&self) -> &Needs {
        &self.measured().pages
    }

    /// The pages that all had to have room for; none where requests are taken one after another.
    pub fn room(&self) -> &Needs {
        &self.measured().room
    }

    fn measured(&self) -> &MeasuredOverlaps {
        self.0.as_deref().unwrap_or(&NOTHING)
    }

    /// Counts a request's.
    pub fn insert(&mut self, overlap: Overlap) {
        let measured = self.0.get_or_insert_default();
        measured.requests.insert(overlap.requests);
        measured.pages.insert(overlap.pages);
        overlap.room.into_iter().for_each(|pages| measured.room.insert(pages));
    }

    /// Takes out a request's that was counted before.
    pub fn remove(&mut self, overlap: Overlap) {
        if let Some(measured) = &mut self.0 {
            measured.requests.remove(overlap.requests);
            measured.pages.remove(overlap.pages);
            overlap.room.into_iter().for_each(|pages| measured.room.remove(pages));
        }
    }

    /// Merges what is pending.
    pub fn consolidate(&mut self) {
        if let Some(measured) = &mut self.0 {
            let MeasuredOverlaps { requests, pages, room } = &mut **measured;
            [requests, pages, room].into_iter().for_each(Needs::consolidate);
        }
    }

    /// Whether these, read back from a snapshot, can be added to.
    pub fn are_sound(&self) -> bool {
        [self.requests(), self.pages(), self.room()].into_iter().all(Needs::is_sound)
    }

    /// All entries of several.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let measured = || parts.clone().filter_map(|part| part.0.as_deref());
        let merge = || MeasuredOverlaps {
            requests: Needs::merged(measured().map(|part| &part.requests)),
            pages: Needs::merged(measured().map(|part| &part.pages)),
            room: Needs::merged(measured().map(|part| &part.room)),
        };
        Self(measured().next().is_some().then(|| Box::new(merge())))
    }
}

impl HeapBytes for Overlaps {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl Serialize for Overlaps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.measured().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Overlaps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let measured = MeasuredOverlaps::deserialize(deserializer)?;
        Ok(Self((measured != NOTHING).then(|| Box::new(measured))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_reads_back_and_nothing_takes_no_room() {
        let read = |overlaps: &Overlaps| -> Overlaps {
            postcard::from_bytes(&postcard::to_allocvec(overlaps).expect("memory")).expect("what was written")
        };
        let mut overlaps = Overlaps::default();
        assert_eq!((read(&overlaps), overlaps.heap_bytes()), (Overlaps::default(), 0));
        overlaps.insert(Overlap { requests: 2, pages: 7, room: Some(9) });
        overlaps.consolidate();
        assert_eq!(read(&overlaps), overlaps);
        let both = Overlaps::merged([&overlaps, &Overlaps::default(), &overlaps].into_iter());
        let counts = (both.requests().count_upto(2), both.pages().count_upto(6), both.room().count_upto(9));
        assert_eq!(counts, (2, 0, 2));
        overlaps.remove(Overlap { requests: 2, pages: 7, room: Some(9) });
        overlaps.consolidate();
        assert_eq!(overlaps.pages().distinct(), 0);
    }
}
