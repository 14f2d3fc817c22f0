//! What a router gives: hits by total capacity, requirements, imbalance.

use super::router::Router;
use super::spec::RouterSpec;
use super::tally::{ReplicaTally, RoutingTally};
use crate::estimate::coverage::Distribution;
use crate::pool::config::PoolConfig;
use crate::request::outcome::BEYOND;
use crate::stack::needs::Needs;
use crate::units::PageCount;
use crate::units::ratio::Ratio;

/// A router over a whole trace, or a window of it. Pages are whole pages: sampled counts are scaled up.
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
    /// Tokens of prompts behind their full pages, as far as known.
    pub rest_tokens: u64,
    /// Hits of replicas without limit: what no memory repairs is missing here.
    pub unlimited_page_hits: u64,
    /// The busiest replica's uncached pages over the mean at the largest capacity asked for that can be
    /// told, without limit where there is none; `None` where nothing is left to prefill.
    pub imbalance: Option<f64>,
    /// Hits by total capacity, as asked; of a router that asks the caches at its own alone.
    pub capacities: Vec<RoutedPoint>,
    /// One a target ratio; none of a router that asks the caches.
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
    /// What requests found behind a router, at these total capacities.
    pub fn of(router: &Router, tally: &RoutingTally, totals: &[PageCount], config: &PoolConfig) -> Self {
        let (replicas, tallies) = (router.replicas(), &tally.replicas[..]);
        let whole = |pages: u64| config.sample_rate.whole_of(pages);
        let sum = |count: fn(&ReplicaTally) -> u64| tallies.iter().map(count).sum::<u64>();
        let requests = sum(|tally| tally.requests);
        let only = router.only_total();
        let totals = only.as_ref().map_or(totals, |total| total.as_slice());
        let capacities: Vec<_> =
            totals.iter().map(|total| RoutedPoint::of(*total, replicas, tallies, config)).collect();
        let told = capacities.iter().rev().find(|point| point.page_hits.is_some());
        let unlimited = || imbalance(tallies, replicas, |tally| tally.reusable);
        let count = |needs: &Needs| needs.count_upto(u64::from(u32::MAX));
        Self {
            spec: router.spec(),
            replicas,
            requests,
            requests_with_reuse: tally.needs.first().map_or(0, count),
            page_accesses: whole(sum(|tally| tally.page_accesses)),
            rest_tokens: sum(|tally| tally.rest_tokens),
            unlimited_page_hits: whole(sum(|tally| tally.reusable)),
            imbalance: told.map_or_else(unlimited, |point| point.imbalance),
            capacities,
            // What is needed is told by one run for all capacities only.
            required: match only {
                None => required(&tally.needs, requests, replicas, config),
                Some(_) => Vec::new(),
            },
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

fn required(needs: &[Needs], requests: u64, replicas: usize, config: &PoolConfig) -> Vec<RoutedRequirement> {
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
    needs.iter().zip(&config.target_ratios).map(of).collect()
}
