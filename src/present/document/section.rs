//! A part of a page: a heading with sentences and tables.

use crate::present::document::Table;
use crate::present::markup::Markup;

/// What a page is.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Its tokens, where they are known.
    pub tokens: Option<u32>,
    /// Its bytes, where a cost a token is known.
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

impl Section {
    pub(crate) fn markup(&self) -> Markup {
        let mut out = Markup::default();
        out.element("<h2>", &self.title, "</h2>\n");
        for sentence in &self.sentences {
            out.element("<p>", sentence, "</p>\n");
        }
        self.tables.iter().for_each(|table| {
            out.markup(&table.markup());
        });
        out
    }
}
