//! What several pages are made of: plots with their numbers, cells of sizes.

use crate::present::markup::Markup;
use crate::present::plots::Plot;
use crate::present::pool::PoolReport;
use crate::present::words;
use kvset_core::estimate::recommendation::{Recommendation, RecommendationStatus};

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
    out.markup(&plot.table.markup()).raw("</details>\n</figure>\n");
    out
}

/// A recommended capacity in a table cell, with the exact figure behind it; in parentheses what too few requests ask
/// for so far.
pub(crate) fn required_cell(entry: &Recommendation, pool: &PoolReport) -> (String, Option<String>) {
    match (entry.status, entry.so_far()) {
        (RecommendationStatus::Ready, Some(pages)) => sized_cell(pages, pool),
        (RecommendationStatus::TooFew, Some(pages)) => {
            let (size, exact) = sized_cell(pages, pool);
            (format!("({size})"), exact)
        }
        (RecommendationStatus::BeyondBound, _) => ("beyond bound".to_owned(), None),
        (_, None) => ("–".to_owned(), None),
    }
}

/// A capacity in a table cell.
pub(crate) fn sized_cell(pages: u64, pool: &PoolReport) -> (String, Option<String>) {
    let exact = words::exact(pages, pool.page_bytes);
    (words::capacity(pages, pool.page_bytes), Some(exact))
}
