//! Sections and tables of a document on a terminal: words to the left and figures to the right, as wide as there is
//! room.

use super::Terminal;
use crate::present::document::{Cell, Section, Table};
use crate::present::words;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};

/// One line, under the headings.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
/// Blanks around a cell; between two columns there is one more.
const PADDING: usize = 2;
/// Columns of a terminal below which breaking cells helps nobody.
const LEAST_ROOM: usize = 40;

/// A section: its heading, its sentences, its tables.
pub fn section(section: &Section, terminal: &Terminal) -> String {
    let title = shown(&section.title);
    let mut text = match terminal.colour {
        true => format!("\n\x1b[1m{title}\x1b[0m\n"),
        false => format!("\n{title}\n"),
    };
    for sentence in &section.sentences {
        text.push_str(&terminal.paragraph(&shown(sentence)));
    }
    for (number, found) in section.tables.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        text.push_str(&captioned(found, terminal));
    }
    text
}

/// A table under its caption.
pub fn captioned(found: &Table, terminal: &Terminal) -> String {
    terminal.paragraph(&shown(&found.caption)) + &table(found, terminal)
}

/// A text without what a terminal would obey: names of others may stand in it.
fn shown(text: &str) -> String {
    text.chars().map(words::visible).collect()
}

/// A table without its caption, without blanks at the ends of lines. Where it is wider than the terminal, spare
/// columns are left out until it fits, and then cells are broken between words; none is ever cut.
pub fn table(table: &Table, terminal: &Terminal) -> String {
    let worded = WordedTable::of(table);
    let shown = worded.shown(&table.spare, terminal);
    let mut out = comfy_table::Table::new();
    let pick = |row: &[String]| -> Vec<comfy_table::Cell> {
        let cell = |index: &usize| {
            let text = row.get(*index).cloned().unwrap_or_default();
            comfy_table::Cell::new(text).set_alignment(worded.sides[*index])
        };
        shown.iter().map(cell).collect()
    };
    out.load_style(STYLE).set_header(pick(&worded.headings));
    if let Some(room) = terminal.width.filter(|room| *room >= LEAST_ROOM && worded.width(&shown) > *room) {
        out.set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(room).unwrap_or(u16::MAX));
    }
    for row in &worded.rows {
        out.add_row(pick(row));
    }
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A table in words.
struct WordedTable {
    headings: Vec<String>,
    sides: Vec<CellAlignment>,
    rows: Vec<Vec<String>>,
    /// Places of the columns that say something.
    telling: Vec<usize>,
}

impl WordedTable {
    fn of(table: &Table) -> Self {
        let side = |index: usize| match table.is_of_figures(index) {
            true => CellAlignment::Right,
            false => CellAlignment::Left,
        };
        let text = |cell: &Cell| shown(&cell.text());
        Self {
            headings: table.columns.clone(),
            sides: (0..table.columns.len()).map(side).collect(),
            rows: table.rows.iter().map(|row| row.iter().map(text).collect()).collect(),
            telling: table.telling_columns(),
        }
    }

    /// Places of the columns that are shown.
    fn shown(&self, spare: &[&str], terminal: &Terminal) -> Vec<usize> {
        let mut shown = self.telling.clone();
        let Some(room) = terminal.width else { return shown };
        for spare in spare {
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

    fn pools() -> Table {
        let mut table = Table::new("pools", ["pool", "pages", "trend"]).spare(&["trend", "pages"]);
        table.row(["a".into(), Cell::Count(1000), "converged".into()]);
        table.row(["llama".into(), Cell::Count(7), "moving".into()]);
        table
    }

    #[test]
    fn words_lean_left_and_figures_right() {
        let text = table(&pools(), &Terminal::default());
        assert!(text.lines().any(|line| line.contains("a       1,000")), "{text}");
        assert!(text.lines().any(|line| line.contains("llama       7")), "{text}");
    }

    #[test]
    fn columns_are_left_out_until_the_rest_fits_and_cells_stay_whole() {
        for width in 1..40 {
            let text = table(&pools(), &Terminal { width: Some(width), colour: false });
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(text.contains("llama"), "the first column stays: {text}");
            assert!(widest <= width || !text.contains("pages"), "{width}: {text}");
            assert_eq!(text.contains("trend"), text.contains("converged"), "{text}");
            assert_eq!(width >= 27, text.contains("converged"), "{width}: {text}");
        }
    }
}
