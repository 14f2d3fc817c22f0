//! Retention, as scripts read it and as tables.

use crate::present::terminal::{
    Column, Sheet, Terminal, bytes, capacity, known, percent, share_name, thousands,
};
use crate::present::words::BY_TOKENS;
use crate::present::words::lasting;
use kvset_core::questions::retention::{EvictionAge, RequiredTtlEstimate, RetentionEstimate};
use kvset_core::windows::window::format_duration_ms;

/// The times to live as a table, and what coverage asks for.
pub fn retention_table(
    points: &[RetentionEstimate],
    required: &[RequiredTtlEstimate],
    page_bytes: Option<u64>,
    terminal: &Terminal,
) -> String {
    let mut sheet = Sheet::new(&[
        Column::Text("kept for"),
        Column::Text("after"),
        Column::Number("hit rate"),
        Column::Number(BY_TOKENS),
        Column::Number("covered"),
        Column::Number("mean held"),
        Column::Number("peak held"),
    ]);
    for point in points {
        let size = |pages: u64| capacity(pages, page_bytes);
        sheet.row([
            format_duration_ms(point.ttl_ms),
            if point.kind.is_fixed() { "the write" } else { "the last use" }.to_owned(),
            known(point.page_hit_rate, percent, true),
            known(point.hit_rate_tokens, percent, true),
            known(point.covered, percent, false),
            known(point.mean_pages.map(|pages| pages.round() as u64), size, true),
            known(point.peak_pages, size, true),
        ]);
    }
    let mut text = format!("\nretention: pages kept for a time, however many\n{}", sheet.render(terminal));
    for required in required {
        let mut sheet = Sheet::new(&[Column::Text("coverage"), Column::Number("kept for")]);
        for found in &required.coverage {
            sheet.row([share_name(found.coverage), known(found.ttl_ms, lasting, true)]);
        }
        text.push_str(&format!(
            "\nhow long pages must be kept at target ratio {}\n{}",
            required.target_ratio,
            sheet.render(terminal)
        ));
    }
    text
}

/// The ages at which capacities evict, and what they keep of promises, as a table.
pub fn eviction_table(
    ages: &[(u64, Option<u64>, EvictionAge)],
    points: &[RetentionEstimate],
    terminal: &Terminal,
) -> String {
    let sliding: Vec<_> = points.iter().filter(|point| !point.capacities.is_empty()).take(3).collect();
    let names: Vec<_> =
        sliding.iter().map(|point| format!("keeps {}", format_duration_ms(point.ttl_ms))).collect();
    let in_bytes = ages.iter().any(|(_, size, _)| size.is_some());
    let mut columns = Vec::new();
    columns.extend(in_bytes.then_some(Column::Number("size")));
    columns.extend(["pages", "age p10", "p50", "p90"].map(Column::Number));
    columns.extend(names.iter().map(|name| Column::Number(name)));
    let mut sheet = Sheet::new(&columns).spare(&["p90", "age p10"]);
    for (pages, size, found) in ages {
        let mut cells = Vec::new();
        cells.extend(in_bytes.then(|| bytes(*size)));
        cells.push(thousands(*pages));
        cells.extend([found.p10, found.p50, found.p90].map(|age_ms| known(age_ms, lasting, false)));
        cells.extend(sliding.iter().map(|point| {
            let honoured = point.capacities.iter().find(|capacity| capacity.pages == *pages);
            known(honoured.and_then(|found| found.honoured), percent, false)
        }));
        sheet.row(cells);
    }
    format!("\nhow long unused pages live, and how often a promise is kept\n{}", sheet.render(terminal))
}
