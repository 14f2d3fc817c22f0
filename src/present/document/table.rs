//! Tables of figures, the numbers behind each plot among them.

use super::Cell;
use crate::present::words;

/// Most rows of a table of sizes that nobody named.
pub(crate) const MOST_SIZES: usize = 12;

/// At most so many of these at even distances, the first and the last among them.
pub(crate) fn spread<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    let (last, rows) = (all.len().saturating_sub(1), all.len().min(most));
    (0..rows).map(move |row| &all[row * last / rows.saturating_sub(1).max(1)])
}

/// A column of a table of `R`s: its heading, and the cell that a row has there.
type Column<'a, R> = (&'a str, &'a dyn Fn(&R) -> Cell);

/// The columns of a table of `R`s.
pub type Columns<'a, R> = &'a [Column<'a, R>];

/// Columns of which some are shown only now and then, each behind whether it is.
pub type ShownColumns<'a, R> = &'a [(bool, &'a str, &'a dyn Fn(&R) -> Cell)];

/// A table being filled, or filled.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// What the rows are, for readers and for screen readers.
    pub caption: String,
    pub columns: Vec<String>,
    /// Cells in the order of the columns; the first cell names its row.
    pub rows: Vec<Vec<Cell>>,
    /// Headings of columns that a narrow screen does without, the first to go first.
    pub spare: Vec<&'static str>,
}

impl Table {
    /// A table without rows.
    pub fn new<C: Into<String>>(caption: impl Into<String>, columns: impl IntoIterator<Item = C>) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { caption: caption.into(), columns, ..Self::default() }
    }

    /// A table with a row for each of these.
    pub fn of<'r, R: 'r>(
        caption: impl Into<String>,
        rows: impl IntoIterator<Item = &'r R>,
        columns: Columns<'_, R>,
    ) -> Self {
        let mut table = Self::new(caption, columns.iter().map(|(heading, _)| *heading));
        let cells = |row: &R| columns.iter().map(|(_, cell)| cell(row)).collect();
        table.rows = rows.into_iter().map(cells).collect();
        table
    }

    /// A table with a row for each of these, of the columns that are shown.
    pub fn of_shown<'r, R: 'r>(
        caption: impl Into<String>,
        rows: impl IntoIterator<Item = &'r R>,
        columns: ShownColumns<'_, R>,
    ) -> Self {
        let shown = columns.iter().filter(|(is_shown, ..)| *is_shown);
        let columns: Vec<Column<'_, R>> = shown.map(|(_, name, cell)| (*name, *cell)).collect();
        Self::of(caption, rows, &columns)
    }

    /// Names columns that a narrow screen does without, the first to go first.
    pub fn spare(mut self, headings: &[&'static str]) -> Self {
        self.spare = headings.to_vec();
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table, unless it has no rows.
    pub fn unless_empty(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// Places of the columns that say something: one may be known of no row, and one of hit rates by tokens may say
    /// no more than the one by pages before it.
    pub(crate) fn telling_columns(&self) -> Vec<usize> {
        (0..self.columns.len()).filter(|index| !self.is_unknown(*index) && !self.repeats(*index)).collect()
    }

    /// Whether a column is of figures, which lean to the right, or of words.
    pub(crate) fn is_of_figures(&self, index: usize) -> bool {
        let figures = self.rows.iter().filter_map(|row| row.get(index)?.is_figure());
        figures.reduce(|all, one| all && one).unwrap_or(index > 0)
    }

    fn is_unknown(&self, index: usize) -> bool {
        let is_unknown = |row: &Vec<Cell>| matches!(row.get(index), None | Some(Cell::Unknown));
        !self.rows.is_empty() && self.rows.iter().all(is_unknown)
    }

    fn repeats(&self, index: usize) -> bool {
        index > 0
            && self.columns[index] == words::BY_TOKENS
            && self.rows.iter().all(|row| match (row.get(index - 1), row.get(index)) {
                (_, None | Some(Cell::Unknown | Cell::BeyondBound)) => true,
                (by_pages, Some(by_tokens)) => by_pages.is_some_and(|cell| cell.text() == by_tokens.text()),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_from_the_first_to_the_last() {
        for (count, most) in (0..80_usize).flat_map(|count| (2..30).map(move |most| (count, most))) {
            let all: Vec<usize> = (0..count).collect();
            let rows: Vec<usize> = spread(&all, most).copied().collect();
            assert_eq!(rows.len(), count.min(most));
            assert!((rows.first(), rows.last()) == (all.first(), all.last()), "{rows:?}");
            assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "{rows:?}");
        }
        assert_eq!(spread(&[1, 2, 3], 1).collect::<Vec<_>>(), [&1]);
        assert_eq!(spread(&[1, 2, 3], 0).count(), 0);
    }

    #[test]
    fn a_column_that_is_known_of_no_row_is_left_out() {
        let mut table = Table::new("", ["size", "cost"]);
        assert_eq!(table.telling_columns(), [0, 1], "a table without rows keeps its headings");
        table.row([Cell::Count(1), Cell::Unknown]);
        assert_eq!(table.telling_columns(), [0]);
        table.row([Cell::Count(2), Cell::BeyondBound]);
        assert_eq!(table.telling_columns(), [0, 1]);
    }

    #[test]
    fn rates_by_tokens_have_a_column_where_they_say_something_else() {
        let mut table = Table::new("", ["size", "hit rate", words::BY_TOKENS]);
        table.row([Cell::Count(1), Cell::Rate(0.5), Cell::Rate(0.5)]);
        table.row([Cell::Count(2), Cell::Rate(0.6), Cell::Unknown]);
        assert_eq!(table.telling_columns(), [0, 1]);
        table.row([Cell::Count(3), Cell::Rate(0.6), Cell::Rate(0.7)]);
        assert_eq!(table.telling_columns(), [0, 1, 2]);
    }
}
