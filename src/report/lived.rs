//! What a window says of time, tiers and tenants, as sections of a page.

use super::section::Section;
use super::table::Table;
use super::words::{BY_TOKENS, capacity, counted, integer, lasting, rate, rate_or_dash};
use kvset_core::estimate::Estimate;
use kvset_core::estimate::curve::share;
use kvset_core::questions::retention::RetentionEstimate;
use kvset_core::questions::tenants::TenantEstimate;
use kvset_core::windows::window::format_duration_ms;

/// The sections; none of what is not asked.
pub fn sections(estimate: &Estimate) -> Vec<Section> {
    [retention(estimate), traffic(estimate), tenants(estimate)].into_iter().flatten().collect()
}

fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn retention(estimate: &Estimate) -> Option<Section> {
    if estimate.retention.is_empty() {
        return None;
    }
    let size = |pages: u64| capacity(pages, estimate.page_bytes);
    let columns = ["kept for", "after", "hit rate", BY_TOKENS, "requests covered", "mean held", "most held"];
    let mut kept = Table::new("Pages kept for a time, however many", columns);
    let row = |point: &RetentionEstimate| {
        vec![
            format_duration_ms(point.ttl_ms),
            if point.kind.is_fixed() { "the write" } else { "the last use" }.to_owned(),
            rate_or_dash(point.page_hit_rate),
            rate_or_dash(point.hit_rate_tokens),
            rate_or_dash(point.covered),
            dash(point.mean_pages.map(|pages| size(pages.ceil() as u64))),
            dash(point.peak_pages.map(size)),
        ]
    };
    kept.rows.extend(estimate.retention.iter().map(row));
    let mut ages = Table::new("How long unused pages live", ["capacity", "p10", "p50", "p90"]);
    for point in &estimate.capacities {
        let Some(age) = point.eviction_age_ms else { continue };
        let told = [age.p10, age.p50, age.p90].map(|age| dash(age.map(lasting)));
        ages.rows.push([size(point.pages)].into_iter().chain(told).collect());
    }
    let title = "How long pages are kept".to_owned();
    Some(Section { title, sentences: Vec::new(), tables: vec![kept, ages] })
}

fn traffic(estimate: &Estimate) -> Option<Section> {
    let traffic = estimate.traffic.as_ref().filter(|traffic| !traffic.tiers.is_empty())?;
    let size = |pages: u64| capacity(pages, estimate.page_bytes);
    let columns = ["tier", "read", "written", "load p50", "load p99", "drive writes a day"];
    let mut table = Table::new("What passes between a tier and those above", columns);
    table.rows.extend(traffic.tiers.iter().map(|tier| {
        let pages = [tier.read_pages, tier.written_pages, tier.load_pages.p50, tier.load_pages.p99];
        let writes = dash(tier.drive_writes_per_day.map(|writes| format!("{writes:.1}")));
        [tier.tier.clone()].into_iter().chain(pages.map(size)).chain([writes]).collect()
    }));
    let saved = traffic.second_sight_saves.map(|saves| {
        format!("Stored on second sight only, {} of first writes are saved, since the start.", rate(saves))
    });
    let title = "Between tiers".to_owned();
    Some(Section { title, sentences: saved.into_iter().collect(), tables: vec![table] })
}

fn tenants(estimate: &Estimate) -> Option<Section> {
    let held = |tenant: &TenantEstimate| tenant.page_milliseconds.last().copied().unwrap_or(0) as f64;
    let all: f64 = estimate.tenants.iter().map(held).sum();
    let told = estimate.tenants.first()?.capacity_page_hits.len();
    let largest = estimate.capacities.get(told.checked_sub(1)?)?;
    let size = |pages: u64| capacity(pages, estimate.page_bytes);
    let columns = ["tenant", "requests", "page accesses", "cold", "hit rate", "held since the start"];
    let mut table =
        Table::new(format!("Whose pages {} hold, and what they find", size(largest.pages)), columns);
    for tenant in &estimate.tenants {
        let name = match (tenant.tenants, &tenant.tenant) {
            (Some(count), _) => counted(count, "other tenant", "other tenants"),
            (None, Some(name)) => name.clone(),
            (None, None) => "no tenant named".to_owned(),
        };
        let hits = tenant.capacity_page_hits.last();
        table.rows.push(vec![
            name,
            integer(tenant.requests),
            integer(tenant.page_accesses),
            size(tenant.cold_pages),
            rate_or_dash(hits.map(|hits| share(*hits, tenant.page_accesses))),
            rate_or_dash((all > 0.0).then(|| held(tenant) / all)),
        ]);
    }
    Some(Section { title: "Tenants".to_owned(), sentences: Vec::new(), tables: vec![table] })
}
