//! What a cache is worth, as a table.

use super::{Column, Sheet, Terminal};
use crate::worth::{WorthAt, WorthResult, words};

/// The sentences, and a row a size: without a cache, those of the curve that are `shown`, and unlimited.
pub fn render(worth: &WorthResult, shown: &[u64], terminal: &Terminal) -> String {
    let columns = [
        Column::Text("cache"),
        Column::Number("accelerator-hours"),
        Column::Number("a day"),
        Column::Number("saved a day"),
        Column::Number("memory a day"),
        Column::Number("a GiB more earns"),
        Column::Number("TTFT p50"),
        Column::Number("p95"),
        Column::Number("p99"),
    ];
    let mut sheet = Sheet::new(&columns).spare(&["accelerator-hours", "p50", "memory a day"]);
    let money = |amount: Option<f64>| amount.map_or_else(|| "-".to_owned(), words::money);
    let mut row = |name: String, at: &WorthAt| {
        let time = &at.time_to_first_token;
        sheet.row([
            name,
            words::hours(at.accelerator_hours),
            money(at.money_a_day),
            money(at.saved_a_day),
            money(at.memory_a_day),
            money(at.step_earns_a_gib_day),
            words::milliseconds(time.p50_ms),
            words::milliseconds(time.p95_ms),
            words::milliseconds(time.p99_ms),
        ]);
    };
    row("none".to_owned(), &worth.without_cache);
    let is_shown = |at: &&WorthAt| at.pages.is_some_and(|pages| shown.contains(&pages));
    worth.capacities.iter().filter(is_shown).for_each(|at| row(words::size(at), at));
    row("unlimited".to_owned(), &worth.unlimited);
    let sentences: String = words::sentences(worth).iter().map(|line| terminal.paragraph(line)).collect();
    format!(
        "\nwhat the cache is worth, at {} tokens a second\n{}{sentences}",
        worth.prefill_rate,
        sheet.render(terminal)
    )
}
