//! From one request's runs to the exact counts of a window.
//!
//! A request is summarised once; every window of the pool then adds the same few numbers.

use crate::questions::counters::Counter;
use crate::questions::observers::{Observation, ObservationShape, ObservationTally};
use crate::request::outcome::{Need, Outcome, Run};
use crate::sizing::exact_curve::{FoundPages, FoundRun};
use crate::stack::Overlap;
use crate::stack::needs::Needs;
use crate::units::heap::heap_bytes;
use crate::units::ratio::Ratio;
use crate::units::{EventTime, Offset, is_countable};
use crate::windows::overlaps::Overlaps;
use crate::windows::step_counts::{StepCounts, StepHits};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the windows of a pool measure requests by.
#[derive(Debug, Clone, Copy)]
pub struct CountingRules<'a> {
    /// Target ratios a required capacity is computed for.
    pub target_ratios: &'a [Ratio],
    /// Capacities hits are counted for, in followed pages, ascending.
    pub thresholds: &'a [u64],
    /// Whether found pages are kept by need as well, which gives hits at every capacity.
    pub whole_curve: bool,
}

/// Where a request stands in its log, or where several begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// Number of the request in its pool, counted from 0: what [`Run::last_touched_by`] refers to.
    pub arrival: u64,
    /// Offset of its record.
    pub offset: Offset,
    /// When it happened.
    pub event_time: EventTime,
}

impl Position {
    /// Where these and others begin: the earliest of each.
    pub(super) fn earliest(self, other: Self) -> Self {
        Self {
            arrival: self.arrival.min(other.arrival),
            offset: self.offset.min(other.offset),
            event_time: self.event_time.min(other.event_time),
        }
    }
}

/// Pages of a request that one earlier request touched last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// Pages.
    pub pages: u64,
    /// Number of that request in the pool.
    pub last_touched_by: u64,
}

/// One request as the windows need it; its memory is reused from request to request.
#[derive(Debug, Clone, Default)]
pub struct RequestSummary {
    /// Where the request stands in its log.
    pub position: Position,
    /// Prompt pages accessed.
    pub page_accesses: u64,
    /// Tokens of the prompt behind its full pages, as far as known.
    pub rest_tokens: u32,
    /// `H`: pages of the reusable prefix.
    pub reusable: u64,
    /// Pages never seen before.
    pub new_pages: u64,
    /// Known pages that it computed again.
    pub recomputed_pages: u32,
    /// Required capacity, one per target ratio; meaningless when nothing is reusable.
    pub needs: Vec<Need>,
    /// Hits by the smallest threshold that suffices, ascending; pages no threshold serves are left out.
    /// Where each threshold is modelled on its own: the hits at each.
    pub hits: Vec<StepHits>,
    /// Known pages by who touched them last, in prefix order.
    pub touches: Vec<Touch>,
    /// The runs themselves, where hits at every capacity are requested.
    pub found: Vec<FoundRun>,
    /// What other requests in flight held as this one arrived, where the log tells durations.
    pub overlap: Option<Overlap>,
    /// What it adds where more is asked; windows that requests leave again hold on to it.
    pub observation: Option<Arc<Observation>>,
}

impl RequestSummary {
    /// Replaces the summary by that of another request. The cost is per run and target, never per page.
    pub fn read(&mut self, outcome: &Outcome, position: Position, rules: &CountingRules<'_>) {
        self.position = position;
        self.overlap = None;
        self.observation = None;
        (self.page_accesses, self.rest_tokens) = (outcome.page_accesses, outcome.rest_tokens);
        self.reusable = outcome.reusable_prefix();
        self.new_pages = outcome.new_pages;
        // A request's pages are counted in 32 bits everywhere.
        self.recomputed_pages = outcome.recomputed_pages() as u32;
        let required = |ratio: &Ratio| outcome.need_of_prefix(ratio.ceil_of(self.reusable));
        self.needs.clear();
        self.needs.extend(rules.target_ratios.iter().map(required));
        self.hits.clear();
        self.touches.clear();
        for run in &outcome.runs {
            self.read_touch(run);
            self.read_hits(run, rules.thresholds);
        }
        self.found.clear();
        if rules.whole_curve {
            self.found.extend(outcome.runs.iter().filter_map(FoundRun::of));
        }
    }

    /// Replaces the hits by those found at each threshold on its own, and what unlimited capacity finds by the
    /// `ceiling` of the rules, where they have one.
    pub fn set_pointwise_hits(&mut self, hits: &[u64], ceiling: Option<u64>) {
        self.reusable = ceiling.unwrap_or(self.reusable);
        self.hits.clear();
        for (step, pages) in hits.iter().copied().enumerate().filter(|(_, pages)| *pages > 0) {
            // A request's pages are counted in 32 bits everywhere.
            self.hits.push(StepHits { step: step as u32, pages: pages as u32 });
        }
    }

    fn read_touch(&mut self, run: &Run) {
        let pages = u64::from(run.pages);
        match self.touches.last_mut() {
            Some(last) if last.last_touched_by == run.last_touched_by => last.pages += pages,
            _ => self.touches.push(Touch { pages, last_touched_by: run.last_touched_by }),
        }
    }

    /// Finds the smallest threshold for each page of the run. A run of equal needs takes one search, a
    /// ramp one for every threshold it climbs over.
    fn read_hits(&mut self, run: &Run, thresholds: &[u64]) {
        // Needs never decrease along the prefix: no later run is served by a smaller threshold.
        let mut step = self.hits.last().map_or(0, |last| last.step as usize);
        let mut served = 0;
        while served < run.pages {
            let need = run.need_at(served);
            step += thresholds[step..].partition_point(|threshold| *threshold < need);
            let Some(threshold) = thresholds.get(step) else { return };
            let upto = run.hits_at(*threshold);
            self.push_hits(step as u32, upto - served);
            served = upto;
        }
    }

    fn push_hits(&mut self, step: u32, pages: u32) {
        if let Some(last) = self.hits.last_mut()
            && last.step == step
            && let Some(sum) = last.pages.checked_add(pages)
        {
            last.pages = sum;
        } else {
            self.hits.push(StepHits { step, pages });
        }
    }

    /// Distinct pages this request adds to a window whose first counted request has number `first`:
    /// the new ones, and those last touched before it.
    pub fn pages_unseen_since(&self, first: u64) -> u64 {
        let older = self.touches.iter().filter(|touch| touch.last_touched_by < first);
        self.new_pages + older.map(|touch| touch.pages).sum::<u64>()
    }

    /// All pages this request touched and whose history is known.
    pub fn pages_touched(&self) -> u64 {
        self.new_pages + self.touches.iter().map(|touch| touch.pages).sum::<u64>()
    }
}

/// How many numbers the tallies of a pool hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TallyShape {
    /// Target ratios.
    pub targets: usize,
    /// Thresholds of the curve.
    pub thresholds: usize,
    /// Whether found pages are kept by need.
    pub whole_curve: bool,
    /// What is counted alongside all this; a snapshot keeps it by the configuration.
    #[serde(skip)]
    pub observation: ObservationShape,
}

impl TallyShape {
    /// The same in a window that never ends.
    pub fn without_end(self) -> Self {
        Self { observation: self.observation.without_end(), ..self }
    }

    /// The same in a window that requests leave again: found pages are counted when it is shown.
    pub fn of_latest(self) -> Self {
        Self { observation: self.observation.of_latest(), whole_curve: false, ..self }
    }
}

/// The exact counts over a set of requests. All pages are followed pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Requests counted.
    pub requests: u64,
    /// Those with something to reuse.
    pub requests_with_reuse: u64,
    /// Prompt pages accessed.
    pub page_accesses: u64,
    /// Tokens of prompts behind their full pages, as far as known.
    pub rest_tokens: u64,
    /// Pages of reusable prefixes: hits with unlimited capacity.
    pub reusable: u64,
    /// Distinct pages touched; who adds a request knows which of its pages are.
    pub distinct_pages: u64,
    /// Known pages that requests computed again.
    pub recomputed_pages: u64,
    /// Hits by the smallest threshold that suffices, or at each on its own.
    pub hits: StepCounts,
    /// Required capacities of the requests with reuse, one multiset a target ratio.
    pub needs: Vec<Needs>,
    /// Found pages by need, which gives hits at every capacity; absent where each is modelled on its own.
    pub found: Option<Box<FoundPages>>,
    /// What the requests met in flight, of those the log could tell it for.
    pub overlaps: Overlaps,
    /// What is counted alongside all this, where more is asked; a snapshot keeps it apart.
    #[serde(skip)]
    pub observation: Option<Box<ObservationTally>>,
}

heap_bytes!(Tally {
    hits, needs, found, overlaps, observation;
    requests, requests_with_reuse, page_accesses, rest_tokens, reusable, distinct_pages, recomputed_pages
});

impl Tally {
    /// Nothing counted yet.
    pub fn new(shape: TallyShape) -> Self {
        Self {
            hits: StepCounts::new(shape.thresholds),
            needs: vec![Needs::default(); shape.targets],
            found: shape.whole_curve.then(Box::default),
            observation: shape.observation.tally(),
            ..Self::default()
        }
    }

    /// Whether this, read back from a snapshot, counts what the shape says and can be added to.
    pub fn is_sound(&self, shape: TallyShape) -> bool {
        let Self { requests, requests_with_reuse, page_accesses, rest_tokens, reusable, .. } = *self;
        let Self { distinct_pages, recomputed_pages, .. } = *self;
        let counts = [requests, requests_with_reuse, page_accesses, rest_tokens, reusable];
        let counts = [&counts[..], &[distinct_pages, recomputed_pages]].concat();
        (self.needs.len(), self.found.is_some()) == (shape.targets, shape.whole_curve)
            && self.hits.steps() == shape.thresholds
            && counts.iter().chain(self.hits.as_slice()).all(|count| is_countable(*count))
            && self.needs.iter().all(Needs::is_sound)
            && self.overlaps.are_sound()
            && self.found.iter().all(|found| found.is_sound())
            && self.observation.is_some() == shape.observation.is_something()
            && self.observation.iter().all(|observation| observation.is_sound(shape.observation))
    }

    /// Counts a request, of which `distinct_pages` pages are new to this set.
    pub fn add(&mut self, summary: &RequestSummary, distinct_pages: u64) {
        self.add_but_found(summary, distinct_pages);
        if let Some(found) = &mut self.found {
            summary.found.iter().for_each(|run| found.add(run));
        }
    }

    /// The same, but that its found pages are left to the caller.
    pub fn add_but_found(&mut self, summary: &RequestSummary, distinct_pages: u64) {
        self.requests += 1;
        self.page_accesses += summary.page_accesses;
        self.rest_tokens += u64::from(summary.rest_tokens);
        self.reusable += summary.reusable;
        self.distinct_pages += distinct_pages;
        self.recomputed_pages += u64::from(summary.recomputed_pages);
        summary.hits.iter().for_each(|hits| self.hits.add(hits));
        if let Some(overlap) = summary.overlap {
            self.overlaps.insert(overlap);
        }
        if summary.reusable > 0 {
            self.requests_with_reuse += 1;
            for (needs, need) in self.needs.iter_mut().zip(&summary.needs) {
                needs.insert(*need);
            }
        }
        if let Some((observation, share)) =
            self.observation.as_deref_mut().zip(summary.observation.as_deref())
        {
            observation.add(share);
        }
    }

    /// Takes a request out that was added before; of its distinct pages `distinct_pages` are in no other request.
    pub fn remove(&mut self, summary: &RequestSummary, distinct_pages: u64) {
        self.requests -= 1;
        self.page_accesses -= summary.page_accesses;
        self.rest_tokens -= u64::from(summary.rest_tokens);
        self.reusable -= summary.reusable;
        self.distinct_pages -= distinct_pages;
        self.recomputed_pages -= u64::from(summary.recomputed_pages);
        summary.hits.iter().for_each(|hits| self.hits.remove(hits));
        if let Some(overlap) = summary.overlap {
            self.overlaps.remove(overlap);
        }
        if summary.reusable > 0 {
            self.requests_with_reuse -= 1;
            for (needs, need) in self.needs.iter_mut().zip(&summary.needs) {
                needs.remove(*need);
            }
        }
        if let Some(found) = &mut self.found {
            summary.found.iter().for_each(|run| found.remove(run));
        }
        if let Some((observation, share)) =
            self.observation.as_deref_mut().zip(summary.observation.as_deref())
        {
            observation.remove(share);
        }
    }

    /// Merges what is pending.
    pub fn consolidate(&mut self) {
        self.consolidate_distributions();
        self.found.iter_mut().for_each(|found| found.consolidate());
    }

    /// Merges what is pending, so that reading the distributions copies nothing. Found pages are read as they are.
    pub fn consolidate_distributions(&mut self) {
        self.needs.iter_mut().for_each(Needs::consolidate);
        self.overlaps.consolidate();
        self.consolidate_observation();
    }

    /// Does so for what is counted alongside, which is read often whenever it is read.
    pub fn consolidate_observation(&mut self) {
        self.observation.iter_mut().for_each(|observation| observation.consolidate());
    }

    /// The same with nothing pending.
    pub fn consolidated(&self) -> Self {
        let mut consolidated = self.clone();
        consolidated.consolidate();
        consolidated
    }

    /// The same with hits counted at other thresholds, ascending; without hits by need there are none.
    pub fn counted_at(&self, thresholds: &[u64]) -> Self {
        let hits = self.found.as_ref().map(|found| found.hits_by_threshold(thresholds));
        let hits = hits.unwrap_or_else(|| vec![0; thresholds.len()]);
        Self { hits: hits.into_iter().collect(), ..self.clone() }
    }

    /// The sum of several tallies, whose sets of pages are taken to be disjoint.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Tally> + Clone) -> Tally {
        let Some(first) = parts.clone().next() else { return Tally::default() };
        let mut sum = Tally::default();
        for part in parts.clone() {
            sum.requests += part.requests;
            sum.requests_with_reuse += part.requests_with_reuse;
            sum.page_accesses += part.page_accesses;
            sum.rest_tokens += part.rest_tokens;
            sum.reusable += part.reusable;
            sum.distinct_pages += part.distinct_pages;
            sum.recomputed_pages += part.recomputed_pages;
            sum.hits.merge(&part.hits);
        }
        let needs_of = |target| Needs::merged(parts.clone().map(move |part: &Tally| &part.needs[target]));
        sum.needs = (0..first.needs.len()).map(needs_of).collect();
        let found = || parts.clone().filter_map(|part| part.found.as_deref());
        sum.found = first.found.as_ref().map(|_| Box::new(FoundPages::merged(found())));
        sum.overlaps = Overlaps::merged(parts.clone().map(|part| &part.overlaps));
        let observation = || parts.clone().filter_map(|part| part.observation.as_deref());
        sum.observation = ObservationTally::merged(observation()).map(Box::new);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::outcome::BEYOND;
    use proptest::prelude::*;

    /// Runs whose needs never decrease, flat or ramps, the last perhaps beyond the bound.
    fn runs() -> impl Strategy<Value = Vec<Run>> {
        let run = (1u32..30, 0u64..40, 0u32..3, 0u64..5);
        (prop::collection::vec(run, 0..8), any::<bool>()).prop_map(|(parts, beyond)| {
            let mut floor = 1;
            let mut runs: Vec<Run> = Vec::new();
            for (pages, climb, step, last_touched_by) in parts {
                let run = Run { pages, need: floor + climb, step, last_touched_by };
                floor = run.need_at(pages - 1);
                runs.push(run);
            }
            if beyond {
                runs.push(Run { pages: 3, need: BEYOND, step: 0, last_touched_by: 0 });
            }
            runs
        })
    }

    proptest! {
        #[test]
        fn hits_at_every_threshold_equal_those_of_the_outcome(
            runs in runs(),
            mut thresholds in prop::collection::vec(0u64..200, 0..12),
        ) {
            thresholds.sort_unstable();
            let outcome = Outcome { page_accesses: 500, runs, ..Outcome::default() };
            let mut summary = RequestSummary::default();
            let rules = CountingRules { target_ratios: &[Ratio::ONE], thresholds: &thresholds, whole_curve: true };
            summary.read(&outcome, Position::default(), &rules);
            let shape = TallyShape {
                targets: 1,
                thresholds: thresholds.len(),
                whole_curve: true,
                observation: ObservationShape::default(),
            };
            let mut tally = Tally::new(shape);
            tally.add(&summary, 0);
            let mut total = 0;
            let hits = tally.hits.as_slice().iter().chain(std::iter::repeat(&0));
            for (threshold, hits) in thresholds.iter().zip(hits) {
                total += hits;
                prop_assert_eq!(total, outcome.hits_at(*threshold), "at {}", threshold);
                let found = tally.found.as_ref().map(|found| found.hits_at(*threshold));
                prop_assert_eq!(found, Some(total), "by need at {}", threshold);
            }
            prop_assert_eq!(summary.needs[0], outcome.need_of_prefix(outcome.reusable_prefix()));
        }
    }

    #[test]
    fn requirement_counts_the_pages_of_the_target_ratio_only() {
        let run = |pages, need| Run { pages, need, step: 0, last_touched_by: 0 };
        let outcome =
            Outcome { page_accesses: 120, runs: vec![run(99, 100), run(1, 5000)], ..Outcome::default() };
        let ratios = ["0.99", "1"].map(|text| text.parse().expect("a share"));
        let mut summary = RequestSummary::default();
        let rules = CountingRules { target_ratios: &ratios, thresholds: &[], whole_curve: false };
        summary.read(&outcome, Position::default(), &rules);
        assert_eq!(summary.needs, [100, 5000]);
    }

    #[test]
    fn a_page_is_unseen_when_it_was_last_touched_before_the_window() {
        let run = |pages, last_touched_by| Run { pages, need: 9, step: 0, last_touched_by };
        let outcome =
            Outcome { new_pages: 5, runs: vec![run(3, 7), run(2, 7), run(4, 2)], ..Outcome::default() };
        let mut summary = RequestSummary::default();
        let rules = CountingRules { target_ratios: &[], thresholds: &[], whole_curve: false };
        summary.read(&outcome, Position::default(), &rules);
        assert_eq!(summary.touches.len(), 2, "runs of one toucher are one");
        assert_eq!([0, 2, 3, 7, 8].map(|first| summary.pages_unseen_since(first)), [5, 5, 9, 9, 14]);
    }
}
