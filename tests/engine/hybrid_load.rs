//! Several groups in one pool of blocks while requests overlap, against a slow transcription that serves a token at a
//! time.

use super::hybrid::{Asked, asked, input, rules, slow, to_event};
use crate::support::slow_hybrid::{SlowAsked, SlowPool};
use crate::support::slow_load::{SlowLoad, Times};
use kvset::core::engines::hybrid::{BlockRetention, DraftHead, HybridRules};
use kvset::core::engines::profile::{Outputs, OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::{EventTime, Offset, PageCount, PageSize};
use kvset_core::engines::config::CacheConfig;
use proptest::prelude::*;
use std::marker::PhantomData;
use std::sync::Arc;

pub(super) fn config(capacity: u64, rules: &HybridRules) -> PoolConfig {
    let own = EngineRules {
        attention: rules.attention.clone(),
        retention_interval: rules.retention,
        prefill_chunk: rules.prefill_chunk,
        draft_tokens: rules.head.tokens,
        draft_layers: rules.head.layers,
        overlap: OverlapMode::On,
        ..EngineRules::default()
    };
    PoolConfig {
        cache: CacheConfig {
            profile: Profile::Vllm,
            rules: own.of_profile(Profile::Vllm),
            outputs: rules.outputs,
            page_size: Some(rules.page_size),
            capacities: vec![format!("{capacity}p").parse().expect("pages")],
            max_tracked_pages: PageCount(100_000),
            second_copies: true,
            ..CacheConfig::default()
        },
        ..PoolConfig::default()
    }
}

/// A request, how long after the one before it arrives, and how long it takes.
fn timed() -> impl Strategy<Value = (Asked, i64, i64)> {
    let (gap, duration) =
        (prop_oneof![Just(0i64), 0i64..8, 0i64..40], prop_oneof![Just(0i64), 1i64..30, 1i64..90]);
    (asked(), gap, duration)
}

/// Serves requests in both; the pool is saved and read back before the request `cut`. Gives what waited and was
/// preempted.
fn compare(
    capacity: u64,
    rules: &HybridRules,
    requests: &[(Asked, i64, i64)],
    cut: usize,
) -> Result<(usize, usize), TestCaseError> {
    let page = u64::from(rules.page_size.get());
    let config = Arc::new(config(capacity, rules));
    let mut pool = Pool::new("p", 0, Arc::clone(&config)).expect("usable");
    let mut slow = SlowLoad::new(SlowPool { pool: slow(capacity, rules), asked: PhantomData });
    let mut now = 0;
    for (index, (asked, gap, duration)) in requests.iter().enumerate() {
        now += gap;
        if index == cut {
            let bytes = postcard::to_allocvec(&pool.image()).expect("bytes");
            let image = postcard::from_bytes(&bytes).expect("the same bytes");
            pool = Pool::restore("p", 0, Arc::clone(&config), image).expect("the same configuration");
            prop_assert_eq!(&postcard::to_allocvec(&pool.image()).expect("bytes"), &bytes, "it saves alike");
        }
        let event = RequestEvent {
            event_time: EventTime(now),
            duration_ms: Some(*duration as u64),
            ..to_event(asked, page)
        };
        let arrival = Arrival { offset: Offset(index as i64), counted: true, watermark: None };
        pool.observe(&event, arrival).expect("accepted");
        let caches = pool.caches().expect("one a capacity");
        let asked = SlowAsked {
            ids: &asked.ids,
            input: input(asked, page),
            output: asked.output,
            known_outputs: &asked.known_outputs,
        };
        let times = Times { arrival: now, duration: *duration, tokens: asked.output as i64 };
        let expected = slow.arrive(&asked, times);
        prop_assert_eq!(caches.last_hits()[0], expected.unwrap_or(0), "request {}", index);
    }
    Ok((slow.waited, slow.preemptions))
}

#[test]
fn a_pool_in_which_nothing_has_a_name_yet_saves_as_it_was_saved() {
    let rules = HybridRules {
        attention: "full+3*window:6".parse().expect("groups"),
        retention: BlockRetention::Ends,
        prefill_chunk: 2,
        page_size: PageSize::new(2).expect("not zero"),
        outputs: Outputs::Cached,
        head: DraftHead::of(1),
    };
    let asked = |ids: &[u64], output, known: &[u64]| {
        let (ids, known_outputs) = (ids.to_vec(), known.to_vec());
        Asked { ids, tail: 0, output, known_outputs }
    };
    // The second one leaves the first one's path in two.
    let requests =
        [(asked(&[], 5, &[1, 2]), 0, 1), (asked(&[1, 3, 4, 5], 17, &[]), 0, 0), (asked(&[], 0, &[]), 0, 0)];
    compare(24, &rules, &requests, 2).expect("equal");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn requests_that_overlap_find_what_the_slow_transcription_finds(
        capacity in 8u64..150,
        rules in rules(),
        requests in prop::collection::vec(timed(), 1..60),
        cut in 0usize..90,
    ) {
        compare(capacity, &rules, &requests, cut)?;
    }
}
