//! Pools whose events declare that their ids are chained, truly or not.

use super::super::*;
use super::{PAGE_SIZE, event, ratios};
use crate::engines::config::CacheConfig;
use crate::engines::profile::Profile;
use crate::stack::ChainCheck;
use crate::units::PageCount;
use crate::units::pages::{PageIds, Scope};
use proptest::prelude::*;

fn config(profile: Profile, bound: u64) -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            profile,
            page_size: PageSize::new(PAGE_SIZE),
            target_ratios: ratios(&["0.9", "1"]),
            capacities: ["3p", "6p", "12p"].map(|text| text.parse().expect("pages")).into(),
            max_tracked_pages: PageCount(bound),
            ..CacheConfig::default()
        },
        windows: ["tumbling:5ms", "last:4", "all"].map(|text| text.parse().expect("a window")).into(),
        allowed_lateness_ms: 0,
        max_lateness_ms: 0,
        ..PoolConfig::default()
    }
}

/// A pool as it is read back from its snapshot.
fn restored(pool: &Pool) -> Pool {
    let bytes = postcard::to_allocvec(&pool.image()).expect("memory");
    let image = postcard::from_bytes(&bytes).expect("the bytes just written");
    Pool::restore("p", 0, Arc::new(pool.config().clone()), image).expect("the same configuration")
}

fn arrival(number: usize) -> Arrival {
    Arrival { offset: Offset(number as i64), counted: true, watermark: None }
}

/// An id of the few that are watched for breaking the chain.
fn watched_id() -> u64 {
    (1..).find(|id| ChainCheck::Sampled.watches(Scope::GLOBAL, *id)).expect("one in 256")
}

/// A request as drawn: its ids, and whether it declares them chained.
fn requests() -> impl Strategy<Value = Vec<(Vec<u64>, bool)>> {
    let id = prop_oneof![8 => 1_000_000u64..1_000_006, 1 => Just(watched_id())];
    prop::collection::vec((prop::collection::vec(id, 0..12), any::<bool>()), 1..40)
}

proptest! {
    /// What was found may be wrong then, but it is the same however often the pool was restored, and no
    /// count passes another that is its bound.
    #[test]
    fn a_false_word_breaks_no_pool_of_any_profile(
        requests in requests(), bound in prop_oneof![Just(1u64 << 20), 12u64..40], cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(requests.len());
        for (name, profile) in Profile::NAMES {
            let mut kept = Pool::new("p", 0, Arc::new(config(profile, bound))).expect("usable");
            let mut moved = Pool::new("p", 0, Arc::new(config(profile, bound))).expect("usable");
            for (number, (ids, ids_chained)) in requests.iter().enumerate() {
                if number == cut {
                    moved = restored(&moved);
                }
                let output_page_ids = PageIds::from_slice(&ids[..ids.len() / 3]);
                let output_tokens = Some(9);
                let event = RequestEvent {
                    ids_chained: *ids_chained, output_page_ids, output_tokens, ..event(number as i64, ids)
                };
                kept.observe(&event, arrival(number)).expect("reported only");
                let found = kept.last_request().expect("observed").0;
                prop_assert!(found.reusable_prefix() <= ids.len() as u64 + 3, "{}", name);
                moved.observe(&event, arrival(number)).expect("reported only");
                prop_assert_eq!(moved.last_request().expect("observed").0, found, "{}", name);
            }
            let (mut of_kept, mut of_moved) = (Vec::new(), Vec::new());
            kept.finish(Offset(99), &mut of_kept);
            moved.finish(Offset(99), &mut of_moved);
            for estimate in &of_kept {
                let accesses = estimate.page_accesses;
                let hits = estimate.capacities.iter().filter_map(|point| point.prefix_hits);
                prop_assert!(hits.clone().all(|hits| hits <= accesses), "{}", name);
            }
            prop_assert_eq!(of_kept, of_moved, "{}", name);
        }
    }
}

#[test]
fn a_restored_pool_takes_no_word_for_chained_ids_that_it_had_ceased_to_take() {
    let mut source = Pool::new("p", 0, Arc::new(config(Profile::Paper, 100))).expect("usable");
    for ids in [[1, watched_id()], [3, watched_id()]] {
        source.observe(&event(0, &ids), arrival(0)).expect("reported only");
    }
    assert_eq!(source.chain_violations(), 1);
    let mut restored = restored(&source);
    let mut known = |ids: &[u64]| {
        let declared = RequestEvent { ids_chained: true, ..event(0, ids) };
        restored.observe(&declared, arrival(2)).expect("reported only");
        restored.last_request().expect("observed").0.reusable_prefix()
    };
    assert_eq!((known(&[21, 22, 23]), known(&[21, 99, 23])), (0, 1));
}
