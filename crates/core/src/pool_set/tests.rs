//! A set of pools against pools that are driven one by one, in the order the core demands: observe, then move
//! the watermark, then close what is due.

use super::*;
use crate::pages::PageIds;
use crate::pool_config::PoolConfig;
use crate::units::PageSize;
use crate::window::WindowKind;
use proptest::prelude::*;

const NAMES: [&str; 3] = ["b", "a", "c"];

/// A record as drawn: which pool, when, how many of the pool's pages, and whether it counts.
type Draw = (usize, i64, u64, bool);

fn config() -> PoolConfig {
    PoolConfig {
        page_size: PageSize::new(1),
        windows: vec![
            WindowKind::Tumbling { size_ms: 10 },
            WindowKind::Last { requests: 3 },
            WindowKind::All,
        ],
        publish_every_ms: 20,
        allowed_lateness_ms: 5,
        grace_ms: 3,
        ..PoolConfig::default()
    }
}

fn set() -> PoolSet {
    set_with(None)
}

fn set_with(idle_after_ms: Option<u64>) -> PoolSet {
    let pools = Arc::new(PoolConfigs::new(config(), []).expect("usable"));
    let config = PoolSetConfig { pools, partition: 7, max_pools: NAMES.len(), idle_after_ms };
    PoolSet::new(config, History::Whole)
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

fn observe(set: &mut PoolSet, offset: usize, draw: &Draw, closed: &mut Vec<Estimate>) {
    with_event(draw, |event| {
        let offset = Offset(offset as i64);
        let record = PoolRecord { pool: NAMES[draw.0], event, offset, counted: draw.3 };
        let observed = set.observe(record, closed).expect("accepted");
        assert_eq!(observed.page_accesses, draw.2);
        assert_eq!(set.pools()[observed.pool].name(), NAMES[draw.0]);
    });
}

/// The order written out by hand over pools of its own.
fn by_hand(draws: &[Draw]) -> Vec<Estimate> {
    let mut pools: Vec<Pool> =
        NAMES.iter().map(|name| Pool::new(*name, 7, Arc::new(config())).expect("usable")).collect();
    let (mut latest, mut history, mut all) = (None::<i64>, History::Whole, Vec::new());
    for (offset, draw) in draws.iter().enumerate() {
        let watermark = latest.map(|time| EventTime(time - 5));
        let arrival = Arrival { offset: Offset(offset as i64), counted: draw.3, watermark };
        with_event(draw, |event| pools[draw.0].observe(event, arrival)).expect("accepted");
        history = history.after(EventTime(draw.1), draw.3);
        latest = latest.max(Some(draw.1));
        let watermark = EventTime(latest.expect("seen") - 5);
        let at = Moment { next_offset: Offset(offset as i64 + 1), missing: history.missing() };
        let mut closed = Vec::new();
        for pool in &mut pools {
            if pool.next_deadline().is_some_and(|deadline| deadline <= watermark) {
                pool.advance_watermark(watermark, at, &mut closed);
            }
        }
        closed.sort_by(|a, b| (a.end_ms, &a.pool).cmp(&(b.end_ms, &b.pool)));
        all.extend(closed);
    }
    all
}

proptest! {
    #[test]
    fn one_call_is_observe_then_watermark_then_deadlines(
        draws in prop::collection::vec((0usize..3, 0i64..120, 1u64..6, prop::bool::weighted(0.8)), 0..60),
        cut in 0usize..60,
    ) {
        let (mut set, mut closed) = (set(), Vec::new());
        for (offset, draw) in draws.iter().enumerate() {
            if offset == cut {
                let PoolSetImage { watermark, history, pools } = set.image();
                let bytes = postcard::to_allocvec(&(watermark, history, pools)).expect("serialises");
                let (watermark, history, pools) = postcard::from_bytes(&bytes).expect("what was written");
                let config = set.config.clone();
                set = PoolSet::restore(config, RestoredPoolSet { watermark, history, pools }).expect("the same");
            }
            observe(&mut set, offset, draw, &mut closed);
        }
        prop_assert_eq!(closed, by_hand(&draws));
    }
}

fn state(set: &PoolSet) -> Vec<u8> {
    let PoolSetImage { watermark, history, pools } = set.image();
    postcard::to_allocvec(&(watermark, history, pools)).expect("serialises")
}

proptest! {
    /// Estimates, what is open and every snapshot, whatever is put aside, whenever.
    #[test]
    fn a_pool_put_aside_comes_back_exactly(
        draws in prop::collection::vec((0usize..3, 0i64..200, 1u64..6, prop::bool::weighted(0.8)), 1..80),
        idle_after_ms in 0u64..60,
        restored_at in 0usize..80,
    ) {
        let (mut whole, mut putting) = (set(), set_with(Some(idle_after_ms)));
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
                let (watermark, history, pools) = postcard::from_bytes(&bytes).expect("what was written");
                let image = RestoredPoolSet { watermark, history, pools };
                putting = PoolSet::restore(putting.config.clone(), image).expect("the same");
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
}

#[test]
fn an_idle_pool_takes_less_memory_and_its_next_record_finds_its_pages() {
    let (mut set, mut closed) = (set_with(Some(50)), Vec::new());
    observe(&mut set, 0, &(0, 0, 5, true), &mut closed);
    let before = set.pools()[0].memory_bytes();
    observe(&mut set, 1, &(1, 49, 5, true), &mut closed);
    assert!(!set.pools()[0].is_aside());
    observe(&mut set, 2, &(1, 50, 5, true), &mut closed);
    assert!(set.pools()[0].is_aside() && !set.pools()[1].is_aside());
    let aside = set.pools()[0].memory_bytes();
    assert!(aside * 3 < before, "{aside} of {before} bytes");
    observe(&mut set, 3, &(0, 56, 5, true), &mut closed);
    let (outcome, _) = set.pools()[0].last_request().expect("a request");
    assert_eq!((set.pools()[0].is_aside(), outcome.reusable_prefix()), (false, 5));
}

#[test]
fn pools_beyond_the_bound_are_refused_and_the_others_go_on() {
    let pools = Arc::new(PoolConfigs::new(config(), []).expect("usable"));
    let mut set = PoolSet::new(
        PoolSetConfig { pools, partition: 0, max_pools: 1, idle_after_ms: None },
        History::Whole,
    );
    let mut closed = Vec::new();
    observe(&mut set, 0, &(0, 5, 2, true), &mut closed);
    let refused = with_event(&(1, 500, 2, true), |event| {
        set.observe(PoolRecord { pool: "a", event, offset: Offset(1), counted: true }, &mut closed)
    });
    assert_eq!(refused, Err(ObserveError::TooManyPools { limit: 1 }));
    assert_eq!((set.watermark(), closed.len()), (Some(EventTime(0)), 0), "a refused record moves nothing");
    observe(&mut set, 2, &(0, 6, 2, true), &mut closed);
    assert_eq!(set.pools().len(), 1);
}
