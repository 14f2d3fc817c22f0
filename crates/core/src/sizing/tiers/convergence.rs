//! Whether a requirement has settled.
//!
//! Rules, over the last `steps` steps ([`steps`](super::steps)) that are not warming up:
//! 1. Fewer of them, or one whose requirement lies beyond the tracked bound: not converged, and no growth rate is
//!    known.
//! 2. Converged if the largest requirement exceeds the smallest by at most `tolerance` of the smallest.
//! 3. The growth rate is the mean growth from one step to the next as a share of the first one's requirement; absent
//!    where that is 0 and the last one's is not.
//!
//! A requirement that only ever grows, as the paper's at a coverage of 99.9 %, then reads `not_converged` with its
//! growth, not as a number that looks final.

use crate::units::PageCount;
use crate::units::heap::{HeapBytes, heap_bytes};
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Watches one requirement from step to step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Convergence {
    steps: u32,
    tolerance: Ratio,
    /// The last requirements, oldest first; never more than `steps`.
    last: Last,
}

heap_bytes!(Convergence { last; steps, tolerance });

/// Requirements in a row, in 8 bytes each: a pool has a dozen of these for each coverage and kind of window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "VecDeque<Option<PageCount>>", into = "VecDeque<Option<PageCount>>")]
struct Last(Vec<u64>);

impl HeapBytes for Last {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

/// Beyond the tracked bound, which is smaller.
const BEYOND: u64 = u64::MAX;

impl Last {
    /// Takes one in, in the place of the oldest where there are `most`.
    fn push(&mut self, required: Option<PageCount>, most: usize) {
        let Self(last) = self;
        if last.len() >= most {
            last.drain(..=last.len() - most);
        } else if last.len() == last.capacity() {
            last.reserve_exact((1 + last.len() / 2).min(most - last.len()));
        }
        last.push(required.map_or(BEYOND, |pages| pages.0));
    }

    /// All of them, where none lies beyond the bound.
    fn known(&self) -> Option<&[u64]> {
        (!self.0.contains(&BEYOND)).then_some(&self.0)
    }
}

impl From<VecDeque<Option<PageCount>>> for Last {
    fn from(last: VecDeque<Option<PageCount>>) -> Self {
        Self(last.into_iter().map(|required| required.map_or(BEYOND, |pages| pages.0)).collect())
    }
}

impl From<Last> for VecDeque<Option<PageCount>> {
    fn from(Last(last): Last) -> Self {
        last.into_iter().map(|pages| (pages != BEYOND).then_some(PageCount(pages))).collect()
    }
}

/// Whether it has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// It stayed within the tolerance.
    Converged,
    /// It did not, or too little is known.
    #[default]
    NotConverged,
}

impl Settled {
    /// The verdict in words, with the mean growth where one is known and matters.
    pub fn with_growth(self, growth_per_window: Option<f64>) -> String {
        match (self, growth_per_window) {
            (Self::Converged, _) => "converged".to_owned(),
            (Self::NotConverged, None) => "not converged".to_owned(),
            (Self::NotConverged, Some(growth)) => format!("not converged, {:+.1} % per step", growth * 100.0),
        }
    }
}

/// What is known after a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConvergenceVerdict {
    /// Whether it has settled.
    pub status: Settled,
    /// Mean growth per step, as a share of the oldest requirement looked at; negative if it shrinks.
    pub growth_per_window: Option<f64>,
    /// Steps looked at.
    pub steps: u32,
}

impl Convergence {
    /// Most steps that are looked back over.
    pub const MAX_STEPS: u32 = 10_000;

    /// Watches over the last `steps` steps (2 to [`Self::MAX_STEPS`]; others are brought there).
    pub fn new(steps: u32, tolerance: Ratio) -> Self {
        Self { steps: steps.clamp(2, Self::MAX_STEPS), tolerance, last: Last::default() }
    }

    /// Takes a step's requirement (`None` beyond the bound) and says where things stand.
    /// A window that is warming up under-counts, so it changes nothing.
    pub fn observe(&mut self, required: Option<PageCount>, warm_up: bool) -> ConvergenceVerdict {
        if !warm_up {
            self.last.push(required, self.steps as usize);
        }
        self.verdict()
    }

    /// Whether this one, read back from a snapshot, goes by the rules of the `fresh` one.
    pub fn is_like(&self, fresh: &Self) -> bool {
        (self.steps, self.tolerance) == (fresh.steps, fresh.tolerance)
            && self.last.0.len() <= self.steps as usize
    }

    /// Where things stand.
    pub fn verdict(&self) -> ConvergenceVerdict {
        let steps = self.last.0.len() as u32;
        let Some(known) = self.last.known().filter(|known| known.len() == self.steps as usize) else {
            return ConvergenceVerdict { status: Settled::NotConverged, growth_per_window: None, steps };
        };
        let smallest = known.iter().copied().min().unwrap_or(0);
        let largest = known.iter().copied().max().unwrap_or(0);
        let settled = largest - smallest <= self.tolerance.share_of(smallest);
        ConvergenceVerdict {
            status: if settled { Settled::Converged } else { Settled::NotConverged },
            growth_per_window: growth(known),
            steps,
        }
    }
}

/// Mean growth from one to the next as a share of the first.
fn growth(known: &[u64]) -> Option<f64> {
    let (first, last) = (*known.first()?, *known.last()?);
    match (first, last) {
        (0, 0) => Some(0.0),
        (0, _) => None,
        _ => Some((last as f64 - first as f64) / first as f64 / (known.len() - 1).max(1) as f64),
    }
}
