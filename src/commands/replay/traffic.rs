//! What passes between tiers, as scripts read it.

use super::factors::FactorResult;
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

/// What `traffic` of a result is of.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TrafficSlot {
    /// Other traffic than that of the log, by factor.
    Factors(Vec<FactorResult>),
    /// Between tiers.
    Tiers(TrafficOutput),
}

impl TrafficOutput {
    /// The output of an estimate; `None` where it says nothing of tiers.
    pub fn of(estimate: &Estimate) -> Option<Self> {
        let in_words = traffic_sentences(estimate);
        estimate.traffic.clone().map(|found| Self { found, in_words })
    }
}
