//! What a replay says of time, of tenants and of the optimum: put into its result, and printed.

use super::output::ReplayResult;
use super::printed::{MOST_ROWS, spread, telling};
use crate::present::questions::foresight;
use crate::present::terminal::required::CapacityResult;
use crate::present::terminal::retention::{eviction_table, retention_table};
use crate::present::terminal::tenants::{QuotaOutput, place_of, quota_table, tenants_table};
use crate::present::terminal::{Column, Sheet, Terminal, bytes, capacity, known, percent, thousands};
use crate::replay::Replay;
use kvset_core::estimate::Estimate;
use kvset_core::estimate::curve::share;
use kvset_core::estimate::recommendation::Recommendation;
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
    result.quotas = done.quotas.iter().map(|found| QuotaOutput::of(found, done)).collect();
}

/// What perfect foresight would have in a window, one entry a capacity of the trace; none where nothing is told.
fn optimal_hits(estimate: &Estimate, capacities: usize) -> Option<Vec<Option<u64>>> {
    let mut hits: Vec<_> = estimate.capacities.iter().map(|point| point.optimal_page_hits).collect();
    hits.first().copied().flatten()?;
    // A window's curve ends where larger capacities find no more.
    let last = hits.last().copied().flatten();
    hits.resize(capacities, last);
    Some(hits)
}

impl ReplayResult {
    /// What was requested, as tables; nothing where nothing was.
    pub(super) fn lifetimes(&self, terminal: &Terminal) -> String {
        let mut text = String::new();
        self.traffic.iter().for_each(|traffic| text.push_str(&traffic.render(terminal)));
        if !self.retention.is_empty() {
            let (points, required) = (&self.retention, &self.retention_required);
            text.push_str(&retention_table(points, required, self.trace.page_bytes, terminal));
            let age = |result: &CapacityResult| {
                Some((result.point.pages, result.point.bytes, result.eviction_age_ms?))
            };
            let ages: Vec<_> = self.shown_capacities().into_iter().filter_map(age).collect();
            text.push_str(&eviction_table(&ages, &self.retention, terminal));
        }
        if self.capacities.iter().any(|result| result.optimal_page_hits.is_some()) {
            text.push_str(&self.optimal_table(terminal));
        }
        if !self.tenants.is_empty() {
            let points: Vec<_> = self.capacities.iter().map(|result| &result.point).collect();
            let answer = self.facts.recommendation().and_then(Recommendation::so_far);
            let at = place_of(&points, answer).map(|at| (at, self.size_of(points[at].pages)));
            text.push_str(&tenants_table(&self.tenants, at, terminal));
        }
        let shown: Vec<u64> = self.shown_capacities().iter().map(|result| result.point.pages).collect();
        for quota in &self.quotas {
            let mut quota = quota.clone();
            quota.capacities.retain(|point| shown.contains(&point.pages));
            text.push_str(&quota_table(&quota, |pages| self.size_of(pages), terminal));
        }
        text
    }

    fn size_of(&self, pages: u64) -> String {
        capacity(pages, self.trace.page_bytes)
    }

    /// At most [`MOST_ROWS`] capacities, where the curve climbs.
    fn shown_capacities(&self) -> Vec<&CapacityResult> {
        let points: Vec<_> = self.capacities.iter().map(|result| &result.point).collect();
        let shown: Vec<u64> = spread(telling(&points), MOST_ROWS).iter().map(|point| point.pages).collect();
        self.capacities.iter().filter(|result| shown.contains(&result.point.pages)).collect()
    }

    fn optimal_table(&self, terminal: &Terminal) -> String {
        let in_bytes = self.trace.page_bytes.is_some();
        let mut columns = Vec::new();
        columns.extend(in_bytes.then_some(Column::Number("size")));
        columns.extend(["pages", "hit rate", "with foresight"].map(Column::Number));
        let mut sheet = Sheet::new(&columns);
        for CapacityResult { point, optimal_page_hits, .. } in self.shown_capacities() {
            let rate = |hits: u64| percent(share(hits, self.trace.page_accesses));
            let mut cells = Vec::new();
            cells.extend(in_bytes.then(|| bytes(point.bytes)));
            cells.push(thousands(point.pages));
            cells.push(known(point.page_hits, rate, true));
            cells.push(known(optimal_page_hits.flatten(), rate, true));
            sheet.row(cells);
        }
        let mut text = format!("\nthe best any policy could do\n{}", sheet.render(terminal));
        self.optimal.iter().for_each(|found| {
            text.push_str(&terminal.paragraph(&foresight(found, self.trace.page_bytes)));
        });
        text
    }
}
