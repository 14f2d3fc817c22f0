//! SGLang with a pool of its own for states against a slow transcription of its steps.

use crate::asked::{Asked, event, to_event};
use crate::support::slow_states::{SlowStateRules, SlowStates};
use kvset::core::engines::profile::Outputs;
use kvset::core::engines::sglang::{NoHost, PoolRules, SglangSaved, StateCache, StateRules};
use kvset::core::units::{PageCount, PageSize};
use proptest::prelude::*;

pub fn rules(
    attention: &str,
    ratio: &str,
    state_tokens: u32,
    chunk: u32,
    page: u32,
    cached: bool,
) -> StateRules {
    StateRules {
        attention: attention.parse().expect("groups"),
        mamba_full_memory_ratio: ratio.parse().expect("a share"),
        state_tokens,
        prefill_chunk: chunk,
        page_size: PageSize::new(page).expect("not zero"),
        outputs: if cached { Outputs::Cached } else { Outputs::Ignored },
    }
}

fn cache(capacity: u64, rules: &StateRules) -> StateCache {
    StateCache::new(PageCount(capacity), rules.clone(), NoHost).expect("a capacity in range")
}

/// Prompts of several places where a state can be kept, that share prefixes and leave them anywhere.
pub fn asked(page: u64) -> impl Strategy<Value = Asked> {
    let steps = prop::collection::vec((0u64..3, 1u64..260), 0..5);
    (steps, 0..page, 0u64..600, 0usize..3).prop_map(move |(steps, tail, output, known)| {
        let (mut chain, mut ids) = (17u64, Vec::new());
        let mut tokens = 0;
        for (branch, more) in steps {
            tokens += more;
            while (ids.len() as u64 + 1) * page <= tokens {
                chain = chain.wrapping_mul(31).wrapping_add(branch * 7 + 1);
                ids.push(chain);
            }
        }
        let input = ids.len() as u64 * page - if ids.is_empty() { 0 } else { tail };
        let known_outputs = (0..known as u64).map(|at| chain.wrapping_mul(31).wrapping_add(at)).collect();
        Asked { ids, input, output, known_outputs }
    })
}

/// A request in pages of 16 tokens, at another page: those of one token are as many as its tokens.
pub fn at_page(asked: &mut Asked, page: u64) {
    if page == 1 {
        let parts = |id: &u64| (0..16).map(|part| id.wrapping_mul(16).wrapping_add(part)).collect::<Vec<_>>();
        asked.ids = asked.ids.iter().flat_map(parts).collect();
    }
    asked.ids.truncate((asked.input / page) as usize + 1);
    asked.input = asked.input.min(asked.ids.len() as u64 * page);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn equals_the_slow_transcription(
        tokens in 3_000u64..12_000,
        page in prop::sample::select(vec![1u32, 16, 32, 64, 128]),
        state_tokens in prop::sample::select(vec![40u32, 100, 250]),
        ratio in prop::sample::select(vec!["0.3", "0.9", "2.5"]),
        chunk in prop::sample::select(vec![128u32, 384, 8192]),
        cached in any::<bool>(),
        requests in prop::collection::vec(asked(16), 1..50),
    ) {
        let rules = rules("full+2*mamba", ratio, state_tokens, chunk, page, cached);
        rules.check().expect("pages that fit");
        let mut fast = cache(tokens / u64::from(page), &rules);
        let (full, states) = fast.pools();
        let (page, chunk) = (u64::from(page), u64::from(chunk));
        let rules = SlowStateRules { full: full.0, states, page, chunk, outputs_cached: cached };
        let mut slow = SlowStates::new(rules);
        for (index, asked) in requests.iter().enumerate() {
            let mut asked = asked.clone();
            at_page(&mut asked, page);
            let answer = fast.request(&to_event(&asked));
            let expected = slow.request(&asked.ids, asked.input, asked.output, &asked.known_outputs);
            prop_assert_eq!((!answer.refused).then_some(answer.hits), expected, "request {}", index);
            let resident = fast.resident();
            prop_assert_eq!((resident.0.0, resident.1), slow.resident(), "resident after request {}", index);
        }
    }

    #[test]
    fn a_restored_cache_goes_on_as_if_nothing_had_happened(
        requests in prop::collection::vec(asked(16), 2..40),
        cut in 0usize..40,
    ) {
        let mut whole = cache(400, &rules("full+3*mamba", "0.9", 100, 512, 16, true));
        let cut = cut.min(requests.len());
        for asked in &requests[..cut] {
            whole.request(&to_event(asked));
        }
        let text = serde_json::to_string(&whole.save()).expect("plain data");
        let mut restored = <StateCache>::restore(&serde_json::from_str(&text).expect("plain data")).expect("sound");
        for asked in &requests[cut..] {
            prop_assert_eq!(whole.request(&to_event(asked)), restored.request(&to_event(asked)));
        }
        prop_assert_eq!(whole.save(), restored.save());
    }
}

#[test]
fn memory_is_split_as_sglang_splits_it() {
    let pools = |attention, ratio, capacity| {
        let (full, states) = cache(capacity, &rules(attention, ratio, 544, 8192, 16, true)).pools();
        (full.0, states)
    };
    // Of 48,000 tokens 22,736 are for states of 1,632; 13 fit, one of which is never used.
    assert_eq!(pools("full+3*mamba", "0.9", 3000), (1674, 12));
    assert_eq!(pools("2*full+mamba", "1", 3000), (752, 43));
    assert_eq!(
        pools("full+3*mamba", "2.5", 3000),
        (858, 20),
        "more memory for states than for full attention"
    );
    assert_eq!(pools("full+3*mamba", "0.9", 0), (0, 0));
}

#[test]
fn a_prompt_goes_on_from_the_last_state_that_is_left() {
    // 400 pages: 6 states of 300 tokens at most beside three of the request.
    let mut cache = cache(400, &rules("full+mamba", "0.9", 300, 8192, 16, false));
    assert_eq!(cache.pools().1, 9);
    let ids: Vec<u64> = (0..20).collect();
    assert_eq!(cache.request(&event(&ids, 320, 1)).hits, 0);
    assert_eq!(cache.request(&event(&ids[..18], 288, 1)).hits, 0, "its only state lies behind that");
    assert_eq!(cache.request(&event(&ids, 320, 1)).hits, 16, "the last multiple of 64 within what was there");
    assert_eq!(cache.resident(), (PageCount(20), 2));
}

#[test]
fn a_pool_of_too_few_states_serves_nothing() {
    let ids: Vec<u64> = (0..10).collect();
    let served = |capacity| {
        let mut cache = cache(capacity, &rules("full+mamba", "0.9", 300, 8192, 16, false));
        (cache.pools().1, cache.request(&event(&ids, 160, 1)).refused)
    };
    assert_eq!(served(240), (5, false));
    assert_eq!(served(235), (4, true));
}

#[test]
fn damaged_states_are_refused() {
    let mut sound = cache(400, &rules("full+mamba", "0.9", 300, 8192, 16, false));
    let ids: Vec<u64> = (0..20).collect();
    sound.request(&event(&ids, 320, 1));
    sound.request(&event(&ids[..18], 288, 1));
    let sound = sound.save();
    assert!(<StateCache>::restore(&sound).is_ok());
    type Damage = fn(&mut SglangSaved<StateRules>);
    let damages: [(&str, Damage); 4] = [
        ("precedes its parent", |s| s.nodes[0].parent = 9),
        ("has a place of another one", |s| s.nodes.iter_mut().for_each(|node| node.other = Some((1, None)))),
        ("pages holds", |s| s.capacity = PageCount(4)),
        ("impossible stamp", |s| s.clock = 1),
    ];
    for (expected, damage) in damages {
        let mut damaged = sound.clone();
        damage(&mut damaged);
        let error = <StateCache>::restore(&damaged).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should say: {expected}");
    }
}
