//! Tables with words to the left and numbers to the right, as wide as there is room.

use super::Terminal;
use crate::present::words;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// A column's heading, and to which side its cells lean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column<'a> {
    /// Words.
    Text(&'a str),
    /// Numbers.
    Number(&'a str),
}

/// One line, under the headings.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
/// Blanks around a cell; between two columns there is one more.
const PADDING: usize = 2;
/// Columns of a terminal below which breaking cells helps nobody.
const LEAST_ROOM: usize = 40;

/// A table being filled.
#[derive(Debug)]
pub struct Sheet {
    headings: Vec<String>,
    sides: Vec<CellAlignment>,
    rows: Vec<Vec<String>>,
    /// Headings of columns that can be left out, the first to go first.
    spare: Vec<&'static str>,
}

impl Sheet {
    /// A table with these columns.
    pub fn new(columns: &[Column<'_>]) -> Self {
        let side = |column: &Column<'_>| match column {
            Column::Text(_) => CellAlignment::Left,
            Column::Number(_) => CellAlignment::Right,
        };
        let heading = |column: &Column<'_>| match column {
            Column::Text(name) | Column::Number(name) => (*name).to_owned(),
        };
        Self {
            headings: columns.iter().map(heading).collect(),
            sides: columns.iter().map(side).collect(),
            rows: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Names columns that are left out where there is no room, in this order.
    pub fn spare(mut self, headings: &[&'static str]) -> Self {
        self.spare = headings.to_vec();
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().take(self.sides.len());
        self.rows.push(cells.map(|cell| words::in_order(&cell).into_owned()).collect());
    }

    /// The table as text, without blanks at the ends of lines. Where it is wider than the terminal, spare
    /// columns are left out until it fits, and then cells are broken between words; none is ever cut.
    pub fn render(&self, terminal: &Terminal) -> String {
        let shown = self.shown(terminal);
        let mut table = Table::new();
        let pick = |row: &[String]| -> Vec<Cell> {
            let cell = |index: &usize| {
                let text = row.get(*index).cloned().unwrap_or_default();
                Cell::new(text).set_alignment(self.sides[*index])
            };
            shown.iter().map(cell).collect()
        };
        table.load_style(STYLE).set_header(pick(&self.headings));
        if let Some(room) = terminal.width.filter(|room| *room >= LEAST_ROOM && self.width(&shown) > *room) {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(u16::try_from(room).unwrap_or(u16::MAX));
        }
        for row in &self.rows {
            table.add_row(pick(row));
        }
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// Whether a column is of hit rates by tokens, and says no more than the one by pages before it.
    fn repeats(&self, index: usize) -> bool {
        index > 0
            && self.headings[index] == words::BY_TOKENS
            && words::repeats(
                self.rows
                    .iter()
                    .filter_map(|row| Some((row.get(index - 1)?.as_str(), row.get(index)?.as_str()))),
            )
    }

    /// Indexes of the columns that are shown.
    fn shown(&self, terminal: &Terminal) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.headings.len()).filter(|index| !self.repeats(*index)).collect();
        let Some(room) = terminal.width else { return shown };
        for spare in &self.spare {
            if self.width(&shown) <= room {
                break;
            }
            shown.retain(|index| self.headings[*index] != *spare);
        }
        shown
    }

    /// How wide the table is with these columns.
    fn width(&self, shown: &[usize]) -> usize {
        let width = |index: &usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(*index)).chain([&self.headings[*index]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + PADDING
        };
        shown.iter().map(width).sum::<usize>() + shown.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new(&[Column::Text("pool"), Column::Number("pages"), Column::Text("trend")])
            .spare(&["trend", "pages"]);
        sheet.row(["a", "1,000", "converged"].map(str::to_owned));
        sheet.row(["llama", "7", "moving"].map(str::to_owned));
        sheet
    }

    #[test]
    fn words_lean_left_and_numbers_right() {
        let text = sheet().render(&Terminal::default());
        assert!(text.lines().any(|line| line.contains("a       1,000")), "{text}");
        assert!(text.lines().any(|line| line.contains("llama       7")), "{text}");
    }

    #[test]
    fn columns_are_left_out_until_the_rest_fits_and_cells_stay_whole() {
        for width in 1..40 {
            let text = sheet().render(&Terminal { width: Some(width), colour: false });
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(text.contains("llama"), "the first column stays: {text}");
            assert!(widest <= width || !text.contains("pages"), "{width}: {text}");
            assert_eq!(text.contains("trend"), text.contains("converged"), "{text}");
            assert_eq!(width >= 27, text.contains("converged"), "{width}: {text}");
        }
    }
}
