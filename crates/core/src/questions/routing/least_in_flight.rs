//! A router that counts what is in flight where.

use crate::request::event::RequestEvent;
use crate::units::heap::heap_bytes;
use crate::units::{EventTime, is_countable};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most requests followed at once; of more, those that end first are taken to have ended.
const MAX_IN_FLIGHT: usize = 1 << 16;

/// Sends a request to the replica with the fewest in flight; a request without a duration ends at once.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeastInFlight {
    now: EventTime,
    #[serde(with = "in_order")]
    by_end: BinaryHeap<Reverse<(EventTime, usize)>>,
    /// A replica's requests in flight, and all it ever got.
    loads: Vec<(u64, u64)>,
}

heap_bytes!(LeastInFlight { by_end, loads; now });

impl LeastInFlight {
    pub(super) fn new(replicas: usize) -> Self {
        Self { now: EventTime(i64::MIN), by_end: BinaryHeap::new(), loads: vec![(0, 0); replicas.max(1)] }
    }

    /// Whether this, read back from a snapshot, spreads requests over so many replicas and can go on.
    pub(super) fn is_sound(&self, replicas: usize) -> bool {
        let mut in_flight = vec![0_u64; self.loads.len()];
        let counted = self
            .by_end
            .iter()
            .all(|Reverse((_, replica))| in_flight.get_mut(*replica).map(|count| *count += 1).is_some());
        counted
            && self.loads.len() == replicas.max(1)
            && self.by_end.len() <= MAX_IN_FLIGHT
            && self.loads.iter().zip(&in_flight).all(|(load, count)| load.0 == *count && is_countable(load.1))
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

/// A heap as the sequence of its entries in order, so that equal heaps have equal bytes.
mod in_order {
    use super::{BinaryHeap, EventTime, Reverse};
    use serde::{Deserialize, Deserializer, Serializer};

    type Heap = BinaryHeap<Reverse<(EventTime, usize)>>;

    pub(super) fn serialize<S: Serializer>(heap: &Heap, to: S) -> Result<S::Ok, S::Error> {
        let mut entries: Vec<_> = heap.iter().map(|Reverse(entry)| *entry).collect();
        entries.sort_unstable();
        to.collect_seq(entries)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Heap, D::Error> {
        let entries = Vec::<(EventTime, usize)>::deserialize(from)?;
        Ok(entries.into_iter().map(Reverse).collect())
    }
}
