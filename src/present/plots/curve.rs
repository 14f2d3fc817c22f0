//! Capacity against hit rate, with relative prefill throughput on a second axis (paper, figures 1 and 3).

use super::axis::Axis;
use super::draw::{Marker, Panel, Series, SeriesShape};
use super::{Plot, PlotError};
use crate::present::document::{Cell, Columns, Table};
use crate::present::pool::{PoolReport, ends};
use crate::present::theme::Ink;
use crate::present::words;
use kvset_core::estimate::CapacityPoint;
use kvset_core::sizing::recommendation::Recommendation;

/// Draws the hit-rate curve of a pool; `None` without a point to draw. `id` is unique on the page.
pub fn capacity_curve(id: &str, pool: &PoolReport<'_>) -> Result<Option<Plot>, PlotError> {
    let all = points(pool);
    let known: Vec<&CapacityPoint> = all
        .iter()
        .copied()
        .filter(|point| point.pages > 0 && rate(point.prefix_hit_rate).is_some())
        .collect();
    let drawn = telling(&known);
    let (Some(first), Some(last)) = (drawn.first(), drawn.last()) else { return Ok(None) };
    let markers = coverage_markers(pool, |pages| interpolate(drawn, pages).into_iter().collect());
    // The axis reaches every marker, also where the curve was not requested that far.
    let band = pool.questions.measured.filter(|(from, ..)| *from > 0);
    let ends = band.into_iter().flat_map(|(from, to, _)| [Some(from), to]).flatten();
    let certain = certain_ends(pool);
    let ends = ends.chain(certain.iter().flat_map(|(_, (from, to))| [*from, *to]));
    let reached: Vec<_> =
        markers.iter().map(|marker| marker.x).chain(ends.map(|pages| pages as f64)).collect();
    let low = reached.iter().copied().fold(first.pages as f64, f64::min);
    let high = reached.iter().copied().fold(last.pages as f64, f64::max);
    let x = Axis::log_capacity("cache capacity", low, high, pool.estimate.page_bytes);
    let y = Axis::shares("hit rate (share of page accesses)");
    let panel = Panel::new(x, y, series(pool, drawn, (low, high)));
    let panel = Panel { right: throughput_axis(drawn), markers, ..panel };
    let description = description(pool, first, last);
    Plot::drawn(id, "Hit rate by cache capacity", description, table(pool), vec![panel])
}

/// The curve with the points counted at recommended capacities, ascending.
fn points<'a>(pool: &'a PoolReport<'_>) -> Vec<&'a CapacityPoint> {
    let new = pool.counted().filter(|point| pool.estimate.capacities.iter().all(|p| p.pages != point.pages));
    let mut points: Vec<_> = pool.estimate.capacities.iter().chain(new).collect();
    points.sort_by_key(|point| point.pages);
    points
}

/// Vertical markers at the recommended capacities of the first target ratio; equal ones share a marker.
pub(crate) fn coverage_markers(pool: &PoolReport<'_>, dots: impl Fn(f64) -> Vec<f64>) -> Vec<Marker> {
    let mut groups: Vec<(u64, Vec<String>)> = Vec::new();
    for entry in pool.estimate.recommendations() {
        let Some(pages) = entry.pages.filter(|pages| *pages > 0) else { continue };
        let share = words::share(entry.coverage);
        match groups.iter_mut().find(|(known, _)| *known == pages) {
            Some((_, shares)) => shares.push(share),
            None => groups.push((pages, vec![share])),
        }
    }
    // More than this many labels do not fit side by side; the largest requirements are the ones looked for.
    let skipped = groups.len().saturating_sub(5);
    let marker = |(pages, shares): &(u64, Vec<String>)| Marker {
        x: *pages as f64,
        dots: dots(*pages as f64),
        label: format!("{}: {}", words::listed(shares), pool.size(*pages)),
    };
    groups[skipped..].iter().map(marker).collect()
}

/// The stretch of the curve that says something: without all but one of the leading points that hit next
/// to nothing, and all but one of the trailing ones that hit no more than the first of them.
fn telling<'a, 'b>(known: &'a [&'b CapacityPoint]) -> &'a [&'b CapacityPoint] {
    let hits = |point: &&CapacityPoint| {
        let rates = [point.prefix_hit_rate, point.page_hit_rate];
        rates.into_iter().filter_map(rate).fold(0.0, f64::max)
    };
    let most = known.iter().map(hits).fold(0.0, f64::max);
    let first = known.iter().position(|point| hits(point) >= most * 0.005).unwrap_or(0);
    let full = known.iter().position(|point| hits(point) >= most).unwrap_or(known.len());
    let flat = known.iter().skip(full).all(|point| hits(point) >= most);
    let end = if flat { (full + 2).min(known.len()) } else { known.len() };
    &known[first.saturating_sub(1)..end]
}

pub(crate) fn rate(value: Option<f64>) -> Option<f64> {
    value.filter(|value| (0.0..=1.0).contains(value))
}

fn throughput(point: &CapacityPoint) -> Option<f64> {
    point.relative_prefill_throughput.filter(|value| value.is_finite() && *value >= 0.0)
}

fn throughput_axis(drawn: &[&CapacityPoint]) -> Option<Axis> {
    let most = drawn.iter().filter_map(|point| throughput(point)).reduce(f64::max)?;
    Some(Axis::factors("relative prefill throughput", most))
}

fn series(pool: &PoolReport<'_>, drawn: &[&CapacityPoint], (low, high): (f64, f64)) -> Vec<Series> {
    // Hits need not grow with a capacity that is modelled on its own: nothing is said of what lies between.
    let shape = if pool.pointwise { SeriesShape::Dots } else { SeriesShape::Line };
    let of = |label: &str, ink, on_right, value: &dyn Fn(&CapacityPoint) -> Option<f64>| {
        let points = drawn.iter().map(|point| Some((point.pages as f64, value(point)?)));
        Series { shape, on_right, ..Series::line(label, ink, points.collect()) }
    };
    let page = |point: &CapacityPoint| rate(point.page_hit_rate);
    let prefix = |point: &CapacityPoint| rate(point.prefix_hit_rate);
    let mut series = match drawn.iter().all(|point| page(point) == prefix(point)) {
        true => vec![of("hit rate (pages = prefixes)", Ink::First, false, &prefix)],
        false => vec![
            of("prefix hit rate", Ink::First, false, &prefix),
            of("page hit rate", Ink::Third, false, &page),
        ],
    };
    series.push(of("prefill throughput (right axis)", Ink::Second, true, &throughput));
    if !pool.questions.foresight.is_empty() {
        series.push(foresight(pool, drawn));
    }
    series.extend(pool.questions.measured.filter(|(from, ..)| *from > 0).map(|band| measured(band, high)));
    series.extend(certain(pool, drawn));
    if let Some(limit) = rate(Some(pool.estimate.theoretical.prefix_hit_rate)) {
        let label = format!("unlimited: {}", words::rate(limit));
        let points = vec![Some((low, limit)), Some((high, limit))];
        series.push(Series::line(label, Ink::Reference, points));
    }
    series
}

/// What the cache in use behaves like: a band of capacities at its hit rate, up to the axis' end where
/// nothing bounds it. Its ends are dots by themselves, so that a narrow band is seen.
fn measured((from, to, hit_rate): (u64, Option<u64>, f64), high: f64) -> Series {
    let ends = [from as f64, to.map_or(high, |pages| pages as f64)];
    let [from, to] = ends.map(|end| Some((end, hit_rate)));
    let label = format!("measured: {}", words::rate(hit_rate));
    Series::line(label, Ink::Fourth, vec![from, None, from, to, None, to])
}

/// Where recommended capacities lie with other conversations: a bar around each.
fn certain(pool: &PoolReport<'_>, drawn: &[&CapacityPoint]) -> Option<Series> {
    let bar = |(pages, (from, to)): &(u64, (u64, u64))| {
        let rate = interpolate(drawn, *pages as f64)?;
        Some([Some((*from as f64, rate)), Some((*to as f64, rate)), None])
    };
    let points: Vec<_> = certain_ends(pool).iter().filter_map(bar).flatten().collect();
    (!points.is_empty()).then(|| Series::line("with other conversations (90 %)", Ink::Sixth, points))
}

/// Recommended capacities of the first target ratio that have an interval, with its ends.
fn certain_ends(pool: &PoolReport<'_>) -> Vec<(u64, (u64, u64))> {
    let entries = pool.estimate.recommendations().iter().filter(|entry| entry.pages > Some(0));
    let ends = |entry: &Recommendation| Some((entry.pages?, ends(entry)?));
    entries.filter_map(ends).filter(|(_, (from, _))| *from > 0).collect()
}

/// What perfect foresight would find at the drawn capacities.
fn foresight(pool: &PoolReport<'_>, drawn: &[&CapacityPoint]) -> Series {
    let at = |point: &&CapacityPoint| {
        let known = pool.questions.foresight.iter().find(|(pages, _)| *pages == point.pages);
        known.map(|(pages, rate)| Some((*pages as f64, *rate)))
    };
    Series::line("with perfect foresight", Ink::Fifth, drawn.iter().filter_map(at).collect())
}

/// The drawn line's height at a capacity: straight between neighbours on the logarithmic axis.
fn interpolate(drawn: &[&CapacityPoint], pages: f64) -> Option<f64> {
    let after = drawn.iter().position(|point| point.pages as f64 >= pages)?;
    let (high, low) = (drawn[after], drawn[after.saturating_sub(1)]);
    let (low_rate, high_rate) = (rate(low.prefix_hit_rate)?, rate(high.prefix_hit_rate)?);
    let width = (high.pages as f64 / low.pages as f64).ln();
    if width <= 0.0 {
        return (high.pages as f64 == pages).then_some(high_rate);
    }
    Some(low_rate + (high_rate - low_rate) * (pages / low.pages as f64).ln() / width)
}

fn description(pool: &PoolReport<'_>, first: &CapacityPoint, last: &CapacityPoint) -> String {
    let size = |point: &CapacityPoint| pool.size(point.pages);
    format!(
        "The prefix hit rate is {} with {} and {} with {}; with unlimited capacity it is {}.",
        words::rate_or_dash(first.prefix_hit_rate),
        size(first),
        words::rate_or_dash(last.prefix_hit_rate),
        size(last),
        words::rate(pool.estimate.theoretical.prefix_hit_rate)
    )
}

fn table(pool: &PoolReport<'_>) -> Table {
    let columns: Columns<'_, CapacityPoint> = &[
        ("capacity", &|point| Cell::named(point, pool.estimate.page_bytes)),
        ("pages", &|point| Cell::Count(point.pages)),
        ("page hits", &|point| Cell::of_point(point, point.page_hits, Cell::Count)),
        ("prefix hits", &|point| Cell::of_point(point, point.prefix_hits, Cell::Count)),
        ("page hit rate", &|point| Cell::known(point.page_hit_rate, Cell::Rate)),
        ("share of reuse kept", &|point| Cell::known(point.reuse_hit_rate, Cell::Rate)),
        ("prefix hit rate", &|point| Cell::known(point.prefix_hit_rate, Cell::Rate)),
        (words::BY_TOKENS, &|point| Cell::known(point.hit_rate_tokens, Cell::Rate)),
        ("prefill throughput", &|point| Cell::figure(throughput(point), words::factor)),
    ];
    Table::of("Hits at each capacity", points(pool), columns)
}
