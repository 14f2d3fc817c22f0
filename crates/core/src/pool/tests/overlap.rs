//! What a pool says of requests in flight, window by window.

use super::super::*;
use super::{PAGE_SIZE, event, ratios};
use crate::engines::config::CacheConfig;
use crate::engines::profile::{OverlapMode, Profile};
use crate::engines::rules::EngineRules;
use crate::sizing::tiers::TrendRules;
use crate::stack::naive::chained_requests;
use crate::units::ratio::Ratio;
use crate::units::window::WindowKind;
use crate::windows::in_flight::InFlight;
use proptest::prelude::*;

fn config() -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(PAGE_SIZE),
            kv_bytes_per_token: Some(2.5),
            target_ratios: ratios(&["1"]),
            coverages: ratios(&["0.5", "1"]),
            ..CacheConfig::default()
        },
        windows: ["tumbling:10ms", "hopping:20ms/10ms", "last:7", "all"]
            .map(|text| text.parse().expect("a window"))
            .into(),
        publish_every_ms: 0,
        min_requests: 1,
        ..PoolConfig::default()
    }
}

fn run(config: PoolConfig, requests: &[RequestEvent<'_>]) -> Vec<Estimate> {
    let mut pool = Pool::new("p", 0, Arc::new(config)).expect("usable");
    for (number, request) in requests.iter().enumerate() {
        let arrival = Arrival { offset: Offset(number as i64), counted: true, watermark: None };
        pool.observe(request, arrival).expect("accepted");
    }
    let mut estimates = Vec::new();
    pool.finish(Offset(requests.len() as i64), &mut estimates);
    estimates
}

proptest! {
    #[test]
    fn every_window_tells_the_most_its_requests_met_and_adds_it_to_the_requirement(
        requests in chained_requests(40),
        durations in prop::collection::vec(0u64..40, 40),
    ) {
        let timed = requests.iter().zip(&durations).enumerate();
        let events: Vec<_> = timed
            .map(|(number, (ids, duration))| {
                RequestEvent { duration_ms: Some(*duration), ..event(number as i64, ids) }
            })
            .collect();
        let page_size = PageSize::new(PAGE_SIZE).expect("not zero");
        let cache = CacheConfig { max_tracked_pages: PageCount(1 << 20), ..CacheConfig::default() };
        let mut in_flight = InFlight::default();
        let met: Vec<_> = events.iter().filter_map(|event| in_flight.arrive(event, page_size, &cache)).collect();
        prop_assert_eq!(met.len(), events.len());
        for estimate in run(config(), &events) {
            let covered = match estimate.window {
                WindowKind::All => 0..events.len(),
                WindowKind::Last { requests: last } => events.len().saturating_sub(last as usize)..events.len(),
                _ => estimate.start_ms.max(0) as usize..events.len().min(estimate.end_ms as usize),
            };
            let met = &met[covered];
            let found = estimate.in_flight.as_ref().expect("durations are told");
            let most = met.iter().map(|overlap| overlap.pages).max().expect("no window is empty");
            prop_assert_eq!(found.max_pages, Some(most), "{}", estimate.window);
            prop_assert_eq!(Some(found.max_requests), met.iter().map(|overlap| overlap.requests).max());
            prop_assert_eq!(found.max_bytes, Some(most * 10));
            let mean = met.iter().map(|overlap| overlap.pages).sum::<u64>() as f64 / met.len() as f64;
            prop_assert_eq!(found.mean_pages, Some(mean));
            for (alone, with_room) in estimate.required[0].coverage.iter().zip(&found.required[0].coverage) {
                prop_assert_eq!(with_room.coverage, alone.coverage);
                prop_assert_eq!(with_room.pages, alone.pages.map(|pages| pages + most));
                prop_assert_eq!(with_room.bytes, with_room.pages.map(|pages| pages * 10));
            }
        }
    }
}

#[test]
fn a_plan_has_room_for_what_others_hold_in_the_first_tier_alone() {
    let tiers = ["hbm:0.5:1p", "dram:1:1p"].map(|text| text.parse().expect("a tier"));
    let config = PoolConfig { tiers: tiers.into(), ..config() };
    let units = |durations: [u64; 4]| {
        let ids: [&[u64]; 4] = [&[1, 2, 3], &[4, 5], &[1, 2, 3], &[4, 5]];
        let events: Vec<_> = (0..4)
            .map(|at| RequestEvent { duration_ms: Some(durations[at]), ..event(at as i64, ids[at]) })
            .collect();
        let all = run(config.clone(), &events).pop().expect("all");
        let plan = all.plan.expect("tiers are configured");
        let pinned = all.in_flight.expect("durations are told").max_pages.expect("within the bound");
        let found = plan.tiers.iter().map(|tier| (tier.planned.units, tier.recommended.units));
        (pinned, found.collect::<Vec<_>>(), plan.tiers[0].planned.reach_pages)
    };
    let (none, alone, reach) = units([0; 4]);
    let (pinned, together, reach_beside) = units([9; 4]);
    assert!(none == 0 && pinned > 0, "{none} {pinned}");
    assert_eq!(reach_beside, reach, "pinned pages hold nothing to reuse");
    let with_room = |units: Option<u64>| units.map(|units| units + pinned);
    assert_eq!(together[0], (with_room(alone[0].0), with_room(alone[0].1)));
    assert_eq!(together[1], alone[1], "the tier below holds none of it");
}

/// Two sessions take turns, each while the other is in flight.
#[test]
fn where_overlap_is_modelled_nothing_has_room_that_the_requirement_counts() {
    let rules = EngineRules { overlap: OverlapMode::On, ..EngineRules::default() };
    let tiers = vec!["hbm:1:1p".parse().expect("a tier")];
    let serial = PoolConfig {
        cache: CacheConfig { profile: Profile::LeafFirst, ..config().cache },
        tiers,
        ..config()
    };
    let modelled = PoolConfig { cache: CacheConfig { rules, ..serial.cache.clone() }, ..serial.clone() };
    let (first, second): (&[u64], &[u64]) = (&[1, 2, 3], &[4, 5]);
    let events: Vec<_> = (0..8)
        .map(|at| (at * 10, if at % 2 == 0 { first } else { second }))
        .map(|(time, ids)| RequestEvent { duration_ms: Some(15), ..event(time, ids) })
        .collect();
    let [all, one_by_one] = [modelled, serial].map(|config| {
        let mut estimates = run(config, &events).into_iter();
        estimates.find(|estimate| estimate.window == WindowKind::All).expect("all")
    });
    let found = all.in_flight.as_ref().expect("durations are told");
    assert!(found.modelled && found.required.is_empty() && found.room() == Some(0), "{found:?}");
    // The first of all met nobody.
    let held = (found.max_requests, found.max_pages, found.p99_pages, found.mean_pages);
    assert_eq!(held, (1, Some(3), Some(3), Some(18.0 / 8.0)));
    let needed = all.recommended.last().expect("a coverage of 1");
    assert_eq!((needed.pages, needed.required_pages, needed.in_flight_pages), (Some(5), Some(5), None));
    assert_eq!(all.plan.expect("a tier").tiers[0].planned.units, Some(5));
    let with_room = one_by_one.recommended.last().expect("a coverage of 1");
    assert_eq!(
        (with_room.required_pages, with_room.in_flight_pages),
        (Some(5), Some(4)),
        "a rest that fills no page, too"
    );
    assert_eq!(one_by_one.plan.expect("a tier").tiers[0].planned.units, Some(9));
}

#[test]
fn a_recommendation_keeps_the_room_through_a_calm_window() {
    let trend = TrendRules { step_ms: 0, min_change: Ratio::ONE, hold: 3, ..TrendRules::default() };
    let tiers = vec!["hbm:0.5:1p".parse().expect("a tier")];
    let (first, second): (&[u64], &[u64]) = (&[1, 2, 3], &[4, 5]);
    let events = [(0, 5, first), (1, 5, second), (10, 0, first), (11, 0, second)]
        .map(|(time, duration, ids)| RequestEvent { duration_ms: Some(duration), ..event(time, ids) });
    let mut windows = run(PoolConfig { tiers, trend, ..config() }, &events);
    windows.retain(|estimate| matches!(estimate.window, WindowKind::Tumbling { .. }));
    let room = |at: usize| windows[at].in_flight.as_ref().and_then(|found| found.max_pages).expect("told");
    assert!(room(0) > 0 && room(1) == 0, "{} {}", room(0), room(1));
    let tier = &windows[1].plan.as_ref().expect("a tier is configured").tiers[0];
    let planned = tier.planned.units.expect("within the bound");
    assert_eq!(tier.recommended.units, Some(planned + room(0)));
}

#[test]
fn requests_one_after_another_add_nothing_and_a_log_without_durations_says_nothing() {
    let one_by_one = [0, 5, 10].map(|time| RequestEvent { duration_ms: Some(5), ..event(time, &[1, 2, 3]) });
    let all = run(config(), &one_by_one).pop().expect("all");
    let found = all.in_flight.expect("durations are told");
    assert_eq!((found.max_requests, found.max_pages, found.mean_pages), (0, Some(0), Some(0.0)));
    assert_eq!(found.required[0].coverage[1].pages, all.required[0].coverage[1].pages);
    let untimed = [0, 5, 10].map(|time| event(time, &[1, 2, 3]));
    assert!(run(config(), &untimed).iter().all(|estimate| estimate.in_flight.is_none()));
}

#[test]
fn more_in_flight_than_the_bound_is_no_number() {
    let ids: Vec<u64> = (1..=20).collect();
    let overlapping = [0, 1].map(|time| RequestEvent { duration_ms: Some(50), ..event(time, &ids) });
    let config = PoolConfig {
        cache: CacheConfig { max_tracked_pages: PageCount(8), ..config().cache },
        tiers: vec!["hbm:0.5:1p".parse().expect("a tier")],
        ..config()
    };
    let all = run(config, &overlapping).pop().expect("all");
    let found = all.in_flight.expect("durations are told");
    assert_eq!((found.max_pages, found.max_bytes, found.mean_pages), (None, None, None));
    assert!(found.required[0].coverage.iter().all(|entry| entry.pages.is_none()));
    let tier = &all.plan.expect("a tier is configured").tiers[0];
    assert_eq!((tier.planned.units, tier.recommended.units, tier.beyond_bound), (None, None, true));
}
