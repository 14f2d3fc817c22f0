//! Pools of a profile without a single stack: a cache a capacity, in every kind of window.

use super::super::*;
use super::{PAGE_SIZE, event, ratios};
use crate::naive::chained_requests;
use crate::profile::{Outputs, Profile};
use crate::sglang::SglangCache;
use crate::window::WindowKind;
use proptest::prelude::*;

const CAPACITIES: [u64; 4] = [3, 6, 12, 40];

fn config() -> PoolConfig {
    PoolConfig {
        profile: Profile::Sglang,
        page_size: PageSize::new(PAGE_SIZE),
        target_ratios: ratios(&["0.9", "1"]),
        capacities: ["3p", "6p", "12p", "40p", "90p"].map(|text| text.parse().expect("pages")).into(),
        windows: ["tumbling:10ms", "hopping:20ms/10ms", "last:7", "all"]
            .map(|text| text.parse().expect("a window"))
            .into(),
        publish_every_ms: 0,
        max_tracked_pages: PageCount(64),
        ..PoolConfig::default()
    }
}

fn observe(pool: &mut Pool, number: usize, ids: &[u64]) {
    let request = RequestEvent { output_tokens: Some(9), ..event(number as i64, ids) };
    let arrival = Arrival { offset: Offset(number as i64), counted: true, watermark: None };
    pool.observe(&request, arrival).expect("accepted");
}

/// Hits of every request at one capacity.
fn hits(requests: &[Vec<u64>], capacity: u64) -> Vec<u64> {
    let page_size = PageSize::new(PAGE_SIZE).expect("not zero");
    let mut cache = SglangCache::new(PageCount(capacity), page_size, Outputs::Cached).expect("small");
    let mut hits =
        |ids: &Vec<u64>| cache.request(&RequestEvent { output_tokens: Some(9), ..event(0, ids) }).hits;
    requests.iter().map(&mut hits).collect()
}

proptest! {
    #[test]
    fn every_window_counts_what_the_caches_found_and_a_restored_pool_goes_on(
        requests in chained_requests(40),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(requests.len());
        let mut pool = Pool::new("p", 0, Arc::new(config())).expect("usable");
        for (number, ids) in requests.iter().enumerate() {
            if number == cut {
                let bytes = postcard::to_allocvec(&pool.image()).expect("bytes");
                let image = postcard::from_bytes(&bytes).expect("the same bytes");
                pool = Pool::restore("p", 0, Arc::new(config()), image).expect("the same configuration");
            }
            observe(&mut pool, number, ids);
        }
        let mut estimates = Vec::new();
        pool.finish(Offset(99), &mut estimates);
        prop_assert!(estimates.len() >= 4);
        for estimate in estimates {
            let covered = match estimate.window {
                WindowKind::All => 0..requests.len(),
                WindowKind::Last { requests: last } => requests.len().saturating_sub(last as usize)..requests.len(),
                _ => estimate.start_ms.max(0) as usize..requests.len().min(estimate.end_ms as usize),
            };
            let expected: Vec<Option<u64>> = CAPACITIES
                .iter()
                .map(|&pages| Some(hits(&requests, pages)[covered.clone()].iter().sum()))
                .chain([None])
                .collect();
            let found: Vec<_> = estimate.capacities.iter().map(|point| point.prefix_hits).collect();
            prop_assert_eq!(found, expected, "{}", estimate.window);
            prop_assert!(estimate.required.is_empty() && estimate.capacities[4].beyond_bound);
            prop_assert!(estimate.output_reuse_unseen);
            prop_assert_eq!(estimate.engine, Profile::Sglang);
        }
    }
}

#[test]
fn caches_of_other_capacities_are_not_taken_over() {
    let mut pool = Pool::new("p", 0, Arc::new(config())).expect("usable");
    observe(&mut pool, 0, &[1, 2, 3]);
    let bytes = postcard::to_allocvec(&pool.image()).expect("bytes");
    let mut image: RestoredPool = postcard::from_bytes(&bytes).expect("the same bytes");
    image.live.as_mut().expect("a live pool").cache.caches = None;
    let restored = Pool::restore("p", 0, Arc::new(config()), image);
    assert!(matches!(restored, Err(RestoreError::Inconsistent)));
}
