//! How many pages were brought back from requests, summed from any of them on.

/// Pages by request, in the order of the requests: a binary indexed tree.
#[derive(Debug, Default)]
pub(super) struct PrefixSums {
    /// Entry `i - 1` has the sum over the requests from `i - (i & -i)` to `i - 1`.
    sums: Vec<u64>,
    total: u64,
    /// What was brought back from requests that were let go.
    forgotten: u64,
}

impl PrefixSums {
    /// Adds a request of which nothing was brought back.
    pub(super) fn push(&mut self) {
        let at = self.sums.len() + 1;
        let mut sum = 0;
        let mut below = at - 1;
        while below > at - lowest_bit(at) {
            sum += self.sums[below - 1];
            below -= lowest_bit(below);
        }
        self.sums.push(sum);
    }

    /// Brings pages of the request at `at` back.
    pub(super) fn add(&mut self, at: usize, pages: u32) {
        self.total += u64::from(pages);
        let mut entry = at + 1;
        while let Some(sum) = self.sums.get_mut(entry - 1) {
            *sum += u64::from(pages);
            entry += lowest_bit(entry);
        }
    }

    /// Pages brought back from the request at `at` and all later ones.
    pub(super) fn from(&self, at: usize) -> u64 {
        self.total - self.forgotten - self.upto(at)
    }

    /// All pages brought back.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        self.total > 0
    }

    /// Lets the first requests go.
    pub(super) fn forget(&mut self, requests: usize) {
        let sums: Vec<u64> =
            (requests..self.sums.len()).map(|at| self.upto(at + 1) - self.upto(at)).collect();
        let left: u64 = sums.iter().sum();
        let total = self.total;
        *self = Self { total, forgotten: total - left, ..Self::default() };
        for pages in sums {
            self.push();
            let at = self.sums.len();
            self.sums[at - 1] += pages;
        }
    }

    /// Pages brought back from the requests before the one at `at`.
    fn upto(&self, at: usize) -> u64 {
        let (mut entry, mut sum) = (at, 0);
        while entry > 0 {
            sum += self.sums[entry - 1];
            entry -= lowest_bit(entry);
        }
        sum
    }
}

fn lowest_bit(number: usize) -> usize {
    number & number.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_equal_a_list(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 1u32..9), 0..80),
            forgotten in any::<prop::sample::Index>(),
        ) {
            let (mut brought, mut list) = (PrefixSums::default(), Vec::<u64>::new());
            for (number, (is_new, at, pages)) in steps.iter().enumerate() {
                if *is_new || list.is_empty() {
                    brought.push();
                    list.push(0);
                } else {
                    let at = at.index(list.len());
                    brought.add(at, *pages);
                    list[at] += u64::from(*pages);
                }
                if number == steps.len() / 2 {
                    let gone = forgotten.index(list.len());
                    brought.forget(gone);
                    list.drain(..gone);
                }
                for at in 0..=list.len() {
                    prop_assert_eq!(brought.from(at), list[at..].iter().sum::<u64>(), "from {}", at);
                }
            }
        }
    }
}
