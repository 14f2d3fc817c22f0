//! Which pool is to be looked at next.

use super::clock::LogTime;
use std::collections::BTreeSet;

/// The time of the log at which each pool is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_pool: Vec<Option<LogTime>>,
    in_order: BTreeSet<(LogTime, usize)>,
}

impl Deadlines {
    /// Notes a pool's deadline; `None` while nothing waits in it.
    pub(super) fn set(&mut self, pool: usize, deadline: Option<LogTime>) {
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

    /// Notes that a pool has a deadline no later than this one. A pool that is heard of moves its deadline on with
    /// every record: whoever finds it due, as noted here, asks whether it still is.
    pub(super) fn set_no_later(&mut self, pool: usize, deadline: Option<LogTime>) {
        let known = self.by_pool.get(pool).copied().flatten();
        if deadline.is_none() || known.is_none() || known > deadline {
            self.set(pool, deadline);
        }
    }

    /// A pool whose deadline has come.
    pub(super) fn due(&self, now: LogTime) -> Option<usize> {
        self.in_order.first().filter(|(deadline, _)| *deadline <= now).map(|(_, pool)| *pool)
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
            now in 0i64..50,
        ) {
            let mut deadlines = Deadlines::default();
            let mut model = BTreeMap::new();
            for (pool, deadline) in settings {
                deadlines.set(pool, deadline.map(LogTime));
                model.insert(pool, deadline);
            }
            let waiting = model.iter().filter_map(|(pool, deadline)| deadline.map(|at| (at, *pool)));
            let expected = waiting.min().filter(|(at, _)| *at <= now).map(|(_, pool)| pool);
            prop_assert_eq!(deadlines.due(LogTime(now)), expected);
        }
    }
}
