//! The same changes on a log of other traffic.

use super::{Change, Cost, Hits, Setup, TuneError, tried};
use crate::replay::{GrownLog, RequestLog};
use kvset_core::sizing::curve::share;
use serde::Serialize;

/// What a configuration finds of so many times the traffic of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtTraffic {
    /// How many times.
    pub factor: f64,
    /// Share of all tokens of the prompts that it finds; absent where it cannot be had.
    pub hit_rate_tokens: Option<f64>,
    /// Hit rate by tokens gained on the present configuration under the same traffic, in points of a hundred.
    pub points: Option<f64>,
    /// What it costs then, where the prefill rate is known; not with a time to live.
    #[serde(flatten)]
    pub cost: Option<Cost>,
}

/// The present configuration under other traffic.
pub(super) struct Grown<'a> {
    factor: f64,
    log: &'a RequestLog,
    base: Setup,
    found: Hits,
}

impl<'a> Grown<'a> {
    /// # Errors
    /// The present configuration cannot be replayed.
    pub(super) fn new(present: &Setup, grown: &'a GrownLog) -> Result<Self, TuneError> {
        // A grown log has pages, of whatever the log itself was made.
        let mut base = Setup { logged_page_size: Some(present.page_size), ..present.clone() };
        base.options.warm_up = grown.warm_up;
        let found = base.hits(&grown.log)?;
        Ok(Self { factor: grown.factor, log: &grown.log, base, found })
    }

    /// What the present configuration finds.
    pub(super) fn present(&self) -> AtTraffic {
        AtTraffic {
            factor: self.factor,
            hit_rate_tokens: Some(share(self.found.tokens, self.found.prompt_tokens)),
            points: Some(0.0),
            cost: self.found.worth.map(Cost::of),
        }
    }

    /// What it finds with these changes.
    pub(super) fn tried(&self, changes: &[&Change]) -> AtTraffic {
        let found = tried(&self.base, &self.found, self.log, changes);
        AtTraffic {
            factor: self.factor,
            hit_rate_tokens: found.hit_tokens.map(|tokens| share(tokens, self.found.prompt_tokens)),
            points: found.points,
            cost: found.cost,
        }
    }
}
