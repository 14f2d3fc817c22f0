//! Arguments of `kvset doctor`.

use super::ConfigFile;
use super::parse::choice;
use super::replay::TraceArgs;
use crate::replay::ReplayOptions;
use clap::Args;
use kvset_core::engines::profile::Profile;

/// Arguments of `kvset doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A single TRACE that names no file here, nor ends as one does (.jsonl, .gz), is taken for a topic, of which the oldest
--records are read outside of any group, with the [kafka], [input] and [schema_registry] settings of the configuration.

Exit codes: 0 where a replay of the log gives an answer, 1 where it does not, 2 wrong usage.

Examples:
  kvset doctor requests.jsonl.zst
  kvset doctor --engine vllm --json gateway.jsonl | jq '.findings[] | select(.verdict != \"yes\")'
  zcat log.jsonl.gz | kvset doctor -
  KVSET__KAFKA__BROKERS=broker:9092 kvset doctor --records 50000 kvset.requests")]
pub struct DoctorArgs {
    /// What to read.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The model whose requests are looked at, where the log names several.
    #[arg(long, value_name = "MODEL")]
    pub pool: Option<String>,
    /// The engine whose cache is modelled: measured hits are compared with it.
    #[arg(long, value_name = "ENGINE", value_parser = choice::<Profile>(), default_value = "paper")]
    pub engine: Profile,
    /// Records of a topic that are read.
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..))]
    pub records: u64,
    /// Print the findings as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}

impl DoctorArgs {
    /// How the log is read and replayed.
    pub fn replay_options(&self) -> ReplayOptions {
        ReplayOptions { pool_name: self.pool.clone(), ..self.trace.replay_options(self.engine) }
    }
}
