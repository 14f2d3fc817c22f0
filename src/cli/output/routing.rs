//! What routers would give, as scripts read it and as tables.

use crate::cli::output::{Column, Sheet, Terminal, bytes, decimal, known, percent, share_name, thousands};
use crate::replay::Replay;
use kvset_core::curve::share;
use kvset_core::ratio::Ratio;
use kvset_core::routing::{RoutedQuantile, RoutingResult};
use serde::Serialize;

/// One router over the whole trace. Pages are pages of the trace's page size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoutingOutput {
    /// The router's name.
    pub router: &'static str,
    /// Its replicas.
    pub replicas: usize,
    /// The busiest replica's uncached pages over the mean, at the largest of the capacities.
    pub imbalance: Option<f64>,
    /// Page hits of replicas without limit.
    pub unlimited_page_hits: u64,
    /// Pages accessed.
    pub page_accesses: u64,
    /// The curve by total capacity.
    pub capacities: Vec<RoutedCapacityOutput>,
    /// The requirement, one entry a target ratio.
    pub required: Vec<RoutedRequirementOutput>,
}

/// One total capacity, split evenly. Numbers beyond the tracked bound are `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoutedCapacityOutput {
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
    /// The busiest replica's uncached pages over the mean.
    pub imbalance: Option<f64>,
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoutedRequirementOutput {
    /// Share of what its replica has seen that a request must find.
    pub target_ratio: Ratio,
    /// Requests that count.
    pub requests: u64,
    /// Those of them with something to reuse in their replica.
    pub requests_with_reuse: u64,
    /// Exact quantiles.
    pub coverage: Vec<RoutedCoverageOutput>,
}

/// The capacity that is enough for a share of the requests. `null` beyond the tracked bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoutedCoverageOutput {
    /// The share.
    pub coverage: Ratio,
    /// Each replica.
    pub pages: Option<u64>,
    /// All replicas together.
    pub total_pages: Option<u64>,
    /// All replicas together, where a cost a token is known.
    pub total_bytes: Option<u64>,
}

impl RoutingOutput {
    /// The output of a router.
    pub fn of(routed: &RoutingResult, replay: &Replay) -> Self {
        let size = |pages: u64| replay.page_bytes.map(|page| pages.saturating_mul(page.0));
        let capacities = routed.capacities.iter().map(|point| RoutedCapacityOutput {
            total_pages: point.total_pages,
            total_bytes: size(point.total_pages),
            pages: point.pages,
            page_hits: point.page_hits,
            prefix_hits: point.page_hits,
            page_hit_rate: point.page_hits.map(|hits| share(hits, routed.page_accesses)),
            imbalance: point.imbalance,
        });
        let quantile = |found: &RoutedQuantile| RoutedCoverageOutput {
            coverage: found.coverage,
            pages: found.pages,
            total_pages: found.total_pages,
            total_bytes: found.total_pages.and_then(size),
        };
        let required = routed.required.iter().map(|required| RoutedRequirementOutput {
            target_ratio: required.target_ratio,
            requests: routed.requests,
            requests_with_reuse: routed.requests_with_reuse,
            coverage: required.coverage.iter().map(quantile).collect(),
        });
        Self {
            router: routed.spec.kind.name(),
            replicas: routed.replicas,
            imbalance: routed.imbalance,
            unlimited_page_hits: routed.unlimited_page_hits,
            page_accesses: routed.page_accesses,
            capacities: capacities.collect(),
            required: required.collect(),
        }
    }

    /// The output as tables.
    pub fn render(&self, terminal: &Terminal) -> String {
        let unlimited = percent(share(self.unlimited_page_hits, self.page_accesses));
        let mut text = format!(
            "\nrouter {}, {} replicas: hit rate with unlimited memory {unlimited}\n",
            self.router, self.replicas
        );
        let mut sheet = Sheet::new(&[
            Column::Number("total pages"),
            Column::Number("size"),
            Column::Number("pages a replica"),
            Column::Number("hit rate"),
            Column::Number("imbalance"),
        ]);
        for point in &self.capacities {
            sheet.row([
                thousands(point.total_pages),
                bytes(point.total_bytes),
                thousands(point.pages),
                known(point.page_hit_rate, percent, true),
                known(point.imbalance, decimal, false),
            ]);
        }
        if !self.capacities.is_empty() {
            text.push_str(&sheet.render(terminal));
        }
        self.required.iter().for_each(|required| text.push_str(&required.render(terminal)));
        text
    }
}

impl RoutedRequirementOutput {
    fn render(&self, terminal: &Terminal) -> String {
        let mut sheet = Sheet::new(&[
            Column::Text("coverage"),
            Column::Number("pages a replica"),
            Column::Number("total pages"),
            Column::Number("size"),
        ]);
        for entry in &self.coverage {
            sheet.row([
                share_name(entry.coverage),
                known(entry.pages, thousands, true),
                known(entry.total_pages, thousands, true),
                bytes(entry.total_bytes),
            ]);
        }
        format!("required with this router at target ratio {}\n{}", self.target_ratio, sheet.render(terminal))
    }
}
