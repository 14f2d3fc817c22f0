//! Required capacities of a window's requests, and the exact quantiles over them (DESIGN 1).

use super::outcome::{BEYOND, Need};
use super::ratio::Ratio;
use super::units::is_countable;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A need in 32 bits: tracked pages stay far below, so the largest value stands for [`BEYOND`].
const BEYOND_NARROW: u32 = u32::MAX;

/// Changes kept unsorted before they are merged, at the least.
const MIN_PENDING: usize = 256;

/// A multiset of needs, exact, from which single needs can be taken out again.
///
/// It is a sorted list of values with their counts, and the latest changes unsorted beside it. A change
/// costs a push, and a merge once a quarter of the list has gathered. The memory is 12 bytes a
/// *distinct* need plus 8 bytes a pending change, so it is bounded by the tracked bound however
/// many requests a window sees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// Distinct needs, ascending, and how often each occurs; counts are never 0.
    values: Vec<u32>,
    counts: Vec<u64>,
    pending: Vec<Change>,
}

/// A need that came into the multiset (`1`) or left it (`-1`).
type Change = (u32, i32);

impl Needs {
    /// Puts a need in.
    pub fn insert(&mut self, need: Need) {
        self.change(narrow(need), 1);
    }

    /// Takes a need out that was put in before.
    pub fn remove(&mut self, need: Need) {
        self.change(narrow(need), -1);
    }

    /// Puts a need in so many times.
    pub fn insert_many(&mut self, need: Need, times: u32) {
        self.change(narrow(need), i32::try_from(times).unwrap_or(i32::MAX));
    }

    /// Takes a need out so many times.
    pub fn remove_many(&mut self, need: Need, times: u32) {
        self.change(narrow(need), -i32::try_from(times).unwrap_or(i32::MAX));
    }

    /// How many needs are at most `need`, which lies below [`BEYOND`].
    pub fn count_upto(&self, need: Need) -> u64 {
        self.settled().upto(need).map(|(_, count)| count).sum()
    }

    /// The sum of `need - n + 1` over all needs `n` up to `need`: how far counts that begin at each
    /// need and rise by one have come.
    pub fn climbed_upto(&self, need: Need) -> u128 {
        let climbed = |(from, count): (u64, u64)| u128::from(need - from + 1) * u128::from(count);
        self.settled().upto(need).map(climbed).sum()
    }

    /// The needs up to `need` with their counts; nothing must be pending.
    fn upto(&self, need: Need) -> impl Iterator<Item = (Need, u64)> + '_ {
        let pairs = self.values.iter().copied().map(u64::from).zip(self.counts.iter().copied());
        pairs.take_while(move |(value, _)| *value <= need)
    }

    fn change(&mut self, need: u32, by: i32) {
        self.pending.push((need, by));
        if self.pending.len() >= MIN_PENDING.max(self.values.len() / 4) {
            self.settle();
        }
    }

    /// Merges the pending changes into the sorted list.
    pub fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_unstable_by_key(|(need, _)| *need);
        let fresh = self.change_known(&pending);
        self.insert_fresh(&fresh, pending.len());
        pending.clear();
        self.pending = pending;
        if self.counts.contains(&0) {
            self.drop_unused();
        }
    }

    /// Carries out sorted changes of needs in the list, and returns the others with the place each belongs
    /// at.
    fn change_known(&mut self, changes: &[Change]) -> Vec<(usize, u32, u64)> {
        let mut fresh = Vec::new();
        let mut at = 0;
        for changes in changes.chunk_by(|a, b| a.0 == b.0) {
            let need = changes[0].0;
            let by: i64 = changes.iter().map(|(_, by)| i64::from(*by)).sum();
            at += self.values[at..].iter().take_while(|known| **known < need).count();
            let known = self.values.get(at).is_some_and(|known| *known == need);
            debug_assert!(by >= 0 || known, "a need is removed that was never put in");
            if known {
                debug_assert!(
                    by >= 0 || self.counts[at] >= by.unsigned_abs(),
                    "removed more often than put in"
                );
                self.counts[at] = self.counts[at].saturating_add_signed(by);
            } else if by > 0 {
                fresh.push((at, need, by.unsigned_abs()));
            }
        }
        fresh
    }

    /// Puts needs into the list, each at its place in the list as it is, ascending. Where room has to be
    /// made, it is made for `room` needs.
    fn insert_fresh(&mut self, fresh: &[(usize, u32, u64)], room: usize) {
        let mut unmoved = self.values.len();
        let mut end = unmoved + fresh.len();
        if end > self.values.capacity() {
            self.values.reserve_exact(room);
            self.counts.reserve_exact(room);
        }
        self.values.resize(end, 0);
        self.counts.resize(end, 0);
        for (at, need, count) in fresh.iter().rev() {
            end -= unmoved - at;
            self.values.copy_within(*at..unmoved, end);
            self.counts.copy_within(*at..unmoved, end);
            (end, unmoved) = (end - 1, *at);
            (self.values[end], self.counts[end]) = (*need, *count);
        }
    }

    /// Drops the needs that no longer occur.
    fn drop_unused(&mut self) {
        let mut counts = self.counts.iter();
        self.values.retain(|_| counts.next().is_some_and(|count| *count > 0));
        self.counts.retain(|count| *count > 0);
    }

    /// Whether this, read back from a snapshot, is a multiset: distinct values in order, none taken out more
    /// often than it was put in, few enough to be counted together.
    pub fn is_sound(&self) -> bool {
        if self.values.len() != self.counts.len() || !self.values.is_sorted_by(|one, next| one < next) {
            return false;
        }
        let mut changes: BTreeMap<u32, i64> = BTreeMap::new();
        for (need, by) in &self.pending {
            *changes.entry(*need).or_default() += i64::from(*by);
        }
        let known = |need: &u32| self.values.binary_search(need).map_or(0, |index| self.counts[index]);
        let total = self.counts.iter().try_fold(0_u64, |total, count| total.checked_add(*count));
        total.is_some_and(is_countable)
            && changes.iter().all(|(need, by)| *by >= 0 || known(need) >= by.unsigned_abs())
    }

    /// Whether nothing is pending.
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// The union of several multisets.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Needs>) -> Needs {
        let mut all: Vec<(u32, u64)> = Vec::new();
        for part in parts {
            let part = part.settled();
            all.extend(part.values.iter().copied().zip(part.counts.iter().copied()));
        }
        all.sort_unstable_by_key(|(value, _)| *value);
        let mut union = Needs::default();
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            union.values.push(same[0].0);
            union.counts.push(same.iter().map(|(_, count)| count).sum());
        }
        union
    }

    /// The same multiset with nothing pending; copies only where something is.
    fn settled(&self) -> Cow<'_, Needs> {
        if self.pending.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        copy.settle();
        Cow::Owned(copy)
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<u32>()
            + self.counts.capacity() * size_of::<u64>()
            + self.pending.capacity() * size_of::<Change>()
    }
}

fn narrow(need: Need) -> u32 {
    u32::try_from(need).unwrap_or(BEYOND_NARROW)
}

fn widen(need: u32) -> Need {
    if need == BEYOND_NARROW { BEYOND } else { Need::from(need) }
}

/// The requirement distribution of a window's requests at one target ratio.
///
/// Only requests with something to reuse are held in [`Needs`]; the others need nothing, and sort first.
#[derive(Debug)]
pub struct Distribution<'a> {
    needs: Cow<'a, Needs>,
    with_reuse: u64,
    without_reuse: u64,
}

impl<'a> Distribution<'a> {
    /// The distribution over `requests` requests, of which those with reuse have `needs`.
    pub fn new(needs: &'a Needs, requests: u64) -> Self {
        let needs = needs.settled();
        let with_reuse = needs.counts.iter().sum();
        Self { needs, with_reuse, without_reuse: requests.saturating_sub(with_reuse) }
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
        let mut left = rank;
        for (value, count) in self.needs.values.iter().zip(&self.needs.counts) {
            match left.checked_sub(*count) {
                None | Some(0) => return widen(*value),
                Some(rest) => left = rest,
            }
        }
        BEYOND
    }

    /// Every distinct need, ascending, with the number of requests that have it; [`BEYOND`] comes last.
    pub fn steps(&self) -> impl Iterator<Item = (Need, u64)> + '_ {
        let without = (self.without_reuse > 0).then_some((0, self.without_reuse));
        let needs = self.needs.values.iter().map(|value| widen(*value));
        without.into_iter().chain(needs.zip(self.needs.counts.iter().copied()))
    }

    /// The largest need; `None` when there are no requests.
    pub fn max(&self) -> Option<Need> {
        match self.needs.values.last() {
            Some(largest) => Some(widen(*largest)),
            None => (self.without_reuse > 0).then_some(0),
        }
    }

    /// The mean need over all requests, from an exact sum; `None` when there are none, or when one lies
    /// beyond the tracked bound.
    pub fn mean(&self) -> Option<f64> {
        if self.max()? == BEYOND {
            return None;
        }
        let pairs = self.needs.values.iter().zip(&self.needs.counts);
        let sum: u128 = pairs.map(|(value, count)| u128::from(*value) * u128::from(*count)).sum();
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
            needs.settle();
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
    fn memory_follows_distinct_needs_not_requests() {
        let mut needs = Needs::default();
        (0..1_000_000u64).for_each(|request| needs.insert(request % 1000));
        assert!(needs.memory_bytes() < 64 * 1024, "{} bytes", needs.memory_bytes());
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
