//! Where many capacities end in the stack, side by side: what [`Boundary`] follows for one, at a fraction of the cost.
//!
//! A larger capacity never ends at a younger request. So the capacities that pages are taken from are the largest
//! ones, a search finds where they begin, and all further ones are one sum.

use super::boundary::Boundary;
use super::holders::{Holders, Packed};
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One entry per capacity each, ascending.
#[derive(Debug)]
pub(crate) struct Boundaries {
    /// In followed pages.
    capacities: Vec<u64>,
    /// The oldest request from which on all fits: the boundary is the one before it.
    fits_from: Vec<u32>,
    /// Pages from there on, of capacities that something did not fit into.
    younger: Vec<u64>,
    /// When the boundary request came, in milliseconds; nothing where there is none.
    times_ms: Vec<i64>,
    /// So many capacities were too small for something so far.
    full: usize,
}

heap_bytes!(Boundaries { capacities, fits_from, younger, times_ms; full });

impl Boundaries {
    /// Of empty caches of so many pages, ascending.
    pub(crate) fn at(capacities: &[u64]) -> Self {
        capacities.iter().map(|capacity| Boundary::at(*capacity)).collect::<Vec<_>>().into()
    }

    /// Follows a request that has taken its `pages` over.
    pub(crate) fn follow(&mut self, holders: &Holders, pages: u32) {
        let younger = &mut self.younger[..self.full];
        younger.iter_mut().for_each(|younger| *younger += u64::from(pages));
        for taken in holders.taken() {
            let Some(from) = taken.from else { continue };
            let first = self.fits_from[..self.full].partition_point(|fits_from| *fits_from > from);
            younger[first..].iter_mut().for_each(|younger| *younger -= u64::from(taken.pages));
        }
        while self.capacities.get(self.full).is_some_and(|capacity| *capacity < holders.total()) {
            self.younger[self.full] = holders.total();
            self.full += 1;
        }
        let entries = holders.entries();
        let ends = self.fits_from[..self.full].iter_mut().zip(&mut self.times_ms);
        for ((younger, capacity), (fits_from, time_ms)) in
            self.younger.iter_mut().zip(&self.capacities).zip(ends)
        {
            if *younger <= *capacity {
                continue;
            }
            // What fits begins behind the last of those that are dropped here.
            let (mut left, mut from) = (*younger, *fits_from);
            for holder in &entries[from as usize..] {
                left -= u64::from(holder.pages);
                from += 1;
                if left <= *capacity {
                    *time_ms = holder.time.0;
                    break;
                }
            }
            (*younger, *fits_from) = (left, from);
        }
    }

    /// How long ago the pages were touched that each capacity drops, in milliseconds, ascending; those from there on
    /// drop nothing.
    pub(crate) fn ages_ms(
        &self,
        holders: &Holders,
    ) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + Clone {
        let now = holders.now().0;
        let dropping = self.fits_from.partition_point(|fits_from| *fits_from > 0);
        // Nothing was touched after now, so the difference fits, as far as time reaches.
        self.times_ms[..dropping].iter().map(move |time| now.wrapping_sub(*time) as u64)
    }

    /// Completes what was read back from a snapshot; whether it is where such capacities end in the list.
    pub(crate) fn resume(&mut self, capacities: &[u64], holders: &Holders) -> bool {
        let sound = self.capacities == capacities
            && self.fits_from.is_sorted_by(|one, next| one >= next)
            && self.each().zip(capacities).all(|(boundary, pages)| boundary.is_sound(*pages, holders));
        if sound {
            self.read_times(holders);
        }
        sound
    }

    /// Follows the list as it was packed.
    pub(crate) fn renumber(&mut self, packed: &Packed, holders: &Holders) {
        let moved: Vec<_> = self
            .each()
            .map(|mut boundary| {
                boundary.renumber(packed);
                boundary
            })
            .collect();
        *self = moved.into();
        self.read_times(holders);
    }

    fn read_times(&mut self, holders: &Holders) {
        for (time, fits_from) in self.times_ms.iter_mut().zip(&self.fits_from) {
            let end = fits_from.checked_sub(1).map(|end| holders.entries()[end as usize]);
            *time = end.map_or(0, |end| end.time.0);
        }
    }

    fn each(&self) -> impl Iterator<Item = Boundary> + '_ {
        (0..self.capacities.len()).map(|at| Boundary {
            capacity: self.capacities[at],
            end: self.fits_from[at].checked_sub(1),
            is_full: at < self.full,
            younger: self.younger[at],
        })
    }
}

impl From<Vec<Boundary>> for Boundaries {
    fn from(each: Vec<Boundary>) -> Self {
        Self {
            capacities: each.iter().map(|boundary| boundary.capacity).collect(),
            fits_from: each.iter().map(|boundary| boundary.end.map_or(0, |end| end + 1)).collect(),
            younger: each.iter().map(|boundary| boundary.younger).collect(),
            times_ms: vec![0; each.len()],
            full: each.iter().take_while(|boundary| boundary.is_full).count(),
        }
    }
}

impl Serialize for Boundaries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.each())
    }
}

impl<'de> Deserialize<'de> for Boundaries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Boundary>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::lifetimes::naive::{StackModel, profiles, timed_requests};
    use crate::units::PageCount;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn many_capacities_end_where_each_ends_by_itself(
            requests in timed_requests(60), profile in profiles(), bound in 20u64..60,
        ) {
            let capacities = [1, 2, 5, 5, 9, 14, 20];
            let (mut model, mut holders) = (StackModel::new(profile, bound), Holders::new(PageCount(bound)));
            let mut many = Boundaries::at(&capacities);
            let mut each = capacities.map(Boundary::at);
            for request in &requests {
                if holders.is_crowded() {
                    let packed = holders.pack();
                    many.renumber(&packed, &holders);
                    each.iter_mut().for_each(|boundary| boundary.renumber(&packed));
                }
                let (time, outcome, _) = model.observe(request);
                holders.advance(time);
                let pages = holders.take(&outcome, 0);
                many.follow(&holders, pages);
                each.iter_mut().for_each(|boundary| boundary.follow(&holders, pages, |_, _| {}));
                let ages: Vec<_> = many.ages_ms(&holders).collect();
                let own = each.iter().map_while(|boundary| boundary.end.map(|end| holders.age_at(end)));
                prop_assert_eq!(&ages, &own.collect::<Vec<_>>());
                prop_assert!(each[ages.len()..].iter().all(|boundary| boundary.end.is_none()));
                holders.forget_beyond_bound(|_, _, _| {});
                let bytes = postcard::to_allocvec(&many).expect("memory");
                prop_assert_eq!(&bytes, &postcard::to_allocvec(&each.to_vec()).expect("memory"));
                let mut back: Boundaries = postcard::from_bytes(&bytes).expect("what was written");
                prop_assert!(back.resume(&capacities, &holders));
                prop_assert_eq!(back.ages_ms(&holders).collect::<Vec<_>>(), ages);
            }
        }
    }
}
