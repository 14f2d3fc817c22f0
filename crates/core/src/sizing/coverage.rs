//! The exact quantiles over the required capacities of a window's requests (docs/design.md, section 1).

use crate::request::outcome::{BEYOND, Need};
use crate::stack::needs::Needs;
use crate::units::ratio::Ratio;
use std::borrow::Cow;

/// The requirement distribution of a window's requests at one target ratio.
///
/// Only requests with something to reuse are held in [`Needs`]; the others need nothing, and sort first.
#[derive(Debug)]
pub struct Distribution<'a> {
    needs: Cow<'a, Needs>,
    /// [`Needs::ranks`].
    ranks: Vec<u64>,
    with_reuse: u64,
    without_reuse: u64,
}

impl<'a> Distribution<'a> {
    /// The distribution over `requests` requests, of which those with reuse have `needs`.
    pub fn new(needs: &'a Needs, requests: u64) -> Self {
        let needs = needs.consolidated();
        let ranks = needs.ranks();
        let with_reuse = ranks.last().copied().unwrap_or(0);
        Self { needs, ranks, with_reuse, without_reuse: requests.saturating_sub(with_reuse) }
    }

    /// The capacity that covers the share `coverage` of all requests; `None` when there are none.
    pub fn quantile(&self, coverage: Ratio) -> Option<Need> {
        let rank = coverage.nearest_rank(self.with_reuse + self.without_reuse)?;
        Some(rank.checked_sub(self.without_reuse).map_or(0, |rank| self.ranked(rank)))
    }

    /// The same over the requests that had something to reuse.
    pub fn quantile_with_reuse(&self, coverage: Ratio) -> Option<Need> {
        coverage.nearest_rank(self.with_reuse).map(|rank| self.ranked(rank))
    }

    /// The need at `rank` among requests with reuse, counted from 1; 0 for rank 0.
    fn ranked(&self, rank: u64) -> Need {
        if rank == 0 {
            return 0;
        }
        self.needs.ranked(rank, &self.ranks)
    }

    /// Every distinct need, ascending, with the number of requests that have it; [`BEYOND`] comes last.
    pub fn steps(&self) -> impl Iterator<Item = (Need, u64)> + '_ {
        let without = (self.without_reuse > 0).then_some((0, self.without_reuse));
        without.into_iter().chain(self.needs.steps())
    }

    /// The largest need; `None` when there are no requests.
    pub fn max(&self) -> Option<Need> {
        self.needs.max().or((self.without_reuse > 0).then_some(0))
    }

    /// Requests that need more than this.
    pub fn above(&self, need: Need) -> u64 {
        self.needs.steps().filter(|(own, _)| *own > need).map(|(_, requests)| requests).sum()
    }

    /// Requests in all.
    pub fn requests(&self) -> u64 {
        self.with_reuse + self.without_reuse
    }

    /// The mean need over all requests, from an exact sum; `None` when there are none, or when one lies
    /// beyond the tracked bound.
    pub fn mean(&self) -> Option<f64> {
        if self.max()? == BEYOND {
            return None;
        }
        let sum = self.needs.sum();
        Some(sum as f64 / (self.with_reuse + self.without_reuse) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Needs in every region: zero, small with repeats, large, beyond.
    fn any_need() -> impl Strategy<Value = Need> {
        prop_oneof![Just(0), 1u64..20, 1u64..5_000, Just(1 << 31), Just(BEYOND)]
    }

    /// Nearest rank over a sorted list, as the definition says it.
    fn obvious(sorted: &[Need], coverage: Ratio) -> Option<Need> {
        coverage.nearest_rank(sorted.len() as u64).map(|rank| sorted[rank as usize - 1])
    }

    fn coverages() -> Vec<Ratio> {
        ["0", "0.001", "0.5", "0.9", "0.95", "0.999", "1"].map(|text| text.parse().expect("a share")).into()
    }

    fn check(needs: &Needs, held: &[Need], without_reuse: usize) -> Result<(), TestCaseError> {
        let mut reuse = held.to_vec();
        reuse.sort_unstable();
        let mut all = vec![0; without_reuse];
        all.extend(&reuse);
        let distribution = Distribution::new(needs, all.len() as u64);
        for coverage in coverages() {
            prop_assert_eq!(distribution.quantile(coverage), obvious(&all, coverage));
            prop_assert_eq!(distribution.quantile_with_reuse(coverage), obvious(&reuse, coverage));
        }
        prop_assert_eq!(distribution.max(), all.last().copied());
        let steps = distribution.steps().flat_map(|(need, count)| vec![need; count as usize]);
        prop_assert_eq!(steps.collect::<Vec<_>>(), all.clone());
        let bounded = !all.is_empty() && !all.contains(&BEYOND);
        let mean = bounded.then(|| all.iter().sum::<u64>() as f64 / all.len() as f64);
        prop_assert_eq!(distribution.mean(), mean);
        Ok(())
    }

    proptest! {
        #[test]
        fn quantiles_equal_those_of_the_sorted_list(
            added in prop::collection::vec(any_need(), 0..900),
            keep in 0usize..900,
            without_reuse in 0usize..50,
        ) {
            let mut needs = Needs::default();
            added.iter().for_each(|need| needs.insert(*need));
            check(&needs, &added, without_reuse)?;
            let left = added.len().saturating_sub(keep);
            added[..left].iter().for_each(|need| needs.remove(*need));
            check(&needs, &added[left..], without_reuse)?;
            needs.consolidate();
            check(&needs, &added[left..], without_reuse)?;
        }

        #[test]
        fn a_union_holds_what_its_parts_hold(
            parts in prop::collection::vec(prop::collection::vec(any_need(), 0..400), 0..5),
        ) {
            let sets: Vec<Needs> = parts.iter().map(|part| {
                let mut needs = Needs::default();
                part.iter().for_each(|need| needs.insert(*need));
                needs
            }).collect();
            check(&Needs::merged(sets.iter()), &parts.concat(), 3)?;
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        let needs = Needs::default();
        let nothing = Distribution::new(&needs, 0);
        assert_eq!((nothing.quantile(Ratio::ONE), nothing.max(), nothing.mean()), (None, None, None));
        let cold = Distribution::new(&needs, 2);
        assert_eq!((cold.quantile(Ratio::ONE), cold.quantile_with_reuse(Ratio::ONE)), (Some(0), None));
        assert_eq!((cold.max(), cold.mean()), (Some(0), Some(0.0)));
    }
}
