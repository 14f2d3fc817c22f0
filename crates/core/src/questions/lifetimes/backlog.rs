//! Requests kept until there are many, to be followed one right after the other.
//!
//! The engine and what follows it each touch more memory a request than a core keeps close. Taking turns a thousand
//! requests at a time instead of each, both find theirs there.

use super::Arrival;
use crate::request::outcome::{Outcome, Run};
use crate::units::EventTime;

/// Requests kept at most.
const MOST_REQUESTS: usize = 1024;

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
    event_time: EventTime,
    page_accesses: u64,
    new_pages: u64,
    /// Runs that can be hits, and those that cannot.
    runs: [u32; 2],
    /// Bytes of its tenant's name, where it has one.
    tenant: Option<u32>,
    counted: bool,
}

impl Backlog {
    /// Keeps a request. Returns whether there are many now.
    pub fn push(&mut self, arrival: &Arrival<'_>, outcome: &Outcome) -> bool {
        let Arrival { event_time, tenant, counted } = *arrival;
        self.names.push_str(tenant.unwrap_or_default());
        self.runs.extend_from_slice(&outcome.runs);
        self.runs.extend_from_slice(&outcome.unlooked);
        self.requests.push(Kept {
            event_time,
            page_accesses: outcome.page_accesses,
            new_pages: outcome.new_pages,
            // A request's pages are counted in 32 bits everywhere, and names are shorter than requests.
            runs: [&outcome.runs, &outcome.unlooked].map(|runs| runs.len() as u32),
            tenant: tenant.map(|name| name.len() as u32),
            counted,
        });
        self.requests.len() >= MOST_REQUESTS || self.runs.len() >= MANY_RUNS
    }

    /// Shows every request, in order, and keeps none.
    pub fn drain(&mut self, mut each: impl FnMut(&Arrival<'_>, &Outcome)) {
        let Self { requests, runs, names, outcome } = self;
        let (mut left, mut names_left) = (runs.as_slice(), names.as_str());
        for kept in requests.drain(..) {
            let Kept { event_time, counted, .. } = kept;
            let [can_hit, cannot] = kept.runs.map(|runs| left.split_off(..runs as usize).unwrap_or_default());
            outcome.clear();
            (outcome.page_accesses, outcome.new_pages) = (kept.page_accesses, kept.new_pages);
            outcome.runs.extend_from_slice(can_hit);
            outcome.unlooked.extend_from_slice(cannot);
            let tenant = kept.tenant.map(|bytes| {
                let (name, left) = names_left.split_at(bytes as usize);
                names_left = left;
                name
            });
            each(&Arrival { event_time, tenant, counted }, outcome);
        }
        runs.clear();
        names.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
