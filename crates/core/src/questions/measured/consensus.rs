//! The intervals of a set of requests, by where they begin and end.

use super::intervals::{HeldIntervals, IntervalStep, Intervals, sum_up};
use super::reading::MeasuredReading;
use crate::request::outcome::{BEYOND, Need};
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// The intervals of a set of requests.
///
/// The memory is 24 bytes a distinct need at which one begins or ends: bounded by the tracked bound, however many
/// requests there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consensus {
    /// Ascending and distinct.
    steps: Vec<IntervalStep>,
    requests: u64,
    pages: u64,
}

heap_bytes!(Consensus { steps; requests, pages });

impl Consensus {
    /// Puts requests in, each with its weight in pages: the larger of what it could reuse and of what hit.
    pub fn extend(&mut self, readings: &[(MeasuredReading, u64)]) {
        self.steps = self.steps_with(readings);
        sum_up(&mut self.steps);
        self.requests += readings.len() as u64;
        self.pages += pages(readings);
    }

    /// The union of several sets.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let mut steps = parts.clone().flat_map(|part| part.steps.iter().copied()).collect();
        sum_up(&mut steps);
        Self {
            steps,
            requests: parts.clone().map(|part| part.requests).sum(),
            pages: parts.map(|part| part.pages).sum(),
        }
    }

    /// What these intervals say together with those of the `latest` readings, each with its weight in pages.
    pub fn intervals(&self, latest: &[(MeasuredReading, u64)]) -> Intervals {
        let requests = self.requests + latest.len() as u64;
        Intervals::of(self.steps_with(latest), requests, self.pages + pages(latest))
    }

    /// Whether this, read back from a snapshot, can be read and added to: no capacity lies in fewer intervals than
    /// none.
    pub fn is_sound(&self) -> bool {
        let mut level: HeldIntervals = (0, 0);
        let rises_soundly = |(need, (requests, pages)): &IntervalStep| {
            let next = (level.0.checked_add(*requests), level.1.checked_add(*pages));
            let (Some(requests), Some(pages)) = next else { return false };
            level = (requests, pages);
            *need != BEYOND && requests >= 0 && pages >= 0
        };
        [self.requests, self.pages].into_iter().all(is_countable)
            && self.steps.is_sorted_by(|one, next| one.0 < next.0)
            && self.steps.iter().all(rises_soundly)
    }

    /// Its steps, and after them those of readings, not summed up.
    fn steps_with(&self, readings: &[(MeasuredReading, u64)]) -> Vec<IntervalStep> {
        let mut steps = Vec::with_capacity(self.steps.len() + 2 * readings.len());
        steps.extend(&self.steps);
        for (reading, pages) in readings {
            let Some((from, to)) = interval(*reading) else { continue };
            // A request's pages are counted in 32 bits.
            let pages = i64::from(u32::try_from(*pages).unwrap_or(u32::MAX));
            steps.push((from, (1, pages)));
            steps.extend(to.map(|to| (to, (-1, -pages))));
        }
        steps
    }
}

fn pages(readings: &[(MeasuredReading, u64)]) -> u64 {
    readings.iter().map(|(_, pages)| pages).sum()
}

/// The interval of a reading, with the first capacity behind it; `None` where it holds no capacity.
fn interval(reading: MeasuredReading) -> Option<(Need, Option<Need>)> {
    let MeasuredReading::Between { at_least, less_than } = reading else { return None };
    let is_empty = at_least == BEYOND || less_than.is_some_and(|end| end <= at_least);
    (!is_empty).then_some((at_least, less_than))
}
