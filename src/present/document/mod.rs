//! A document: sections of sentences and tables, which a terminal and a page show alike.

mod section;
mod table;

pub use section::{Page, Section};
pub use table::Table;
pub(crate) use table::spread_sizes;
