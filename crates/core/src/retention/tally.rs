//! What retention found over a set of requests.

use super::{Ages, Followed, RetentionConfig};
use crate::ratio::Ratio;

/// The counts of one time to live and one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    /// Most pages at a time.
    pub(super) peak: u64,
    /// Page-milliseconds as the first request had arrived, and as the last one had.
    first: u128,
    last: u128,
}

impl Held {
    fn add(&mut self, (pages, integral): (u64, u128), is_first: bool) {
        if is_first {
            self.first = integral;
        }
        self.last = integral;
        self.peak = self.peak.max(pages);
    }

    /// The mean over `span_ms`, all of it at one moment the peak.
    pub(super) fn mean(&self, span_ms: u64) -> f64 {
        match span_ms {
            0 => self.peak as f64,
            span => (self.last - self.first) as f64 / span as f64,
        }
    }
}

/// The counts over consecutive requests, in followed pages.
#[derive(Debug, Clone)]
pub struct RetentionTally {
    pub(super) requests: u64,
    pub(super) with_reuse: u64,
    /// Event time of the first and the last request.
    span: Option<(i64, i64)>,
    capacities: usize,
    /// By the first time to live and the first capacity that finds them; the last of either is none.
    hits: Vec<u64>,
    pub(super) fixed_hits: Vec<u64>,
    pub(super) sliding: Vec<Held>,
    pub(super) fixed: Vec<Held>,
    /// One a target.
    pub(super) required: Vec<Ages>,
    /// One a capacity, of the requests after which it drops something.
    pub(super) eviction_ages: Vec<Ages>,
    /// Requests by the first capacity that holds all that a time to live keeps.
    honoured: Vec<u64>,
    pub(super) is_beyond_bound: Vec<bool>,
    /// No age that cannot be told is smaller than this.
    untold_from_ms: Option<u64>,
}

impl RetentionTally {
    /// Nothing counted yet.
    pub fn new(config: &RetentionConfig) -> Self {
        let (ttls, capacities) = (config.ttls.len(), config.capacities.len());
        Self {
            requests: 0,
            with_reuse: 0,
            span: None,
            capacities,
            hits: vec![0; (ttls + 1) * (capacities + 1)],
            fixed_hits: vec![0; ttls],
            sliding: vec![Held::default(); ttls],
            fixed: vec![Held::default(); ttls],
            required: vec![Ages::default(); config.targets.len()],
            eviction_ages: vec![Ages::default(); capacities],
            honoured: vec![0; ttls * (capacities + 1)],
            is_beyond_bound: vec![false; ttls],
            untold_from_ms: None,
        }
    }

    /// Counts a request.
    pub fn add(&mut self, request: &Followed, config: &RetentionConfig) {
        let is_first = self.requests == 0;
        self.requests += 1;
        let row = self.capacities + 1;
        for (ttl, capacity, pages) in &request.hits {
            self.hits[ttl * row + capacity] += u64::from(*pages);
        }
        for (at, (pages, _)) in request.sliding.iter().enumerate() {
            let first = config.capacities.partition_point(|capacity| capacity < pages);
            self.honoured[at * row + first] += 1;
        }
        self.fixed_hits.iter_mut().zip(&request.fixed_hits).for_each(|(sum, hits)| *sum += hits);
        let held = self.sliding.iter_mut().zip(&request.sliding);
        held.chain(self.fixed.iter_mut().zip(&request.fixed))
            .for_each(|(held, level)| held.add(*level, is_first));
        if request.has_reuse {
            self.with_reuse += 1;
            self.required.iter_mut().zip(&request.required).for_each(|(ages, age)| ages.insert(*age));
        }
        for (ages, age) in self.eviction_ages.iter_mut().zip(&request.eviction_ages) {
            if age.is_some() {
                ages.insert(*age);
            }
        }
        self.is_beyond_bound
            .iter_mut()
            .zip(&request.is_beyond_bound)
            .for_each(|(untold, now)| *untold |= now);
        self.untold_from_ms = request.forgotten_from_ms.or(self.untold_from_ms);
        let (start, _) = self.span.unwrap_or((request.now_ms, request.now_ms));
        self.span = Some((start, request.now_ms));
    }

    /// From the first to the last request.
    pub(super) fn span_ms(&self) -> u64 {
        self.span.map_or(0, |(start, end)| start.abs_diff(end))
    }

    /// The smallest time to live that is enough for a share of the requests; `None` where one of a request with
    /// forgotten pages may be smaller.
    pub(super) fn required(&self, ages: &Ages, coverage: Ratio) -> Option<u64> {
        let found = ages.quantile(coverage, self.requests - self.with_reuse)?;
        let is_told = |from: u64| ages.untold() == 0 || found <= from;
        self.untold_from_ms.is_none_or(is_told).then_some(found)
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
