//! Which pool has something to publish next.

use crate::units::EventTime;
use std::collections::BTreeSet;

/// The smallest watermark at which each pool has something to publish.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_pool: Vec<Option<EventTime>>,
    in_order: BTreeSet<(EventTime, usize)>,
}

impl Deadlines {
    /// Notes a pool's deadline; `None` while nothing waits in it.
    pub(super) fn set(&mut self, pool: usize, deadline: Option<EventTime>) {
        if pool >= self.by_pool.len() {
            self.by_pool.resize(pool + 1, None);
        }
        if self.by_pool[pool] == deadline {
            return;
        }
        if let Some(old) = std::mem::replace(&mut self.by_pool[pool], deadline) {
            self.in_order.remove(&(old, pool));
        }
        self.in_order.extend(deadline.map(|deadline| (deadline, pool)));
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<EventTime> {
        self.in_order.first().map(|(deadline, _)| *deadline)
    }

    /// A pool whose deadline the watermark has reached.
    pub(super) fn due(&self, watermark: EventTime) -> Option<usize> {
        self.in_order.first().filter(|(deadline, _)| *deadline <= watermark).map(|(_, pool)| *pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_earliest_deadline_is_due_first(
            settings in prop::collection::vec((0usize..6, prop::option::of(0i64..50)), 1..60),
            watermark in 0i64..50,
        ) {
            let mut deadlines = Deadlines::default();
            let mut model = BTreeMap::new();
            for (pool, deadline) in settings {
                deadlines.set(pool, deadline.map(EventTime));
                model.insert(pool, deadline);
            }
            let waiting = model.iter().filter_map(|(pool, deadline)| deadline.map(|at| (at, *pool)));
            let expected = waiting.min().filter(|(at, _)| *at <= watermark).map(|(_, pool)| pool);
            prop_assert_eq!(deadlines.due(EventTime(watermark)), expected);
        }
    }
}
