//! What a router would give in a window, as it is published.

use super::result::{RoutedQuantile, RoutingResult};
use crate::estimate::curve::{PromptTokens, share};
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// One router. Pages are pages of the pool; numbers beyond the tracked bound are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterEstimate {
    /// As it was asked for, with what differs from the default: `hash:4:session`.
    pub asked: String,
    /// The router's name.
    pub router: String,
    /// Its replicas; for `logged`, those that the log has named.
    pub replicas: u64,
    /// The busiest replica's uncached pages over the mean, at the largest of the capacities that can be told.
    pub imbalance: Option<f64>,
    /// Page hits of replicas without limit.
    pub unlimited_page_hits: u64,
    /// Pages accessed.
    pub page_accesses: u64,
    /// The curve by total capacity.
    pub capacities: Vec<RoutedCapacity>,
    /// The requirement, one entry a target ratio.
    pub required: Vec<RouterRequirement>,
}

/// One total capacity, split evenly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoutedCapacity {
    /// All replicas together.
    pub total_pages: u64,
    /// The same, where a cost a token is known.
    pub total_bytes: Option<u64>,
    /// Each replica.
    pub pages: u64,
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Pages in the leading runs of hits.
    pub prefix_hits: Option<u64>,
    /// Page hits a page access.
    pub page_hit_rate: Option<f64>,
    /// The same by tokens, as a share of all tokens of the prompts; records before version 5 lack it.
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
    /// All replicas together, where a cost a token is known.
    pub total_bytes: Option<u64>,
}

impl RouterEstimate {
    /// A router's result where a page has so many tokens and takes so many bytes.
    pub fn of(routed: &RoutingResult, page_size: PageSize, page_bytes: Option<PageBytes>) -> Self {
        let prompts = PromptTokens::of(routed.page_accesses, routed.rest_tokens, page_size);
        let size = |pages: u64| page_bytes.map(|page| PageCount(pages).bytes(page).0);
        let capacities = routed.capacities.iter().map(|point| RoutedCapacity {
            total_pages: point.total_pages,
            total_bytes: size(point.total_pages),
            pages: point.pages,
            page_hits: point.page_hits,
            prefix_hits: point.page_hits,
            page_hit_rate: point.page_hits.map(|hits| share(hits, routed.page_accesses)),
            hit_rate_tokens: point.page_hits.map(|hits| prompts.hit_rate(hits)),
            imbalance: point.imbalance,
        });
        let quantile = |found: &RoutedQuantile| RouterCoverage {
            coverage: found.coverage,
            pages: found.pages,
            total_pages: found.total_pages,
            total_bytes: found.total_pages.and_then(size),
        };
        let required = routed.required.iter().map(|required| RouterRequirement {
            target_ratio: required.target_ratio,
            requests: routed.requests,
            requests_with_reuse: routed.requests_with_reuse,
            coverage: required.coverage.iter().map(quantile).collect(),
        });
        Self {
            asked: routed.spec.written(),
            router: routed.spec.kind.name().to_owned(),
            replicas: routed.replicas as u64,
            imbalance: routed.imbalance,
            unlimited_page_hits: routed.unlimited_page_hits,
            page_accesses: routed.page_accesses,
            capacities: capacities.collect(),
            required: required.collect(),
        }
    }
}
