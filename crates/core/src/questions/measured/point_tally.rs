//! The measured requests of a trace or window, counted at single capacities.

use super::counts::{Agreement, Counts};
use super::intervals::Agreed;
use super::ledger::Ledger;
use super::reading::{CachedPages, Explanation};
use crate::questions::counters::{Counter, Share};
use crate::request::outcome::{Need, Outcome};
use crate::units::heap::{flat, heap_bytes};
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// One measured request as every window counts it. Pages are followed pages.
///
/// Engines that are modelled a capacity at a time follow every page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointShare {
    counts: Counts,
    /// The larger of what could be reused and of what hit.
    weight: u64,
    /// What one cache for all requests finds, one entry per capacity.
    shared: Vec<u32>,
    /// What the cache that served it finds, where the log names that.
    routed: Option<Vec<u32>>,
}

heap_bytes!(PointShare { shared, routed; counts, weight });

/// Counts over the requests that say what they found. Pages are followed pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointTally {
    counts: Counts,
    /// Requests with something to reuse, or with hits, and their pages.
    told: (u64, u64),
    /// One per capacity.
    points: Vec<PointCounts>,
}

heap_bytes!(PointTally { points; counts, told });

/// The counts of one capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PointCounts {
    /// Requests that can tell and found exactly this, and their pages.
    agreeing: (u64, u64),
    /// Hits of one cache for all requests.
    shared: u64,
    /// Hits of the caches that served them.
    routed: u64,
}

flat!(PointCounts);

impl PointShare {
    /// What the engine says of a request; what it finds without limit, in one cache for all at each capacity, and in
    /// the one that served it where the log names that; and how far the log explains what was found.
    pub fn of(
        cached: CachedPages,
        outcome: &Outcome,
        unlimited: u64,
        shared: &[u64],
        routed: Option<&[u64]>,
        explanation: Explanation,
    ) -> Self {
        let (hits, reusable) = (cached.followed, outcome.reusable_prefix());
        let answers = explanation.in_cache(hits, outcome).reusable_prefix() - reusable;
        // Pages of an answer that the caches do not know are hits where all are that they know.
        let found = |hits: u64| if hits >= reusable { hits + answers } else { hits };
        // A request's pages are counted in 32 bits everywhere.
        let narrow = |hits: &[u64]| hits.iter().map(|hits| found(*hits) as u32).collect();
        Self {
            counts: Counts::of(cached, outcome, unlimited + answers, explanation),
            weight: hits.max(reusable),
            shared: narrow(shared),
            routed: routed.map(narrow),
        }
    }

    /// The counts of the request alone, at each capacity.
    fn points(&self) -> impl Iterator<Item = PointCounts> + '_ {
        let routed = self.routed.as_ref().unwrap_or(&self.shared);
        self.shared.iter().zip(routed).map(|(shared, routed)| {
            let agrees = self.weight > 0 && u64::from(*routed) == self.counts.hits;
            let agreeing = if agrees { (1, self.weight) } else { (0, 0) };
            PointCounts { agreeing, shared: u64::from(*shared), routed: u64::from(*routed) }
        })
    }
}

impl PointTally {
    fn change(&mut self, request: &PointShare, by: impl Fn(&mut u64, u64)) {
        by(&mut self.told.0, u64::from(request.weight > 0));
        by(&mut self.told.1, request.weight);
        for (point, own) in self.points.iter_mut().zip(request.points()) {
            point.change(&own, &by);
        }
    }

    /// What the requests that say what they found add up to.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What an estimate is made of, of so many caches at each of these capacities, which have so many pages
    /// `provisioned`.
    pub(super) fn counted(&self, capacities: &[Need], provisioned: Option<Need>, replicas: u64) -> Agreement {
        let agreed = self.agreed(capacities, provisioned);
        Agreement { counts: self.counts, agreed, told: self.told, replicas }
    }

    /// The capacity that most requests agree on, and those next to it that just as many do; of equals the one with
    /// the most pages, of these what is provisioned, then the smallest.
    fn agreed(&self, capacities: &[Need], provisioned: Option<Need>) -> Option<Agreed> {
        let best =
            self.points.iter().map(|point| point.agreeing).max().filter(|(requests, _)| *requests > 0)?;
        let placed: Vec<_> = capacities.iter().zip(&self.points).collect();
        let mut runs = placed
            .chunk_by(|(_, one), (_, next)| one.agreeing == next.agreeing)
            .filter(|run| run.iter().all(|(_, point)| point.agreeing == best))
            .filter_map(|run| run.first().zip(run.last()))
            .map(|((from, _), (to, _))| Agreed {
                from: **from,
                to: Some(**to),
                requests: best.0,
                pages: best.1,
            });
        let first = runs.next()?;
        let held = |range: &Agreed| provisioned.is_some_and(|each| range.holds(each));
        Some(std::iter::once(first).chain(runs).find(held).unwrap_or(first))
    }

    /// The ledger at `each` pages a replica and `all` pages together; what is not among the capacities is not reported.
    pub(super) fn ledger(&self, capacities: &[Need], all: Need, each: Need) -> Ledger {
        let at = |pages: Need| capacities.binary_search(&pages).ok().and_then(|index| self.points.get(index));
        Ledger {
            page_accesses: self.counts.page_accesses,
            unlimited: self.counts.unlimited,
            shared: at(all).map(|point| point.shared),
            routed: at(each).map(|point| point.routed),
            measured: self.counts.hits,
        }
    }
}

impl PointCounts {
    fn change(&mut self, own: &Self, by: &impl Fn(&mut u64, u64)) {
        by(&mut self.agreeing.0, own.agreeing.0);
        by(&mut self.agreeing.1, own.agreeing.1);
        by(&mut self.shared, own.shared);
        by(&mut self.routed, own.routed);
    }

    fn is_sound(&self) -> bool {
        [self.agreeing.0, self.agreeing.1, self.shared, self.routed].into_iter().all(is_countable)
    }
}

impl Share for PointShare {
    type Shape = usize;

    fn is_sound(&self, capacities: usize) -> bool {
        self.counts.are_sound()
            && is_countable(self.weight)
            && self.shared.len() == capacities
            && self.routed.iter().all(|routed| routed.len() == capacities)
    }
}

impl Counter for PointTally {
    type Share = PointShare;

    fn new(capacities: usize) -> Self {
        Self { points: vec![PointCounts::default(); capacities], ..Self::default() }
    }

    fn add(&mut self, request: &PointShare) {
        self.counts.add(&request.counts);
        self.change(request, |count, by| *count += by);
    }

    fn takes_out(_: usize) -> bool {
        true
    }

    fn remove(&mut self, request: &PointShare) {
        self.counts.remove(&request.counts);
        self.change(request, |count, by| *count -= by);
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let capacities = parts.clone().map(|part| part.points.len()).max()?;
        let mut sum = Self::new(capacities);
        for part in parts {
            sum.counts.add(&part.counts);
            sum.told = (sum.told.0 + part.told.0, sum.told.1 + part.told.1);
            for (point, own) in sum.points.iter_mut().zip(&part.points) {
                point.change(own, &|count: &mut u64, by| *count += by);
            }
        }
        Some(sum)
    }

    fn is_sound(&self, capacities: usize) -> bool {
        self.points.len() == capacities
            && self.counts.are_sound()
            && [self.told.0, self.told.1].into_iter().all(is_countable)
            && self.points.iter().all(PointCounts::is_sound)
    }
}
