//! Engines without a stack: a cache at each capacity, beside the pool that knows what could be found.

use super::ReplayError;
use crate::core::capacity::CapacitySpec;
use crate::core::curve::{prefill_throughput, share};
use crate::core::estimate::{CapacityPoint, Estimate};
use crate::core::event::RequestEvent;
use crate::core::pool::Pool;
use crate::core::pool_config::PoolConfig;
use crate::core::profile::{Outputs, Profile};
use crate::core::ratio::Ratio;
use crate::core::sglang::{CapacityTooLarge, SglangCache};
use crate::core::units::{PageBytes, PageCount, PageSize};
use crate::core::window::WindowKind;

/// Most capacities modelled at once: each serves every request anew.
const MAX_CAPACITIES: usize = 64;

/// The capacities modelled where none are asked for: powers of two, this one first.
const LEAST_CAPACITY: u64 = 64;
/// The last of them.
const LARGEST_CAPACITY: u64 = 1 << 20;

/// Capacities for engines that are modelled at each on its own: one a doubling from 64 pages to 2^20.
pub fn coarse_grid() -> Vec<CapacitySpec> {
    let doubled = std::iter::successors(Some(LEAST_CAPACITY), |pages| Some(pages * 2));
    doubled.take_while(|pages| *pages <= LARGEST_CAPACITY).map(CapacitySpec::of_pages).collect()
}

/// The caches of one replay.
pub(super) struct Pointwise {
    capacities: Vec<CapacitySpec>,
    outputs: Outputs,
    /// Ascending; there from the first accepted request on, which tells the page size.
    points: Vec<Point>,
    page_bytes: Option<PageBytes>,
}

struct Point {
    label: Option<String>,
    cache: SglangCache,
    /// Hits of the last request.
    last: u64,
    /// Hits of the requests that count.
    hits: u64,
}

impl Pointwise {
    /// Whether the engine needs this, and can have it.
    pub(super) fn of(config: &PoolConfig) -> Result<Option<Self>, ReplayError> {
        if !config.profile.is_pointwise() {
            return Ok(None);
        }
        if config.sample_rate != Ratio::ONE {
            return Err(ReplayError::SampledPointwise(config.profile));
        }
        if config.asks_for_whole_curve() {
            return Err(ReplayError::PlannedPointwise(config.profile));
        }
        if config.capacities.len() > MAX_CAPACITIES {
            let asked = config.capacities.len();
            return Err(ReplayError::TooManyPoints { profile: config.profile, asked, most: MAX_CAPACITIES });
        }
        let asked = config.capacities.clone();
        let capacities = if asked.is_empty() { coarse_grid() } else { asked };
        Ok(Some(Self { capacities, outputs: config.outputs, points: Vec::new(), page_bytes: None }))
    }

    /// How to see what could be found with unlimited capacity: without evictions, the engines that look
    /// up all but the last token and store outputs find the same.
    pub(super) fn unlimited(config: &PoolConfig) -> PoolConfig {
        PoolConfig { profile: Profile::Vllm, ..config.clone() }
    }

    /// Serves a request the pool has accepted.
    pub(super) fn observe(
        &mut self,
        event: &RequestEvent<'_>,
        pool: &Pool,
        counted: bool,
    ) -> Result<(), CapacityTooLarge> {
        if self.points.is_empty()
            && let Some(page_size) = pool.page_size()
        {
            self.place(page_size, pool.page_bytes())?;
        }
        for point in &mut self.points {
            point.last = point.cache.request(event).hits;
            point.hits += if counted { point.last } else { 0 };
        }
        Ok(())
    }

    fn place(&mut self, page_size: PageSize, page_bytes: Option<PageBytes>) -> Result<(), CapacityTooLarge> {
        self.page_bytes = page_bytes;
        for spec in &self.capacities {
            // The pool refuses sizes in bytes where a page's bytes are unknown.
            let Some(pages) = spec.pages(page_bytes) else { continue };
            let cache = SglangCache::new(pages, page_size, self.outputs)?;
            self.points.push(Point { label: spec.label.clone(), cache, last: 0, hits: 0 });
        }
        self.points.sort_by_key(|point| point.cache.capacity());
        Ok(())
    }

    /// What the last request found, one a capacity, ascending.
    pub(super) fn last_hits(&self) -> impl Iterator<Item = u64> {
        self.points.iter().map(|point| point.last)
    }

    /// Requests too large to run at all, warm-up ones too, one a capacity, ascending.
    pub(super) fn turned_away(&self) -> Vec<u64> {
        self.points.iter().map(|point| point.cache.refused()).collect()
    }

    /// Makes the estimate of the pool without evictions that of this engine.
    pub(super) fn correct(&self, estimate: &mut Estimate, profile: Profile) {
        estimate.engine = profile;
        estimate.required.clear();
        estimate.capacities.clear();
        if estimate.window == WindowKind::All {
            let (all, reusable) = (estimate.page_accesses, estimate.theoretical.prefix_hits);
            estimate.capacities.extend(self.points.iter().map(|point| self.point(point, all, reusable)));
        }
    }

    fn point(&self, point: &Point, all: u64, reusable: u64) -> CapacityPoint {
        let PageCount(pages) = point.cache.capacity();
        let rate = Some(share(point.hits, all));
        CapacityPoint {
            label: point.label.clone(),
            pages,
            bytes: self.page_bytes.map(|page| PageCount(pages).bytes(page).0),
            page_hits: Some(point.hits),
            prefix_hits: Some(point.hits),
            page_hit_rate: rate,
            reuse_hit_rate: Some(share(point.hits, reusable)),
            prefix_hit_rate: rate,
            relative_prefill_throughput: prefill_throughput(point.hits, all),
            beyond_bound: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_nobody_asked_for_is_bounded() {
        let grid = coarse_grid();
        let pages = |spec: &CapacitySpec| spec.pages(None).map(|pages| pages.0);
        assert_eq!(
            (grid.len(), grid.first().and_then(pages), grid.last().and_then(pages)),
            (15, Some(64), Some(1 << 20))
        );
    }
}
