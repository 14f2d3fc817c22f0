//! SGLang with a pool of its own for windows against a slow transcription of its steps.

use crate::asked::{asked, event, to_event};
use crate::support::slow_windows::{SlowRules, SlowWindows};
use kvset::core::engines::hits::CacheHits;
use kvset::core::engines::profile::Outputs;
use kvset::core::engines::sglang::{NoHost, SglangSaved, WindowCache, WindowPoolRules};
use kvset::core::units::{PageCount, PageSize};
use proptest::prelude::*;

pub fn rules(attention: &str, ratio: &str, chunk: u32, page: u32, cached: bool) -> WindowPoolRules {
    WindowPoolRules {
        attention: attention.parse().expect("groups"),
        swa_full_tokens_ratio: ratio.parse().expect("a share"),
        prefill_chunk: chunk,
        page_size: PageSize::new(page).expect("not zero"),
        outputs: if cached { Outputs::Cached } else { Outputs::Ignored },
    }
}

fn cache(capacity: u64, rules: &WindowPoolRules) -> WindowCache {
    WindowCache::new(PageCount(capacity), rules.clone(), NoHost).expect("a capacity in range")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn equals_the_slow_transcription(
        capacity in 20u64..150,
        page in 1u32..6,
        window in 2u32..40,
        ratio in prop::sample::select(vec!["0.2", "0.5", "0.8", "1"]),
        chunk in prop::sample::select(vec![7u32, 16, 1000]),
        cached in any::<bool>(),
        long in any::<bool>(),
        requests in prop::collection::vec(asked(4), 1..60),
    ) {
        let chunk = (chunk / page).max(1) * page;
        let rules = rules(&format!("full+window:{window}"), ratio, chunk, page, cached);
        let mut fast = cache(capacity, &rules);
        let (full, windows) = fast.pools();
        let mut slow = SlowWindows::new(SlowRules {
            full: full.0,
            windows,
            page: u64::from(page),
            window: u64::from(window - 1),
            chunk: u64::from(chunk),
            outputs_cached: cached,
        });
        for (index, asked) in requests.iter().enumerate() {
            let mut asked = asked.clone();
            asked.input = asked.input.min(asked.ids.len() as u64 * u64::from(page));
            // Answers that a window passes, too.
            asked.output *= if long { 20 } else { 1 };
            let answer = fast.request(&to_event(&asked));
            let expected = slow.request(&asked.ids, asked.input, asked.output, &asked.known_outputs);
            prop_assert_eq!((!answer.refused).then_some(answer.hits), expected, "request {}", index);
            let resident = fast.resident();
            prop_assert_eq!((resident.0.0, resident.1), slow.resident(), "resident after request {}", index);
        }
    }

    #[test]
    fn a_restored_cache_goes_on_as_if_nothing_had_happened(
        capacity in 40u64..120,
        requests in prop::collection::vec(asked(2), 2..60),
        cut in 0usize..60,
    ) {
        let mut whole = cache(capacity, &rules("full+window:5", "0.5", 64, 2, true));
        let cut = cut.min(requests.len());
        for asked in &requests[..cut] {
            whole.request(&to_event(asked));
        }
        let text = serde_json::to_string(&whole.save()).expect("plain data");
        let mut restored = <WindowCache>::restore(&serde_json::from_str(&text).expect("plain data")).expect("sound");
        for asked in &requests[cut..] {
            prop_assert_eq!(whole.request(&to_event(asked)), restored.request(&to_event(asked)));
        }
        prop_assert_eq!(whole.save(), restored.save());
    }
}

#[test]
fn memory_is_split_as_sglang_splits_it() {
    let pools = |attention, ratio, capacity| {
        let (full, windows) = cache(capacity, &rules(attention, ratio, 8192, 16, true)).pools();
        (full.0, windows)
    };
    assert_eq!(pools("full+window:128", "0.8", 900), (500, 400));
    assert_eq!(pools("full+window:128", "1", 901), (450, 450));
    assert_eq!(pools("full+5*window:1024", "0.5", 2000), (571, 285));
    assert_eq!(pools("full+window:128", "0.8", 0), (0, 0));
}

#[test]
fn a_prompt_whose_window_is_gone_is_computed_anew_and_has_it_again() {
    // 20 pages of 16 tokens for full attention, 10 for windows of two pages.
    let mut cache = cache(30, &rules("full+window:33", "0.5", 8192, 16, false));
    assert_eq!(cache.pools(), (PageCount(20), 10));
    let (first, second): (Vec<u64>, Vec<u64>) = ((0..6).collect(), (10..16).collect());
    assert_eq!(cache.request(&event(&first, 96, 1)).hits, 0);
    assert_eq!(cache.request(&event(&second, 96, 1)).hits, 0);
    assert_eq!(cache.resident(), (PageCount(12), 8), "the oldest windows made room, their pages stay");
    assert_eq!(cache.request(&event(&first, 96, 1)).hits, 0, "its window lacks a page");
    assert_eq!(cache.request(&event(&first, 96, 1)).hits, 5, "up to where the others had it");
}

#[test]
fn a_request_that_the_pool_of_windows_cannot_serve_is_turned_away() {
    let ids: Vec<u64> = (0..50).collect();
    let ask = |ratio| {
        let mut cache = cache(120, &rules("full+window:128", ratio, 8192, 16, false));
        (cache.pools().1, cache.request(&event(&ids, 800, 1)).refused, cache.refused())
    };
    assert_eq!(ask("0.2"), (20, false, 0), "the prompt is computed in small steps");
    // A window and what a step needs take all of it.
    assert_eq!(ask("0.08"), (8, true, 1));
}

#[test]
fn an_answer_that_the_pool_of_windows_has_no_room_for_is_ended_and_nothing_of_it_kept() {
    // 60 pages of 2 tokens for full attention, 12 for windows, which pass a page no sooner than after 132 tokens.
    let mut cache = cache(72, &rules("full+window:5", "0.2", 1000, 2, true));
    assert_eq!(cache.pools(), (PageCount(60), 12));
    let served = CacheHits { hits: 0, refused: false };
    assert_eq!(cache.request(&event(&[1, 2], 4, 40)), served);
    assert_eq!(cache.resident(), (PageCount(2), 2), "the prompt");
    assert_eq!(cache.request(&event(&[1, 2], 4, 3)).hits, 1);
    assert_eq!(cache.resident(), (PageCount(3), 3), "and an answer that fits");
}

#[test]
fn damaged_states_are_refused() {
    let mut sound = cache(60, &rules("full+window:33", "0.5", 64, 16, true));
    sound.request(&event(&[1, 2, 3], 48, 20));
    sound.request(&event(&[1, 2, 4], 48, 0));
    let sound = sound.save();
    assert!(<WindowCache>::restore(&sound).is_ok());
    let held = sound.nodes.iter().filter(|node| node.other > Some((0, None))).count();
    assert!(held >= 2, "{sound:?}");
    type Damage = fn(&mut SglangSaved<WindowPoolRules>);
    let damages: [(&str, Damage); 4] = [
        ("precedes its parent", |s| s.nodes[0].parent = 9),
        ("has a place of another one", |s| s.nodes.iter_mut().for_each(|node| node.other = Some((1, None)))),
        ("pages holds", |s| s.capacity = PageCount(4)),
        ("impossible stamp", |s| s.clock = 1),
    ];
    for (expected, damage) in damages {
        let mut damaged = sound.clone();
        damage(&mut damaged);
        let error = <WindowCache>::restore(&damaged).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should say: {expected}");
    }
}
