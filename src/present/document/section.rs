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

impl Section {
    /// A section of these parts.
    pub fn new(
        title: impl Into<String>,
        sentences: impl IntoIterator<Item = String>,
        tables: impl IntoIterator<Item = Table>,
    ) -> Self {
        let (sentences, tables) = (sentences.into_iter().collect(), tables.into_iter().collect());
        Self { title: title.into(), sentences, tables }
    }
}
