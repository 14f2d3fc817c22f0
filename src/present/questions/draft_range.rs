//! Both ends of what SGLang finds with a draft head, where a log has page ids.

use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::words;
use kvset_core::estimate::{CapacityPoint, Estimate};
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
    let hits = |found: Option<u64>| Cell::within_bound(found, |hits| Cell::Rate(rate(hits)));
    let columns: Columns<'_, CapacityPoint> = &[
        ("capacity", &|point| Cell::named(point, estimate.page_bytes)),
        ("at least", &|point| hits(point.prefix_hits)),
        ("at most", &|point| hits(range.at_most(point.pages))),
    ];
    let mut table = Table::of("Hit rates with the draft head", &estimate.capacities, columns);
    table.row(["unlimited".into(), Cell::Rate(rate(lower)), Cell::Rate(rate(range.page_hits))]);
    Section::new("What the draft head costs in hits", [sentence], [table])
}
