//! The keys by which the index finds children.
//!
//! An index that grows places all it holds anew. If it had to be told by a segment's place where it goes, it would
//! read every segment, in the order of the index, which is none; a key says it without.

use super::ids::Place;
use foldhash::fast::{FixedState, RandomState};
use std::hash::BuildHasher;

/// What says, with the place, which child of it this is: no two first ids have the same key at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct ChildKey(u64);

/// How keys are made in one tree. Nothing that leaves the tree depends on it, so it is another one in each: who makes
/// ids does not know which of them meet in the index.
#[derive(Debug)]
pub(super) struct Keys {
    odd: u64,
    hasher: FixedState,
}

impl ChildKey {
    /// Of no child in particular.
    pub(super) const NONE: Self = Self(0);
}

impl Keys {
    pub(super) fn random() -> Self {
        let state = RandomState::default();
        Self { odd: state.hash_one(0u64) | 1, hasher: FixedState::with_seed(state.hash_one(1u64)) }
    }

    /// The key of the child at `place` whose first id is `first`.
    #[inline]
    pub(super) fn key(&self, place: Place, first: u64) -> ChildKey {
        let place = u64::from(place.segment.0) << 32 | u64::from(place.pages);
        ChildKey(first ^ place.wrapping_mul(self.odd))
    }

    /// The first id that has a key at a place.
    #[cfg(test)]
    pub(super) fn first_with(&self, key: ChildKey, place: Place) -> u64 {
        self.key(place, key.0).0
    }

    /// Where in the index a key is.
    #[inline]
    pub(super) fn hash(&self, key: ChildKey) -> u64 {
        self.hasher.hash_one(key.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::SegmentId;
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn at_one_place_a_key_tells_the_first_id(segment in any::<u32>(), pages in any::<u32>(), a: u64, b: u64) {
            let (keys, place) = (Keys::random(), Place { segment: SegmentId(segment), pages });
            prop_assert_eq!(keys.key(place, a) == keys.key(place, b), a == b);
        }
    }

    /// Neighbouring places with neighbouring ids, and places that follow one another with the same id.
    #[test]
    fn keys_of_places_and_ids_that_are_alike_spread_over_the_index() {
        let keys = Keys::random();
        let place = |segment, pages| Place { segment: SegmentId(segment), pages };
        let small = (0..64).flat_map(|segment| (0..16).map(move |pages| place(segment, pages)));
        let all = small.flat_map(|place| (0..64).map(move |id| (place, id)));
        let all = all.chain((0..1 << 16).map(|pages| (place(7, pages), 1 << 40)));
        let all: Vec<u64> = all.map(|(place, id)| keys.hash(keys.key(place, id))).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "each its own");
        for shift in [0, 54] {
            let mut counts = vec![0; 1 << 10];
            all.iter().for_each(|key| counts[(key >> shift) as usize % (1 << 10)] += 1);
            assert!(
                counts.iter().all(|count| (64..256).contains(count)),
                "128 of {} in each part",
                all.len()
            );
        }
    }
}
