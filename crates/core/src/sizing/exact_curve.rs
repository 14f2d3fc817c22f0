//! Found pages by the capacity they need: the hit-rate curve of a window at every capacity, exactly.
//!
//! The curve of [`Curve`](crate::sizing::curve::Curve) is counted at capacities that are known beforehand. What is
//! recommended, and what a plan buys, is known only once the window is closed, so every window keeps this too. It
//! holds two numbers per distinct need at most, so the tracked bound bounds it.

use crate::request::outcome::{BEYOND, Need, Run};
use crate::sizing::prompts::PromptTokens;
use crate::stack::needs::Needs;
use crate::units::PageCount;
use crate::units::heap::{flat, heap_bytes};
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// Pages of a request whose needs are one number, or climb by the same step from page to page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRun {
    need: Need,
    pages: u32,
    step: u32,
}

flat!(FoundRun);

impl FoundRun {
    /// Whether its step is one that engines have: other runs are spread page by page, and a snapshot that
    /// is no snapshot could ask for billions.
    pub fn is_of_an_engine(&self) -> bool {
        self.step <= 1
    }

    /// How many of its pages a cache of `capacity` (followed) pages finds: always its leading ones.
    pub fn hits_at(&self, capacity: u64) -> u64 {
        let run = Run { pages: self.pages, need: self.need, step: self.step, last_touched_by: 0 };
        u64::from(run.hits_at(capacity))
    }

    /// The run, unless it lies beyond the tracked bound, where no capacity that can be known finds it.
    pub fn of(run: &Run) -> Option<Self> {
        (run.need != BEYOND).then_some(Self { need: run.need, pages: run.pages, step: run.step })
    }
}

/// A multiset of runs, from which runs can be taken out again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPages {
    /// Pages by need.
    flat: Needs,
    /// Runs that climb one need a page, by the need they begin at.
    begins: Needs,
    /// The same by the first need after their end.
    ends: Needs,
}

heap_bytes!(FoundPages { flat, begins, ends });

impl FoundPages {
    /// Puts a run in.
    pub fn add(&mut self, run: &FoundRun) {
        run.spread(|needs, need, count| needs.of(self).insert_many(need, count));
    }

    /// Puts many runs in, in one pass, and has nothing pending.
    pub fn extend(&mut self, runs: &[FoundRun]) {
        for run in runs {
            self.defer(run);
        }
        self.consolidate();
    }

    /// Puts a run in, and leaves it to the caller how much may be [`FoundPages::pending`].
    pub fn defer(&mut self, run: &FoundRun) {
        run.spread(|needs, need, count| {
            needs.of(self).defer(need, i32::try_from(count).unwrap_or(i32::MAX));
        });
    }

    /// Changes that no pass has merged.
    pub fn pending(&self) -> usize {
        [&self.flat, &self.begins, &self.ends].into_iter().map(Needs::pending).sum()
    }

    /// Takes a run out that was put in before.
    pub fn remove(&mut self, run: &FoundRun) {
        run.spread(|needs, need, count| needs.of(self).remove_many(need, count));
    }

    /// Pages that a cache of `capacity` (followed) pages finds.
    pub fn hits_at(&self, capacity: u64) -> u64 {
        self.hits_by_threshold(&[capacity])[0]
    }

    /// Pages by the smallest of these thresholds that finds them, which ascend; those that none finds are left out.
    /// What is pending is looked through once.
    pub fn hits_by_threshold(&self, thresholds: &[u64]) -> Vec<u64> {
        let [flat, begins, ends] =
            [&self.flat, &self.begins, &self.ends].map(|needs| needs.upto_each(thresholds));
        // Counts that begin at each need and rise by one: the sum of `threshold - need + 1`.
        let climbed =
            |threshold: u64, (count, sum): (u64, u128)| (u128::from(threshold) + 1) * u128::from(count) - sum;
        let mut below = 0;
        let added = thresholds.iter().enumerate().map(|(at, threshold)| {
            let ramps = climbed(*threshold, begins[at]).saturating_sub(climbed(*threshold, ends[at]));
            let hits = u64::try_from(u128::from(flat[at].0) + ramps).unwrap_or(u64::MAX);
            hits.saturating_sub(std::mem::replace(&mut below, hits))
        });
        added.collect()
    }

    /// Whether this, read back from a snapshot, can be read and changed.
    pub fn is_sound(&self) -> bool {
        [&self.flat, &self.begins, &self.ends].into_iter().all(Needs::is_sound)
    }

    /// Whether nothing is pending.
    pub fn is_consolidated(&self) -> bool {
        [&self.flat, &self.begins, &self.ends].into_iter().all(Needs::is_consolidated)
    }

    /// Merges what is pending, so that reading copies nothing.
    pub fn consolidate(&mut self) {
        [&mut self.flat, &mut self.begins, &mut self.ends].into_iter().for_each(Needs::consolidate);
    }

    /// The union of several multisets, with what is pending of each.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        Self {
            flat: Needs::joined(parts.clone().map(|part| &part.flat)),
            begins: Needs::joined(parts.clone().map(|part| &part.begins)),
            ends: Needs::joined(parts.map(|part| &part.ends)),
        }
    }
}

/// The curve of a window as a plan reads it.
#[derive(Debug, Clone, Copy)]
pub struct FoundCurve<'a> {
    /// Found pages by need, in followed pages.
    pub found: &'a FoundPages,
    /// Followed pages accessed.
    pub page_accesses: u64,
    /// The prompts by their tokens.
    pub prompts: PromptTokens,
    /// Share of the pages that are followed.
    pub sample_rate: Ratio,
    /// Largest capacity that can be known, in followed pages.
    pub bound: PageCount,
}

impl FoundCurve<'_> {
    /// Hits of a cache of this capacity, `None` beyond the bound.
    fn hits(&self, capacity: PageCount) -> Option<u64> {
        let followed = self.sample_rate.share_of(capacity.0);
        (followed <= self.bound.0).then(|| self.found.hits_at(followed))
    }

    /// Hits per page access, `None` beyond the bound or without an access.
    pub fn hit_rate(&self, capacity: PageCount) -> Option<f64> {
        let hits = self.hits(capacity)?;
        (self.page_accesses > 0).then(|| hits as f64 / self.page_accesses as f64)
    }

    /// The same by the tokens of the prompts.
    pub fn token_hit_rate(&self, capacity: PageCount) -> Option<f64> {
        let hits = self.hits(capacity)?;
        Some(self.prompts.hit_rate(self.sample_rate.whole_of(hits)))
    }
}

/// One of the three multisets.
#[derive(Clone, Copy)]
enum CurvePart {
    Flat,
    Begins,
    Ends,
}

impl CurvePart {
    fn of(self, found: &mut FoundPages) -> &mut Needs {
        match self {
            Self::Flat => &mut found.flat,
            Self::Begins => &mut found.begins,
            Self::Ends => &mut found.ends,
        }
    }
}

impl FoundRun {
    /// Names the entries that stand for this run: two at most for the steps that engines have.
    fn spread(&self, mut entry: impl FnMut(CurvePart, Need, u32)) {
        match self.step {
            0 => entry(CurvePart::Flat, self.need, self.pages),
            _ if self.pages == 1 => entry(CurvePart::Flat, self.need, 1),
            1 => {
                entry(CurvePart::Begins, self.need, 1);
                entry(CurvePart::Ends, self.need.saturating_add(u64::from(self.pages)), 1);
            }
            step => (0..self.pages).for_each(|page| {
                entry(CurvePart::Flat, self.need.saturating_add(u64::from(page) * u64::from(step)), 1);
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs() -> impl Strategy<Value = Vec<Run>> {
        let need = prop_oneof![8 => 1u64..60, 1 => Just(BEYOND)];
        let run = (1u32..20, need, 0u32..3);
        let run = run.prop_map(|(pages, need, step)| Run { pages, need, step, last_touched_by: 0 });
        prop::collection::vec(run, 0..400)
    }

    proptest! {
        #[test]
        fn hits_at_every_capacity_are_those_of_the_runs_one_by_one(runs in runs(), gone in 0usize..400) {
            let mut found = FoundPages::default();
            let all: Vec<_> = runs.iter().filter_map(FoundRun::of).collect();
            all.iter().for_each(|run| found.add(run));
            let gone = gone.min(all.len());
            all[..gone].iter().for_each(|run| found.remove(run));
            let mut at_once = FoundPages::default();
            at_once.extend(&all[gone..]);
            let mut consolidated = found.clone();
            consolidated.consolidate();
            prop_assert_eq!(&at_once, &consolidated);
            let (one, two) = all[gone..].split_at((all.len() - gone) / 2);
            let parts = [one, two].map(|part| {
                let mut found = FoundPages::default();
                part.iter().for_each(|run| found.add(run));
                found
            });
            let union = FoundPages::merged(parts.iter());
            for capacity in 0..130u64 {
                let hits = |run: &FoundRun| {
                    let needs = (0..run.pages).map(|page| run.need + u64::from(page) * u64::from(run.step));
                    needs.filter(|need| *need <= capacity).count() as u64
                };
                let expected: u64 = all[gone..].iter().map(hits).sum();
                prop_assert_eq!(found.hits_at(capacity), expected, "at {}", capacity);
                prop_assert_eq!(union.hits_at(capacity), expected, "of the union at {}", capacity);
            }
            let thresholds = [0, 3, 40, 40, 90];
            let added = found.hits_by_threshold(&thresholds);
            for (at, threshold) in thresholds.iter().enumerate() {
                prop_assert_eq!(added[..=at].iter().sum::<u64>(), found.hits_at(*threshold));
            }
            prop_assert_eq!(consolidated.hits_at(u64::from(u32::MAX) - 1), union.hits_at(u64::from(u32::MAX) - 1));
        }
    }
}
