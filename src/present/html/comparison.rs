//! Several engines side by side, before the section of each.

use super::section::{figure, table};
use crate::present::markup::Markup;
use crate::present::plots::{PlotError, engine_curves};
use crate::present::pool::{PoolReport, comparison};

/// The section that compares the engines; empty with fewer than two.
pub(crate) fn engines(engines: &[PoolReport<'_>]) -> Result<Markup, PlotError> {
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
    out.all(comparison(engines).iter().map(table)).raw("</section>\n");
    Ok(out)
}
