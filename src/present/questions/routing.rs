//! What routers would give, as a section of a report.

use crate::present::document::Section;
use crate::present::document::Table;
use crate::present::words::{capacity, rate, share as share_of};
use kvset_core::estimate::curve::share;
use kvset_core::questions::routing::{RoutedCapacity, RouterEstimate};

/// A row a router; `None` where none was asked about.
pub fn section(routing: &[RouterEstimate], page_bytes: Option<u64>) -> Option<Section> {
    routing.first()?;
    let first = routing.iter().find_map(|routed| routed.required.first());
    let mut table = Table::new(
        "What routers would give; capacities are those of all replicas together",
        ["router", "replicas", "hit rate, unlimited memory", "imbalance"],
    );
    let coverages = first.iter().flat_map(|required| &required.coverage);
    let count = first.map_or(0, |required| required.coverage.len());
    table.columns.extend(coverages.map(|entry| format!("for {} of requests", share_of(entry.coverage))));
    let asks_caches = routing.iter().any(is_told_at_one_capacity);
    if asks_caches {
        table.columns.push("hit rate at its size".to_owned());
    }
    for routed in routing {
        let unlimited = rate(share(routed.unlimited_page_hits, routed.page_accesses));
        let imbalance = routed.imbalance.map_or_else(|| "–".to_owned(), |factor| format!("{factor:.2}"));
        let mut cells = vec![routed.asked.clone(), routed.replicas.to_string(), unlimited, imbalance];
        let found = routed.required.first().into_iter().flat_map(|required| &required.coverage);
        let size = |pages: Option<u64>| pages.map(|pages| capacity(pages, page_bytes));
        cells.extend(found.map(|entry| size(entry.total_pages).unwrap_or_else(|| "beyond bound".to_owned())));
        // A router that asks the caches has one capacity, and no requirement.
        cells.resize(4 + count, "–".to_owned());
        if asks_caches {
            let own = routed.capacities.first().filter(|_| is_told_at_one_capacity(routed));
            let rate_at = |point: &RoutedCapacity| point.page_hit_rate.map(rate);
            cells.push(own.and_then(rate_at).unwrap_or_else(|| "–".to_owned()));
        }
        table.push(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    let sentence = "A request's share is of what its own replica has seen; the hit rate with unlimited memory is what \
                    routing alone leaves.";
    Some(Section {
        title: "Other routers".to_owned(),
        sentences: vec![sentence.to_owned()],
        tables: vec![table],
    })
}

fn is_told_at_one_capacity(routed: &RouterEstimate) -> bool {
    routed.required.is_empty() && routed.capacities.len() == 1
}
