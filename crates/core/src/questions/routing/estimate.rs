//! What a router gives in a window, as it is published: hits by total capacity, requirements, imbalance.

use super::router::Router;
use super::tally::{ReplicaTally, RoutingTally};
use crate::engines::config::CacheConfig;
use crate::request::outcome::BEYOND;
use crate::sizing::coverage::Distribution;
use crate::sizing::curve::{PromptTokens, share};
use crate::stack::needs::Needs;
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// One router. Pages are pages of the pool; numbers beyond the tracked bound are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterEstimate {
    /// As it was requested, with what differs from the default: `hash:4:session`.
    pub asked: String,
    /// The router's name.
    pub router: String,
    /// Its replicas; for `logged`, those that the log has named.
    pub replicas: u64,
    /// The busiest replica's uncached pages over the mean, at the largest of the capacities that can be known.
    pub imbalance: Option<f64>,
    /// Page hits of replicas without limit.
    pub unlimited_page_hits: u64,
    /// Pages accessed.
    pub page_accesses: u64,
    /// The curve by total capacity.
    pub capacities: Vec<RoutedCapacity>,
    /// The requirement, one entry per target ratio.
    pub required: Vec<RouterRequirement>,
}

/// One total capacity, split evenly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoutedCapacity {
    /// All replicas together.
    pub total_pages: u64,
    /// The same, where a cost per token is known.
    pub total_bytes: Option<u64>,
    /// Each replica.
    pub pages: u64,
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Pages in the leading runs of hits.
    pub prefix_hits: Option<u64>,
    /// Page hits per page access.
    pub page_hit_rate: Option<f64>,
    /// The same by tokens, as a share of all tokens of the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
    /// The busiest replica's uncached pages over the mean.
    pub imbalance: Option<f64>,
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterRequirement {
    /// Share of what its replica has seen that a request must find.
    pub target_ratio: Ratio,
    /// Requests that count.
    pub requests: u64,
    /// Those of them with something to reuse in their replica.
    pub requests_with_reuse: u64,
    /// Exact quantiles.
    pub coverage: Vec<RouterCoverage>,
}

/// The capacity that is enough for a share of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterCoverage {
    /// The share.
    pub coverage: Ratio,
    /// Each replica.
    pub pages: Option<u64>,
    /// All replicas together.
    pub total_pages: Option<u64>,
    /// All replicas together, where a cost per token is known.
    pub total_bytes: Option<u64>,
}

/// What requests found behind a router, and what that is published with.
#[derive(Debug, Clone, Copy)]
pub struct RoutingFigures<'a> {
    /// The router.
    pub router: &'a Router,
    /// What they found.
    pub tally: &'a RoutingTally,
    /// Total capacities, ascending.
    pub totals: &'a [PageCount],
    /// The pool's configuration.
    pub config: &'a CacheConfig,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Bytes per page, where a cost per token is known.
    pub page_bytes: Option<PageBytes>,
}

impl RoutingFigures<'_> {
    /// What the router gives: at every total capacity, and what is required; a router that asks the caches is known
    /// at its own capacity alone. The imbalance is that at the largest capacity within the tracked bound, without
    /// limit where there is none.
    pub fn estimate(&self) -> RouterEstimate {
        let sum = |count: fn(&ReplicaTally) -> u64| self.tally.replicas.iter().map(count).sum::<u64>();
        let only = self.router.only_total();
        let totals = only.as_ref().map_or(self.totals, |total| total.as_slice());
        let page_accesses = self.whole(sum(|tally| tally.page_accesses));
        let prompts = PromptTokens::of(page_accesses, sum(|tally| tally.rest_tokens), self.page_size);
        let capacities: Vec<_> =
            totals.iter().map(|total| self.capacity(*total, page_accesses, prompts)).collect();
        let known = capacities.iter().rev().find(|point| point.page_hits.is_some());
        let unlimited = || self.imbalance(|tally| tally.reusable);
        let spec = self.router.spec();
        RouterEstimate {
            asked: spec.written(),
            router: spec.kind.name().to_owned(),
            replicas: self.router.replicas() as u64,
            imbalance: known.map_or_else(unlimited, |point| point.imbalance),
            unlimited_page_hits: self.whole(sum(|tally| tally.reusable)),
            page_accesses,
            // What is required is known from one run for all capacities only.
            required: if only.is_none() { self.required(sum(|tally| tally.requests)) } else { Vec::new() },
            capacities,
        }
    }

    fn capacity(&self, total: PageCount, page_accesses: u64, prompts: PromptTokens) -> RoutedCapacity {
        let pages = total.0 / self.router.replicas().max(1) as u64;
        let followed = self.config.followed_pages(PageCount(pages));
        let is_known = followed <= self.config.max_tracked_pages.0;
        let hits = |tally: &ReplicaTally| tally.found.hits_at(followed);
        let page_hits = is_known.then(|| self.whole(self.tally.replicas.iter().map(hits).sum()));
        RoutedCapacity {
            total_pages: total.0,
            total_bytes: self.bytes(total.0),
            pages,
            page_hits,
            prefix_hits: page_hits,
            page_hit_rate: page_hits.map(|hits| share(hits, page_accesses)),
            hit_rate_tokens: page_hits.map(|hits| prompts.hit_rate(hits)),
            imbalance: if is_known { self.imbalance(hits) } else { None },
        }
    }

    /// The busiest replica's uncached pages over the mean; `None` where nothing is left to prefill.
    fn imbalance(&self, hits: impl Fn(&ReplicaTally) -> u64) -> Option<f64> {
        let replicas = self.tally.replicas.iter();
        let uncached = replicas.map(|tally| tally.page_accesses.saturating_sub(hits(tally)));
        let (most, sum) = uncached.fold((0, 0_u64), |(most, sum), pages| (pages.max(most), sum + pages));
        (sum > 0).then(|| most as f64 * self.router.replicas() as f64 / sum as f64)
    }

    fn required(&self, requests: u64) -> Vec<RouterRequirement> {
        let count = |needs: &Needs| needs.count_upto(u64::from(u32::MAX));
        let requests_with_reuse = self.tally.needs.first().map_or(0, count);
        let of_target = |(needs, target_ratio): (&Needs, &Ratio)| {
            let distribution = Distribution::new(needs, requests);
            let coverage = |coverage: &Ratio| self.covering(*coverage, &distribution);
            RouterRequirement {
                target_ratio: *target_ratio,
                requests,
                requests_with_reuse,
                coverage: self.config.coverages.iter().map(coverage).collect(),
            }
        };
        self.tally.needs.iter().zip(&self.config.target_ratios).map(of_target).collect()
    }

    fn covering(&self, coverage: Ratio, distribution: &Distribution<'_>) -> RouterCoverage {
        let need = distribution.quantile(coverage).filter(|need| *need != BEYOND);
        let pages = need.map(|need| self.config.nominal_pages(need));
        let total_pages = pages.map(|pages| pages.saturating_mul(self.router.replicas() as u64));
        let total_bytes = total_pages.and_then(|pages| self.bytes(pages));
        RouterCoverage { coverage, pages, total_pages, total_bytes }
    }

    /// A sample's pages scaled up to all pages.
    fn whole(&self, pages: u64) -> u64 {
        self.config.sample_rate.whole_of(pages)
    }

    fn bytes(&self, pages: u64) -> Option<u64> {
        self.page_bytes.map(|page| PageCount(pages).bytes(page).0)
    }
}
