//! Arguments of `kvset replay`, and of reading traces in general.

use super::engine::EngineArgs;
use super::growth::GrowthArgs;
use super::parse::{
    ModelArgument, bytes, choice, model, page_size, pool_cost, price, share, token_cost, warm_up,
};
use crate::replay::{BelowOption, Extras, ReplayOptions, WarmUp, cores};
use clap::Args;
use kvset_core::engines::chat_engine::ChatEngine;
use kvset_core::engines::config::CacheConfig;
use kvset_core::engines::profile::{Outputs, Profile};
use kvset_core::engines::rules::EngineRules;
use kvset_core::estimate::config::{MAX_MIN_REQUESTS, MIN_REQUESTS, PoolConfig};
use kvset_core::questions::costs::{PrefillRate, Prices};
use kvset_core::questions::enabled::Questions;
use kvset_core::questions::retention::{MAX_TTLS, Ttl};
use kvset_core::questions::reuse::ReuseSetting;
use kvset_core::questions::routing::RouterSpec;
use kvset_core::sizing::tiers::TierConfig;
use kvset_core::stack::{ChainCheck, MAX_REQUEST_PAGES, MAX_TRACKED_PAGES};
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use kvset_core::units::{Bytes, PageCount, PageSize};
use kvset_formats::logs::{FieldPath, Places, Preset};
use kvset_formats::trace::{Format, IdScope, ReadOptions};
use kvset_prepare::TimeUnit;
use std::path::PathBuf;

/// Which traces to read, and how.
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    /// Trace files; .zst and .gz are opened as they are, - is standard input.
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Format of the traces; recognised by the first row where left out.
    #[arg(long, value_name = "FORMAT", value_parser = choice::<Format>(), default_value = "auto")]
    pub format: Format,
    /// The log that the traces are of, as prepare.preset names it; the same as --format NAME.
    #[arg(long, value_name = "NAME", value_parser = choice::<Preset>(), conflicts_with = "format")]
    pub preset: Option<Preset>,
    /// Where in each record the request is, as prepare.request says it: field names joined by dots, such as
    /// ai.request.
    #[arg(long, value_name = "PATH")]
    pub request: Option<FieldPath>,
    /// Where in each record the answer with its usage is, as prepare.response says it.
    #[arg(long, value_name = "PATH")]
    pub response: Option<FieldPath>,
    /// Tokens per page, where the trace does not say [default: 512 for mooncake, 16 for qwen, else 64].
    #[arg(long, value_name = "N", value_parser = page_size)]
    pub page_size: Option<PageSize>,
    /// Unit of times that are numbers: auto (that in which they are dates of a log, else that of the format), s, ms,
    /// us or ns.
    #[arg(long, value_name = "UNIT", value_parser = choice::<TimeUnit>(), default_value = "auto")]
    pub time_unit: TimeUnit,
    /// Directory of the model that openai traces were sent to: its tokenizer.json,
    /// tokenizer_config.json and chat_template.jinja.
    #[arg(long, value_name = "DIR", value_parser = model)]
    pub model: Option<ModelArgument>,
    /// The engine that served the chats of the trace: prompts are made of their bodies as it makes them [default: the
    /// --engine, where that is vllm or sglang, else vllm].
    #[arg(long, value_name = "ENGINE", value_parser = choice::<ChatEngine>())]
    pub chat_engine: Option<ChatEngine>,
    /// What page ids are unique within: auto (what the trace declares, and what keeps caches apart: models, cache
    /// salts, extra keys, adapters, deployments), global (merges all of these), session or field:NAME.
    #[arg(long, value_name = "SCOPE", default_value = "auto")]
    pub id_scope: IdScope,
    /// Count rows that cannot be read and go on; without it they fail the run.
    #[arg(long)]
    pub skip_bad_rows: bool,
}

impl TraceArgs {
    /// The engine whose prompts are made of chats: the one that is named, else the first modelled one that serves.
    pub fn chat_engine_for(&self, engines: &[Profile]) -> ChatEngine {
        let of_engine = engines.iter().find_map(|engine| engine.spec().chats);
        self.chat_engine.or(of_engine).unwrap_or_default()
    }

    /// How the traces are to be read.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions {
            format: self.preset.map_or(self.format, Format::of_preset),
            places: Places { request: self.request.clone(), response: self.response.clone() },
            id_scope: self.id_scope.clone(),
            page_size: self.page_size,
            time_unit: match self.time_unit {
                TimeUnit::Auto => None,
                TimeUnit::Stated(unit) => Some(unit),
            },
            #[cfg(feature = "tokenize")]
            model: self.model.clone(),
            chat_engine: self.chat_engine.unwrap_or_default(),
            ..ReadOptions::default()
        }
    }

    /// How a whole log of these is replayed for one engine, in one window, with nothing alongside the curve. Everything
    /// that windows need and a trace cannot give is neutral: no lateness, no history, "last" and "all" at the end.
    pub fn replay_options(&self, engine: Profile) -> ReplayOptions {
        ReplayOptions {
            traces: self.traces.clone(),
            read: ReadOptions { chat_engine: self.chat_engine_for(&[engine]), ..self.read_options() },
            pool: PoolConfig {
                cache: CacheConfig {
                    profile: engine,
                    page_size: self.page_size,
                    max_tracked_pages: PageCount(MAX_TRACKED_PAGES),
                    max_pages_per_request: MAX_REQUEST_PAGES as u32,
                    ..CacheConfig::default()
                },
                windows: vec![WindowKind::All],
                allowed_lateness_ms: 0,
                max_lateness_ms: 0,
                publish_every_ms: 0,
                ..PoolConfig::default()
            },
            warm_up: WarmUp::Requests(0),
            pool_name: None,
            skip_bad_rows: self.skip_bad_rows,
            extras: Extras::default(),
            provisioned: None,
            threads: cores(),
        }
    }
}

/// Arguments of `kvset replay`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  kvset replay requests.jsonl.zst
  kvset replay --kv-bytes-per-token 131072 --capacities 100GiB,1TiB,5000p trace.jsonl
  kvset replay --engine vllm --page-size 16 --target-ratio 1.0 --target-ratio 0.95 trace.jsonl
  kvset replay --engine paper,vllm,sglang --capacities 1000p,10000p trace.jsonl
  kvset replay --engine vllm --attention full+window:128 --page-size 16 --capacities 20000p trace.jsonl
  kvset replay --engine vllm --model-config gpt-oss.json --page-size 16 --capacities 40GiB,80GiB trace.jsonl
  kvset replay --engine vllm --kv-bytes-per-token 131072 --capacities 80GiB --below lmcache:500GiB --below mooncake:4TiB trace.jsonl
  kvset replay --engine sglang --page-size 16 --capacities 20000p --below hicache:100000p --hicache-write write-back trace.jsonl
  kvset replay --engine lmcache,mooncake --chunk-tokens 512 --lease 10s --capacities 8192p trace.jsonl
  kvset replay --kv-bytes-per-token 61464 --tier hbm:0.95:10GiB:2500 --tier dram:0.999:64GiB:400 trace.jsonl
  kvset replay --model-config config.json --kv-dtype bf16,fp8 trace.jsonl
  kvset replay --kv-bytes-per-token 61464 --prefill-rate 12000 --gpu-price 2.5 --gib-price 0.003 trace.jsonl
  kvset replay --format openai --model models/llama --page-size 16 batch.jsonl
  kvset replay --request ai.request --response ai.response --model models/llama gateway.jsonl
  kvset replay --engine vllm --page-size 16 --measured --capacities 40000p trace.jsonl
  kvset replay --router round-robin:4 --router hash:4 --router prefix:4 --capacities 8192p trace.jsonl
  kvset replay --ttl 5m,1h --optimal --capacities 30GiB --kv-bytes-per-token 61464 trace.jsonl
  kvset replay --traffic 0.5,2,4 --kv-bytes-per-token 61464 --provisioned 64GiB trace.jsonl
  kvset replay --tenants 5 --capacities 8192p trace.jsonl
  kvset replay --window tumbling:1h --window last:3000 --json trace.jsonl | jq .windows")]
pub struct ReplayArgs {
    /// What to read.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Bytes of KV state per token (repeatable): sizes are reported at the first, and once more at each further one.
    #[arg(long, value_name = "X", value_parser = token_cost, conflicts_with = "model_config")]
    pub kv_bytes_per_token: Vec<f64>,
    /// Compute the bytes per token from this config.json, or the one in this directory.
    #[arg(long, value_name = "FILE")]
    pub model_config: Option<PathBuf>,
    /// Type of the cached elements, with --model-config, as `kvset model` takes it. Of several, separated by commas,
    /// each gives its own bytes per token.
    #[arg(long = "kv-dtype", value_name = "TYPE,...", value_delimiter = ',', requires = "model_config")]
    pub kv_dtypes: Vec<crate::model::KvDtype>,
    /// Type of the states of linear attention and Mamba, with --model-config, as `kvset model` takes it.
    #[arg(long, value_name = "TYPE", visible_alias = "mamba-ssm-cache-dtype", requires = "model_config")]
    pub mamba_ssm_dtype: Option<crate::model::StateDtype>,
    /// Share of its reusable prefix that a request must find (repeatable) [default: 0.99].
    #[arg(long = "target-ratio", value_name = "R", default_value = "0.99", hide_default_value = true)]
    pub target_ratios: Vec<Ratio>,
    /// Shares of the requests that a capacity must be enough for, separated by commas.
    #[arg(long, value_name = "Q,...", value_delimiter = ',', default_value = "0.5,0.9,0.95,0.99,0.999")]
    pub coverage: Vec<Ratio>,
    /// Capacities to report hit rates for, separated by commas: 10GiB, 1.5TB, 5000p. Where left out, a grid of four
    /// steps per doubling up to the pages seen; of one step, from 64 pages to 1048576, where an engine is modelled at
    /// one capacity at a time.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub capacities: Vec<CapacitySpec>,
    /// A tier to plan (repeatable, from the fastest): NAME:COVERAGE:UNIT[:PRICE][:inclusive], such as
    /// hbm:0.95:80GiB:25000 for as many units of 80 GiB as cover 95 % of requests.
    #[arg(long = "tier", value_name = "TIER")]
    pub tiers: Vec<TierConfig>,
    /// Tokens that one prefill worker computes per second, or several of these by the context before the token, such as
    /// 14000@0,9000@32768: what each capacity is worth in accelerator-hours and time to the first token, and from which
    /// bandwidth on loading from a tier is faster.
    #[arg(long, value_name = "N|N@CONTEXT,...", allow_negative_numbers = true)]
    pub prefill_rate: Option<PrefillRate>,
    /// Price of that worker per hour, in any currency.
    #[arg(long, value_name = "X", value_parser = price, requires = "prefill_rate", allow_negative_numbers = true)]
    pub gpu_price: Option<f64>,
    /// Price of a GiB of cache per hour, in the same currency: where the next GiB costs more than it saves.
    #[arg(long, value_name = "X", value_parser = price, requires = "gpu_price", allow_negative_numbers = true)]
    pub gib_price: Option<f64>,
    /// What an emptied cache costs, by hour of the day (UTC), and how long until it is warm: at the recommended size,
    /// and at --provisioned. In tokens; with --prefill-rate in seconds of prefill, with --gpu-price in money.
    #[arg(long)]
    pub restarts: bool,
    /// The engine whose cache is modelled; several, separated by commas, are compared.
    #[arg(
        long = "engine",
        value_name = "ENGINE,...",
        value_delimiter = ',',
        value_parser = choice::<Profile>(),
        default_value = "paper"
    )]
    pub engines: Vec<Profile>,
    /// What the engines are configured with besides their names.
    #[command(flatten)]
    pub options: EngineArgs,
    /// Whether output tokens enter the cache (vllm, sglang).
    #[arg(long, value_name = "OUTPUTS", value_parser = choice::<Outputs>(), default_value = "cached")]
    pub outputs: Outputs,
    /// Find required capacities of an engine that is modelled at one capacity at a time: the trace is read again with
    /// up to 64 capacities in between, until the smallest one tried that is enough is within 1 % of one that is not.
    #[arg(long)]
    pub search: bool,
    /// A tier under the engine's own cache (repeatable, from the fastest): lmcache:SIZE, lmcache-mp:SIZE or
    /// mooncake:SIZE, at each of the --capacities. The first looks up the whole prompt, as the engines' connectors do,
    /// each further one what follows. First under sglang, hicache:SIZE: its own host tier, which changes what its
    /// device finds. Under vllm, vllm-offload:SIZE. With --prefill-rate, lmcache:500GiB:bandwidth=20GiB,price=0.0004
    /// says how many bytes are loaded from it per second, and what a GiB of it costs per hour.
    #[arg(long, value_name = "TIER:SIZE[:OPTIONS]")]
    pub below: Vec<BelowOption>,
    /// Count a last page that is not full.
    #[arg(long)]
    pub include_partial_page: bool,
    /// The model whose requests are replayed; each model that the trace names where left out.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Leading requests that touch but do not count: a number, or a share like 20%.
    #[arg(long, value_name = "P", value_parser = warm_up, default_value = "0")]
    pub warm_up: WarmUp,
    /// Windows to report (repeatable): tumbling:5m, hopping:5m/1m, last:3000, all.
    #[arg(long = "window", value_name = "KIND", default_value = "all")]
    pub windows: Vec<WindowKind>,
    /// Requests that it takes to recommend a capacity; what fewer require is shown in parentheses.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=MAX_MIN_REQUESTS),
        default_value_t = MIN_REQUESTS
    )]
    pub min_requests: u64,
    /// Share of the pages that are followed; below 1, results are estimates.
    #[arg(long, value_name = "P", value_parser = share, default_value = "1")]
    pub sample_rate: Ratio,
    /// Most pages remembered; results are exact up to this capacity.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=MAX_TRACKED_PAGES),
        default_value_t = MAX_TRACKED_PAGES,
        hide_default_value = true
    )]
    pub max_tracked_pages: u64,
    /// Which page ids are watched for turning up under another prefix: a sample, or all of them.
    #[arg(long, value_name = "IDS", value_parser = choice::<ChainCheck>(), default_value = "sampled")]
    pub verify_chain: ChainCheck,
    /// Compare with the cached tokens that the trace says the serving engine found: the capacity its cache
    /// behaves like, and where the rest was lost. On by itself where rows carry cached_tokens.
    #[arg(long)]
    pub measured: bool,
    /// A router to try (repeatable): logged, round-robin:N, hash:N[:session|tenant|first-page], least-in-flight:N,
    /// prefix:N[:match=0.5,balance=1.5,tree=1048576], precise-prefix:N:at=SIZE[,balance=1.5]. Capacities are then the
    /// total of N replicas.
    #[arg(long = "router", value_name = "NAME[:N]")]
    pub routers: Vec<RouterSpec>,
    /// Times to live to try, separated by commas, such as 5m,1h: what a cache finds and holds that keeps pages for so
    /// long after their last use, or after they were written; with it, the age at which each capacity evicts.
    #[arg(long = "ttl", value_name = "TIME,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub ttls: Vec<Ttl>,
    /// What perfect foresight would find at each capacity, which nobody reaches.
    #[arg(long)]
    pub optimal: bool,
    /// Whose pages the cache holds: the K tenants that hold the most (10 where K is left out), and all others together.
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub tenants: Option<u16>,
    /// What each retention class of the trace finds and holds. A class says how long, or in preference to which others,
    /// requests want their pages kept (cache_control, a retention priority, retention_class of a row).
    #[arg(long)]
    pub retention_classes: bool,
    /// How certain the figures are, and what other traffic would need.
    #[command(flatten)]
    pub growth: GrowthArgs,
    /// Threads that read the traces and run the engine, where it has one curve by ranges of the requests that are
    /// merged in order; the result is the same with any number [default: the cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Write each request's result here, one line of JSON each.
    #[arg(long, value_name = "FILE")]
    pub per_request: Option<PathBuf>,
    /// What the cache holds today, such as 500GiB: the result says first whether that is enough.
    #[arg(long, value_name = "SIZE")]
    pub provisioned: Option<CapacitySpec>,
    /// One memory for all models that the trace names, such as 640GiB: the parts in which the model that is covered
    /// least is covered best; with --router also what one replica fewer and one more bring each.
    #[arg(long, value_name = "SIZE", value_parser = bytes, conflicts_with_all = ["pool", "per_request"])]
    pub plan: Option<Bytes>,
    /// With --plan, bytes of KV state per token of this model (repeatable), where it is not --kv-bytes-per-token.
    #[arg(long = "pool-cost", value_name = "MODEL=X", value_parser = pool_cost, requires = "plan")]
    pub pool_costs: Vec<(String, f64)>,
    /// Write the hit-rate curve as an SVG here.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Write worth against price as an SVG here: what the next GiB earns and costs, by the size of the cache.
    #[arg(long, value_name = "FILE.svg", requires = "gib_price")]
    pub worth_plot: Option<PathBuf>,
    /// Write a self-contained report with plots here.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Print the result as JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

impl ReplayArgs {
    /// How the traces are to be read: chats as the engine whose cache is modelled makes prompts of them, unless the
    /// user names another.
    pub fn read_options(&self) -> ReadOptions {
        let chat_engine = self.trace.chat_engine_for(&self.engines);
        ReadOptions { chat_engine, ..self.trace.read_options() }
    }

    /// What to ask of the pool alongside its estimates.
    ///
    /// # Errors
    /// Too many times to live.
    pub fn questions(&self) -> anyhow::Result<Questions> {
        let mut ttls = self.ttls.clone();
        ttls.sort_unstable();
        ttls.dedup();
        anyhow::ensure!(ttls.len() <= MAX_TTLS, "--ttl has {} times: at most {MAX_TTLS}", ttls.len());
        Ok(Questions {
            measured: self.measured,
            routers: self.routers.clone(),
            reuse: ReuseSetting {
                ttls,
                optimal: self.optimal,
                tenants: self.tenants.map(u32::from),
                ..ReuseSetting::default()
            },
            retention_classes: self.retention_classes,
            restarts: self.restarts,
            ..Questions::default()
        })
    }

    /// What to follow besides the pool.
    pub fn extras(&self) -> Extras {
        Extras {
            prefill_rate: self.prefill_rate.clone(),
            pool_costs: self.pool_costs.clone(),
            prices: Prices { accelerator_hour: self.gpu_price, gib_hour: self.gib_price },
            below: self.below.clone(),
            below_rules: self.options.rules(None),
            layers: None,
        }
    }

    /// The pool to replay into, for the first engine, at the first of these bytes per token and, as further ones, at
    /// the others.
    pub fn pool_config(&self, costs: &[f64], rules: EngineRules) -> PoolConfig {
        let first = self.engines.first().copied().unwrap_or_default();
        let of_log = self.trace.replay_options(first).pool;
        PoolConfig {
            cache: CacheConfig {
                rules,
                outputs: self.outputs,
                kv_bytes_per_token: costs.first().copied(),
                include_partial_page: self.include_partial_page,
                target_ratios: self.target_ratios.clone(),
                coverages: self.coverage.clone(),
                capacities: self.capacities.clone(),
                max_tracked_pages: PageCount(self.max_tracked_pages),
                sample_rate: self.sample_rate,
                chain_check: self.verify_chain,
                ..of_log.cache
            },
            windows: self.windows.clone(),
            min_requests: self.min_requests,
            tiers: self.tiers.clone(),
            further_costs: costs.iter().skip(1).copied().collect(),
            ..of_log
        }
    }
}
