//! Arguments of `kvset prefixes`.

use super::parse::{choice, token_cost};
use super::replay::TraceArgs;
use crate::replay::ReplayOptions;
use clap::Args;
use kvset_core::engines::config::CacheConfig;
use kvset_core::engines::profile::Profile;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::units::capacity::CapacitySpec;

/// Arguments of `kvset prefixes`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  kvset prefixes --format openai --model models/llama requests.jsonl
  kvset prefixes --capacities 5000p tokens.jsonl
  kvset prefixes --kv-bytes-per-token 131072 --capacities 80GiB --json trace.jsonl | jq .families
  kvset prefixes --format openai --model models/llama --show-text requests.jsonl")]
pub struct PrefixesArgs {
    /// What to read.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The model whose requests are looked at, where the trace names several.
    #[arg(long, value_name = "MODEL")]
    pub pool: Option<String>,
    /// The engine whose cache is modelled.
    #[arg(long, value_name = "ENGINE", value_parser = choice::<Profile>(), default_value = "paper")]
    pub engine: Profile,
    /// The capacity at which hits are counted, such as 80GiB or 5000p; unlimited where left out.
    #[arg(long, value_name = "SIZE")]
    pub capacities: Option<CapacitySpec>,
    /// Bytes of KV state per token, for a capacity in bytes.
    #[arg(long, value_name = "X", value_parser = token_cost)]
    pub kv_bytes_per_token: Option<f64>,
    /// Most families that are shown.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub top: u16,
    /// Show what differs. It is a part of prompts, which appear nowhere else.
    #[arg(long)]
    pub show_text: bool,
    /// Threads that read the trace and replay mended logs; the result is the same with any number [default: the cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl PrefixesArgs {
    /// How the log is read and replayed.
    pub fn replay_options(&self) -> ReplayOptions {
        let options = self.trace.replay_options(self.engine);
        ReplayOptions {
            pool: PoolConfig {
                cache: CacheConfig {
                    kv_bytes_per_token: self.kv_bytes_per_token,
                    capacities: self.capacities.iter().cloned().collect(),
                    ..options.pool.cache
                },
                ..options.pool
            },
            pool_name: self.pool.clone(),
            threads: self.threads.map_or(options.threads, usize::from),
            ..options
        }
    }
}
