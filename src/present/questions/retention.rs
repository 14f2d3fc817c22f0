//! What a time to live finds and holds, and how long capacities keep what nobody uses.

use super::{recommended_place, telling};
use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::words::{BY_TOKENS, capacity, lasting, share as share_of};
use kvset_core::estimate::Estimate;
use kvset_core::questions::retention::RetentionEstimate;
use kvset_core::units::window::format_duration_ms;

/// Most times to live that are compared with how long capacities keep pages.
const MOST_PROMISES: usize = 3;

/// The times to live, those required, and the ages at which capacities evict.
pub(super) fn retention(estimate: &Estimate) -> Option<Section> {
    if estimate.retention.is_empty() {
        return None;
    }
    let tables = [Some(kept(estimate)), required(estimate).unless_empty(), ages(estimate).unless_empty()];
    let at = recommended_place(estimate).map(|at| &estimate.capacities[at]);
    let median = at.and_then(|point| Some((point.pages, point.eviction_age_ms?.p50?)));
    let sentence = median.map(|(pages, age)| {
        let (size, age) = (capacity(pages, estimate.page_bytes), lasting(age));
        format!("In {size} a page that is not used lives for {age} (the median over arrivals).")
    });
    Some(Section::new("How long pages are kept", sentence, tables.into_iter().flatten()))
}

fn kept(estimate: &Estimate) -> Table {
    let size = |pages: u64| Cell::Pages(pages, estimate.page_bytes);
    let columns: Columns<'_, RetentionEstimate> = &[
        ("kept for", &|point| format_duration_ms(point.ttl_ms).into()),
        ("after", &|point| if point.kind.is_fixed() { "the write" } else { "the last use" }.into()),
        ("hit rate", &|point| Cell::within_bound(point.page_hit_rate, Cell::Rate)),
        (BY_TOKENS, &|point| Cell::known(point.hit_rate_tokens, Cell::Rate)),
        ("requests covered", &|point| Cell::known(point.covered, Cell::Rate)),
        ("mean held", &|point| Cell::within_bound(point.mean_pages, |pages| size(pages.ceil() as u64))),
        ("most held", &|point| Cell::within_bound(point.peak_pages, size)),
    ];
    let table = Table::of("Pages kept for a time, however many", &estimate.retention, columns);
    table.spare(&["requests covered", "mean held"])
}

fn required(estimate: &Estimate) -> Table {
    let mut table = Table::new("How long pages must be kept", ["requests covered", "target", "kept for"]);
    for target in &estimate.retention_required {
        for entry in &target.coverage {
            table.row([
                share_of(entry.coverage).into(),
                Cell::Share(target.target_ratio),
                Cell::within_bound(entry.ttl_ms, |ttl| Cell::Figure(lasting(ttl))),
            ]);
        }
    }
    table
}

/// How long unused pages live in each capacity, and how often it keeps all that a sliding time to live promises.
fn ages(estimate: &Estimate) -> Table {
    let sliding = |point: &&RetentionEstimate| !point.capacities.is_empty();
    let promises: Vec<_> = estimate.retention.iter().filter(sliding).take(MOST_PROMISES).collect();
    let columns = ["capacity", "p10", "p50", "p90"].map(str::to_owned).into_iter();
    let kept = promises.iter().map(|point| format!("keeps {}", format_duration_ms(point.ttl_ms)));
    let caption = "How long unused pages live, and how often a promise is kept";
    let mut table = Table::new(caption, columns.chain(kept)).spare(&["p90", "p10"]);
    for point in telling(estimate) {
        let Some(age) = point.eviction_age_ms else { continue };
        let size = Cell::Pages(point.pages, estimate.page_bytes);
        let ages = [age.p10, age.p50, age.p90].map(|age| Cell::figure(age, lasting));
        let honoured = promises.iter().map(|promise| {
            let same = promise.capacities.iter().find(|capacity| capacity.pages == point.pages);
            Cell::known(same.and_then(|capacity| capacity.honoured), Cell::Rate)
        });
        table.row([size].into_iter().chain(ages).chain(honoured));
    }
    table
}
