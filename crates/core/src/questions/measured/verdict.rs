//! What a ledger means, as one of a few verdicts.

use super::ledger::Ledger;
use serde::{Deserialize, Serialize};

/// A share of the accesses below which a loss is not worth a change.
const SMALL_LOSS: f64 = 0.01;

/// The least share of requests, and of pages, that must agree before a capacity is called one.
pub const MIN_AGREEMENT: f64 = 0.5;

/// A hit rate with unlimited memory below which the workload itself has little to reuse.
const LITTLE_REUSE: f64 = 0.5;

/// How advice begins that a log follows which names replicas.
const LOG_REPLICAS: &str = "log which replica";

/// Why the hit rate is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The engine shares more than the log's ids say.
    IdScope,
    /// Nothing was found where something could have been: the cache is off, or does not say what it finds.
    NothingFound,
    /// No capacity explains what was measured.
    NoCapacity,
    /// The engine's blocks are larger than the pages of the model.
    LargerBlocks,
    /// The cache forgets by time.
    TimeLimit,
    /// More was in flight than what is provisioned holds: requests waited, or were preempted.
    InFlight,
    /// More is found than one cache of that capacity would find.
    MoreCaches,
    /// Restarts emptied the cache.
    Restarts,
    /// Most is lost in the engine: policy, pins, part of the memory.
    Engine,
    /// Most is lost to routing.
    Routing,
    /// Most is lost to capacity.
    Capacity,
    /// Nothing much is lost, and there is little to find.
    Workload,
    /// Nothing much is lost.
    Healthy,
}

impl Verdict {
    /// The verdict on these hits, the share of requests and of pages (the smaller one) that agree on a capacity,
    /// pages that hit though neither prompts nor answers of the log explain them, and restarts found.
    pub fn of(ledger: &Ledger, agreement: f64, pages_beyond_log: u64, restarts: usize) -> Self {
        let beyond = i64::try_from(pages_beyond_log).unwrap_or(i64::MAX);
        if ledger.share(beyond) >= SMALL_LOSS {
            return Self::IdScope;
        }
        if agreement < MIN_AGREEMENT {
            // Caches that share nothing have no common capacity; what the ledger says of them is known all the same.
            return if ledger.is_lost_to_routing() { Self::Routing } else { Self::NoCapacity };
        }
        if ledger.lost_in_engine().is_some_and(|pages| ledger.share(pages) <= -SMALL_LOSS) {
            return Self::MoreCaches;
        }
        let engine = if restarts > 0 { Self::Restarts } else { Self::Engine };
        let losses = [
            (ledger.lost_in_engine(), engine),
            (ledger.lost_to_routing(), Self::Routing),
            (ledger.lost_to_capacity(), Self::Capacity),
        ];
        let largest = losses.into_iter().max_by_key(|(pages, _)| *pages);
        match largest {
            Some((Some(pages), verdict)) if ledger.share(pages) >= SMALL_LOSS => verdict,
            _ => {
                let unlimited = i64::try_from(ledger.unlimited).unwrap_or(i64::MAX);
                if ledger.share(unlimited) < LITTLE_REUSE { Self::Workload } else { Self::Healthy }
            }
        }
    }

    /// Whether it rests on what is known: that little is lost nobody knows where some is, and not where.
    pub(super) fn is_known(self, ledger: &Ledger) -> bool {
        let lost = ledger.unlimited.saturating_sub(ledger.measured);
        let is_little = ledger.share(i64::try_from(lost).unwrap_or(i64::MAX)) < SMALL_LOSS;
        ledger.shared.is_some() || is_little || !matches!(self, Self::Healthy | Self::Workload)
    }

    /// The same, unless so large a share of the requests arrived while more was in flight than is provisioned that it
    /// explains what is lost, or found: with ids and a capacity that explain the rest, and where most is not lost to
    /// routing.
    pub fn unless_crowded(self, share: f64) -> Self {
        let explains = !matches!(
            self,
            Self::IdScope | Self::NothingFound | Self::NoCapacity | Self::Restarts | Self::Routing
        );
        if explains && share >= SMALL_LOSS { Self::InFlight } else { self }
    }

    /// The name scripts read.
    pub fn name(self) -> &'static str {
        match self {
            Self::IdScope => "id_scope",
            Self::NothingFound => "nothing_found",
            Self::NoCapacity => "no_capacity",
            Self::LargerBlocks => "larger_blocks",
            Self::TimeLimit => "time_limit",
            Self::InFlight => "in_flight",
            Self::MoreCaches => "more_caches",
            Self::Restarts => "restarts",
            Self::Engine => "engine",
            Self::Routing => "routing",
            Self::Capacity => "capacity",
            Self::Workload => "workload",
            Self::Healthy => "healthy",
        }
    }

    /// What to try first of a log that names so many replicas, the most likely first.
    pub fn advice(self, replicas: u64) -> Vec<&'static str> {
        let is_news = |advice: &&str| replicas <= 1 || !advice.starts_with(LOG_REPLICAS);
        self.all_advice().into_iter().filter(is_news).collect()
    }

    fn all_advice(self) -> [&'static str; 3] {
        match self {
            Self::IdScope => [
                "give the page ids the scope that the engine has: --id-scope global where it shares prefixes between sessions or tenants",
                "hash whole prefixes, system prompt and tool definitions included, as the engine sees them",
                "check that the log holds every request that reaches the cache, warm-up traffic and other clients among it, and how long each answer was",
            ],
            Self::NothingFound => [
                "enable prefix caching and its report: vLLM --enable-prompt-tokens-details, SGLang --enable-cache-report",
                "check what a provider takes to look a prompt up: Anthropic's models a `cache_control`, all of them a prompt of some length that comes again within minutes",
                "log cached_tokens again then: until it does, nothing shows what the cache in use behaves like",
            ],
            Self::LargerBlocks => [
                "give the engine's own block as --page-size: the notes name it",
                "compare again then: at this page size nothing shows what the cache in use behaves like",
                "give prompts a common beginning of whole blocks: what is less than one is computed anew each time",
            ],
            Self::TimeLimit => [
                "model the limit with --ttl: the notes name it",
                "have pages kept for longer: an engine's or a provider's retention, `ttl` of a `cache_control`",
                "ask again sooner: memory brings back nothing that was forgotten in time",
            ],
            Self::NoCapacity => [
                "log which replica served each request (the field replica): several caches behind one log have no common capacity",
                "compare page by page what the engine keys its pages by: model, adapter, cache salt, page size",
                "compare other engines (--engine): a cache that is no LRU needs its own model",
            ],
            Self::InFlight => [
                "add memory up to the recommended capacity above: it has room for what is in flight, so that nobody waits or is preempted",
                "limit how many requests run at once (vLLM: --max-num-seqs), or spread them over more replicas",
                "compare the engine's own counts: vllm:num_preemptions_total, and how long requests wait (vllm:request_queue_time_seconds)",
            ],
            Self::MoreCaches => [
                "log which replica served each request (the field replica): several caches behind one log find more than one of them would",
                "look for a tier below the first (host memory, LMCache, Mooncake) whose hits are counted too",
                "check the capacity that was given: the cache in use holds more",
            ],
            Self::Restarts => [
                "find out what restarted the replicas at the times named: deployments, crashes, autoscaling",
                "drain a replica before it is restarted, and send its sessions to one that stays",
                "put a tier below that survives restarts (host memory, LMCache, Mooncake)",
            ],
            Self::Engine => [
                "compare the pages the engine says it has at start with what was bought: weights, activations and graphs take memory first",
                "look for requests that pin pages: long outputs, many in flight; give room for them or limit concurrency",
                "check eviction settings (watermarks, time to live, priorities) and whether prefix caching is on for every request",
            ],
            Self::Routing => [
                "route by session, or by the longest shared prefix: compare with --router hash:N and --router prefix:N",
                "use fewer and larger replicas, or one shared tier below all of them",
                "keep sessions where they are when replicas come and go: consistent hashing, slow scale-down",
            ],
            Self::Capacity => [
                "add memory up to the required capacity above: below it every page bought still turns misses into hits",
                "add a cheaper tier below the first (host memory, local disk, a shared store)",
                "make a page smaller: KV cache in FP8, fewer bytes per token, no pages kept for sessions that ended",
            ],
            Self::Workload => [
                "put what does not change first in the prompt: system prompt, tools, documents; then what does",
                "keep conversations append-only: editing or cutting earlier turns changes every page after the edit",
                "keep time stamps, request ids and shuffled lists out of the beginning of prompts",
            ],
            Self::Healthy => [
                "nothing to repair: the cache finds nearly all there is to find",
                "see how much smaller it could be: the required capacity above says so by coverage",
                "watch the agreement: when it falls, the cache has changed",
            ],
        }
    }
}
