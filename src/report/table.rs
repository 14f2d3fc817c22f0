//! Tables of figures: the numbers behind each plot.

use super::markup::Markup;

/// A table; cells are plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What the rows are, for readers and for screen readers.
    pub caption: String,
    pub columns: Vec<String>,
    /// Cells in the order of the columns; the first cell names its row.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(caption: impl Into<String>, columns: [&str; N]) -> Self {
        Self { caption: caption.into(), columns: columns.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    pub(crate) fn markup(&self) -> Markup {
        let mut out = Markup::default();
        out.raw("<div class=\"scroll\" tabindex=\"0\"><table>");
        out.element("<caption>", &self.caption, "</caption>").raw("<thead><tr>");
        for column in &self.columns {
            out.element("<th scope=\"col\">", column, "</th>");
        }
        out.raw("</tr></thead><tbody>\n");
        for row in &self.rows {
            out.raw("<tr>");
            for (index, cell) in row.iter().enumerate() {
                match index {
                    0 => out.element("<th scope=\"row\">", cell, "</th>"),
                    _ => out.element("<td>", cell, "</td>"),
                };
            }
            out.raw("</tr>\n");
        }
        out.raw("</tbody></table></div>\n");
        out
    }
}
