//! Closing the windows of pools, busy and idle, and putting idle ones aside.

use super::{LogTime, ObserveError, PoolClock, PoolSet, clock_rules};
use crate::estimate::Estimate;
use crate::units::Offset;

impl PoolSet {
    /// Closes what the pool's own watermark has reached.
    pub(super) fn close_due(&mut self, index: usize, next_offset: Offset, closed: &mut Vec<Estimate>) {
        if let (Some(watermark), Some(due)) =
            (self.timelines[index].watermark(), self.pools[index].next_deadline())
            && due <= watermark
        {
            let at = self.moment(index, next_offset);
            self.pools[index].advance_watermark(watermark, at, closed);
        }
        self.deadlines.set_no_later(index, self.closes_at(index));
    }

    /// Closes what the log's clock has reached in pools that are idle.
    pub(super) fn close_idle(&mut self, next_offset: Offset, closed: &mut Vec<Estimate>) {
        while let Some(index) = self.deadlines.due(self.log.now) {
            if self.closes_at(index).is_some_and(|due| due <= self.log.now) {
                self.close_next(index, next_offset, closed);
            }
            self.deadlines.set(index, self.closes_at(index));
        }
    }

    /// When the pool's next window closes, should it stay silent; `None` where none is open.
    pub(super) fn closes_at(&self, index: usize) -> Option<LogTime> {
        let clock = self.timelines[index].clock()?;
        // A window that ends with time itself is due for ever.
        let deadline = self.pools[index].next_deadline().filter(|due| *due > clock.watermark())?;
        clock.reaches(deadline, &clock_rules(&self.config, &self.pools[index]))
    }

    /// Moves a silent pool's watermark to its next deadline; whether there was one.
    pub(super) fn close_next(
        &mut self,
        index: usize,
        next_offset: Offset,
        closed: &mut Vec<Estimate>,
    ) -> bool {
        let at = self.moment(index, next_offset);
        let (pool, timeline) = (&mut self.pools[index], &mut self.timelines[index]);
        let Some((clock, deadline)) = timeline.clock_mut().zip(pool.next_deadline()) else { return false };
        if deadline <= clock.watermark() {
            return false;
        }
        clock.close_until(deadline);
        pool.advance_watermark(deadline, at, closed);
        true
    }

    /// Notes when a pool that has had a record is to be put aside.
    pub(super) fn expect_idle(&mut self, index: usize) {
        let seen = self.timelines[index].clock().map(PoolClock::seen);
        if let Some((after, seen)) = self.config.put_aside_after_ms.zip(seen) {
            self.idle.set(index, Some(seen.plus_ms(after)));
        }
    }

    /// Puts aside what is idle, once it has published what it has to publish.
    pub(super) fn put_idle_aside(&mut self) {
        let Some(after) = self.config.put_aside_after_ms else { return };
        while let Some(index) = self.idle.due(self.log.now) {
            let again = self.closes_at(index).or_else(|| {
                let is_open = self.pools[index].next_deadline().is_some();
                is_open.then(|| self.log.now.plus_ms(after.max(1)))
            });
            self.idle.set(index, again);
            if again.is_none() {
                self.pools[index].put_aside();
            }
        }
    }

    /// Has a pool's state in memory, for its next record.
    pub(super) fn take_back(&mut self, index: usize) -> Result<(), ObserveError> {
        let pool = &mut self.pools[index];
        if pool.is_aside() {
            pool.take_back().map_err(|_| ObserveError::Aside { pool: pool.name().into() })?;
            self.expect_idle(index);
        }
        Ok(())
    }

    /// Has every pool's state in memory. One that cannot be taken back tells nothing.
    pub(super) fn take_all_back(&mut self) {
        self.pools.iter_mut().for_each(|pool| drop(pool.take_back()));
    }
}
