//! What was done for one pool, and how far its clock is.

use kvset_core::pool::Pool;
use kvset_core::pool::set::{Observed, Timeline};
use kvset_core::units::EventTime;

/// How far event time has got in a pool, and what it is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolTime {
    /// What ends up to here is closed.
    pub watermark: EventTime,
    /// The watermark at which the next window closes; `None` while none is open.
    pub next_close: Option<EventTime>,
}

/// What was done for one pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolActivity {
    /// Accepted records.
    pub requests: u64,
    /// Prompt pages that they accessed.
    pub pages: u64,
    /// Those of them that came too late for a window they belong to.
    pub late: u64,
    /// How far the latest of these lay behind the largest event time of the pool, in milliseconds.
    pub late_by_ms: u64,
    /// Those that arrived before others that were taken earlier: they took longer than records are held back for.
    pub out_of_order: u64,
    /// How far the farthest of these lay behind, in milliseconds.
    pub out_of_order_by_ms: u64,
    /// Those that were held back and taken early, to make room.
    pub early: u64,
    /// How far event time is.
    pub time: Option<PoolTime>,
}

impl PoolActivity {
    /// Takes in an accepted record: by how much it arrived before one that was taken earlier, in milliseconds, and
    /// whether it was taken early, to make room.
    pub(super) fn add(&mut self, observed: &Observed, out_of_order_by_ms: Option<u64>, is_early: bool) {
        self.requests += 1;
        self.pages += observed.page_accesses;
        if let Some(behind) = observed.late_by_ms {
            self.late += 1;
            self.late_by_ms = self.late_by_ms.max(behind);
        }
        if let Some(behind) = out_of_order_by_ms {
            self.out_of_order += 1;
            self.out_of_order_by_ms = self.out_of_order_by_ms.max(behind);
        }
        self.early += u64::from(is_early);
    }
}

impl PoolTime {
    /// Of a pool with this timeline; `None` before its first accepted record.
    pub(super) fn of(pool: &Pool, timeline: &Timeline) -> Option<Self> {
        Some(Self { watermark: timeline.watermark()?, next_close: pool.next_deadline() })
    }

    /// One for many pools: the lower median of their watermarks, which no single clock bends, and the end of the window
    /// that is nearest to its pool's watermark, on the scale of the median.
    pub fn of_all(times: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut times: Vec<Self> = times.into_iter().collect();
        times.sort_by_key(|time| time.watermark);
        let watermark = times.get(times.len().checked_sub(1)? / 2)?.watermark;
        let left = |time: &Self| Some(time.next_close?.0.saturating_sub(time.watermark.0));
        let nearest = times.iter().filter_map(left).min();
        let next_close = nearest.map(|left| EventTime(watermark.0.saturating_add(left)));
        Some(Self { watermark, next_close })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(watermark: i64, next_close: Option<i64>) -> PoolTime {
        PoolTime { watermark: EventTime(watermark), next_close: next_close.map(EventTime) }
    }

    #[test]
    fn no_single_clock_bends_what_is_said_of_a_partition() {
        assert_eq!(PoolTime::of_all([]), None);
        let ahead = time(82_800_000, Some(82_800_005));
        assert_eq!(PoolTime::of_all([ahead, time(10, Some(20)), time(12, None)]), Some(time(12, Some(17))));
        assert_eq!(PoolTime::of_all([ahead, time(10, None)]), Some(time(10, Some(15))));
    }
}
