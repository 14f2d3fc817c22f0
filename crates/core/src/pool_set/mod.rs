//! The pools of one partition, with the watermark they share: records in, closed windows out.
//!
//! A record touches its pool, then moves the watermark, then closes what the watermark has reached, in that
//! order and with nothing in between; [`PoolSet::observe`] is the one call that does all three. The service's
//! task and the replay of trace files are both written over it.

mod configs;
mod deadlines;
mod history;
#[cfg(test)]
mod tests;

pub use configs::PoolConfigs;
pub use history::History;

use crate::bank::Lane;
use crate::estimate::Estimate;
use crate::event::RequestEvent;
use crate::pool::{Arrival, Moment, Pool, PoolImage, PoolRange, Refusal, RestoreError, RestoredPool, Room};
use crate::stack::{InOrder, Upcoming};
use crate::units::{EventTime, Offset};
use crate::windows::Watermark;
use deadlines::Deadlines;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request as it reaches a set of pools.
#[derive(Debug, Clone, Copy)]
pub struct PoolRecord<'a> {
    /// The pool it belongs to.
    pub pool: &'a str,
    /// The request.
    pub event: &'a RequestEvent<'a>,
    /// Offset of its record; offsets must increase.
    pub offset: Offset,
    /// Whether it counts in windows; a warming-up record only touches its pool's stack.
    pub counted: bool,
}

/// What a record did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// Its pool, as an index into [`PoolSet::pools`].
    pub pool: usize,
    /// Prompt pages its request accessed.
    pub page_accesses: u64,
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
    /// A pool waits for a watermark that the set has passed.
    #[error("a window of the snapshot was due before it was taken: rebuild the state from the log")]
    Overdue,
}

/// A set's state, as a snapshot keeps it.
#[derive(Debug)]
pub struct PoolSetImage<'a> {
    /// How far event time has got.
    pub watermark: Watermark,
    /// What was not seen.
    pub history: History,
    /// In order of name, so that equal states have equal bytes.
    pub pools: Vec<(&'a str, PoolImage<'a>)>,
}

/// A set's state, read back from a snapshot.
#[derive(Debug)]
pub struct RestoredPoolSet {
    /// How far event time had got.
    pub watermark: Watermark,
    /// What was not seen.
    pub history: History,
    /// In order of name.
    pub pools: Vec<(Box<str>, RestoredPool)>,
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
    /// How far the watermark moves past a pool's last record before the pool is put aside, in milliseconds; never
    /// where this is absent.
    pub idle_after_ms: Option<u64>,
}

/// The pools of one partition.
#[derive(Debug)]
pub struct PoolSet {
    config: PoolSetConfig,
    watermark: Watermark,
    history: History,
    /// In the order they were first seen in.
    pools: Vec<Pool>,
    /// Index into `pools` by name.
    names: BTreeMap<Box<str>, usize>,
    deadlines: Deadlines,
    /// The watermark at which each pool counts as idle.
    idle: Deadlines,
    /// Kept to reuse its memory.
    room: Room,
}

impl PoolSet {
    /// A set that has seen nothing. `history` says whether the log before it is known to be whole.
    pub fn new(config: PoolSetConfig, history: History) -> Self {
        Self {
            watermark: Watermark::new(config.pools.default_pool().allowed_lateness_ms),
            config,
            history,
            pools: Vec::new(),
            names: BTreeMap::new(),
            deadlines: Deadlines::default(),
            idle: Deadlines::default(),
            room: Room::default(),
        }
    }

    /// A set that goes on where another of the same configuration was when its image was taken.
    ///
    /// # Errors
    /// [`PoolSetRestoreError`] where the image is not of this configuration.
    pub fn restore(config: PoolSetConfig, image: RestoredPoolSet) -> Result<Self, PoolSetRestoreError> {
        let in_order = image.pools.is_sorted_by(|(one, _), (next, _)| one < next);
        if !in_order || image.pools.len() > config.max_pools {
            return Err(PoolSetRestoreError::Pools);
        }
        let mut set = Self::new(config, image.history);
        set.watermark = image.watermark;
        let watermark = image.watermark.time();
        for (name, pool) in image.pools {
            let kind = Arc::clone(set.config.pools.kind_of(&name));
            let pool = Pool::restore_of_kind(&*name, set.config.partition, kind, pool)?;
            let (due, waiting) = (pool.next_deadline(), |due: &EventTime| Some(*due) > watermark);
            // What the watermark reached was handed out before the image was taken, but for windows that
            // end with time itself.
            if due.is_some_and(|due| !waiting(&due) && due.0 < i64::MAX) {
                return Err(PoolSetRestoreError::Overdue);
            }
            set.deadlines.set(set.pools.len(), due.filter(waiting));
            set.names.insert(name, set.pools.len());
            set.pools.push(pool);
            set.expect_idle(set.pools.len() - 1);
        }
        Ok(set)
    }

    /// The state as it stands, to be serialised into a snapshot.
    pub fn image(&self) -> PoolSetImage<'_> {
        let pools = self.names.iter().map(|(name, index)| (&**name, self.pools[*index].image()));
        PoolSetImage { watermark: self.watermark, history: self.history, pools: pools.collect() }
    }

    /// Takes a record: touches its pool, moves the watermark, and appends to `closed` the windows that the
    /// watermark has closed, by end, then pool, then in the order the windows are configured in.
    ///
    /// # Errors
    /// [`ObserveError`]: the record was not taken; a refusal is counted in its pool and changes nothing else.
    pub fn observe(
        &mut self,
        record: PoolRecord<'_>,
        closed: &mut Vec<Estimate>,
    ) -> Result<Observed, ObserveError> {
        let index = self.find_or_create(record.pool)?;
        self.take_back(index)?;
        let pool = &mut self.pools[index];
        let watermark = self.watermark.time();
        let arrival = Arrival { offset: record.offset, counted: record.counted, watermark };
        let page_accesses = pool.observe_in(record.event, arrival, &mut self.room)?;
        self.deadlines.set(index, pool.next_deadline());
        self.history = self.history.after(record.event.event_time, record.counted);
        self.watermark.observe(record.event.event_time);
        self.close_due(Offset(record.offset.0 + 1), closed);
        self.expect_idle(index);
        self.put_idle_aside();
        Ok(Observed { pool: index, page_accesses })
    }

    /// The event that a compact one stands for ([`Pool::complete`]), for whoever asks more of it than
    /// [`PoolSet::observe`] does.
    ///
    /// # Errors
    /// As for [`PoolSet::observe`], with which the refusal is counted.
    pub fn complete<'e>(
        &mut self,
        pool: &str,
        event: &RequestEvent<'e>,
        ids: &'e mut Vec<u64>,
    ) -> Result<RequestEvent<'e>, ObserveError> {
        let index = self.find_or_create(pool)?;
        self.take_back(index)?;
        Ok(self.pools[index].complete(event, ids)?)
    }

    /// Closes what the watermark has reached.
    fn close_due(&mut self, next_offset: Offset, closed: &mut Vec<Estimate>) {
        let Some(watermark) = self.watermark.time() else { return };
        let (at, begin) = (self.moment(next_offset), closed.len());
        while let Some(index) = self.deadlines.due(watermark) {
            let pool = &mut self.pools[index];
            pool.advance_watermark(watermark, at, closed);
            // A deadline that stayed would be due for ever.
            self.deadlines.set(index, pool.next_deadline().filter(|deadline| *deadline > watermark));
        }
        // Stable, so that each pool's windows stay in the order they are configured in.
        closed[begin..].sort_by(|a, b| (a.end_ms, &a.pool).cmp(&(b.end_ms, &b.pool)));
    }

    /// Notes when a pool that has had a record will count as idle.
    fn expect_idle(&mut self, index: usize) {
        let Some((after, now)) = self.config.idle_after_ms.zip(self.watermark.time()) else { return };
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.idle.set(index, Some(EventTime(now.0.saturating_add(after))));
    }

    /// Puts aside what is idle, once it has published what it has to publish.
    fn put_idle_aside(&mut self) {
        let Some(watermark) = self.watermark.time() else { return };
        while let Some(index) = self.idle.due(watermark) {
            let pending = self.pools[index].next_deadline().filter(|deadline| *deadline > watermark);
            self.idle.set(index, pending);
            if pending.is_none() {
                self.pools[index].put_aside();
            }
        }
    }

    /// Has a pool's state in memory, for its next record.
    fn take_back(&mut self, index: usize) -> Result<(), ObserveError> {
        let pool = &mut self.pools[index];
        if pool.is_aside() {
            pool.take_back().map_err(|_| ObserveError::Aside { pool: pool.name().into() })?;
            self.expect_idle(index);
        }
        Ok(())
    }

    /// Has every pool's state in memory. One that cannot be taken back tells nothing.
    fn take_all_back(&mut self) {
        self.pools.iter_mut().for_each(|pool| drop(pool.take_back()));
    }

    /// The pool of this name, created on first sight.
    fn find_or_create(&mut self, name: &str) -> Result<usize, ObserveError> {
        if let Some(index) = self.names.get(name) {
            return Ok(*index);
        }
        let (index, limit) = (self.pools.len(), self.config.max_pools);
        if index >= limit {
            return Err(ObserveError::TooManyPools { limit });
        }
        let kind = Arc::clone(self.config.pools.kind_of(name));
        self.pools.push(Pool::of_kind(name, self.config.partition, kind));
        self.names.insert(name.into(), index);
        Ok(index)
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
    pub fn merge(&mut self, pool: &str, range: PoolRange, times: Vec<EventTime>) -> Result<(), InOrder> {
        let index = self.names.get(pool).ok_or(InOrder::Unfit)?;
        self.pools[*index].merge(range, times)
    }

    /// Closes everything that holds a request: the end of a trace. `next_offset` follows the last record.
    pub fn finish(&mut self, next_offset: Offset, closed: &mut Vec<Estimate>) {
        self.take_all_back();
        let at = self.moment(next_offset);
        self.pools.iter_mut().for_each(|pool| pool.finish(at, closed));
    }

    /// What is still open, as it stands: provisional estimates, pool by pool in order of name.
    pub fn provisional(&self, next_offset: Offset) -> Vec<Estimate> {
        let at = self.moment(next_offset);
        self.names.values().flat_map(|index| self.pools[*index].provisional(at)).collect()
    }

    /// Lets the trends of `last:N` and `all` see these windows as they stand ([`Pool::take_reading`]).
    pub fn take_reading(&mut self, next_offset: Offset) {
        self.take_all_back();
        let at = self.moment(next_offset);
        self.pools.iter_mut().for_each(|pool| pool.take_reading(at));
    }

    /// The pools, in the order they were first seen in.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// The pool of this name.
    pub fn get(&self, name: &str) -> Option<&Pool> {
        self.names.get(name).map(|index| &self.pools[*index])
    }

    /// The watermark at which the next window closes; `None` while none is open.
    pub fn next_close(&self) -> Option<EventTime> {
        self.deadlines.next()
    }

    /// How far event time has got.
    pub fn watermark(&self) -> Option<EventTime> {
        self.watermark.time()
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> u64 {
        self.pools.iter().map(Pool::memory_bytes).sum()
    }

    fn moment(&self, next_offset: Offset) -> Moment {
        Moment { next_offset, missing: self.history.missing() }
    }
}
