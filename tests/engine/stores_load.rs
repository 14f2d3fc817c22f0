//! Stores while requests overlap, against slow models that serve a page at a time, each happening at its moment.

use crate::asked::walk;
use crate::support::slow_stores::{SlowLmcache, SlowLmcacheMp, SlowMooncake};
use kvset::core::engines::config::CacheConfig;
use kvset::core::engines::profile::{Outputs, OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::pages::PageIds;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::{EventTime, Offset, PageCount, PageSize};
use proptest::prelude::*;
use std::sync::Arc;

/// A request: the ids of its pages, how long after the one before it arrives, how long it takes, and the tokens of
/// its output.
#[derive(Debug, Clone)]
struct Timed {
    ids: Vec<u64>,
    gap: u64,
    duration: u64,
    output: Option<u64>,
}

impl Timed {
    /// When this token of the output comes, or the last: in milliseconds and, in that millisecond, before or after
    /// ends.
    fn token(&self, token: u64) -> (u64, u64) {
        let tokens = self.output.unwrap_or(1).max(1);
        let waited = self.duration * token.min(tokens);
        (waited / tokens, 2 * u64::from(!waited.is_multiple_of(tokens)))
    }
}

/// Prompts that walk through a small tree of ids, so that prefixes are shared and left half-way.
fn timed() -> impl Strategy<Value = Timed> {
    let steps = prop::collection::vec((0u64..3, 1usize..6), 0..5);
    let gap = prop::sample::select(vec![0u64, 0, 1, 40, 700, 2500]);
    let duration = prop::sample::select(vec![0u64, 1, 40, 900, 3000, 9000]);
    let output = prop_oneof![Just(None), (0u64..9).prop_map(Some)];
    (steps, gap, duration, output).prop_map(|(steps, gap, duration, output)| {
        let (ids, _) = walk(steps);
        Timed { ids, gap, duration, output }
    })
}

/// What each request finds in the pool, which is saved and read back before the request `cut`.
fn found(config: PoolConfig, requests: &[Timed], cut: usize) -> Result<Vec<u64>, TestCaseError> {
    let config = Arc::new(config);
    let mut pool = Pool::new("p", 0, Arc::clone(&config)).expect("usable");
    let (mut now, mut hits) = (1, Vec::new());
    for (index, Timed { ids, gap, duration, output }) in requests.iter().enumerate() {
        now += gap;
        if index == cut {
            let bytes = postcard::to_allocvec(&pool.image()).expect("bytes");
            let image = postcard::from_bytes(&bytes).expect("the same bytes");
            pool = Pool::restore("p", 0, Arc::clone(&config), image).expect("the same configuration");
        }
        let event = RequestEvent {
            event_time: EventTime(now as i64),
            page_ids: PageIds::from_slice(ids),
            duration_ms: Some(*duration),
            output_tokens: *output,
            ..RequestEvent::default()
        };
        let arrival = Arrival { offset: Offset(index as i64), counted: true, watermark: None };
        pool.observe(&event, arrival).expect("accepted");
        hits.push(pool.caches().expect("one a capacity").last_hits()[0]);
    }
    Ok(hits)
}

/// Arrivals, and what comes later of each request, in order: so long after the arrival, in milliseconds and parts of
/// one. At one moment arrivals come first, but where it is all one moment.
fn happenings(requests: &[Timed], later: impl Fn(usize) -> (u64, u64)) -> Vec<(u64, usize, bool)> {
    let mut all = Vec::new();
    let mut now = 1;
    for (index, request) in requests.iter().enumerate() {
        now += request.gap;
        let (ms, part) = later(index);
        let is_later = if request.duration == 0 { 0 } else { 1 + part };
        all.push((now, 0, index, true));
        all.push((now + ms, is_later, index, false));
    }
    all.sort_by_key(|(time, is_later, index, begins)| (*time, *is_later, *index, !begins));
    all.into_iter().map(|(time, _, index, begins)| (time, index, begins)).collect()
}

fn config(profile: Profile, capacity: u64, rules: EngineRules) -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            profile,
            rules: EngineRules { overlap: OverlapMode::On, ..rules }.of_profile(profile),
            outputs: Outputs::Ignored,
            page_size: PageSize::new(16),
            capacities: vec![format!("{capacity}p").parse().expect("pages")],
            max_tracked_pages: PageCount(100_000),
            ..CacheConfig::default()
        },
        ..PoolConfig::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn requests_that_overlap_find_what_the_slow_process_of_lmcache_has(
        capacity in 3u64..70,
        group in 1u32..4,
        watermark in prop::sample::select(vec![300u16, 800, 1000]),
        ratio in prop::sample::select(vec![0u16, 10, 200, 1000]),
        requests in prop::collection::vec(timed(), 1..60),
        cut in 0usize..80,
    ) {
        let rules = EngineRules {
            chunk_tokens: 16 * group,
            mp_watermark: Ratio::per_mille(watermark),
            mp_eviction_ratio: Ratio::per_mille(ratio),
            ..EngineRules::default()
        };
        let hits = found(config(Profile::LmcacheMp, capacity, rules), &requests, cut)?;
        let mut slow = SlowLmcacheMp::new(capacity, group as usize, usize::from(watermark), usize::from(ratio));
        for (time, index, begins) in happenings(&requests, |index| (requests[index].duration, 0)) {
            let ids = &requests[index].ids;
            match begins {
                true => prop_assert_eq!(hits[index], slow.begin(time, ids, 0), "request {}", index),
                false => slow.end(time, ids, 0),
            }
        }
    }
    #[test]
    fn requests_that_overlap_find_what_the_slow_lmcache_of_the_engines_process_has(
        capacity in 3u64..70,
        group in 1u32..4,
        requests in prop::collection::vec(timed(), 1..60),
        cut in 0usize..80,
    ) {
        let rules = EngineRules { chunk_tokens: 16 * group, ..EngineRules::default() };
        let hits = found(config(Profile::Lmcache, capacity, rules), &requests, cut)?;
        let mut slow = SlowLmcache::new(capacity, group as usize);
        for (time, index, begins) in happenings(&requests, |index| requests[index].token(1)) {
            let ids = &requests[index].ids;
            if begins {
                let (_, chunks) = slow.begin(ids, 0);
                prop_assert_eq!(hits[index], (chunks * group as usize) as u64, "request {} at {}", index, time);
            }
            if begins == requests[index].output.is_none() {
                slow.save(ids, hits[index] as usize / group as usize);
            }
        }
    }

    #[test]
    fn requests_that_overlap_find_what_the_slow_store_of_mooncake_has(
        capacity in 1u64..70,
        lease_ms in prop::sample::select(vec![0u64, 5, 100, 10_000]),
        watermark in prop::sample::select(vec![300u16, 900, 1000]),
        ratio in prop::sample::select(vec![0u16, 50, 400]),
        requests in prop::collection::vec(timed(), 1..60),
        cut in 0usize..80,
    ) {
        let rules = EngineRules {
            lease_ms,
            watermark: Ratio::per_mille(watermark),
            eviction_ratio: Ratio::per_mille(ratio),
            ..EngineRules::default()
        };
        let hits = found(config(Profile::Mooncake, capacity, rules), &requests, cut)?;
        let mut slow = SlowMooncake::new(capacity, lease_ms, u64::from(watermark), u64::from(ratio));
        let computed = |index: usize| requests[index].token(if hits[index] > 0 { 2 } else { 1 });
        for (time, index, begins) in happenings(&requests, computed) {
            let Timed { ids, output, .. } = &requests[index];
            let at_once = output.is_none();
            if begins {
                prop_assert_eq!(hits[index], slow.begin(time, ids), "request {}", index);
            }
            if begins == at_once {
                slow.save(time, ids);
            }
        }
    }
}
