//! A router that counts what is in flight where.

use crate::event::RequestEvent;
use crate::units::EventTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most requests followed at once; of more, those that end first are taken to have ended.
const MAX_IN_FLIGHT: usize = 1 << 16;

/// Sends a request to the replica with the fewest in flight; a request without a duration ends at once.
#[derive(Debug)]
pub(super) struct LeastInFlight {
    now: EventTime,
    by_end: BinaryHeap<Reverse<(EventTime, usize)>>,
    /// A replica's requests in flight, and all it ever got.
    loads: Vec<(u64, u64)>,
}

impl LeastInFlight {
    pub(super) fn new(replicas: usize) -> Self {
        Self { now: EventTime(i64::MIN), by_end: BinaryHeap::new(), loads: vec![(0, 0); replicas.max(1)] }
    }

    pub(super) fn route(&mut self, event: &RequestEvent<'_>) -> usize {
        self.now = self.now.max(event.event_time);
        while self.by_end.peek().is_some_and(|Reverse((end, _))| *end <= self.now)
            || self.by_end.len() >= MAX_IN_FLIGHT
        {
            let Some(Reverse((_, replica))) = self.by_end.pop() else { break };
            self.loads[replica].0 -= 1;
        }
        let least = self.loads.iter().enumerate().min_by_key(|(index, load)| (**load, *index));
        let replica = least.map_or(0, |(index, _)| index);
        self.loads[replica].1 += 1;
        let duration_ms = i64::try_from(event.duration_ms.unwrap_or(0)).unwrap_or(i64::MAX);
        let end = EventTime(event.event_time.0.saturating_add(duration_ms));
        if end > self.now {
            self.loads[replica].0 += 1;
            self.by_end.push(Reverse((end, replica)));
        }
        replica
    }
}
