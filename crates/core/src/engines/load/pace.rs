//! When the tokens of requests in flight come, and when these requests end.

use super::LoadedRequest;
use crate::stack::{Agenda, EngineSteps, NextEvent, Phase};
use crate::units::EventTime;
use crate::units::heap::HeapBytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When tokens come, and what is to come of whom. Either has one entry a request in flight, or two, and some of
/// requests that were preempted.
#[derive(Debug)]
pub(super) enum TokenPace {
    /// A duration is the time of service: it begins as the request is looked up, however long that waited, and tokens
    /// come evenly over it.
    Served(BinaryHeap<Reverse<NextEvent<usize>>>),
    /// A duration is what a log says, with the time in it that the request waited: it ends at that moment, and its
    /// tokens come in steps of the engine that all requests share.
    Logged(Agenda<usize>),
}

impl HeapBytes for TokenPace {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Served(agenda) => agenda.heap_bytes(),
            Self::Logged(agenda) => agenda.heap_bytes(),
        }
    }
}

impl TokenPace {
    pub fn served() -> Self {
        Self::Served(BinaryHeap::new())
    }

    pub fn logged() -> Self {
        Self::Logged(Agenda::new())
    }

    /// Lets a request that lies `at` a place begin now, or go on with what it has stored.
    pub fn begin<R>(&mut self, flight: &mut LoadedRequest<R>, at: usize, now: EventTime) {
        let Self::Logged(agenda) = self else { return };
        flight.steps = agenda.count_upto(now);
        let (end, left) = (flight.end(), flight.tokens.saturating_sub(flight.had));
        // One that waited beyond its end says nothing of the steps there were.
        let left = if end > now { left } else { 0 };
        agenda.ends(end.max(now), flight.number, at, (flight.steps, left));
    }

    /// Puts what comes next of a request on the agenda: this token, or its end.
    pub fn schedule<R>(&mut self, flight: &LoadedRequest<R>, at: usize, token: Option<u64>) {
        match self {
            Self::Served(agenda) => {
                let (time, phase) = flight.moment(token);
                agenda.push(Reverse(NextEvent { time, phase, number: flight.number, at }));
            }
            Self::Logged(agenda) => {
                let steps = token.map(|token| flight.steps_of(token));
                steps.into_iter().for_each(|steps| agenda.grows(steps, flight.number, at));
            }
        }
    }

    /// The next thing to happen, of those that are in flight under this number.
    pub fn peek(&mut self, is_live: impl Fn(u64, usize) -> bool) -> Option<NextEvent<usize>> {
        match self {
            Self::Served(agenda) => {
                while agenda.peek().is_some_and(|Reverse(next)| !is_live(next.number, next.at)) {
                    agenda.pop();
                }
                agenda.peek().map(|Reverse(next)| *next)
            }
            Self::Logged(agenda) => {
                agenda.drop_gone(is_live);
                agenda.peek()
            }
        }
    }

    /// Takes what [`TokenPace::peek`] gave.
    pub fn pop(&mut self) {
        match self {
            Self::Served(agenda) => _ = agenda.pop(),
            Self::Logged(agenda) => _ = agenda.pop(),
        }
    }

    /// The first moment by which a request has this token.
    pub fn moment_after<R>(&self, flight: &LoadedRequest<R>, token: u64) -> EventTime {
        let (time, phase) = match self {
            Self::Served(_) => flight.moment(Some(token)),
            // Not before the next one ends: then that is the next that is known.
            Self::Logged(agenda) => {
                let known = agenda.moment(flight.steps_of(token));
                known.unwrap_or_else(|| (agenda.next_end_time().unwrap_or(flight.end()), Phase::Ends))
            }
        };
        EventTime(time.0.saturating_add(i64::from(phase == Phase::GrowsLater)))
    }

    /// Output tokens that a request had before that of another one which comes now, at these steps of the engine.
    pub fn tokens_before<R>(
        &self,
        flight: &LoadedRequest<R>,
        steps: EngineSteps,
        now: NextEvent<usize>,
    ) -> u64 {
        match self {
            Self::Served(_) => flight.tokens_before(now),
            Self::Logged(_) => {
                let since = steps.since(flight.steps);
                flight.had.saturating_add(since.saturating_sub(1)).min(flight.tokens)
            }
        }
    }
}
