//! Sections, tables and plots of a document as HTML.

use crate::present::document::{Section, Table};
use crate::present::markup::Markup;
use crate::present::plots::Plot;

/// A section with its heading.
pub(super) fn section(section: &Section) -> Markup {
    let mut out = Markup::default();
    out.element("<h2>", &section.title, "</h2>\n");
    for sentence in &section.sentences {
        out.element("<p>", sentence, "</p>\n");
    }
    out.all(section.tables.iter().map(table));
    out
}

/// A table; exact figures of cells that are rounded are shown on demand.
pub(crate) fn table(table: &Table) -> Markup {
    let mut out = Markup::default();
    out.raw("<div class=\"scroll\" tabindex=\"0\"><table>");
    out.element("<caption>", &table.caption, "</caption>").raw("<thead><tr>");
    let shown = table.telling_columns();
    for index in &shown {
        match table.is_of_figures(*index) {
            true => out.element("<th scope=\"col\">", &table.columns[*index], "</th>"),
            false => out.element("<th scope=\"col\" class=\"words\">", &table.columns[*index], "</th>"),
        };
    }
    out.raw("</tr></thead><tbody>\n");
    for row in &table.rows {
        out.raw("<tr>");
        for (index, cell) in row.iter().enumerate().filter(|(index, _)| shown.contains(index)) {
            match (index, cell.exact()) {
                (0, _) => out.element("<th scope=\"row\">", &cell.text(), "</th>"),
                (_, None) if table.is_of_figures(index) => out.element("<td>", &cell.text(), "</td>"),
                (_, None) => out.element("<td class=\"words\">", &cell.text(), "</td>"),
                (_, Some(exact)) => {
                    out.element("<td title=\"", &exact, "\">").text(&cell.text()).raw("</td>")
                }
            };
        }
        out.raw("</tr>\n");
    }
    out.raw("</tbody></table></div>\n");
    out
}

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
