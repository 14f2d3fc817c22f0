//! How far event time has got in each pool, and in the log as a whole.
//!
//! Pools are strangers: each has a clock of its own, and nothing that one of them says closes a window of
//! another that still sends. A pool that has gone silent says nothing more, though, and its last windows are to
//! close too. So the log has a clock that only measures how much time has *passed*, as the pools' event times
//! tell it together. A silent pool's clock is taken to run on as the log's does.
//!
//! The clock of the log reads what the fastest pool says has passed since it was compared with it. What a pool
//! says at once is believed up to [`ClockRules::believed`] only: an event time that is hours ahead counts for no
//! more, and so does a night without records, after which the pools go on telling how time passes.
//!
//! The fastest pool may be a stranger that drains a day's backlog: a hundred times as much passes then by its account
//! as by that of the pools beside it. So a pool has a *pace*: how many times as much passed by the log's clock as by
//! its own event times while its records came. Its silence counts for so much less.
//!
//! Everything here is a function of event times in the order of the log.

use crate::units::{EventTime, is_countable};
use serde::{Deserialize, Serialize};

/// Time of a log: milliseconds that have passed since its first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LogTime(pub i64);

impl LogTime {
    fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// So many milliseconds later.
    pub(super) fn plus_ms(self, ms: u64) -> Self {
        self.plus(milliseconds(ms))
    }

    /// Milliseconds from `earlier` to this time.
    pub(super) fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// How a pool's clock follows its event times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRules {
    /// How far the watermark stays behind the largest event time at least, in milliseconds.
    pub allowed_lateness_ms: u64,
    /// How far it stays behind at most: as far as the pool's events were out of order, up to this.
    pub max_lateness_ms: u64,
    /// How much time of the log without a record makes a pool idle; absent where none ever is.
    pub idle_timeout_ms: Option<u64>,
}

/// Longest silence after which a log without idle pools compares a pool's clock anew, in milliseconds.
const COMPARED_WITHIN_MS: u64 = 120_000;

impl ClockRules {
    /// What a pool's clock may differ from the log's before they are compared anew.
    fn tolerance(&self) -> i64 {
        milliseconds(self.idle_timeout_ms.unwrap_or(COMPARED_WITHIN_MS))
    }

    /// How far one event may move the log's clock: half of what makes a pool idle, so that no single event time makes
    /// any pool so; or as far as the pool's event before, for a pool that is heard of seldom.
    fn believed(&self, step_before_ms: i64) -> i64 {
        (self.tolerance() / 2).max(step_before_ms)
    }

    /// How far a watermark stays behind where events came as far as this out of order.
    fn lateness(&self, disorder_ms: u64) -> i64 {
        milliseconds(self.allowed_lateness_ms.max(disorder_ms))
    }
}

/// Records that a pace is measured over at least: what passed between two alone may be a silence.
const PACED_RECORDS: u32 = 2;

/// The slowest pace. A pool that is slower tells no time.
const MAX_PACE: i64 = 1 << 20;

/// How many times as much passes by the log's clock as by a pool's own event times while its records come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PoolPace {
    /// At least 1: a pool that is faster than the log moves the log's clock.
    times: i64,
    /// Since when it is measured anew: what the log's clock read, and the pool's largest event time.
    since: (LogTime, EventTime),
    /// Records since then.
    records: u32,
}

impl PoolPace {
    fn new(now: LogTime, latest: EventTime) -> Self {
        Self { times: 1, since: (now, latest), records: 0 }
    }

    /// Takes in another record, up to which so much has passed by both accounts. A pool that is slower than it was is
    /// so at once, and one that is faster by and by, since a backlog comes in bursts.
    fn observe(&mut self, now: LogTime, latest: EventTime, rules: &ClockRules) {
        self.records = self.records.saturating_add(1);
        let passed = now.since(self.since.0);
        if passed < rules.tolerance() || self.records < PACED_RECORDS {
            return;
        }
        let own = latest.0.saturating_sub(self.since.1.0).max(1);
        let measured = (passed / own).clamp(1, MAX_PACE);
        *self = Self { times: measured.max(self.times / 4), ..Self::new(now, latest) };
    }

    fn is_sound(&self, now: LogTime) -> bool {
        (1..=MAX_PACE).contains(&self.times) && self.since.0 <= now
    }
}

/// What the event times of one pool have said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolClock {
    /// The largest event time.
    latest: EventTime,
    /// What was closed by: it never goes back.
    watermark: EventTime,
    /// How far an event came behind a later one, as far as the watermark may wait for it, in milliseconds.
    disorder_ms: u64,
    /// What the log's clock reads at `latest`, by this pool's account.
    reading: LogTime,
    /// What it read at the pool's last record.
    seen: LogTime,
    /// How far the last record moved `latest`, in milliseconds.
    step_ms: i64,
    /// How much time of the log the pool may be silent for before it is idle, as its silences so far have shown: the
    /// rules say the least.
    patience_ms: i64,
    pace: PoolPace,
}

impl PoolClock {
    /// The clock of a pool whose first event is of this time.
    pub(super) fn new(first: EventTime, rules: &ClockRules, now: LogTime) -> Self {
        let watermark = EventTime(first.0.saturating_sub(rules.lateness(0)));
        let pace = PoolPace::new(now, first);
        Self {
            latest: first,
            watermark,
            disorder_ms: 0,
            reading: now,
            seen: now,
            step_ms: 0,
            patience_ms: 0,
            pace,
        }
    }

    /// Takes in the time of another event and gives what the log's clock, which read `now`, reads then.
    pub(super) fn observe(&mut self, event_time: EventTime, rules: &ClockRules, now: LogTime) -> LogTime {
        let step = event_time.0.saturating_sub(self.latest.0).max(0);
        self.note_disorder(event_time, rules);
        self.latest = self.latest.max(event_time);
        self.watermark = self.watermark.max(self.own_watermark(rules));
        self.note_silence(step, rules, now);
        let reading = self.reading.plus(step);
        let furthest = now.plus(rules.believed(self.step_ms));
        self.reading = if now.since(reading) > rules.tolerance() { now } else { reading.min(furthest) };
        self.step_ms = step;
        self.seen = now.max(self.reading);
        self.pace.observe(self.seen, self.latest, rules);
        self.seen
    }

    fn note_disorder(&mut self, event_time: EventTime, rules: &ClockRules) {
        let behind = self.latest.0.saturating_sub(event_time.0).max(0).unsigned_abs();
        if behind <= rules.max_lateness_ms {
            self.disorder_ms = self.disorder_ms.max(behind);
        }
    }

    /// A pool that comes back after a silence in which its own time moved less than the log's was not idle: it is
    /// waited for twice as long from then on.
    fn note_silence(&mut self, step: i64, rules: &ClockRules, now: LogTime) {
        let by_its_own_pace = now.since(self.seen) / self.pace.times;
        let unexplained = by_its_own_pace.saturating_sub(step);
        if unexplained > rules.tolerance() {
            self.patience_ms = self.patience_ms.max(unexplained.saturating_mul(2));
        }
    }

    /// What the pool's own events say of its watermark.
    pub(super) fn own_watermark(&self, rules: &ClockRules) -> EventTime {
        EventTime(self.latest.0.saturating_sub(rules.lateness(self.disorder_ms)))
    }

    /// How far event time has got: what ends up to here is closed.
    pub fn watermark(&self) -> EventTime {
        self.watermark
    }

    /// How far this event time lies behind the largest one, in milliseconds.
    pub(super) fn behind(&self, event_time: EventTime) -> u64 {
        self.latest.0.saturating_sub(event_time.0).max(0).unsigned_abs()
    }

    /// The log's time at the pool's last record.
    pub(super) fn seen(&self) -> LogTime {
        self.seen
    }

    /// The log's time at which the pool, silent until then, counts as having reached this event time; `None` where no
    /// silence says so.
    pub(super) fn reaches(&self, event_time: EventTime, rules: &ClockRules) -> Option<LogTime> {
        let missing = event_time.0.saturating_sub(self.own_watermark(rules).0);
        let of_its_own = missing.max(milliseconds(rules.idle_timeout_ms?));
        Some(self.seen.plus(of_its_own.saturating_mul(self.pace.times).max(self.patience_ms)))
    }

    /// Moves the watermark of an idle pool to what closes next: never beyond, so that a pool that was silent in error
    /// loses what was open, and nothing that begins later.
    pub(super) fn close_until(&mut self, deadline: EventTime) {
        self.watermark = self.watermark.max(deadline);
    }

    /// Whether this, read back from a snapshot, can have been at this time of the log.
    pub(super) fn is_sound(&self, now: LogTime) -> bool {
        self.seen <= now
            && self.reading <= self.seen
            && self.step_ms >= 0
            && self.patience_ms >= 0
            && self.pace.is_sound(self.seen)
            && is_countable(self.disorder_ms)
    }
}

fn milliseconds(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: ClockRules =
        ClockRules { allowed_lateness_ms: 10, max_lateness_ms: 600, idle_timeout_ms: Some(120) };

    /// A log of several pools: what its clock reads, and each pool's.
    struct Log {
        rules: ClockRules,
        now: LogTime,
        pools: Vec<Option<PoolClock>>,
    }

    impl Log {
        fn of(pools: usize) -> Self {
            Self { rules: RULES, now: LogTime(0), pools: vec![None; pools] }
        }

        fn observe(&mut self, pool: usize, time: i64) {
            let (rules, now) = (&self.rules, self.now);
            self.now = match &mut self.pools[pool] {
                Some(clock) => clock.observe(EventTime(time), rules, now),
                new => new.insert(PoolClock::new(EventTime(time), rules, now)).seen(),
            };
        }

        fn clock(&self, pool: usize) -> &PoolClock {
            self.pools[pool].as_ref().expect("it was seen")
        }
    }

    #[test]
    fn the_watermark_follows_the_largest_time_and_never_goes_back() {
        let mut log = Log { rules: ClockRules { max_lateness_ms: 0, ..RULES }, ..Log::of(1) };
        let marks = [100, 90, 105, 105].map(|time| {
            log.observe(0, time);
            log.clock(0).watermark().0
        });
        assert_eq!(marks, [90, 90, 95, 95]);
        log.observe(0, i64::MAX);
        log.observe(0, i64::MIN);
        assert_eq!(log.clock(0).watermark(), EventTime(i64::MAX - 10), "nothing overflows");
    }

    /// Logs written when requests end are out of order by as much as requests take.
    #[test]
    fn the_watermark_stays_behind_as_far_as_events_came_out_of_order() {
        let mut log = Log::of(1);
        for time in [1000, 960, 2000] {
            log.observe(0, time);
        }
        assert_eq!(log.clock(0).watermark(), EventTime(1960));
        log.observe(0, 1399);
        assert_eq!(log.clock(0).watermark(), EventTime(1960), "601 ms are more than it may wait");
        for time in [1400, 3000] {
            log.observe(0, time);
        }
        assert_eq!(log.clock(0).watermark(), EventTime(2400));
    }

    #[test]
    fn time_passes_as_the_pools_tell_it_whatever_their_clocks_say() {
        let mut log = Log::of(3);
        let offsets = [0, 90_000, -82_800_000];
        for step in 0..600 {
            let pool = step as usize % 3;
            log.observe(pool, 10 * step + offsets[pool]);
        }
        // What passed before a pool's first record, that pool cannot tell.
        assert!((5_970..=5_990).contains(&log.now.0), "{:?}", log.now);
    }

    #[test]
    fn one_event_moves_the_clock_of_the_log_by_half_of_what_makes_a_pool_idle() {
        let mut log = Log::of(2);
        for (pool, time) in [(0, 0), (1, 0), (1, 82_800_000)] {
            log.observe(pool, time);
        }
        assert_eq!(log.now, LogTime(60));
        log.observe(1, 82_800_010);
        assert_eq!(log.now, LogTime(70), "and goes on from there");
        log.observe(0, 75);
        assert_eq!(log.now, LogTime(75), "no pool was set back");
    }

    #[test]
    fn a_pool_that_is_heard_of_seldom_is_believed_once_it_kept_its_pace() {
        let mut log = Log::of(1);
        for time in [0, 500, 1000, 1500] {
            log.observe(0, time);
        }
        assert_eq!(log.now, LogTime(60 + 500 + 500));
    }

    #[test]
    fn a_silent_pool_reaches_a_time_once_so_much_has_passed() {
        let mut log = Log::of(2);
        log.observe(0, 1000);
        let reaches = |time| log.clock(0).reaches(EventTime(time), &RULES).expect("idle pools close").0;
        assert_eq!((reaches(1300), reaches(990)), (310, 120), "not before it is idle");
        let never = ClockRules { idle_timeout_ms: None, ..RULES };
        assert_eq!(log.clock(0).reaches(EventTime(0), &never), None);
    }

    /// A shipper that sends a pool's records in batches makes it look silent in between.
    #[test]
    fn a_pool_that_came_back_from_a_silence_that_was_none_is_waited_for_longer() {
        let mut log = Log::of(2);
        log.observe(0, 0);
        (0..=50).for_each(|step| log.observe(1, 10 * step));
        assert_eq!(log.now, LogTime(500));
        log.observe(0, 20);
        assert_eq!(log.clock(0).reaches(EventTime(0), &RULES), Some(LogTime(500 + 2 * 480)));
        log.observe(1, 600);
        log.observe(0, 120);
        assert_eq!(log.now, LogTime(600), "it was compared anew, and tells the same time as the other");
    }

    /// It closed the windows of a live pool after two of its seconds.
    #[test]
    fn beside_a_stranger_that_drains_a_backlog_a_live_pools_silence_is_measured_by_its_own_pace() {
        let mut log = Log::of(2);
        for second in 0..5 {
            log.observe(0, 1000 + second);
            (0..120).for_each(|event| log.observe(1, 120 * second + event));
        }
        let reaches =
            |log: &Log| log.clock(0).reaches(EventTime(0), &RULES).expect("idle pools close").since(log.now);
        assert!(reaches(&log) > 110 * 120, "{}", reaches(&log));
        // The backlog is drained.
        for time in 0..3_000 {
            log.observe(0, 1006 + time);
            log.observe(1, 600 + time);
        }
        assert!((119..=120).contains(&reaches(&log)), "{}", reaches(&log));
    }

    proptest! {
        /// However the clocks of pools run, the log's never goes back, no pool's watermark does, and the state is one
        /// that a snapshot may hold.
        #[test]
        fn whatever_pools_say_no_clock_goes_back(
            events in prop::collection::vec(
                (0usize..3, prop_oneof![0i64..2000, any::<i64>()]), 1..80),
        ) {
            let mut log = Log::of(3);
            for (pool, time) in events {
                let (now, mark) = (log.now, log.pools[pool].map(|clock| clock.watermark()));
                log.observe(pool, time);
                prop_assert!(log.now >= now);
                prop_assert!(mark.is_none_or(|mark| log.clock(pool).watermark() >= mark));
                prop_assert!(log.pools.iter().flatten().all(|clock| clock.is_sound(log.now)));
            }
        }

        /// Pools whose clocks run alike, wherever they stand, tell the time that has passed since the first of them
        /// came, and no more beyond than the jitter of their first records.
        #[test]
        fn sound_clocks_tell_no_more_time_than_has_passed(
            offsets in prop::array::uniform3(-1_000_000i64..1_000_000),
            events in prop::collection::vec((0usize..3, 0i64..40, 0i64..30), 1..200),
        ) {
            let (mut log, mut true_time) = (Log::of(3), 0);
            let mut first = None;
            for (pool, gap, jitter) in events {
                true_time += gap;
                first = first.or(Some(true_time));
                log.observe(pool, true_time + offsets[pool] - jitter);
                prop_assert!(log.now.0 <= true_time - first.unwrap_or(0) + 90, "{:?} at {true_time}", log.now);
            }
        }
    }
}
