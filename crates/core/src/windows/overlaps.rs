//! What the requests of a window met in flight, as far as the log tells it.

use crate::stack::Overlap;
use crate::stack::needs::Needs;
use crate::units::heap::HeapBytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What requests met in flight: one entry a request that it was measured for. A log without durations has none,
/// and takes no room for them. First those of the other requests in flight, then of the pages they held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlaps(Option<Box<(Needs, Needs)>>);

/// What there is where nothing was measured.
static NOTHING: (Needs, Needs) = (Needs::EMPTY, Needs::EMPTY);

impl Overlaps {
    /// Other requests in flight.
    pub fn requests(&self) -> &Needs {
        &self.measured().0
    }

    /// The pages they held.
    pub fn pages(&self) -> &Needs {
        &self.measured().1
    }

    fn measured(&self) -> &(Needs, Needs) {
        self.0.as_deref().unwrap_or(&NOTHING)
    }

    /// Counts a request's.
    pub fn insert(&mut self, overlap: Overlap) {
        let measured = self.0.get_or_insert_default();
        measured.0.insert(overlap.requests);
        measured.1.insert(overlap.pages);
    }

    /// Takes out a request's that was counted before.
    pub fn remove(&mut self, overlap: Overlap) {
        if let Some(measured) = &mut self.0 {
            measured.0.remove(overlap.requests);
            measured.1.remove(overlap.pages);
        }
    }

    /// Merges what is pending.
    pub fn consolidate(&mut self) {
        if let Some(measured) = &mut self.0 {
            measured.0.consolidate();
            measured.1.consolidate();
        }
    }

    /// Whether these, read back from a snapshot, can be added to.
    pub fn are_sound(&self) -> bool {
        self.requests().is_sound() && self.pages().is_sound()
    }

    /// All entries of several.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let measured = || parts.clone().filter_map(|part| part.0.as_deref());
        let merge = || {
            let requests = Needs::merged(measured().map(|part| &part.0));
            (requests, Needs::merged(measured().map(|part| &part.1)))
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
        let measured = <(Needs, Needs)>::deserialize(deserializer)?;
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
        overlaps.insert(Overlap { requests: 2, pages: 7 });
        overlaps.consolidate();
        assert_eq!(read(&overlaps), overlaps);
        let both = Overlaps::merged([&overlaps, &Overlaps::default(), &overlaps].into_iter());
        assert_eq!((both.requests().count_upto(2), both.pages().count_upto(6)), (2, 0));
        overlaps.remove(Overlap { requests: 2, pages: 7 });
        overlaps.consolidate();
        assert_eq!(overlaps.pages().distinct(), 0);
    }
}
