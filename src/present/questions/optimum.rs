//! What perfect foresight would find: the best that any policy could do.

use super::telling;
use crate::present::document::{Cell, Section, Table};
use crate::present::words::capacity;
use kvset_core::estimate::Estimate;
use kvset_core::questions::optimum::OptimalCapacity;
use kvset_core::sizing::curve::share;

/// The curve alongside that of perfect foresight, and the recommended capacity alongside the one that foresight would
/// need; `None` where neither is known.
pub fn optimum(estimate: &Estimate, found: Option<&OptimalCapacity>) -> Option<Section> {
    let sentence = found.map(|found| foresight(found, estimate.page_bytes));
    let section = Section::new("The best any policy could do", sentence, curves(estimate).unless_empty());
    (!section.tables.is_empty() || !section.sentences.is_empty()).then_some(section)
}

fn curves(estimate: &Estimate) -> Table {
    let mut table = Table::new("Page hits at each capacity", ["capacity", "hit rate", "with foresight"]);
    let rate = |hits: u64| Cell::Rate(share(hits, estimate.page_accesses));
    for point in telling(estimate) {
        let Some(optimal) = point.optimal_page_hits else { continue };
        let size = Cell::Pages(point.pages, estimate.page_bytes);
        table.row([size, Cell::within_bound(point.page_hits, rate), rate(optimal)]);
    }
    table
}

/// "LRU needs 2.4 times its memory", in context.
pub fn foresight(found: &OptimalCapacity, page_bytes: Option<u64>) -> String {
    let size = |pages| capacity(pages, page_bytes);
    format!(
        "For the hits of {} perfect foresight would need {}: LRU needs {:.1} times its memory. Nobody reaches the \
         optimum, which knows every request to come.",
        size(found.pages),
        size(found.optimal_pages),
        found.times
    )
}
