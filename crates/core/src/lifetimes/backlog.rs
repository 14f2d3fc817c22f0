//! Requests kept until there are many, to be followed one right after the other.
//!
//! The engine and what follows it each touch more memory a request than a core keeps close. Taking turns four thousand
//! requests at a time instead of each, both find theirs there.

use super::Arrival;
use crate::outcome::{Outcome, Run};
use std::ops::Range;

/// Requests kept at most.
const MOST_REQUESTS: usize = 4096;

/// Runs from which on no more requests are kept.
const MANY_RUNS: usize = 1 << 16;

/// Requests with what they found, in order.
#[derive(Debug, Default)]
pub struct Backlog {
    requests: Vec<Kept>,
    runs: Vec<Run>,
    /// Names of tenants, one behind the other.
    names: String,
    /// Room for the request that is read.
    outcome: Outcome,
}

/// A request.
#[derive(Debug)]
struct Kept {
    arrival: Arrival<'static>,
    /// Where its tenant's name is, where it has one.
    tenant: Option<Range<usize>>,
    page_accesses: u64,
    new_pages: u64,
    /// Where its runs end that can be hits, and where all do.
    ends: [usize; 2],
}

impl Backlog {
    /// Keeps a request. Returns whether there are many now.
    pub fn push(&mut self, arrival: &Arrival<'_>, outcome: &Outcome) -> bool {
        let tenant = arrival.tenant.map(|name| {
            let start = self.names.len();
            self.names.push_str(name);
            start..self.names.len()
        });
        self.runs.extend_from_slice(&outcome.runs);
        let can_hit = self.runs.len();
        self.runs.extend_from_slice(&outcome.unlooked);
        let Arrival { event_time, counted, .. } = *arrival;
        self.requests.push(Kept {
            arrival: Arrival { event_time, tenant: None, counted },
            tenant,
            page_accesses: outcome.page_accesses,
            new_pages: outcome.new_pages,
            ends: [can_hit, self.runs.len()],
        });
        self.requests.len() >= MOST_REQUESTS || self.runs.len() >= MANY_RUNS
    }

    /// Shows every request, in order, and keeps none.
    pub fn drain(&mut self, mut each: impl FnMut(&Arrival<'_>, &Outcome)) {
        let Self { requests, runs, names, outcome } = self;
        let mut begin = 0;
        for kept in requests.drain(..) {
            let [can_hit, end] = kept.ends;
            outcome.clear();
            (outcome.page_accesses, outcome.new_pages) = (kept.page_accesses, kept.new_pages);
            outcome.runs.extend_from_slice(&runs[begin..can_hit]);
            outcome.unlooked.extend_from_slice(&runs[can_hit..end]);
            begin = end;
            let tenant = kept.tenant.map(|name| &names[name]);
            each(&Arrival { tenant, ..kept.arrival }, outcome);
        }
        runs.clear();
        names.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::EventTime;

    #[test]
    fn requests_come_out_as_they_went_in() {
        let run = |pages| Run { pages, need: 7, step: 1, last_touched_by: 3 };
        let (one, two) = (vec![run(1), run(2)], vec![run(3)]);
        let outcomes = [
            Outcome { page_accesses: 9, new_pages: 4, runs: one.clone(), ..Outcome::default() },
            Outcome::default(),
            Outcome { runs: two, unlooked: one, ..Outcome::default() },
        ];
        let mut backlog = Backlog::default();
        let tenants = [Some("acme"), None, Some("beta")];
        for round in 0..2 {
            for (at, (outcome, tenant)) in outcomes.iter().zip(tenants).enumerate() {
                let arrival = Arrival { event_time: EventTime(at as i64), tenant, counted: at > 0 };
                assert!(!backlog.push(&arrival, outcome));
            }
            let mut at = 0;
            backlog.drain(|arrival, outcome| {
                assert_eq!((arrival.event_time.0, arrival.tenant), (at as i64, tenants[at]), "{round}");
                assert_eq!((arrival.counted, outcome), (at > 0, &outcomes[at]));
                at += 1;
            });
            assert_eq!(at, 3);
        }
    }

    #[test]
    fn so_many_are_kept_and_no_more() {
        let mut backlog = Backlog::default();
        let arrival = Arrival { event_time: EventTime(0), tenant: None, counted: true };
        let many = (1..).find(|_| backlog.push(&arrival, &Outcome::default()));
        assert_eq!(many, Some(MOST_REQUESTS));
        let run = Run { pages: 1, need: 1, step: 1, last_touched_by: 0 };
        backlog.drain(|_, _| ());
        let wide = Outcome { runs: vec![run; MANY_RUNS], ..Outcome::default() };
        assert!(backlog.push(&arrival, &wide));
    }
}
