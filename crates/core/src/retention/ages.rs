//! A multiset of ages in milliseconds, exact until there are very many different ones.

use crate::needs::Needs;
use crate::outcome::BEYOND;
use crate::ratio::Ratio;

/// Distinct ages kept at most: 20 MB of them.
const MOST: usize = 1 << 20;

/// Insertions between two looks at how many there are.
const LOOK_EVERY: u32 = 1 << 12;

/// Ages, each rounded down to a multiple of `2^shift` milliseconds. The shift is 0 until more than a million
/// different ages were seen, or one of more than 49 days; then it grows by one at a time.
#[derive(Debug, Clone, Default)]
pub struct Ages {
    needs: Needs,
    shift: u32,
    inserted: u32,
    count: u64,
    untold: u64,
}

impl Ages {
    /// Puts an age in; `None` for one that cannot be told.
    pub fn insert(&mut self, age_ms: Option<u64>) {
        self.count += 1;
        let Some(age) = age_ms else {
            self.untold += 1;
            return self.needs.insert(BEYOND);
        };
        while age >> self.shift >= u64::from(u32::MAX) {
            self.coarsen();
        }
        self.needs.insert(age >> self.shift);
        self.inserted += 1;
        if self.inserted.is_multiple_of(LOOK_EVERY) {
            while self.needs.distinct() > MOST {
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

    /// Ages are told to this many milliseconds.
    pub fn resolution_ms(&self) -> u64 {
        1 << self.shift
    }

    /// How many are at most so old.
    pub fn count_upto(&self, age_ms: u64) -> u64 {
        self.needs.count_upto((age_ms >> self.shift).min(u64::from(u32::MAX) - 1))
    }

    /// The nearest-rank quantile among these and `zeros` ages of 0; `None` without any, or where it cannot be told.
    pub fn quantile(&self, share: Ratio, zeros: u64) -> Option<u64> {
        let rank = share.nearest_rank(self.count + zeros)?;
        let Some(rank) = rank.checked_sub(zeros).filter(|rank| *rank > 0) else { return Some(0) };
        let needs = self.needs.consolidated();
        let age = needs.ranked(rank, &needs.ranks());
        (age != BEYOND).then(|| age << self.shift)
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
    fn ages_are_exact_and_grow_coarse_beyond_49_days() {
        let mut ages = Ages::default();
        [5, 7, 7, 90].iter().for_each(|age| ages.insert(Some(*age)));
        let at = |ages: &Ages, share: &str| ages.quantile(share.parse().expect("a share"), 1);
        assert_eq!(["0.2", "0.4", "0.6", "1"].map(|share| at(&ages, share)), [0, 5, 7, 90].map(Some));
        assert_eq!((ages.count_upto(6), ages.count_upto(7), ages.len()), (1, 3, 4));
        ages.insert(Some(1 << 33));
        ages.insert(None);
        assert_eq!(ages.resolution_ms(), 4);
        assert_eq!([at(&ages, "0.8"), at(&ages, "1")], [Some(1 << 33), None]);
        assert_eq!(ages.count_upto(7), 3);
    }
}
