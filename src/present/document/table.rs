//! Tables of figures: the numbers behind each plot.

use crate::present::markup::Markup;
use crate::present::words;
use std::collections::BTreeMap;

/// Most rows of a table of sizes that nobody named.
const MOST_SIZES: usize = 24;

/// At most [`MOST_SIZES`] of these, at even distances, the last among them.
pub(crate) fn spread_sizes<T>(sizes: &[T]) -> impl Iterator<Item = &T> {
    let each = sizes.len().div_ceil(MOST_SIZES).max(1);
    sizes.iter().rev().step_by(each).rev()
}

/// A table; cells are plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What the rows are, for readers and for screen readers.
    pub caption: String,
    pub columns: Vec<String>,
    /// Cells in the order of the columns; the first cell names its row.
    pub rows: Vec<Vec<String>>,
    /// Exact figures of cells that are rounded, by row and column: shown on demand.
    pub exact: BTreeMap<(usize, usize), String>,
}

impl Table {
    pub(crate) fn new<const N: usize>(caption: impl Into<String>, columns: [&str; N]) -> Self {
        let columns = columns.map(str::to_owned).to_vec();
        Self { caption: caption.into(), columns, rows: Vec::new(), exact: BTreeMap::new() }
    }

    /// Adds a row whose cells may have an exact figure behind them.
    pub(crate) fn push(&mut self, cells: Vec<(String, Option<String>)>) {
        let row = self.rows.len();
        let (texts, exact): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        let exact = exact.into_iter().enumerate().filter_map(|(column, exact)| Some(((row, column), exact?)));
        self.exact.extend(exact);
        self.rows.push(texts);
    }

    /// Whether a column is of hit rates by tokens, and says no more than the one by pages before it.
    fn repeats(&self, index: usize) -> bool {
        index > 0
            && self.columns[index] == words::BY_TOKENS
            && words::repeats(
                self.rows
                    .iter()
                    .filter_map(|row| Some((row.get(index - 1)?.as_str(), row.get(index)?.as_str()))),
            )
    }

    pub(crate) fn markup(&self) -> Markup {
        let mut out = Markup::default();
        out.raw("<div class=\"scroll\" tabindex=\"0\"><table>");
        out.element("<caption>", &self.caption, "</caption>").raw("<thead><tr>");
        let shown: Vec<usize> = (0..self.columns.len()).filter(|index| !self.repeats(*index)).collect();
        for index in &shown {
            out.element("<th scope=\"col\">", &self.columns[*index], "</th>");
        }
        out.raw("</tr></thead><tbody>\n");
        for (number, row) in self.rows.iter().enumerate() {
            out.raw("<tr>");
            for (index, cell) in row.iter().enumerate().filter(|(index, _)| shown.contains(index)) {
                match (index, self.exact.get(&(number, index))) {
                    (0, _) => out.element("<th scope=\"row\">", cell, "</th>"),
                    (_, None) => out.element("<td>", cell, "</td>"),
                    (_, Some(exact)) => out.element("<td title=\"", exact, "\">").text(cell).raw("</td>"),
                };
            }
            out.raw("</tr>\n");
        }
        out.raw("</tbody></table></div>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_so_many_sizes_are_shown_and_the_largest_always() {
        for count in 0..200_usize {
            let sizes: Vec<usize> = (0..count).collect();
            let shown: Vec<usize> = spread_sizes(&sizes).copied().collect();
            assert!(shown.len() <= MOST_SIZES && shown.is_sorted(), "{shown:?}");
            assert_eq!(shown.last(), sizes.last());
            assert!(count > MOST_SIZES || shown == sizes);
        }
    }
}
