//! A state with requests in flight, frozen like the others.

use super::task::{
    self, END, POOLS, POOLS_OF_RULES, SNAPSHOT, feed_values, fresh, from_the_start, lines, restored_as, value,
};
use super::{Answer, answers_of, file, frozen, observe_for, open, snapshot};
use kvset::core::engines::config::CacheConfig;
use kvset::core::engines::hybrid::{DraftHead, DraftLayers};
use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::engines::profile::{OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::engines::sglang::WritePolicy;
use kvset::core::engines::vllm_offload::{OffloadOptions, OffloadPolicy};
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::set::PoolConfigs;
use kvset::core::questions::enabled::Questions;
use kvset::core::request::outcome::Outcome;
use kvset::core::units::PageCount;
use kvset::pipeline::task::{PartitionTask, TaskConfig};
use kvset::snapshot::capture::capture;
use kvset::snapshot::format::{Snapshot, VERSION};
use std::sync::Arc;

fn config() -> EngineConfig {
    let max_tracked_pages = PageCount(90);
    let (profile, overlap) = (Profile::Vllm, OverlapMode::On);
    EngineConfig { profile, overlap, max_tracked_pages, ..EngineConfig::default() }
}

/// Some come alone, and some while up to five others are in flight.
fn observe(engine: &mut Engine, turn: u64) -> Outcome {
    observe_for(engine, turn, Some(if turn % 20 < 6 { 0 } else { turn % 17 }))
}

fn engine() -> Engine {
    let mut engine = Engine::new(config());
    (0..60).for_each(|turn| drop(observe(&mut engine, turn)));
    engine
}

fn in_flight() -> Snapshot {
    Snapshot { body: capture(&engine(), Vec::new()).expect("bytes").into(), ..snapshot() }
}

#[test]
fn requests_in_flight_are_read_for_ever() {
    assert!(engine().others_in_flight().is_some_and(|others| others.requests > 1), "they overlap");
    assert!(engine().stack().tracked_pages() < engine().stack().accumulated_pages(), "it forgot pages");
    let expected = serde_json::to_vec_pretty(&answers_of(engine(), observe)).expect("text");
    let expected: Vec<Answer> =
        serde_json::from_slice(&frozen("in_flight.expected.json", &expected)).expect("answers");
    let written = frozen("in_flight.kvs", &file(&in_flight()));
    let mut read = open(written.clone()).expect("a sound file");
    assert!(read.resume(&config()), "of this configuration");
    assert_eq!(answers_of(read, observe), expected);
    assert!(file(&in_flight()) == written, "the layout changed: raise VERSION");
}

/// An engine that takes one request after another cannot go on from a state with requests in flight.
#[test]
fn requests_in_flight_are_refused_where_overlap_is_not_modelled() {
    let mut read = open(file(&in_flight())).expect("a sound file");
    assert!(!read.resume(&EngineConfig { overlap: OverlapMode::Off, ..config() }));
}

/// A task of whose pools one takes records in the order of arrivals.
fn config_that_holds_back() -> Arc<TaskConfig> {
    let config = task::config_that_asks(Questions::default());
    let overlapping = PoolConfig {
        cache: CacheConfig {
            rules: EngineRules { overlap: OverlapMode::On, ..EngineRules::default() },
            ..PoolConfig::clone(config.pools.of("learning")).cache
        },
        hold_back_ms: 6_000,
        ..PoolConfig::clone(config.pools.of("learning"))
    };
    let others = config.pools.default_pool().clone();
    let pools = PoolConfigs::new(others, [("learning".to_owned(), overlapping)]).expect("usable").into();
    Arc::new(TaskConfig { pools, ..TaskConfig::clone(&config) })
}

fn rest(task: &mut PartitionTask) -> String {
    lines(feed_values(task, END, &POOLS, value))
}

/// A task whose pools are modelled at each capacity, with requests in flight in two of them.
fn config_of_rules_under_load() -> Arc<TaskConfig> {
    let config = task::config_of_rules_that_asks(Questions::default());
    let under_load = |name: &&str| {
        let own = PoolConfig::clone(config.pools.of(name));
        let rules = EngineRules { overlap: OverlapMode::On, ..own.cache.rules.clone() };
        (
            (*name).to_owned(),
            PoolConfig {
                cache: CacheConfig { rules: rules.of_profile(own.cache.profile), ..own.cache },
                ..own
            },
        )
    };
    let others = config.pools.default_pool().clone();
    let pools = PoolConfigs::new(others, POOLS_OF_RULES.iter().map(under_load)).expect("usable").into();
    Arc::new(TaskConfig { pools, ..TaskConfig::clone(&config) })
}

/// A task with pools of SGLang, with a draft head and without, and of LMCache's process, whose requests overlap.
fn config_of_others_under_load() -> Arc<TaskConfig> {
    let config = config_of_rules_under_load();
    let pool = |(name, profile, draft_tokens): (&str, Profile, u32)| {
        let own = PoolConfig::clone(config.pools.of("windows"));
        let rules = EngineRules {
            overlap: OverlapMode::On,
            draft_tokens,
            chunk_tokens: 32,
            ..EngineRules::default()
        };
        (
            name.to_owned(),
            PoolConfig {
                cache: CacheConfig { profile, rules: rules.of_profile(profile), ..own.cache },
                ..own
            },
        )
    };
    let others = config.pools.default_pool().clone();
    let named =
        [("sglang", Profile::Sglang, 0), ("drafts", Profile::Sglang, 1), ("process", Profile::LmcacheMp, 0)]
            .map(pool);
    Arc::new(TaskConfig {
        pools: PoolConfigs::new(others, named).expect("usable").into(),
        ..TaskConfig::clone(&config)
    })
}

/// A task with pools of SGLang over a host tier, written to in two ways, whose requests overlap.
fn config_of_hosts_under_load() -> Arc<TaskConfig> {
    let config = config_of_rules_under_load();
    let pool = |(name, hicache_write): (&str, WritePolicy)| {
        let own = PoolConfig::clone(config.pools.of("windows"));
        let hicache = Some("40p".parse().expect("pages"));
        let rules =
            EngineRules { overlap: OverlapMode::On, hicache, hicache_write, ..EngineRules::default() };
        let cache = CacheConfig { profile: Profile::Sglang, rules, ..own.cache };
        (name.to_owned(), PoolConfig { cache, ..own })
    };
    let others = config.pools.default_pool().clone();
    let named = [("back", WritePolicy::WriteBack), ("through", WritePolicy::WriteThrough)].map(pool);
    Arc::new(TaskConfig {
        pools: PoolConfigs::new(others, named).expect("usable").into(),
        ..TaskConfig::clone(&config)
    })
}

/// Rules with a draft head.
fn heads(head: DraftHead) -> EngineRules {
    let DraftHead { tokens: draft_tokens, layers: draft_layers } = head;
    EngineRules { draft_tokens, draft_layers, ..EngineRules::default() }
}

/// A task with pools of vLLM whose draft heads have layers in some of the groups alone, one after another and under
/// load.
fn config_of_heads() -> Arc<TaskConfig> {
    let config = config_of_rules_under_load();
    let pool = |(name, layers, overlap): (&str, DraftLayers, OverlapMode)| {
        let own = PoolConfig::clone(config.pools.of("windows"));
        let attention = "full+window:40".parse().expect("groups");
        let rules = EngineRules { attention, overlap, ..heads(DraftHead { tokens: 2, layers }) };
        let hold_back_ms = if overlap == OverlapMode::On { own.hold_back_ms } else { 0 };
        (name.to_owned(), PoolConfig { cache: CacheConfig { rules, ..own.cache }, hold_back_ms, ..own })
    };
    let named = [
        ("full", DraftLayers::Full, OverlapMode::Off),
        ("loaded", DraftLayers::Full, OverlapMode::On),
        ("windows", DraftLayers::Windows, OverlapMode::On),
    ]
    .map(pool);
    Arc::new(TaskConfig {
        pools: PoolConfigs::new(config.pools.default_pool().clone(), named).expect("usable").into(),
        ..TaskConfig::clone(&config)
    })
}

/// A task with pools of vLLM over its own tier in host memory, by each policy.
fn config_over_own_tiers(head: DraftHead) -> Arc<TaskConfig> {
    let config = config_of_rules_under_load();
    let pool = |(name, attention, offload): (&str, &str, OffloadOptions)| {
        let own = PoolConfig::clone(config.pools.of("windows"));
        let attention = attention.parse().expect("groups");
        let size = Some("40p".parse().expect("pages"));
        let rules =
            EngineRules { attention, ..heads(head) }.of_profile(Profile::Vllm).over_offload(size, offload);
        (name.to_owned(), PoolConfig { cache: CacheConfig { rules, ..own.cache }, hold_back_ms: 0, ..own })
    };
    let arc = OffloadOptions { policy: OffloadPolicy::Arc, store_threshold: 2, blocks_per_chunk: 2 };
    let named =
        [("arc", "full+2*mamba", arc), ("lru", "full+window:40", OffloadOptions::default())].map(pool);
    Arc::new(TaskConfig {
        pools: PoolConfigs::new(config.pools.default_pool().clone(), named).expect("usable").into(),
        ..TaskConfig::clone(&config)
    })
}

/// Compares a task that was stopped with one that was not, and with the frozen files of a folder.
fn goes_on(config: fn() -> Arc<TaskConfig>, pools: &[&'static str], folder: &str) -> String {
    let mut unstopped = fresh(config(), &from_the_start());
    feed_values(&mut unstopped, SNAPSHOT, pools, value);
    let last_record = unstopped.last_record();
    let now = file(&task::snapshot(&unstopped));
    let written = frozen(&format!("{folder}/task.kvs"), &now);
    assert!(now == written, "the state changed: raise VERSION or the engine's revision and freeze it anew");
    let mut restored = restored_as(config(), VERSION, written, last_record);
    let rest = |task: &mut PartitionTask| lines(feed_values(task, END, pools, value));
    let published = rest(&mut restored);
    assert!(published.lines().count() > 10, "enough to compare");
    assert_eq!(published, rest(&mut unstopped));
    assert_eq!(published.as_bytes(), frozen(&format!("{folder}/task.expected.txt"), published.as_bytes()));
    published
}

#[test]
fn caches_with_requests_in_flight_are_read_for_ever() {
    let published = goes_on(config_of_rules_under_load, &POOLS_OF_RULES, "loaded_rules");
    let mut serial = fresh(task::config_of_rules_that_asks(Questions::default()), &from_the_start());
    feed_values(&mut serial, SNAPSHOT, &POOLS_OF_RULES, value);
    let rest = lines(feed_values(&mut serial, END, &POOLS_OF_RULES, value));
    assert_ne!(published, rest, "they overlap");
}

#[test]
fn caches_of_other_engines_with_requests_in_flight_are_read_for_ever() {
    goes_on(config_of_others_under_load, &["drafts", "process", "sglang"], "loaded_others");
}

#[test]
fn caches_over_a_host_with_requests_in_flight_are_read_for_ever() {
    goes_on(config_of_hosts_under_load, &["back", "through"], "loaded_hosts");
}

#[test]
fn pools_over_vllms_own_tier_are_read_for_ever() {
    let published = goes_on(|| config_over_own_tiers(DraftHead::default()), &["arc", "lru"], "own_tiers");
    let drafting = goes_on(|| config_over_own_tiers(DraftHead::of(1)), &["arc", "lru"], "own_tiers_draft");
    assert_ne!(published, drafting, "a head loses chunks");
    let in_full = || config_over_own_tiers(DraftHead { tokens: 1, layers: DraftLayers::Full });
    let in_full = goes_on(in_full, &["arc", "lru"], "own_tiers_draft_full");
    assert_ne!(in_full, drafting, "windows lose none");
}

#[test]
fn pools_with_heads_in_some_groups_are_read_for_ever() {
    goes_on(config_of_heads, &["full", "loaded", "windows"], "draft_layers");
}

#[test]
fn records_that_wait_are_read_for_ever() {
    let mut unstopped = fresh(config_that_holds_back(), &from_the_start());
    feed_values(&mut unstopped, SNAPSHOT, &POOLS, value);
    assert!(unstopped.waiting() > 0, "records wait");
    let counts = unstopped.take_counts();
    assert!(counts.pools.iter().any(|(_, activity)| activity.out_of_order > 0), "some took longer");
    let last_record = unstopped.last_record();
    let now = file(&task::snapshot(&unstopped));
    let written = frozen("hold_back/task.kvs", &now);
    assert!(now == written, "the section changed: raise its revision and freeze it anew");
    let mut restored = restored_as(config_that_holds_back(), VERSION, written, last_record);
    assert_eq!(restored.waiting(), unstopped.waiting());
    let published = rest(&mut restored);
    assert!(published.lines().count() > 40, "enough to compare");
    assert_eq!(published, rest(&mut unstopped));
    assert_eq!(published.as_bytes(), frozen("hold_back/task.expected.txt", published.as_bytes()));
}
