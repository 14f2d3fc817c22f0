//! The figures if prompts bring answers back, as scripts and people read them.

use super::required::{CapacityResult, RequiredResult, required_of};
use crate::present::document::{Cell, Section, Table};
use crate::present::words::{self, hit_rate};
use kvset_core::estimate::{Estimate, TheoreticalHits};
use kvset_core::sizing::recommendation::{Recommendation, by_target};
use serde::Serialize;

/// The upper end of the figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WithAnswersResult<'a> {
    /// Pages of answers that later prompts may have brought back; where their ids are not in the log, at most so many.
    pub returned_pages: u64,
    /// Hits with unlimited capacity.
    pub theoretical: TheoreticalHits,
    /// The hit-rate curve, ascending.
    pub capacities: Vec<CapacityResult<'a>>,
    /// The recommended capacities.
    pub recommended: &'a [Recommendation],
    /// One entry per target ratio.
    pub required: Vec<RequiredResult<'a>>,
}

impl<'a> WithAnswersResult<'a> {
    /// The result of what a replay found.
    pub(super) fn of((returned_pages, estimate): &'a (u64, Estimate)) -> Self {
        Self {
            returned_pages: *returned_pages,
            theoretical: estimate.theoretical,
            capacities: estimate.capacities.iter().map(CapacityResult::from).collect(),
            recommended: &estimate.recommended,
            required: required_of(estimate),
        }
    }

    /// Both ends: the lower one has these hits, and recommends these capacities of pages of so many bytes.
    pub(super) fn section(
        &self,
        (theoretical, recommended): (TheoreticalHits, &[Recommendation]),
        page_bytes: Option<u64>,
    ) -> Section {
        let mut table = Table::new("If answers come back", ["figure", "none", "all"]);
        let rate = |hits: TheoreticalHits| Cell::Figure(hit_rate(hits.prefix_hit_rate, hits.hit_rate_tokens));
        table.row(["hit rate, unlimited".into(), rate(theoretical), rate(self.theoretical)]);
        let first = |all| by_target(all).next().unwrap_or_default();
        let cell = |entry: &Recommendation| Cell::recommended(entry, page_bytes);
        for (lower, upper) in first(recommended).iter().zip(first(self.recommended)) {
            let name = format!("enough for {} of requests", words::share(lower.coverage));
            table.row([name.into(), cell(lower), cell(upper)]);
        }
        let sentence = format!(
            "Answers have lengths and no ids here: up to {} pages of prompts may be earlier answers.",
            words::integer(self.returned_pages)
        );
        Section::new("Answers that later prompts bring back", [sentence], [table])
    }
}
