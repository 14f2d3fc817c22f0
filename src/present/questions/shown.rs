//! What was requested alongside the estimates, as a report shows it.

use super::worth::WorthCurve;
use super::{measured, routing};
use crate::present::document::{Page, Section};
use crate::present::questions::measured::MeasuredBand;
use kvset_core::questions::measured::MeasuredEstimate;
use kvset_core::questions::routing::RouterEstimate;

/// What a report shows alongside the estimates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuestionSections {
    /// Hit rates that perfect foresight would have, by capacity in pages.
    pub foresight: Vec<(u64, f64)>,
    /// What the cache in use behaves like, where the log tells it.
    pub measured: Option<MeasuredBand>,
    /// What the next GiB earns, where that and its price are known.
    pub worth: Option<WorthCurve>,
    /// Sections, in the order shown.
    pub sections: Vec<Section>,
}

impl QuestionSections {
    /// Adds what the measured hits and the routers say, behind what is there.
    pub fn add(&mut self, measured: Option<&MeasuredEstimate>, routing: &[RouterEstimate], page: Page) {
        let page_bytes = page.bytes;
        self.measured = measured.and_then(measured::band);
        self.sections.extend(measured.map(|measured| measured::section(measured, page)));
        self.sections.extend(routing::section(routing, page_bytes));
    }
}
