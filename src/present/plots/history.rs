//! Required and accumulated capacity over the log (paper, figure 4), and requests and hit rate alongside them.

use super::axis::Axis;
use super::curve::rate;
use super::draw::{Panel, Series, SeriesShape};
use super::{Plot, PlotError};
use crate::present::document::{Cell, Columns, Table};
use crate::present::pool::{HistoryPoint, PoolEstimates, PoolReport};
use crate::present::theme::Ink;
use crate::present::words;
use kvset_core::units::ratio::Ratio;

/// Most points drawn and listed; more are merged, keeping peaks.
const MAX_POINTS: usize = 260;
/// Most coverage lines drawn: the largest ones are those a cache is sized by.
const MAX_LINES: usize = 4;
/// Columns of the requests over time.
const BINS: usize = 96;
/// From this many times the largest requirement on, the accumulated capacity would press the lines that
/// matter onto the axis of a linear scale.
const LINEAR_UP_TO: u64 = 6;

/// Draws required and accumulated capacity; `None` without history. `id` is unique on the page.
pub fn capacity_history(id: &str, pool: &PoolReport<'_>) -> Result<Option<Plot>, PlotError> {
    let track = Track::of(&pool.history);
    let Some(last) = track.points.last() else { return Ok(None) };
    let size = |pages: u64| pool.size(pages);
    let label = format!("accumulated: {}", size(last.accumulated_pages));
    let mut series = vec![track.line(label, Ink::Text, |point| Some(point.accumulated_pages as f64))];
    for (line, (index, coverage)) in covered_lines(&pool.history.coverage).into_iter().enumerate() {
        let values = |point: &HistoryPoint| point.required.get(index).copied().flatten();
        let end = values(last).map_or("beyond bound".to_owned(), size);
        let label = format!("{}: {end}", words::share(coverage));
        series.push(track.line(label, Ink::series(line), |point| Some(values(point)? as f64)));
    }
    let panel = Panel::new(track.axis(), capacity_axis(pool, &track), series);
    let panel = Panel { names_at_ends: true, ..panel };
    let (description, table) = (capacity_description(pool, last), capacity_table(pool, &track));
    Plot::drawn(id, "Required and accumulated capacity", description, table, vec![panel])
}

/// Linear like the paper's figure, unless that would hide the requirements.
fn capacity_axis(pool: &PoolReport<'_>, track: &Track) -> Axis {
    let needs = || track.points.iter().flat_map(|point| point.required.iter().flatten()).copied();
    let needed = needs().max().unwrap_or(0);
    let most = track.points.iter().map(|point| point.accumulated_pages).max().unwrap_or(0).max(needed);
    if needed == 0 || most / LINEAR_UP_TO <= needed {
        return Axis::capacity("capacity", most as f64, pool.estimate.page_bytes);
    }
    // The first requests of a log need next to nothing; where the lines settle is what should be seen.
    let settled = &track.points[track.points.len() / 4..];
    let lines = covered_lines(&pool.history.coverage);
    let drawn = settled
        .iter()
        .flat_map(|point| lines.iter().map(|(line, _)| point.required.get(*line).copied().flatten()));
    let least = drawn.flatten().filter(|pages| *pages > 0).min().unwrap_or(1);
    Axis::log_capacity("capacity", least as f64 / 2.0, most as f64 * 1.5, pool.estimate.page_bytes)
}

/// Draws requests and hit rate; `None` without history. `id` is unique on the page.
pub fn traffic_history(id: &str, pool: &PoolReport<'_>) -> Result<Option<Plot>, PlotError> {
    let track = Track::of(&pool.history);
    if track.points.is_empty() {
        return Ok(None);
    }
    let rates = track.line("hit rate", Ink::First, |point| rate(point.hit_rate));
    let known = || rates.points.iter().flatten().map(|(_, rate)| *rate);
    let description = format!(
        "The theoretical prefix hit rate of a window lies between {} and {}.",
        words::rate_or_dash(known().reduce(f64::min)),
        words::rate_or_dash(known().reduce(f64::max))
    );
    let hit_rate = Panel::new(track.axis(), Axis::shares("theoretical prefix hit rate"), vec![rates]);
    let hit_rate = Panel { height: 180.0, ..hit_rate };
    let panels: Vec<_> = arrivals(&track).into_iter().chain([hit_rate]).collect();
    let title = if panels.len() > 1 { "Requests and hit rate" } else { "Hit rate over the log" };
    Plot::drawn(id, title, description, traffic_table(&track), panels)
}

/// Requests a unit of time, where the history runs over event time and tells how many were seen.
fn arrivals(track: &Track) -> Option<Panel> {
    const UNITS: [(f64, &str); 4] =
        [(1000.0, "second"), (60_000.0, "minute"), (3_600_000.0, "hour"), (86_400_000.0, "day")];
    let counted = track.points.iter().any(|point| point.requests_seen > 0);
    let x = (track.timed && counted).then(|| track.axis())?;
    let (low, high) = x.range();
    let width = (high - low) / BINS as f64;
    let counts = binned(track, low, width);
    let most = counts.iter().copied().fold(0.0, f64::max) / width;
    let (unit, name) = *UNITS.iter().find(|(unit, _)| most * unit >= 1.0).unwrap_or(&UNITS[3]);
    let column = |(bin, count): (usize, &f64)| Some((low + (bin + 1) as f64 * width, count / width * unit));
    let mut points = vec![Some((low, 0.0))];
    points.extend(counts.iter().enumerate().map(column));
    let name = format!("requests a {name}");
    let y = Axis::numbers(&name, most * unit);
    let columns = Series { shape: SeriesShape::Columns, ..Series::line(name, Ink::Third, points) };
    Some(Panel { height: 120.0, ..Panel::new(x, y, vec![columns]) })
}

/// Requests in each of [`BINS`] equal stretches of event time. Those between two points are spread evenly
/// over the time between them.
fn binned(track: &Track, low: f64, width: f64) -> Vec<f64> {
    let mut counts = vec![0.0; BINS];
    let (mut seen, mut from) = (0u64, low);
    for (index, point) in track.points.iter().enumerate() {
        let to = track.x(point);
        // What was seen before the first point's window came before the axis.
        let before = if index == 0 { point.requests_seen.saturating_sub(point.requests) } else { seen };
        let arrived = point.requests_seen.saturating_sub(before) as f64;
        seen = point.requests_seen;
        let bin_of = |time: f64| (((time - low) / width) as usize).min(BINS - 1);
        for (bin, count) in counts.iter_mut().enumerate().take(bin_of(to) + 1).skip(bin_of(from)) {
            let (start, end) = (low + bin as f64 * width, low + (bin + 1) as f64 * width);
            *count += match to > from {
                true => arrived * (to.min(end) - from.max(start)).max(0.0) / (to - from),
                false => arrived,
            };
        }
        from = to;
    }
    counts
}

/// The coverage lines drawn: the largest, with their places in the history.
fn covered_lines(coverage: &[Ratio]) -> Vec<(usize, Ratio)> {
    let mut lines: Vec<(usize, Ratio)> = coverage.iter().copied().enumerate().collect();
    lines.sort_by_key(|(_, coverage)| std::cmp::Reverse(*coverage));
    lines.truncate(MAX_LINES);
    lines
}

/// A history ready to draw: few enough points, along event time or requests.
struct Track {
    points: Vec<HistoryPoint>,
    timed: bool,
    /// Points of the history merged into one here.
    merged: usize,
}

impl Track {
    fn of(history: &PoolEstimates) -> Self {
        let ends: Option<Vec<i64>> =
            history.points.iter().map(|point| point.span_ms.map(|(_, end)| end)).collect();
        let timed = ends.is_some_and(|ends| {
            let rising = ends.windows(2).all(|pair| pair[0] <= pair[1]);
            rising && (ends.len() == 1 || ends.first() < ends.last())
        });
        let merged = history.points.len().div_ceil(MAX_POINTS).max(1);
        Self { points: history.points.chunks(merged).filter_map(peak).collect(), timed, merged }
    }

    fn x(&self, point: &HistoryPoint) -> f64 {
        match point.span_ms {
            Some((_, end)) if self.timed => end as f64,
            _ => point.requests_seen as f64,
        }
    }

    /// What each point says, over the axis.
    fn line(&self, label: impl Into<String>, ink: Ink, y: impl Fn(&HistoryPoint) -> Option<f64>) -> Series {
        let place = |point: &HistoryPoint| Some((self.x(point), y(point)?));
        Series::line(label, ink, self.points.iter().map(place).collect())
    }

    fn axis(&self) -> Axis {
        let span = self
            .points
            .first()
            .and_then(|first| first.span_ms)
            .zip(self.points.last().and_then(|last| last.span_ms));
        match span {
            Some(((start, _), (_, end))) if self.timed => Axis::event_time(start, end),
            _ => Axis::requests(0.0, self.points.last().map_or(0.0, |last| last.requests_seen as f64)),
        }
    }

    /// What the first column says, and its heading.
    fn when(&self, point: &HistoryPoint) -> String {
        match point.span_ms {
            Some((_, end)) if self.timed => words::moment(end),
            _ => words::integer(point.requests_seen),
        }
    }

    fn heading(&self) -> &'static str {
        if self.timed { "until" } else { "requests seen" }
    }

    fn caption(&self, what: &str) -> String {
        match self.merged {
            1 => what.to_owned(),
            merged => format!("{what}; each row is the peak of {merged} estimates"),
        }
    }
}

/// One point for several: peaks of the requirement, sums of requests, the last footprint.
fn peak(points: &[HistoryPoint]) -> Option<HistoryPoint> {
    let (first, last) = (points.first()?, points.last()?);
    let requests: u64 = points.iter().map(|point| point.requests).fold(0, u64::saturating_add);
    let lines = points.iter().map(|point| point.required.len()).max().unwrap_or(0);
    // A requirement beyond the bound is larger than any number, so it must not vanish behind one.
    let counted = || points.iter().filter(|point| point.requests > 0);
    let need = |point: &HistoryPoint, line: usize| point.required.get(line).copied().flatten();
    let highest = |line: usize| {
        let all: Option<Vec<u64>> = counted().map(|point| need(point, line)).collect();
        all?.into_iter().max()
    };
    let known = || points.iter().filter_map(|point| Some((point.requests as f64, point.hit_rate?)));
    let weight: f64 = known().map(|(requests, _)| requests).sum();
    let hits: f64 = known().map(|(requests, rate)| requests * rate).sum();
    Some(HistoryPoint {
        requests_seen: last.requests_seen,
        span_ms: first.span_ms.zip(last.span_ms).map(|((start, _), (_, end))| (start, end)),
        requests,
        required: (0..lines).map(highest).collect(),
        accumulated_pages: last.accumulated_pages,
        hit_rate: if points.len() == 1 { first.hit_rate } else { (weight > 0.0).then(|| hits / weight) },
    })
}

fn capacity_description(pool: &PoolReport<'_>, last: &HistoryPoint) -> String {
    let lines = pool.history.coverage.iter().zip(&last.required).map(|(coverage, pages)| match pages {
        Some(pages) => {
            format!("{} for {}", pool.size(*pages), words::share(*coverage))
        }
        None => format!("an unknown capacity for {}", words::share(*coverage)),
    });
    let lines: Vec<String> = lines.collect();
    let footprint = pool.size(last.accumulated_pages);
    let who = words::requests_of(pool.history.window);
    let needs = match lines.is_empty() {
        true => String::new(),
        false => format!(" At the end, {who} need {}.", words::listed(&lines)),
    };
    format!("Accumulated is everything seen so far, {footprint} in the end.{needs}")
}

fn capacity_table(pool: &PoolReport<'_>, track: &Track) -> Table {
    let mut table =
        Table::new(track.caption("Required and accumulated capacity"), [track.heading(), "accumulated"]);
    table.columns.extend(
        pool.history.coverage.iter().map(|coverage| format!("{} of requests", words::share(*coverage))),
    );
    let size = |pages: Option<u64>| Cell::known(pages, |pages| pool.size_cell(pages));
    for point in &track.points {
        let mut row = vec![track.when(point).into(), size(Some(point.accumulated_pages))];
        row.extend(
            (0..pool.history.coverage.len()).map(|line| size(point.required.get(line).copied().flatten())),
        );
        table.row(row);
    }
    table
}

fn traffic_table(track: &Track) -> Table {
    let columns: Columns<'_, HistoryPoint> = &[
        (track.heading(), &|point| track.when(point).into()),
        ("requests", &|point| Cell::Count(point.requests)),
        ("theoretical prefix hit rate", &|point| Cell::known(point.hit_rate, Cell::Rate)),
    ];
    Table::of(track.caption("Requests and hit rate"), &track.points, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(seen: u64, required: Option<u64>, rate: Option<f64>) -> HistoryPoint {
        let span_ms = Some((seen as i64 - 1, seen as i64));
        HistoryPoint {
            requests_seen: seen,
            span_ms,
            requests: 2,
            required: vec![required],
            accumulated_pages: seen,
            hit_rate: rate,
        }
    }

    #[test]
    fn merging_keeps_peaks_and_weighs_rates() {
        let merged =
            peak(&[point(1, Some(9), Some(0.5)), point(2, Some(7), None), point(3, Some(4), Some(1.0))])
                .expect("a point");
        assert_eq!(merged.required, [Some(9)]);
        let beyond = peak(&[point(1, Some(9), None), point(2, None, None)]).expect("a point");
        assert_eq!(beyond.required, [None], "beyond the bound is more than any number");
        assert_eq!((merged.requests, merged.requests_seen, merged.accumulated_pages), (6, 3, 3));
        assert_eq!((merged.span_ms, merged.hit_rate), (Some((0, 3)), Some(0.75)));
    }

    #[test]
    fn a_long_history_is_cut_to_what_can_be_read() {
        let points: Vec<_> = (1..=10_000).map(|seen| point(seen, Some(seen), None)).collect();
        let track = Track::of(&PoolEstimates { window: None, coverage: vec![Ratio::ONE], points });
        assert!(track.timed && track.points.len() <= MAX_POINTS);
        assert_eq!(track.points.last().map(|point| point.requests_seen), Some(10_000));
    }

    #[test]
    fn every_request_falls_into_a_column() {
        let at = |seen: u64, end: i64| HistoryPoint {
            span_ms: Some((0, end)),
            requests: seen,
            ..point(seen, None, None)
        };
        let points = vec![at(10, 1000), at(30, 1000), at(34, 9600), at(50, 9600)];
        let track = Track::of(&PoolEstimates { window: None, coverage: vec![], points });
        let counts = binned(&track, 0.0, 100.0);
        assert!(track.timed);
        assert!((counts.iter().sum::<f64>() - 50.0).abs() < 1e-9, "{counts:?}");
        assert!((counts[0] - 1.0).abs() < 1e-9 && counts[10] >= 20.0 && counts[95] >= 16.0, "{counts:?}");
    }

    #[test]
    fn times_that_go_back_are_no_axis() {
        let points = vec![point(5, None, None), point(3, None, None)];
        assert!(!Track::of(&PoolEstimates { window: None, coverage: vec![], points }).timed);
    }
}
