//! Several engines side by side, before the section of each.

use crate::present::document::Table;
use crate::present::html::parts::{figure, required_cell};
use crate::present::markup::Markup;
use crate::present::plots::{PlotError, engine_curves};
use crate::present::pool::PoolReport;
use crate::present::words;

/// The section that compares the engines; empty with fewer than two.
pub(crate) fn comparison(engines: &[PoolReport]) -> Result<Markup, PlotError> {
    let mut out = Markup::default();
    if engines.len() < 2 {
        return Ok(out);
    }
    out.raw("<section id=\"comparison\">\n<h2>The engines side by side</h2>\n");
    out.raw(
        "<p>The same requests, once through the cache of each engine. What an engine's figures rest on is \
         in its own section.</p>\n",
    );
    if let Some(plot) = engine_curves("comparison-curves", engines)? {
        out.markup(&figure(&plot));
    }
    if let Some(table) = requirements(engines) {
        out.markup(&table.markup());
    }
    out.raw("</section>\n");
    Ok(out)
}

/// One row a coverage, one column an engine; at the first target ratio.
fn requirements(engines: &[PoolReport]) -> Option<Table> {
    let told = engines.iter().map(|engine| engine.recommended_at(0)).find(|entries| !entries.is_empty())?;
    let target = told.first().map(|entry| words::share(entry.target_ratio))?;
    let caption = format!("Recommended capacity at target {target}");
    let mut table = Table::new(caption, ["requests covered"]);
    table.columns.extend(engines.iter().map(|engine| engine.engine.to_string()));
    for entry in told {
        let mut row = vec![(words::share(entry.coverage), None)];
        row.extend(engines.iter().map(|engine| {
            let found = engine.recommended_at(0).iter().find(|found| found.coverage == entry.coverage);
            found.map_or_else(|| ("–".to_owned(), None), |found| required_cell(found, engine))
        }));
        table.push(row);
    }
    Some(table)
}
