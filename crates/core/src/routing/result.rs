//! What a router gives: hits by total capacity, requirements, imbalance.

use super::spec::RouterSpec;
use crate::coverage::Distribution;
use crate::found::{FoundPages, FoundRun};
use crate::needs::Needs;
use crate::outcome::{BEYOND, Outcome};
use crate::pool_config::PoolConfig;
use crate::ratio::Ratio;
use crate::units::PageCount;

/// The counted requests of one replica, in followed pages.
#[derive(Debug, Default)]
pub(super) struct ReplicaTally {
    requests: u64,
    page_accesses: u64,
    reusable: u64,
    found: FoundPages,
}

impl ReplicaTally {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.requests += 1;
        self.page_accesses += outcome.page_accesses;
        self.reusable += outcome.reusable_prefix();
        outcome.runs.iter().filter_map(FoundRun::of).for_each(|run| self.found.add(&run));
    }
}

/// Required capacities of all requests, one multiset a target ratio.
#[derive(Debug)]
pub(super) struct RoutedNeeds {
    by_target: Vec<Needs>,
}

impl RoutedNeeds {
    pub(super) fn new(targets: usize) -> Self {
        Self { by_target: vec![Needs::default(); targets] }
    }

    pub(super) fn add(&mut self, outcome: &Outcome, targets: &[Ratio]) {
        let reusable = outcome.reusable_prefix();
        if reusable == 0 {
            return;
        }
        for (needs, target) in self.by_target.iter_mut().zip(targets) {
            needs.insert(outcome.need_of_prefix(target.ceil_of(reusable)));
        }
    }
}

/// A router over a whole trace. Pages are whole pages: sampled counts are scaled up.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingResult {
    /// The router.
    pub spec: RouterSpec,
    /// Its replicas; those that the log names.
    pub replicas: usize,
    /// Requests counted.
    pub requests: u64,
    /// Those that found something in their replica.
    pub requests_with_reuse: u64,
    /// Pages they accessed.
    pub page_accesses: u64,
    /// Hits of replicas without limit: what no memory repairs is missing here.
    pub unlimited_page_hits: u64,
    /// The busiest replica's uncached pages over the mean at the largest capacity asked for that can be
    /// told, without limit where there is none; `None` where nothing is left to prefill.
    pub imbalance: Option<f64>,
    /// Hits by total capacity, as asked.
    pub capacities: Vec<RoutedPoint>,
    /// One a target ratio.
    pub required: Vec<RoutedRequirement>,
}

/// One total capacity, split evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoutedPoint {
    /// All replicas together.
    pub total_pages: u64,
    /// Each replica: the total divided by their number, rounded down.
    pub pages: u64,
    /// Accesses that hit; `None` beyond the tracked bound. Prefix hits are the same pages.
    pub page_hits: Option<u64>,
    /// The busiest replica's uncached pages over the mean.
    pub imbalance: Option<f64>,
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutedRequirement {
    /// Share of what its replica has seen that a request must find.
    pub target_ratio: Ratio,
    /// Exact quantiles.
    pub coverage: Vec<RoutedQuantile>,
}

/// The capacity that is enough for a share of the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoutedQuantile {
    /// The share.
    pub coverage: Ratio,
    /// Each replica; `None` beyond the tracked bound.
    pub pages: Option<u64>,
    /// All replicas together.
    pub total_pages: Option<u64>,
}

impl RoutingResult {
    pub(super) fn of(
        spec: RouterSpec,
        replicas: usize,
        tallies: &[ReplicaTally],
        needs: &RoutedNeeds,
        totals: &[PageCount],
        config: &PoolConfig,
    ) -> Self {
        let whole = |pages: u64| config.sample_rate.whole_of(pages);
        let sum = |count: fn(&ReplicaTally) -> u64| tallies.iter().map(count).sum::<u64>();
        let requests = sum(|tally| tally.requests);
        let capacities: Vec<_> =
            totals.iter().map(|total| RoutedPoint::of(*total, replicas, tallies, config)).collect();
        let told = capacities.iter().rev().find(|point| point.page_hits.is_some());
        let unlimited = || imbalance(tallies, replicas, |tally| tally.reusable);
        let count = |needs: &Needs| needs.count_upto(u64::from(u32::MAX));
        Self {
            spec,
            replicas,
            requests,
            requests_with_reuse: needs.by_target.first().map_or(0, count),
            page_accesses: whole(sum(|tally| tally.page_accesses)),
            unlimited_page_hits: whole(sum(|tally| tally.reusable)),
            imbalance: told.map_or_else(unlimited, |point| point.imbalance),
            capacities,
            required: required(needs, requests, replicas, config),
        }
    }
}

impl RoutedPoint {
    fn of(total: PageCount, replicas: usize, tallies: &[ReplicaTally], config: &PoolConfig) -> Self {
        let pages = total.0 / replicas.max(1) as u64;
        let followed = config.held_shares().followed_of(PageCount(pages));
        let told = followed <= config.max_tracked_pages.0;
        let hits = |tally: &ReplicaTally| tally.found.hits_at(followed);
        let sum = told.then(|| config.sample_rate.whole_of(tallies.iter().map(hits).sum()));
        let imbalance = if told { imbalance(tallies, replicas, hits) } else { None };
        Self { total_pages: total.0, pages, page_hits: sum, imbalance }
    }
}

/// The busiest replica's uncached pages over the mean.
fn imbalance(tallies: &[ReplicaTally], replicas: usize, hits: impl Fn(&ReplicaTally) -> u64) -> Option<f64> {
    let uncached = tallies.iter().map(|tally| tally.page_accesses.saturating_sub(hits(tally)));
    let (most, sum) = uncached.fold((0, 0_u64), |(most, sum), pages| (pages.max(most), sum + pages));
    (sum > 0).then(|| most as f64 * replicas as f64 / sum as f64)
}

fn required(
    needs: &RoutedNeeds,
    requests: u64,
    replicas: usize,
    config: &PoolConfig,
) -> Vec<RoutedRequirement> {
    let of = |(needs, target_ratio): (&Needs, &Ratio)| {
        let distribution = Distribution::new(needs, requests);
        let quantile = |coverage: &Ratio| {
            let need = distribution.quantile(*coverage).filter(|need| *need != BEYOND);
            let pages = need.map(|need| config.nominal_pages(need));
            let total_pages = pages.map(|pages| pages.saturating_mul(replicas as u64));
            RoutedQuantile { coverage: *coverage, pages, total_pages }
        };
        RoutedRequirement {
            target_ratio: *target_ratio,
            coverage: config.coverages.iter().map(quantile).collect(),
        }
    };
    needs.by_target.iter().zip(&config.target_ratios).map(of).collect()
}
