//! The result of `kvset tune` for people.

use crate::present::terminal::{Column, Sheet, Terminal, capacity, percent, thousands};
use crate::tune::{Base, ChangeResult, Cost, TuneResult};
use crate::worth::words;

/// Most changes that are shown in the table.
const MOST_ROWS: usize = 30;

/// The answer in words, then the changes.
pub(super) fn render(result: &TuneResult, terminal: &Terminal) -> String {
    let mut text: String = sentences(result).iter().map(|line| terminal.paragraph(line)).collect();
    let possible: Vec<&ChangeResult> =
        result.changes.iter().filter(|tried| tried.impossible.is_none()).collect();
    if !possible.is_empty() {
        text.push_str(&format!("\nsingle changes, the best first\n{}", sheet(&possible, terminal)));
    }
    let pairs: Vec<&ChangeResult> = result.pairs.iter().collect();
    if !pairs.is_empty() {
        text.push_str(&format!(
            "\npairs that are better than any single change\n{}",
            sheet(&pairs, terminal)
        ));
    }
    text.push_str(&replicas(result, terminal));
    for tried in &result.changes {
        if let Some(why) = &tried.impossible {
            text.push_str(&terminal.paragraph(&format!("not possible: {}: {why}", tried.change)));
        }
    }
    text
}

/// A replica less, as many as there are, and one more.
fn replicas(result: &TuneResult, terminal: &Terminal) -> String {
    let Some(first) = result.replicas.first() else { return String::new() };
    let costs = first.cost.is_some();
    let mut columns = vec![
        Column::Number("replicas"),
        Column::Number("together"),
        Column::Number("hit rate by tokens"),
        Column::Number("hit tokens"),
    ];
    columns.extend(costs.then_some(COSTS).into_iter().flatten().map(Column::Number));
    let page_bytes = result.base.capacity_bytes.map(|bytes| bytes / result.base.capacity_pages.max(1));
    let mut sheet = Sheet::new(&columns).spare(&["hit tokens"]);
    for found in &result.replicas {
        let mut cells = vec![
            thousands(found.replicas),
            capacity(found.capacity_pages, page_bytes),
            percent(found.hit_rate_tokens),
            thousands(found.hit_tokens),
        ];
        cells.extend(costs.then(|| cost_cells(found.cost)).into_iter().flatten());
        sheet.row(cells);
    }
    format!(
        "\nreplicas behind the present router, each with the memory that it has\n{}",
        sheet.render(terminal)
    )
}

/// The columns of [`cost_cells`].
const COSTS: [&str; 3] = ["hours a day", "cost a day", "memory a day"];

/// Prefill in accelerator-hours, its cost, and that of the memory.
fn cost_cells(cost: Option<Cost>) -> [String; 3] {
    let said = |amount: Option<f64>, say: fn(f64) -> String| amount.map_or_else(|| "-".to_owned(), say);
    [
        said(cost.and_then(|cost| cost.accelerator_hours_a_day), words::hours),
        said(cost.and_then(|cost| cost.money_a_day), words::money),
        said(cost.and_then(|cost| cost.memory_a_day), words::money),
    ]
}

fn sheet(tried: &[&ChangeResult], terminal: &Terminal) -> String {
    let costs = tried.iter().any(|tried| tried.cost.is_some());
    let mut columns = vec![
        Column::Text("change"),
        Column::Number("points"),
        Column::Number("hit pages"),
        Column::Number("hit tokens"),
        Column::Text("figures"),
        Column::Text("memory"),
    ];
    columns.extend(costs.then_some(COSTS).into_iter().flatten().map(Column::Number));
    let mut sheet = Sheet::new(&columns).spare(&["memory", "hit pages", "memory a day", "figures"]);
    for tried in tried.iter().take(MOST_ROWS) {
        let mut cells = vec![
            tried.change.clone(),
            tried.points.map_or_else(String::new, |points| format!("{points:+.2}")),
            tried.hit_pages.map_or_else(String::new, thousands),
            tried.hit_tokens.map_or_else(String::new, thousands),
            exactness(tried).to_owned(),
            if tried.costs_memory { "more" } else { "" }.to_owned(),
        ];
        cells.extend(costs.then(|| cost_cells(tried.cost)).into_iter().flatten());
        sheet.row(cells);
    }
    sheet.render(terminal)
}

fn exactness(tried: &ChangeResult) -> &'static str {
    match tried.exactness {
        crate::tune::Exactness::Exact => "exact",
        crate::tune::Exactness::Pointwise => "pointwise",
        crate::tune::Exactness::Approximate => "approximate",
    }
}

fn sentences(result: &TuneResult) -> Vec<String> {
    let Base { engine, capacity_pages, hit_rate_tokens, requests, page_size, .. } = &result.base;
    let page_bytes = result.base.capacity_bytes.map(|bytes| bytes / (*capacity_pages).max(1));
    let now = format!(
        "{engine} with {} finds {} of the tokens of {} requests at {page_size} tokens a page.",
        capacity(*capacity_pages, page_bytes),
        percent(*hit_rate_tokens),
        thousands(*requests)
    );
    let gains = |tried: &&ChangeResult| tried.points.is_some_and(|points| points > 0.0);
    let free = result.changes.iter().filter(gains).find(|tried| !tried.costs_memory);
    let paid = result.changes.iter().filter(gains).find(|tried| tried.costs_memory);
    let points = |tried: &ChangeResult| tried.points.unwrap_or(0.0);
    let best = match (free, paid) {
        (None, None) => "No change that was tried finds more.".to_owned(),
        (Some(free), None) => format!("`{}` finds {:.2} points more.", free.change, points(free)),
        (None, Some(paid)) => format!(
            "At the same memory nothing finds more; with more, `{}` finds {:.2} points more.",
            paid.change,
            points(paid)
        ),
        (Some(free), Some(paid)) => format!(
            "At the same memory, `{}` finds {:.2} points more; with more memory, `{}` {:.2} points.",
            free.change,
            points(free),
            paid.change,
            points(paid)
        ),
    };
    vec![now, best]
}
