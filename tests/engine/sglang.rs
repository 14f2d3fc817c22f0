//! The `sglang` profile against SGLang's own answers and against a slow transcription of its steps.

use crate::asked::{asked, event, to_event};
use crate::support::shared::{golden, mooncake_trace};
use crate::support::slow_sglang::SlowSglang;
use kvset::core::engines::hits::CacheHits;
use kvset::core::engines::profile::Outputs;
use kvset::core::engines::sglang::{MAX_CAPACITY, NoHost, PlainRules, SglangCache, SglangSaved};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::core::units::{PageCount, PageSize};
use proptest::prelude::*;

fn cache(capacity: u64, page: u32, outputs: Outputs) -> SglangCache {
    let page_size = PageSize::new(page).expect("not zero");
    let rules = PlainRules { page_size, outputs, drafts: false };
    SglangCache::new(PageCount(capacity), rules, NoHost).expect("a capacity in range")
}

fn check_golden(name: &str, outputs: Outputs) {
    let (Some(golden), Some(trace)) = (golden(name), mooncake_trace()) else { return };
    assert_eq!(trace.len(), golden.requests);
    for expected in &golden.results {
        let mut cache = cache(expected.capacity_pages, golden.page_size, outputs);
        let hits = trace.iter().map(|row| {
            let answer = cache.request(&event(&row.hash_ids, row.input_length, row.output_length));
            assert!(!answer.refused);
            answer.hits
        });
        let hits: Vec<u64> = hits.collect();
        let differing = hits.iter().zip(&expected.per_request_prefix_hits).filter(|(a, b)| a != b).count();
        assert_eq!(differing, 0, "requests that differ at {} pages", expected.capacity_pages);
        assert_eq!(hits.iter().sum::<u64>(), expected.prefix_hits);
        assert!(cache.resident().0 <= cache.capacity());
    }
}

#[test]
fn equals_sglang_on_every_request_where_outputs_are_cached() {
    check_golden("synthetic_sglang_output.json", Outputs::Cached);
}

#[test]
fn equals_sglang_on_every_request_where_outputs_are_ignored() {
    check_golden("synthetic_sglang_prefill.json", Outputs::Ignored);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn equals_the_slow_transcription(
        capacity in 25u64..90,
        page in 1u64..5,
        cached in any::<bool>(),
        requests in prop::collection::vec(asked(4), 1..80),
    ) {
        let outputs = if cached { Outputs::Cached } else { Outputs::Ignored };
        let mut fast = cache(capacity, page as u32, outputs);
        let mut slow = SlowSglang::new(capacity, page, cached);
        for (index, asked) in requests.iter().enumerate() {
            let mut asked = asked.clone();
            asked.input = asked.input.min(asked.ids.len() as u64 * page);
            let answer = fast.request(&to_event(&asked));
            if answer.refused {
                continue;
            }
            let expected = slow.request(&asked.ids, asked.input, asked.output, &asked.known_outputs);
            prop_assert_eq!(answer.hits, expected, "request {}", index);
            prop_assert_eq!(fast.resident().0.0, slow.resident(), "resident after request {}", index);
        }
    }

    #[test]
    fn a_restored_cache_goes_on_as_if_nothing_had_happened(
        capacity in 25u64..60,
        requests in prop::collection::vec(asked(2), 2..60),
        cut in 0usize..60,
    ) {
        let mut whole = cache(capacity, 2, Outputs::Cached);
        let cut = cut.min(requests.len());
        for asked in &requests[..cut] {
            whole.request(&to_event(asked));
        }
        let text = serde_json::to_string(&whole.save()).expect("plain data");
        let mut restored = <SglangCache>::restore(&serde_json::from_str(&text).expect("plain data")).expect("sound");
        for asked in &requests[cut..] {
            prop_assert_eq!(whole.request(&to_event(asked)), restored.request(&to_event(asked)));
        }
        prop_assert_eq!(whole.save(), restored.save());
    }
}

#[test]
fn a_request_larger_than_the_cache_is_turned_away_and_changes_nothing() {
    let mut cache = cache(4, 16, Outputs::Cached);
    let small = [1, 2];
    assert_eq!(cache.request(&event(&small, 32, 1)), CacheHits { hits: 0, refused: false });
    let before = cache.save();
    assert!(cache.request(&event(&[1, 2, 3, 4], 64, 1)).refused, "prefill asks for one page more");
    assert!(cache.request(&event(&small, 32, 1000)).refused, "the output does not fit");
    assert_eq!(cache.refused(), 2);
    let mut after = cache.save();
    after.refused = before.refused;
    assert_eq!(before, after);
    assert_eq!(cache.request(&event(&small, 32, 1)).hits, 1, "the last token is computed again");
}

#[test]
fn equal_ids_in_two_scopes_are_two_prompts() {
    let mut cache = cache(100, 16, Outputs::Cached);
    let ids = [1, 2, 3];
    let [a, b] = [b"a", b"b"].map(|name| RequestEvent { scope: Scope::named(name), ..event(&ids, 40, 0) });
    assert_eq!([&a, &b, &a, &b].map(|event| cache.request(event).hits), [0, 0, 2, 2]);
}

#[test]
fn what_an_output_left_behind_is_found_by_the_next_turn_where_its_ids_are_known() {
    let mut cache = cache(100, 16, Outputs::Cached);
    let outputs = [3, 4];
    let first = RequestEvent { output_page_ids: PageIds::from_slice(&outputs), ..event(&[1, 2], 32, 33) };
    cache.request(&first);
    assert_eq!(cache.request(&event(&[1, 2, 3, 4, 5], 80, 0)).hits, 4);
}

#[test]
fn capacities_out_of_range_are_refused() {
    let mut none = cache(0, 16, Outputs::Cached);
    let error =
        SglangCache::new(PageCount(MAX_CAPACITY.0 + 1), *none.rules(), NoHost).expect_err("too large");
    assert!(error.to_string().contains("4294967295 pages"), "{error}");
    assert!(none.request(&event(&[], 0, 0)).refused);
}

#[test]
fn damaged_states_are_refused() {
    let mut sound = cache(10, 16, Outputs::Cached);
    sound.request(&event(&[1, 2, 3], 48, 20));
    sound.request(&event(&[1, 2, 4], 48, 0));
    let sound = sound.save();
    assert!(<SglangCache>::restore(&sound).is_ok());
    type Damage = fn(&mut SglangSaved);
    let damages: [(&str, Damage); 7] = [
        ("precedes its parent", |s| s.nodes[0].parent = 1),
        ("precedes its parent", |s| s.nodes[0].parent = u32::MAX),
        ("has no pages", |s| (s.nodes[1].ids, s.nodes[1].private) = (vec![], 0)),
        ("begins like another child", |s| s.nodes[2].ids = s.nodes[1].ids.clone()),
        ("impossible stamp", |s| s.nodes[1].stamp = s.nodes[0].stamp),
        ("impossible stamp", |s| s.clock = 1),
        ("pages holds", |s| s.capacity = PageCount(4)),
    ];
    for (expected, damage) in damages {
        let mut damaged = sound.clone();
        damage(&mut damaged);
        let error = <SglangCache>::restore(&damaged).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should say: {expected}");
    }
}
