//! What passes between tiers, as scripts read it.

use crate::present::questions::traffic_sentences;
use kvset_core::estimate::Estimate;
use kvset_core::questions::traffic::TrafficEstimate;
use serde::Serialize;

/// What passes between the tiers of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrafficOutput {
    /// As in an estimate.
    #[serde(flatten)]
    pub found: TrafficEstimate,
    /// The same in words.
    pub in_words: Vec<String>,
}

impl TrafficOutput {
    /// The output of an estimate; `None` where it says nothing of tiers.
    pub fn of(estimate: &Estimate) -> Option<Self> {
        let in_words = traffic_sentences(estimate);
        estimate.traffic.clone().map(|found| Self { found, in_words })
    }
}
