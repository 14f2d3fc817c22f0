//! What can be changed about a configuration.
//!
//! A topic is one thing that can be set: two changes of one topic exclude each other. To add an option of an engine,
//! name its topic, and list the values worth trying where that engine is modelled.

use super::Setup;
use crate::replay::{LogFacts, RequestLog, TierBelow};
use kvset_core::engines::below::Store;
use kvset_core::engines::hybrid::BlockRetention;
use kvset_core::engines::profile::Profile;
use kvset_core::engines::rules::EngineRules;
use kvset_core::engines::sglang::WritePolicy;
use kvset_core::engines::vllm_offload::OffloadPolicy;
use kvset_core::questions::retention::Ttl;
use kvset_core::questions::routing::{RouterKind, RouterSpec};
use kvset_core::units::PageSize;
use kvset_core::units::ratio::{Proportion, Ratio};

/// One thing that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    PageSize,
    RetentionInterval,
    PrefillChunk,
    WindowPool,
    StatePool,
    ChunkTokens,
    Lease,
    Watermark,
    EvictionRatio,
    HostWrites,
    DraftHead,
    OffloadPolicy,
    StoreThreshold,
    Memory,
    TierBelow,
    TimeToLive,
    Router,
}

type Apply = Box<dyn Fn(&mut Setup) -> Result<(), String> + Sync + Send>;

/// A change of a configuration.
pub struct Change {
    /// What it sets.
    pub topic: Topic,
    /// How it is said in the words of the options.
    pub name: String,
    /// Whether it needs more memory than there is.
    pub costs_memory: bool,
    /// Makes it; why it cannot be had, where it cannot.
    pub apply: Apply,
}

impl Change {
    fn new(
        topic: Topic,
        name: impl Into<String>,
        apply: impl Fn(&mut Setup) -> Result<(), String> + Sync + Send + 'static,
    ) -> Self {
        Self { topic, name: name.into(), costs_memory: false, apply: Box::new(apply) }
    }

    /// A change of the engine's rules.
    fn rule(
        topic: Topic,
        name: impl Into<String>,
        set: impl Fn(&mut EngineRules) + Sync + Send + 'static,
    ) -> Self {
        Self::new(topic, name, move |setup| {
            setup.set_rule(&set);
            Ok(())
        })
    }

    fn costing(self) -> Self {
        Self { costs_memory: true, ..self }
    }
}

/// Every single change of a configuration that makes sense on a log.
pub fn changes(base: &Setup, log: &RequestLog) -> Vec<Change> {
    let facts = log.facts();
    let mut all = page_sizes(base);
    all.extend(engine_rules(base));
    all.extend(offload_options(base));
    all.extend(memory());
    all.extend(tiers_below(base));
    all.extend(times_to_live(base));
    all.extend(routers(base, facts));
    all
}

fn page_sizes(base: &Setup) -> Vec<Change> {
    let present = base.page_size.get();
    let sizes = [(1, 4), (1, 2), (2, 1), (4, 1), (8, 1)];
    let sizes = sizes.into_iter().filter(|(times, of)| (present * times).is_multiple_of(*of));
    let sizes = sizes.filter_map(|(times, of)| PageSize::new(present * times / of));
    let change = |size: PageSize| {
        Change::new(Topic::PageSize, format!("--page-size {}", size.get()), move |setup| {
            setup.set_page_size(size)
        })
    };
    sizes.map(change).collect()
}

/// Whether the engine, or a tier below it, is one of these.
fn models(base: &Setup, wanted: &[Profile]) -> bool {
    let below = base.options.extras.below.iter().filter_map(|below| below.tier.store());
    below
        .filter_map(Store::profile)
        .chain([base.options.pool.cache.profile])
        .any(|engine| wanted.contains(&engine))
}

fn engine_rules(base: &Setup) -> Vec<Change> {
    let (rules, profile) = (&base.options.pool.cache.rules, base.options.pool.cache.profile);
    let below = &base.options.extras.below_rules;
    let mut all = Vec::new();
    if profile == Profile::Vllm && !rules.attention.is_full() {
        let page = base.page_size.get();
        let intervals = [
            BlockRetention::Ends,
            BlockRetention::All,
            BlockRetention::Every(8 * page),
            BlockRetention::Every(64 * page),
        ];
        for interval in intervals.into_iter().filter(|interval| *interval != rules.retention_interval) {
            let set = move |rules: &mut EngineRules| rules.retention_interval = interval;
            all.push(Change::rule(Topic::RetentionInterval, format!("--retention-interval {interval}"), set));
        }
        for chunk in
            [2048, 4096, 8192, 16384, 32768].into_iter().filter(|chunk| *chunk != rules.prefill_chunk)
        {
            let set = move |rules: &mut EngineRules| rules.prefill_chunk = chunk;
            all.push(Change::rule(Topic::PrefillChunk, format!("--prefill-chunk {chunk}"), set));
        }
    }
    if rules.has_window_pool(profile) {
        let shares = [20, 50, 100, 200, 400, 800, 1000].map(Ratio::per_mille);
        for share in shares.into_iter().filter(|share| *share != rules.swa_full_tokens_ratio) {
            let set = move |rules: &mut EngineRules| rules.swa_full_tokens_ratio = share;
            all.push(Change::rule(Topic::WindowPool, format!("--swa-full-tokens-ratio {share}"), set));
        }
    }
    if rules.has_state_pool(profile) {
        let shares = [100, 200, 400, 600, 900].map(|share| Proportion::of(Ratio::per_mille(share)));
        let ratios = shares.into_iter().chain([1, 2, 4].map(Proportion::whole));
        for ratio in ratios.filter(|ratio| *ratio != rules.mamba_full_memory_ratio) {
            let set = move |rules: &mut EngineRules| rules.mamba_full_memory_ratio = ratio;
            all.push(Change::rule(Topic::StatePool, format!("--mamba-full-memory-ratio {ratio}"), set));
        }
    }
    if rules.draft_tokens > 0 {
        all.push(Change::rule(Topic::DraftHead, "no --draft-head", |rules| {
            *rules = EngineRules { draft_tokens: 0, ..rules.clone() }.of_profile(Profile::Vllm);
        }));
    }
    if models(base, &[Profile::Lmcache, Profile::LmcacheMp]) {
        for chunk in [64, 128, 256, 512, 1024].into_iter().filter(|chunk| *chunk != below.chunk_tokens) {
            let set = move |rules: &mut EngineRules| rules.chunk_tokens = chunk;
            all.push(Change::rule(Topic::ChunkTokens, format!("--chunk-tokens {chunk}"), set));
        }
    }
    if models(base, &[Profile::Mooncake]) {
        for seconds in [1, 5, 10, 30, 60].into_iter().filter(|seconds| seconds * 1000 != below.lease_ms) {
            let set = move |rules: &mut EngineRules| rules.lease_ms = seconds * 1000;
            all.push(Change::rule(Topic::Lease, format!("--lease {seconds}s"), set));
        }
    }
    if models(base, &[Profile::Mooncake, Profile::LmcacheMp]) {
        let (watermark, ratio) = match models(base, &[Profile::Mooncake]) {
            true => (below.watermark, below.eviction_ratio),
            false => (below.mp_watermark, below.mp_eviction_ratio),
        };
        for share in
            [700, 800, 900, 950, 1000].map(Ratio::per_mille).into_iter().filter(|share| *share != watermark)
        {
            let set = move |rules: &mut EngineRules| (rules.watermark, rules.mp_watermark) = (share, share);
            all.push(Change::rule(Topic::Watermark, format!("--watermark {share}"), set));
        }
        for share in [10, 50, 100, 200].map(Ratio::per_mille).into_iter().filter(|share| *share != ratio) {
            let set = move |rules: &mut EngineRules| {
                (rules.eviction_ratio, rules.mp_eviction_ratio) = (share, share);
            };
            all.push(Change::rule(Topic::EvictionRatio, format!("--eviction-ratio {share}"), set));
        }
    }
    if rules.hicache.is_some() {
        for (name, policy) in
            WritePolicy::NAMES.into_iter().filter(|(_, policy)| *policy != rules.hicache_write)
        {
            let set = move |rules: &mut EngineRules| rules.hicache_write = policy;
            all.push(Change::rule(Topic::HostWrites, format!("--hicache-write {name}"), set));
        }
    }
    all
}

/// The options of vLLM's own tier, where that is below.
fn offload_options(base: &Setup) -> Vec<Change> {
    let stores = base.options.extras.below.iter().filter_map(|below| below.tier.store());
    let mut present = stores.filter_map(|store| match store {
        Store::VllmOffload(options) => Some(options),
        _ => None,
    });
    let Some(present) = present.next() else { return Vec::new() };
    let policies = OffloadPolicy::NAMES.into_iter().filter(|(_, policy)| *policy != present.policy);
    let policies = policies.map(|(name, policy)| {
        Change::new(Topic::OffloadPolicy, format!("vllm-offload policy={name}"), move |setup| {
            setup.set_offload(|options| options.policy = policy);
            Ok(())
        })
    });
    let thresholds = [0, 2, 3].into_iter().filter(|threshold| *threshold != present.store_threshold);
    let thresholds = thresholds.map(|threshold| {
        Change::new(
            Topic::StoreThreshold,
            format!("vllm-offload store_threshold={threshold}"),
            move |setup| {
                setup.set_offload(|options| options.store_threshold = threshold);
                Ok(())
            },
        )
    });
    policies.chain(thresholds).collect()
}

fn memory() -> Vec<Change> {
    let step = |(times, of): (u64, u64)| {
        let name = format!("capacity x {}", times as f64 / of as f64);
        let change = Change::new(Topic::Memory, name, move |setup| {
            setup.scale(times, of);
            Ok(())
        });
        if times > of { change.costing() } else { change }
    };
    let eight_bits = Change::new(Topic::Memory, "fp8 cache (twice the pages)", |setup| {
        setup.double_pages();
        Ok(())
    });
    [(1, 2), (3, 4), (5, 4), (3, 2), (2, 1), (4, 1)].into_iter().map(step).chain([eight_bits]).collect()
}

fn tiers_below(base: &Setup) -> Vec<Change> {
    let below = &base.options.extras.below;
    if below.is_empty() {
        let times = [1, 4].into_iter();
        let name = if base.options.pool.cache.profile == Profile::Sglang { "hicache" } else { "lmcache" };
        return times
            .map(|times| {
                let said = format!("--below {name} of {times} x the capacity");
                Change::new(Topic::TierBelow, said, move |setup| setup.add_tier(name, times)).costing()
            })
            .collect();
    }
    let without = Change::new(Topic::TierBelow, "no tiers below", |setup| {
        setup.options.extras.below.clear();
        setup.options.pool.cache.rules.hicache = None;
        setup.options.pool.cache.rules.hicache_write = WritePolicy::default();
        Ok(())
    });
    let step = |(times, of): (u64, u64)| {
        let name = format!("tiers below x {}", times as f64 / of as f64);
        let change = Change::new(Topic::TierBelow, name, move |setup| {
            setup.scale_below(times, of);
            Ok(())
        });
        if times > of { change.costing() } else { change }
    };
    let reordered = below.len() > 1 && below.iter().all(|below| below.tier != TierBelow::Hicache);
    let reverse = Change::new(Topic::TierBelow, "tiers below in the other order", |setup| {
        setup.options.extras.below.reverse();
        Ok(())
    });
    [(1, 2), (2, 1)].into_iter().map(step).chain([without]).chain(reordered.then_some(reverse)).collect()
}

fn times_to_live(base: &Setup) -> Vec<Change> {
    let Some(present) = base.options.pool.questions.ttls.first().copied() else { return Vec::new() };
    let mut all = vec![Change::new(Topic::TimeToLive, "no --ttl (kept until evicted)", |setup| {
        setup.options.pool.questions.ttls.clear();
        Ok(())
    })];
    let times = ["1m", "5m", "10m", "1h", "24h"].into_iter().filter_map(|time| time.parse::<Ttl>().ok());
    for ttl in times.filter(|ttl| *ttl != present) {
        all.push(Change::new(Topic::TimeToLive, format!("--ttl {ttl}"), move |setup| {
            setup.options.pool.questions.ttls = vec![ttl];
            Ok(())
        }));
    }
    all
}

fn routers(base: &Setup, facts: LogFacts) -> Vec<Change> {
    let Some(present) = base.options.pool.questions.routers.first().copied() else {
        let why = "there is one cache: name the present router with --router, such as --router round-robin:4";
        return vec![Change::new(Topic::Router, "--router", move |_| Err(why.to_owned()))];
    };
    if present.kind == RouterKind::Logged {
        let why = "the log names its replicas: name the router that they are behind with --router, such as \
                   --router round-robin:4";
        return vec![Change::new(Topic::Router, "--router", move |_| Err(why.to_owned()))];
    }
    let replicas = present.replicas;
    let others =
        ["round-robin", "hash", "least-in-flight", "prefix"].map(|name| format!("{name}:{replicas}"));
    let counts = [replicas / 2, replicas * 2];
    let counts = counts.into_iter().filter(|count| *count > 0 && *count != replicas);
    let counts = counts.map(|count| RouterSpec { replicas: count, ..present }.written());
    let precise = format!("precise-prefix:{replicas}");
    let specs = others.into_iter().chain(counts).chain([precise]).filter(|text| *text != present.written());
    let change = |text: String| {
        let name = format!("--router {text}");
        Change::new(Topic::Router, name, move |setup| {
            let needs_durations = text.starts_with("least-in-flight");
            if needs_durations && !facts.has_durations {
                return Err("the log does not say how long requests took (duration_ms)".to_owned());
            }
            if text.starts_with("hash") && !facts.has_sessions {
                return Err("no row names a session (session_id)".to_owned());
            }
            let text = match text.starts_with("precise-prefix") {
                true => format!("{text}:at={}", setup.capacity()),
                false => text.clone(),
            };
            setup.options.pool.questions.routers = vec![text.parse().map_err(|error| format!("{error}"))?];
            Ok(())
        })
    };
    specs.map(change).collect()
}
