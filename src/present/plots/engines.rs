//! The hit-rate curves of several engines over one trace.

use super::axis::Axis;
use super::curve::rate;
use super::draw::{Panel, Series, SeriesShape};
use super::{Plot, PlotError};
use crate::present::document::{Cell, Table};
use crate::present::pool::PoolReport;
use crate::present::theme::Ink;
use crate::present::words;
use kvset_core::engines::profile::Profile;
use kvset_core::estimate::CapacityPoint;

/// Draws one curve an engine; `None` without a point to draw. `id` is unique on the page.
pub fn engine_curves(id: &str, engines: &[PoolReport<'_>]) -> Result<Option<Plot>, PlotError> {
    let shown: Vec<&[CapacityPoint]> =
        engines.iter().map(|engine| up_to_footprint(engine, engines)).collect();
    let drawn = || shown.iter().copied().flatten().filter(|point| is_drawn(point));
    let pages = || drawn().map(|point| point.pages);
    let (Some(low), Some(high)) = (pages().min(), pages().max()) else { return Ok(None) };
    let series = engines.iter().zip(&shown).map(|(engine, points)| {
        let (of, points) = (engine.estimate.engine, points.iter().map(place).collect());
        let shape = if engine.pointwise { SeriesShape::Dots } else { SeriesShape::Line };
        Series { shape, ..Series::line(of.to_string(), ink(of), points) }
    });
    let page_bytes = engines.first().and_then(|engine| engine.estimate.page_bytes);
    let x = Axis::log_capacity("cache capacity", low as f64, high as f64, page_bytes);
    let panel = Panel::new(x, Axis::shares("hit rate (share of page accesses)"), series.collect());
    let (title, description) = ("Hit rate by cache capacity and engine", description(engines));
    Plot::drawn(id, title, description, table(engines, &shown), vec![panel])
}

/// The curve up to the first capacity at which no engine evicts any more.
fn up_to_footprint<'a>(engine: &'a PoolReport<'_>, engines: &[PoolReport<'_>]) -> &'a [CapacityPoint] {
    let footprint = |engine: &PoolReport<'_>| engine.estimate.accumulated_pages;
    let largest = engines.iter().map(footprint).max().unwrap_or(0);
    let enough = engine.estimate.capacities.iter().position(|point| point.pages >= largest);
    &engine.estimate.capacities[..enough.map_or(engine.estimate.capacities.len(), |last| last + 1)]
}

fn is_drawn(point: &CapacityPoint) -> bool {
    point.pages > 0 && rate(point.prefix_hit_rate).is_some()
}

fn place(point: &CapacityPoint) -> Option<(f64, f64)> {
    is_drawn(point).then_some((point.pages as f64, rate(point.prefix_hit_rate)?))
}

/// An engine looks the same in every report: it has the ink of its row. They repeat after the last.
fn ink(engine: Profile) -> Ink {
    const INKS: [Ink; 8] =
        [Ink::First, Ink::Second, Ink::Third, Ink::Fourth, Ink::Fifth, Ink::Sixth, Ink::Reference, Ink::Text];
    INKS[engine as usize % INKS.len()]
}

fn description(engines: &[PoolReport<'_>]) -> String {
    let unlimited = |engine: &PoolReport<'_>| {
        format!("{} {}", engine.estimate.engine, words::rate(engine.estimate.theoretical.prefix_hit_rate))
    };
    let unlimited: Vec<String> = engines.iter().map(unlimited).collect();
    format!(
        "One curve an engine over the same requests, up to where none of them evicts. With unlimited \
         capacity the hit rates are: {}.",
        words::listed(&unlimited)
    )
}

fn table(engines: &[PoolReport<'_>], shown: &[&[CapacityPoint]]) -> Table {
    let mut table = Table::new("Prefix hit rate at each capacity", ["capacity", "pages"]);
    table.columns.extend(engines.iter().map(|engine| engine.estimate.engine.to_string()));
    let page_bytes = engines.first().and_then(|engine| engine.estimate.page_bytes);
    for (row, point) in shown.first().copied().unwrap_or_default().iter().enumerate() {
        let rates = shown
            .iter()
            .map(|points| Cell::known(points.get(row).and_then(|point| point.prefix_hit_rate), Cell::Rate));
        table.row([Cell::named(point, page_bytes), Cell::Count(point.pages)].into_iter().chain(rates));
    }
    table
}
