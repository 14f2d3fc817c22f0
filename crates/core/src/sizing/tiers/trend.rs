//! What a pool remembers of one kind of window, from one step to the next.

use super::config::TrendRules;
use super::convergence::{Convergence, ConvergenceVerdict};
use super::hysteresis::Hysteresis;
use super::steps::{Evidence, Steps};
use crate::units::PageCount;
use crate::units::heap::heap_bytes;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// The trends of the requirements of one kind of window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trend {
    /// Which windows count.
    steps: Steps,
    /// One per target ratio and coverage.
    requirements: Vec<Convergence>,
    /// One per tier.
    tiers: Vec<(Convergence, Hysteresis)>,
    /// Of the pages that requests in flight pin.
    pinned: Hysteresis,
    /// Of the recommended capacity to act on.
    held: Hysteresis,
}

heap_bytes!(Trend { requirements, tiers; steps, pinned, held });

/// What one window asks for, in the order of the configuration; `None` beyond the tracked bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements {
    /// Coverage by coverage, for one target ratio after the other.
    pub covering: Vec<Option<PageCount>>,
    /// Tier by tier.
    pub tiers: Vec<Option<PageCount>>,
    /// Room for the pages that requests in flight pin; zero where the log has no durations.
    pub pinned: Option<PageCount>,
    /// The recommended capacity at the coverage to act on.
    pub to_act_on: Option<PageCount>,
}

/// Where the trends stand, in the order of [`Requirements`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Standing {
    /// Whether each requirement has converged.
    pub covering: Vec<ConvergenceVerdict>,
    /// The same tier by tier, with what is recommended, absent as long as no requirement was known, and whether the
    /// window changed that.
    pub tiers: Vec<(ConvergenceVerdict, (Option<PageCount>, bool))>,
    /// Room to leave for the pages that requests in flight pin, likewise.
    pub pinned: (Option<PageCount>, bool),
    /// What is held of the recommended capacity to act on; absent as long as none was known.
    pub held: Option<PageCount>,
}

impl Trend {
    /// Trends of so many requirements and tiers that have seen nothing.
    ///
    /// Windows of fewer than `min_requests` requests count for nothing.
    pub fn new(requirements: usize, tiers: usize, rules: &TrendRules, min_requests: u64) -> Self {
        let convergence = Convergence::new(rules.converged_over, rules.tolerance);
        let hysteresis = Hysteresis::new(rules.min_change, rules.hold);
        let tier = (convergence.clone(), hysteresis.clone());
        Self {
            steps: Steps::new(min_requests, rules),
            requirements: vec![convergence; requirements],
            tiers: vec![tier; tiers],
            pinned: hysteresis,
            held: Hysteresis::new(Ratio::per_mille(0), rules.hold),
        }
    }

    /// Whether these trends, read back from a snapshot, follow as many requirements and tiers as the `fresh`
    /// ones, by the same rules.
    pub fn are_like(&self, fresh: &Self) -> bool {
        let mut tiers = self.tiers.iter().zip(&fresh.tiers);
        (self.requirements.len(), self.tiers.len()) == (fresh.requirements.len(), fresh.tiers.len())
            && self.steps.are_like(&fresh.steps)
            && self.requirements.iter().zip(&fresh.requirements).all(|(trend, fresh)| trend.is_like(fresh))
            && tiers.all(|(tier, fresh)| tier.0.is_like(&fresh.0) && tier.1.is_like(&fresh.1))
            && self.pinned.is_like(&fresh.pinned)
            && self.held.is_like(&fresh.held)
    }

    /// Takes a closed window in, if it is new evidence, and says where things stand.
    pub fn observe(&mut self, asked: &Requirements, evidence: &Evidence) -> Standing {
        let (is_step, warm_up) = (self.steps.take(evidence), evidence.warm_up);
        match is_step {
            // Readings of a trace at even distances are no days.
            _ if !evidence.is_timed => {}
            true => drop(self.held.observe(asked.to_act_on, warm_up)),
            false => self.held.raise(asked.to_act_on),
        }
        if !is_step {
            return self.unchanged();
        }
        let covering = self.requirements.iter_mut().zip(&asked.covering);
        let tiers = self.tiers.iter_mut().zip(&asked.tiers);
        let observe =
            |((convergence, hysteresis), required): (&mut (Convergence, Hysteresis), &Option<PageCount>)| {
                (convergence.observe(*required, warm_up), hysteresis.observe(*required, warm_up))
            };
        Standing {
            covering: covering.map(|(trend, required)| trend.observe(*required, warm_up)).collect(),
            tiers: tiers.map(observe).collect(),
            pinned: self.pinned.observe(asked.pinned, warm_up),
            held: self.held.current(),
        }
    }

    /// Where things stand next to a window that changes nothing, as one that is still open.
    pub fn unchanged(&self) -> Standing {
        let standing = |(convergence, hysteresis): &(Convergence, Hysteresis)| {
            (convergence.verdict(), (hysteresis.current(), false))
        };
        Standing {
            covering: self.requirements.iter().map(Convergence::verdict).collect(),
            tiers: self.tiers.iter().map(standing).collect(),
            pinned: (self.pinned.current(), false),
            held: self.held.current(),
        }
    }
}
