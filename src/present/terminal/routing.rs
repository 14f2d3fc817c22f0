//! What routers would give, as tables.

use crate::present::terminal::{
    Column, Sheet, Terminal, bytes, decimal, known, percent, share_name, thousands,
};
use crate::present::words::BY_TOKENS;
use crate::worth::{WorthResult, words};
use kvset_core::estimate::curve::share;
use kvset_core::questions::routing::{RouterEstimate, RouterRequirement};

/// What a router gives, as tables, with what its replicas are worth where that is known.
pub fn render(routed: &RouterEstimate, worth: Option<&WorthResult>, terminal: &Terminal) -> String {
    let unlimited = percent(share(routed.unlimited_page_hits, routed.page_accesses));
    let mut text = format!(
        "\nrouter {}, {} replicas: hit rate with unlimited memory {unlimited}\n",
        routed.router, routed.replicas
    );
    let mut columns = vec![
        Column::Number("total pages"),
        Column::Number("size"),
        Column::Number("pages a replica"),
        Column::Number("hit rate"),
        Column::Number(BY_TOKENS),
        Column::Number("imbalance"),
    ];
    columns.extend(worth.iter().flat_map(|_| ["hours a day", "cost a day"].map(Column::Number)));
    let mut sheet = Sheet::new(&columns).spare(&["size"]);
    for point in &routed.capacities {
        let mut cells = vec![
            thousands(point.total_pages),
            bytes(point.total_bytes),
            thousands(point.pages),
            known(point.page_hit_rate, percent, true),
            known(point.hit_rate_tokens, percent, true),
            known(point.imbalance, decimal, false),
        ];
        if let Some(worth) = worth {
            let at = worth.capacities.iter().find(|at| at.pages == Some(point.total_pages));
            let said =
                |amount: Option<f64>, say: fn(f64) -> String| amount.map_or_else(|| "-".to_owned(), say);
            cells.push(said(at.and_then(|at| at.accelerator_hours_a_day), words::hours));
            cells.push(said(at.and_then(|at| at.money_a_day), words::money));
        }
        sheet.row(cells);
    }
    if !routed.capacities.is_empty() {
        text.push_str(&sheet.render(terminal));
    }
    routed.required.iter().for_each(|required| text.push_str(&render_required(required, terminal)));
    text
}
fn render_required(required: &RouterRequirement, terminal: &Terminal) -> String {
    let mut sheet = Sheet::new(&[
        Column::Text("coverage"),
        Column::Number("pages a replica"),
        Column::Number("total pages"),
        Column::Number("size"),
    ]);
    for entry in &required.coverage {
        sheet.row([
            share_name(entry.coverage),
            known(entry.pages, thousands, true),
            known(entry.total_pages, thousands, true),
            bytes(entry.total_bytes),
        ]);
    }
    format!("required with this router at target ratio {}\n{}", required.target_ratio, sheet.render(terminal))
}
