//! Records held back until they can be taken in the order of arrivals.
//!
//! An engine looks a request up when it arrives, and logs are written when requests end: a long request stands behind
//! short ones that arrived later. So a pool whose events state durations takes a record only once no record can
//! follow that arrived earlier and took no longer than a bound: when a record of the pool has an event time that is
//! later by the bound, or the pool's [writers](super::writers) say so. Of two that arrived in one millisecond the first
//! of the log goes first.
//!
//! Each pool has a [clock](super::clock) of its own here, too. A pool that has fallen silent is taken to reach the
//! times of its waiting records as the log's time goes on, by the rule that closes the windows of idle pools.
//!
//! Everything is a function of the records in the order of the log.

use super::clock::{ClockRules, LogTime, PoolClock};
use super::writers::{WriterWord, Writers};
use crate::units::heap::HeapBytes;
use crate::units::{EventTime, Offset};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A record's place in the order of arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArrivalPlace {
    /// When its request arrived.
    pub event_time: EventTime,
    /// Where it stands in the log.
    pub offset: Offset,
}

/// When a record is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordTurn {
    /// At once: its pool takes records in the order of the log.
    AsItComes,
    /// Once no earlier arrival can follow: it is to be [pushed](ArrivalQueue::push).
    Later,
    /// At once: it arrived so many milliseconds before one that was taken already.
    OutOfOrder {
        /// By how much it is behind.
        by_ms: u64,
    },
}

/// What bounds a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivalLimits {
    /// Most bytes held back; beyond, the earliest arrivals are taken early.
    pub bytes: u64,
    /// As of [`PoolSetConfig`](super::PoolSetConfig::idle_timeout_ms).
    pub idle_timeout_ms: Option<u64>,
}

impl ArrivalLimits {
    fn rules(&self, hold_back_ms: Option<u64>) -> ClockRules {
        ClockRules {
            allowed_lateness_ms: hold_back_ms.unwrap_or(0),
            max_lateness_ms: 0,
            idle_timeout_ms: self.idle_timeout_ms,
        }
    }
}

/// One pool's records that wait.
#[derive(Debug)]
struct PoolArrivals<T> {
    /// Its watermark stays behind its latest event time by the bound.
    clock: PoolClock,
    rules: ClockRules,
    writers: Writers,
    /// Whether an event has stated its duration: from then on records wait.
    has_durations: bool,
    /// The last record that waited and was taken.
    taken: Option<ArrivalPlace>,
    waiting: BTreeMap<ArrivalPlace, T>,
    /// How it stands in the queue's sets: the earliest of its records, and when the pool, should it stay silent,
    /// reaches it.
    listed: Option<(ArrivalPlace, Option<LogTime>)>,
}

impl<T> PoolArrivals<T> {
    fn first(&self) -> Option<ArrivalPlace> {
        self.waiting.first_key_value().map(|(place, _)| *place)
    }

    fn to_list(&self) -> Option<(ArrivalPlace, Option<LogTime>)> {
        let first = self.first()?;
        Some((first, self.clock.reaches(first.event_time, &self.rules)))
    }
}

/// The records of one partition that are held back.
#[derive(Debug)]
pub struct ArrivalQueue<T> {
    limits: ArrivalLimits,
    now: LogTime,
    pools: BTreeMap<Box<str>, usize>,
    /// By index; places of pools that were forgotten are used again.
    arrivals: Vec<PoolArrivals<T>>,
    unused: Vec<usize>,
    /// Each pool's earliest record that waits.
    first: BTreeSet<(ArrivalPlace, usize)>,
    /// The same by when a silent pool reaches it.
    reached: BTreeSet<(LogTime, ArrivalPlace, usize)>,
    /// The pool of the last record.
    current: Option<usize>,
    records: usize,
    bytes: u64,
}

/// A queue's state in a snapshot: its parts by reference where it is written, owned where it is read back.
#[derive(Debug, Serialize, Deserialize)]
pub struct ArrivalsImage<T, N = Box<str>, C = PoolClock> {
    now: LogTime,
    /// In order of name.
    pools: Vec<PoolArrivalsImage<T, N, C>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PoolArrivalsImage<T, N, C> {
    name: N,
    clock: C,
    writers: Writers,
    has_durations: bool,
    taken: Option<ArrivalPlace>,
    /// In the order of arrivals.
    waiting: Vec<(ArrivalPlace, T)>,
}

/// Bytes that a record held back takes: its places in the queue take about as much as itself.
fn held_bytes<T: HeapBytes>(record: &T) -> u64 {
    (record.heap_bytes() + 2 * size_of::<T>()) as u64
}

impl<T> HeapBytes for ArrivalQueue<T> {
    fn heap_bytes(&self) -> usize {
        self.bytes as usize + self.arrivals.len() * size_of::<PoolArrivals<T>>()
    }
}

impl<T: HeapBytes> ArrivalQueue<T> {
    /// A queue that has seen nothing.
    pub fn new(limits: ArrivalLimits) -> Self {
        Self {
            limits,
            now: LogTime::default(),
            pools: BTreeMap::new(),
            arrivals: Vec::new(),
            unused: Vec::new(),
            first: BTreeSet::new(),
            reached: BTreeSet::new(),
            current: None,
            records: 0,
            bytes: 0,
        }
    }

    /// Takes in where a record of `pool` stands, whether it states its duration and what its writer says, and says when
    /// it is to be taken. `hold_back_ms` is the pool's bound; absent where it takes records in the order of the log.
    /// Afterwards, what is [due](ArrivalQueue::pop_due) is to
    /// be taken.
    pub fn observe(
        &mut self,
        pool: &str,
        place: ArrivalPlace,
        (has_duration, word): (bool, WriterWord<'_>),
        hold_back_ms: Option<u64>,
    ) -> RecordTurn {
        let index = match self.pools.get(pool) {
            Some(index) => *index,
            None => self.add(pool, place.event_time, self.limits.rules(hold_back_ms)),
        };
        self.current = Some(index);
        let own = &mut self.arrivals[index];
        self.now = own.clock.observe(place.event_time, &own.rules, self.now);
        own.has_durations |= has_duration && hold_back_ms.is_some();
        let since = own.clock.own_watermark(&own.rules);
        // Where nothing is held back, nobody asks.
        let complete = hold_back_ms.and_then(|_| own.writers.observe(word, place.event_time, since));
        if let Some(EventTime(before)) = complete {
            own.clock.close_until(EventTime(before.saturating_sub(1)));
        }
        let turn = match own.taken {
            _ if !own.has_durations => RecordTurn::AsItComes,
            Some(taken) if place < taken => {
                RecordTurn::OutOfOrder { by_ms: taken.event_time.0.abs_diff(place.event_time.0) }
            }
            _ => RecordTurn::Later,
        };
        self.list(index);
        turn
    }

    /// Holds the record that was just observed back.
    pub fn push(&mut self, place: ArrivalPlace, record: T) {
        let Some(index) = self.current else { return };
        self.records += 1;
        self.bytes += held_bytes(&record);
        self.arrivals[index].waiting.insert(place, record);
        self.list(index);
    }

    /// The next record whose turn has come with the record that was just observed: of its own pool, then of pools that
    /// are silent, then whatever is to make room.
    pub fn pop_due(&mut self) -> Option<(T, bool)> {
        if let Some(index) = self.current {
            let own = &self.arrivals[index];
            if own.first().is_some_and(|first| first.event_time <= own.clock.watermark()) {
                return self.pop(index, false);
            }
        }
        if let Some(&(reached, first, index)) = self.reached.first()
            && reached <= self.now
        {
            self.arrivals[index].clock.close_until(first.event_time);
            return self.pop(index, false);
        }
        let &(_, index) = self.first.first().filter(|_| self.bytes > self.limits.bytes)?;
        self.pop(index, true)
    }

    /// The earliest record of all, at the end of the log.
    pub fn pop_first(&mut self) -> Option<T> {
        let &(_, index) = self.first.first()?;
        Some(self.pop(index, false)?.0)
    }

    fn pop(&mut self, index: usize, is_early: bool) -> Option<(T, bool)> {
        let own = &mut self.arrivals[index];
        let (place, record) = own.waiting.pop_first()?;
        own.taken = Some(place);
        self.records -= 1;
        self.bytes -= held_bytes(&record);
        self.list(index);
        Some((record, is_early))
    }

    /// A pool that is seen for the first time.
    fn add(&mut self, pool: &str, first: EventTime, rules: ClockRules) -> usize {
        let clock = PoolClock::new(first, &rules, self.now);
        let arrivals = PoolArrivals {
            clock,
            rules,
            writers: Writers::default(),
            has_durations: false,
            taken: None,
            waiting: BTreeMap::new(),
            listed: None,
        };
        let index = match self.unused.pop() {
            Some(index) => {
                self.arrivals[index] = arrivals;
                index
            }
            None => {
                self.arrivals.push(arrivals);
                self.arrivals.len() - 1
            }
        };
        self.pools.insert(pool.into(), index);
        index
    }

    /// Shows the queue's sets what has become of a pool.
    fn list(&mut self, index: usize) {
        let own = &mut self.arrivals[index];
        let now = own.to_list();
        let before = std::mem::replace(&mut own.listed, now);
        if before == now {
            return;
        }
        if let Some((first, reached)) = before {
            self.first.remove(&(first, index));
            if let Some(at) = reached {
                self.reached.remove(&(at, first, index));
            }
        }
        if let Some((first, reached)) = now {
            self.first.insert((first, index));
            self.reached.extend(reached.map(|at| (at, first, index)));
        }
    }

    /// Forgets a pool none of whose records wait, where nobody else knows it any more.
    pub fn forget(&mut self, pool: &str) {
        let Some(&index) = self.pools.get(pool) else { return };
        if self.arrivals[index].waiting.is_empty() {
            self.pools.remove(pool);
            self.unused.push(index);
            self.current = self.current.filter(|current| *current != index);
        }
    }

    /// The records that wait, in no order.
    pub fn records(&self) -> impl Iterator<Item = &T> {
        self.arrivals.iter().flat_map(|own| own.waiting.values())
    }

    /// Records that wait.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether no record waits.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The state as it stands.
    pub fn image(&self) -> ArrivalsImage<&T, &str, &PoolClock> {
        let pools = self.pools.iter().map(|(name, index)| {
            let PoolArrivals { clock, writers, has_durations, taken, waiting, .. } = &self.arrivals[*index];
            let waiting = waiting.iter().map(|(place, record)| (*place, record)).collect();
            let (writers, has_durations, taken) = (writers.clone(), *has_durations, *taken);
            PoolArrivalsImage { name: &**name, clock, writers, has_durations, taken, waiting }
        });
        ArrivalsImage { now: self.now, pools: pools.collect() }
    }

    /// A queue that goes on where another was when its image was taken; `hold_back_ms` gives the bound of a pool.
    /// `None` where the image contradicts itself.
    pub fn restore(
        limits: ArrivalLimits,
        hold_back_ms: impl Fn(&str) -> Option<u64>,
        image: ArrivalsImage<T>,
    ) -> Option<Self> {
        let in_order = image.pools.is_sorted_by(|one, next| one.name < next.name);
        let mut queue = Self { now: image.now, ..Self::new(limits) };
        for PoolArrivalsImage { name, clock, writers, has_durations, taken, waiting } in image.pools {
            let places = || waiting.iter().map(|(place, _)| *place);
            let first = places().next();
            let is_sound = clock.is_sound(queue.now)
                && places().is_sorted_by(|one, next| one < next)
                && (has_durations || first.is_none() && taken.is_none())
                && first.is_none_or(|first| taken < Some(first) && first.event_time > clock.watermark());
            if !is_sound || (has_durations && hold_back_ms(&name).is_none()) {
                return None;
            }
            let index = queue.add(&name, EventTime(0), limits.rules(hold_back_ms(&name)));
            queue.records += waiting.len();
            queue.bytes += waiting.iter().map(|(_, record)| held_bytes(record)).sum::<u64>();
            let own = &mut queue.arrivals[index];
            (own.clock, own.writers, own.has_durations, own.taken) = (clock, writers, has_durations, taken);
            own.waiting = waiting.into_iter().collect();
            queue.list(index);
        }
        let is_within = queue.bytes <= limits.bytes;
        let is_overdue = queue.reached.first().is_some_and(|(reached, ..)| *reached <= queue.now);
        (in_order && is_within && !is_overdue).then_some(queue)
    }
}

#[cfg(test)]
mod tests;
