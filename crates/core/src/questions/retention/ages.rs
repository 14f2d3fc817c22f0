//! A multiset of ages in milliseconds, exact until there are very many different ones.

use crate::request::outcome::BEYOND;
use crate::stack::needs::Needs;
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;

/// Insertions between two looks at how many there are: until then they are kept as they come, since a selection among
/// them costs less than sorting does.
const LOOK_EVERY: u32 = 1 << 16;

/// Ages up to here are told to the millisecond: 24 days.
const EXACT_BITS: u32 = 31;

/// Significant bits of what is older.
const LONG_BITS: u32 = 24;

/// Ages, each rounded down to a multiple of `2^shift` milliseconds. The shift is 0 until more different ages were
/// seen than are kept; then it grows by one at a time. One of more than 24 days is told to 24 bits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ages {
    /// But for the latest.
    needs: Needs,
    /// The latest, as they came: four bytes each instead of a place among the others.
    #[serde(skip)]
    recent: Vec<u32>,
    /// Different ages kept at most.
    most: u32,
    shift: u32,
    /// Since the last look.
    inserted: u32,
    count: u64,
    untold: u64,
}

heap_bytes!(Ages { needs, recent; most, shift, inserted, count, untold });

/// Whether an age is told to the millisecond.
pub(super) fn is_exact(age_ms: u64) -> bool {
    age_ms < 1 << EXACT_BITS
}

/// An age in 32 bits, in the order of ages.
pub(super) fn narrow(age_ms: u64) -> u32 {
    let Some(exponent) = (u64::BITS - age_ms.leading_zeros()).checked_sub(EXACT_BITS + 1) else {
        return age_ms as u32;
    };
    let mantissa = age_ms >> (exponent + EXACT_BITS + 1 - LONG_BITS - 1) & ((1 << LONG_BITS) - 1);
    (1 << EXACT_BITS) + (exponent << LONG_BITS) + mantissa as u32
}

/// The smallest age of those that are reported like this.
pub(super) fn widen(narrow: u64) -> u64 {
    let Some(long) = narrow.checked_sub(1 << EXACT_BITS) else { return narrow };
    let (exponent, mantissa) = (long >> LONG_BITS, long & ((1 << LONG_BITS) - 1));
    (1 << LONG_BITS | mantissa) << (exponent + u64::from(EXACT_BITS - LONG_BITS))
}

impl Serialize for Ages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut needs = self.needs.clone();
        self.recent.iter().for_each(|age| needs.insert(u64::from(*age)));
        (needs, self.most, self.shift, self.inserted, self.count, self.untold).serialize(serializer)
    }
}

impl Ages {
    /// None yet, of which so many different ones are kept.
    pub fn new(most: u32) -> Self {
        let (needs, recent) = (Needs::default(), Vec::new());
        Self { needs, recent, most, shift: 0, inserted: 0, count: 0, untold: 0 }
    }

    /// Puts an age in; `None` for one that cannot be known.
    pub fn insert(&mut self, age_ms: Option<u64>) {
        match age_ms {
            Some(age) => self.insert_narrow(&[narrow(age)]),
            None => {
                self.count += 1;
                self.untold += 1;
                // It is no further different age, so it is not counted towards the next look.
                self.needs.insert(BEYOND);
            }
        }
    }

    /// Puts ages in that were narrowed before. Looks from time to time whether there are too many different ones; when
    /// depends on nothing but how many came.
    #[inline]
    pub(super) fn insert_narrow(&mut self, mut ages: &[u32]) {
        self.count += ages.len() as u64;
        while let Some((now, later)) = ages.split_at_checked((LOOK_EVERY - self.inserted) as usize) {
            self.recent.extend(now.iter().map(|age| age >> self.shift));
            self.inserted = 0;
            self.look();
            ages = later;
        }
        self.recent.extend(ages.iter().map(|age| age >> self.shift));
        // Fewer than are kept until the next look.
        self.inserted += ages.len() as u32;
    }

    #[cold]
    fn look(&mut self) {
        self.consolidate();
        while self.needs.distinct() > self.most as usize {
            self.needs = self.needs.halved();
            self.shift += 1;
        }
    }

    /// How many ages there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// How many cannot be known.
    pub fn untold(&self) -> u64 {
        self.untold
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ages up to 24 days are told to this many milliseconds.
    pub fn resolution_ms(&self) -> u64 {
        1 << self.shift
    }

    /// How many are at most so old.
    pub fn count_upto(&self, age_ms: u64) -> u64 {
        let most = narrow(age_ms) >> self.shift;
        let recent = self.recent.iter().filter(|age| **age <= most).count();
        self.needs.count_upto(u64::from(most)) + recent as u64
    }

    /// The nearest-rank quantiles among these and `zeros` ages of 0; `None` without any, or where one cannot be known.
    /// A share in the middle of others costs the least before them.
    pub fn quantiles(&self, shares: &[Ratio], zeros: u64) -> Vec<Option<u64>> {
        Self::quantiles_of(Cow::Borrowed(self), shares, zeros)
    }

    /// The same, of ages that may be given away.
    pub(crate) fn quantiles_of(ages: Cow<'_, Self>, shares: &[Ratio], zeros: u64) -> Vec<Option<u64>> {
        let (count, shift) = (ages.count, ages.shift);
        let mut ranked = Ranked::of(ages);
        let quantile = |share: &Ratio| {
            let rank = share.nearest_rank(count + zeros)?;
            let Some(rank) = rank.checked_sub(zeros).filter(|rank| *rank > 0) else { return Some(0) };
            let age = ranked.at(rank);
            (age != BEYOND).then(|| widen(age << shift))
        };
        shares.iter().map(quantile).collect()
    }

    /// The union of several, told as coarsely as the coarsest.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let shift = parts.clone().map(|part| part.shift).max().unwrap_or(0);
        let most = parts.clone().map(|part| part.most).max().unwrap_or(0);
        let sum = |count: fn(&Self) -> u64| parts.clone().map(count).sum();
        let (count, untold) = (sum(|part| part.count), sum(|part| part.untold));
        let as_coarse: Vec<Self> = parts
            .map(|part| {
                let mut part = part.clone();
                part.consolidate();
                for _ in part.shift..shift {
                    part.needs = part.needs.halved();
                }
                part
            })
            .collect();
        let needs = Needs::merged(as_coarse.iter().map(|part| &part.needs));
        Self { needs, recent: Vec::new(), most, shift, inserted: 0, count, untold }
    }

    /// Merges what is pending, so that reading copies nothing.
    pub fn consolidate(&mut self) {
        self.recent.sort_unstable();
        for same in self.recent.chunk_by(|one, next| one == next) {
            // At most `LOOK_EVERY` are kept as they come.
            self.needs.insert_many(u64::from(same[0]), same.len() as u32);
        }
        self.recent.clear();
        self.needs.consolidate();
    }

    /// Whether nothing is pending.
    pub fn is_consolidated(&self) -> bool {
        self.recent.is_empty() && self.needs.is_consolidated()
    }

    /// Whether these, read back from a snapshot, are ages of which so many are kept.
    pub fn are_sound(&self, most: u32) -> bool {
        self.most == most
            && self.shift <= u32::BITS
            && self.inserted < LOOK_EVERY
            && is_countable(self.count)
            && self.untold <= self.count
            && self.needs.is_sound()
    }
}

/// Ages to be read by their rank.
enum Ranked<'a> {
    /// In order, with the ranks of its parts.
    Sorted(Cow<'a, Needs>, Vec<u64>),
    /// In no order but for some places, ascending: none before one of them exceeds it, none behind undercuts it.
    Selected(Vec<u32>, Vec<usize>),
}

impl<'a> Ranked<'a> {
    fn of(ages: Cow<'a, Ages>) -> Self {
        let needs = match ages {
            Cow::Owned(ages) if ages.needs.distinct() == 0 => return Self::Selected(ages.recent, Vec::new()),
            Cow::Borrowed(ages) if ages.needs.distinct() == 0 => {
                return Self::Selected(ages.recent.clone(), Vec::new());
            }
            Cow::Borrowed(ages) if ages.is_consolidated() => Cow::Borrowed(&ages.needs),
            ages => {
                let mut ages = ages.into_owned();
                ages.consolidate();
                Cow::Owned(ages.needs)
            }
        };
        let ranks = needs.ranks();
        Self::Sorted(needs, ranks)
    }

    /// The age at this rank, counted from 1.
    fn at(&mut self, rank: u64) -> u64 {
        match self {
            Self::Sorted(needs, ranks) => needs.ranked(rank, ranks),
            Self::Selected(ages, selected) => {
                // As many as were put in since the last look.
                let at = rank as usize - 1;
                let next = selected.partition_point(|place| *place < at);
                if selected.get(next) != Some(&at) {
                    let from = next.checked_sub(1).map_or(0, |before| selected[before] + 1);
                    let upto = selected.get(next).copied().unwrap_or(ages.len());
                    ages[from..upto].select_nth_unstable(at - from);
                    selected.insert(next, at);
                }
                u64::from(ages[at])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_exact_and_grow_coarse_beyond_24_days() {
        let mut ages = Ages::new(1 << 20);
        [5, 7, 7, 90].iter().for_each(|age| ages.insert(Some(*age)));
        let at = |ages: &Ages, share: &str| ages.quantiles(&[share.parse().expect("a share")], 1)[0];
        assert_eq!(["0.2", "0.4", "0.6", "1"].map(|share| at(&ages, share)), [0, 5, 7, 90].map(Some));
        assert_eq!((ages.count_upto(6), ages.count_upto(7), ages.len()), (1, 3, 4));
        ages.insert(Some((1 << 33) + 5));
        ages.insert(None);
        assert_eq!([at(&ages, "0.8"), at(&ages, "1")], [Some(1 << 33), None]);
        assert_eq!((ages.count_upto(7), ages.resolution_ms()), (3, 1));
    }

    #[test]
    fn ages_of_any_length_keep_their_order() {
        let some = [0, 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 128, 1 << 32, 1 << 40, 1 << 63, u64::MAX];
        let told: Vec<u32> = some.iter().map(|age| narrow(*age)).collect();
        assert!(told.is_sorted_by(|one, next| one < next) && told[8] < u32::MAX, "{told:?}");
        for age in some {
            let back = widen(u64::from(narrow(age)));
            assert!(back <= age && age - back <= age >> LONG_BITS, "{age} is told as {back}");
        }
    }

    #[test]
    fn many_different_ages_are_told_coarsely_and_a_union_as_its_coarsest() {
        let (mut many, mut few) = (Ages::new(1000), Ages::new(1000));
        (0..1 << 16).for_each(|age| many.insert(Some(age)));
        [3, 9].iter().for_each(|age| few.insert(Some(*age)));
        assert!(many.resolution_ms() > 4 && few.resolution_ms() == 1);
        let all = Ages::merged([&many, &few].into_iter());
        assert_eq!((all.resolution_ms(), all.len()), (many.resolution_ms(), (1 << 16) + 2));
        let median = all.quantiles(&[Ratio::per_mille(500)], 0)[0].expect("a median");
        assert!(median.abs_diff(1 << 15) <= all.resolution_ms(), "{median}");
        assert!(all.are_sound(1000) && !all.are_sound(999));
    }
}
