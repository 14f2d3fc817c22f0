//! What passes between tiers, as scripts read it.

use super::factors::FactorResult;
use crate::present::questions::traffic_sentences;
use crate::replay::Replay;
use kvset_core::estimate::Estimate;
use kvset_core::questions::traffic::TrafficEstimate;
use serde::Serialize;

/// What passes between the tiers of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrafficOutput<'a> {
    /// As in an estimate.
    #[serde(flatten)]
    pub found: &'a TrafficEstimate,
    /// What passes, in words.
    pub in_words: Vec<String>,
}

/// What `traffic` of a result is of.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TrafficSlot<'a> {
    /// Other traffic than that of the log, by factor.
    Factors(Vec<FactorResult<'a>>),
    /// Between tiers.
    Tiers(TrafficOutput<'a>),
}

impl<'a> TrafficSlot<'a> {
    /// What `traffic` of a replay is of, and what passes between tiers where that has to stand elsewhere.
    pub(super) fn of(done: &'a Replay) -> (Option<Self>, Option<TrafficOutput<'a>>) {
        let tiers = TrafficOutput::of(done.estimate());
        if done.traffic.is_empty() {
            return (tiers.map(Self::Tiers), None);
        }
        (Some(Self::Factors(done.traffic.iter().map(FactorResult::of).collect())), tiers)
    }
}

impl<'a> TrafficOutput<'a> {
    /// The output of an estimate; `None` where it says nothing of tiers.
    pub fn of(estimate: &'a Estimate) -> Option<Self> {
        let in_words = traffic_sentences(estimate);
        estimate.traffic.as_ref().map(|found| Self { found, in_words })
    }
}
