//! What retention found over a set of requests.

use super::age_table::AgeTable;
use super::{Ages, RetentionShare};
use crate::questions::counters::Counter;
use crate::units::heap::{flat, heap_bytes};
use crate::units::is_countable;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// How many of everything are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionShape {
    /// Times to live.
    pub ttls: usize,
    /// Capacities.
    pub capacities: usize,
    /// Target ratios.
    pub targets: usize,
    /// Different ages kept at most.
    pub most_ages: u32,
}

/// The counts of one time to live and one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct PageLevel {
    /// Most pages at a time.
    pub(super) peak: u64,
    /// Page-milliseconds as the first request had arrived, and as the last one had.
    first: u128,
    last: u128,
}

flat!(PageLevel);

impl PageLevel {
    fn add(&mut self, (pages, integral): (u64, u128), is_first: bool) {
        if is_first {
            self.first = integral;
        }
        self.last = self.last.max(integral);
        self.peak = self.peak.max(pages);
    }

    /// The union: sums never fall as time passes.
    fn merge(&mut self, other: &Self) {
        self.peak = self.peak.max(other.peak);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    /// The mean over `span_ms`, all of it at one moment the peak.
    pub(super) fn mean(&self, span_ms: u64) -> f64 {
        match span_ms {
            0 => self.peak as f64,
            span => (self.last - self.first) as f64 / span as f64,
        }
    }
}

/// The counts over a set of requests, in followed pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionTally {
    pub(super) requests: u64,
    pub(super) with_reuse: u64,
    /// Time as the first and the last request arrived.
    span: Option<(i64, i64)>,
    capacities: usize,
    /// By the first time to live and the first capacity that finds them; the last of either is none.
    hits: Vec<u64>,
    /// Pages that each fixed time to live found, and behind them the requests that found enough with each; not told
    /// where some of the requests do not tell it.
    fixed_hits: Vec<u64>,
    pub(super) sliding: Vec<PageLevel>,
    pub(super) fixed: Vec<PageLevel>,
    /// One a target.
    pub(super) required: Vec<Ages>,
    /// One per capacity, of the requests after which it drops something.
    pub(super) eviction_ages: AgeTable,
    /// Requests by the first capacity that holds all that a time to live keeps.
    honoured: Vec<u64>,
    pub(super) is_beyond_bound: Vec<bool>,
    /// No age that cannot be known is smaller than this.
    untold_from_ms: Option<u64>,
}

heap_bytes!(RetentionTally {
    hits, fixed_hits, sliding, fixed, required, eviction_ages, honoured, is_beyond_bound;
    requests, with_reuse, span, capacities, untold_from_ms
});

impl RetentionTally {
    /// Counts what a request found with each fixed time to live, and how much is enough where that follows.
    fn add_fixed(&mut self, found: &[u64]) {
        let (hits, enough) = found.split_at(self.fixed.len());
        let (sums, covered) = self.fixed_hits.split_at_mut(self.fixed.len());
        sums.iter_mut().zip(hits).for_each(|(sum, hits)| *sum += hits);
        match enough.first() {
            Some(enough) => {
                covered.iter_mut().zip(hits).for_each(|(sum, hits)| *sum += u64::from(hits >= enough))
            }
            None => self.fixed_hits.truncate(self.fixed.len()),
        }
    }

    /// Takes in another's, but for its ages.
    fn merge_counts(&mut self, other: &Self) {
        let sums = |sums: &mut [u64], others: &[u64]| {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        };
        self.requests += other.requests;
        self.with_reuse += other.with_reuse;
        sums(&mut self.hits, &other.hits);
        self.fixed_hits.truncate(other.fixed_hits.len());
        sums(&mut self.fixed_hits, &other.fixed_hits);
        sums(&mut self.honoured, &other.honoured);
        self.sliding.iter_mut().zip(&other.sliding).for_each(|(held, other)| held.merge(other));
        self.fixed.iter_mut().zip(&other.fixed).for_each(|(held, other)| held.merge(other));
        self.is_beyond_bound
            .iter_mut()
            .zip(&other.is_beyond_bound)
            .for_each(|(untold, other)| *untold |= other);
        self.untold_from_ms = least(self.untold_from_ms, other.untold_from_ms);
        let both = self.span.zip(other.span);
        self.span = both.map(|(own, other)| (own.0.min(other.0), own.1.max(other.1)));
    }

    /// From the first to the last request.
    pub(super) fn span_ms(&self) -> u64 {
        self.span.map_or(0, |(start, end)| start.abs_diff(end))
    }

    /// The smallest times to live that are enough for each share of the requests; `None` where one of a request with
    /// forgotten pages may be smaller.
    pub(super) fn required(&self, ages: &Ages, coverages: &[Ratio]) -> Vec<Option<u64>> {
        let is_told =
            |found: &u64| self.untold_from_ms.is_none_or(|from: u64| ages.untold() == 0 || *found <= from);
        let found = ages.quantiles(coverages, self.requests - self.with_reuse).into_iter();
        found.map(|found| found.filter(is_told)).collect()
    }

    /// Pages found with a fixed time to live.
    pub(super) fn fixed_hits(&self, ttl: usize) -> u64 {
        self.fixed_hits[ttl]
    }

    /// Requests that found enough of their prefix with a fixed time to live, at the first target ratio.
    pub(super) fn fixed_covered(&self, ttl: usize) -> Option<u64> {
        self.fixed_hits.get(self.fixed.len() + ttl).copied()
    }

    /// Pages found within a time to live, however much room there is.
    pub(super) fn hits_within(&self, ttl: usize) -> u64 {
        self.hits[..(ttl + 1) * (self.capacities + 1)].iter().sum()
    }

    /// Pages found within a time to live by a capacity.
    pub(super) fn hits_within_at(&self, ttl: usize, capacity: usize) -> u64 {
        let rows = self.hits.chunks(self.capacities + 1).take(ttl + 1);
        rows.map(|row| row[..=capacity].iter().sum::<u64>()).sum()
    }

    /// Requests after which a capacity held all that a time to live keeps.
    pub(super) fn honoured(&self, ttl: usize, capacity: usize) -> u64 {
        self.honoured[ttl * (self.capacities + 1)..][..=capacity].iter().sum()
    }
}

/// The smaller of those that are there.
fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

impl Counter for RetentionTally {
    type Share = RetentionShare;

    fn new(shape: RetentionShape) -> Self {
        let RetentionShape { ttls, capacities, targets, most_ages } = shape;
        Self {
            requests: 0,
            with_reuse: 0,
            span: None,
            capacities,
            hits: vec![0; (ttls + 1) * (capacities + 1)],
            fixed_hits: vec![0; 2 * ttls],
            sliding: vec![PageLevel::default(); ttls],
            fixed: vec![PageLevel::default(); ttls],
            required: vec![Ages::new(most_ages); targets],
            eviction_ages: AgeTable::new(capacities, most_ages),
            honoured: vec![0; ttls * (capacities + 1)],
            is_beyond_bound: vec![false; ttls],
            untold_from_ms: None,
        }
    }

    fn add(&mut self, request: &RetentionShare) {
        let is_first = self.requests == 0;
        self.requests += 1;
        let row = self.capacities + 1;
        for (ttl, capacity, pages) in &request.hits {
            self.hits[*ttl as usize * row + *capacity as usize] += u64::from(*pages);
        }
        for (at, capacity) in request.fits.iter().enumerate() {
            self.honoured[at * row + *capacity as usize] += 1;
        }
        self.add_fixed(&request.fixed_hits);
        for (held, levels) in [(&mut self.sliding, &request.sliding), (&mut self.fixed, &request.fixed)] {
            held.iter_mut().zip(levels).for_each(|(held, level)| held.add(*level, is_first));
        }
        if request.has_reuse {
            self.with_reuse += 1;
            self.required.iter_mut().zip(&request.required).for_each(|(ages, age)| ages.insert(*age));
        }
        self.eviction_ages.add(&request.eviction_ages);
        self.is_beyond_bound
            .iter_mut()
            .zip(&request.is_beyond_bound)
            .for_each(|(untold, now)| *untold |= now);
        self.untold_from_ms = least(self.untold_from_ms, request.forgotten_from_ms);
        let (start, _) = self.span.unwrap_or((request.now_ms, request.now_ms));
        self.span = Some((start, request.now_ms));
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let counted = parts.clone().filter(|part| part.requests > 0);
        let Some(first) = counted.clone().next() else { return parts.clone().next().cloned() };
        let required = |at: usize| Ages::merged(counted.clone().map(move |part| &part.required[at]));
        let mut sum = Self {
            required: (0..first.required.len()).map(required).collect(),
            eviction_ages: AgeTable::merged(counted.clone().map(|part| &part.eviction_ages)),
            ..first.clone()
        };
        counted.skip(1).for_each(|part| sum.merge_counts(part));
        Some(sum)
    }

    fn consolidate(&mut self) {
        self.required.iter_mut().for_each(Ages::consolidate);
        self.eviction_ages.consolidate();
    }

    fn is_consolidated(&self) -> bool {
        self.required.iter().all(Ages::is_consolidated) && self.eviction_ages.is_consolidated()
    }

    fn is_sound(&self, shape: RetentionShape) -> bool {
        let RetentionShape { ttls, capacities, targets, most_ages } = shape;
        let held = || self.sliding.iter().chain(&self.fixed);
        self.capacities == capacities
            && (self.hits.len(), self.honoured.len())
                == ((ttls + 1) * (capacities + 1), ttls * (capacities + 1))
            && [self.sliding.len(), self.fixed.len(), self.is_beyond_bound.len()] == [ttls; 3]
            && [ttls, 2 * ttls].contains(&self.fixed_hits.len())
            && self.required.len() == targets
            && self
                .hits
                .iter()
                .chain(&self.fixed_hits)
                .chain(&self.honoured)
                .all(|count| is_countable(*count))
            && held().all(|held| held.first <= held.last && is_countable(held.peak))
            && is_countable(self.requests)
            && self.with_reuse <= self.requests
            && self.span.is_some() == (self.requests > 0)
            && self.required.iter().all(|ages| ages.are_sound(most_ages))
            && self.eviction_ages.is_sound(capacities, most_ages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::counters::Share;

    #[test]
    fn requests_of_older_snapshots_leave_the_coverage_of_fixed_times_untold() {
        let shape = RetentionShape { ttls: 2, capacities: 0, targets: 1, most_ages: 9 };
        let request = |found: &[u64]| RetentionShare {
            fixed_hits: found.to_vec(),
            sliding: vec![(0, 0); 2],
            fixed: vec![(0, 0); 2],
            is_beyond_bound: vec![false; 2],
            required: vec![None],
            fits: vec![0; 2],
            ..RetentionShare::default()
        };
        let [told, older] = [&[5, 3, 4][..], &[5, 3]].map(request);
        assert!(told.is_sound(shape) && older.is_sound(shape));
        let counted = |requests: &[&RetentionShare]| {
            let mut tally = RetentionTally::new(shape);
            requests.iter().for_each(|request| tally.add(request));
            assert!(tally.is_sound(shape));
            tally
        };
        let read =
            |tally: &RetentionTally| [0, 1].map(|ttl| (tally.fixed_hits(ttl), tally.fixed_covered(ttl)));
        let (all, some) = (counted(&[&told, &told]), counted(&[&older, &told]));
        assert_eq!(read(&all), [(10, Some(2)), (6, Some(0))]);
        assert_eq!(read(&some), [(10, None), (6, None)]);
        let union = RetentionTally::merged([&all, &some].into_iter()).expect("two");
        assert_eq!(read(&union), [(20, None), (12, None)]);
        assert!(union.is_sound(shape));
    }
}
