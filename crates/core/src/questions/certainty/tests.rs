//! Caches without a group against engines that never saw it; conversations against families of the whole log.

use super::conversations::Conversations;
use super::observer::CertaintyObserver;
use super::tally::{CertaintyShare, CertaintyTally};
use crate::engines::bank::CacheBank;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::Engine;
use crate::engines::profile::Profile;
use crate::estimate::Estimate;
use crate::estimate::config::PoolConfig;
use crate::families::certainty::{CertaintyStatus, FigureStanding, GROUPS};
use crate::families::{Families, FamilyMember};
use crate::pool::{Arrival, Pool};
use crate::questions::counters::{Counter, Share};
use crate::questions::question::{Accepted, Horizon, ProvisionedCache, Question, QuestionPool};
use crate::request::event::RequestEvent;
use crate::request::outcome::Outcome;
use crate::request::prompts::PromptTree;
use crate::units::pages::{PageIds, Scope};
use crate::units::{EventTime, Offset, PageCount, PageSize};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PAGE: u32 = 4;

fn page_size() -> PageSize {
    PageSize::new(PAGE).expect("not zero")
}

fn event(time: i64, ids: &[u64]) -> RequestEvent<'_> {
    RequestEvent {
        event_time: EventTime(time),
        page_ids: PageIds::from_slice(ids),
        input_tokens: Some(ids.len() as u64 * u64::from(PAGE) + 1),
        duration_ms: Some(time.unsigned_abs() % 30),
        ..RequestEvent::default()
    }
}

fn cache(profile: Profile, bound: u64, rate: &str) -> CacheConfig {
    let target_ratios = ["0.5", "1"].map(|text| text.parse().expect("a share")).into();
    let max_tracked_pages = PageCount(bound);
    let sample_rate = rate.parse().expect("a share");
    CacheConfig { profile, max_tracked_pages, target_ratios, sample_rate, ..CacheConfig::default() }
}

/// Calls `each` with every request as its pool has taken it.
fn accept(cache: &CacheConfig, log: &[Vec<u64>], mut each: impl FnMut(&Accepted<'_>)) {
    let (mut engine, mut outcome) = (Engine::new(cache.engine()), Outcome::default());
    for (index, ids) in log.iter().enumerate() {
        let event = event(index as i64 * 10, ids);
        engine.observe(&event, page_size(), &mut outcome).expect("chained");
        each(&Accepted {
            event: &event,
            session: None,
            outcome: &outcome,
            page_size: page_size(),
            index: index as u64,
            counted: true,
            engine: &engine,
            own: &CacheBank::default(),
            cache: ProvisionedCache { cache, provisioned: None },
            generated: None,
        });
    }
}

fn pool(cache: &CacheConfig) -> QuestionPool<'_> {
    QuestionPool {
        cache: ProvisionedCache { cache, provisioned: None },
        costs: None,
        capacities: &[],
        page_size: page_size(),
        windows: &[],
        horizon: Horizon::Endless,
    }
}

fn observer(cache: &CacheConfig) -> CertaintyObserver {
    CertaintyObserver::new(&true, pool(cache)).expect("enabled")
}

/// A path in a tree of few branches, so that prompts share and part.
fn path(choices: &[u64]) -> Vec<u64> {
    let mut id = 7_u64;
    let next = |choice: &u64| {
        id = id.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(*choice + 1);
        id
    };
    choices.iter().map(next).collect()
}

fn logs() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let prompt = prop::collection::vec(0_u64..3, 0..9).prop_map(|choices| path(&choices));
    prop::collection::vec(prompt, 1..60)
}

proptest! {
    #[test]
    fn each_cache_finds_what_one_finds_that_never_saw_its_group(
        log in logs(),
        profile in prop::sample::select(vec![Profile::Paper, Profile::LeafFirst, Profile::Vllm]),
        bound in prop_oneof![Just(1_u64 << 20), 14_u64..40],
        rate in prop::sample::select(vec!["1", "0.5"]),
        cut in any::<prop::sample::Index>(),
    ) {
        let cache = cache(profile, bound, rate);
        let (mut observer, cut) = (observer(&cache), cut.index(log.len()) as u64);
        let mut others: Vec<Engine> = (0..GROUPS).map(|_| Engine::new(cache.engine())).collect();
        let mut seen = Outcome::default();
        let ratios = cache.measured_ratios();
        accept(&cache, &log, |request| {
            let mut share = CertaintyShare::default();
            observer.follow(request, &mut share);
            assert!(share.is_sound(ratios.len()));
            for (group, other) in others.iter_mut().enumerate() {
                let is_own = group == usize::from(share.group);
                if !is_own {
                    other.observe(request.event, page_size(), &mut seen).expect("chained");
                }
                for (at, ratio) in ratios.iter().enumerate() {
                    let need = seen.need_of_prefix(ratio.ceil_of(seen.reusable_prefix()));
                    let told = share.without[at * GROUPS as usize + group];
                    assert_eq!(told, if is_own { 0 } else { need }, "group {group} of {share:?}");
                }
            }
            if request.index == cut {
                let bytes = postcard::to_allocvec(observer.kept()).expect("memory");
                let kept = postcard::from_bytes(&bytes).expect("the bytes just written");
                let fresh = self::observer(&cache);
                observer = fresh.resumed(kept, pool(&cache), request.engine).expect("what was just kept");
            }
        });
    }

    #[test]
    fn counts_of_parts_are_those_of_the_whole(
        requests in prop::collection::vec((any::<u64>(), 0_u64..9, 0..GROUPS as u8), 1..80),
        cut in any::<prop::sample::Index>(),
    ) {
        let share = |(conversation, need, group): &(u64, u64, u8)| CertaintyShare {
            conversation: conversation % 30,
            group: *group,
            own: vec![*need],
            without: (0..GROUPS).map(|other| if other == u64::from(*group) { 0 } else { *need }).collect(),
        };
        let shares: Vec<_> = requests.iter().map(share).collect();
        let sum = |shares: &[CertaintyShare]| {
            let mut tally = CertaintyTally::new(1);
            shares.iter().for_each(|share| tally.add(share));
            tally
        };
        let (head, tail) = shares.split_at(cut.index(shares.len()));
        let mut whole = sum(&shares);
        let mut merged = CertaintyTally::merged([sum(head), sum(tail)].iter()).expect("two");
        whole.consolidate();
        merged.consolidate();
        prop_assert!(merged.is_sound(1));
        prop_assert_eq!(&merged, &whole);
        let keys: BTreeSet<_> = shares.iter().map(|share| share.conversation).collect();
        prop_assert_eq!(whole.conversations(), keys.len() as u64);
        let large: BTreeSet<_> =
            shares.iter().filter(|share| share.own[0] > 5).map(|share| share.conversation).collect();
        prop_assert_eq!(whole.above(0, |need| need <= 5), large.len() as u64);
    }
}

/// Conversations of `turns` requests, each of which goes on from the one before it, behind one of two system prompts.
fn conversations(count: u64, turns: u64) -> Vec<(u64, Vec<u64>)> {
    let page = |parts: [u64; 3]| crate::families::hash(&parts);
    let prompt = |who: u64, turn: u64| -> Vec<u64> {
        let common = (0..5).map(|at| page([1, who % 2, at]));
        common.chain((0..=turn * 3).map(|at| page([2, who, at]))).collect()
    };
    // Some run at once, and all take turns.
    let started = |at: u64| (at / 10) * 10..(at / 10) * 10 + 10;
    let rounds = (0..count).step_by(10).flat_map(|first| (0..turns).map(move |turn| (first, turn)));
    rounds.flat_map(|(first, turn)| started(first).map(move |who| (who, prompt(who, turn)))).collect()
}

#[test]
fn conversations_are_the_families_of_the_log_once_its_system_prompts_are_known() {
    let log = conversations(200, 4);
    let mut prompts = PromptTree::default();
    let member = |(time, (_, ids)): (usize, &(u64, Vec<u64>))| FamilyMember {
        path: prompts.add(Scope::GLOBAL, ids).0,
        scope: Scope::GLOBAL,
        time: EventTime(time as i64 * 10),
        session: None,
    };
    let members: Vec<_> = log.iter().enumerate().map(member).collect();
    let families = Families::of(&members, &prompts);
    assert_eq!(families.count(), 200);
    let (mut told, cache) = (Conversations::default(), cache(Profile::Paper, 1 << 20, "1"));
    let mut keys: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let pages: Vec<_> = log.iter().map(|(_, ids)| ids.clone()).collect();
    accept(&cache, &pages, |request| {
        let key = told.of(request, cache.sample_rate);
        keys.entry(log[request.index as usize].0).or_default().insert(key);
    });
    let single = keys.iter().filter(|(who, keys)| **who >= 20 && keys.len() == 1).count();
    let different: BTreeSet<_> =
        keys.iter().filter(|(who, _)| **who >= 20).flat_map(|(_, keys)| keys).collect();
    assert_eq!((single, different.len()), (180, 180), "one key each, and each its own");
    let early: BTreeSet<_> = keys.iter().filter(|(who, _)| **who < 20).flat_map(|(_, keys)| keys).collect();
    assert!((2..20).contains(&early.len()), "the first of each prompt are taken for one: {}", early.len());
}

#[test]
fn more_conversations_than_are_told_are_estimated() {
    let mut tally = CertaintyTally::new(1);
    for number in 0..50_000_u64 {
        let conversation = crate::families::hash(&[number / 2]);
        tally.add(&CertaintyShare { conversation, group: 0, own: vec![number % 100], without: vec![0; 10] });
    }
    assert!(tally.is_sound(1));
    let (all, above) = (tally.conversations(), tally.above(0, |need| need < 90));
    assert!(all.abs_diff(25_000) < 1_500 && above.abs_diff(2_500) < 500, "{all}, {above}");
}

/// A pool that is asked how certain it is, at the end of such a log.
fn estimate_after(log: &[Vec<u64>]) -> Estimate {
    let mut config = PoolConfig {
        cache: CacheConfig { page_size: Some(page_size()), ..CacheConfig::default() },
        windows: vec!["all".parse().expect("a window")],
        ..PoolConfig::default()
    };
    config.questions.certainty = true;
    let mut pool = Pool::new("p", 0, Arc::new(config)).expect("usable");
    for (index, ids) in log.iter().enumerate() {
        let arrival = Arrival { offset: Offset(index as i64), counted: true, watermark: None };
        let event = RequestEvent { duration_ms: None, ..event(index as i64 * 10, ids) };
        pool.observe(&event, arrival).expect("chained");
    }
    let mut estimates = Vec::new();
    pool.finish(Offset(log.len() as i64), &mut estimates);
    estimates.pop().expect("one window")
}

#[test]
fn an_estimate_says_within_what_other_conversations_would_leave_it() {
    let log: Vec<_> = conversations(200, 4).into_iter().map(|(_, ids)| ids).collect();
    let estimate = estimate_after(&log);
    let certainty = estimate.certainty.as_ref().expect("asked");
    assert_eq!(certainty.status, CertaintyStatus::Ready);
    assert!((180..=200).contains(&certainty.conversations), "{certainty:?}");
    let found = &estimate.required[0].coverage[2];
    let (pages, low, high) = (found.pages, found.low.expect("said"), found.high.expect("said"));
    assert!(pages.is_some_and(|pages| low <= pages && pages <= high), "{found:?}");
    assert!(found.standard_error.is_some_and(|error| (0.0..0.5).contains(&error)), "{found:?}");
    let entry = &estimate.recommended[2];
    assert_eq!((entry.low, entry.high), (Some(low), Some(high)), "nothing is in flight here");
    assert_eq!(entry.interval_status, found.status);
    let json = serde_json::to_string(&estimate).expect("JSON");
    assert_eq!(serde_json::from_str::<Estimate>(&json).expect("it reads back"), estimate);
}

#[test]
fn of_few_conversations_nothing_is_said_but_how_few_they_are() {
    let log: Vec<_> = conversations(20, 4).into_iter().map(|(_, ids)| ids).collect();
    let estimate = estimate_after(&log);
    let certainty = estimate.certainty.expect("asked");
    assert_eq!(certainty.status, CertaintyStatus::TooFewConversations);
    for found in &estimate.required[0].coverage {
        assert_eq!((found.low, found.high, found.standard_error), (None, None, None));
        assert_eq!(found.status, Some(FigureStanding::NotStated));
    }
}
