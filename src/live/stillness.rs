//! Pools whose event time stands still while requests come: their windows never close, and nothing else says so.

use super::overview::OverviewProblem;
use crate::present::words;
use std::time::{Duration, Instant};

/// How long a pool's event time may stand still before somebody should know.
const STILL_FOR: Duration = Duration::from_secs(900);
/// Fewest requests in that time: a few may all be late.
const LEAST_REQUESTS: u64 = 10;
/// How long after the last request this is a problem: of a pool that has fallen silent nothing stands still.
const SILENT_AFTER: Duration = Duration::from_secs(3600);

/// What came of a pool since its event time moved last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stillness {
    since: Instant,
    requests: u64,
    last: Instant,
}

impl Stillness {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, requests: 0, last: now }
    }

    /// So many more requests came, which moved the pool's event time or did not.
    pub(super) fn add(&mut self, requests: u64, moved: bool, now: Instant) {
        match moved {
            true => *self = Self::new(now),
            false => (self.requests, self.last) = (self.requests.saturating_add(requests), now),
        }
    }

    /// That the event time stands still, with what to do.
    pub(super) fn problem(&self, pool: &str, now: Instant) -> Option<OverviewProblem> {
        let lasting = now.saturating_duration_since(self.since);
        let is_silent = now.saturating_duration_since(self.last) >= SILENT_AFTER;
        if self.requests < LEAST_REQUESTS || lasting < STILL_FOR || is_silent {
            return None;
        }
        let message = format!(
            "{} over {} did not move its event time, so none of its windows closes and no estimate follows: let its \
             producer set event_time_ms to when each request arrived.",
            words::counted(self.requests, "request", "requests"),
            words::lasting(u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX))
        );
        Some(OverviewProblem::of_pool("event_time_still", pool, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool whose events all had one time had no estimate ever, and no problem.
    #[test]
    fn a_pool_whose_event_time_stands_still_is_a_problem_until_it_moves() {
        let begin = Instant::now();
        let at = |secs| begin + Duration::from_secs(secs);
        let mut stillness = Stillness::new(begin);
        stillness.add(9, false, at(60));
        assert_eq!(stillness.problem("a", at(2000)), None, "nine requests may all be late");
        stillness.add(1, false, at(70));
        assert_eq!(stillness.problem("a", at(899)), None, "a batch may hold one time");
        let problem = stillness.problem("a", at(900)).expect("ten requests in a quarter of an hour");
        assert_eq!((problem.code, problem.pool.as_deref()), ("event_time_still", Some("a")));
        assert!(problem.message.starts_with("10 requests over 15 min did not"), "{}", problem.message);
        stillness.add(50, true, at(901));
        assert_eq!(stillness.problem("a", at(5000)), None, "it moved with the last of them");
        stillness.add(50, false, at(902));
        assert!(stillness.problem("a", at(1801)).is_some());
    }

    /// It was one for ever where the pool had fallen silent.
    #[test]
    fn nothing_stands_still_of_a_pool_that_has_been_silent_for_an_hour() {
        let begin = Instant::now();
        let at = |secs| begin + Duration::from_secs(secs);
        let mut stillness = Stillness::new(begin);
        stillness.add(10, false, at(600));
        assert!(stillness.problem("a", at(4199)).is_some());
        assert_eq!(stillness.problem("a", at(4200)), None);
    }
}
