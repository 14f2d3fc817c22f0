//! The distribution of required capacity over requests.

use super::axis::Axis;
use super::curve::coverage_markers;
use super::draw::{Panel, Series};
use super::{Plot, PlotError};
use crate::present::document::{Cell, Table};
use crate::present::pool::{PoolReport, RequirementStep};
use crate::present::theme::Ink;
use crate::present::words;
use kvset_core::estimate::InFlightFigures;

/// Most steps drawn and listed; more are merged on a logarithmic scale.
const MAX_STEPS: usize = 160;

/// Draws which share of the requests fits into each capacity; `None` when no request needs any.
/// `id` is unique on the page.
pub fn requirement_distribution(id: &str, pool: &PoolReport<'_>) -> Result<Option<Plot>, PlotError> {
    let distribution = &pool.distribution;
    let recommended = pool.estimate.recommendations();
    let marked: Vec<u64> = recommended.iter().filter_map(|entry| entry.pages).collect();
    let room = pool.estimate.in_flight.as_ref().and_then(InFlightFigures::room).unwrap_or(0);
    let steps = merged(&with_room(&distribution.steps, room), &marked);
    let total = total(&steps).saturating_add(distribution.beyond_bound);
    let needing: Vec<&RequirementStep> =
        steps.iter().filter(|step| step.pages > 0 && step.requests > 0).collect();
    let (Some(first), Some(last)) = (needing.first(), needing.last()) else { return Ok(None) };
    let fits = |pages: f64| {
        let fitting = steps.iter().filter(|step| step.pages as f64 <= pages).map(|step| step.requests);
        fitting.fold(0u64, u64::saturating_add) as f64 / total as f64
    };
    let (low, high) = (first.pages as f64, last.pages as f64);
    let x = Axis::log_capacity("cache capacity", low, high, pool.estimate.page_bytes);
    let y = Axis::shares("requests that fit (share of all)");
    let markers = coverage_markers(pool, |pages| vec![fits(pages)]);
    let series = vec![Series::line("requests that fit", Ink::First, staircase(&steps, total))];
    let panel = Panel { height: 280.0, markers, ..Panel::new(x, y, series) };
    let without = steps.iter().find(|step| step.pages == 0).map_or(0, |step| step.requests);
    let mut description = format!(
        "{} of {} need no cache; the others need {} to {}.",
        words::integer(without),
        words::counted(total, "request", "requests"),
        pool.size(first.pages),
        pool.size(last.pages)
    );
    if room > 0 {
        let room = pool.size(room);
        description += &format!(" {room} of what they need is room for requests in flight.");
    }
    if distribution.beyond_bound > 0 {
        description += &format!(" {} more than the tracked bound.", needs(distribution.beyond_bound));
    }
    let table = table(pool, &steps, total);
    Plot::drawn(id, "Distribution of required capacity", description, table, vec![panel])
}

/// The steps of requests that need a cache, with room for requests in flight.
fn with_room(steps: &[RequirementStep], room: u64) -> Vec<RequirementStep> {
    let raised = |pages: u64| if pages > 0 { pages.saturating_add(room) } else { 0 };
    steps.iter().map(|step| RequirementStep { pages: raised(step.pages), requests: step.requests }).collect()
}

fn needs(requests: u64) -> String {
    format!(
        "{} {}",
        words::counted(requests, "request", "requests"),
        if requests == 1 { "needs" } else { "need" }
    )
}

fn total(steps: &[RequirementStep]) -> u64 {
    steps.iter().map(|step| step.requests).fold(0, u64::saturating_add)
}

/// Steps at the same capacity, or in the same small stretch of a logarithmic scale, become one at the
/// largest of their capacities: a share shown as fitting does fit. Merging stops at `marked` capacities,
/// so that the staircase is exact there.
fn merged(steps: &[RequirementStep], marked: &[u64]) -> Vec<RequirementStep> {
    let mut sorted: Vec<RequirementStep> = steps.iter().filter(|step| step.requests > 0).copied().collect();
    sorted.sort_by_key(|step| step.pages);
    let log = |pages: u64| (pages.max(1) as f64).ln();
    let ends = sorted.iter().find(|step| step.pages > 0).zip(sorted.last());
    let width = ends.map_or(0.0, |(first, last)| log(last.pages) - log(first.pages)) / MAX_STEPS as f64;
    let bin = |step: &RequirementStep| match step.pages {
        0 => -1,
        pages if sorted.len() > MAX_STEPS && width > 0.0 => (log(pages) / width) as i64,
        pages => i64::try_from(pages).unwrap_or(i64::MAX),
    };
    let mut out: Vec<RequirementStep> = Vec::new();
    for group in
        sorted.chunk_by(|a, b| bin(a) == bin(b) && (a.pages == b.pages || !marked.contains(&a.pages)))
    {
        let pages = group.last().map_or(0, |step| step.pages);
        out.push(RequirementStep { pages, requests: total(group) });
    }
    out
}

fn staircase(steps: &[RequirementStep], total: u64) -> Vec<Option<(f64, f64)>> {
    let mut points = Vec::with_capacity(steps.len() * 2);
    let mut below = 0u64;
    for step in steps {
        let share = |count: u64| count as f64 / total as f64;
        let before = share(below);
        below = below.saturating_add(step.requests);
        if step.pages > 0 {
            points.push(Some((step.pages as f64, before)));
            points.push(Some((step.pages as f64, share(below))));
        }
    }
    points
}

fn table(pool: &PoolReport<'_>, steps: &[RequirementStep], total: u64) -> Table {
    let mut table = Table::new(
        "Requests by required capacity",
        ["capacity up to", "pages", "requests", "requests that fit", "share that fits"],
    );
    let mut below = 0u64;
    for step in steps {
        below = below.saturating_add(step.requests);
        table.row([
            pool.size_cell(step.pages),
            Cell::Count(step.pages),
            Cell::Count(step.requests),
            Cell::Count(below),
            Cell::Rate(below as f64 / total as f64),
        ]);
    }
    if pool.distribution.beyond_bound > 0 {
        table.row([
            Cell::BeyondBound,
            Cell::Unknown,
            Cell::Count(pool.distribution.beyond_bound),
            Cell::Count(total),
            Cell::Rate(1.0),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_every_request_and_never_understates_a_capacity() {
        let steps: Vec<_> =
            (0..5000).map(|pages| RequirementStep { pages, requests: 1 + pages % 3 }).collect();
        let merged = merged(&steps, &[777]);
        assert!(merged.len() <= MAX_STEPS + 3, "{} steps", merged.len());
        assert!(merged.iter().any(|step| step.pages == 777), "a marked capacity stays");
        assert_eq!(total(&merged), total(&steps));
        assert_eq!(merged.first(), Some(&steps[0]), "requests without reuse stay apart");
        assert_eq!(merged.last().map(|step| step.pages), Some(4999));
        for step in &merged {
            let exact: u64 =
                steps.iter().filter(|other| other.pages <= step.pages).map(|other| other.requests).sum();
            let shown: u64 =
                merged.iter().filter(|other| other.pages <= step.pages).map(|other| other.requests).sum();
            assert_eq!(shown, exact, "at {} pages", step.pages);
        }
    }

    #[test]
    fn the_staircase_climbs_from_those_that_need_nothing_to_all() {
        let steps = [(0, 2), (5, 1), (9, 1)].map(|(pages, requests)| RequirementStep { pages, requests });
        assert_eq!(staircase(&steps, 4), [(5.0, 0.5), (5.0, 0.75), (9.0, 0.75), (9.0, 1.0)].map(Some));
    }
}
