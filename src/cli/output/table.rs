//! Tables with words to the left and numbers to the right.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

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

/// A table being filled.
#[derive(Debug)]
pub struct Sheet {
    table: Table,
    sides: Vec<CellAlignment>,
}

impl Sheet {
    /// A table with these columns.
    pub fn new(columns: &[Column<'_>]) -> Self {
        let side = |column: &Column<'_>| match column {
            Column::Text(_) => CellAlignment::Left,
            Column::Number(_) => CellAlignment::Right,
        };
        let sides: Vec<_> = columns.iter().map(side).collect();
        let headings = columns.iter().zip(&sides).map(|(column, side)| match column {
            Column::Text(name) | Column::Number(name) => Cell::new(name).set_alignment(*side),
        });
        let mut table = Table::new();
        table.load_style(STYLE).set_header(headings);
        Self { table, sides }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().zip(&self.sides);
        self.table.add_row(cells.map(|(cell, side)| Cell::new(cell).set_alignment(*side)));
    }

    /// The table as text, without blanks at the ends of lines.
    pub fn render(&self) -> String {
        self.table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lean_left_and_numbers_right() {
        let mut sheet = Sheet::new(&[Column::Text("pool"), Column::Number("pages")]);
        sheet.row(["a".to_owned(), "1,000".to_owned()]);
        sheet.row(["llama".to_owned(), "7".to_owned()]);
        let lines: Vec<_> = sheet.render().lines().map(str::to_owned).collect();
        assert!(lines.iter().any(|line| line.contains("a       1,000")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("llama       7")), "{lines:?}");
    }
}
