//! What to provision, by the share of requests that it is enough for.

use super::{PoolReport, certainty};
use crate::present::document::{Cell, Section, Table};
use crate::present::words;
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
    Some(Section { title: "Required capacity".to_owned(), sentences: vec![sentence], tables: vec![table] })
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
    let shown = RequiredColumns {
        target: several,
        pages: pool.estimate.page_bytes.is_some(),
        hits: pool.estimate.recommended.iter().any(|entry| entry.hit_rate.is_some()),
        room: has_room(pool),
        error: pool.sampled(),
        certain: pool.estimate.certainty.as_ref().is_some_and(|found| found.status.is_usable()),
    };
    let mut table = Table::new(caption, shown.columns());
    table.spare = vec!["trend", "std. error", "without that room", words::BY_TOKENS, "pages", "hit rate"];
    for (at, target) in pool.estimate.required.iter().enumerate() {
        for entry in pool.recommended_at(at) {
            table.row(shown.row(entry, target.target_ratio, pool));
        }
    }
    table.unless_empty()
}

/// Which columns there are alongside those that there always are.
struct RequiredColumns {
    target: bool,
    pages: bool,
    hits: bool,
    room: bool,
    error: bool,
    certain: bool,
}

impl RequiredColumns {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        let columns = [
            (true, "requests covered"),
            (self.target, "target"),
            (true, "capacity"),
            (self.certain, certainty::COLUMN),
            (self.pages, "pages"),
            (self.hits, "hit rate"),
            (self.hits, words::BY_TOKENS),
            (self.error, "std. error"),
            (self.room, "without that room"),
            (true, "trend"),
        ];
        columns.into_iter().filter(|(shown, _)| *shown).map(|(_, name)| name)
    }

    fn row(&self, entry: &Recommendation, target: Ratio, pool: &PoolReport<'_>) -> Vec<Cell> {
        let error = |pages: u64| {
            let error = sampling_error(pool.estimate.sample_rate, pages as f64 * pool.estimate.sample_rate);
            Cell::Figure(format!("{:.1} %", error * 100.0))
        };
        let cells = [
            (true, Cell::Text(words::share(entry.coverage))),
            (self.target, Cell::Share(target)),
            (true, Cell::recommended(entry, pool.estimate.page_bytes)),
            (self.certain, Cell::Figure(certainty::cell(entry, pool.estimate.page_bytes))),
            (self.pages, Cell::known(entry.so_far(), Cell::Count)),
            (self.hits, Cell::known(entry.hit_rate, Cell::Rate)),
            (self.hits, Cell::known(entry.hit_rate_tokens, Cell::Rate)),
            (self.error, Cell::known(entry.required_pages, error)),
            (
                self.room,
                Cell::known(entry.required_pages, |pages| Cell::Pages(pages, pool.estimate.page_bytes)),
            ),
            (true, entry.convergence.with_growth(entry.growth_per_window).into()),
        ];
        cells.into_iter().filter(|(shown, _)| *shown).map(|(_, cell)| cell).collect()
    }
}

/// The same to the byte, the page and the token.
pub(crate) fn exact(pool: &PoolReport<'_>) -> Table {
    let mut table = Table::new(
        "Recommended capacities, and the requirements they follow from",
        [
            "requests covered",
            "target",
            "bytes",
            "pages",
            "required pages",
            "required tokens",
            "required pages (requests with reuse)",
        ],
    );
    let count = |value: Option<u64>| Cell::known(value, Cell::Count);
    for (at, target) in pool.estimate.required.iter().enumerate() {
        for (entry, own) in pool.recommended_at(at).iter().zip(&target.coverage) {
            table.row([
                Cell::Text(words::share(entry.coverage)),
                Cell::Share(target.target_ratio),
                count(entry.bytes),
                count(entry.pages),
                count(own.pages),
                count(own.tokens),
                count(own.pages_with_reuse),
            ]);
        }
    }
    table
}
