//! Whose pages the cache holds, and what splits cost: as scripts read them and as tables.

use crate::present::terminal::{Column, Sheet, Terminal, known, percent, thousands};
use crate::present::words::{short_name, visible};
use crate::replay::Replay;
use kvset_core::estimate::CapacityPoint;
use kvset_core::estimate::curve::share;
use kvset_core::questions::tenants::{QuotaResult, TenantEstimate};
use serde::Serialize;

/// What a split by quota gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuotaOutput {
    /// The split, as it was written.
    pub quota: String,
    /// Tenants with a share that no request names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
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

/// Most characters of a tenant's name in a table.
const MOST_NAME: usize = 24;

/// What a table calls a tenant.
fn name_of(found: &TenantEstimate) -> String {
    match (found.tenants, &found.tenant) {
        (Some(1), _) => "1 other".to_owned(),
        (Some(count), _) => format!("{count} others"),
        (None, Some(name)) => short_name(name, MOST_NAME),
        (None, None) => "(no tenant)".to_owned(),
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
        Self {
            quota: found.quota.to_string(),
            unused: found.unused.clone(),
            capacities: capacities.collect(),
        }
    }
}

/// The tenants as a table: at the recommended capacity, by its place among those of the curve.
pub fn tenants_table(tenants: &[TenantEstimate], at: Option<(usize, String)>, terminal: &Terminal) -> String {
    let held =
        |tenant: &TenantEstimate| at.as_ref().and_then(|(at, _)| tenant.page_milliseconds.get(*at)).copied();
    let all: u64 = tenants.iter().filter_map(held).fold(0, u64::saturating_add);
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
        let of_all = |held: u64| percent(if all == 0 { 0.0 } else { held as f64 / all as f64 });
        sheet.row([
            name_of(tenant),
            thousands(tenant.requests),
            thousands(tenant.page_accesses),
            thousands(tenant.cold_pages),
            known(hits.map(|hits| share(hits, tenant.page_accesses)), percent, at.is_some()),
            known(held(tenant), of_all, at.is_some()),
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
    let split: String = quota.quota.chars().map(visible).collect();
    let mut text = format!(
        "\n{}{}",
        terminal.paragraph(&format!("split by quota {split}: page hits")),
        sheet.render(terminal)
    );
    for name in &quota.unused {
        let name = short_name(name, MOST_NAME);
        text.push_str(
            &terminal.paragraph(&format!("no request names {name}: what it has a share of stays empty")),
        );
    }
    text
}

/// The place among the capacities of a curve of the smallest one that is enough for so many pages.
pub fn place_of(capacities: &[&CapacityPoint], pages: Option<u64>) -> Option<usize> {
    let pages = pages?;
    capacities.iter().position(|point| point.pages >= pages).or(capacities.len().checked_sub(1))
}
