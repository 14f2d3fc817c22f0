//! Which segment hangs where: a hash table whose buckets are cache lines.
//!
//! In a pool of many short prompts every request asks for a segment that has long left the processor's caches, or adds
//! one. Here either is one line to wait for, and it is known which before anything is read, so that it can be asked
//! for ahead of time. A table of the general kind keeps its elements apart from what tells where they are, which is two
//! lines, one after the other, and nobody learns where a new element will lie before it lies there: a pool of pages
//! that are all new waited for that half of its time.

use super::ids::{Place, ROOT, SegmentId};
use super::keys::{ChildKey, Keys};
use super::prefetch::prefetch;
use crate::units::heap::{flat, heap_bytes};

/// Entries of a bucket.
const ENTRIES: usize = 5;

/// Entries a bucket may have on average, so that one in fifteen at most has to go to the next one.
const MOST_ON_AVERAGE: usize = 3;

/// Some segments whose hashes lead here or to a bucket shortly before.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    keys: [ChildKey; ENTRIES],
    /// The segments; the root, which hangs nowhere, where an entry is free.
    ids: [SegmentId; ENTRIES],
    /// Segments that would be here had there been room, and are further on.
    passed: u32,
}

flat!(Bucket);

const EMPTY: Bucket = Bucket { keys: [ChildKey::NONE; ENTRIES], ids: [ROOT; ENTRIES], passed: 0 };

impl Bucket {
    /// The first segment with a key that `is` what is requested.
    #[inline]
    fn find(&self, key: ChildKey, is: impl Fn(SegmentId) -> bool) -> Option<SegmentId> {
        let mut entries = equal(&self.keys, key);
        while entries != 0 {
            let id = self.ids[entries.trailing_zeros() as usize];
            if id != ROOT && is(id) {
                return Some(id);
            }
            entries &= entries - 1;
        }
        None
    }

    /// The entry of a segment; one that is free, of the root.
    #[inline]
    fn entry_of(&self, id: SegmentId) -> Option<usize> {
        let entries = equal(&self.ids, id);
        (entries != 0).then(|| entries.trailing_zeros() as usize)
    }
}

/// Which of the values are equal to one, a bit each. All are compared before any is chosen: where among them the
/// right one is, no processor can guess.
#[inline]
fn equal<T: PartialEq + Copy>(values: &[T; ENTRIES], value: T) -> u32 {
    (0..).zip(values).fold(0, |equal, (entry, other)| equal | u32::from(*other == value) << entry)
}

/// Segments by what they hang below and their first ids.
#[derive(Debug)]
pub(super) struct SegmentIndex {
    keys: Keys,
    /// A power of two of them.
    buckets: Vec<Bucket>,
    entries: usize,
}

heap_bytes!(SegmentIndex { buckets; keys, entries });

impl SegmentIndex {
    pub(super) fn new() -> Self {
        Self { keys: Keys::random(), buckets: vec![EMPTY], entries: 0 }
    }

    /// Segments in the index.
    pub(super) fn len(&self) -> usize {
        self.entries
    }

    /// By which key a child at `place` is found whose first id is `first`.
    #[inline]
    pub(super) fn key(&self, place: Place, first: u64) -> ChildKey {
        self.keys.key(place, first)
    }

    /// The first id that has a key at a place.
    #[cfg(test)]
    pub(super) fn first_with(&self, key: ChildKey, place: Place) -> u64 {
        self.keys.first_with(key, place)
    }

    /// The first segment found with a key that `is` what is requested. Always in line: a request of one known page does
    /// little else.
    #[inline(always)]
    pub(super) fn find(&self, key: ChildKey, is: impl Fn(SegmentId) -> bool) -> Option<SegmentId> {
        let bucket = &self.buckets[self.home(key)];
        let found = bucket.find(key, &is);
        if found.is_some() || bucket.passed == 0 { found } else { self.find_further(key, is) }
    }

    /// The same among the segments that were no longer let into the first bucket.
    #[inline(never)]
    fn find_further(&self, key: ChildKey, is: impl Fn(SegmentId) -> bool) -> Option<SegmentId> {
        for at in self.way(key).skip(1) {
            let bucket = &self.buckets[at];
            let found = bucket.find(key, &is);
            if found.is_some() || bucket.passed == 0 {
                return found;
            }
        }
        None
    }

    /// Has brought near what [`SegmentIndex::find`] and [`SegmentIndex::insert`] read first.
    #[inline]
    pub(super) fn prefetch(&self, key: ChildKey) {
        prefetch(&self.buckets[self.home(key)]);
    }

    /// Adds a segment that is not in yet.
    #[inline]
    pub(super) fn insert(&mut self, key: ChildKey, id: SegmentId) {
        if self.entries == self.buckets.len() * MOST_ON_AVERAGE {
            self.grow();
        }
        self.entries += 1;
        self.put(key, id);
    }

    /// Takes a segment out, which is in.
    pub(super) fn remove(&mut self, key: ChildKey, id: SegmentId) {
        self.entries -= 1;
        for at in self.way(key) {
            let bucket = &mut self.buckets[at];
            if let Some(entry) = bucket.entry_of(id) {
                bucket.ids[entry] = ROOT;
                return;
            }
            bucket.passed -= 1;
        }
    }

    /// The bucket where a key is looked for first.
    #[inline]
    fn home(&self, key: ChildKey) -> usize {
        self.keys.hash(key) as usize & (self.buckets.len() - 1)
    }

    /// All buckets, in the order in which a key is looked for in them.
    #[inline]
    fn way(&self, key: ChildKey) -> impl Iterator<Item = usize> + use<> {
        let (home, count) = (self.home(key), self.buckets.len());
        (0..count).map(move |step| (home + step) & (count - 1))
    }

    #[inline]
    fn put(&mut self, key: ChildKey, id: SegmentId) {
        for at in self.way(key) {
            let bucket = &mut self.buckets[at];
            if let Some(entry) = bucket.entry_of(ROOT) {
                (bucket.keys[entry], bucket.ids[entry]) = (key, id);
                return;
            }
            bucket.passed += 1;
        }
    }

    /// Doubles the room. The hash of all that is held follows from its key, so nothing else is read.
    #[cold]
    fn grow(&mut self) {
        let buckets = vec![EMPTY; 2 * self.buckets.len()];
        let old = std::mem::replace(&mut self.buckets, buckets);
        for Bucket { keys, ids, .. } in old {
            for (key, id) in keys.into_iter().zip(ids).filter(|(_, id)| *id != ROOT) {
                self.put(key, id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::heap::HeapBytes;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn below(segment: u32) -> Place {
        Place { segment: SegmentId(segment), pages: 1 }
    }

    proptest! {
        /// Several segments may have one key, and many a first bucket.
        #[test]
        fn an_index_equals_a_map(steps in prop::collection::vec((0u64..40, 1u32..60, 0u8..4), 0..400)) {
            let mut index = SegmentIndex::new();
            let mut model: HashMap<u32, u64> = HashMap::new();
            for (first, id, action) in steps {
                match (action, model.get(&id).copied()) {
                    (0, Some(first)) => {
                        index.remove(index.key(below(7), first), SegmentId(id));
                        model.remove(&id);
                    }
                    (_, None) => {
                        index.insert(index.key(below(7), first), SegmentId(id));
                        model.insert(id, first);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.len(), model.len());
                for asked in 1..60 {
                    let found = index.find(index.key(below(7), first), |id| id == SegmentId(asked));
                    prop_assert_eq!(found.is_some(), model.get(&asked) == Some(&first));
                }
            }
            let passed: u32 = index.buckets.iter().map(|bucket| bucket.passed).sum();
            for (id, first) in model {
                index.remove(index.key(below(7), first), SegmentId(id));
            }
            prop_assert!(index.buckets.iter().all(|bucket| bucket.passed == 0), "{} before", passed);
        }
    }

    /// Two buckets, each of which a segment of its own had to pass: a search for what is not there meets none that
    /// ends it.
    #[test]
    fn a_search_ends_where_every_bucket_was_passed() {
        let mut index = SegmentIndex::new();
        (1..=5).for_each(|id| index.insert(index.key(below(0), 0), SegmentId(id)));
        assert_eq!(index.buckets.len(), 2);
        let home = |index: &SegmentIndex, first: u64| index.home(index.key(below(0), first));
        let other =
            (1..).find(|first| home(&index, *first) != home(&index, 0)).expect("keys of both buckets");
        index.insert(index.key(below(0), 0), SegmentId(6));
        (1..=5).for_each(|id| index.remove(index.key(below(0), 0), SegmentId(id)));
        (11..=15).for_each(|id| index.insert(index.key(below(0), other), SegmentId(id)));
        assert!(index.buckets.iter().all(|bucket| bucket.passed > 0));
        assert_eq!(index.find(index.key(below(0), other), |_| false), None);
    }

    #[test]
    fn a_segment_costs_43_bytes_at_most_and_few_are_far_from_home() {
        let mut index = SegmentIndex::new();
        for id in 1..=MOST_ON_AVERAGE as u32 * (1 << 15) {
            index.insert(index.key(below(id % 1000), u64::from(id)), SegmentId(id));
            assert!(index.entries <= 3 || index.heap_bytes() <= 43 * index.entries);
        }
        let passed: u32 = index.buckets.iter().map(|bucket| bucket.passed).sum();
        assert!(passed < index.entries as u32 / 12, "{passed} steps beyond the first bucket");
    }
}
