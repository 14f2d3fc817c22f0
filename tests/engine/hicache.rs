//! SGLang with HiCache against a slow transcription of its steps; `recorded` has SGLang's own answers.

use crate::asked::{asked, event, to_event};
use crate::support::slow_hicache::SlowHicache;
use kvset::core::engines::below::{Chain, Store};
use kvset::core::engines::profile::Outputs;
use kvset::core::engines::rules::EngineRules;
use kvset::core::engines::sglang::{
    HicacheCache, HicacheRules, MAX_CAPACITY, NoHost, PlainRules, SavedSides, SglangCache, SglangSaved,
    WritePolicy,
};
use kvset::core::units::{PageCount, PageSize};
use proptest::prelude::*;

const POLICIES: [WritePolicy; 3] =
    [WritePolicy::WriteThrough, WritePolicy::WriteThroughSelective, WritePolicy::WriteBack];

fn rules(host: u64, write: WritePolicy, page: u32, outputs: Outputs) -> HicacheRules {
    HicacheRules { host: PageCount(host), write, page_size: PageSize::new(page).expect("not zero"), outputs }
}

fn cache(device: u64, rules: HicacheRules) -> HicacheCache {
    let plain = PlainRules { page_size: rules.page_size, outputs: rules.outputs, drafts: false };
    HicacheCache::new(PageCount(device), plain, rules).expect("a capacity in range")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn equals_the_slow_transcription_and_goes_on_from_a_snapshot(
        device in 25u64..70,
        host in 0u64..120,
        policy in 0usize..3,
        page in 1u64..5,
        cached in any::<bool>(),
        requests in prop::collection::vec(asked(4), 1..80),
        cut in 0usize..80,
    ) {
        let outputs = if cached { Outputs::Cached } else { Outputs::Ignored };
        let threshold = [Some(1), Some(2), None][policy];
        let mut fast = cache(device, rules(host, POLICIES[policy], page as u32, outputs));
        let mut slow = SlowHicache::new(device, host, threshold, page, cached);
        for (index, asked) in requests.iter().enumerate() {
            if index == cut {
                let text = serde_json::to_string(&fast).expect("plain data");
                let restored: HicacheCache = serde_json::from_str(&text).expect("sound");
                prop_assert_eq!(restored.save(), fast.save());
                fast = restored;
            }
            let mut asked = asked.clone();
            asked.input = asked.input.min(asked.ids.len() as u64 * page);
            let (found, host) = fast.request(&to_event(&asked));
            if found.refused {
                continue;
            }
            let expected = slow.request(&asked.ids, asked.input, asked.output, &asked.known_outputs);
            prop_assert_eq!((found.hits, host), expected, "request {}", index);
            let resident = (fast.resident().0.0, fast.resident_on_host().0.0);
            prop_assert_eq!(resident, slow.resident(), "resident after request {}", index);
        }
    }

    #[test]
    fn without_room_on_the_host_it_is_the_cache_without_one(
        device in 25u64..70,
        policy in 0usize..3,
        requests in prop::collection::vec(asked(4), 1..60),
    ) {
        let mut with = cache(device, rules(0, POLICIES[policy], 4, Outputs::Cached));
        let mut without = SglangCache::new(PageCount(device), *with.rules(), NoHost).expect("in range");
        for asked in &requests {
            let (found, plain) = (with.request(&to_event(asked)), without.request(&to_event(asked)));
            prop_assert_eq!(found, (plain, 0));
        }
        prop_assert_eq!(with.refused(), without.refused());
    }
}

/// A prompt of so many pages of 16 tokens, and one token.
fn ask(cache: &mut HicacheCache, ids: &[u64]) -> (u64, u64) {
    let (found, host) = cache.request(&event(ids, ids.len() as u64 * 16 + 1, 1));
    assert!(!found.refused);
    (found.hits, host)
}

#[test]
fn what_the_device_evicts_is_loaded_back_when_the_policy_has_written_it() {
    let (first, second) = ([1, 2, 3, 4], [11, 12, 13, 14]);
    for (policy, once, twice) in [
        (WritePolicy::WriteThrough, (0, 4), (0, 4)),
        // LoggedRequest once it is not written, and so it is gone.
        (WritePolicy::WriteThroughSelective, (0, 0), (0, 4)),
        (WritePolicy::WriteBack, (0, 4), (0, 4)),
    ] {
        let mut own = cache(6, rules(100, policy, 16, Outputs::Ignored));
        assert_eq!(ask(&mut own, &first), (0, 0));
        assert_eq!(ask(&mut own, &second), (0, 0), "evicts the first");
        assert_eq!(ask(&mut own, &first), once, "{}", policy.name());
        assert_eq!(ask(&mut own, &first), (4, 0), "the second time");
        assert_eq!(ask(&mut own, &second), if once == (0, 4) { once } else { (0, 0) });
        assert_eq!(ask(&mut own, &first), twice, "{}", policy.name());
    }
}

#[test]
fn fewer_than_ten_tokens_are_not_loaded_back() {
    for (pages, found) in [(2, (0, 0)), (3, (0, 3))] {
        let mut own = cache(6, rules(100, WritePolicy::WriteThrough, 4, Outputs::Ignored));
        let prompts: [Vec<u64>; 2] = [(1..=pages).collect(), (11..=14).collect()];
        for prompt in &prompts {
            own.request(&event(prompt, prompt.len() as u64 * 4 + 1, 1));
        }
        let (again, host) = own.request(&event(&prompts[0], pages * 4 + 1, 1));
        assert_eq!((again.hits, host), found, "{pages} pages of 4 tokens");
    }
}

#[test]
fn a_tier_below_sees_only_what_device_and_host_did_not_have() {
    let prompts = [[1, 2, 3, 4], [11, 12, 13, 14], [21, 22, 23, 24]];
    let of_stores = EngineRules { chunk_tokens: 16, ..EngineRules::default() };
    let page = PageSize::new(16).expect("not zero");
    // The device holds one prompt, the host two, and so does the store.
    let mut store = Chain::new(&[(Store::Lmcache, PageCount(8))], &of_stores, page).expect("whole pages");
    let mut own = cache(6, rules(8, WritePolicy::WriteThrough, 16, Outputs::Ignored));
    let mut ask = |prompt: usize| {
        let event = event(&prompts[prompt], 65, 1);
        let (found, host) = own.request(&event);
        let below = store.request_behind(&event, found.hits + host)[0];
        (found.hits, host, below)
    };
    assert_eq!(ask(0), (0, 0, 0));
    assert_eq!(ask(0), (4, 0, 0), "the store is not asked");
    assert_eq!(ask(1), (0, 0, 0));
    assert_eq!(ask(0), (0, 4, 0), "nor where the host has it");
    // The host drops the prompt it was requested least recently, the store the one that nobody asked it for.
    assert_eq!(ask(2), (0, 0, 0));
    assert_eq!(ask(1), (0, 0, 4));
    assert_eq!(ask(0), (0, 0, 0), "grown old in the store, gone from the host");
}

#[test]
fn a_request_larger_than_the_device_is_turned_away_and_changes_nothing() {
    let mut own = cache(4, rules(100, WritePolicy::WriteBack, 16, Outputs::Cached));
    ask(&mut own, &[1, 2]);
    let before = own.save();
    let (found, host) = own.request(&event(&[1, 2, 3, 4], 64, 1));
    assert_eq!((found.hits, found.refused, host), (0, true, 0));
    assert_eq!(own.save(), SglangSaved { refused: 1, ..before });
    let too_large = rules(MAX_CAPACITY.0, WritePolicy::WriteBack, 16, Outputs::Cached);
    let said = HicacheCache::new(PageCount(4), *own.rules(), too_large).expect_err("too large").to_string();
    assert!(said.contains("more than the sglang profile models"), "{said}");
}

#[test]
fn a_damaged_state_is_refused() {
    let mut own = cache(8, rules(20, WritePolicy::WriteThrough, 16, Outputs::Ignored));
    for prompt in [[1, 2, 3], [1, 2, 4], [11, 12, 13]] {
        ask(&mut own, &prompt);
    }
    let whole = own.save();
    assert_eq!(HicacheCache::restore(&whole).expect("sound").save(), whole);
    let child = whole.nodes.iter().position(|own| own.parent > 0).expect("a branch");
    let parent = whole.nodes[child].parent as usize - 1;
    let refused = |damage: &dyn Fn(&mut SglangSaved<PlainRules, HicacheRules>), part: &str| {
        let mut saved = whole.clone();
        damage(&mut saved);
        let said = HicacheCache::restore(&saved).expect_err(part).to_string();
        assert!(said.contains(part) && said.contains("rebuild from the log"), "{said}");
    };
    let on = |on_device: bool, on_host: bool| {
        Some(SavedSides { on_device, on_host, ..whole.nodes[parent].sides.expect("over a host") })
    };
    refused(&|saved| saved.nodes[0].sides = on(false, false), "is on no side");
    refused(&|saved| saved.nodes[0].sides = None, "is on no side");
    refused(&|saved| saved.nodes[parent].sides = on(false, true), "is on the device without its parent");
    refused(&|saved| saved.nodes[parent].sides = on(true, false), "is on the host without its parent");
    let first = |saved: &mut SglangSaved<PlainRules, HicacheRules>, change: fn(&mut SavedSides)| {
        saved.nodes[0].sides.iter_mut().for_each(change);
    };
    refused(&|saved| first(saved, |own| own.insertions = 9), "an impossible number of insertions");
    refused(&|saved| first(saved, |own| own.duplicate = 1), "an impossible place among nodes on both sides");
    refused(&|saved| saved.nodes[0].stamp = 0, "an impossible stamp");
    refused(&|saved| saved.host.host = PageCount(1), "of 1 pages holds");
    refused(&|saved| saved.capacity = PageCount(1), "of 1 pages holds");
}
