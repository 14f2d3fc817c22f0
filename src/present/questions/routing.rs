//! What routers would give.

use super::sizes::listed_points;
use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::words::{BY_TOKENS, hours, money, share as share_of};
use kvset_core::estimate::Estimate;
use kvset_core::questions::routing::{RoutedCapacity, RouterEstimate};
use kvset_core::sizing::curve::share;

/// The routers alongside each other, then each at the capacities of the curve, with what prefill costs there per day,
/// in accelerator-hours and in money, where that is known; `None` where none was requested.
pub(super) fn routing(
    estimate: &Estimate,
    cost: impl Fn(&RouterEstimate, u64) -> Option<(Option<f64>, Option<f64>)>,
) -> Option<Section> {
    let routing = &estimate.routing;
    routing.first()?;
    let sentence = "Coverage counts what each request could find in its own replica. The hit rate with unlimited memory \
                    shows what routing alone loses.";
    let curves = routing
        .iter()
        .filter_map(|routed| curve(routed, |pages| cost(routed, pages), estimate).unless_empty());
    let tables = [compared(routing, estimate.page_bytes)].into_iter().chain(curves);
    Some(Section::new("Other routers", [sentence.to_owned()], tables))
}

/// A row per router.
fn compared(routing: &[RouterEstimate], page_bytes: Option<u64>) -> Table {
    let first = routing.iter().find_map(|routed| routed.required.first());
    let count = first.map_or(0, |required| required.coverage.len());
    let coverages = first.iter().flat_map(|required| &required.coverage);
    let columns = ["router", "replicas", "hit rate, unlimited memory", "imbalance"].map(str::to_owned);
    let required = coverages.map(|entry| format!("for {} of requests", share_of(entry.coverage)));
    let caption = "What routers would give; capacities are those of all replicas together";
    let mut table = Table::new(caption, columns.into_iter().chain(required)).spare(&["imbalance"]);
    let asks_caches = routing.iter().any(has_one_capacity);
    table.columns.extend(asks_caches.then(|| "hit rate at its size".to_owned()));
    for routed in routing {
        let mut cells = vec![
            routed.asked.clone().into(),
            Cell::Count(routed.replicas),
            Cell::Rate(share(routed.unlimited_page_hits, routed.page_accesses)),
            Cell::known(routed.imbalance, Cell::Decimal),
        ];
        let required = routed.required.first().into_iter().flat_map(|required| &required.coverage);
        let size = |pages: u64| Cell::Pages(pages, page_bytes);
        cells.extend(required.map(|entry| Cell::within_bound(entry.total_pages, size)));
        // A router that asks the caches has one capacity, and no requirement.
        cells.resize(4 + count, Cell::Unknown);
        let own = routed.capacities.first().filter(|_| has_one_capacity(routed));
        let rate = |point: &RoutedCapacity| point.page_hit_rate;
        cells.extend(asks_caches.then(|| Cell::known(own.and_then(rate), Cell::Rate)));
        table.row(cells);
    }
    table
}

fn has_one_capacity(routed: &RouterEstimate) -> bool {
    routed.required.is_empty() && routed.capacities.len() == 1
}

/// A row per capacity of all replicas together.
fn curve(
    routed: &RouterEstimate,
    cost: impl Fn(u64) -> Option<(Option<f64>, Option<f64>)>,
    estimate: &Estimate,
) -> Table {
    let caption = format!("Router {}, {} replicas, by capacity", routed.router, routed.replicas);
    let hits = |point: &RoutedCapacity| point.page_hits.unwrap_or(0) as f64;
    let shown = listed_points(&routed.capacities, estimate.names_capacities(), hits);
    let costs = |point: &RoutedCapacity| cost(point.total_pages).unwrap_or_default();
    let columns: Columns<'_, RoutedCapacity> = &[
        ("all replicas", &|point| Cell::Pages(point.total_pages, estimate.page_bytes)),
        ("each replica", &|point| Cell::Pages(point.pages, estimate.page_bytes)),
        ("hit rate", &|point| Cell::within_bound(point.page_hit_rate, Cell::Rate)),
        (BY_TOKENS, &|point| Cell::within_bound(point.hit_rate_tokens, Cell::Rate)),
        ("imbalance", &|point| Cell::known(point.imbalance, Cell::Decimal)),
        ("hours per day", &|point| Cell::figure(costs(point).0, hours)),
        ("cost per day", &|point| Cell::figure(costs(point).1, money)),
    ];
    Table::of(caption, shown, columns).spare(&["imbalance"])
}
