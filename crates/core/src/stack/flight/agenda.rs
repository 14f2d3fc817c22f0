//! What happens to requests in flight next: who takes a page, and who ends.
//!
//! An engine computes in steps, and each request in flight gets one token a step. So a request's tokens come as fast
//! as those of the others, in steps of uneven length, not evenly over its own duration. A log says when each request
//! began and ended and how many tokens it had: as many steps lie between. Until the next of them ends, steps are
//! taken to come evenly up to as many as it says there are by then. Where every request has tokens at one pace, that
//! is even over each duration.
//!
//! A request that had no token in some steps (a prompt in several steps, one that was preempted) says too few, and
//! never moves the count back.

use super::stay::{NextEvent, Phase};
use crate::units::EventTime;
use crate::units::heap::{flat, heap_bytes};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Steps of an engine since some moment, in units of 2^-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(crate) struct EngineSteps(u128);

/// The binary digits of a fraction of a step.
const FRACTION: u32 = 32;

/// The binary digits of a fraction of a millisecond by which events are told apart.
const TICKS: u32 = 10;

impl EngineSteps {
    /// So many tokens of one request later.
    pub(crate) fn after(self, tokens: u64) -> Self {
        Self(self.0.saturating_add(u128::from(tokens) << FRACTION))
    }

    /// Tokens of one request since these steps; a part of one is one.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        let tokens = self.0.saturating_sub(earlier.0).div_ceil(1 << FRACTION);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End<At> {
    time: EventTime,
    number: u64,
    at: At,
    /// The step in which it has its last token.
    steps: EngineSteps,
}

/// A page that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PageDue<At> {
    steps: EngineSteps,
    number: u64,
    at: At,
}

flat!(EngineSteps);
heap_bytes!(End<At> { at; time, number, steps });
heap_bytes!(PageDue<At> { at; steps, number });

/// All that is to come of requests in flight, each of which lies `At` a place of a list.
#[derive(Debug)]
pub(crate) struct Agenda<At> {
    /// The latest moment at which the steps were counted, and how many there were.
    counted: (EventTime, EngineSteps),
    /// The ends of requests that have tokens, by which steps are counted.
    ends: BinaryHeap<Reverse<End<At>>>,
    /// Those of others.
    tokenless: BinaryHeap<Reverse<End<At>>>,
    /// At most one entry a request in flight, and some of requests that ended early.
    growing: BinaryHeap<Reverse<PageDue<At>>>,
}

heap_bytes!(Agenda<At> { ends, tokenless, growing; counted });

impl<At: Copy + Ord> Agenda<At> {
    pub(crate) fn new() -> Self {
        Self {
            counted: <(EventTime, EngineSteps)>::default(),
            ends: BinaryHeap::new(),
            tokenless: BinaryHeap::new(),
            growing: BinaryHeap::new(),
        }
    }

    /// The latest moment at which steps were counted, and how many there were.
    pub(crate) fn counted(&self) -> (EventTime, EngineSteps) {
        self.counted
    }

    /// Nothing to come, with steps counted so far.
    pub(crate) fn since(counted: (EventTime, EngineSteps)) -> Self {
        Self { counted, ..Self::new() }
    }

    /// Adds a request that ends then, with so many tokens in all since the steps in which it began.
    pub(crate) fn ends(&mut self, time: EventTime, number: u64, at: At, (begun, tokens): (EngineSteps, u64)) {
        let end = Reverse(End { time, number, at, steps: begun.after(tokens) });
        if tokens > 0 { self.ends.push(end) } else { self.tokenless.push(end) }
    }

    /// Adds a page that a request takes in so many steps.
    pub(crate) fn grows(&mut self, steps: EngineSteps, number: u64, at: At) {
        self.growing.push(Reverse(PageDue { steps, number, at }));
    }

    fn next_end(&self) -> Option<NextEvent<At>> {
        let as_event = |Reverse(End { time, number, at, .. }): &Reverse<End<At>>| NextEvent {
            time: *time,
            phase: Phase::Ends,
            number: *number,
            at: *at,
        };
        [self.ends.peek(), self.tokenless.peek()].into_iter().flatten().map(as_event).min()
    }

    /// The next page to be taken before the next end that steps are counted by.
    fn next_growing(&self) -> Option<NextEvent<At>> {
        let Reverse(PageDue { steps, number, at }) = *self.growing.peek()?;
        let (time, phase) = self.moment(steps)?;
        Some(NextEvent { time, phase, number, at })
    }

    /// When the next of those ends by which steps are counted.
    pub(crate) fn next_end_time(&self) -> Option<EventTime> {
        self.ends.peek().map(|Reverse(end)| end.time)
    }

    /// Forgets what comes next of those that are not in flight any more under this number.
    pub(crate) fn drop_gone(&mut self, is_live: impl Fn(u64, At) -> bool) {
        for ends in [&mut self.ends, &mut self.tokenless] {
            while ends.peek().is_some_and(|Reverse(end)| !is_live(end.number, end.at)) {
                ends.pop();
            }
        }
        while self.growing.peek().is_some_and(|Reverse(due)| !is_live(due.number, due.at)) {
            self.growing.pop();
        }
    }

    /// When so many steps are done; `None` where that is behind the next end that steps are counted by.
    pub(crate) fn moment(&self, steps: EngineSteps) -> Option<(EventTime, Phase)> {
        let (from, counted) = self.counted;
        let Some(ahead) = steps.0.checked_sub(counted.0).filter(|ahead| *ahead > 0) else {
            return Some((from, Phase::Grows));
        };
        let (duration, all) = self.stretch()?;
        if ahead > all {
            return None;
        }
        // To the nearest tick, so that what comes at a whole millisecond is not rounded to before it.
        let ticks = (u128::from(duration) << TICKS).saturating_mul(ahead).saturating_add(all / 2) / all;
        let (whole, rest) = (ticks >> TICKS, ticks & ((1 << TICKS) - 1));
        let phase = if rest == 0 { Phase::Grows } else { Phase::GrowsLater };
        Some((later(from, u64::try_from(whole).unwrap_or(duration)), phase))
    }

    /// Milliseconds up to the next end that steps are counted by, and the steps until then.
    fn stretch(&self) -> Option<(u64, u128)> {
        let Reverse(next) = self.ends.peek()?;
        let (from, counted) = self.counted;
        let duration = next.time.0.saturating_sub(from.0).max(0).unsigned_abs();
        Some((duration, next.steps.0.saturating_sub(counted.0)))
    }

    /// Takes the next thing to happen off, where it comes before this moment. A page may be of a request that ended
    /// early.
    pub(crate) fn pop_before(&mut self, now: EventTime) -> Option<NextEvent<At>> {
        self.peek().filter(|next| next.time < now)?;
        self.pop()
    }

    /// The next thing to happen.
    pub(crate) fn peek(&self) -> Option<NextEvent<At>> {
        [self.next_growing(), self.next_end()].into_iter().flatten().min()
    }

    /// Takes it off.
    pub(crate) fn pop(&mut self) -> Option<NextEvent<At>> {
        let next = self.peek()?;
        if next.phase == Phase::Ends {
            return self.pop_end();
        }
        self.growing.pop();
        Some(next)
    }

    /// Takes the next end off, whatever else comes before it.
    pub(crate) fn pop_end(&mut self) -> Option<NextEvent<At>> {
        let next = self.next_end()?;
        let is_it = |Reverse(end): &Reverse<End<At>>| (end.time, end.number) == (next.time, next.number);
        if self.tokenless.peek().is_some_and(is_it) {
            self.tokenless.pop();
        } else if let Some(Reverse(end)) = self.ends.pop() {
            let (time, steps) = self.counted;
            self.counted = (end.time.max(time), end.steps.max(steps));
        }
        Some(next)
    }

    /// Counts the steps up to this moment, before which nothing is left to happen; how many there are.
    pub(crate) fn count_upto(&mut self, now: EventTime) -> EngineSteps {
        let (from, counted) = self.counted;
        let elapsed = u128::from(now.0.saturating_sub(from.0).max(0).unsigned_abs());
        let gone = match self.stretch() {
            Some((duration, all)) if duration > 0 => {
                let duration = u128::from(duration);
                elapsed.min(duration).saturating_mul(all).saturating_add(duration / 2) / duration
            }
            _ => 0,
        };
        self.counted = (now.max(from), EngineSteps(counted.0.saturating_add(gone)));
        self.counted.1
    }

    /// Forgets all that is to come, where nobody is in flight.
    pub(crate) fn clear(&mut self) {
        self.growing.clear();
        self.counted.1 = EngineSteps::default();
    }
}

/// So many milliseconds later.
fn later(time: EventTime, ms: u64) -> EventTime {
    EventTime(time.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
}
