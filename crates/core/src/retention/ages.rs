//! A multiset of ages in milliseconds, exact until there are very many different ones.

use crate::needs::Needs;
use crate::outcome::BEYOND;
use crate::ratio::Ratio;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// Insertions between two looks at how many there are.
const LOOK_EVERY: u32 = 1 << 12;

/// Ages up to here are told to the millisecond: 24 days.
const EXACT_BITS: u32 = 31;

/// Significant bits of what is older.
const LONG_BITS: u32 = 24;

/// Ages, each rounded down to a multiple of `2^shift` milliseconds. The shift is 0 until more different ages were
/// seen than are kept; then it grows by one at a time. One of more than 24 days is told to 24 bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ages {
    needs: Needs,
    /// Different ages kept at most.
    most: u32,
    shift: u32,
    inserted: u32,
    count: u64,
    untold: u64,
}

/// An age in 32 bits, in the order of ages.
fn narrow(age_ms: u64) -> u64 {
    let Some(exponent) = (u64::BITS - age_ms.leading_zeros()).checked_sub(EXACT_BITS + 1) else {
        return age_ms;
    };
    let mantissa = age_ms >> (exponent + EXACT_BITS + 1 - LONG_BITS - 1) & ((1 << LONG_BITS) - 1);
    (1 << EXACT_BITS) + (u64::from(exponent) << LONG_BITS) + mantissa
}

/// The smallest age of those that are told like this.
fn widen(narrow: u64) -> u64 {
    let Some(long) = narrow.checked_sub(1 << EXACT_BITS) else { return narrow };
    let (exponent, mantissa) = (long >> LONG_BITS, long & ((1 << LONG_BITS) - 1));
    (1 << LONG_BITS | mantissa) << (exponent + u64::from(EXACT_BITS - LONG_BITS))
}

impl Ages {
    /// None yet, of which so many different ones are kept.
    pub fn new(most: u32) -> Self {
        Self { needs: Needs::default(), most, shift: 0, inserted: 0, count: 0, untold: 0 }
    }

    /// Puts an age in; `None` for one that cannot be told.
    pub fn insert(&mut self, age_ms: Option<u64>) {
        self.count += 1;
        let Some(age) = age_ms else {
            self.untold += 1;
            return self.needs.insert(BEYOND);
        };
        self.needs.insert(narrow(age) >> self.shift);
        self.inserted += 1;
        if self.inserted == LOOK_EVERY {
            self.inserted = 0;
            while self.needs.distinct() > self.most as usize {
                self.coarsen();
            }
        }
    }

    /// How many ages there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// How many cannot be told.
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
        self.needs.count_upto(narrow(age_ms) >> self.shift)
    }

    /// The nearest-rank quantile among these and `zeros` ages of 0; `None` without any, or where it cannot be told.
    pub fn quantile(&self, share: Ratio, zeros: u64) -> Option<u64> {
        let rank = share.nearest_rank(self.count + zeros)?;
        let Some(rank) = rank.checked_sub(zeros).filter(|rank| *rank > 0) else { return Some(0) };
        let needs = self.needs.consolidated();
        let age = needs.ranked(rank, &needs.ranks());
        (age != BEYOND).then(|| widen(age << self.shift))
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
                while part.shift < shift {
                    part.coarsen();
                }
                part
            })
            .collect();
        let needs = Needs::merged(as_coarse.iter().map(|part| &part.needs));
        Self { needs, most, shift, inserted: 0, count, untold }
    }

    /// Merges what is pending, so that reading copies nothing.
    pub fn consolidate(&mut self) {
        self.needs.consolidate();
    }

    /// Whether nothing is pending.
    pub fn is_consolidated(&self) -> bool {
        self.needs.is_consolidated()
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

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        self.needs.memory_bytes()
    }

    fn coarsen(&mut self) {
        self.needs = self.needs.halved();
        self.shift += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_exact_and_grow_coarse_beyond_24_days() {
        let mut ages = Ages::new(1 << 20);
        [5, 7, 7, 90].iter().for_each(|age| ages.insert(Some(*age)));
        let at = |ages: &Ages, share: &str| ages.quantile(share.parse().expect("a share"), 1);
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
        let told: Vec<u64> = some.iter().map(|age| narrow(*age)).collect();
        assert!(told.is_sorted_by(|one, next| one < next) && told[8] < u64::from(u32::MAX), "{told:?}");
        for age in some {
            let back = widen(narrow(age));
            assert!(back <= age && age - back <= age >> LONG_BITS, "{age} is told as {back}");
        }
    }

    #[test]
    fn many_different_ages_are_told_coarsely_and_a_union_as_its_coarsest() {
        let (mut many, mut few) = (Ages::new(1000), Ages::new(1000));
        (0..1 << 14).for_each(|age| many.insert(Some(age)));
        [3, 9].iter().for_each(|age| few.insert(Some(*age)));
        assert!(many.resolution_ms() > 4 && few.resolution_ms() == 1);
        let all = Ages::merged([&many, &few].into_iter());
        assert_eq!((all.resolution_ms(), all.len()), (many.resolution_ms(), (1 << 14) + 2));
        let median = all.quantile(Ratio::per_mille(500), 0).expect("a median");
        assert!(median.abs_diff(1 << 13) <= all.resolution_ms(), "{median}");
        assert!(all.are_sound(1000) && !all.are_sound(999));
    }
}
