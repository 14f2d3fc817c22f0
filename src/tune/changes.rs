//! What can be changed about a configuration.
//!
//! A topic is one thing that can be set: two changes of one topic exclude each other. What is worth trying of an option
//! of an engine stands where the option is declared.

use super::Setup;
use super::limits::{EightBits, ModelLimits};
use crate::replay::{LogFacts, RequestLog, TierBelow};
use kvset_core::engines::below::Store;
use kvset_core::engines::profile::{Layout, Profile};
use kvset_core::engines::rules::{EngineOption, EngineRules};
use kvset_core::engines::vllm_offload::OffloadOptions;
use kvset_core::questions::retention::Ttl;
use kvset_core::questions::routing::{RouterKind, RouterSpec};
use kvset_core::units::PageSize;

/// One thing that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    PageSize,
    /// An option of the engine, or of a tier below it, by its name.
    Option(&'static str),
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

    fn costing(self) -> Self {
        Self { costs_memory: true, ..self }
    }
}

/// Every single change of a configuration that makes sense on a log, within what is known of the model.
pub fn changes(base: &Setup, log: &RequestLog, limits: &ModelLimits) -> Vec<Change> {
    let facts = log.facts();
    let mut all = page_sizes(base, limits);
    all.extend(engine_options(base));
    all.extend(offload_options(base));
    all.extend(memory(limits));
    all.extend(tiers_below(base));
    all.extend(times_to_live(base));
    all.extend(routers(base, facts));
    all
}

fn page_sizes(base: &Setup, limits: &ModelLimits) -> Vec<Change> {
    let present = base.page_size.get();
    let sizes = [(1, 4), (1, 2), (2, 1), (4, 1), (8, 1)];
    let sizes = sizes.into_iter().filter(|(times, of)| (present * times).is_multiple_of(*of));
    let sizes = sizes.filter_map(|(times, of)| PageSize::new(present * times / of));
    let change = |size: PageSize| {
        let limits = limits.clone();
        Change::new(Topic::PageSize, format!("--page-size {}", size.get()), move |setup| {
            limits.check_page(size)?;
            setup.set_page_size(size)
        })
    };
    sizes.map(change).collect()
}

/// What the engine, or a store below it, reads of an option by this name, and by which rules.
fn reading<'a>(base: &'a Setup, key: &str) -> Option<(&'static EngineOption, &'a EngineRules, Profile)> {
    let (cache, extras) = (&base.options.pool.cache, &base.options.extras);
    let below = extras.below.iter().filter_map(|below| below.tier.store()?.profile());
    let below: Vec<_> = below.map(|store| (&extras.below_rules, store)).collect();
    EngineRules::options_named(key).find_map(|option| {
        let mut engines = [(&cache.rules, cache.profile)].into_iter().chain(below.iter().copied());
        engines
            .find(|(rules, engine)| option.is_read(rules, *engine))
            .map(|(rules, engine)| (option, rules, engine))
    })
}

/// The options that are read, each at the values that are worth trying.
fn engine_options(base: &Setup) -> Vec<Change> {
    let mut all = Vec::new();
    for (option, rules, engine) in
        EngineRules::options_by_name().filter_map(|option| reading(base, option.key))
    {
        let (Some(flag), tries) = (option.flag, option.tries) else { continue };
        if tries.without && option.is_set(rules) {
            all.push(Change::new(Topic::Option(option.key), format!("no --{flag}"), move |setup| {
                setup.leave_out(option);
                Ok(())
            }));
        }
        if !tries.when.holds(rules, engine) {
            continue;
        }
        for text in tries.written(base.page_size) {
            let mut tried = rules.clone();
            if option.read(&mut tried, &text).is_err() || option.is_same(&tried, rules) {
                continue;
            }
            let name = format!("--{flag} {text}");
            all.push(Change::new(Topic::Option(option.key), name, move |setup| {
                setup.give(option.key, &text)
            }));
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
    let is_another = |option: &&str| {
        let mut tried = present;
        tried.set(option).is_ok() && tried != present
    };
    let change = |option: &'static str| {
        let topic = Topic::Option(option.split('=').next().unwrap_or(option));
        Change::new(topic, format!("vllm-offload {option}"), move |setup| setup.set_offload(option))
    };
    OffloadOptions::TRIES.into_iter().filter(is_another).map(change).collect()
}

fn memory(limits: &ModelLimits) -> Vec<Change> {
    let step = |(times, of): (u64, u64)| {
        let name = format!("capacity x {}", times as f64 / of as f64);
        let change = Change::new(Topic::Memory, name, move |setup| {
            setup.scale(times, of);
            Ok(())
        });
        if times > of { change.costing() } else { change }
    };
    let steps = [(1, 2), (3, 4), (5, 4), (3, 2), (2, 1), (4, 1)].into_iter().map(step);
    steps.chain(eight_bits(&limits.eight_bits)).collect()
}

fn eight_bits(known: &EightBits) -> Option<Change> {
    let (name, pages) = match known {
        EightBits::NoSmaller => return None,
        EightBits::Halves => ("fp8 cache (twice the pages)", Ok((2, 1))),
        EightBits::Pages(now, before) => ("--kv-dtype fp8", Ok((*now, *before))),
        EightBits::Refused(why) => ("--kv-dtype fp8", Err(why.clone())),
    };
    Some(Change::new(Topic::Memory, name, move |setup| {
        let (now, before) = pages.clone()?;
        setup.shrink_pages(now, before);
        Ok(())
    }))
}

fn tiers_below(base: &Setup) -> Vec<Change> {
    let below = &base.options.extras.below;
    if below.is_empty() {
        let times = [1, 4].into_iter();
        let name = if base.options.pool.cache.profile.spec().layout == Layout::Pools {
            "hicache"
        } else {
            "lmcache"
        };
        return times
            .map(|times| {
                let said = format!("--below {name} of {times} x the capacity");
                Change::new(Topic::TierBelow, said, move |setup| setup.add_tier(name, times)).costing()
            })
            .collect();
    }
    let without = Change::new(Topic::TierBelow, "no tiers below", |setup| {
        setup.options.extras.below.clear();
        EngineRules::options_named("hicache").for_each(|option| setup.leave_out(option));
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
    let Some(present) = base.options.pool.questions.reuse.ttls.first().copied() else { return Vec::new() };
    let mut all = vec![Change::new(Topic::TimeToLive, "no --ttl (kept until evicted)", |setup| {
        setup.options.pool.questions.reuse.ttls.clear();
        Ok(())
    })];
    let times = ["1m", "5m", "10m", "1h", "24h"].into_iter().filter_map(|time| time.parse::<Ttl>().ok());
    for ttl in times.filter(|ttl| *ttl != present) {
        all.push(Change::new(Topic::TimeToLive, format!("--ttl {ttl}"), move |setup| {
            setup.options.pool.questions.reuse.ttls = vec![ttl];
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
