//! What was asked for beside the estimates, as a report shows it.

use super::markup::Markup;
use super::table::Table;
use super::{measured, routing};
use kvset_core::measured::MeasuredEstimate;
use kvset_core::routing::RouterEstimate;

/// What a report shows beside the estimates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// Hit rates that perfect foresight would have, by capacity in pages.
    pub foresight: Vec<(u64, f64)>,
    /// What the cache in use behaves like, where the log tells it.
    pub measured: Option<MeasuredBand>,
    /// Sections, in the order shown.
    pub sections: Vec<Section>,
}

/// The capacities that the cache in use behaves like, all replicas together, and its hit rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredBand {
    /// The smallest of them.
    pub pages_from: u64,
    /// The largest; `None` where no request sets an upper bound.
    pub pages_to: Option<u64>,
    /// Hits as a share of the measured requests' page accesses.
    pub hit_rate: f64,
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

impl Asked {
    /// Adds what the measured hits and the routers say, behind what is there.
    pub fn add(
        &mut self,
        measured: Option<&MeasuredEstimate>,
        routing: &[RouterEstimate],
        page_bytes: Option<u64>,
    ) {
        self.measured = measured.and_then(measured::band);
        self.sections.extend(measured.map(|measured| measured::section(measured, page_bytes)));
        self.sections.extend(routing::section(routing, page_bytes));
    }
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
