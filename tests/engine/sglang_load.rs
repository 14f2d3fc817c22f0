//! SGLang's cache while requests overlap, against a slow transcription that serves a token at a time.

use crate::asked::{Asked, asked, to_event};
use crate::support::slow_load::{SlowLoad, Times};
use crate::support::slow_sglang::{SlowAsked, SlowSglang};
use kvset::core::engines::profile::{Outputs, OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn requests_that_overlap_find_what_the_slow_transcription_finds(
        capacity in 25u64..90,
        cached in any::<bool>(),
        requests in prop::collection::vec(timed(), 1..60),
        cut in 0usize..90,
    ) {
        let page = 3;
        let outputs = if cached { Outputs::Cached } else { Outputs::Ignored };
        let config = Arc::new(config(capacity, page, outputs));
        let mut pool = Pool::new("p", 0, Arc::clone(&config)).expect("usable");
        let mut slow = SlowLoad::new(SlowSglang::new(capacity, page, cached));
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
            let slots = (input + if cached { output.saturating_sub(1) } else { 0 }).div_ceil(page);
            let caches = pool.caches().expect("one a capacity");
            let refused = slots.max(input.div_ceil(page) + 1) > capacity;
            let expected = if refused { 0 } else { slow.arrive(&slow_asked, times).unwrap_or(0) };
            prop_assert_eq!(caches.last_hits()[0], expected, "request {}", index);
        }
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
