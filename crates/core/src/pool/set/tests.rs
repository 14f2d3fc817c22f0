//! A set of pools against pools that are driven one by one, and each of its pools against a set of its own.

use super::*;
use crate::engines::config::CacheConfig;
use crate::estimate::config::PoolConfig;
use crate::units::PageSize;
use crate::units::heap::HeapBytes;
use crate::units::pages::PageIds;
use crate::units::window::WindowKind;
use proptest::prelude::*;

const NAMES: [&str; 3] = ["b", "a", "c"];

/// A record as drawn: which pool, when, how many of the pool's pages, and whether it counts.
type Draw = (usize, i64, u64, bool);

fn config() -> PoolConfig {
    PoolConfig {
        cache: CacheConfig { page_size: PageSize::new(1), ..CacheConfig::default() },
        windows: vec![
            WindowKind::Tumbling { size_ms: 10 },
            WindowKind::Hopping { size_ms: 20, advance_ms: 5 },
            WindowKind::Last { requests: 3 },
            WindowKind::All,
        ],
        publish_every_ms: 20,
        allowed_lateness_ms: 5,
        max_lateness_ms: 12,
        grace_ms: 3,
        ..PoolConfig::default()
    }
}

/// Nothing happens to a pool that is not heard of.
fn patient() -> PoolSetConfig {
    PoolSetConfig {
        pools: Arc::new(PoolConfigs::new(config(), []).expect("usable")),
        partition: 7,
        max_pools: NAMES.len(),
        idle_timeout_ms: None,
        forget_after_ms: None,
        put_aside_after_ms: None,
    }
}

/// Pools become idle after 40 ms.
fn closing_idle() -> PoolSetConfig {
    PoolSetConfig { idle_timeout_ms: Some(40), ..patient() }
}

fn set_of(config: PoolSetConfig) -> PoolSet {
    PoolSet::new(config, PoolHistory::Whole)
}

fn with_event<R>(draw: &Draw, take: impl FnOnce(&RequestEvent<'_>) -> R) -> R {
    let ids: Vec<u64> = (1..=draw.2).collect();
    let event = RequestEvent {
        event_time: EventTime(draw.1),
        page_ids: PageIds::from_slice(&ids),
        ..RequestEvent::default()
    };
    take(&event)
}

fn observe(set: &mut PoolSet, offset: usize, draw: &Draw, closed: &mut Vec<Estimate>) -> Observed {
    let observed = observe_as(set, NAMES[draw.0], offset, draw, closed).expect("accepted");
    assert_eq!(observed.page_accesses, draw.2);
    assert_eq!(set.pools()[observed.pool].name(), NAMES[draw.0]);
    observed
}

fn observe_as(
    set: &mut PoolSet,
    pool: &str,
    offset: usize,
    draw: &Draw,
    closed: &mut Vec<Estimate>,
) -> Result<Observed, ObserveError> {
    with_event(draw, |event| {
        let record = PoolRecord::in_order(pool, event, Offset(offset as i64), draw.3);
        set.observe(record, closed)
    })
}

/// A log run through a set.
fn run(config: PoolSetConfig, draws: &[Draw]) -> (PoolSet, Vec<Estimate>) {
    let (mut set, mut closed) = (set_of(config), Vec::new());
    for (offset, draw) in draws.iter().enumerate() {
        observe(&mut set, offset, draw, &mut closed);
    }
    (set, closed)
}

/// The order written out by hand over pools of their own, each with its own watermark; none of them ever idle.
fn by_hand(draws: &[Draw]) -> Vec<Estimate> {
    let mut pools: Vec<Pool> =
        NAMES.iter().map(|name| Pool::new(*name, 7, Arc::new(config())).expect("usable")).collect();
    let mut times: [Vec<i64>; 3] = Default::default();
    let mut histories = [PoolHistory::Whole; 3];
    let mut marks = [None::<i64>; 3];
    let mut all = Vec::new();
    for (offset, draw) in draws.iter().enumerate() {
        let index = draw.0;
        let arrival = Arrival {
            offset: Offset(offset as i64),
            counted: draw.3,
            watermark: marks[index].map(EventTime),
        };
        with_event(draw, |event| pools[index].observe(event, arrival)).expect("accepted");
        histories[index] = histories[index].after(EventTime(draw.1), draw.3);
        times[index].push(draw.1);
        let latest = times[index].iter().max().expect("one");
        // As far behind as any event came behind one before it, from 5 to 12.
        let behind = (0..times[index].len())
            .map(|at| times[index][..=at].iter().max().expect("one") - times[index][at])
            .filter(|behind| *behind <= 12);
        let lateness = behind.max().unwrap_or(0).max(5);
        marks[index] = marks[index].max(Some(latest - lateness));
        let watermark = EventTime(marks[index].expect("seen"));
        let at = ShownMoment { next_offset: Offset(offset as i64 + 1), missing: histories[index].missing() };
        if pools[index].next_deadline().is_some_and(|deadline| deadline <= watermark) {
            pools[index].advance_watermark(watermark, at, &mut all);
        }
    }
    all
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    prop::collection::vec((0usize..3, 0i64..120, 1u64..6, prop::bool::weighted(0.8)), 0..60)
}

fn state(set: &PoolSet) -> Vec<u8> {
    let PoolSetImage { log, pools, timelines } = set.image();
    postcard::to_allocvec(&(log, pools, timelines)).expect("serialises")
}

fn restored(config: PoolSetConfig, bytes: &[u8]) -> Result<PoolSet, PoolSetRestoreError> {
    let (log, pools, timelines) = postcard::from_bytes(bytes).expect("what was written");
    PoolSet::restore(config, PoolSetImage { log, pools, timelines })
}

proptest! {
    #[test]
    fn one_call_is_observe_then_watermark_then_deadlines(draws in draws()) {
        prop_assert_eq!(run(patient(), &draws).1, by_hand(&draws));
    }

    #[test]
    fn a_restored_set_goes_on_as_if_it_had_never_stopped(draws in draws(), cut in 0usize..60) {
        let (unstopped, expected) = run(closing_idle(), &draws);
        let (mut set, mut closed) = (set_of(closing_idle()), Vec::new());
        for (offset, draw) in draws.iter().enumerate() {
            if offset == cut {
                set = restored(closing_idle(), &state(&set)).expect("the same configuration");
            }
            observe(&mut set, offset, draw, &mut closed);
        }
        prop_assert_eq!(closed, expected);
        prop_assert_eq!(state(&set), state(&unstopped));
    }

    /// Whatever the clocks of the pools say, and however far apart they stand.
    #[test]
    fn each_pool_is_estimated_as_if_it_were_alone(
        offsets in prop::array::uniform3(-100_000_000i64..100_000_000),
        records in prop::collection::vec((0usize..3, 0i64..10, 0i64..9, 1u64..6), 0..120),
    ) {
        // Nobody is silent for as long as makes idle: each pool is heard of every 12 records at least.
        let mut now = 0;
        let draws: Vec<Draw> = records.iter().enumerate().map(|(at, (pool, gap, back, pages))| {
            now += gap / 3;
            let pool = if at % 4 == 3 { at / 4 % 3 } else { *pool };
            (pool, now + offsets[pool] - back, *pages, true)
        }).collect();
        let (_, together) = run(closing_idle(), &draws);
        for (index, name) in NAMES.iter().enumerate() {
            let (mut alone, mut expected) = (set_of(closing_idle()), Vec::new());
            for (offset, draw) in draws.iter().enumerate().filter(|(_, draw)| draw.0 == index) {
                observe(&mut alone, offset, draw, &mut expected);
            }
            let own: Vec<_> = together.iter().filter(|estimate| estimate.pool == *name).cloned().collect();
            prop_assert_eq!(own, expected);
        }
    }

    /// Estimates, what is open and every snapshot, whatever is put aside, whenever.
    #[test]
    fn a_pool_put_aside_comes_back_exactly(
        draws in prop::collection::vec((0usize..3, 0i64..200, 1u64..6, prop::bool::weighted(0.8)), 1..80),
        put_aside_after_ms in 0u64..60,
        idle_timeout_ms in prop::option::of(1u64..50),
        restored_at in 0usize..80,
    ) {
        let config = PoolSetConfig { idle_timeout_ms, ..patient() };
        let putting = PoolSetConfig { put_aside_after_ms: Some(put_aside_after_ms), ..config.clone() };
        let (mut whole, mut putting) = (set_of(config), set_of(putting));
        let (mut expected, mut closed) = (Vec::new(), Vec::new());
        for (offset, draw) in draws.iter().enumerate() {
            observe(&mut whole, offset, draw, &mut expected);
            observe(&mut putting, offset, draw, &mut closed);
            prop_assert_eq!(&closed, &expected);
            let next = Offset(offset as i64 + 1);
            prop_assert_eq!(putting.provisional(next), whole.provisional(next));
            let bytes = state(&putting);
            prop_assert_eq!(&bytes, &state(&whole));
            if offset == restored_at {
                putting = restored(putting.config.clone(), &bytes).expect("the same");
            }
        }
        let end = Offset(draws.len() as i64);
        let [expected, finished] = [&mut whole, &mut putting].map(|set| {
            let mut finished = Vec::new();
            set.finish(end, &mut finished);
            // A restored set has its pools in order of name.
            finished.sort_by(|one, next| one.pool.cmp(&next.pool));
            finished
        });
        prop_assert_eq!(finished, expected);
    }

    /// No estimate of an idle pool is published twice, and none changes: neither what closed while it was idle nor what
    /// it adds when it comes back.
    #[test]
    fn no_window_is_published_twice(draws in draws()) {
        let (_, closed) = run(PoolSetConfig { idle_timeout_ms: Some(15), ..patient() }, &draws);
        let mut keys: Vec<_> =
            closed.iter().map(|estimate| (estimate.pool.clone(), estimate.window, estimate.end_ms)).collect();
        let published = keys.len();
        keys.sort();
        keys.dedup();
        prop_assert_eq!(keys.len(), published);
    }
}

/// What a pool has published of its tumbling windows: ends and requests.
fn tumbling(closed: &[Estimate], pool: &str) -> Vec<(i64, u64)> {
    let own = closed.iter().filter(|estimate| estimate.pool == pool);
    own.filter(|estimate| matches!(estimate.window, WindowKind::Tumbling { .. }))
        .map(|estimate| (estimate.end_ms, estimate.requests))
        .collect()
}

#[test]
fn an_event_far_ahead_closes_nothing_of_other_pools_and_makes_none_of_their_records_late() {
    let mut draws: Vec<Draw> = (0..30).map(|time| (0, time, 2, true)).collect();
    draws.insert(12, (1, 82_800_000, 2, true));
    let (mut set, mut closed) = (set_of(closing_idle()), Vec::new());
    for (offset, draw) in draws.iter().enumerate() {
        assert_eq!(observe(&mut set, offset, draw, &mut closed).late_by_ms, None);
    }
    assert_eq!(tumbling(&closed, "b"), [(10, 10), (20, 10)]);
}

#[test]
fn the_windows_of_an_idle_pool_close_as_others_tell_that_time_passes() {
    let mut draws: Vec<Draw> = (0..7).map(|time| (0, time, 2, true)).collect();
    // Another pool, whose clock is 23 hours behind.
    draws.extend((0..60).map(|time| (1, time - 82_800_000, 2, true)));
    let (set, closed) = run(closing_idle(), &draws);
    assert_eq!(tumbling(&closed, "b"), [(10, 7)]);
    let is_tumbling = |estimate: &&Estimate| matches!(estimate.window, WindowKind::Tumbling { .. });
    let closing = closed.iter().filter(is_tumbling).find(|estimate| estimate.pool == "b").expect("closed");
    assert_eq!(closing.next_offset, 7 + 40 + 1, "with the record that says that 40 ms have passed");
    assert_eq!(set.timelines()[0].watermark(), Some(EventTime(28)), "the last hopping window with a request");
    assert_eq!(set.timelines()[0].clock().map(PoolClock::watermark), set.timelines()[0].watermark());
}

/// A stranger that drained a day's backlog closed every window of a live pool early: 95 of 300 requests were missing.
#[test]
fn a_backlog_that_is_drained_beside_a_live_pool_takes_nothing_from_its_windows() {
    const SECOND: i64 = 1000;
    let windows = vec![WindowKind::Tumbling { size_ms: 300_000 }];
    let live = PoolConfig { windows, allowed_lateness_ms: 5_000, max_lateness_ms: 600_000, ..config() };
    let pools = PoolConfigs::new(live, []).expect("usable").into();
    let config = PoolSetConfig { pools, idle_timeout_ms: Some(120_000), ..patient() };
    let (mut set, mut closed, mut offset, mut late) = (set_of(config), Vec::new(), 0, 0);
    let mut observe_at = |set: &mut PoolSet, closed: &mut Vec<Estimate>, pool: usize, time: i64| {
        let behind = observe(set, offset, &(pool, time, 2, true), closed).late_by_ms;
        late += usize::from(pool == 0 && behind.is_some());
        offset += 1;
    };
    for second in 0..1_500 {
        observe_at(&mut set, &mut closed, 0, second * SECOND);
        // From the second window on, at 120 times real time; now and then the live pool is silent for seconds.
        if (300..1_020).contains(&second) {
            let gap = if second % 50 == 49 { 8 } else { 1 };
            for event in 0..120 * gap {
                observe_at(&mut set, &mut closed, 1, ((second - 720) * 120 + event - 864_000) * SECOND);
            }
        }
    }
    let own = tumbling(&closed, "b");
    assert_eq!(own, [(300_000, 300), (600_000, 300), (900_000, 300), (1_200_000, 300)]);
    // Alone again, and then silent: its last window closes as the other goes on.
    for second in 0..1_000 {
        observe_at(&mut set, &mut closed, 1, second * SECOND);
    }
    assert_eq!(tumbling(&closed, "b").last(), Some(&(1_500_000, 300)));
    assert_eq!(late, 0);
}

#[test]
fn a_pool_that_was_silent_in_error_loses_what_was_open_and_no_more() {
    let mut draws: Vec<Draw> = (0..7).map(|time| (0, time, 2, true)).collect();
    draws.extend((0..60).map(|time| (1, time, 2, true)));
    // It comes back where it was.
    draws.extend((7..60).map(|time| (0, time, 2, true)));
    let windows = vec![WindowKind::Tumbling { size_ms: 10 }];
    let pools = PoolConfigs::new(PoolConfig { windows, ..config() }, []).expect("usable");
    let mut set = set_of(PoolSetConfig { pools: pools.into(), ..closing_idle() });
    let (mut closed, mut late) = (Vec::new(), Vec::new());
    for (offset, draw) in draws.iter().enumerate() {
        late.extend(observe(&mut set, offset, draw, &mut closed).late_by_ms);
    }
    assert_eq!(tumbling(&closed, "b"), [(10, 7), (20, 10), (30, 10), (40, 10), (50, 10)]);
    assert_eq!(late, [0, 0, 0], "those of the window that was open");
}

#[test]
fn late_records_are_told_as_they_come_with_how_far_behind_they_are() {
    let (mut set, mut closed) = (set_of(patient()), Vec::new());
    let mut late = |offset, time| observe(&mut set, offset, &(0, time, 2, true), &mut closed).late_by_ms;
    assert_eq!([late(0, 5), late(1, 100), late(2, 99), late(3, 60)], [None, None, None, Some(40)]);
}

/// One pool's clock marked the windows of others incomplete.
#[test]
fn what_one_pool_did_not_count_marks_no_window_of_another() {
    let mut draws = vec![(1, 1000, 2, false)];
    draws.extend((0..30).map(|time| (0, time, 2, true)));
    let (_, closed) = run(patient(), &draws);
    assert!(!closed.is_empty() && closed.iter().all(|estimate| !estimate.warm_up));
}

#[test]
fn an_idle_pool_takes_less_memory_and_its_next_record_finds_its_pages() {
    let config = PoolSetConfig { put_aside_after_ms: Some(50), idle_timeout_ms: Some(20), ..patient() };
    let (mut set, mut closed) = (set_of(config), Vec::new());
    observe(&mut set, 0, &(0, 0, 5, true), &mut closed);
    let before = set.pools()[0].heap_bytes();
    for time in 0..50 {
        observe(&mut set, 1 + time, &(1, time as i64, 5, true), &mut closed);
    }
    assert!(!set.pools()[0].is_aside());
    observe(&mut set, 51, &(1, 50, 5, true), &mut closed);
    assert!(set.pools()[0].is_aside() && !set.pools()[1].is_aside());
    let aside = set.pools()[0].heap_bytes();
    assert!(aside * 3 < before, "{aside} of {before} bytes");
    observe(&mut set, 52, &(0, 56, 5, true), &mut closed);
    let (outcome, _) = set.pools()[0].last_request().expect("a request");
    assert_eq!((set.pools()[0].is_aside(), outcome.reusable_prefix()), (false, 5));
}

fn full(forget_after_ms: Option<u64>) -> PoolSetConfig {
    PoolSetConfig { max_pools: 1, forget_after_ms, ..closing_idle() }
}

#[test]
fn pools_beyond_the_bound_are_refused_and_the_others_go_on() {
    let (mut set, mut closed) = (set_of(full(None)), Vec::new());
    observe(&mut set, 0, &(0, 5, 2, true), &mut closed);
    let watermark = set.timelines()[0].watermark();
    let refused = observe_as(&mut set, "a", 1, &(1, 500, 2, true), &mut closed);
    assert_eq!(refused, Err(ObserveError::TooManyPools { limit: 1 }));
    assert_eq!(
        (set.timelines()[0].watermark(), closed.len()),
        (watermark, 0),
        "it moves no pool's watermark"
    );
    observe(&mut set, 2, &(0, 6, 2, true), &mut closed);
    assert_eq!(set.pools().len(), 1);
}

/// Pools are renamed with every release: those before were kept for ever, and the new ones refused.
#[test]
fn a_pool_that_died_makes_room_for_a_new_one_even_where_all_have_died() {
    let (mut set, mut closed) = (set_of(full(Some(100))), Vec::new());
    observe(&mut set, 0, &(0, 5, 2, true), &mut closed);
    let (mut refused, mut offset) = (0, 1);
    while observe_as(&mut set, "a", offset, &(1, 1_000 + offset as i64, 2, true), &mut closed).is_err() {
        (refused, offset) = (refused + 1, offset + 1);
        let bytes = state(&set);
        set = restored(full(Some(100)), &bytes).expect("sound at any time");
        assert_eq!(state(&set), bytes);
    }
    assert_eq!(refused, 100, "one a millisecond");
    assert_eq!(tumbling(&closed, "b"), [(10, 1)], "what was open was published");
    assert_eq!((set.take_forgotten(), set.take_created()), (vec![(0, "b".into())], vec![0]));
    assert_eq!(set.pools().iter().map(Pool::name).collect::<Vec<_>>(), ["a"]);
    // The one that was forgotten comes back, and is not taken for whole.
    for time in 0..200 {
        let draw = (0, 5_000 + time as i64, 2, true);
        drop(observe_as(&mut set, "b", offset + 1 + time, &draw, &mut closed));
    }
    let back: Vec<_> =
        closed.iter().filter(|estimate| estimate.pool == "b" && estimate.end_ms > 5_000).collect();
    assert!(back.iter().any(|estimate| estimate.window == WindowKind::All && estimate.warm_up));
    assert!(closed.iter().filter(|estimate| estimate.pool == "a").all(|estimate| !estimate.warm_up));
}

#[test]
fn a_pool_that_never_had_a_record_accepted_makes_room_at_once() {
    let (mut set, mut closed) = (set_of(full(Some(100))), Vec::new());
    let unsized_pools = PoolConfig { cache: CacheConfig { page_size: None, ..config().cache }, ..config() };
    set.config.pools = Arc::new(PoolConfigs::new(unsized_pools, []).expect("usable"));
    for (offset, name) in ["a", "b", "c"].into_iter().enumerate() {
        let refused = observe_as(&mut set, name, offset, &(0, 5, 2, true), &mut closed);
        assert_eq!(refused, Err(ObserveError::Refused(Refusal::UnknownPageSize)), "{name}");
        assert_eq!(set.pools()[0].name(), name);
    }
}

/// What a snapshot of a set holds.
type Written = (LogState, Vec<(Box<str>, RestoredPool)>, Vec<Timeline>);

/// State of when the pools of a partition shared a watermark is never taken for that of pools with clocks.
#[test]
fn pools_without_their_clocks_are_refused() {
    let (set, _) = run(patient(), &[(0, 5, 2, true)]);
    let image = |timelines: Vec<Timeline>| {
        let (log, pools, _): Written = postcard::from_bytes(&state(&set)).expect("what was written");
        PoolSet::restore(patient(), PoolSetImage { log, pools, timelines })
    };
    let line = set.timelines()[0];
    assert!(image(vec![line]).is_ok());
    for timelines in [vec![], vec![line, line], vec![Timeline::new(PoolHistory::Whole)]] {
        assert_eq!(image(timelines).err(), Some(PoolSetRestoreError::Clocks));
    }
}

#[test]
fn a_lost_log_marks_every_pool() {
    let (mut set, mut closed) = run(patient(), &[(0, 5, 2, true), (1, 5, 2, true)]);
    set.lose_history();
    for (offset, pool) in [0, 1, 2].into_iter().enumerate() {
        observe(&mut set, 10 + offset, &(pool, 200, 2, true), &mut closed);
    }
    set.finish(Offset(20), &mut closed);
    let last = closed.iter().filter(|estimate| estimate.window == WindowKind::All);
    let marked: std::collections::BTreeSet<_> =
        last.filter(|estimate| estimate.warm_up).map(|estimate| &*estimate.pool).collect();
    assert_eq!(marked.len(), 3, "{marked:?}");
}
