//! Small cases with figures worked out by hand.

use super::super::*;
use super::{PAGE_SIZE, event, ratios};
use crate::engines::config::CacheConfig;
use crate::engines::profile::Profile;
use crate::request::labels::{Label, Labels};
use crate::sizing::tiers::TrendRules;
use crate::stack::ChainPolicy;
use crate::units::PageCount;
use crate::units::heap::HeapBytes;
use crate::units::pages::PageIds;
use crate::units::ratio::Ratio;
use crate::units::window::WindowKind;
use crate::windows::missing::MissingRecords;

fn windows(texts: &[&str]) -> Vec<WindowKind> {
    texts.iter().map(|text| text.parse().expect("a window")).collect()
}

fn config(texts: &[&str]) -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(PAGE_SIZE),
            target_ratios: ratios(&["1"]),
            coverages: ratios(&["0.5", "1"]),
            ..CacheConfig::default()
        },
        windows: windows(texts),
        allowed_lateness_ms: 0,
        min_requests: 1,
        max_lateness_ms: 0,
        ..PoolConfig::default()
    }
}

fn pool(config: PoolConfig) -> Pool {
    Pool::new("p", 0, Arc::new(config)).expect("a usable configuration")
}

fn at(offset: i64, watermark: Option<i64>) -> Arrival {
    Arrival { offset: Offset(offset), counted: true, watermark: watermark.map(EventTime) }
}

fn advance(pool: &mut Pool, watermark: i64) -> Vec<Estimate> {
    let mut estimates = Vec::new();
    pool.advance_watermark(EventTime(watermark), Offset(99), &mut estimates);
    estimates
}

fn finish(mut pool: Pool) -> Vec<Estimate> {
    let mut estimates = Vec::new();
    pool.finish(Offset(99), &mut estimates);
    estimates
}

#[test]
fn the_worked_case_of_the_definitions() {
    let mut pool = pool(PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(1),
            kv_bytes_per_token: Some(2.5),
            capacities: ["1p", "2p"].map(|text| text.parse().expect("pages")).into(),
            include_partial_page: true,
            ..config(&["all"]).cache
        },
        ..config(&["all"])
    });
    let request = |ids| RequestEvent { page_ids: ids, ..RequestEvent::default() };
    pool.observe(&request(PageIds::from_slice(&[1, 2])), at(0, None)).expect("accepted");
    pool.observe(&request(PageIds::from_slice(&[1, 3])), at(1, None)).expect("accepted");
    let estimates = finish(pool);
    let [all] = &estimates[..] else { panic!("one window, not {}", estimates.len()) };
    assert_eq!((all.requests, all.requests_with_reuse, all.page_accesses), (2, 1, 4));
    assert_eq!((all.distinct_pages, all.accumulated_pages, all.accumulated_bytes), (3, 3, Some(9)));
    let [half, whole] = &all.required[0].coverage[..] else { panic!("two coverages") };
    assert_eq!((half.pages, half.pages_with_reuse), (Some(0), Some(2)), "the first request needs nothing");
    assert_eq!((whole.pages, whole.bytes, whole.tokens), (Some(2), Some(6), Some(2)));
    assert_eq!((all.required[0].mean_pages, all.required[0].max_pages), (Some(1.0), Some(2)));
    let hits: Vec<_> = all.capacities.iter().map(|point| point.prefix_hits).collect();
    assert_eq!(hits, [Some(0), Some(1)]);
    assert_eq!(all.capacities[1].relative_prefill_throughput, Some(4.0 / 3.0));
    assert_eq!((all.theoretical.page_hits, all.theoretical.page_hit_rate), (1, 0.25));
}

#[test]
fn a_year_of_nothing_costs_nothing_and_publishes_nothing() {
    let mut pool =
        pool(PoolConfig { publish_every_ms: 1, ..config(&["tumbling:1ms", "hopping:8ms/1ms", "all"]) });
    pool.observe(&event(5, &[1]), at(0, None)).expect("accepted");
    assert_eq!(pool.next_deadline(), Some(EventTime(6)));
    const YEAR: i64 = 366 * 86_400_000;
    let ends: Vec<(WindowKind, i64)> =
        advance(&mut pool, YEAR).iter().map(|estimate| (estimate.window, estimate.end_ms)).collect();
    let mut expected: Vec<_> = (6..14).map(|end| (windows(&["hopping:8ms/1ms"])[0], end)).collect();
    expected.insert(0, (windows(&["tumbling:1ms"])[0], 6));
    expected.push((WindowKind::All, YEAR));
    assert_eq!(ends, expected);
    assert_eq!(pool.next_deadline(), None, "nothing is open and nothing new was counted");
    assert!(advance(&mut pool, 2 * YEAR).is_empty());
}

#[test]
fn a_late_record_is_counted_and_left_out_but_touches_the_stack() {
    let mut pool = pool(PoolConfig { grace_ms: 5, ..config(&["tumbling:10ms", "hopping:20ms/10ms", "all"]) });
    pool.observe(&event(8, &[1]), at(0, None)).expect("accepted");
    assert!(advance(&mut pool, 14).is_empty(), "the grace has not passed");
    assert_eq!(advance(&mut pool, 15).len(), 2);
    pool.observe(&event(9, &[1, 2]), at(1, Some(15))).expect("accepted");
    pool.observe(&event(20, &[1, 2, 3]), at(2, Some(15))).expect("accepted");
    let estimates = finish(pool);
    let told: Vec<_> = estimates
        .iter()
        .map(|estimate| {
            (estimate.window.to_string(), estimate.end_ms, estimate.requests, estimate.late_records)
        })
        .collect();
    let expected = [
        ("hopping:20ms/10ms", 20, 2, 1),
        ("all", 21, 3, 0),
        ("tumbling:10ms", 30, 1, 1),
        ("hopping:20ms/10ms", 30, 1, 1),
        ("hopping:20ms/10ms", 40, 1, 1),
    ];
    assert_eq!(told, expected.map(|(kind, end, requests, late)| (kind.to_owned(), end, requests, late)));
    assert_eq!(estimates[2].theoretical.prefix_hits, 2, "the late record's pages are in the stack");
}

#[test]
fn a_window_closed_while_the_pool_was_silent_stays_closed() {
    let mut pool = pool(config(&["tumbling:10ms", "hopping:20ms/10ms"]));
    pool.observe(&event(5, &[1]), at(7, Some(31))).expect("accepted");
    assert_eq!(pool.next_deadline(), None, "both windows it belongs to are closed");
    pool.observe(&event(15, &[1]), at(8, Some(21))).expect("accepted");
    assert!(finish(pool).is_empty(), "a watermark never goes back");
}

#[test]
fn extreme_times_are_taken_as_they_are() {
    let mut pool = pool(PoolConfig {
        grace_ms: 3,
        allowed_lateness_ms: 7,
        min_history_ms: 9,
        publish_every_ms: 10,
        ..config(&["tumbling:10ms", "hopping:20ms/10ms", "last:1", "all"])
    });
    for (offset, time) in [i64::MIN, 0, i64::MAX, i64::MIN].into_iter().enumerate() {
        pool.observe(&event(time, &[1]), at(offset as i64, None)).expect("accepted");
    }
    let closed = advance(&mut pool, i64::MAX);
    assert!(closed.iter().any(|estimate| estimate.window == WindowKind::All && estimate.requests == 4));
    finish(pool);
}

#[test]
fn refused_requests_change_nothing_and_are_counted() {
    let mut pool = pool(PoolConfig {
        cache: CacheConfig {
            page_size: None,
            max_pages_per_request: 3,
            chain_check: crate::stack::ChainCheck::Full,
            chain_policy: ChainPolicy::Reject,
            ..config(&["all"]).cache
        },
        ..config(&["all"])
    });
    let sized = |size, ids, tokens| RequestEvent {
        page_size: size,
        page_ids: PageIds::from_slice(ids),
        input_tokens: tokens,
        ..RequestEvent::default()
    };
    let (four, eight) = (PageSize::new(4), PageSize::new(8));
    let refusals = [
        (sized(None, &[1], None), "unknown_page_size"),
        (sized(eight, &[1, 2, 3, 4], None), "too_many_pages"),
        (sized(four, &[1, 2], None), ""),
        (sized(eight, &[1], None), "page_size_mismatch"),
        (sized(four, &[1, 2], Some(13)), "page_count_mismatch"),
        (sized(four, &[1, 2], Some(4)), "page_count_mismatch"),
        (sized(four, &[2], None), "chain_violation"),
        (sized(None, &[1, 2], Some(11)), ""),
    ];
    for (offset, (event, code)) in refusals.iter().enumerate() {
        let refused = pool.observe(event, at(offset as i64, None)).map_err(|refusal| refusal.code());
        assert_eq!(refused.err().unwrap_or_default(), *code, "record {offset}");
    }
    assert_eq!((pool.page_size(), pool.rejected_records()), (four, 6));
    let all = &finish(pool)[0];
    assert_eq!((all.requests, all.rejected_records, all.accumulated_pages), (2, 6, 2));
    assert_eq!((all.first_offset, all.theoretical.prefix_hits), (2, 2));
}

/// The same request, of ids of a scheme.
fn of_scheme<'a>(ids: &'a [u64], scheme: &'a str) -> RequestEvent<'a> {
    RequestEvent { labels: Labels::from_iter([(Label::IdScheme, scheme)]), ..event(0, ids) }
}

#[test]
fn ids_of_a_second_scheme_are_refused_by_name_and_unknown_ones_are_not() {
    let mut pool = pool(config(&["all"]));
    let mut observe =
        |event: &RequestEvent<'_>| pool.observe(event, at(0, None)).map_err(|refusal| refusal.to_string());
    assert!(observe(&event(0, &[1])).is_ok(), "nothing is known yet");
    assert!(observe(&of_scheme(&[1], "")).is_err_and(|why| why.contains("1 to 48 visible ASCII characters")));
    assert!(observe(&of_scheme(&[1], "vllm:sha256_cbor:4")).is_ok());
    assert!(observe(&event(0, &[1])).is_ok(), "not known, and never refused");
    let why = observe(&of_scheme(&[1], "kvset:xxh3:4")).expect_err("another scheme");
    assert!(why.contains("of scheme kvset:xxh3:4, its pool's of vllm:sha256_cbor:4"), "{why}");
    assert!(why.contains("a pool of its own"), "the cure: {why}");
    assert!(observe(&of_scheme(&[1], "vllm:sha256_cbor:4")).is_ok());
    assert_eq!(pool.id_scheme().map(|scheme| scheme.to_string()).as_deref(), Some("vllm:sha256_cbor:4"));
    assert_eq!((pool.rejected_records(), finish(pool)[0].requests), (2, 4));
}

#[test]
fn a_refused_request_names_no_scheme_for_its_pool() {
    let mut pool = pool(PoolConfig {
        cache: CacheConfig { max_pages_per_request: 2, ..config(&["all"]).cache },
        ..config(&["all"])
    });
    assert!(pool.observe(&of_scheme(&[1, 2, 3], "one"), at(0, None)).is_err());
    assert!(pool.observe(&of_scheme(&[1], "other"), at(1, None)).is_ok());
}

#[test]
fn caches_that_serve_ahead_leave_out_requests_of_another_scheme() {
    let capacities = ["2p", "6p"].map(|text| text.parse().expect("pages")).into();
    let sglang = PoolConfig {
        cache: CacheConfig { profile: Profile::Sglang, capacities, ..config(&["all"]).cache },
        ..config(&["all"])
    };
    let events = [
        of_scheme(&[1, 2], "one"),
        of_scheme(&[1, 3, 4], "other"),
        of_scheme(&[1, 2, 5], "one"),
        of_scheme(&[1, 3, 4], "other"),
        event(0, &[1, 3]),
    ];
    let run = |is_ahead: bool| {
        let mut pool = pool(sglang.clone());
        pool.observe(&event(0, &[9]), at(0, None)).expect("accepted");
        if is_ahead {
            pool.serve_ahead(events.iter(), |lanes| lanes.iter_mut().for_each(Lane::serve));
        }
        let taken = |event| pool.observe(event, at(1, None)).is_ok();
        let taken: Vec<bool> = events.iter().map(taken).collect();
        (taken, finish(pool))
    };
    assert_eq!(run(true), run(false));
    assert_eq!(run(true).0, [true, false, true, false, true]);
}

#[test]
fn records_that_warm_up_touch_but_do_not_count() {
    let mut pool = pool(PoolConfig { min_history_ms: 10, ..config(&["tumbling:10ms"]) });
    let warming = Arrival { counted: false, ..at(0, None) };
    pool.observe(&event(15, &[1, 2]), warming).expect("accepted");
    assert_eq!(pool.next_deadline(), None);
    pool.observe(&event(22, &[1, 2]), at(1, None)).expect("accepted");
    pool.observe(&event(35, &[1, 2]), at(2, None)).expect("accepted");
    let told: Vec<_> = finish(pool)
        .iter()
        .map(|estimate| {
            (estimate.start_ms, estimate.requests, estimate.requests_with_reuse, estimate.warm_up)
        })
        .collect();
    assert_eq!(told, [(20, 1, 1, true), (30, 1, 1, false)]);
}

#[test]
fn a_recommendation_never_shrinks_on_a_window_that_warms_up() {
    let trend = TrendRules { step_ms: 0, hold: 1, ..TrendRules::default() };
    let tiers = vec!["ram:1:1p".parse().expect("a tier")];
    let mut pool = pool(PoolConfig { tiers, trend, ..config(&["tumbling:10ms"]) });
    let mut recommended = |window: i64, ids: &[u64], missing_before: Option<i64>| {
        for (offset, time) in [1, 5].map(|ms| 10 * window + ms).into_iter().enumerate() {
            pool.observe(&event(time, ids), at(2 * window + offset as i64, None)).expect("accepted");
        }
        let moment = ShownMoment {
            next_offset: Offset(2 * window + 2),
            missing: MissingRecords {
                unseen_before: missing_before.map(EventTime),
                ..MissingRecords::default()
            },
        };
        let mut closed = Vec::new();
        pool.advance_watermark(EventTime(10 * window + 10), moment, &mut closed);
        let tier = closed[0].plan.as_ref().expect("a plan").tiers[0].clone();
        (tier.planned.units, tier.recommended.units, closed[0].warm_up)
    };
    assert_eq!(recommended(0, &[1, 2, 3, 4, 5], None), (Some(5), Some(5), false));
    assert_eq!(recommended(1, &[1, 2], Some(15)), (Some(5), Some(5), true));
    assert_eq!(recommended(2, &[1, 2], Some(25)), (Some(2), Some(5), true), "less is asked for");
    assert_eq!(recommended(3, &[1, 2], Some(25)), (Some(2), Some(2), false), "and now it counts");
}

#[test]
fn what_lies_beyond_the_bound_is_no_number() {
    let mut pool = pool(PoolConfig {
        cache: CacheConfig {
            max_tracked_pages: PageCount(4),
            capacities: ["4p", "5p"].map(|text| text.parse().expect("pages")).into(),
            ..config(&["all"]).cache
        },
        ..config(&["all"])
    });
    for (offset, ids) in [&[1, 2][..], &[3, 4, 5], &[1, 2], &[1, 2]].into_iter().enumerate() {
        pool.observe(&event(0, ids), at(offset as i64, None)).expect("accepted");
    }
    let all = &finish(pool)[0];
    let required = &all.required[0];
    assert_eq!((required.mean_pages, required.max_pages), (None, None));
    let told: Vec<_> = required.coverage.iter().map(|at| (at.pages, at.beyond_bound)).collect();
    assert_eq!(told, [(Some(0), false), (None, true)]);
    assert_eq!(required.coverage[0].pages_with_reuse, Some(2), "the third request is beyond, the fourth not");
    let hits: Vec<_> = all.capacities.iter().map(|at| (at.prefix_hits, at.beyond_bound)).collect();
    assert_eq!(hits, [(Some(2), false), (None, true)]);
    assert_eq!((all.theoretical.prefix_hits, all.accumulated_pages), (4, 5));
}

#[test]
fn a_sampled_pool_answers_in_whole_pages() {
    let rate: Ratio = "0.125".parse().expect("a share");
    let mut pool = pool(PoolConfig {
        cache: CacheConfig {
            sample_rate: rate,
            capacities: ["8000p"].map(|text| text.parse().expect("pages")).into(),
            ..config(&["all"]).cache
        },
        ..config(&["all"])
    });
    let ids: Vec<u64> = (0..8000).collect();
    for offset in 0..2 {
        pool.observe(&event(0, &ids), at(offset, None)).expect("accepted");
    }
    let all = &finish(pool)[0];
    let near = |found: u64, expected: u64| {
        assert!(
            found.is_multiple_of(8) && found.abs_diff(expected) < expected / 10,
            "{found} for {expected}"
        );
    };
    near(all.page_accesses, 16_000);
    near(all.distinct_pages, 8000);
    near(all.accumulated_pages, 8000);
    near(all.required[0].max_pages.expect("within the bound"), 8000);
    assert_eq!((all.requests, all.sample_rate, all.theoretical.page_hit_rate), (2, 0.125, 0.5));
    assert!(all.sample_error > 0.02 && all.sample_error < 0.04, "{}", all.sample_error);
}

#[test]
fn a_page_seen_earlier_but_dated_later_is_distinct_in_windows_without_that_date() {
    let mut pool = pool(config(&["hopping:20ms/10ms"]));
    pool.observe(&event(25, &[1]), at(0, None)).expect("accepted");
    pool.observe(&event(15, &[1]), at(1, None)).expect("accepted");
    let told: Vec<_> = finish(pool).iter().map(|it| (it.end_ms, it.requests, it.distinct_pages)).collect();
    assert_eq!(told, [(20, 1, 1), (30, 2, 1), (40, 1, 1)]);
}

#[test]
fn memory_stays_flat_however_long_the_stream() {
    let mut pool = pool(PoolConfig {
        publish_every_ms: 50,
        ..config(&["tumbling:10ms", "hopping:40ms/10ms", "last:100", "all"])
    });
    let mut estimates = Vec::new();
    let mut memory_after = |requests: std::ops::Range<i64>| {
        for time in requests {
            let ids: Vec<u64> = (0..1 + time % 7).map(|page| (time % 11 * 100 + page) as u64).collect();
            pool.observe(&event(time, &ids), at(time, Some(time - 1))).expect("accepted");
            if pool.next_deadline().is_some_and(|due| due.0 <= time) {
                estimates.clear();
                pool.advance_watermark(EventTime(time), Offset(time), &mut estimates);
            }
        }
        pool.live.as_ref().map_or(0, |live| live.windows.heap_bytes())
    };
    let early = memory_after(0..5_000);
    let late = memory_after(5_000..20_000);
    assert!(early > 0 && late <= early + early / 4, "{early} bytes, then {late}");
}

#[test]
fn state_is_not_reinterpreted_under_another_configuration() {
    let mut source = pool(config(&["tumbling:10ms", "last:3", "all"]));
    source.observe(&event(5, &[1, 2]), at(0, None)).expect("accepted");
    let image = postcard::to_allocvec(&source.image()).expect("memory");
    let restore = |config: PoolConfig, image: &[u8]| {
        let read = postcard::from_bytes(image).map_err(|error| error.to_string())?;
        Pool::restore("p", 0, Arc::new(config), read).map_err(|error| error.to_string())
    };
    let same = source.config().clone();
    let other = PoolConfig { grace_ms: 1, ..same.clone() };
    assert!(restore(other, &image).expect_err("refused").contains("rebuild it from the log"));
    assert!(restore(same.clone(), &image[..image.len() - 1]).is_err(), "truncated");
    for at in 0..image.len() {
        let mut rotten = image.clone();
        rotten[at] ^= 1;
        // Whatever a flipped bit means, it is an error or a pool that can be looked at.
        if let Ok(pool) = restore(same.clone(), &rotten) {
            pool.provisional(Offset(1));
        }
    }
}
