//! What the log's cached tokens say of the cache in use, as scripts read it and in words.

use crate::present::questions::measured::in_words;
use crate::replay::Replay;
use kvset_core::questions::measured::MeasuredEstimate;
use serde::Serialize;

/// Measured alongside modelled, as estimates have it, and what to make of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredOutput<'a> {
    /// As in an estimate.
    #[serde(flatten)]
    pub found: &'a MeasuredEstimate,
    /// The verdict in words.
    pub in_words: String,
    /// What to try, the most likely first.
    pub try_first: Vec<&'static str>,
}

impl<'a> MeasuredOutput<'a> {
    /// The output of what was measured.
    pub fn of(found: &'a MeasuredEstimate, replay: &Replay) -> Self {
        Self {
            in_words: in_words(found, replay.page_bytes.map(|page| page.0)),
            try_first: found.verdict.map(|verdict| verdict.advice(found.replicas)).unwrap_or_default(),
            found,
        }
    }
}
