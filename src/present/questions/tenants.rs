//! Whose pages a cache holds, and what they find.

use super::recommended_place;
use crate::present::document::{Cell, Section, Table};
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
    let columns = ["tenant", "requests", "page accesses", "cold", "hit rate", "held since the start"];
    let caption = format!("Whose pages {size} hold, and what they find");
    let mut table = Table::new(caption, columns).spare(&["page accesses"]);
    for tenant in &estimate.tenants {
        let hits = tenant.capacity_page_hits.get(at);
        table.row([
            name(tenant).into(),
            Cell::Count(tenant.requests),
            Cell::Count(tenant.page_accesses),
            Cell::Pages(tenant.cold_pages, estimate.page_bytes),
            Cell::known(hits, |hits| Cell::Rate(share(*hits, tenant.page_accesses))),
            Cell::known((all > 0.0).then(|| held(tenant) / all), Cell::Rate),
        ]);
    }
    Some(Section { title: "Tenants".to_owned(), sentences: Vec::new(), tables: vec![table] })
}

fn name(tenant: &TenantEstimate) -> String {
    match (tenant.tenants, &tenant.tenant) {
        (Some(count), _) => counted(count, "other tenant", "other tenants"),
        (None, Some(name)) => short_name(name, MOST_NAME),
        (None, None) => "no tenant named".to_owned(),
    }
}
