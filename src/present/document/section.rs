//! A part of a document.

use super::Table;

/// A heading with sentences and tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// The sentences, one a paragraph.
    pub sentences: Vec<String>,
    /// The tables below.
    pub tables: Vec<Table>,
}
