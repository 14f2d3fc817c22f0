//! What one request adds to windows alongside its own counts, and what windows make of it: one entry a question.

use super::ReuseRules;
use crate::questions::accounts::AccountsTally;
use crate::questions::counters::{Counter, Share, counted};
use crate::questions::enabled::ObservedPool;
use crate::questions::measured::{Counts, MeasuredTally, Modelled, PointTally};
use crate::questions::question::Question;
use crate::questions::request_runs::RunLog;
use crate::questions::restarts::RestartsTally;
use crate::questions::retention::RetentionTally;
use crate::questions::routing::RoutingTally;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Declares what is counted of all questions.
macro_rules! observation {
    ($($(#[$doc:meta])+ $mark:literal $question:ident: $Observer:ty;)+) => {
        counted! {
            /// How the cache in use compares with the model.
            measured: Modelled<MeasuredTally, PointTally>,
            /// What is found behind each router; of a request that could not be routed nothing is.
            routers: Vec<RoutingTally>,
            /// Times to live. A snapshot keeps this and what follows apart.
            #[serde(skip)]
            retention: Option<Box<RetentionTally>>,
            /// Who holds the cache.
            #[serde(skip)]
            tenants: Option<Box<AccountsTally>>,
            /// The runs of requests: for the optimum, and for what passes between tiers.
            #[serde(skip)]
            runs: Option<Box<RunLog>>,
            $(
                $(#[$doc])+
                #[serde(skip)]
                $question: Option<Box<<$Observer as Question>::Tally>>,
            )+
        }

        impl ObservationShape {
            /// What is counted at capacities within the tracked bound, in followed pages.
            pub fn of(config: ObservedPool<'_>, capacities: &[u64]) -> Self {
                let asked = &config.questions;
                let (retention, tenants, runs) = ReuseRules::of(config, capacities).shape();
                Self {
                    measured: measured_shape(config, capacities.len()),
                    routers: match asked.routers.len() {
                        0 => Default::default(),
                        routers => (routers, config.cache.target_ratios.len()),
                    },
                    retention,
                    tenants,
                    runs,
                    $($question: <$Observer as Question>::shape(
                        &asked.$question,
                        config.provisioned(),
                        capacities,
                        asked.horizon,
                    ),)+
                }
            }
        }
    };
}

with_questions!(observation);

fn measured_shape(config: ObservedPool<'_>, capacities: usize) -> Modelled<(), usize> {
    match config.questions.compares_measured() {
        false => Modelled::Nothing,
        true if config.cache.is_pointwise() => Modelled::Points(capacities),
        true => Modelled::Curve(()),
    }
}

impl ObservationShape {
    /// The same in a window that never ends.
    pub fn without_end(self) -> Self {
        Self { runs: None, ..self }
    }

    /// The same in a window that requests leave again, which counts [`ObservationShape::when_shown`] later.
    pub fn of_latest(self) -> Self {
        let measured = if self.counts_curve() { Modelled::Nothing } else { self.measured };
        Self { measured, routers: self.routers, ..Self::default() }
    }

    /// What such a window counts when it is shown: what could not be taken out again, or costs more to take in and
    /// out than to count now and then.
    pub fn when_shown(self) -> Self {
        let measured = if self.counts_curve() { self.measured } else { Modelled::Nothing };
        Self { measured, routers: Default::default(), ..self }
    }

    fn counts_curve(self) -> bool {
        matches!(self.measured, Modelled::Curve(()))
    }

    /// Whether anything is counted that a snapshot keeps apart.
    pub(super) fn counts_reuse(self) -> bool {
        self.retention.is_some() || self.tenants.is_some() || self.runs.is_some()
    }

    /// Whether anything is counted.
    pub fn is_something(self) -> bool {
        self != Self::default()
    }

    /// Counts that hold nothing yet; `None` where nothing is counted.
    pub fn tally(self) -> Option<Box<ObservationTally>> {
        self.is_something().then(|| Box::new(ObservationTally::new(self)))
    }
}

impl ObservationTally {
    /// What the requests that say what they found add up to, where that is enabled.
    pub fn measured_counts(&self) -> Option<&Counts> {
        match &self.measured {
            Modelled::Nothing => None,
            Modelled::Curve(tally) => Some(tally.counts()),
            Modelled::Points(tally) => Some(tally.counts()),
        }
    }

    /// What restarts would lose of the requests, where that is enabled.
    pub fn restarts(&self) -> Option<&RestartsTally> {
        self.restarts.as_deref()
    }

    /// Takes in what is counted when a window is shown ([`ObservationShape::when_shown`]).
    pub fn take_shown(&mut self, counts: Self) {
        let measured = match counts.measured {
            Modelled::Nothing => std::mem::take(&mut self.measured),
            shown => shown,
        };
        let routers = std::mem::take(&mut self.routers);
        *self = Self { measured, routers, ..counts };
    }

    /// The same with nothing pending, to be read often; copies only where something is.
    pub fn consolidated(&self) -> Cow<'_, Self> {
        if self.is_consolidated() {
            return Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        copy.consolidate();
        Cow::Owned(copy)
    }
}
