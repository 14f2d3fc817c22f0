//! Which windows are new evidence.
//!
//! Windows overlap: `last:3000` a minute later holds nearly the same requests, and `all` holds every request again. A
//! dozen of them agree because they are one, and not because anything has settled. What looks at windows in a row
//! therefore looks at *steps*. A window is a step where
//!
//! 1. it has at least `min_requests` requests, and
//! 2. since the step before it, at least `min_requests / converged_over` new requests came (so that the steps looked
//!    back over hold `min_requests` new ones together), and
//! 3. its end is at least `step_ms` of event time after that of the step before it.
//!
//! Every other window is shown as it is, and changes nothing that is remembered.

use super::config::TrendRules;
use serde::{Deserialize, Serialize};

/// What one window adds to what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Requests it holds.
    pub requests: u64,
    /// Requests that its pool has accepted up to its end.
    pub accepted_requests: u64,
    /// Event time of its start, inclusive, in milliseconds.
    pub start_ms: i64,
    /// Event time of its end, exclusive, in milliseconds.
    pub end_ms: i64,
    /// Its history is shorter than configured, so that it under-counts.
    pub warm_up: bool,
    /// Whether its event times count: where a trace is read at even distances, requests alone do.
    pub is_timed: bool,
}

/// Tells steps from other windows of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Requests a window must hold.
    min_requests: u64,
    /// Requests that must come between two steps.
    new_requests: u64,
    /// Event time that must pass between two steps.
    step_ms: u64,
    /// The requests accepted by the end of the last step, and that end, in milliseconds.
    last: Option<(u64, i64)>,
}

impl Steps {
    /// Steps of windows of at least so many requests, of which there was none yet.
    pub fn new(min_requests: u64, rules: &TrendRules) -> Self {
        let new_requests = min_requests.div_ceil(u64::from(rules.converged_over.max(1))).max(1);
        Self { min_requests, new_requests, step_ms: rules.step_ms, last: None }
    }

    /// Whether these, read back from a snapshot, go by the rules of the `fresh` ones.
    pub fn are_like(&self, fresh: &Self) -> bool {
        (self.min_requests, self.new_requests, self.step_ms)
            == (fresh.min_requests, fresh.new_requests, fresh.step_ms)
    }

    /// Whether this closed window is a step; it is the last one then.
    pub fn take(&mut self, window: &Evidence) -> bool {
        let is_step =
            window.requests >= self.min_requests && self.last.is_none_or(|last| self.is_apart(last, window));
        if is_step {
            self.last = Some((window.accepted_requests, window.end_ms));
        }
        is_step
    }

    fn is_apart(&self, (accepted_requests, end_ms): (u64, i64), window: &Evidence) -> bool {
        let came = window.accepted_requests.saturating_sub(accepted_requests);
        if !window.is_timed {
            return came >= self.new_requests;
        }
        // Windows that close together, as after a gap, share no request where they do not overlap.
        let own = if window.start_ms >= end_ms { window.requests } else { 0 };
        let passed = i128::from(window.end_ms) - i128::from(end_ms);
        came.max(own) >= self.new_requests && passed >= i128::from(self.step_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn steps() -> Steps {
        let rules = TrendRules { converged_over: 4, step_ms: 10 * MINUTE as u64, ..TrendRules::default() };
        Steps::new(100, &rules)
    }

    /// `last:3000` of a pool that has accepted so many requests, at this minute.
    fn sliding(accepted_requests: u64, minute: i64) -> Evidence {
        let (requests, end_ms) = (accepted_requests.min(3000), minute * MINUTE);
        Evidence { requests, accepted_requests, start_ms: 0, end_ms, warm_up: false, is_timed: true }
    }

    #[test]
    fn a_window_that_brings_nothing_new_is_no_step() {
        let mut steps = steps();
        assert!(!steps.take(&sliding(99, 1)), "too few requests");
        assert!(steps.take(&sliding(100, 2)));
        assert!(!steps.take(&sliding(100, 30)), "no new request");
        assert!(!steps.take(&sliding(124, 40)), "one request less than a quarter of the least");
        assert!(!steps.take(&sliding(5000, 11)), "nine minutes");
        assert!(steps.take(&sliding(125, 12)));
        assert!(!steps.take(&sliding(150, 21)) && steps.take(&sliding(150, 22)));
    }

    #[test]
    fn windows_that_close_together_are_steps_where_they_share_no_request() {
        let mut steps = steps();
        let tumbling = |start: i64| Evidence { start_ms: start * MINUTE, ..sliding(2000, start + 10) };
        assert!(steps.take(&tumbling(0)) && steps.take(&tumbling(10)));
        assert!(!steps.take(&Evidence { start_ms: 19 * MINUTE, ..tumbling(20) }), "it overlaps");
        assert!(!steps.take(&Evidence { requests: 99, ..tumbling(20) }));
        assert!(steps.take(&tumbling(20)));
    }

    #[test]
    fn readings_of_a_trace_are_steps_by_their_requests_alone() {
        let mut steps = steps();
        let reading = |accepted| Evidence { is_timed: false, ..sliding(accepted, 0) };
        assert!(steps.take(&reading(100)) && !steps.take(&reading(124)) && steps.take(&reading(125)));
    }

    #[test]
    fn hostile_times_do_not_overflow() {
        let mut steps = steps();
        assert!(steps.take(&Evidence { end_ms: i64::MIN, ..sliding(100, 0) }));
        assert!(steps.take(&Evidence { end_ms: i64::MAX, ..sliding(u64::MAX, 0) }));
        assert!(!steps.take(&Evidence { end_ms: i64::MIN, ..sliding(u64::MAX, 0) }));
    }
}
