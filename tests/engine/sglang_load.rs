//! SGLang's cache while requests overlap, against a slow transcription that serves a token at a time.

use crate::asked::{Asked, asked, to_event};
use crate::support::slow_hicache::SlowHicache;
use crate::support::slow_load::{SlowCache, SlowLoad, Times};
use crate::support::slow_sglang::{SlowAsked, SlowSglang};
use kvset::core::engines::profile::{Outputs, OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::engines::sglang::WritePolicy;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::{EventTime, Offset, PageCount, PageSize};
use kvset_core::engines::config::CacheConfig;
use proptest::prelude::*;
use std::sync::Arc;

fn config(capacity: u64, page: u64, outputs: Outputs) -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            profile: Profile::Sglang,
            rules: EngineRules { overlap: OverlapMode::On, ..EngineRules::default() }
                .of_profile(Profile::Sglang),
            outputs,
            page_size: PageSize::new(page as u32),
            capacities: vec![format!("{capacity}p").parse().expect("pages")],
            max_tracked_pages: PageCount(100_000),
            ..CacheConfig::default()
        },
        ..PoolConfig::default()
    }
}

/// A request, how long after the one before it arrives, and how long it takes.
fn timed() -> impl Strategy<Value = (Asked, i64, i64)> {
    let gap = prop_oneof![Just(0i64), 0i64..8, 0i64..40];
    let duration = prop_oneof![Just(0i64), 1i64..30, 1i64..90];
    (asked(3), gap, duration)
}

/// Compares what requests find on the device in a pool, which is saved and read back before the request `cut`, and in
/// a slow cache.
fn compare<C: SlowCache<Asked = SlowAsked>>(
    config: PoolConfig,
    cache: C,
    (capacity, page): (u64, u64),
    requests: &[(Asked, i64, i64)],
    cut: usize,
) -> Result<(), TestCaseError> {
    let config = Arc::new(config);
    let mut pool = Pool::new("p", 0, Arc::clone(&config)).expect("usable");
    let mut slow = SlowLoad::new(cache);
    let mut now = 0;
    for (index, (asked, gap, duration)) in requests.iter().enumerate() {
        now += gap;
        if index == cut {
            let bytes = postcard::to_allocvec(&pool.image()).expect("bytes");
            let image = postcard::from_bytes(&bytes).expect("the same bytes");
            pool = Pool::restore("p", 0, Arc::clone(&config), image).expect("the same configuration");
            prop_assert_eq!(&postcard::to_allocvec(&pool.image()).expect("bytes"), &bytes, "it saves alike");
        }
        let duration_ms = Some(*duration as u64);
        let event = RequestEvent { event_time: EventTime(now), duration_ms, ..to_event(asked) };
        let arrival = Arrival { offset: Offset(index as i64), counted: true, watermark: None };
        pool.observe(&event, arrival).expect("accepted");
        let Asked { ids, input, output, known_outputs } = asked.clone();
        let slow_asked = SlowAsked { ids, input, output, known_outputs };
        let times = Times { arrival: now, duration: *duration, tokens: asked.output as i64 };
        let cached = config.cache.outputs == Outputs::Cached;
        let slots = (input + if cached { output.saturating_sub(1) } else { 0 }).div_ceil(page);
        let caches = pool.caches().expect("one a capacity");
        let refused = slots.max(input.div_ceil(page) + 1) > capacity;
        let expected = if refused { 0 } else { slow.arrive(&slow_asked, times).unwrap_or(0) };
        prop_assert_eq!(caches.last_hits()[0], expected, "request {}", index);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn requests_that_overlap_find_what_the_slow_transcription_finds(
        capacity in 25u64..90,
        cached in any::<bool>(),
        requests in prop::collection::vec(timed(), 1..60),
        cut in 0usize..90,
    ) {
        let outputs = if cached { Outputs::Cached } else { Outputs::Ignored };
        let slow = SlowSglang::new(capacity, 3, cached);
        compare(config(capacity, 3, outputs), slow, (capacity, 3), &requests, cut)?;
    }

    #[test]
    fn requests_that_overlap_over_a_host_find_what_the_slow_transcription_finds(
        capacity in 25u64..90,
        host in 1u64..120,
        policy in 0usize..3,
        cached in any::<bool>(),
        requests in prop::collection::vec(timed(), 1..60),
        cut in 0usize..90,
    ) {
        let outputs = if cached { Outputs::Cached } else { Outputs::Ignored };
        let writes = [WritePolicy::WriteThrough, WritePolicy::WriteThroughSelective, WritePolicy::WriteBack];
        let (page, plain) = (3, config(capacity, 3, outputs));
        let rules = EngineRules {
            hicache: Some(format!("{host}p").parse().expect("pages")),
            hicache_write: writes[policy],
            ..plain.cache.rules.clone()
        };
        let slow = SlowHicache::new(capacity, host, [Some(1), Some(2), None][policy], page, cached);
        let cache = CacheConfig { rules, ..plain.cache };
        compare(PoolConfig { cache, ..plain }, slow, (capacity, page), &requests, cut)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn requests_that_do_not_overlap_find_what_one_after_another_finds(
        capacity in 25u64..90,
        requests in prop::collection::vec((asked(3), 0i64..90), 1..60),
    ) {
        let on = config(capacity, 3, Outputs::Cached);
        let rules = EngineRules { overlap: OverlapMode::Off, ..on.cache.rules.clone() };
        let off = PoolConfig { cache: CacheConfig { rules, ..on.cache.clone() }, ..on.clone() };
        let [mut on, mut off] = [on, off].map(|config| Pool::new("p", 0, Arc::new(config)).expect("usable"));
        for (index, (asked, duration)) in requests.iter().enumerate() {
            let (event_time, duration_ms) = (EventTime(100 * index as i64), Some(*duration as u64));
            let event = RequestEvent { event_time, duration_ms, ..to_event(asked) };
            let arrival = Arrival { offset: Offset(index as i64), counted: true, watermark: None };
            let hits = [&mut on, &mut off].map(|pool| {
                pool.observe(&event, arrival).expect("accepted");
                pool.caches().expect("one a capacity").last_hits()[0]
            });
            prop_assert_eq!(hits[0], hits[1], "request {}", index);
        }
    }
}
