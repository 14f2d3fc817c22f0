//! A table of replicas behind one router, and the cells of what prefill and memory cost per day.

use crate::present::document::{Cell, Table};
use crate::present::words;
use crate::tune::{Cost, ReplicasResult};

/// A row per number of replicas.
pub(super) fn replicas_table(caption: String, all: &[ReplicasResult], page_bytes: Option<u64>) -> Table {
    let costs = all.iter().any(|found| found.cost.is_some());
    let columns = ["replicas", "together", "hit rate by tokens", "hit tokens"];
    let columns = columns.into_iter().chain(costs.then_some(COSTS).into_iter().flatten());
    let mut table = Table::new(caption, columns).spare(&["hit tokens"]);
    for found in all {
        let cells = [
            Cell::Count(found.replicas),
            Cell::Pages(found.capacity_pages, page_bytes),
            Cell::Rate(found.hit_rate_tokens),
            Cell::Count(found.hit_tokens),
        ];
        table.row(cells.into_iter().chain(costs.then(|| cost_cells(found.cost)).into_iter().flatten()));
    }
    table
}

/// The columns of [`cost_cells`].
pub(super) const COSTS: [&str; 3] = ["hours per day", "cost per day", "memory per day"];

/// Prefill in accelerator-hours, its cost, and that of the memory.
pub(super) fn cost_cells(cost: Option<Cost>) -> [Cell; 3] {
    [
        Cell::figure(cost.and_then(|cost| cost.accelerator_hours_a_day), words::hours),
        Cell::figure(cost.and_then(|cost| cost.money_a_day), words::money),
        Cell::figure(cost.and_then(|cost| cost.memory_a_day), words::money),
    ]
}
