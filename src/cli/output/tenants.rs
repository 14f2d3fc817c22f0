//! Whose pages the cache holds, and what splits cost: as scripts read them and as tables (WHATIF 6).

use crate::cli::output::{Column, Sheet, Terminal, known, percent, thousands};
use crate::replay::Replay;
use kvset_core::curve::share;
use kvset_core::estimate::CapacityPoint;
use kvset_core::ratio::Ratio;
use kvset_core::tenants::{QuotaResult, TenantResult};
use serde::Serialize;

/// What all tenants are called that are not told one by one.
const OTHER: &str = "other";

/// One tenant, or all that are not told one by one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantOutput {
    /// Its name; `null` for requests that name nobody, `other` for all others together.
    pub tenant: Option<String>,
    /// How many tenants `other` stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<u64>,
    /// Requests counted.
    pub requests: u64,
    /// Pages they accessed.
    pub page_accesses: u64,
    /// Hits with unlimited capacity.
    pub page_hits: u64,
    /// Accesses of pages never seen before.
    pub cold_pages: u64,
    /// The same in bytes, where a cost a token is known.
    pub cold_bytes: Option<u64>,
    /// Hits, one a capacity.
    pub capacity_page_hits: Vec<u64>,
    /// Pages held, times milliseconds, one a capacity.
    pub page_milliseconds: Vec<u128>,
    /// The capacity of the shared cache that is enough for its requests, one entry a target ratio.
    pub required: Vec<TenantRequiredOutput>,
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantRequiredOutput {
    /// Share of the reusable prefix a request must find.
    pub target_ratio: Ratio,
    /// Exact quantiles.
    pub coverage: Vec<TenantCoverageOutput>,
}

/// The capacity that is enough for a share of a tenant's requests; `null` beyond the tracked bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantCoverageOutput {
    /// The share.
    pub coverage: Ratio,
    /// In pages.
    pub pages: Option<u64>,
    /// The same in bytes, where a cost a token is known.
    pub bytes: Option<u64>,
}

/// What a split by quota gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuotaOutput {
    /// The split, as it was written.
    pub quota: String,
    /// One entry a capacity.
    pub capacities: Vec<QuotaCapacityOutput>,
}

/// One capacity, split and shared. Numbers beyond the tracked bound are `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuotaCapacityOutput {
    /// All parts together.
    pub pages: u64,
    /// Hits of the parts.
    pub page_hits: Option<u64>,
    /// Hits of one cache shared by all.
    pub shared_page_hits: Option<u64>,
    /// What the split loses, as a share of the pages accessed; negative where it wins.
    pub lost: Option<f64>,
}

impl TenantOutput {
    /// The output of a tenant.
    pub fn of(found: &TenantResult, replay: &Replay) -> Self {
        let size = |pages: u64| replay.page_bytes.map(|page| pages.saturating_mul(page.0));
        let required = found.required.iter().map(|required| TenantRequiredOutput {
            target_ratio: required.target_ratio,
            coverage: required
                .coverage
                .iter()
                .map(|entry| TenantCoverageOutput {
                    coverage: entry.coverage,
                    pages: entry.pages,
                    bytes: entry.pages.and_then(size),
                })
                .collect(),
        });
        Self {
            tenant: found.others.map(|_| OTHER.to_owned()).or_else(|| found.name.clone()),
            tenants: found.others,
            requests: found.requests,
            page_accesses: found.page_accesses,
            page_hits: found.page_hits,
            cold_pages: found.cold_pages,
            cold_bytes: size(found.cold_pages),
            capacity_page_hits: found.hits.clone(),
            page_milliseconds: found.page_milliseconds.clone(),
            required: required.collect(),
        }
    }

    /// Ends the lists at so many capacities.
    pub fn truncate(&mut self, capacities: usize) {
        self.capacity_page_hits.truncate(capacities);
        self.page_milliseconds.truncate(capacities);
    }

    fn name(&self) -> String {
        match (self.tenants, &self.tenant) {
            (Some(1), _) => "1 other".to_owned(),
            (Some(count), _) => format!("{count} others"),
            (None, Some(name)) => name.clone(),
            (None, None) => "(no tenant)".to_owned(),
        }
    }
}

impl QuotaOutput {
    /// The output of a split.
    pub fn of(found: &QuotaResult, replay: &Replay) -> Self {
        let whole = replay.whole.as_ref();
        let shared = whole.map(|all| all.capacities.as_slice()).unwrap_or_default();
        let accesses = whole.map_or(0, |all| all.page_accesses);
        let capacities = found.capacities.iter().zip(shared).map(|(split, shared)| QuotaCapacityOutput {
            pages: split.pages,
            page_hits: split.page_hits,
            shared_page_hits: shared.page_hits,
            lost: split
                .page_hits
                .zip(shared.page_hits)
                .map(|(split, all)| share(all, accesses) - share(split, accesses)),
        });
        Self { quota: found.quota.to_string(), capacities: capacities.collect() }
    }
}

/// Most characters of a tenant's name in a table.
const MOST_NAME: usize = 24;

/// The tenants as a table: at the recommended capacity, by its place among those of the curve.
pub fn tenants_table(tenants: &[TenantOutput], at: Option<(usize, String)>, terminal: &Terminal) -> String {
    let held =
        |tenant: &TenantOutput| at.as_ref().and_then(|(at, _)| tenant.page_milliseconds.get(*at)).copied();
    let all: u128 = tenants.iter().filter_map(held).sum();
    let heading = at.as_ref().map_or_else(String::new, |(_, size)| format!(", at {size}"));
    let mut sheet = Sheet::new(&[
        Column::Text("tenant"),
        Column::Number("requests"),
        Column::Number("accesses"),
        Column::Number("cold"),
        Column::Number("hit rate"),
        Column::Number("of the cache"),
    ])
    .spare(&["accesses"]);
    for tenant in tenants {
        let hits = at.as_ref().and_then(|(at, _)| tenant.capacity_page_hits.get(*at)).copied();
        let of_all = |held: u128| percent(if all == 0 { 0.0 } else { held as f64 / all as f64 });
        sheet.row([
            tenant.name().chars().take(MOST_NAME).collect(),
            thousands(tenant.requests),
            thousands(tenant.page_accesses),
            thousands(tenant.cold_pages),
            known(hits.map(|hits| share(hits, tenant.page_accesses)), percent, true),
            known(held(tenant), of_all, true),
        ]);
    }
    format!("\ntenants{heading}\n{}", sheet.render(terminal))
}

/// A split as a table.
pub fn quota_table(quota: &QuotaOutput, size: impl Fn(u64) -> String, terminal: &Terminal) -> String {
    let mut sheet = Sheet::new(&[
        Column::Number("capacity"),
        Column::Number("split"),
        Column::Number("shared"),
        Column::Number("points lost"),
    ]);
    for point in &quota.capacities {
        sheet.row([
            size(point.pages),
            known(point.page_hits, thousands, true),
            known(point.shared_page_hits, thousands, true),
            known(point.lost, |lost| format!("{:.2}", lost * 100.0), true),
        ]);
    }
    let heading = format!("split by quota {}: page hits", quota.quota);
    format!("\n{}{}", terminal.paragraph(&heading), sheet.render(terminal))
}

/// The place among the capacities of a curve of the smallest one that is enough for so many pages.
pub fn place_of(capacities: &[&CapacityPoint], pages: Option<u64>) -> Option<usize> {
    let pages = pages?;
    capacities.iter().position(|point| point.pages >= pages).or(capacities.len().checked_sub(1))
}
