//! What several pages are made of: plots with their numbers.

use super::section::table;
use crate::present::markup::Markup;
use crate::present::plots::Plot;

/// A plot with its caption and its numbers.
pub(crate) fn figure(plot: &Plot) -> Markup {
    let mut out = Markup::default();
    out.element("<figure>\n<h3>", &plot.title, "</h3>\n");
    out.element("<figcaption>", &plot.description, "</figcaption>\n");
    out.raw("<div class=\"drawing\">\n");
    for svg in plot.inline_svgs() {
        out.markup(&Markup::from_backend(svg));
    }
    out.raw("</div>\n");
    out.element("<details><summary>Numbers: ", &plot.title, "</summary>\n");
    out.markup(&table(&plot.table)).raw("</details>\n</figure>\n");
    out
}
