//! One memory for several pools: the models of a node, each in a part of its own.
//!
//! Each pool's requirements say exactly how many of its requests a part is enough for. Starting from nothing, the pool
//! that is covered least gets what its next request requires, until that does not fit; then the next one. So the least
//! coverage is as large as any split could make it, and no pool can be given more.

use crate::present::pool::ShownDistribution;
use kvset_core::units::ratio::Ratio;
use serde::Serialize;

/// A pool that wants a part.
#[derive(Debug, Clone)]
pub struct Demand<'a> {
    /// Its name.
    pub pool: String,
    /// Bytes of one of its pages.
    pub page_bytes: u64,
    /// Pages to be added to each requirement that is not zero: room for requests in flight where that is no part of
    /// them.
    pub room_pages: u64,
    /// What its requests require.
    pub requirements: &'a ShownDistribution,
}

/// The part of a pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolPart {
    /// The pool.
    pub pool: String,
    /// Its part, in its own pages.
    pub pages: u64,
    /// Its part in bytes.
    pub bytes: u64,
    /// Share of its requests that the part is enough for.
    pub coverage: f64,
}

/// What all pools together require for one coverage of each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CombinedRequirement {
    /// The share of each pool's requests.
    pub coverage: Ratio,
    /// The sum of the parts; absent where one is beyond the tracked bound.
    pub bytes: Option<u64>,
}

/// A memory, split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemorySplit {
    /// The memory.
    pub bytes: u64,
    /// What of it no pool has a use for, or can use, as its next request requires more.
    pub left_bytes: u64,
    /// The parts, in the order of the pools.
    pub pools: Vec<PoolPart>,
    /// What it takes to cover the same share of each pool's requests.
    pub together: Vec<CombinedRequirement>,
}

/// A pool while memory is handed out.
struct Growing<'a> {
    demand: &'a Demand<'a>,
    requests: u64,
    /// Steps of its requirements that it was given, and the requests up to there.
    steps: usize,
    covered: u64,
    pages: u64,
    is_done: bool,
}

impl Growing<'_> {
    fn requests(demand: &Demand<'_>) -> u64 {
        demand.requirements.steps.iter().map(|step| step.requests).sum::<u64>()
            + demand.requirements.beyond_bound
    }

    /// Whether it is covered less than another one.
    fn is_below(&self, other: &Self) -> bool {
        let cross = |one: &Self, two: &Self| u128::from(one.covered) * u128::from(two.requests);
        cross(self, other) < cross(other, self)
    }

    /// Gives it what its next requirement takes; how many bytes are left then. It is done where that is too much.
    fn grow(&mut self, left: u64) -> u64 {
        let Some(step) = self.demand.requirements.steps.get(self.steps) else {
            self.is_done = true;
            return left;
        };
        let pages = self.demand.with_room(step.pages);
        let more = (pages - self.pages).saturating_mul(self.demand.page_bytes);
        if more > left {
            self.is_done = true;
            return left;
        }
        (self.steps, self.covered, self.pages) = (self.steps + 1, self.covered + step.requests, pages);
        left - more
    }
}

impl Demand<'_> {
    fn with_room(&self, pages: u64) -> u64 {
        if pages == 0 { 0 } else { pages + self.room_pages }
    }

    /// What a share of its requests requires, in bytes; `None` beyond the tracked bound.
    fn bytes_for(&self, coverage: Ratio) -> Option<u64> {
        let Some(wanted) = coverage.nearest_rank(Growing::requests(self)) else { return Some(0) };
        let mut covered = 0;
        for step in &self.requirements.steps {
            covered += step.requests;
            if covered >= wanted {
                return Some(self.with_room(step.pages).saturating_mul(self.page_bytes));
            }
        }
        None
    }
}

impl MemorySplit {
    /// Splits so many bytes; `coverages` are those to sum up alongside.
    pub fn of(demands: &[Demand<'_>], bytes: u64, coverages: &[Ratio]) -> Self {
        let growing = |demand| Growing {
            requests: Growing::requests(demand),
            demand,
            steps: 0,
            covered: 0,
            pages: 0,
            is_done: false,
        };
        let mut pools: Vec<Growing<'_>> = demands.iter().map(growing).collect();
        let mut left = bytes;
        loop {
            let mut least: Option<&mut Growing<'_>> = None;
            for pool in pools.iter_mut().filter(|pool| !pool.is_done) {
                if least.as_ref().is_none_or(|least| pool.is_below(least)) {
                    least = Some(pool);
                }
            }
            let Some(least) = least else { break };
            left = least.grow(left);
        }
        let part = |pool: &Growing<'_>| PoolPart {
            pool: pool.demand.pool.clone(),
            pages: pool.pages,
            bytes: pool.pages * pool.demand.page_bytes,
            coverage: if pool.requests == 0 { 1.0 } else { pool.covered as f64 / pool.requests as f64 },
        };
        let together = |coverage: &Ratio| CombinedRequirement {
            coverage: *coverage,
            bytes: demands.iter().map(|demand| demand.bytes_for(*coverage)).sum(),
        };
        Self {
            bytes,
            left_bytes: left,
            pools: pools.iter().map(part).collect(),
            together: coverages.iter().map(together).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::pool::RequirementStep;
    use proptest::prelude::*;

    fn distribution(needs: &[u64]) -> ShownDistribution {
        let mut sorted = needs.to_vec();
        sorted.sort_unstable();
        let mut steps: Vec<RequirementStep> = Vec::new();
        for pages in sorted {
            match steps.last_mut() {
                Some(last) if last.pages == pages => last.requests += 1,
                _ => steps.push(RequirementStep { pages, requests: 1 }),
            }
        }
        ShownDistribution { steps, beyond_bound: 0 }
    }

    fn demand(requirements: &ShownDistribution, page_bytes: u64) -> Demand<'_> {
        Demand { pool: "p".to_owned(), page_bytes, room_pages: 0, requirements }
    }

    /// How many of these requests a part is enough for.
    fn covered(needs: &[u64], pages: u64) -> f64 {
        needs.iter().filter(|need| **need <= pages).count() as f64 / needs.len() as f64
    }

    #[test]
    fn pools_that_cost_differently_are_covered_alike() {
        let (small, large) = (distribution(&[1, 2, 3, 4]), distribution(&[1, 2, 3, 4]));
        let demands = [demand(&small, 1), demand(&large, 10)];
        let half = Ratio::per_mille(500);
        let split = MemorySplit::of(&demands, 25, &[half, Ratio::ONE]);
        assert_eq!(split.pools.iter().map(|part| part.pages).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(split.left_bytes, 1);
        assert_eq!(split.together.iter().map(|sum| sum.bytes).collect::<Vec<_>>(), [Some(22), Some(44)]);
    }

    #[test]
    fn room_is_had_once_and_only_by_pools_that_hold_something() {
        let (none, some) = (distribution(&[0, 0]), distribution(&[0, 5]));
        let demands =
            [Demand { room_pages: 3, ..demand(&none, 1) }, Demand { room_pages: 3, ..demand(&some, 1) }];
        let split = MemorySplit::of(&demands, 100, &[Ratio::ONE]);
        assert_eq!(split.pools.iter().map(|part| part.pages).collect::<Vec<_>>(), [0, 8]);
        assert_eq!(split.left_bytes, 92);
    }

    proptest! {
        #[test]
        fn no_split_covers_the_least_covered_pool_better(
            one in prop::collection::vec(0u64..12, 1..7), two in prop::collection::vec(0u64..12, 1..7),
            costs in (1u64..4, 1u64..4), bytes in 0u64..60,
        ) {
            let (first, second) = (distribution(&one), distribution(&two));
            let split = MemorySplit::of(&[demand(&first, costs.0), demand(&second, costs.1)], bytes, &[]);
            let used: u64 = split.pools.iter().map(|part| part.bytes).sum();
            prop_assert_eq!(used + split.left_bytes, bytes);
            let least = |a: u64, b: u64| covered(&one, a).min(covered(&two, b));
            for (part, needs) in split.pools.iter().zip([&one, &two]) {
                prop_assert_eq!(part.coverage, covered(needs, part.pages));
            }
            let found = least(split.pools[0].pages, split.pools[1].pages);
            for a in 0..=bytes / costs.0 {
                let b = (bytes - a * costs.0) / costs.1;
                prop_assert!(least(a, b) <= found, "{a} and {b} pages cover {}", least(a, b));
            }
        }
    }
}
