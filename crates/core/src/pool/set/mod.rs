//! The pools of one partition, each with a clock of its own: records in, closed windows out.
//!
//! A record touches its pool, then moves that pool's watermark, then closes what the watermark has reached and
//! what idle pools have open, in that order and with nothing in between; [`PoolSet::observe`] is the one call that
//! does all of it. The service's task and the replay of trace files are both written over it.

mod arrivals;
mod clock;
mod closing;
mod configs;
mod deadlines;
mod forgotten;
mod history;
#[cfg(test)]
mod tests;
mod timeline;
mod writers;

pub use arrivals::{ArrivalLimits, ArrivalPlace, ArrivalQueue, ArrivalsImage, RecordTurn};
pub use clock::{ClockRules, LogTime, PoolClock};
pub use configs::PoolConfigs;
pub use forgotten::Forgotten;
pub use history::PoolHistory;
pub use timeline::Timeline;
pub use writers::WriterWord;

use crate::engines::bank::Lane;
use crate::engines::one_pass::EngineRange;
use crate::estimate::Estimate;
use crate::estimate::config::PoolConfig;
use crate::pool::{Arrival, Pool, PoolImage, Refusal, RestoreError, RestoredPool, ShownMoment};
use crate::request::event::RequestEvent;
use crate::stack::{InOrder, Upcoming};
use crate::units::heap::HeapBytes;
use crate::units::{EventTime, Offset};
use crate::windows::tally::RequestSummary;
use deadlines::Deadlines;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request as it reaches a set of pools.
#[derive(Debug, Clone, Copy)]
pub struct PoolRecord<'a> {
    /// The pool it belongs to.
    pub pool: &'a str,
    /// The request.
    pub event: &'a RequestEvent<'a>,
    /// Offset of its record.
    pub offset: Offset,
    /// Offset after the last record of the log that was read, which the estimates that it closes state; it must never
    /// go back.
    pub next_offset: Offset,
    /// Whether it counts in windows; a warming-up record only touches its pool's stack.
    pub counted: bool,
    /// The session it belongs to, where the log says.
    pub session: Option<&'a str>,
}

impl<'a> PoolRecord<'a> {
    /// A record that is taken in the order of the log.
    pub fn in_order(pool: &'a str, event: &'a RequestEvent<'a>, offset: Offset, counted: bool) -> Self {
        Self { pool, event, offset, next_offset: Offset(offset.0 + 1), counted, session: None }
    }

    /// The same record, of a session where the log says which.
    pub fn of_session(self, session: Option<&'a str>) -> Self {
        Self { session, ..self }
    }
}

/// What a record did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// Its pool, as an index into [`PoolSet::pools`].
    pub pool: usize,
    /// Prompt pages its request accessed.
    pub page_accesses: u64,
    /// Of a record that came too late for a window it belongs to, how far it lay behind the largest event time of its
    /// pool, in milliseconds.
    pub late_by_ms: Option<u64>,
}

/// Why a record was not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ObserveError {
    /// Its pool refuses it: no stack, window or watermark has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It would be the first of more pools than one partition may have.
    #[error("the partition holds max_pools = {limit} pools already")]
    TooManyPools {
        /// Most pools of one partition.
        limit: usize,
    },
    /// Its pool was put aside and cannot be taken back.
    #[error(
        "the state of pool {pool}, which was put aside, has changed in memory: rebuild the state from the log"
    )]
    Aside {
        /// The pool.
        pool: Box<str>,
    },
}

/// Why a set of pools cannot go on from a snapshot.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PoolSetRestoreError {
    /// A pool's state does not fit its configuration.
    #[error(transparent)]
    Pool(#[from] RestoreError),
    /// The pools are not in the order, or the number, that this program writes.
    #[error("the snapshot's pools are out of order or more than max_pools: rebuild the state from the log")]
    Pools,
    /// A pool waits for a watermark that it has passed.
    #[error("a window of the snapshot was due before it was taken: rebuild the state from the log")]
    Overdue,
    /// The pools' clocks are missing, as in snapshots of when a partition had one clock, or contradict the log's.
    #[error("the clocks of the snapshot are not those of its pools: rebuild the state from the log")]
    Clocks,
}

/// What a set knows of its log alongside its pools, as a snapshot keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogState {
    /// How much time has passed.
    now: LogTime,
    /// The clock of records whose pools are refused for their number, all of them together: where every pool of the
    /// set has died, these tell that time goes on.
    strangers: Option<PoolClock>,
    /// What was not seen of pools that are to come.
    history: PoolHistory,
    /// Which pools were forgotten.
    forgotten: Forgotten,
}

impl LogState {
    /// Nothing was seen. `history` says whether the log before it is known to be whole.
    pub fn new(history: PoolHistory) -> Self {
        Self { now: LogTime::default(), strangers: None, history, forgotten: Forgotten::default() }
    }

    /// What was not seen of a new pool of this name.
    fn history_of(&self, name: &str) -> PoolHistory {
        if self.forgotten.may_contain(name) { PoolHistory::Missing } else { self.history }
    }

    fn is_sound(&self) -> bool {
        self.strangers.as_ref().is_none_or(|clock| clock.is_sound(self.now)) && self.forgotten.is_sound()
    }
}

/// A set's state in a snapshot: read back, or with its parts by reference where it is written.
#[derive(Debug)]
pub struct PoolSetImage<N = Box<str>, P = RestoredPool, L = LogState, T = Timeline> {
    /// What is known of the log.
    pub log: L,
    /// In order of name, so that equal states have equal bytes.
    pub pools: Vec<(N, P)>,
    /// Each pool's, in the same order.
    pub timelines: Vec<T>,
}

/// How a set makes its pools.
#[derive(Debug, Clone)]
pub struct PoolSetConfig {
    /// How pools are estimated.
    pub pools: Arc<PoolConfigs>,
    /// The partition all of them are in, for their estimates.
    pub partition: i32,
    /// Most pools; records of further ones are refused.
    pub max_pools: usize,
    /// After how much time of the log without a record a pool is idle, and its windows close as the time of the log
    /// goes on, in milliseconds; never where this is absent.
    pub idle_timeout_ms: Option<u64>,
    /// After how much time of the log without a record a pool makes room for a new one, where there are `max_pools`,
    /// in milliseconds; never where this is absent.
    pub forget_after_ms: Option<u64>,
    /// After how much time of the log without a record a pool is put aside, in milliseconds; never where this is
    /// absent. Changes no result.
    pub put_aside_after_ms: Option<u64>,
}

/// The pools of one partition.
#[derive(Debug)]
pub struct PoolSet {
    config: PoolSetConfig,
    log: LogState,
    /// In the order they were first seen in; a new pool has the place of one that was forgotten.
    pools: Vec<Pool>,
    /// Each pool's.
    timelines: Vec<Timeline>,
    /// Index into `pools` by name.
    names: BTreeMap<Box<str>, usize>,
    /// When each pool's next window closes, should it stay silent.
    deadlines: Deadlines,
    /// When each pool is to be put aside.
    idle: Deadlines,
    /// No pool is to be forgotten before this time.
    none_forgotten_before: LogTime,
    /// Pools created and not yet taken note of, by index.
    created: Vec<usize>,
    /// Pools forgotten and not yet taken note of: their index and name.
    forgotten: Vec<(usize, Box<str>)>,
    /// Kept to reuse its memory.
    summary: RequestSummary,
}

impl HeapBytes for PoolSet {
    fn heap_bytes(&self) -> usize {
        self.pools.heap_bytes() + self.timelines.capacity() * size_of::<Timeline>()
    }
}

impl PoolSet {
    /// A set that has seen nothing. `history` says whether the log before it is known to be whole.
    pub fn new(config: PoolSetConfig, history: PoolHistory) -> Self {
        Self {
            config,
            log: LogState::new(history),
            pools: Vec::new(),
            timelines: Vec::new(),
            names: BTreeMap::new(),
            deadlines: Deadlines::default(),
            idle: Deadlines::default(),
            none_forgotten_before: LogTime::default(),
            created: Vec::new(),
            forgotten: Vec::new(),
            summary: RequestSummary::default(),
        }
    }

    /// A set that goes on where another of the same configuration was when its image was taken.
    ///
    /// # Errors
    /// [`PoolSetRestoreError`] where the image is not of this configuration.
    pub fn restore(config: PoolSetConfig, image: PoolSetImage) -> Result<Self, PoolSetRestoreError> {
        let PoolSetImage { log, pools, timelines } = image;
        let in_order = pools.is_sorted_by(|(one, _), (next, _)| one < next);
        if !in_order || pools.len() > config.max_pools {
            return Err(PoolSetRestoreError::Pools);
        }
        let mut set = Self { log, ..Self::new(config, PoolHistory::Whole) };
        let mut timelines = timelines.into_iter();
        for (name, pool) in pools {
            let kind = Arc::clone(set.config.pools.kind_of(&name));
            let pool = Pool::restore_of_kind(&*name, set.config.partition, kind, pool)?;
            set.resume_pool(name, pool, timelines.next())?;
        }
        if timelines.next().is_some() || !set.log.is_sound() {
            return Err(PoolSetRestoreError::Clocks);
        }
        set.announce_all();
        Ok(set)
    }

    /// Takes a pool in that was read back from a snapshot.
    fn resume_pool(
        &mut self,
        name: Box<str>,
        pool: Pool,
        timeline: Option<Timeline>,
    ) -> Result<(), PoolSetRestoreError> {
        let timeline = timeline.ok_or(PoolSetRestoreError::Clocks)?;
        let is_sound = timeline.clock().is_none_or(|clock| clock.is_sound(self.log.now));
        let (due, watermark) = (pool.next_deadline(), timeline.watermark());
        if !is_sound || due.is_some() && watermark.is_none() {
            return Err(PoolSetRestoreError::Clocks);
        }
        // What the watermark reached was handed out before the image was taken, but for windows that end with time
        // itself.
        if due.is_some_and(|due| Some(due) <= watermark && due.0 < i64::MAX) {
            return Err(PoolSetRestoreError::Overdue);
        }
        let index = self.pools.len();
        self.names.insert(name, index);
        self.pools.push(pool);
        self.timelines.push(timeline);
        self.deadlines.set(index, self.closes_at(index));
        self.expect_idle(index);
        Ok(())
    }

    /// The state as it stands, to be serialised into a snapshot.
    pub fn image(&self) -> PoolSetImage<&str, PoolImage<'_>, &LogState, &Timeline> {
        let pools = self.names.iter().map(|(name, index)| (&**name, self.pools[*index].image()));
        let timelines = self.names.values().map(|index| &self.timelines[*index]);
        PoolSetImage { log: &self.log, pools: pools.collect(), timelines: timelines.collect() }
    }

    /// Takes a record: touches its pool, moves the pool's watermark and the log's clock, and appends to `closed` the
    /// windows that closes, by end, then pool, then in the order the windows are configured in.
    ///
    /// # Errors
    /// [`ObserveError`]: the record was not taken; a refusal is counted in its pool. A pool that was forgotten to make
    /// room for a new one has closed its windows all the same.
    pub fn observe(
        &mut self,
        record: PoolRecord<'_>,
        closed: &mut Vec<Estimate>,
    ) -> Result<Observed, ObserveError> {
        let begin = closed.len();
        let observed = self.observe_in_order(record, closed);
        // Stable, so that each pool's windows stay in the order they are configured in.
        closed[begin..].sort_by(|a, b| (a.end_ms, &a.pool).cmp(&(b.end_ms, &b.pool)));
        observed
    }

    /// The same, with what closes in the order in which it does.
    fn observe_in_order(
        &mut self,
        record: PoolRecord<'_>,
        closed: &mut Vec<Estimate>,
    ) -> Result<Observed, ObserveError> {
        let (event_time, next_offset) = (record.event.event_time, record.next_offset);
        let index = match self.names.get(record.pool) {
            Some(index) => *index,
            None => self.admit(record.pool, event_time, next_offset, closed)?,
        };
        self.take_back(index)?;
        let timeline = &mut self.timelines[index];
        let watermark = timeline.watermark();
        let arrival = Arrival { offset: record.offset, counted: record.counted, watermark };
        let (page_accesses, is_late) =
            self.pools[index].observe_in(record.event, arrival, record.session, &mut self.summary)?;
        let rules = clock_rules(&self.config, &self.pools[index]);
        self.log.now = timeline.observe(event_time, record.counted, &rules, self.log.now);
        self.close_due(index, next_offset, closed);
        self.close_idle(next_offset, closed);
        self.expect_idle(index);
        self.put_idle_aside();
        let behind = self.timelines[index].clock().map(|clock| clock.behind(event_time));
        Ok(Observed { pool: index, page_accesses, late_by_ms: behind.filter(|_| is_late) })
    }

    /// A place for a pool that is seen for the first time. In a full set that of a pool that has died.
    fn admit(
        &mut self,
        name: &str,
        event_time: EventTime,
        next_offset: Offset,
        closed: &mut Vec<Estimate>,
    ) -> Result<usize, ObserveError> {
        if self.pools.len() < self.config.max_pools {
            return self.create(name);
        }
        self.hear_stranger(event_time);
        self.close_idle(next_offset, closed);
        let Some(index) = self.longest_silent() else {
            return Err(ObserveError::TooManyPools { limit: self.config.max_pools });
        };
        self.take_back(index)?;
        while self.close_next(index, next_offset, closed) {}
        let kind = Arc::clone(self.config.pools.kind_of(name));
        let left =
            std::mem::replace(&mut self.pools[index], Pool::of_kind(name, self.config.partition, kind));
        self.names.remove(left.name());
        self.log.forgotten.insert(left.name());
        self.forgotten.push((index, left.name().into()));
        self.created.push(index);
        self.timelines[index] = Timeline::new(self.log.history_of(name));
        self.deadlines.set(index, None);
        self.idle.set(index, None);
        self.names.insert(name.into(), index);
        // The new one goes first, should it never have a record accepted.
        self.none_forgotten_before = LogTime::default();
        Ok(index)
    }

    /// Lets a record that has no pool here tell that time passes.
    fn hear_stranger(&mut self, event_time: EventTime) {
        let rules = rules_of(&self.config, self.config.pools.default_pool());
        match &mut self.log.strangers {
            Some(clock) => self.log.now = clock.observe(event_time, &rules, self.log.now),
            fresh @ None => *fresh = Some(PoolClock::new(event_time, &rules, self.log.now)),
        }
    }

    /// The pool that has been silent longest, by name among equals, if that is long enough to forget it. One that never
    /// had a record accepted comes first.
    fn longest_silent(&mut self) -> Option<usize> {
        let (after, now) = (self.config.forget_after_ms?, self.log.now);
        if now < self.none_forgotten_before {
            return None;
        }
        let seen = |index: usize| self.timelines[index].clock().map(PoolClock::seen);
        let (name, index) = self.names.iter().min_by_key(|(name, index)| (seen(**index), *name))?;
        let (_, index) = (name, *index);
        match seen(index).map(|seen| seen.plus_ms(after)) {
            Some(forgotten) if now < forgotten => {
                // Others have been seen since, and what is seen is never unseen.
                self.none_forgotten_before = forgotten;
                None
            }
            _ => Some(index),
        }
    }

    /// A new pool of this name.
    fn create(&mut self, name: &str) -> Result<usize, ObserveError> {
        let (index, limit) = (self.pools.len(), self.config.max_pools);
        if index >= limit {
            return Err(ObserveError::TooManyPools { limit });
        }
        let kind = Arc::clone(self.config.pools.kind_of(name));
        self.pools.push(Pool::of_kind(name, self.config.partition, kind));
        self.timelines.push(Timeline::new(self.log.history_of(name)));
        self.names.insert(name.into(), index);
        self.created.push(index);
        Ok(index)
    }

    /// The pools that were forgotten since this was last requested: the index of each, which another pool has now, and
    /// its name.
    pub fn take_forgotten(&mut self) -> Vec<(usize, Box<str>)> {
        std::mem::take(&mut self.forgotten)
    }

    /// The pools that were created since this was last requested and are still there, by index.
    pub fn take_created(&mut self) -> Vec<usize> {
        let mut created = std::mem::take(&mut self.created);
        created.sort_unstable();
        created.dedup();
        created
    }

    /// From here on every pool counts as created.
    pub fn announce_all(&mut self) {
        self.created = (0..self.pools.len()).collect();
    }

    /// Records are missing from here on back: no pool's history is whole.
    pub fn lose_history(&mut self) {
        self.log.history = PoolHistory::Missing;
        self.timelines.iter_mut().for_each(|line| *line = line.with_history(PoolHistory::Missing));
    }

    /// What [`PoolSet::observe`] will ask of the stack for this event, to be looked ahead at; none where that
    /// would not pay.
    pub fn upcoming<'a>(&'a self, pool: &str, event: &RequestEvent<'a>) -> Option<Upcoming<'a>> {
        self.get(pool)?.upcoming(event)
    }

    /// Lets a pool's caches serve its next requests before their turn ([`Pool::serve_ahead`]).
    pub fn serve_ahead<'a>(
        &mut self,
        pool: &str,
        events: impl Iterator<Item = &'a RequestEvent<'a>>,
        serve: impl FnOnce(&mut [Lane<'_>]),
    ) {
        if let Some(index) = self.names.get(pool) {
            self.pools[*index].serve_ahead(events, serve);
        }
    }

    /// Begins to merge a range of a pool's next requests, whose event times these are ([`Pool::merge`]):
    /// [`PoolSet::observe`] is to be called for each of them next, in their order.
    ///
    /// # Errors
    /// [`InOrder`]: they have to be observed without. Nothing has changed then.
    pub fn merge(&mut self, pool: &str, range: EngineRange, times: Vec<EventTime>) -> Result<(), InOrder> {
        let index = self.names.get(pool).ok_or(InOrder::Unfit)?;
        self.pools[*index].merge(range, times)
    }

    /// Closes everything that holds a request: the end of a trace. `next_offset` follows the last record.
    pub fn finish(&mut self, next_offset: Offset, closed: &mut Vec<Estimate>) {
        self.take_all_back();
        for index in 0..self.pools.len() {
            let at = self.moment(index, next_offset);
            self.pools[index].finish(at, closed);
        }
    }

    /// What is still open, as it stands: provisional estimates, pool by pool in order of name.
    pub fn provisional(&self, next_offset: Offset) -> Vec<Estimate> {
        let open = |index: &usize| self.pools[*index].provisional(self.moment(*index, next_offset));
        self.names.values().flat_map(open).collect()
    }

    /// Lets the trends of `last:N` and `all` see these windows as they stand ([`Pool::take_reading`]).
    pub fn take_reading(&mut self, next_offset: Offset) {
        self.take_all_back();
        for index in 0..self.pools.len() {
            let at = self.moment(index, next_offset);
            self.pools[index].take_reading(at);
        }
    }

    /// The pools, in the order they were first seen in; a new pool has the place of one that was forgotten.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Each pool's clock and history, in the order of [`PoolSet::pools`].
    pub fn timelines(&self) -> &[Timeline] {
        &self.timelines
    }

    /// The pool of this name.
    pub fn get(&self, name: &str) -> Option<&Pool> {
        self.names.get(name).map(|index| &self.pools[*index])
    }

    fn moment(&self, index: usize, next_offset: Offset) -> ShownMoment {
        ShownMoment { next_offset, missing: self.timelines[index].history().missing() }
    }
}

/// How the clock of this pool follows its events.
fn clock_rules(set: &PoolSetConfig, pool: &Pool) -> ClockRules {
    rules_of(set, pool.config())
}

fn rules_of(set: &PoolSetConfig, pool: &PoolConfig) -> ClockRules {
    ClockRules {
        allowed_lateness_ms: pool.allowed_lateness_ms,
        max_lateness_ms: pool.max_lateness_ms,
        idle_timeout_ms: set.idle_timeout_ms,
    }
}
