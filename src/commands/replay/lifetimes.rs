//! What a replay says of time, of tenants and of the optimum: put into its result.

use super::output::ReplayResult;
use crate::replay::Replay;
use kvset_core::estimate::Estimate;
use kvset_core::questions::enabled::Questions;

/// Puts what was requested of single capacities, and what is no part of an estimate, into a result.
pub(super) fn add(result: &mut ReplayResult, done: &Replay) {
    let Questions { ttls, optimal, .. } = &done.config.questions;
    let points = done.whole.iter().flat_map(|whole| &whole.capacities);
    for (entry, point) in result.capacities.iter_mut().zip(points) {
        entry.eviction_age_ms = (!ttls.is_empty()).then(|| point.eviction_age_ms.unwrap_or_default());
        entry.optimal_page_hits = optimal.then_some(point.optimal_page_hits);
    }
    let capacities = result.capacities.len();
    for (window, estimate) in result.windows.iter_mut().zip(&done.windows).filter(|_| *optimal) {
        window.optimal_page_hits = Some(optimal_hits(estimate, capacities));
    }
    result.optimal = done.optimal;
}

/// What perfect foresight would have in a window, one entry per capacity of the trace; none where nothing is reported.
fn optimal_hits(estimate: &Estimate, capacities: usize) -> Option<Vec<Option<u64>>> {
    let mut hits: Vec<_> = estimate.capacities.iter().map(|point| point.optimal_page_hits).collect();
    hits.first().copied().flatten()?;
    // A window's curve ends where larger capacities find no more.
    let last = hits.last().copied().flatten();
    hits.resize(capacities, last);
    Some(hits)
}
