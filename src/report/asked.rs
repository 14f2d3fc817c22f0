//! What was asked for beside the estimates, as a report shows it.

use super::markup::Markup;
use super::table::Table;

/// What a report shows beside the estimates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// Hit rates that perfect foresight would have, by capacity in pages.
    pub foresight: Vec<(u64, f64)>,
    /// Sections, in the order shown.
    pub sections: Vec<Section>,
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
    pub(super) fn markup(&self) -> Markup {
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
