//! A document: sections of sentences and tables, which a terminal and a page show alike.

mod cell;
mod section;
mod table;

pub use cell::Cell;
pub use section::Section;
pub use table::{Columns, ShownColumns, Table};
pub(crate) use table::{MOST_SIZES, spread};
