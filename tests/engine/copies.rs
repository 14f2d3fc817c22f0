//! Second copies in vLLM's pool of one group: what one pass says of them, against a slow transcription of the pool.

use super::hybrid::{Asked, asked, input, slow, to_event};
use crate::support::program::kvset;
use crate::support::shared::{read_shared, shared_path};
use crate::support::slow_hybrid::{SlowAsked, SlowPool};
use crate::support::slow_load::{SlowLoad, Times};
use kvset::core::engines::config::CacheConfig;
use kvset::core::engines::hybrid::{BlockRetention, DraftHead, HybridRules};
use kvset::core::engines::profile::{Outputs, OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::capacity::CapacitySpec;
use kvset::core::units::{EventTime, Offset, PageCount, PageSize};
use kvset_core::request::outcome::Outcome;
use proptest::prelude::*;
use serde_json::Value;
use std::marker::PhantomData;
use std::sync::Arc;

fn rules(page: u32, outputs: Outputs) -> HybridRules {
    HybridRules {
        attention: "full".parse().expect("groups"),
        retention: BlockRetention::Ends,
        prefill_chunk: 8192,
        page_size: PageSize::new(page).expect("not zero"),
        outputs,
        head: DraftHead::default(),
    }
}

/// One pass over all requests, one after another: what each found, and the pages computed again until then.
fn one_pass(rules: &HybridRules, requests: &[Asked]) -> Vec<(Outcome, u64)> {
    one_pass_of(rules, requests.iter().map(|asked| (asked, None)))
}

/// One pass over requests, some of which say when they arrive and how long they take.
fn one_pass_of<'a>(
    rules: &HybridRules,
    requests: impl Iterator<Item = (&'a Asked, Option<Times>)>,
) -> Vec<(Outcome, u64)> {
    let config = PoolConfig {
        cache: CacheConfig {
            profile: Profile::Vllm,
            rules: EngineRules { overlap: OverlapMode::On, ..EngineRules::default() }
                .of_profile(Profile::Vllm),
            outputs: rules.outputs,
            page_size: Some(rules.page_size),
            capacities: vec![CapacitySpec::of_pages(8)],
            max_tracked_pages: PageCount(100_000),
            ..CacheConfig::default()
        },
        ..PoolConfig::default()
    };
    let mut pool = Pool::new("p", 0, Arc::new(config)).expect("usable");
    let mut copies = 0;
    let found = |(index, (asked, times)): (usize, (&Asked, Option<Times>))| {
        let arrival = Arrival { offset: Offset(index as i64), counted: true, watermark: None };
        let event = RequestEvent {
            event_time: EventTime(times.map_or(0, |times| times.arrival)),
            duration_ms: times.map(|times| times.duration as u64),
            ..to_event(asked, u64::from(rules.page_size.get()))
        };
        pool.observe(&event, arrival).expect("accepted");
        let (outcome, _) = pool.last_request().expect("accepted");
        let before = copies;
        copies += outcome.recomputed_pages();
        (outcome.clone(), before)
    };
    requests.enumerate().map(found).collect()
}

/// Requests that overlap: each with the moment of its arrival and its duration.
fn overlapping() -> impl Strategy<Value = Vec<(Asked, Times)>> {
    let gap = prop_oneof![Just(0i64), 0i64..8, 0i64..40];
    let duration = prop_oneof![Just(0i64), 1i64..30, 1i64..90];
    let asked = asked().prop_filter("a prompt", |asked| !asked.ids.is_empty());
    prop::collection::vec((asked, gap, duration), 1..80).prop_map(|requests| {
        let mut now = 0;
        let timed = |(asked, gap, duration): (Asked, i64, i64)| {
            now += gap;
            // Answers that fill no page: when one takes a page is for the engine's steps, which are tested by
            // themselves.
            let asked = Asked { output: 0, known_outputs: Vec::new(), ..asked };
            (asked, Times { arrival: now, duration, tokens: 0 })
        };
        requests.into_iter().map(timed).collect()
    })
}

/// Prompts of whole pages, none of which goes on behind another: they share their beginnings and end in pages of
/// their own.
fn repeated() -> impl Strategy<Value = Vec<Asked>> {
    let asked = (0u64..12, 0u64..9).prop_map(|(document, output)| {
        let (tree, shared, own) = (document % 2, document % 4, 1 + document % 3);
        let beginning = (0..shared).map(|page| 1000 * (tree + 1) + page);
        let ids = beginning.chain((0..own).map(|page| 1_000_000 + 1000 * document + page)).collect();
        Asked { ids, tail: 0, output, known_outputs: Vec::new() }
    });
    prop::collection::vec(asked, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Exact at every capacity, since no look-up has a choice between copies.
    #[test]
    fn prompts_of_whole_pages_that_come_back_find_what_the_pool_finds(
        capacity in 8u64..60,
        (page, cached) in (1u32..5, any::<bool>()),
        requests in repeated(),
    ) {
        let rules = rules(page, if cached { Outputs::Cached } else { Outputs::Ignored });
        let mut slow = slow(capacity, &rules);
        for (asked, (found, _)) in requests.iter().zip(one_pass(&rules, &requests)) {
            let input = input(asked, u64::from(page));
            let expected = slow.request(&asked.ids, input, asked.output, &[]);
            prop_assume!(expected.is_some());
            prop_assert_eq!(Some(found.hits_at(capacity)), expected, "{:?}", asked);
        }
    }

    /// Where a look-up has a choice, what one pass says of a pool that is smaller or larger by all copies bounds it.
    #[test]
    fn what_the_pool_finds_lies_between_what_one_pass_says_of_all_copies_less_and_more(
        capacity in 8u64..90,
        (page, cached) in (1u32..5, any::<bool>()),
        requests in prop::collection::vec(asked().prop_filter("a prompt", |asked| !asked.ids.is_empty()), 1..80),
    ) {
        let rules = rules(page, if cached { Outputs::Cached } else { Outputs::Ignored });
        let mut slow = slow(capacity, &rules);
        for (asked, (found, copies)) in requests.iter().zip(one_pass(&rules, &requests)) {
            let input = input(asked, u64::from(page));
            let expected = slow.request(&asked.ids, input, asked.output, &asked.known_outputs);
            prop_assume!(expected.is_some());
            let expected = expected.unwrap_or(0);
            let least = found.hits_at(capacity.saturating_sub(copies));
            let most = found.hits_at(capacity + copies);
            prop_assert!((least..=most).contains(&expected), "{least}..={most}: {expected}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// The same of requests that overlap, in a pool that has room for all that is in flight.
    #[test]
    fn what_the_pool_finds_of_requests_that_overlap_lies_between_the_same_ends(
        capacity in 30u64..120,
        page in 1u32..5,
        requests in overlapping(),
    ) {
        let rules = rules(page, Outputs::Cached);
        let mut slow = SlowLoad::new(SlowPool { pool: slow(capacity, &rules), asked: PhantomData });
        let found = one_pass_of(&rules, requests.iter().map(|(asked, times)| (asked, Some(*times))));
        for ((asked, times), (found, copies)) in requests.iter().zip(found) {
            let asked = SlowAsked { ids: &asked.ids, input: input(asked, u64::from(page)), output: 0, known_outputs: &[] };
            let expected = slow.arrive(&asked, *times);
            prop_assume!(expected.is_some() && slow.waited + slow.preemptions == 0);
            let expected = expected.unwrap_or(0);
            let least = found.hits_at(capacity.saturating_sub(copies));
            let most = found.hits_at(capacity + copies);
            prop_assert!((least..=most).contains(&expected), "{least}..={most}: {expected}");
        }
    }
}

/// vLLM's own answers at each capacity that is asked for; and a recommended capacity is one at which vLLM finds what
/// it says.
#[test]
fn a_fixed_length_benchmark_finds_what_vllm_finds_and_the_recommended_capacity_is_enough() {
    let text = read_shared("golden/classes2/vllm_fixed_length_repeats_p16.json");
    let log = shared_path("golden/classes2/vllm_fixed_length_repeats_p16.jsonl.zst");
    let Some((golden, log)) = text.zip(log) else { return };
    let golden: Value = serde_json::from_str(&golden).expect("JSON");
    let answers = golden["answers"].as_array().expect("answers");
    let capacities: Vec<String> = answers.iter().map(|answer| format!("{}p", answer["capacity"])).collect();
    let rows = tempfile::NamedTempFile::new().expect("a file");
    let output = kvset(&["replay", "--json", "--engine", "vllm", "--min-requests=1"])
        .args(["--capacities", &capacities.join(","), "--coverage", "0.5,0.99,0.999", "--per-request"])
        .arg(rows.path())
        .arg(log)
        .output()
        .expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = std::fs::read_to_string(rows.path()).expect("rows");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect();
    let found = |at: usize| -> Vec<&Value> { rows.iter().map(|row| &row["prefix_hits"][at]).collect() };
    for (at, answer) in answers.iter().enumerate() {
        let expected: Vec<&Value> = answer["prefix_hits"].as_array().expect("hits").iter().collect();
        assert_eq!(found(at), expected, "at {}", answer["capacity"]);
    }
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let most = rows.iter().filter_map(|row| row["theoretical_prefix_hits"].as_u64()).sum::<u64>() as f64;
    let recommended = result["recommended"].as_array().expect("recommended");
    let last = recommended.last().expect("one");
    // 800 pages find 12.6 % fewer than there is to find.
    assert!(last["pages"].as_u64() > Some(1000), "{last}");
    let accesses = result["trace"]["page_accesses"].as_f64().expect("a count");
    assert!(last["hit_rate"].as_f64().expect("a rate") * accesses >= 0.99 * most, "{last}");
    assert!(result["second_copies"]["pages"].as_u64() > Some(1000));
}
