//! The recommended capacity by the traffic.

use super::axis::Axis;
use super::draw::{Panel, Series};
use super::{Plot, PlotError};
use crate::present::pool::{PoolReport, recommended_by_traffic, times};
use crate::present::theme::Ink;
use crate::present::words;
use kvset_core::sizing::recommendation::Recommendation;
use kvset_core::units::ratio::Ratio;

/// The recommendations of one factor of traffic, at the first target ratio.
struct AtFactor<'a> {
    factor: f64,
    entries: Vec<&'a Recommendation>,
}

/// Draws what is recommended by the traffic, with its 90 % interval; `None` where no other traffic was answered. `id`
/// is unique on the page.
pub fn capacity_by_traffic(id: &str, pool: &PoolReport<'_>) -> Result<Option<Plot>, PlotError> {
    let track = track(pool);
    let (Some(first), Some(last)) = (track.first(), track.last()) else { return Ok(None) };
    let Some(table) = recommended_by_traffic(pool).filter(|_| track.len() > 1) else { return Ok(None) };
    let coverages: Vec<Ratio> = first.entries.iter().map(|entry| entry.coverage).collect();
    let mut series: Vec<Series> =
        coverages.iter().enumerate().map(|(line, coverage)| line_of(pool, &track, line, *coverage)).collect();
    series.extend(intervals(&track));
    let upper = |entry: &&Recommendation| entry.stated_ends().map(|(_, high)| high).max(entry.so_far());
    let most = track.iter().flat_map(|at| &at.entries).filter_map(upper);
    let most = most.max().unwrap_or(1) as f64;
    let x = Axis::factors("times the traffic of the log", last.factor);
    let panel = Panel::new(x, Axis::capacity("recommended capacity", most, pool.estimate.page_bytes), series);
    Plot::drawn(id, "Recommended capacity by traffic", description(pool, &track), table, vec![panel])
}

/// The log itself and the factors that are answered, in their order.
fn track<'a>(pool: &'a PoolReport<'_>) -> Vec<AtFactor<'a>> {
    let of = |factor: f64, all: &'a [Recommendation]| {
        let target = all.first()?.target_ratio;
        let entries = all.iter().filter(|entry| entry.target_ratio == target).collect();
        Some(AtFactor { factor, entries })
    };
    let others = pool.traffic.iter().filter(|found| found.factor != 1.0);
    let others = others.filter_map(|found| of(found.factor, &found.recommended));
    let mut track: Vec<_> = of(1.0, pool.estimate.recommendations()).into_iter().chain(others).collect();
    track.sort_by(|one, other| one.factor.total_cmp(&other.factor));
    track
}

fn at<'a>(track: &[AtFactor<'a>], coverage: Ratio) -> Vec<(f64, &'a Recommendation)> {
    let of =
        |at: &AtFactor<'a>| Some((at.factor, *at.entries.iter().find(|entry| entry.coverage == coverage)?));
    track.iter().filter_map(of).collect()
}

fn line_of(pool: &PoolReport<'_>, track: &[AtFactor<'_>], line: usize, coverage: Ratio) -> Series {
    let points = at(track, coverage);
    let end = points.last().and_then(|(_, entry)| entry.so_far());
    let end = end.map_or("beyond bound".to_owned(), |pages: u64| pool.size(pages));
    let points = points.iter().map(|(factor, entry)| Some((*factor, entry.so_far()? as f64))).collect();
    Series::line(format!("{}: {end}", words::share(coverage)), Ink::series(line), points)
}

/// A bar at each factor and coverage from the lower end to the upper one.
fn intervals(track: &[AtFactor<'_>]) -> Option<Series> {
    let of = |at: &AtFactor<'_>| {
        let factor = at.factor;
        let bar = move |entry: &&Recommendation| {
            let (low, high) = entry.stated_ends()?;
            Some([Some((factor, low as f64)), Some((factor, high as f64)), None])
        };
        at.entries.iter().filter_map(bar).flatten().collect::<Vec<_>>()
    };
    let points: Vec<_> = track.iter().flat_map(of).collect();
    (!points.is_empty()).then(|| Series::line("with other conversations (90 %)", Ink::Reference, points))
}

fn description(pool: &PoolReport<'_>, track: &[AtFactor<'_>]) -> String {
    let of = |at: &AtFactor<'_>| {
        let entry = at.entries.last()?;
        let size = pool.size(entry.so_far()?);
        Some(format!("{size} for {} of the requests at {}", words::share(entry.coverage), times(at.factor)))
    };
    format!("{}.", track.iter().filter_map(of).collect::<Vec<_>>().join("; "))
}
