//! The latest estimate of each pool and window as a table, with the history of its requirement.

use super::number::{UNKNOWN, bytes, percent, thousands};
use super::{Column, Sheet, sparkline};
use kvset_core::estimate::{CoverageCapacity, Estimate, Status};
use kvset_core::ratio::Ratio;
use kvset_core::tiers::Settled;
use kvset_core::window::WindowKind;
use std::collections::{BTreeMap, VecDeque};

/// Coverages that have a column.
const COVERAGES: [(u16, &str); 3] = [(950, "95 %"), (990, "99 %"), (999, "99.9 %")];
/// The coverage whose history is drawn.
const HISTORY_OF: Ratio = Ratio::per_mille(990);
/// Values of history kept and drawn.
const HISTORY: usize = 24;
/// Most rows kept; a pool beyond that is counted, not shown.
const MAX_ROWS: usize = 1000;

/// The newest estimate of each pool and window.
#[derive(Debug, Default)]
pub struct EstimateTable {
    rows: BTreeMap<(String, WindowKind), Row>,
    left_out: u64,
}

#[derive(Debug)]
struct Row {
    latest: Estimate,
    history: VecDeque<Option<f64>>,
}

impl EstimateTable {
    /// Takes an estimate in; the newest of a pool and window is shown.
    pub fn observe(&mut self, estimate: Estimate) {
        let key = (estimate.pool.clone(), estimate.window);
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let required = coverage(&estimate, HISTORY_OF).and_then(|found| found.pages);
        let row = self
            .rows
            .entry(key)
            .or_insert_with(|| Row { latest: estimate.clone(), history: VecDeque::with_capacity(HISTORY) });
        if row.history.len() == HISTORY {
            row.history.pop_front();
        }
        row.history.push_back(required.map(|pages| pages as f64));
        row.latest = estimate;
    }

    /// Whether nothing was taken in.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, pools in the order of their names.
    pub fn render(&self) -> String {
        let mut columns = vec![Column::Text("pool"), Column::Text("window"), Column::Number("requests")];
        columns.extend(COVERAGES.map(|(_, name)| Column::Number(name)));
        columns.extend([
            Column::Number("in flight"),
            Column::Number("accumulated"),
            Column::Number("hit rate"),
            Column::Text("99 % so far"),
        ]);
        let planned = self.rows.values().any(|row| row.latest.plan.is_some());
        if planned {
            columns.push(Column::Text("recommended"));
        }
        let mut sheet = Sheet::new(&columns);
        for row in self.rows.values() {
            let plan = planned.then(|| recommended(&row.latest).unwrap_or_else(|| UNKNOWN.to_owned()));
            sheet.row(cells(row).into_iter().chain(plan));
        }
        let mut text = sheet.render();
        if self.rows.values().any(|row| still_moving(&row.latest)) {
            text.push_str("* not converged: the requirement still moves from window to window\n");
        }
        if self.left_out > 0 {
            text.push_str(&format!(
                "{} estimates of further pools are not shown\n",
                thousands(self.left_out)
            ));
        }
        text
    }
}

/// The recommended size of each tier in one line; `None` where no tiers are configured.
pub fn recommended(estimate: &Estimate) -> Option<String> {
    let tiers = estimate.plan.as_ref()?.tiers.iter().map(|tier| {
        let have = &tier.recommended;
        let size = have.pages.map_or_else(|| UNKNOWN.to_owned(), |pages| size(pages, have.bytes));
        format!("{} {size}", tier.name)
    });
    Some(tiers.collect::<Vec<_>>().join(" + "))
}

/// Marks a requirement that still moves; nothing while too few windows were seen to tell.
pub fn trend_mark(found: &CoverageCapacity) -> &'static str {
    let moves = found.convergence == Settled::NotConverged && found.growth_per_window.is_some();
    if moves { "*" } else { "" }
}

/// Whether a requirement that is shown carries the mark.
fn still_moving(estimate: &Estimate) -> bool {
    let shown = COVERAGES.iter().filter_map(|(at, _)| coverage(estimate, Ratio::per_mille(*at)));
    shown.into_iter().any(|found| !trend_mark(found).is_empty())
}

/// The cells of a row.
fn cells(row: &Row) -> Vec<String> {
    let estimate = &row.latest;
    let history: Vec<_> = row.history.iter().copied().collect();
    let mut cells = vec![estimate.pool.clone(), window(estimate), thousands(estimate.requests)];
    for (thousandths, _) in COVERAGES {
        cells.push(required(coverage(estimate, Ratio::per_mille(thousandths))));
    }
    let in_flight = estimate.in_flight.as_ref().map(|found| (found.max_pages, found.max_bytes));
    cells.push(match in_flight {
        None => UNKNOWN.to_owned(),
        Some((None, _)) => "beyond".to_owned(),
        Some((Some(pages), in_bytes)) => size(pages, in_bytes),
    });
    cells.push(size(estimate.accumulated_pages, estimate.accumulated_bytes));
    cells.push(percent(estimate.theoretical.prefix_hit_rate));
    cells.push(sparkline(&history, HISTORY));
    cells
}

/// The window, marked where it is not the last word.
fn window(estimate: &Estimate) -> String {
    let open = if estimate.status == Status::Provisional { " (open)" } else { "" };
    let cold = if estimate.warm_up { " (warm-up)" } else { "" };
    format!("{}{open}{cold}", estimate.window)
}

/// The requirement at a coverage and the first target ratio.
fn coverage(estimate: &Estimate, at: Ratio) -> Option<&CoverageCapacity> {
    estimate.required.first()?.coverage.iter().find(|found| found.coverage == at)
}

/// A requirement in bytes, else in pages.
fn required(found: Option<&CoverageCapacity>) -> String {
    match found {
        None => UNKNOWN.to_owned(),
        Some(found) if found.beyond_bound => "beyond".to_owned(),
        Some(found) => match found.pages {
            None => UNKNOWN.to_owned(),
            Some(pages) => format!("{}{}", size(pages, found.bytes), trend_mark(found)),
        },
    }
}

/// A size in bytes where they are known, else in pages.
fn size(pages: u64, in_bytes: Option<u64>) -> String {
    if in_bytes.is_some() { bytes(in_bytes) } else { format!("{} p", thousands(pages)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_core::event::RequestEvent;
    use kvset_core::pages::PageIds;
    use kvset_core::pool::{Arrival, Pool};
    use kvset_core::pool_config::PoolConfig;
    use kvset_core::units::{EventTime, Offset, PageSize};

    /// The estimates of a pool that saw the same three pages a few times.
    fn estimates(pool: &str, kv_bytes_per_token: Option<f64>, tiers: &[&str]) -> Vec<Estimate> {
        let config = PoolConfig {
            page_size: PageSize::new(64),
            kv_bytes_per_token,
            windows: vec![WindowKind::All],
            tiers: tiers.iter().map(|tier| tier.parse().expect("a tier")).collect(),
            ..PoolConfig::default()
        };
        let mut pool = Pool::new(pool, 0, std::sync::Arc::new(config)).expect("a pool");
        for offset in 0..4 {
            let event = RequestEvent {
                event_time: EventTime(offset),
                page_ids: PageIds::from_slice(&[1, 2, 3]),
                duration_ms: Some(2),
                output_tokens: Some(3 * 64),
                ..RequestEvent::default()
            };
            let arrival = Arrival { offset: Offset(offset), counted: true, watermark: None };
            pool.observe(&event, arrival).expect("accepted");
        }
        let mut found = Vec::new();
        pool.finish(Offset(4), &mut found);
        found
    }

    #[test]
    fn the_newest_estimate_of_a_pool_is_shown_with_its_history() {
        let mut table = EstimateTable::default();
        assert!(table.is_empty());
        let first = estimates("b", None, &[]).into_iter().chain(estimates("a", Some(16_384.0), &[]));
        first.chain(estimates("b", None, &[])).for_each(|estimate| table.observe(estimate));
        let text = table.render();
        let rows: Vec<_> = text.lines().skip(2).map(str::trim).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(
            rows[0].starts_with("a ") && rows[0].contains("3.00 MiB") && rows[0].ends_with('█'),
            "{text}"
        );
        assert!(rows[1].starts_with("b ") && rows[1].contains("3 p"), "{text}");
        assert!(rows[1].contains(" 6 p "), "one other request holds its prompt and outputs: {text}");
        assert!(rows[1].contains("75.00 %") && rows[1].ends_with("██"), "{text}");
    }

    #[test]
    fn recommended_sizes_have_a_column_where_tiers_are_planned() {
        let mut table = EstimateTable::default();
        table.observe(estimates("a", None, &[]).remove(0));
        assert!(!table.render().contains("recommended"));
        table.observe(estimates("b", Some(16_384.0), &["hbm:0.9:10MiB", "dram:1:4p"]).remove(0));
        let text = table.render();
        let rows: Vec<_> = text.lines().skip(2).map(str::trim).collect();
        assert!(rows[0].ends_with('-') && rows[1].ends_with("hbm 10.0 MiB + dram 0 B"), "{text}");
    }

    #[test]
    fn a_requirement_that_still_moves_is_marked_and_the_mark_explained() {
        let mut table = EstimateTable::default();
        let mut moving = estimates("a", None, &[]).remove(0);
        moving.required[0].coverage[3].growth_per_window = Some(0.2);
        table.observe(moving);
        let text = table.render();
        assert!(text.contains("3 p*") && text.contains("* not converged: "), "{text}");
    }

    #[test]
    fn pools_beyond_the_last_row_are_counted() {
        let mut table = EstimateTable::default();
        let one = estimates("", None, &[]).remove(0);
        for number in 0..=MAX_ROWS {
            table.observe(Estimate { pool: format!("{number:05}"), ..one.clone() });
        }
        assert!(table.render().ends_with("\n1 estimates of further pools are not shown\n"));
    }
}
