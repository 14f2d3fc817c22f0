//! What to provision, by the share of requests that it is enough for.

use super::{PoolReport, certainty};
use crate::present::document::{Cell, Columns, Section, ShownColumns, Table};
use crate::present::words;
use kvset_core::estimate::{CoverageCapacity, RequiredCapacity};
use kvset_core::request::sample::sampling_error;
use kvset_core::sizing::recommendation::Recommendation;
use kvset_core::units::ratio::Ratio;

/// What to provision: of each target ratio, a row per coverage; `None` where nothing is required of any capacity.
pub fn required(pool: &PoolReport<'_>) -> Option<Section> {
    let table = table(pool)?;
    let sentence = format!(
        "{} of {} requests have something to reuse.",
        words::integer(pool.estimate.requests_with_reuse),
        words::integer(pool.estimate.requests)
    );
    Some(Section::new("Required capacity", [sentence], [table]))
}

/// Whether recommended capacities are larger than the requirements they follow from.
fn has_room(pool: &PoolReport<'_>) -> bool {
    pool.estimate.in_flight.as_ref().is_some_and(|found| found.room() != Some(0))
        || pool.estimate.recommended.iter().any(|entry| entry.in_flight_pages > Some(0))
}

fn table(pool: &PoolReport<'_>) -> Option<Table> {
    let several = pool.estimate.required.len() > 1;
    let share = match pool.estimate.required.as_slice() {
        [only] => words::share(only.target_ratio),
        _ => "the target share".to_owned(),
    };
    let room = if has_room(pool) { ", with room for requests in flight" } else { "" };
    let caption =
        format!("Capacity that lets a share of requests keep {share} of their theoretical hit rate{room}");
    let (estimate, page_bytes) = (&*pool.estimate, pool.estimate.page_bytes);
    let has_hits = estimate.recommended.iter().any(|entry| entry.hit_rate.is_some());
    let is_certain = estimate.certainty.as_ref().is_some_and(|found| found.status.is_usable());
    let error = |pages: u64| {
        let error = sampling_error(estimate.sample_rate, pages as f64 * estimate.sample_rate);
        format!("{:.1} %", error * 100.0)
    };
    // Those that there are not always say when there are.
    let columns: ShownColumns<'_, RequiredRow<'_>> = &[
        (true, "requests covered", &|(_, entry, _)| Cell::Text(words::share(entry.coverage))),
        (several, "target", &|(target, ..)| Cell::Share(*target)),
        (true, "capacity", &|(_, entry, _)| Cell::recommended(entry, page_bytes)),
        (is_certain, certainty::COLUMN, &|(_, entry, _)| Cell::Figure(certainty::cell(entry, page_bytes))),
        (page_bytes.is_some(), "pages", &|(_, entry, _)| Cell::known(entry.so_far(), Cell::Count)),
        (has_hits, "hit rate", &|(_, entry, _)| Cell::known(entry.hit_rate, Cell::Rate)),
        (has_hits, words::BY_TOKENS, &|(_, entry, _)| Cell::known(entry.hit_rate_tokens, Cell::Rate)),
        (pool.sampled(), "std. error", &|(_, entry, _)| Cell::figure(entry.required_pages, error)),
        (has_room(pool), "without that room", &|(_, entry, _)| {
            Cell::known(entry.required_pages, |pages| Cell::Pages(pages, page_bytes))
        }),
        (true, "trend", &|(_, entry, _)| entry.convergence.with_growth(entry.growth_per_window).into()),
    ];
    let table = Table::of_shown(caption, &rows(pool), columns);
    let spare = ["trend", "std. error", "without that room", words::BY_TOKENS, "pages", "hit rate"];
    table.spare(&spare).unless_empty()
}

/// A target ratio, what is recommended at one coverage, and the requirement that follows from.
type RequiredRow<'a> = (Ratio, &'a Recommendation, &'a CoverageCapacity);

fn rows<'a>(pool: &'a PoolReport<'_>) -> Vec<RequiredRow<'a>> {
    let targets = pool.estimate.required.iter().enumerate();
    let of = |(at, target): (usize, &'a RequiredCapacity)| {
        let entries = pool.recommended_at(at).iter().zip(&target.coverage);
        entries.map(|(entry, own)| (target.target_ratio, entry, own))
    };
    targets.flat_map(of).collect()
}

/// What is recommended to the byte, the page and the token.
pub(crate) fn exact(pool: &PoolReport<'_>) -> Table {
    let columns: Columns<'_, RequiredRow<'_>> = &[
        ("requests covered", &|(_, entry, _)| Cell::Text(words::share(entry.coverage))),
        ("target", &|(target, ..)| Cell::Share(*target)),
        ("bytes", &|(_, entry, _)| Cell::known(entry.bytes, Cell::Count)),
        ("pages", &|(_, entry, _)| Cell::known(entry.pages, Cell::Count)),
        ("required pages", &|(.., own)| Cell::known(own.pages, Cell::Count)),
        ("required tokens", &|(.., own)| Cell::known(own.tokens, Cell::Count)),
        ("required pages (requests with reuse)", &|(.., own)| Cell::known(own.pages_with_reuse, Cell::Count)),
    ];
    Table::of("Recommended capacities, and the requirements they follow from", &rows(pool), columns)
}
