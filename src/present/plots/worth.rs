//! What the next GiB of a cache earns against what it costs, by the size of the cache.

use super::axis::Axis;
use super::draw::{Marker, Panel, Series};
use super::{Plot, PlotError};
use crate::present::document::{Cell, MOST_SIZES, Table, spread};
use crate::present::questions::WorthCurve;
use crate::present::theme::Ink;
use crate::present::words;

/// How many times less than its price, or than the most that one earns, a GiB may earn and still be drawn.
const LEAST_SHARE: f64 = 100.0;

/// How many times the least amount that is drawn the most that is earned is at most.
const MOST_SPAN: f64 = 1e6;

/// How many times the smallest size that is drawn the largest one is at most.
const TIMES: u64 = 1024;

impl WorthCurve {
    fn size(&self, pages: u64) -> String {
        words::capacity(pages, Some(self.page_bytes))
    }

    /// What the next GiB earns at least to be drawn.
    fn floor(&self) -> f64 {
        let most = self.steps.iter().map(|(_, earns)| *earns).fold(0.0, f64::max);
        let price = if self.price > 0.0 { self.price.min(most) } else { most };
        (price / LEAST_SHARE).max(most / MOST_SPAN)
    }

    /// The steps that are drawn: up to the last that earns enough, and not those to sizes far below that.
    fn drawn(&self) -> &[(u64, f64)] {
        let floor = self.floor();
        let last =
            self.steps.iter().rposition(|(pages, earns)| *pages > 0 && *earns > 0.0 && *earns >= floor);
        let Some(last) = last else { return &[] };
        let first =
            self.steps.iter().position(|(pages, _)| pages.saturating_mul(TIMES) >= self.steps[last].0);
        &self.steps[first.unwrap_or(last)..=last]
    }
}

/// Draws worth against price; `None` where no size earns anything. `id` is unique on the page.
pub fn worth_against_price(id: &str, curve: &WorthCurve) -> Result<Option<Plot>, PlotError> {
    let steps = curve.drawn();
    let (Some((first, _)), Some((last, _))) = (steps.first(), steps.last()) else { return Ok(None) };
    let (least, most) = amounts(steps, curve);
    let best = curve.best.filter(|best| (*first..=*last).contains(best));
    let marker = best.map(|best| Marker {
        x: best as f64,
        dots: vec![curve.price],
        label: format!("worth its price up to {}", curve.size(best)),
    });
    let (low, high) = (*first as f64, *last as f64);
    let x = Axis::log_capacity("cache capacity", low, high, Some(curve.page_bytes));
    let y = Axis::log_amounts("earned by one GiB more, per day (logarithmic)", least, most);
    let costs = vec![Some((low, curve.price)), Some((high, curve.price))];
    let costs = Series::line(format!("one GiB costs: {}", words::money(curve.price)), Ink::Second, costs);
    let panel = Panel::new(x, y, vec![earned(steps, least), costs]);
    let panel = Panel { markers: marker.into_iter().collect(), ..panel };
    let title = "Worth of the next GiB against its price";
    Plot::drawn(id, title, description(curve), table(curve), vec![panel])
}

/// The least and the most that is drawn: what is earned, and the price.
fn amounts(steps: &[(u64, f64)], curve: &WorthCurve) -> (f64, f64) {
    let (floor, price) = (curve.floor(), curve.price);
    let most = steps.iter().map(|(_, earns)| *earns).fold(price, f64::max);
    let least = steps.iter().map(|(_, earns)| *earns).filter(|earns| *earns >= floor).fold(most, f64::min);
    (if price > 0.0 { least.min(price.max(floor)) } else { least }, most)
}

/// A staircase: a step earns the same from the size before to its own.
fn earned(steps: &[(u64, f64)], least: f64) -> Series {
    let mut from = steps.first().map_or(0, |(pages, _)| *pages);
    let mut points = Vec::new();
    for (pages, earns) in steps {
        let point = |pages: u64| (*earns >= least).then_some((pages as f64, *earns));
        points.extend([point(from), point(*pages)]);
        from = *pages;
    }
    Series::line("one GiB more earns", Ink::First, points)
}

fn description(curve: &WorthCurve) -> String {
    let price = words::money(curve.price);
    match curve.best {
        Some(best) => {
            format!(
                "One GiB costs {price} per day. Up to {} a larger cache saves more than it costs.",
                curve.size(best)
            )
        }
        None => format!("One GiB costs {price} per day, and no size of the cache saves what it costs."),
    }
}

fn table(curve: &WorthCurve) -> Table {
    let mut table = Table::new(
        "What one GiB of the step to each size earns and costs per day",
        ["capacity", "pages", "earns", "costs"],
    );
    for (pages, earns) in spread(curve.drawn(), MOST_SIZES) {
        let [earns, price] = [*earns, curve.price].map(|amount| Cell::Figure(words::money(amount)));
        table.row([Cell::Pages(*pages, Some(curve.page_bytes)), Cell::Count(*pages), earns, price]);
    }
    table
}
