//! What the event times of one pool have said, and what of its log is missing.

use super::clock::{ClockRules, LogTime, PoolClock};
use super::history::PoolHistory;
use crate::units::EventTime;
use serde::{Deserialize, Serialize};

/// A pool's clock and history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// From the first accepted record on.
    clock: Option<PoolClock>,
    history: PoolHistory,
}

impl Timeline {
    /// The timeline of a pool that has had no record.
    pub(super) fn new(history: PoolHistory) -> Self {
        Self { clock: None, history }
    }

    /// Takes in an accepted record and gives what the log's clock, which read `now`, reads then.
    pub(super) fn observe(
        &mut self,
        event_time: EventTime,
        counted: bool,
        rules: &ClockRules,
        now: LogTime,
    ) -> LogTime {
        self.history = self.history.after(event_time, counted);
        match &mut self.clock {
            Some(clock) => clock.observe(event_time, rules, now),
            fresh @ None => fresh.insert(PoolClock::new(event_time, rules, now)).seen(),
        }
    }

    /// The pool's clock, from its first accepted record on.
    pub fn clock(&self) -> Option<&PoolClock> {
        self.clock.as_ref()
    }

    /// The same, to be moved.
    pub(super) fn clock_mut(&mut self) -> Option<&mut PoolClock> {
        self.clock.as_mut()
    }

    /// How far event time has got; `None` before the first accepted record.
    pub fn watermark(&self) -> Option<EventTime> {
        self.clock.as_ref().map(PoolClock::watermark)
    }

    /// What of the pool's log was not seen, or not counted.
    pub fn history(&self) -> PoolHistory {
        self.history
    }

    /// The same with records missing from here on back.
    pub(super) fn with_history(self, history: PoolHistory) -> Self {
        Self { history, ..self }
    }
}
