//! Whose pages a cache holds, and what they find.

use super::recommended_place;
use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::words::{capacity, counted, short_name};
use kvset_core::estimate::Estimate;
use kvset_core::questions::tenants::TenantEstimate;
use kvset_core::sizing::curve::share;

/// Most characters of a tenant's name.
const MOST_NAME: usize = 24;

/// The tenants at the recommended capacity; at the largest one that can be reported where none is recommended.
pub(super) fn tenants(estimate: &Estimate) -> Option<Section> {
    let largest = estimate.tenants.first()?.capacity_page_hits.len().min(estimate.capacities.len());
    let largest = largest.checked_sub(1)?;
    let at = recommended_place(estimate).map_or(largest, |at| at.min(largest));
    let held = |tenant: &TenantEstimate| tenant.page_milliseconds.get(at).copied().unwrap_or(0) as f64;
    let all: f64 = estimate.tenants.iter().map(held).sum();
    let size = capacity(estimate.capacities[at].pages, estimate.page_bytes);
    let hits =
        |tenant: &TenantEstimate| Some(share(*tenant.capacity_page_hits.get(at)?, tenant.page_accesses));
    let columns: Columns<'_, TenantEstimate> = &[
        ("tenant", &|tenant| name(tenant).into()),
        ("requests", &|tenant| Cell::Count(tenant.requests)),
        ("page accesses", &|tenant| Cell::Count(tenant.page_accesses)),
        ("cold", &|tenant| Cell::Pages(tenant.cold_pages, estimate.page_bytes)),
        ("hit rate", &|tenant| Cell::known(hits(tenant), Cell::Rate)),
        ("held since the start", &|tenant| Cell::known((all > 0.0).then(|| held(tenant) / all), Cell::Rate)),
    ];
    let caption = format!("Whose pages {size} hold, and what they find");
    let table = Table::of(caption, &estimate.tenants, columns).spare(&["page accesses"]);
    Some(Section::new("Tenants", [], [table]))
}

fn name(tenant: &TenantEstimate) -> String {
    match (tenant.tenants, &tenant.tenant) {
        (Some(count), _) => counted(count, "other tenant", "other tenants"),
        (None, Some(name)) => short_name(name, MOST_NAME),
        (None, None) => "no tenant named".to_owned(),
    }
}
