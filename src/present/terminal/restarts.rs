//! What an emptied cache costs, as a table.

use super::{Column, Sheet, Terminal};
use crate::worth::restarts::{self, RestartsResult};

/// The sentences, and a row for each hour of the day at the size that matters most.
pub fn render(result: &RestartsResult, terminal: &Terminal) -> String {
    let columns = restarts::columns();
    let mut named = columns.iter();
    let first = named.next().map(|name| Column::Text(name));
    let columns: Vec<_> = first.into_iter().chain(named.map(|name| Column::Number(name))).collect();
    let mut sheet = Sheet::new(&columns).spare(&["days", "of the worst day"]);
    let rows = result.sizes.first().into_iter().flat_map(restarts::rows);
    let mut shown = 0;
    for row in rows {
        sheet.row(row);
        shown += 1;
    }
    let table = if shown > 0 { sheet.render(terminal) } else { String::new() };
    let sentences: String = restarts::sentences(result).iter().map(|line| terminal.paragraph(line)).collect();
    format!("\n{}\n{table}{sentences}", restarts::title(result))
}
