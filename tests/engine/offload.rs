//! vLLM's tier in host memory against the recorded answers of its manager and a slow model of its rules.

use super::hybrid::{Asked, asked, input, rules as pool_rules, slow, to_event};
use crate::asked::walk;
use crate::support::shared::read_shared;
use crate::support::slow_manager::SlowManager;
use crate::support::slow_offload::SlowOffload;
use kvset::core::engines::hybrid::{BlockRetention, DraftHead, DraftLayers, HybridCache, HybridRules};
use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::engines::vllm_offload::{OffloadOptions, OffloadPolicy, OffloadRules, OffloadTier};
use kvset::core::request::event::RequestEvent;
use kvset::core::request::outcome::Outcome;
use kvset::core::units::pages::PageIds;
use kvset::core::units::{PageCount, PageSize};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Golden {
    results: Vec<GoldenRun>,
}

#[derive(Debug, Deserialize)]
struct GoldenRun {
    device_pages: u64,
    tier_pages: u64,
    policy: String,
    #[serde(default)]
    store_threshold: u32,
    per_request_tier_hits: Vec<u64>,
}

#[derive(Debug, Deserialize)]
struct Row {
    input_length: u64,
    hash_ids: Vec<u64>,
}

fn rules(page: u32, policy: OffloadPolicy, store_threshold: u32, blocks_per_chunk: u32) -> OffloadRules {
    OffloadRules {
        options: OffloadOptions { policy, store_threshold, blocks_per_chunk },
        page_size: PageSize::new(page).expect("not zero"),
        prefill_chunk: 8192,
    }
}

#[test]
fn equals_vllms_manager_on_every_request_under_both_policies_and_a_threshold() {
    let Some(golden) = read_shared("golden/synthetic_vllm_native_offload.json") else { return };
    let Some(trace) = read_shared("traces/mooncake_synthetic_trace.jsonl") else { return };
    let golden: Golden = serde_json::from_str(&golden).expect("a golden file");
    let trace: Vec<Row> = trace.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    assert_eq!(golden.results.len(), 7);
    for run in &golden.results {
        let policy = if run.policy == "arc" { OffloadPolicy::Arc } else { OffloadPolicy::Lru };
        let rules = rules(512, policy, run.store_threshold, 1);
        let mut tier = OffloadTier::new(PageCount(run.tier_pages), rules);
        let (profile, outputs) = (Profile::Vllm, Outputs::Ignored);
        let mut device = Engine::new(EngineConfig { profile, outputs, ..EngineConfig::default() });
        let mut outcome = Outcome::default();
        let mut hits = Vec::new();
        for row in &trace {
            // Prompts were cut to whole pages.
            let full = (row.input_length / 512) as usize;
            let event = RequestEvent {
                page_ids: PageIds::from_slice(&row.hash_ids[..full]),
                input_tokens: Some(full as u64 * 512),
                ..RequestEvent::default()
            };
            device.observe(&event, rules.page_size, &mut outcome).expect("chained");
            hits.push(tier.request_after(&event, outcome.hits_at(run.device_pages)));
        }
        assert_eq!(hits.len(), run.per_request_tier_hits.len());
        let differing = hits.iter().zip(&run.per_request_tier_hits).filter(|(a, b)| a != b).count();
        assert_eq!(
            differing, 0,
            "requests that differ at {} + {} pages, {policy:?}",
            run.device_pages, run.tier_pages
        );
    }
}

/// Prompts that walk through a small tree of ids, with what the device has of each and its answer's tokens.
fn prompts() -> impl Strategy<Value = Vec<(Vec<u64>, u64, u64)>> {
    let steps = prop::collection::vec((0u64..3, 1usize..6), 0..5);
    let prompt = (steps, 0u64..12, 0u64..4).prop_map(|(steps, above, outputs)| {
        let (ids, _) = walk(steps);
        let above = if above % 3 == 0 { 0 } else { above.min((ids.len() as u64).saturating_sub(1)) };
        (ids, above, outputs)
    });
    prop::collection::vec(prompt, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    /// Capacities from less than a prompt on, steps of a few pages, chunks of several.
    #[test]
    fn equals_the_slow_model(
        capacity in 3u64..70,
        group in 1u32..4,
        step in 3u32..12,
        threshold in 0u32..4,
        is_arc in any::<bool>(),
        prompts in prompts(),
    ) {
        let policy = if is_arc { OffloadPolicy::Arc } else { OffloadPolicy::Lru };
        let rules = OffloadRules { prefill_chunk: step * 16, ..rules(16, policy, threshold, group) };
        let mut fast = OffloadTier::new(PageCount(capacity), rules);
        let mut slow = SlowOffload::new(capacity, group as usize, step as usize, threshold as usize, is_arc);
        for (index, (ids, above, outputs)) in prompts.iter().enumerate() {
            let event = RequestEvent {
                page_ids: PageIds::from_slice(ids),
                input_tokens: Some(ids.len() as u64 * 16),
                output_tokens: Some(*outputs),
                ..RequestEvent::default()
            };
            let found = fast.request_after(&event, *above);
            prop_assert_eq!(found, slow.request_after(ids, *above, *outputs), "request {}", index);
            prop_assert_eq!(fast.resident().0, slow.resident(), "resident after request {}", index);
            prop_assert_eq!(fast.written().0, slow.written, "written after request {}", index);
        }
    }
}

/// A pool and its tier alongside the slow transcription of both; the tier is saved and read back before one of the
/// requests.
fn compare_grouped(
    (capacity, blocks): (u64, u64),
    pool: &HybridRules,
    (chunk, threshold, is_arc): (u32, u32, bool),
    requests: &[Asked],
    restart: usize,
) -> Result<(), TestCaseError> {
    let page = u64::from(pool.page_size.get());
    let policy = if is_arc { OffloadPolicy::Arc } else { OffloadPolicy::Lru };
    let is_odd = matches!(pool.retention, BlockRetention::Every(tokens) if !tokens.is_multiple_of(chunk * pool.page_size.get()));
    let chunk = if is_odd { 1 } else { chunk };
    let options = OffloadOptions { policy, store_threshold: threshold, blocks_per_chunk: chunk };
    let mut fast = HybridCache::new(PageCount(capacity), pool.clone()).expect("sound rules");
    let mut tier = OffloadTier::under(PageCount(blocks), options, pool).expect("sound rules");
    let mut slow = slow(capacity, pool);
    let mut manager = SlowManager::new(blocks, u64::from(chunk), threshold as usize, is_arc);
    for (index, asked) in requests.iter().enumerate() {
        if index == restart {
            let saved = tier.save();
            tier = OffloadTier::restore(&saved, pool).expect("as it was saved");
            prop_assert_eq!(tier.save(), saved);
        }
        let (found, below) = tier.request_under(&mut fast, &to_event(asked, page));
        let (mut next, mut below_next) = (slow.clone(), manager.clone());
        let request = (asked.ids.as_slice(), input(asked, page), asked.output);
        let expected = next.request_over(request, &asked.known_outputs, &mut below_next);
        prop_assert_eq!(found.refused, expected.is_none(), "request {}", index);
        if let Some(expected) = expected {
            prop_assert_eq!((found.hits, below), expected, "request {}", index);
            (slow, manager) = (next, below_next);
        }
        prop_assert_eq!(fast.resident().0, slow.resident(), "resident after request {}", index);
        prop_assert_eq!(tier.resident().0, manager.resident(), "in the tier after request {}", index);
        prop_assert_eq!(tier.written().0, manager.written, "written after request {}", index);
    }
    Ok(())
}

/// Requests with these pages and outputs in a tier by ARC, under one full group and two of states.
fn compare_in_arc(
    sizes: (u64, u64),
    (retention, prefill_chunk): (BlockRetention, u32),
    threshold: u32,
    requests: &[(&[u64], u64)],
) {
    let pool = HybridRules {
        attention: "full+2*mamba".parse().expect("groups"),
        retention,
        prefill_chunk,
        page_size: PageSize::new(1).expect("not zero"),
        outputs: Outputs::Cached,
        head: DraftHead::default(),
    };
    let asked = |(ids, output): &(&[u64], u64)| Asked {
        ids: ids.to_vec(),
        tail: 0,
        output: *output,
        known_outputs: vec![],
    };
    let requests: Vec<Asked> = requests.iter().map(asked).collect();
    compare_grouped(sizes, &pool, (1, threshold, true), &requests, 0).expect("equal");
}

#[test]
fn what_a_request_found_and_lost_to_its_own_stores_counts_as_used_again() {
    let long = [3, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43];
    let requests: [(&[u64], u64); 8] = [
        (&[1], 0),
        (&[2], 0),
        (&long, 7),
        (&[2, 21], 0),
        (&[], 0),
        (&[2, 21, 22, 23, 24, 25, 26], 0),
        (&[1, 11, 12, 13, 14, 15, 16, 17, 18], 6),
        (&[2], 0),
    ];
    compare_in_arc((60, 45), (BlockRetention::Every(1), 1), 0, &requests);
}

#[test]
fn a_ghost_that_lies_partly_in_an_earlier_offer_teaches_the_rest() {
    let requests: [(&[u64], u64); 12] = [
        (&[1, 11, 12, 13], 0),
        (&[2, 20, 21], 0),
        (&[1, 11, 12, 13, 14, 15, 16, 17], 0),
        (&[1, 18, 19], 21),
        (&[2, 22, 23, 24], 0),
        (&[1], 0),
        (&[1, 11, 12, 13, 14, 15, 16, 17], 2),
        (&[], 0),
        (&[], 20),
        (&[], 0),
        (&[2, 22, 25], 0),
        (&[1, 11], 0),
    ];
    compare_in_arc((76, 8), (BlockRetention::All, 7), 2, &requests);
}

#[test]
fn a_page_that_a_window_gave_back_is_stored_until_its_block_is_taken_anew() {
    let pool = HybridRules {
        attention: "2*window:5+full".parse().expect("groups"),
        retention: BlockRetention::Every(6),
        prefill_chunk: 8,
        page_size: PageSize::new(2).expect("not zero"),
        outputs: Outputs::Cached,
        head: DraftHead { tokens: 1, layers: DraftLayers::Full },
    };
    let asked = |ids: &[u64], tail, output| Asked { ids: ids.to_vec(), tail, output, known_outputs: vec![] };
    let requests = [asked(&[1, 2, 3, 4, 5], 0, 0), asked(&[1, 2, 3, 6, 7], 1, 5)];
    compare_grouped((60, 10), &pool, (1, 0, false), &requests, 0).expect("equal");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Under several groups of layers: each key by itself, of windows those that can be gone on from, of states as
    /// they are named.
    #[test]
    fn under_several_groups_pool_and_tier_equal_the_slow_transcription(
        (capacity, blocks) in (60u64..200, 8u64..150),
        pool in pool_rules(),
        chunk in 1u32..4,
        threshold in 0u32..4,
        is_arc in any::<bool>(),
        requests in prop::collection::vec(asked(), 1..50),
        restart in any::<prop::sample::Index>(),
    ) {
        let options = (chunk, threshold, is_arc);
        compare_grouped((capacity, blocks), &pool, options, &requests, restart.index(requests.len()))?;
    }
}
