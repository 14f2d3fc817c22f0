//! What routers would give.

use super::climbing;
use crate::present::document::{Cell, MOST_SIZES, Section, Table, spread};
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
    let sentence = "A request's share is of what its own replica has seen; the hit rate with unlimited memory is what \
                    routing alone leaves.";
    let curves = routing
        .iter()
        .filter_map(|routed| curve(routed, |pages| cost(routed, pages), estimate).unless_empty());
    Some(Section {
        title: "Other routers".to_owned(),
        sentences: vec![sentence.to_owned()],
        tables: std::iter::once(compared(routing, estimate.page_bytes)).chain(curves).collect(),
    })
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
    let columns =
        ["all replicas", "each replica", "hit rate", BY_TOKENS, "imbalance", "hours per day", "cost per day"];
    let caption = format!("Router {}, {} replicas, by capacity", routed.router, routed.replicas);
    let mut table = Table::new(caption, columns).spare(&["imbalance"]);
    let hits = |point: &RoutedCapacity| point.page_hits.unwrap_or(0) as f64;
    let shown: Vec<&RoutedCapacity> = match estimate.names_capacities() {
        true => routed.capacities.iter().collect(),
        false => spread(climbing(&routed.capacities, hits), MOST_SIZES).collect(),
    };
    for point in shown {
        let cost = cost(point.total_pages);
        let figure = |amount: Option<f64>, say: fn(f64) -> String| {
            Cell::known(amount, |amount| Cell::Figure(say(amount)))
        };
        table.row([
            Cell::Pages(point.total_pages, estimate.page_bytes),
            Cell::Pages(point.pages, estimate.page_bytes),
            Cell::within_bound(point.page_hit_rate, Cell::Rate),
            Cell::within_bound(point.hit_rate_tokens, Cell::Rate),
            Cell::known(point.imbalance, Cell::Decimal),
            figure(cost.and_then(|(hours_a_day, _)| hours_a_day), hours),
            figure(cost.and_then(|(_, money_a_day)| money_a_day), money),
        ]);
    }
    table
}
