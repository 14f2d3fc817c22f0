//! What an estimate says alongside its curve: a section a question, each in a file of its own and listed in
//! [`QuestionSections::of`].

pub mod draft_range;
pub mod measured;
mod optimum;
mod restarts;
mod retention;
mod retention_classes;
mod routing;
mod sizes;
mod tenants;
mod tiers;
mod worth;

pub use optimum::{foresight, optimum};
pub use sizes::recommended_place;
pub(crate) use sizes::{climbing, prefix_hits, telling};
pub use tiers::traffic_sentences;
pub use worth::{WorthCurve, needs};

use crate::present::document::Section;
use kvset_core::estimate::{CapacityPoint, Estimate};
use kvset_core::questions::routing::RouterEstimate;
use kvset_core::questions::worth::{TierWorth, WorthEstimate};
use kvset_core::sizing::curve::share;

/// What a document shows alongside the curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuestionSections {
    /// Hit rates that perfect foresight would have, by capacity in pages.
    pub foresight: Vec<(u64, f64)>,
    /// What the cache in use behaves like, where the log tells it.
    pub measured: Option<(u64, Option<u64>, f64)>,
    /// What the next GiB earns, where that and its price are known.
    pub worth: Option<WorthCurve>,
    /// Sections, in the order shown.
    pub sections: Vec<Section>,
}

impl QuestionSections {
    /// What an estimate says alongside its curve; `cost` is what the prefill behind a router costs at so many pages
    /// of all replicas together, where that is known.
    pub fn of(
        estimate: &Estimate,
        cost: impl Fn(&RouterEstimate, u64) -> Option<(Option<f64>, Option<f64>)>,
    ) -> Self {
        let rate = |point: &CapacityPoint| {
            Some((point.pages, share(point.optimal_page_hits?, estimate.page_accesses)))
        };
        let measured = estimate.measured.as_ref();
        let sections = [
            retention::retention(estimate),
            tiers::traffic(estimate),
            tenants::tenants(estimate),
            estimate.retention_classes.as_deref().and_then(retention_classes::section),
            measured.map(|measured| measured::section(measured, estimate)),
            routing::routing(estimate, cost),
            estimate.restarts.as_ref().and_then(restarts::section),
            estimate.draft_range.as_ref().map(|range| draft_range::section(range, estimate)),
        ];
        let mut shown = Self {
            foresight: estimate.capacities.iter().filter_map(rate).collect(),
            measured: measured.and_then(measured::band),
            worth: None,
            sections: sections.into_iter().flatten().collect(),
        };
        estimate.worth.iter().for_each(|worth| shown.add_worth(worth, &[], estimate));
        shown
    }

    /// Adds what the cache that the estimate is of is worth, with these tiers below.
    pub fn add_worth(&mut self, worth: &WorthEstimate, tiers: &[TierWorth], estimate: &Estimate) {
        self.sections.push(worth::section(worth, tiers, estimate.names_capacities()));
        self.worth = estimate.page_bytes.and_then(|bytes| WorthCurve::of(worth, bytes));
    }
}
