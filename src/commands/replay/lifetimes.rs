//! What a replay says of time, of tenants and of the optimum: put into its result, and printed.

use super::output::{OptimalOutput, ReplayResult, WindowResult};
use super::printed::{MOST_ROWS, spread, telling};
use crate::cli::output::required::CapacityResult;
use crate::cli::output::retention::{RetentionOutputs, eviction_table, retention_table};
use crate::cli::output::tenants::{QuotaOutput, place_of, quota_table, tenants_table};
use crate::cli::output::traffic::TrafficOutput;
use crate::cli::output::{Column, Sheet, Terminal, bytes, capacity, known, percent, thousands};
use crate::replay::{LifetimesResult, OptimalCapacity, Replay, WindowLifetimes, foresight};
use kvset_core::estimate::Estimate;
use kvset_core::estimate::curve::share;
use kvset_core::estimate::recommendation::Recommendation;
use kvset_core::questions::retention::EvictionAge;
use kvset_core::questions::tenants::TenantEstimate;
use kvset_core::windows::window::WindowKind;

/// Puts what was asked for into a result.
pub(super) fn add(result: &mut ReplayResult, done: &Replay) {
    let asked = &done.lifetimes;
    if let Some((retention, whole)) = asked.retention.as_ref().zip(done.whole.as_ref()) {
        let outputs = RetentionOutputs::of(retention, whole);
        (result.retention, result.retention_required) = (outputs.points, outputs.required);
        let ages = retention.eviction_ages.iter().copied().chain(std::iter::repeat(EvictionAge::default()));
        for (point, age) in result.capacities.iter_mut().zip(ages) {
            point.eviction_age_ms = Some(age);
        }
    }
    for (window, estimate) in result.windows.iter_mut().zip(&done.windows) {
        add_to_window(window, estimate, asked);
    }
    if let Some(optimal) = &asked.optimal {
        for (point, hits) in result.capacities.iter_mut().zip(&optimal.page_hits) {
            point.optimal_page_hits = Some(*hits);
        }
        result.optimal = optimal.recommended.map(|found| OptimalOutput {
            pages: found.pages,
            optimal_pages: found.optimal_pages,
            times: found.times,
        });
    }
    result.traffic = done.traffic.as_ref().map(|traffic| TrafficOutput::of(traffic, done));
    result.tenants = asked.tenants.iter().map(|found| TenantEstimate::of(found, done.page_bytes)).collect();
    result.quotas = asked.quotas.iter().map(|found| QuotaOutput::of(found, done)).collect();
}

/// Puts what was asked for into a window.
fn add_to_window(window: &mut WindowResult, estimate: &Estimate, asked: &LifetimesResult) {
    let is_all = estimate.window == WindowKind::All;
    let is_it =
        |found: &&WindowLifetimes| (found.kind, found.start_ms) == (estimate.window, estimate.start_ms);
    let found = asked.in_windows.iter().find(is_it);
    // Of `all` there is what is said of the whole trace.
    let retention =
        if is_all { asked.retention.as_ref() } else { found.and_then(|it| it.retention.as_ref()) };
    if let Some(retention) = retention {
        let mut outputs = RetentionOutputs::of(retention, estimate);
        outputs.points.iter_mut().for_each(|point| point.capacities.clear());
        (window.retention, window.retention_required) = (outputs.points, outputs.required);
    }
    if let Some(optimal) = &asked.optimal {
        let hits = found.and_then(|found| found.optimal_page_hits.clone());
        window.optimal_page_hits = Some(if is_all { Some(optimal.page_hits.clone()) } else { hits });
    }
}

impl ReplayResult {
    /// What was asked for, as tables; nothing where nothing was.
    pub(super) fn lifetimes(&self, terminal: &Terminal) -> String {
        let mut text = String::new();
        self.traffic.iter().for_each(|traffic| text.push_str(&traffic.render(terminal)));
        if !self.retention.is_empty() {
            let outputs = RetentionOutputs {
                points: self.retention.clone(),
                required: self.retention_required.clone(),
            };
            text.push_str(&retention_table(&outputs, self.trace.page_bytes, terminal));
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
            let OptimalOutput { pages, optimal_pages, times } = *found;
            let found = OptimalCapacity { pages, optimal_pages, times };
            text.push_str(&terminal.paragraph(&foresight(&found, self.trace.page_bytes)));
        });
        text
    }
}
