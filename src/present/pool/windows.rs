//! The windows that were counted, one per row.

use super::{PoolReport, WindowRow};
use crate::present::document::{Cell, Section, Table};
use crate::present::words;
use kvset_core::estimate::Status;

/// Most windows listed of a pool; the latest ones.
const MOST_WINDOWS: usize = 200;

/// The windows with the capacities that they recommend; `None` where none is listed.
pub fn windows(pool: &PoolReport<'_>) -> Option<Section> {
    let last = pool.windows.last()?;
    let skipped = pool.windows.len().saturating_sub(MOST_WINDOWS);
    let caption = match skipped {
        0 => "Recommended capacities of each window, by its end".to_owned(),
        count => format!(
            "Recommended capacities of the last {MOST_WINDOWS} windows; {} not listed",
            words::counted(count as u64, "earlier one is", "earlier ones are")
        ),
    };
    let utc = if words::date(last.end_ms).is_some() { " (UTC)" } else { "" };
    let names = ["window", "start", "end", "state", "requests"];
    let mut table = Table::new(caption, names).spare(&["state", "end", "requests", "50 %", "90 %", "95 %"]);
    table.columns[1].push_str(utc);
    table.columns[2].push_str(utc);
    table.columns.extend(last.coverage.iter().map(|entry| words::share(entry.coverage)));
    for window in &pool.windows[skipped..] {
        table.row(row(window, pool, last));
    }
    Some(Section::new("Windows", [], [table]))
}

fn row(window: &WindowRow, pool: &PoolReport<'_>, columns: &WindowRow) -> Vec<Cell> {
    let state = match (window.status, window.warm_up) {
        (Status::Final, false) => "final",
        (Status::Final, true) => "final, warming up",
        (Status::Provisional, false) => "provisional",
        (Status::Provisional, true) => "provisional, warming up",
    };
    let mut row = vec![
        window.kind.to_string().into(),
        words::clock(window.start_ms).into(),
        words::clock(window.end_ms).into(),
        state.into(),
        Cell::Count(window.requests),
    ];
    row.extend(columns.coverage.iter().map(|column| {
        let entry = window.coverage.iter().find(|entry| entry.coverage == column.coverage);
        entry.map_or(Cell::Unknown, |entry| Cell::recommended(entry, pool.estimate.page_bytes))
    }));
    row
}
