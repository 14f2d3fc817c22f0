//! A part of a document.

use super::Table;

/// What a page is.
#[derive(Debug, Clone, Copy)]
pub struct PageMeasure {
    /// Its tokens, where they are known.
    pub tokens: Option<u32>,
    /// Its bytes, where a cost per token is known.
    pub bytes: Option<u64>,
}

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
