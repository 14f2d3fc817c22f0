//! A table of replicas behind one router, and the cells of what prefill and memory cost per day.

use crate::present::document::{Cell, ShownColumns, Table};
use crate::present::words;
use crate::tune::{Cost, ReplicasResult};

/// A row per number of replicas.
pub(super) fn replicas_table(caption: String, all: &[ReplicasResult], page_bytes: Option<u64>) -> Table {
    let costs = all.iter().any(|found| found.cost.is_some());
    let columns: ShownColumns<'_, ReplicasResult> = &[
        (true, "replicas", &|found| Cell::Count(found.replicas)),
        (true, "together", &|found| Cell::Pages(found.capacity_pages, page_bytes)),
        (true, "hit rate by tokens", &|found| Cell::Rate(found.hit_rate_tokens)),
        (true, "hit tokens", &|found| Cell::Count(found.hit_tokens)),
        (costs, COSTS[0], &|found| cost_cells(found.cost)[0].clone()),
        (costs, COSTS[1], &|found| cost_cells(found.cost)[1].clone()),
        (costs, COSTS[2], &|found| cost_cells(found.cost)[2].clone()),
    ];
    let table = Table::of_shown(caption, all, columns);
    table.spare(&["hit tokens"])
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
