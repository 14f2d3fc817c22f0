//! Required capacities of engines that are modelled a capacity at a time, by reading the trace several times.
//!
//! Each reading tries up to 64 capacities at once: first doublings, then some between the smallest that is enough
//! and the one below it. More memory can lose hits, so what is found is the smallest of the capacities tried, with
//! the next smaller one, which is not enough; it is not proven that none in between is.

use super::channels::Channels;
use super::{ReplayError, ReplayOptions, ReplayRun, TraceReading, order_and_warm_up};
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::Pool;
use kvset_core::request::outcome::Outcome;
use kvset_core::units::capacity::{CapacitySpec, coarse_grid};
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use kvset_core::units::{PageBytes, PageCount};
use kvset_formats::trace::ReadProgress;
use serde::Serialize;
use std::collections::BTreeMap;

/// Most capacities of one reading.
const MOST_TRIED: usize = 64;

/// Most readings; a doubling is narrowed to a hundredth in two.
const MOST_READINGS: u32 = 8;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchResult {
    /// Times the trace was read.
    pub readings: u32,
    /// Capacities tried.
    pub tried: u64,
    /// One entry per target ratio and coverage.
    pub required: Vec<SearchedCapacity>,
}

/// The capacity for one coverage at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchedCapacity {
    /// Share of its reusable prefix that a request must find.
    pub target_ratio: Ratio,
    /// Share of the requests that do.
    pub coverage: Ratio,
    /// The smallest of the capacities tried that is enough; absent where none is, up to the tracked bound.
    pub pages: Option<u64>,
    /// That capacity in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// The next smaller one that was tried, which is not enough.
    pub too_small_pages: Option<u64>,
    /// The largest one tried that is not enough although it is larger: more memory lost hits.
    pub too_small_although_larger_pages: Option<u64>,
}

/// How many requests each capacity of one reading is enough for.
#[derive(Debug, Default)]
pub(super) struct Sufficiency {
    requests: u64,
    /// By target ratio: those that need nothing, and by capacity those that found enough.
    need_nothing: Vec<u64>,
    enough: Vec<Vec<u64>>,
}

impl Sufficiency {
    /// Takes the last request of a pool in.
    pub(super) fn count(&mut self, pool: &Pool, outcome: &Outcome) {
        let Some(caches) = pool.caches() else { return };
        let targets = &pool.config().cache.target_ratios;
        let reusable = caches.last_ceiling().unwrap_or_else(|| outcome.reusable_prefix());
        self.requests += 1;
        self.need_nothing.resize(targets.len(), 0);
        self.enough.resize(targets.len(), Vec::new());
        for (at, ratio) in targets.iter().enumerate() {
            let needed = ratio.ceil_of(reusable);
            self.need_nothing[at] += u64::from(needed == 0);
            self.enough[at].resize(caches.last_hits().len(), 0);
            for (enough, hits) in self.enough[at].iter_mut().zip(caches.last_hits()) {
                *enough += u64::from(*hits >= needed);
            }
        }
    }
}

/// What all readings found so far: requests that are satisfied, by capacity and target ratio.
#[derive(Debug, Default)]
pub(super) struct SatisfiedRequests {
    requests: u64,
    satisfied: BTreeMap<u64, Vec<u64>>,
}

impl SatisfiedRequests {
    pub(super) fn add(&mut self, capacities: &[u64], found: &Sufficiency) {
        self.requests = found.requests;
        self.satisfied.insert(0, found.need_nothing.clone());
        for (at, capacity) in capacities.iter().enumerate() {
            let satisfied = found.enough.iter().map(|by_capacity| by_capacity.get(at).copied().unwrap_or(0));
            self.satisfied.insert(*capacity, satisfied.collect());
        }
    }

    /// Takes in what further readings found.
    pub(super) fn join(&mut self, further: Self) {
        self.requests = self.requests.max(further.requests);
        self.satisfied.extend(further.satisfied);
    }

    /// The smallest capacity from `least` on that is enough, and the largest one of those before it.
    pub(super) fn bracket_from(
        &self,
        least: u64,
        target: usize,
        coverage: Ratio,
    ) -> (Option<u64>, Option<u64>) {
        let mut below = None;
        for (capacity, satisfied) in self.satisfied.range(least..) {
            if self.enough(satisfied, target, coverage) {
                return (Some(*capacity), below);
            }
            below = Some(*capacity);
        }
        (None, below)
    }

    /// Whether a capacity satisfies so many requests.
    fn enough(&self, satisfied: &[u64], target: usize, coverage: Ratio) -> bool {
        satisfied.get(target).is_some_and(|satisfied| *satisfied >= coverage.ceil_of(self.requests))
    }

    /// The capacities to try next; none where every bracket is narrow or cannot be narrowed.
    fn next(&self, targets: usize, coverages: &[Ratio], bound: u64) -> Vec<u64> {
        let all = (0..targets).flat_map(|target| coverages.iter().map(move |coverage| (target, *coverage)));
        let mut open: Vec<(u64, u64)> = all
            .filter_map(|(target, coverage)| match self.bracket_from(0, target, coverage) {
                (Some(enough), Some(below)) => Some((below, enough)),
                (Some(_), None) => None,
                (None, below) => Some((below?, below?.max(1).saturating_mul(64).min(bound))),
            })
            .filter(|(below, enough)| enough - below > (enough / 100).max(1))
            .collect();
        open.sort_unstable();
        open.dedup();
        let each = (MOST_TRIED / open.len().max(1)).clamp(1, 15) as u64;
        let mut next: Vec<u64> = Vec::new();
        for (below, enough) in open {
            // What was found enough is tried already; a bound that was not reached yet is tried, too.
            let last = if self.satisfied.contains_key(&enough) { each } else { each + 1 };
            let place = |part: u64| {
                below + ((enough - below) as u128 * u128::from(part) / u128::from(each + 1)) as u64
            };
            next.extend((1..=last).map(place).filter(|capacity| !self.satisfied.contains_key(capacity)));
        }
        next.sort_unstable();
        next.dedup();
        next.truncate(MOST_TRIED);
        next
    }

    fn found(
        &self,
        target_ratio: Ratio,
        target: usize,
        coverage: Ratio,
        page: Option<PageBytes>,
    ) -> SearchedCapacity {
        let (pages, below) = self.bracket_from(0, target, coverage);
        let larger = self.satisfied.range(pages.unwrap_or(u64::MAX)..).rev();
        let failing = larger.filter(|(_, satisfied)| !self.enough(satisfied, target, coverage));
        SearchedCapacity {
            target_ratio,
            coverage,
            pages,
            bytes: pages.zip(page).map(|(pages, page)| PageCount(pages).bytes(page).0),
            too_small_pages: below.filter(|below| *below > 0),
            too_small_although_larger_pages: failing.map(|(capacity, _)| *capacity).next(),
        }
    }
}

/// Searches the capacities that the options ask for; all else about them is as for [`replay`](super::replay), and
/// rows that cannot be used are passed over.
///
/// # Errors
/// [`ReplayError`]; the trace cannot be read several times, or not at all.
pub fn search(
    options: &ReplayOptions,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<SearchResult, ReplayError> {
    if options.has_stream() {
        return Err(ReplayError::SearchOfStream);
    }
    let known = order_and_warm_up(options)?;
    let (targets, bound) = (options.pool.cache.target_ratios.len(), options.pool.cache.max_tracked_pages);
    let mut tried = SatisfiedRequests::default();
    let (mut readings, mut page_bytes) = (0, None);
    let mut capacities: Vec<u64> =
        coarse_grid(bound).iter().filter_map(|spec| spec.pages(None)).map(|pages| pages.0).collect();
    while !capacities.is_empty() && readings < MOST_READINGS {
        let mut options = options.clone();
        options.pool.cache.capacities = capacities.iter().copied().map(CapacitySpec::of_pages).collect();
        options.pool.windows = vec![WindowKind::All];
        (options.extras, options.pool.questions) = Default::default();
        let start = |pool: &PoolConfig| {
            let mut run = ReplayRun::new(&options, pool, None)?;
            run.count_sufficient();
            Ok(run)
        };
        let engines = [options.pool.clone()];
        let (mut reading, _) =
            TraceReading::read(&options, known, &engines, &start, Channels::default(), progress)?;
        // Of several pools nothing is searched.
        for run in reading.pools.iter_mut().flat_map(|(_, runs)| runs) {
            tried.add(&capacities, &run.take_sufficient());
            page_bytes = run.pool().and_then(Pool::page_bytes);
        }
        readings += 1;
        capacities = tried.next(targets, &options.pool.cache.coverages, bound.0);
    }
    let found = options.pool.cache.target_ratios.iter().enumerate().flat_map(|(target, ratio)| {
        let of = |coverage: &Ratio| tried.found(*ratio, target, *coverage, page_bytes);
        options.pool.cache.coverages.iter().map(of).collect::<Vec<_>>()
    });
    let required = found.collect();
    Ok(SearchResult { readings, tried: tried.satisfied.len().saturating_sub(1) as u64, required })
}
