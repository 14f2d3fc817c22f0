//! What further costs per token make of the answer.

use super::required::{CapacityResult, RequiredResult, capacities_of, required_of};
use crate::present::document::{Cell, Section, Table};
use crate::present::pool::plan_table;
use crate::present::words;
use kvset_core::estimate::{Estimate, InFlightFigures};
use kvset_core::sizing::recommendation::{Recommendation, by_target};
use kvset_core::sizing::tiers::TierEstimates;
use kvset_core::units::Bytes;
use serde::Serialize;

/// The sizes at a further cost per token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostResult<'a> {
    /// Bytes of KV state per token.
    pub kv_bytes_per_token: f64,
    /// Bytes a page then takes.
    pub page_bytes: Option<u64>,
    /// Bytes of all distinct pages of the trace.
    pub distinct_bytes: Option<u64>,
    /// The hit-rate curve: a capacity in bytes holds another number of pages.
    pub capacities: Vec<CapacityResult<'a>>,
    /// One entry per target ratio.
    pub required: Vec<RequiredResult<'a>>,
    /// What requests met in flight, and the requirement with room for it.
    pub in_flight: Option<&'a InFlightFigures>,
    /// What to buy, where tiers were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<&'a TierEstimates>,
    /// The recommended capacities, one list per target ratio.
    #[serde(skip)]
    recommended: Vec<&'a [Recommendation]>,
}

impl<'a> CostResult<'a> {
    /// The part of an estimate that hangs on the cost per token.
    pub fn of((kv_bytes_per_token, estimate): &'a (f64, Estimate)) -> Self {
        Self {
            kv_bytes_per_token: *kv_bytes_per_token,
            page_bytes: estimate.page_bytes,
            distinct_bytes: estimate.accumulated_bytes,
            capacities: capacities_of(estimate),
            required: required_of(estimate),
            in_flight: estimate.in_flight.as_ref(),
            plan: estimate.plan.as_ref(),
            recommended: by_target(&estimate.recommended).collect(),
        }
    }

    /// The recommended capacities and the plan.
    pub fn section(&self) -> Section {
        let page = self.page_bytes.map_or_else(String::new, |page| format!(", {} a page", Bytes(page)));
        let distinct = self.distinct_bytes;
        let distinct =
            distinct.map(|bytes| format!("The distinct pages of the trace take {}.", Bytes(bytes)));
        let names =
            self.required.iter().map(|required| format!("target {}", words::share(required.target_ratio)));
        let columns = std::iter::once("requests covered".to_owned()).chain(names);
        let mut table = Table::new("Recommended capacity", columns);
        let shares = self.recommended.first().copied().unwrap_or_default();
        for (at, share) in shares.iter().enumerate() {
            let entries = self.recommended.iter().map(|target| target.get(at));
            let sizes = entries
                .map(|entry| entry.map_or(Cell::Unknown, |entry| Cell::recommended(entry, self.page_bytes)));
            table.row([Cell::Text(words::share(share.coverage))].into_iter().chain(sizes));
        }
        let room = self.in_flight.as_ref().is_some_and(|found| found.room() != Some(0));
        let plan = self.plan.as_ref().map(|plan| plan_table(plan, room, self.page_bytes));
        let title = format!("At {} bytes per token{page}", self.kv_bytes_per_token);
        Section::new(title, distinct, [table].into_iter().chain(plan))
    }
}
