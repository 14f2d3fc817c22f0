//! Pools of a profile without a single stack: a cache a capacity, in every kind of window.

use super::super::*;
use super::{PAGE_SIZE, event, ratios};
use crate::engines::bank::{CacheBank, Lane};
use crate::engines::config::CacheConfig;
use crate::engines::hits::CacheHits;
use crate::engines::hybrid::{BlockRetention, HybridCache};
use crate::engines::lmcache::{LmcacheCache, LmcacheMpRules, LmcacheRules};
use crate::engines::mooncake::MooncakeCache;
use crate::engines::profile::{Outputs, Profile};
use crate::engines::rules::{EnginePart, EngineRules};
use crate::engines::sglang::{
    HicacheCache, NoHost, PlainRules, SglangCache, StateCache, WindowCache, WritePolicy,
};
use crate::engines::trtllm::{TrtllmCache, TrtllmRules};
use crate::engines::vllm_offload::{OffloadPolicy, OffloadTier};
use crate::stack::naive::chained_requests;
use crate::units::pages::PageIds;
use crate::units::window::WindowKind;
use proptest::prelude::*;

const CAPACITIES: [u64; 4] = [3, 6, 12, 40];

/// Each engine that has a cache a capacity, with options.
pub(super) const ENGINES: [(Profile, &str, u32); 9] = [
    (Profile::Sglang, "full", 256),
    (Profile::Vllm, "full+window:9", 256),
    (Profile::Vllm, "full+2*mamba", 256),
    (Profile::Sglang, "full+window:9", 256),
    (Profile::Sglang, "full+2*mamba", 256),
    (Profile::Lmcache, "full", 2 * PAGE_SIZE),
    (Profile::LmcacheMp, "full", 2 * PAGE_SIZE),
    (Profile::Mooncake, "full", 256),
    (Profile::Trtllm, "full", 256),
];

pub(super) fn config((profile, attention, chunk_tokens): (Profile, &str, u32)) -> PoolConfig {
    let attention = attention.parse().expect("groups");
    PoolConfig {
        cache: CacheConfig {
            profile,
            rules: EngineRules {
                attention,
                chunk_tokens,
                lease_ms: 3,
                state_tokens: 1,
                ..EngineRules::default()
            }
            .of_profile(profile),
            page_size: PageSize::new(PAGE_SIZE),
            target_ratios: ratios(&["0.9", "1"]),
            capacities: ["3p", "6p", "12p", "40p", "2000p"].map(|text| text.parse().expect("pages")).into(),
            max_tracked_pages: PageCount(1000),
            ..CacheConfig::default()
        },
        windows: ["tumbling:10ms", "hopping:20ms/10ms", "last:7", "all"]
            .map(|text| text.parse().expect("a window"))
            .into(),
        publish_every_ms: 0,
        ..PoolConfig::default()
    }
}

fn observe(pool: &mut Pool, number: usize, ids: &[u64]) {
    let request = RequestEvent { output_tokens: Some(9), ..event(number as i64, ids) };
    let arrival = Arrival { offset: Offset(number as i64), counted: true, watermark: None };
    pool.observe(&request, arrival).expect("accepted");
}

/// Hits of every request at one capacity.
fn hits(requests: &[Vec<u64>], capacity: u64, config: &PoolConfig) -> Vec<u64> {
    let page_size = PageSize::new(PAGE_SIZE).expect("not zero");
    let (capacity, rules) = (PageCount(capacity), &config.cache.rules);
    let plain = PlainRules { page_size, outputs: Outputs::Cached, drafts: false };
    let mut sglang = SglangCache::new(capacity, plain, NoHost).expect("small");
    let hybrid = rules.hybrid(page_size, Outputs::Cached);
    let mut hybrid = HybridCache::new(capacity, hybrid).expect("sound rules");
    let mut windows =
        WindowCache::new(capacity, rules.windows(page_size, Outputs::Cached), NoHost).expect("small");
    let mut states =
        StateCache::new(capacity, rules.states(page_size, Outputs::Cached), NoHost).expect("small");
    let mut lmcache = LmcacheCache::new(capacity, LmcacheRules { page_size, chunk_tokens: 2 * PAGE_SIZE });
    let mp = LmcacheMpRules { chunk_tokens: 2 * PAGE_SIZE, ..rules.lmcache_mp(page_size) };
    let mut lmcache_mp = LmcacheCache::new(capacity, mp);
    let mut trtllm = TrtllmCache::new(
        capacity,
        TrtllmRules {
            page_size,
            outputs: Outputs::Cached,
            host: config.cache.host_pages(rules.host_cache.as_ref(), page_size),
        },
    );
    let mut mooncake = MooncakeCache::new(capacity, rules.mooncake(page_size));
    let mut hits = |(number, ids): (usize, &Vec<u64>)| {
        let request = RequestEvent { output_tokens: Some(9), ..event(number as i64, ids) };
        match config.cache.profile {
            Profile::Sglang if config.cache.has(EnginePart::WINDOW_POOL) => windows.request(&request).hits,
            Profile::Sglang if config.cache.has(EnginePart::STATE_POOL) => states.request(&request).hits,
            Profile::Sglang => sglang.request(&request).hits,
            Profile::Lmcache => lmcache.as_mut().expect("whole pages").request(&request),
            Profile::LmcacheMp => lmcache_mp.as_mut().expect("whole pages").request(&request),
            Profile::Mooncake => mooncake.request(&request),
            Profile::Trtllm => trtllm.request(&request).hits,
            _ => hybrid.request(&request).hits,
        }
    };
    requests.iter().enumerate().map(&mut hits).collect()
}

/// Serves a request over a host tier of the engine's own: what it finds on the device, and pages behind that on the
/// host.
type OverHostTier = Box<dyn FnMut(&RequestEvent<'_>) -> (CacheHits, u64)>;

/// A device of so many pages over a host tier.
fn over_host(pages: u64, config: &CacheConfig) -> OverHostTier {
    let page_size = PageSize::new(PAGE_SIZE).expect("not zero");
    let (pages, rules) = (PageCount(pages), &config.rules);
    if config.profile == Profile::Vllm {
        let (blocks, options) = config.offload(page_size).expect("a tier");
        let rules = rules.hybrid(page_size, Outputs::Cached);
        let mut tier = OffloadTier::under(blocks, options, &rules).expect("sound rules");
        let mut pool = HybridCache::new(pages, rules).expect("sound rules");
        return Box::new(move |request| tier.request_under(&mut pool, request));
    }
    let host = config.hicache(page_size);
    if config.has(EnginePart::WINDOW_POOL) {
        let rules = rules.windows(page_size, Outputs::Cached);
        let mut cache = WindowCache::new(pages, rules, host).expect("small");
        return Box::new(move |request| cache.request(request));
    }
    if config.has(EnginePart::STATE_POOL) {
        let rules = rules.states(page_size, Outputs::Cached);
        let mut cache = StateCache::new(pages, rules, host).expect("small");
        return Box::new(move |request| cache.request(request));
    }
    let plain = PlainRules { page_size: host.page_size, outputs: host.outputs, drafts: false };
    let mut cache = HicacheCache::new(pages, plain, host).expect("small");
    Box::new(move |request| cache.request(request))
}

proptest! {
    #[test]
    fn a_device_over_a_host_counts_its_own_hits_and_a_restored_pool_goes_on(
        requests in chained_requests(40),
        engine in prop::sample::select(ENGINES[..5].to_vec()),
        write in prop::sample::select(WritePolicy::NAMES.to_vec()),
        cut in any::<prop::sample::Index>(),
    ) {
        let alone = config(engine);
        let host = Some("20p".parse().expect("pages"));
        let rules = alone.cache.rules.clone();
        let policy = if write.1 == WritePolicy::WriteBack { OffloadPolicy::Arc } else { OffloadPolicy::Lru };
        let rules = match engine.0 {
            Profile::Vllm => EngineRules { vllm_offload: host, offload_policy: policy, ..rules },
            _ => EngineRules { hicache: host, hicache_write: write.1, ..rules },
        };
        let config = PoolConfig { cache: CacheConfig { rules, ..alone.cache.clone() }, ..alone.clone() };
        let mut caches = CAPACITIES.map(|pages| over_host(pages, &config.cache));
        let mut expected = [0; CAPACITIES.len()];
        let cut = cut.index(requests.len());
        let mut pool = Pool::new("p", 0, Arc::new(config.clone())).expect("usable");
        for (number, ids) in requests.iter().enumerate() {
            if number == cut {
                let bytes = postcard::to_allocvec(&pool.image()).expect("bytes");
                let image = postcard::from_bytes(&bytes).expect("the same bytes");
                let other = Pool::restore("p", 0, Arc::new(alone.clone()), image);
                prop_assert!(other.is_err(), "a state with a host is none without");
                let image = postcard::from_bytes(&bytes).expect("the same bytes");
                pool = Pool::restore("p", 0, Arc::new(config.clone()), image).expect("the same configuration");
            }
            observe(&mut pool, number, ids);
            let request = RequestEvent { output_tokens: Some(9), ..event(number as i64, ids) };
            let found = caches.each_mut().map(|serve| serve(&request));
            let own = pool.caches().expect("a cache a capacity");
            for (at, (found, host)) in found.iter().enumerate() {
                prop_assert_eq!(own.last_hits()[at], found.hits);
                prop_assert_eq!(own.last_host_hits()[at], *host);
                expected[at] += found.hits;
            }
        }
        let mut estimates = Vec::new();
        pool.finish(Offset(99), &mut estimates);
        let whole = estimates.iter().find(|estimate| estimate.window == WindowKind::All).expect("all");
        let found: Vec<_> = whole.capacities.iter().filter_map(|point| point.prefix_hits).collect();
        prop_assert_eq!(found, expected.to_vec());
    }

    #[test]
    fn every_window_counts_what_the_caches_found_and_a_restored_pool_goes_on(
        requests in chained_requests(40),
        engine in prop::sample::select(ENGINES.to_vec()),
        cut in any::<prop::sample::Index>(),
    ) {
        let config = config(engine);
        let cut = cut.index(requests.len());
        let mut pool = Pool::new("p", 0, Arc::new(config.clone())).expect("usable");
        for (number, ids) in requests.iter().enumerate() {
            if number == cut {
                let bytes = postcard::to_allocvec(&pool.image()).expect("bytes");
                let image = postcard::from_bytes(&bytes).expect("the same bytes");
                pool = Pool::restore("p", 0, Arc::new(config.clone()), image).expect("the same configuration");
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
                .map(|&pages| Some(hits(&requests, pages, &config)[covered.clone()].iter().sum()))
                .chain([None])
                .collect();
            let found: Vec<_> = estimate.capacities.iter().map(|point| point.prefix_hits).collect();
            prop_assert_eq!(found, expected, "{}", estimate.window);
            prop_assert!(estimate.required.is_empty() && estimate.capacities[4].beyond_bound);
            prop_assert_eq!(estimate.output_reuse_unseen, engine.0.spec().keeps_outputs);
            prop_assert_eq!(estimate.engine, engine.0);
            // What never evicts finds what the rules find.
            let unlimited: u64 = hits(&requests, 100_000, &config)[covered].iter().sum();
            prop_assert_eq!(estimate.theoretical.prefix_hits, unlimited);
            prop_assert!(estimate.is_pointwise());
        }
    }
}

#[test]
fn caches_of_other_capacities_are_not_taken_over() {
    let made = |config: &PoolConfig| {
        let mut pool = Pool::new("p", 0, Arc::new(config.clone())).expect("usable");
        observe(&mut pool, 0, &[1, 2, 3]);
        let bytes = postcard::to_allocvec(&pool.image()).expect("bytes");
        postcard::from_bytes::<RestoredPool>(&bytes).expect("the same bytes")
    };
    for engine in ENGINES {
        let config = config(engine);
        let mut image = made(&config);
        image.live.as_mut().expect("a live pool").cache.caches = CacheBank::default();
        let restored = Pool::restore("p", 0, Arc::new(config.clone()), image);
        assert!(matches!(restored, Err(RestoreError::Inconsistent)), "{engine:?}");
        let mut image = made(&config);
        let rules = EngineRules { lease_ms: 4, chunk_tokens: PAGE_SIZE, ..config.cache.rules.clone() };
        let host_cache = Some("5p".parse().expect("pages"));
        let rules = EngineRules { retention_interval: BlockRetention::All, host_cache, ..rules };
        let other = PoolConfig {
            cache: CacheConfig { rules: rules.of_profile(config.cache.profile), ..config.cache.clone() },
            ..config.clone()
        };
        image.fingerprint = other.fingerprint().expect("json");
        let restored = Pool::restore("p", 0, Arc::new(other.clone()), image);
        assert_eq!(restored.is_ok(), engine.0 == Profile::Sglang, "{engine:?}: caches of other rules");
    }
}

#[test]
fn a_page_that_makes_no_whole_chunk_is_refused_and_leaves_the_pool_as_it_was() {
    let config = PoolConfig {
        cache: CacheConfig { page_size: None, ..config((Profile::Lmcache, "full", 10)).cache },
        ..config((Profile::Lmcache, "full", 10))
    };
    let mut pool = Pool::new("p", 0, Arc::new(config)).expect("usable");
    let arrival = Arrival { offset: Offset(0), counted: true, watermark: None };
    let sized =
        |tokens| RequestEvent { page_size: PageSize::new(tokens), input_tokens: None, ..event(0, &[1, 2]) };
    let refusal = pool.observe(&sized(4), arrival).expect_err("10 tokens are no whole pages of 4");
    assert_eq!(refusal.code(), "invalid_page_size");
    assert!(refusal.to_string().contains("10 tokens is not made of whole pages of 4"), "{refusal}");
    assert_eq!((pool.page_size(), pool.rejected_records()), (None, 1));
    assert!(pool.observe(&sized(5), arrival).is_ok());
}

#[test]
fn options_at_their_defaults_leave_the_fingerprint_and_others_change_it() {
    let fingerprint = |config: &PoolConfig| config.fingerprint().expect("json");
    for engine in ENGINES {
        let plain = PoolConfig {
            cache: CacheConfig { profile: engine.0, ..CacheConfig::default() },
            ..PoolConfig::default()
        };
        let told = PoolConfig {
            cache: CacheConfig {
                rules: config(engine).cache.rules.of_profile(engine.0),
                ..plain.cache.clone()
            },
            ..plain.clone()
        };
        assert_eq!(fingerprint(&plain) == fingerprint(&told), told.cache.rules.is_default(), "{engine:?}");
        assert_eq!(told.check(), Ok(()));
        let foreign = PoolConfig {
            cache: CacheConfig { profile: Profile::Paper, ..told.cache.clone() },
            ..told.clone()
        };
        assert_eq!(foreign.check().is_ok(), told.cache.rules.is_default(), "{engine:?}");
    }
}

/// Requests of which some are refused: their ids contradict their tokens, they are too large, or their page is another.
fn with_refused<'a>((number, ids): (usize, &'a Vec<u64>)) -> RequestEvent<'a> {
    let tokens = ids.len() as u64 * u64::from(PAGE_SIZE);
    RequestEvent {
        page_ids: PageIds::from_slice(ids),
        event_time: EventTime(number as i64),
        input_tokens: Some(if number % 7 == 3 { tokens + 99 } else { tokens }),
        output_tokens: Some(if number % 11 == 5 { u64::MAX } else { 9 }),
        page_size: if number % 13 == 8 { PageSize::new(PAGE_SIZE + 1) } else { None },
        ..RequestEvent::default()
    }
}

proptest! {
    #[test]
    fn requests_served_before_their_turn_find_what_they_find_at_their_turn(
        requests in chained_requests(60),
        engine in prop::sample::select(ENGINES.to_vec()),
        batch in 1usize..20,
        left_over in 0usize..3,
    ) {
        let config = Arc::new(config(engine));
        let pool = || Pool::new("p", 0, Arc::clone(&config)).expect("sound");
        let (mut one_by_one, mut ahead) = (pool(), pool());
        let events: Vec<_> = requests.iter().enumerate().map(with_refused).collect();
        for (number, event) in events.iter().enumerate() {
            let end = (number / batch + 1) * batch;
            ahead.serve_ahead(events[number..end.min(events.len())].iter(), |lanes| {
                // The last cache first, some of them not at all, and one of them twice.
                lanes.iter_mut().rev().skip(left_over).for_each(Lane::serve);
                lanes.first_mut().into_iter().for_each(Lane::serve);
            });
            let arrival = Arrival { offset: Offset(number as i64), counted: true, watermark: None };
            prop_assert_eq!(one_by_one.observe(event, arrival), ahead.observe(event, arrival));
            let hits = |pool: &Pool| pool.caches().map(|caches| (caches.last_hits().to_vec(), caches.last_ceiling()));
            prop_assert_eq!(hits(&one_by_one), hits(&ahead), "request {}", number);
        }
        let (mut estimates, mut of_ahead) = (Vec::new(), Vec::new());
        one_by_one.finish(Offset(99), &mut estimates);
        ahead.finish(Offset(99), &mut of_ahead);
        prop_assert_eq!(estimates, of_ahead);
        prop_assert!(ahead.caches().is_none_or(|caches| !caches.is_ahead()), "all had their turn");
        let refused = |pool: &Pool| pool.caches().map(CacheBank::refused);
        prop_assert_eq!(refused(&one_by_one), refused(&ahead));
    }
}
