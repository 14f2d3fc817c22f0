//! The measured requests of a trace or window, counted at single capacities.

use super::counted::Counted;
use super::intervals::Agreed;
use super::ledger::Ledger;
use super::reading::CachedPages;
use crate::outcome::{Need, Outcome};
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// One measured request as every window counts it. Pages are followed pages, but for `cached`.
///
/// Engines that are modelled a capacity at a time follow every page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointShare {
    cached: u64,
    hits: u64,
    page_accesses: u64,
    unlimited: u64,
    /// Pages that hit though the log never shows them before.
    beyond: u64,
    /// The larger of what could be reused and of what hit.
    weight: u64,
    /// What one cache for all requests finds, one entry a capacity.
    shared: Vec<u32>,
    /// What the cache that served it finds, where the log names that.
    routed: Option<Vec<u32>>,
}

/// Counts over the requests that say what they found. Pages are followed pages, but for `cached_pages`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointTally {
    requests: u64,
    cached_pages: u64,
    measured: u64,
    page_accesses: u64,
    unlimited: u64,
    requests_beyond_log: u64,
    pages_beyond_log: u64,
    /// Requests with something to reuse, or with hits, and their pages.
    told: (u64, u64),
    /// One a capacity.
    points: Vec<Point>,
}

/// The counts of one capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Point {
    /// Requests that can tell and found exactly this, and their pages.
    agreeing: (u64, u64),
    /// Hits of one cache for all requests.
    shared: u64,
    /// Hits of the caches that served them.
    routed: u64,
}

impl PointShare {
    /// What the engine says of a request; what it finds without limit, in one cache for all at each capacity, and in
    /// the one that served it where the log names that.
    pub fn of(
        cached: CachedPages,
        outcome: &Outcome,
        unlimited: u64,
        shared: &[u64],
        routed: Option<&[u64]>,
    ) -> Self {
        let (hits, reusable) = (cached.followed, outcome.reusable_prefix());
        // A request's pages are counted in 32 bits everywhere.
        let narrow = |hits: &[u64]| hits.iter().map(|hits| *hits as u32).collect();
        Self {
            cached: cached.all,
            hits,
            page_accesses: outcome.page_accesses,
            unlimited,
            beyond: hits.saturating_sub(reusable),
            weight: hits.max(reusable),
            shared: narrow(shared),
            routed: routed.map(narrow),
        }
    }

    /// Whether this, read back from a snapshot, can be counted at so many capacities.
    pub fn is_sound(&self, capacities: usize) -> bool {
        let pages = [self.cached, self.hits, self.page_accesses, self.unlimited, self.beyond, self.weight];
        pages.into_iter().all(is_countable)
            && self.shared.len() == capacities
            && self.routed.iter().all(|routed| routed.len() == capacities)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        let hits = self.shared.capacity() + self.routed.as_ref().map_or(0, Vec::capacity);
        size_of::<Self>() + hits * size_of::<u32>()
    }

    /// The counts of the request alone, at each capacity.
    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let routed = self.routed.as_ref().unwrap_or(&self.shared);
        self.shared.iter().zip(routed).map(|(shared, routed)| {
            let agrees = self.weight > 0 && u64::from(*routed) == self.hits;
            let agreeing = if agrees { (1, self.weight) } else { (0, 0) };
            Point { agreeing, shared: u64::from(*shared), routed: u64::from(*routed) }
        })
    }
}

impl PointTally {
    /// Nothing counted yet, at so many capacities.
    pub fn new(capacities: usize) -> Self {
        Self { points: vec![Point::default(); capacities], ..Self::default() }
    }

    /// Takes a request in.
    pub fn add(&mut self, request: &PointShare) {
        self.change(request, |count, by| *count += by);
    }

    /// Takes a request out that was taken in before.
    pub fn remove(&mut self, request: &PointShare) {
        self.change(request, |count, by| *count -= by);
    }

    fn change(&mut self, request: &PointShare, by: impl Fn(&mut u64, u64)) {
        by(&mut self.requests, 1);
        by(&mut self.cached_pages, request.cached);
        by(&mut self.measured, request.hits);
        by(&mut self.page_accesses, request.page_accesses);
        by(&mut self.unlimited, request.unlimited);
        by(&mut self.requests_beyond_log, u64::from(request.beyond > 0));
        by(&mut self.pages_beyond_log, request.beyond);
        by(&mut self.told.0, u64::from(request.weight > 0));
        by(&mut self.told.1, request.weight);
        for (point, own) in self.points.iter_mut().zip(request.points()) {
            point.change(&own, &by);
        }
    }

    /// The union of several of equal capacities.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let capacities = parts.clone().map(|part| part.points.len()).max().unwrap_or(0);
        let mut sum = Self::new(capacities);
        for part in parts {
            sum.requests += part.requests;
            sum.cached_pages += part.cached_pages;
            sum.measured += part.measured;
            sum.page_accesses += part.page_accesses;
            sum.unlimited += part.unlimited;
            sum.requests_beyond_log += part.requests_beyond_log;
            sum.pages_beyond_log += part.pages_beyond_log;
            sum.told = (sum.told.0 + part.told.0, sum.told.1 + part.told.1);
            for (point, own) in sum.points.iter_mut().zip(&part.points) {
                point.change(own, &|count: &mut u64, by| *count += by);
            }
        }
        sum
    }

    /// Whether this, read back from a snapshot, counts at so many capacities and can be counted on.
    pub fn is_sound(&self, capacities: usize) -> bool {
        let counts = [self.requests, self.cached_pages, self.measured, self.page_accesses, self.unlimited];
        let beyond = [self.requests_beyond_log, self.pages_beyond_log, self.told.0, self.told.1];
        self.points.len() == capacities
            && counts.into_iter().chain(beyond).all(is_countable)
            && self.points.iter().all(Point::is_sound)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        self.points.capacity() * size_of::<Point>()
    }

    /// Requests that say what they found.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// What an estimate is made of, of so many caches at each of these capacities.
    pub(super) fn counted(&self, capacities: &[Need], replicas: u64) -> Counted {
        Counted {
            requests: self.requests,
            cached_pages: self.cached_pages,
            agreed: self.agreed(capacities),
            told: self.told,
            replicas,
            requests_beyond_log: self.requests_beyond_log,
            pages_beyond_log: self.pages_beyond_log,
        }
    }

    /// The capacity that most requests agree on, and those next to it that just as many do; of equals the one with
    /// the most pages, of these the smallest.
    fn agreed(&self, capacities: &[Need]) -> Option<Agreed> {
        let points = &self.points;
        let best = points.iter().map(|point| point.agreeing).max().filter(|(requests, _)| *requests > 0)?;
        let first = points.iter().position(|point| point.agreeing == best)?;
        let alike = points[first..].iter().take_while(|point| point.agreeing == best).count();
        let (from, to) = (*capacities.get(first)?, *capacities.get(first + alike - 1)?);
        Some(Agreed { from, to: Some(to), requests: best.0, pages: best.1 })
    }

    /// The ledger at `each` pages a replica and `all` pages together; what is not among the capacities is not told.
    pub(super) fn ledger(&self, capacities: &[Need], all: Need, each: Need) -> Ledger {
        let at = |pages: Need| capacities.binary_search(&pages).ok().and_then(|index| self.points.get(index));
        Ledger {
            page_accesses: self.page_accesses,
            unlimited: self.unlimited,
            shared: at(all).map(|point| point.shared),
            routed: at(each).map(|point| point.routed),
            measured: self.measured,
        }
    }
}

impl Point {
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
