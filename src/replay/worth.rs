//! What a cache is worth, as a section of a report.

use crate::report::{Section, Table, spread_sizes};
use crate::worth::{WorthAt, WorthResult, words};

/// The section.
pub(super) fn section(worth: &WorthResult) -> Section {
    let columns = [
        "cache",
        "accelerator-hours",
        "cost a day",
        "saved a day",
        "a GiB more earns",
        "TTFT p50",
        "p95",
        "p99",
    ];
    let mut table = Table::new(format!("At {} tokens a second", worth.prefill_rate), columns);
    let money = |amount: Option<f64>| amount.map_or_else(|| "–".to_owned(), words::money);
    let row = |name: String, at: &WorthAt| {
        let time = &at.time_to_first_token;
        vec![
            name,
            words::hours(at.accelerator_hours),
            money(at.money_a_day),
            money(at.saved_a_day),
            money(at.step_earns_a_gib_day),
            words::milliseconds(time.p50_ms),
            words::milliseconds(time.p95_ms),
            words::milliseconds(time.p99_ms),
        ]
    };
    table.rows.push(row("none".to_owned(), &worth.without_cache));
    // Sizes at which nothing more is saved say nothing.
    let ends =
        worth.capacities.iter().position(|at| at.accelerator_hours <= worth.unlimited.accelerator_hours);
    let telling = &worth.capacities[..ends.map_or(worth.capacities.len(), |end| end + 1)];
    table.rows.extend(spread_sizes(telling).map(|at| row(words::size(at), at)));
    table.rows.push(row("unlimited".to_owned(), &worth.unlimited));
    Section {
        title: "What the cache is worth".to_owned(),
        sentences: words::sentences(worth),
        tables: vec![table],
    }
}
