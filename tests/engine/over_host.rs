//! SGLang's HiCache under pools of windows and of states against a slow transcription of its steps; `recorded` has
//! SGLang's own answers.

use crate::asked::{Asked, asked, event, to_event};
use crate::support::slow_over_host::{
    SlowHostRules, SlowOverHost, request_with_states, request_with_windows,
};
use crate::{states, windows};
use kvset::core::engines::profile::Outputs;
use kvset::core::engines::sglang::{
    HicacheRules, NoHost, SglangSaved, StateCache, StateRules, WindowCache, WindowPoolRules, WritePolicy,
};
use kvset::core::units::{PageCount, PageSize};
use proptest::prelude::*;

const POLICIES: [WritePolicy; 3] =
    [WritePolicy::WriteThrough, WritePolicy::WriteThroughSelective, WritePolicy::WriteBack];

fn host(pages: u64, write: WritePolicy, page_size: PageSize, outputs: Outputs) -> HicacheRules {
    HicacheRules { host: PageCount(pages), write, page_size, outputs }
}

fn states_over_host(
    capacity: u64,
    rules: &StateRules,
    pages: u64,
    write: WritePolicy,
) -> StateCache<HicacheRules> {
    let host = host(pages, write, rules.page_size, rules.outputs);
    StateCache::<HicacheRules>::new(PageCount(capacity), rules.clone(), host).expect("capacities in range")
}

fn windows_over_host(
    capacity: u64,
    rules: &WindowPoolRules,
    pages: u64,
    write: WritePolicy,
) -> WindowCache<HicacheRules> {
    let host = host(pages, write, rules.page_size, rules.outputs);
    WindowCache::<HicacheRules>::new(PageCount(capacity), rules.clone(), host).expect("capacities in range")
}

/// Compares what each request finds, and what device and host hold then, with the slow transcription; the cache is
/// saved and read back before the request `cut`.
macro_rules! equals_the_slow {
    ($cache:ty, $fast:ident, ($slow:ident, $request:ident), ($requests:ident, $cut:ident), $prepare:expr) => {
        for (index, asked) in $requests.iter().enumerate() {
            if index == $cut {
                let text = serde_json::to_string(&$fast).expect("plain data");
                let restored: $cache = serde_json::from_str(&text).expect("sound");
                prop_assert_eq!(restored.save(), $fast.save());
                $fast = restored;
            }
            let mut asked = asked.clone();
            $prepare(&mut asked);
            let (answer, host_pages) = $fast.request(&to_event(&asked));
            let prompt = (&asked.ids[..], asked.input);
            let expected = $request(&mut $slow, prompt, (asked.output, &asked.known_outputs));
            let found = (!answer.refused).then_some((answer.hits, host_pages));
            prop_assert_eq!(found, expected, "request {}", index);
            let (device, host) = ($fast.resident(), $fast.resident_on_host());
            let resident = [device.0.0, device.1, host.0.0, host.1];
            prop_assert_eq!(resident, $slow.resident(), "resident after request {}", index);
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn windows_over_a_host_equal_the_slow_transcription_and_go_on_from_a_snapshot(
        capacity in 20u64..150,
        host in 0u64..300,
        policy in 0usize..3,
        page in 1u32..6,
        window in 2u32..40,
        ratio in prop::sample::select(vec!["0.2", "0.5", "0.8", "1"]),
        chunk in prop::sample::select(vec![7u32, 16, 1000]),
        cached in any::<bool>(),
        long in any::<bool>(),
        requests in prop::collection::vec(asked(4), 1..60),
        cut in 0usize..60,
    ) {
        let chunk = (chunk / page).max(1) * page;
        let rules = windows::rules(&format!("full+window:{window}"), ratio, chunk, page, cached);
        let mut fast = windows_over_host(capacity, &rules, host, POLICIES[policy]);
        let (pools, host_pools) = (fast.pools(), fast.host_pools());
        let page = u64::from(page);
        let mut slow = SlowOverHost::new(SlowHostRules {
            full: pools.0.0,
            other: pools.1,
            host_full: host_pools.0.0,
            host_other: host_pools.1,
            page,
            window: Some(u64::from(window - 1)),
            chunk: u64::from(chunk),
            outputs_cached: cached,
            threshold: [Some(1), Some(2), None][policy],
        });
        let prepare = |asked: &mut Asked| {
            asked.input = asked.input.min(asked.ids.len() as u64 * page);
            // Answers that a window passes, too.
            asked.output *= if long { 20 } else { 1 };
        };
        equals_the_slow!(WindowCache<HicacheRules>, fast, (slow, request_with_windows), (requests, cut), prepare);
    }

    #[test]
    fn windows_without_room_on_the_host_are_those_without_one(
        policy in 0usize..3,
        requests in prop::collection::vec(asked(2), 1..60),
    ) {
        let rules = windows::rules("full+window:5", "0.5", 64, 2, true);
        let mut with = windows_over_host(80, &rules, 0, POLICIES[policy]);
        let mut without = WindowCache::new(PageCount(80), rules, NoHost).expect("in range");
        for asked in &requests {
            let (found, plain) = (with.request(&to_event(asked)), without.request(&to_event(asked)));
            prop_assert_eq!(found, (plain, 0));
        }
    }

    #[test]
    fn states_over_a_host_equal_the_slow_transcription_and_go_on_from_a_snapshot(
        tokens in 3_000u64..12_000,
        host_tokens in 0u64..20_000,
        policy in 0usize..3,
        page in prop::sample::select(vec![1u32, 16, 32, 64, 128]),
        state_tokens in prop::sample::select(vec![40u32, 100, 250]),
        ratio in prop::sample::select(vec!["0.3", "0.9", "2.5"]),
        chunk in prop::sample::select(vec![128u32, 384, 8192]),
        cached in any::<bool>(),
        requests in prop::collection::vec(states::asked(16), 1..50),
        cut in 0usize..50,
    ) {
        let rules = states::rules("full+2*mamba", ratio, state_tokens, chunk, page, cached);
        let page = u64::from(page);
        let mut fast = states_over_host(tokens / page, &rules, host_tokens / page, POLICIES[policy]);
        let (pools, host_pools) = (fast.pools(), fast.host_pools());
        let mut slow = SlowOverHost::new(SlowHostRules {
            full: pools.0.0,
            other: pools.1,
            host_full: host_pools.0.0,
            host_other: host_pools.1,
            page,
            window: None,
            chunk: u64::from(chunk),
            outputs_cached: cached,
            threshold: [Some(1), Some(2), None][policy],
        });
        let prepare = |asked: &mut Asked| states::at_page(asked, page);
        equals_the_slow!(StateCache<HicacheRules>, fast, (slow, request_with_states), (requests, cut), prepare);
    }

    #[test]
    fn states_without_room_on_the_host_are_those_without_one(
        policy in 0usize..3,
        requests in prop::collection::vec(states::asked(16), 1..40),
    ) {
        let rules = states::rules("full+3*mamba", "0.9", 100, 512, 16, true);
        let mut with = states_over_host(400, &rules, 0, POLICIES[policy]);
        let mut without = StateCache::new(PageCount(400), rules, NoHost).expect("in range");
        for asked in &requests {
            let (found, plain) = (with.request(&to_event(asked)), without.request(&to_event(asked)));
            prop_assert_eq!(found, (plain, 0));
        }
    }
}

#[test]
fn a_host_is_split_as_the_device_is_and_has_a_row_more_of_each_pool() {
    let rules = states::rules("full+3*mamba", "0.9", 544, 8192, 16, true);
    let pools = |pages| {
        let own = states_over_host(3000, &rules, pages, WritePolicy::WriteThrough);
        (own.pools(), own.host_pools())
    };
    // The device has 26,800 tokens of full attention and 21,216 of states, with a row of each that it does not use.
    assert_eq!(pools(3000), ((PageCount(1674), 12), (PageCount(1675), 13)));
    assert_eq!(pools(9000), ((PageCount(1674), 12), (PageCount(5024), 39)));
    assert_eq!(pools(0), ((PageCount(1674), 12), (PageCount(0), 0)));
}

#[test]
fn a_prompt_goes_on_from_a_state_that_is_loaded_back() {
    // Room for 3 states besides those of a request.
    let rules = states::rules("full+mamba", "0.9", 200, 8192, 16, false);
    let prompts: Vec<Vec<u64>> = (0..6).map(|own| (own * 100..own * 100 + 9).collect()).collect();
    for (write, again) in [
        (WritePolicy::WriteThrough, (0, 8)),
        // Not written, and so gone.
        (WritePolicy::WriteThroughSelective, (0, 0)),
        (WritePolicy::WriteBack, (0, 8)),
    ] {
        let mut own = states_over_host(160, &rules, 2000, write);
        assert_eq!(own.pools().1, 5, "states");
        let mut ask = |prompt: &Vec<u64>| {
            let (found, host) = own.request(&event(prompt, prompt.len() as u64 * 16, 1));
            (found.hits, host)
        };
        prompts.iter().for_each(|prompt| assert_eq!(ask(prompt), (0, 0)));
        assert_eq!(ask(&prompts[0]), again, "{}", write.name());
    }
}

#[test]
fn damaged_states_over_a_host_are_refused() {
    let rules = states::rules("full+mamba", "0.9", 200, 8192, 16, false);
    let mut own = states_over_host(160, &rules, 300, WritePolicy::WriteThrough);
    for at in 0..6u64 {
        let ids: Vec<u64> = (at * 100..at * 100 + 9).collect();
        own.request(&event(&ids, 144, 1));
    }
    let whole = own.save();
    assert_eq!(StateCache::<HicacheRules>::restore(&whole).expect("sound").save(), whole);
    let places = whole.nodes.iter().filter_map(|node| node.other);
    let held = |of: fn((u32, Option<u32>)) -> bool| places.clone().position(of).expect("one");
    let (both, alone) = (held(|place| place.0 > 0), held(|place| place.1 > Some(0)));
    let refused = |part: &str, damage: &dyn Fn(&mut SglangSaved<StateRules, HicacheRules>)| {
        let mut saved = whole.clone();
        damage(&mut saved);
        let said = StateCache::<HicacheRules>::restore(&saved).expect_err(part).to_string();
        assert!(said.contains(part) && said.contains("rebuild from the log"), "{said}");
    };
    refused("has no place in the orders", &|saved| saved.nodes[1].other = None);
    let (of_alone, of_both) =
        (whole.nodes[alone].other.expect("a pool"), whole.nodes[both].other.expect("a pool"));
    refused("is held by the other pool where it is not", &|saved| {
        saved.nodes[alone].other = Some((1, of_alone.1))
    });
    refused("an impossible place in the host's order", &|saved| {
        saved.nodes[alone].other = Some((of_alone.0, Some(0)))
    });
    refused("an impossible place in the host's order", &|saved| {
        saved.nodes[both].other = Some((of_both.0, Some(1)))
    });
    refused("has a place of another one", &|saved| {
        saved
            .nodes
            .iter_mut()
            .filter_map(|node| node.other.as_mut())
            .for_each(|place| place.0 = place.0.min(1))
    });
    refused("impossible stamp", &|saved| saved.clock = 1);
    refused("pages holds", &|saved| saved.host.host = PageCount(20));
    refused("pages holds", &|saved| saved.capacity = PageCount(100));
}

#[test]
fn a_prompt_whose_window_is_gone_goes_on_from_the_hosts() {
    // 20 pages of 16 tokens for full attention, 10 for windows of two pages.
    let rules = windows::rules("full+window:33", "0.5", 8192, 16, false);
    let prompts = [0, 10, 20].map(|first| (first..first + 6).collect::<Vec<u64>>());
    let served = |write| {
        let mut own = windows_over_host(30, &rules, 90, write);
        assert_eq!(own.host_pools(), (PageCount(60), 31));
        for prompt in &prompts {
            own.request(&event(prompt, 96, 1));
        }
        let (found, host) = own.request(&event(&prompts[0], 96, 1));
        (found.hits, host)
    };
    assert_eq!(served(WritePolicy::WriteThrough), (0, 5), "full attention is there, the window comes back");
    assert_eq!(served(WritePolicy::WriteThroughSelective), (0, 0));
    assert_eq!(served(WritePolicy::WriteBack), (0, 5));
}

#[test]
fn what_the_device_has_of_a_match_is_none_of_its_leaves_while_the_rest_is_loaded_back() {
    // 13 pages of 2 tokens for full attention, 6 for windows of two pages; the host has one more of each.
    let rules = windows::rules("full+window:5", "0.5", 1000, 2, false);
    let mut own = windows_over_host(20, &rules, 20, WritePolicy::WriteBack);
    let mut ask = |first: u64, ends: u64, then: std::ops::Range<u64>| {
        let ids: Vec<u64> = (first..ends).chain(then).collect();
        let (found, loaded) = own.request(&event(&ids, ids.len() as u64 * 2, 1));
        let (device, host) = (own.resident(), own.resident_on_host());
        ((found.hits, loaded), [device.0.0, device.1, host.0.0, host.1])
    };
    assert_eq!(ask(100, 102, 20..23), ((0, 0), [5, 4, 0, 0]));
    assert_eq!(ask(100, 104, 0..0), ((0, 0), [5, 3, 3, 3]));
    assert_eq!(ask(100, 104, 40..43), ((2, 0), [9, 5, 5, 5]));
    assert_eq!(ask(200, 204, 40..45), ((0, 0), [11, 5, 12, 6]));
    assert_eq!(ask(100, 104, 40..45), ((0, 7), [11, 4, 14, 7]));
    // The host's copies of what the device may evict next go last.
    assert_eq!(ask(200, 205, 50..55), ((0, 0), [12, 5, 14, 7]));
}

#[test]
fn damaged_windows_over_a_host_are_refused() {
    let rules = windows::rules("full+window:33", "0.5", 8192, 16, false);
    let mut own = windows_over_host(30, &rules, 90, WritePolicy::WriteThrough);
    for first in [0, 10, 20] {
        own.request(&event(&(first..first + 6).collect::<Vec<u64>>(), 96, 1));
    }
    let whole = own.save();
    assert_eq!(WindowCache::<HicacheRules>::restore(&whole).expect("sound").save(), whole);
    let refused = |part: &str, damage: &dyn Fn(&mut SglangSaved<WindowPoolRules, HicacheRules>)| {
        let mut saved = whole.clone();
        damage(&mut saved);
        let said = WindowCache::<HicacheRules>::restore(&saved).expect_err(part).to_string();
        assert!(said.contains(part) && said.contains("rebuild from the log"), "{said}");
    };
    refused("pages holds", &|saved| saved.capacity = PageCount(15));
    refused("has no place in the orders", &|saved| saved.nodes[0].other = None);
}
