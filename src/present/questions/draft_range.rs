//! Both ends of what SGLang finds with a draft head, where a log has page ids.

use crate::present::document::{Cell, Section, Table};
use crate::present::words;
use kvset_core::estimate::Estimate;
use kvset_core::questions::draft_range::DraftRangeEstimate;
use kvset_core::sizing::curve::share;

/// What a reader of any figure should know.
pub const NOTE: &str = "with a draft head SGLang's tree is of pairs of tokens: a hit loses its last page only where it ends \
    exactly at a page's edge. Page ids do not say which token follows a page, so hits are a range, of which figures that stand \
    alone are the lower end; a log of token ids is exact. Without limit both ends are bounds; at a capacity they are two \
    models, of which SGLang was outside in 1 of 1,000 recorded answers";

/// Both ends at each capacity.
pub(super) fn section(range: &DraftRangeEstimate, estimate: &Estimate) -> Section {
    let rate = |hits: u64| share(hits, estimate.page_accesses);
    let lower = estimate.theoretical.prefix_hits;
    let lost = |found: u64| words::rate(rate(range.page_hits_without_head.saturating_sub(found)));
    let sentence = format!(
        "SGLang keys a page with the token behind it, too: a hit loses its last page where it ends exactly at a page's \
         edge. Page ids do not say that token. No capacity brings back between {} and {} of page accesses; {} hit with \
         unlimited capacity without the head.",
        lost(range.page_hits),
        lost(lower),
        words::rate(rate(range.page_hits_without_head))
    );
    let mut table = Table::new("Hit rates with the draft head", ["capacity", "at least", "at most"]);
    for point in &estimate.capacities {
        let name = point.label.clone().map_or(Cell::Pages(point.pages, estimate.page_bytes), Cell::Text);
        let least = Cell::within_bound(point.prefix_hits, |hits| Cell::Rate(rate(hits)));
        let most = Cell::within_bound(range.at_most(point.pages), |hits| Cell::Rate(rate(hits)));
        table.row([name, least, most]);
    }
    table.row(["unlimited".into(), Cell::Rate(rate(lower)), Cell::Rate(rate(range.page_hits))]);
    Section {
        title: "What the draft head costs in hits".to_owned(),
        sentences: vec![sentence],
        tables: vec![table],
    }
}
