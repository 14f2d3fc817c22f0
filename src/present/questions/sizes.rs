//! Which capacities of a curve a table shows, and what a reported size is called.

use crate::present::document::{MOST_SIZES, spread};
use crate::present::words;
use kvset_core::estimate::{CapacityPoint, Estimate};
use kvset_core::sizing::recommendation::Recommendation;

/// The place of the smallest capacity of the curve that is enough for what is recommended, else of the largest one;
/// `None` where nothing is recommended.
pub fn recommended_place(estimate: &Estimate) -> Option<usize> {
    let pages = estimate.recommendation().and_then(Recommendation::so_far)?;
    let enough = estimate.capacities.iter().position(|point| point.pages >= pages);
    enough.or(estimate.capacities.len().checked_sub(1))
}

/// The capacities of a table: all that somebody named, else some where the curve climbs.
pub(crate) fn telling(estimate: &Estimate) -> Vec<&CapacityPoint> {
    listed_points(&estimate.capacities, estimate.names_capacities(), prefix_hits)
}

/// The points of a curve that a table lists: all where they were `named`, else some where it climbs.
pub(super) fn listed_points<T>(points: &[T], named: bool, gain: impl Fn(&T) -> f64) -> Vec<&T> {
    if named { points.iter().collect() } else { spread(climbing(points, gain), MOST_SIZES).collect() }
}

/// The part of a curve where it climbs: from the last point that gains next to nothing to the first that gains all that
/// can be gained.
pub(crate) fn climbing<T>(points: &[T], gain: impl Fn(&T) -> f64) -> &[T] {
    let most = points.iter().map(&gain).fold(0.0, f64::max);
    let first = points.iter().position(|point| gain(point) > most / 100.0).unwrap_or(0);
    let end = points.iter().position(|point| gain(point) >= most).map_or(points.len(), |full| full + 1);
    &points[first.saturating_sub(1).min(end)..end]
}

/// The prefix hits of a capacity; none beyond the tracked bound.
pub(crate) fn prefix_hits(point: &CapacityPoint) -> f64 {
    point.prefix_hits.unwrap_or(0) as f64
}

/// `80 GiB (provisioned)`; whether it is that, and whether recommended.
pub(super) fn size(pages: u64, bytes: Option<u64>, roles: (bool, bool)) -> String {
    let size = bytes.map_or_else(|| words::capacity(pages, None), words::bytes_up);
    let role = match roles {
        (true, true) => " (provisioned and recommended)",
        (true, false) => " (provisioned)",
        (false, true) => " (recommended)",
        (false, false) => "",
    };
    format!("{size}{role}")
}
