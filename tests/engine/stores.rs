//! LMCache's and Mooncake's caches against their own answers and slow models of their rules.

use crate::asked::walk;
use crate::support::shared::read_shared;
use crate::support::slow_hybrid::{Kind, Retain, SlowHybrid};
use crate::support::slow_stores::{SlowLmcache, SlowLmcacheMp, SlowMooncake};
use kvset::core::engines::below::{Chain, Store};
use kvset::core::engines::hybrid::HybridCache;
use kvset::core::engines::lmcache::{LmcacheCache, LmcacheMpRules, LmcacheRules};
use kvset::core::engines::mooncake::{MooncakeCache, MooncakeRules};
use kvset::core::engines::profile::Outputs;
use kvset::core::engines::rules::EngineRules;
use kvset::core::request::event::RequestEvent;
use kvset::core::units::pages::PageIds;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::{EventTime, PageCount, PageSize};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Golden {
    results: Vec<GoldenRun>,
}

#[derive(Debug, Deserialize)]
struct GoldenRun {
    capacity_pages: u64,
    per_request_prefix_hits: Vec<u64>,
}

#[derive(Debug, Deserialize)]
struct Row {
    timestamp: i64,
    input_length: u64,
    hash_ids: Vec<u64>,
}

fn recorded(name: &str) -> Option<(Golden, Vec<Row>)> {
    let golden = serde_json::from_str(&read_shared(&format!("golden/{name}"))?).expect("a golden file");
    let trace = read_shared("traces/mooncake_synthetic_trace.jsonl")?;
    Some((golden, trace.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()))
}

fn event(row: &Row) -> RequestEvent<'_> {
    RequestEvent {
        event_time: EventTime(row.timestamp),
        page_ids: PageIds::from_slice(&row.hash_ids),
        input_tokens: Some(row.input_length),
        ..RequestEvent::default()
    }
}

fn page(tokens: u32) -> PageSize {
    PageSize::new(tokens).expect("not zero")
}

fn lmcache(capacity: u64, page_tokens: u32, chunk_tokens: u32) -> LmcacheCache<LmcacheRules> {
    let rules = LmcacheRules { page_size: page(page_tokens), chunk_tokens };
    LmcacheCache::new(PageCount(capacity), rules).expect("whole pages")
}

fn mooncake(capacity: u64, lease_ms: u64, watermark: u16, ratio: u16) -> MooncakeCache {
    let (watermark, eviction_ratio) = (Ratio::per_mille(watermark), Ratio::per_mille(ratio));
    MooncakeCache::new(
        PageCount(capacity),
        MooncakeRules { page_size: page(512), lease_ms, watermark, eviction_ratio },
    )
}

#[test]
fn equals_lmcache_on_every_request_at_every_capacity() {
    let Some((golden, trace)) = recorded("synthetic_lmcache.json") else { return };
    assert_eq!(golden.results.len(), 7);
    for run in &golden.results {
        let mut cache = lmcache(run.capacity_pages, 512, 512);
        let hits: Vec<u64> = trace.iter().map(|row| cache.request(&event(row))).collect();
        assert_eq!(hits.len(), run.per_request_prefix_hits.len());
        let differing = hits.iter().zip(&run.per_request_prefix_hits).filter(|(a, b)| a != b).count();
        assert_eq!(differing, 0, "requests that differ at {} pages", run.capacity_pages);
    }
}

#[test]
fn finds_what_a_running_mooncake_store_found_within_one_percent() {
    let Some((golden, trace)) = recorded("synthetic_mooncake_store.json") else { return };
    assert_eq!(golden.results.len(), 6);
    let mut off = Vec::new();
    for run in &golden.results {
        let mut cache = mooncake(run.capacity_pages, 10_000, 900, 50);
        let hits: Vec<u64> = trace.iter().map(|row| cache.request(&event(row))).collect();
        let (found, expected): (u64, u64) = (hits.iter().sum(), run.per_request_prefix_hits.iter().sum());
        let differing = hits.iter().zip(&run.per_request_prefix_hits).filter(|(a, b)| a != b).count();
        let error = found as f64 / expected as f64 - 1.0;
        println!(
            "{} pages: {found} hits, {expected} recorded ({:+.2} %), {differing} requests differ, {} puts failed",
            run.capacity_pages,
            error * 100.0,
            cache.failed_puts()
        );
        if error.abs() > 0.01 {
            off.push(run.capacity_pages);
        }
    }
    assert_eq!(off, Vec::<u64>::new(), "capacities more than 1 % off");
}

/// Prompts that walk through a small tree of ids, so that prefixes are shared and left half-way.
fn prompts() -> impl Strategy<Value = Vec<(Vec<u64>, u64)>> {
    let steps = prop::collection::vec((0u64..3, 1usize..6), 0..5);
    let prompt = (steps, prop::sample::select(vec![0u64, 0, 1, 7, 40, 3000])).prop_map(|(steps, wait)| {
        let (ids, _) = walk(steps);
        (ids, wait)
    });
    prop::collection::vec(prompt, 1..80)
}

fn request<'a>(ids: &'a [u64], time_ms: u64) -> RequestEvent<'a> {
    RequestEvent {
        event_time: EventTime(time_ms as i64),
        page_ids: PageIds::from_slice(ids),
        ..RequestEvent::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn lmcache_equals_the_slow_model_and_goes_on_from_a_snapshot(
        capacity in 3u64..70,
        group in 1u32..4,
        prompts in prompts(),
        cut in 0usize..80,
    ) {
        let mut fast = lmcache(capacity, 16, 16 * group);
        let mut slow = SlowLmcache::new(capacity, group as usize);
        for (index, (ids, _)) in prompts.iter().enumerate() {
            if index == cut {
                let text = serde_json::to_string(&fast).expect("plain data");
                fast = serde_json::from_str(&text).expect("sound");
            }
            prop_assert_eq!(fast.request(&request(ids, 0)), slow.request(ids), "request {}", index);
            prop_assert_eq!(fast.resident().0, slow.resident(), "resident after request {}", index);
        }
    }

    #[test]
    fn lmcaches_process_equals_the_slow_model_and_goes_on_from_a_snapshot(
        capacity in 3u64..70,
        group in 1u32..4,
        watermark in prop::sample::select(vec![300u16, 800, 1000]),
        ratio in prop::sample::select(vec![0u16, 10, 200, 1000]),
        prompts in prompts(),
        cut in 0usize..80,
    ) {
        let rules = LmcacheMpRules {
            page_size: page(16),
            chunk_tokens: 16 * group,
            watermark: Ratio::per_mille(watermark),
            eviction_ratio: Ratio::per_mille(ratio),
        };
        let mut fast = LmcacheCache::new(PageCount(capacity), rules).expect("whole pages");
        let mut slow = SlowLmcacheMp::new(capacity, group as usize, usize::from(watermark), usize::from(ratio));
        let mut now = 1;
        for (index, (ids, wait)) in prompts.iter().enumerate() {
            now += wait;
            if index == cut {
                let text = serde_json::to_string(&fast).expect("plain data");
                fast = serde_json::from_str(&text).expect("sound");
            }
            let above = ids.len() as u64 / 3 * u64::from(index % 3 == 2);
            let found = fast.request_after(&request(ids, now), above);
            prop_assert_eq!(found, slow.request_after(now, ids, above), "request {}", index);
            prop_assert_eq!(fast.resident().0, slow.resident(), "resident after request {}", index);
        }
    }

    #[test]
    fn mooncake_equals_the_slow_model_and_goes_on_from_a_snapshot(
        capacity in 1u64..70,
        lease_ms in prop::sample::select(vec![0u64, 5, 100, 10_000]),
        watermark in prop::sample::select(vec![300u16, 900, 1000]),
        ratio in prop::sample::select(vec![0u16, 50, 400]),
        prompts in prompts(),
        cut in 0usize..80,
    ) {
        let mut fast = mooncake(capacity, lease_ms, watermark, ratio);
        let mut slow = SlowMooncake::new(capacity, lease_ms, u64::from(watermark), u64::from(ratio));
        let mut now = 1;
        for (index, (ids, wait)) in prompts.iter().enumerate() {
            now += wait;
            if index == cut {
                let text = serde_json::to_string(&fast).expect("plain data");
                fast = serde_json::from_str(&text).expect("sound");
            }
            prop_assert_eq!(fast.request(&request(ids, now)), slow.request(now, ids), "request {}", index);
            prop_assert_eq!(fast.resident().0, slow.resident(), "resident after request {}", index);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// vLLM's pool of a hybrid model, LMCache below it and Mooncake below that, or the other way round.
    #[test]
    fn a_chain_of_tiers_equals_the_chain_of_slow_models(
        capacities in (8u64..40, 6u64..70, 6u64..90),
        group in 1u32..4,
        lmcache_first in any::<bool>(),
        as_a_process in any::<bool>(),
        lease_ms in prop::sample::select(vec![0u64, 100, 10_000]),
        prompts in prompts(),
    ) {
        let page_size = page(16);
        let rules = EngineRules {
            attention: "full+window:40".parse().expect("groups"),
            chunk_tokens: 16 * group,
            lease_ms,
            ..EngineRules::default()
        };
        let hybrid = rules.hybrid(page_size, Outputs::Cached);
        let mut engine = HybridCache::new(PageCount(capacities.0), hybrid).expect("sound rules");
        let kinds = [Kind::Full, Kind::Window(40)];
        let mut slow_engine = SlowHybrid::new(&kinds, capacities.0, 16, Retain::Ends, 8192, true);
        let tiers = [(Store::Lmcache, PageCount(capacities.1)), (Store::Mooncake, PageCount(capacities.2))];
        let tiers = if as_a_process { [(Store::LmcacheMp, PageCount(capacities.1)), tiers[1]] } else { tiers };
        let order = if lmcache_first { tiers } else { [tiers[1], tiers[0]] };
        let mut chain = Chain::new(&order, &rules, page_size).expect("whole pages");
        let mut slow_lmcache = SlowLmcache::new(capacities.1, group as usize);
        let mut slow_process = SlowLmcacheMp::new(capacities.1, group as usize, 800, 200);
        let mut slow_mooncake = SlowMooncake::new(capacities.2, lease_ms, 900, 50);
        let mut now = 1;
        for (index, (ids, wait)) in prompts.iter().enumerate() {
            now += wait;
            let event = request(ids, now);
            let mut next = slow_engine.clone();
            let tokens = ids.len() as u64 * 16;
            // A prompt whose tokens are not told may end in a page that is found, too: one token more says so.
            let found = engine.request(&RequestEvent { input_tokens: Some(tokens + 1), ..event });
            let expected = next.request(ids, tokens + 1, 0, &[]);
            prop_assert_eq!(found.refused, expected.is_none());
            if let Some(expected) = expected {
                prop_assert_eq!(found.hits, expected);
                slow_engine = next;
            }
            let (mut held, mut above) = (0, found.hits);
            let mut by_tier = Vec::new();
            for (store, _) in order {
                held += match store {
                    Store::Lmcache => slow_lmcache.request_after(ids, held),
                    Store::LmcacheMp => slow_process.request_after(now, ids, held),
                    Store::Mooncake => slow_mooncake.request_after(now, ids, held),
                    Store::VllmOffload(_) => panic!("not of this chain"),
                };
                by_tier.push(held.max(above) - above);
                above = above.max(held);
            }
            prop_assert_eq!(chain.request(&event, found.hits), &by_tier[..], "request {}", index);
            prop_assert!(above <= ids.len() as u64);
        }
    }
}

/// LMCache's and Mooncake's connectors for vLLM look the whole prompt up and store what the tier did not have.
#[test]
fn a_tier_below_is_asked_for_the_whole_prompt_and_a_further_one_for_the_rest() {
    let rules = EngineRules { chunk_tokens: 32, ..EngineRules::default() };
    let tiers = [(Store::Lmcache, PageCount(6)), (Store::Mooncake, PageCount(100))];
    let mut chain = Chain::new(&tiers, &rules, page(16)).expect("whole pages");
    let ids: Vec<u64> = (1..=8).collect();
    assert_eq!(chain.request(&request(&ids, 1), 5), [0, 0], "6 pages enter as chunks, 8 as objects");
    assert_eq!(chain.request(&request(&ids, 2), 0), [6, 2], "what the engine had is there as well");
    assert_eq!(chain.request(&request(&ids, 3), 5), [0, 3], "the last chunk came in for the third one");
    assert_eq!(chain.request(&request(&ids, 4), 7), [0, 1]);
    assert_eq!(chain.request(&request(&ids, 5), 8), [0, 0], "all of it was found above");
    let odd = EngineRules { chunk_tokens: 24, ..rules };
    assert!(Chain::new(&tiers, &odd, page(16)).is_err());
    assert!(Chain::new(&tiers[1..], &odd, page(16)).is_ok(), "Mooncake has no chunks");
}

#[test]
fn a_chunk_that_is_no_whole_number_of_pages_is_refused_with_a_reason() {
    for (page_tokens, chunk_tokens) in [(512, 256), (16, 24), (16, 0)] {
        let rules = LmcacheRules { page_size: page(page_tokens), chunk_tokens };
        let error = LmcacheCache::new(PageCount(9), rules).expect_err("no whole pages").to_string();
        assert!(error.contains("not made of whole pages"), "{error}");
    }
}
