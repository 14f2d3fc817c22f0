//! Arguments of the commands that talk to Kafka: `run`, `prepare`, `produce`, `watch`, and of writing to topics.

use super::ConfigFile;
use super::parse::{choice, factor};
use super::replay::TraceArgs;
use clap::Args;
use kvset_settings::{OutputEncoding, TopicName};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Arguments of `kvset run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C or SIGTERM stops it cleanly: it commits, writes a snapshot and leaves the group. A second one
forces it. A folder in place of a topic needs no broker.

Examples:
  kvset run --config kvset.toml
  kvset run --folder /var/log/kvset
  kvset run --folder /var/log/kvset --estimates /var/lib/kvset/estimates.jsonl --until-end
  kvset run --create-topics
  KVSET__KAFKA__BROKERS=broker:9092 KVSET__INPUT__TOPIC=requests kvset run")]
pub struct RunArgs {
    /// Create output topics that do not exist, with as many partitions as the input topic has; the one
    /// of estimates is compacted.
    #[arg(long, conflicts_with = "folder")]
    pub create_topics: bool,
    /// Follow the event files of this folder, such as vLLM's connector writes, in place of a topic; input.folder of the
    /// configuration where left out.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// File of JSON lines for the estimates of a folder; output.file of the configuration where left out.
    #[arg(long, value_name = "FILE")]
    pub estimates: Option<PathBuf>,
    /// End at the end of what is in the folder now.
    #[arg(long)]
    pub until_end: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}

/// Arguments of `kvset prepare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads [prepare] topic, of chat and completion requests, token ids or page ids, in any partitioning, and
writes request events keyed by pool to [input] topic: each record once, and those of one source partition
in its order. Prompts and token ids go nowhere. More instances share the partitions.

Examples:
  kvset prepare --config kvset.toml
  kvset prepare --create-topics
  kvset prepare --dry-run gateway.jsonl.gz
  kvset prepare --dry-run llm.requests
  KVSET__PREPARE__MODELS=/models/qwen3 KVSET__HTTP__LISTEN=127.0.0.1:9465 kvset prepare")]
pub struct PrepareArgs {
    /// Read the first records of this file, or of the topic of this name where there is no such file; say what they
    /// are, what becomes of them and which settings would read them. Nothing is written and no group is joined; `-`
    /// is standard input.
    #[arg(long, value_name = "FILE|TOPIC", conflicts_with = "create_topics")]
    pub dry_run: Option<PathBuf>,
    /// Records that --dry-run reads.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "dry_run")]
    pub records: u64,
    /// Create output topics that do not exist, with as many partitions as the topic of raw requests has.
    #[arg(long)]
    pub create_topics: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}

/// Arguments of `kvset produce`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kvset produce --config kvset.toml trace.jsonl.zst
  kvset produce --create-topics=4 --pool tenant/{session} trace.jsonl
  kvset produce --topic requests --pool llama-70b/eu --speed 60 trace.jsonl
  kvset generate -n 1000 | kvset produce --encoding json -")]
pub struct ProduceArgs {
    /// What to read.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Topic to write to; input.topic of the configuration where left out.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<TopicName>,
    /// How to write there.
    #[command(flatten)]
    pub sending: SendArgs,
    /// Stop after so many requests.
    #[arg(short = 'n', long, value_name = "N")]
    pub requests: Option<u64>,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}

/// How requests are written to a topic.
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    /// Create the topic if it does not exist, with so many partitions.
    #[arg(long, alias = "create-topic", value_name = "PARTITIONS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub create_topics: Option<NonZeroU32>,
    /// Pool the requests belong to, the key of every record; {session} stands for a request's session, {model} for its
    /// model.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub pool: String,
    /// How the records are encoded.
    #[arg(long, value_name = "ENCODING", value_parser = choice::<OutputEncoding>(), default_value = "avro")]
    pub encoding: OutputEncoding,
    /// Keep the trace's own pace, so many times as fast; as fast as the broker takes it where left out.
    #[arg(long, value_name = "N", value_parser = factor)]
    pub speed: Option<f64>,
}

/// Arguments of `kvset watch`.
#[derive(Debug, Args)]
#[command(after_help = "\
Only committed records are read.

Examples:
  kvset watch --config kvset.toml
  kvset watch --from-beginning --until-end --json | jq .required
  kvset watch --pool llama-70b/eu
  kvset watch --estimates kvset-estimates.jsonl --from-beginning")]
pub struct WatchArgs {
    /// Topic to read; output.topic of the configuration where left out.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<TopicName>,
    /// File of estimates to read in place of a topic, as `kvset run --folder` writes it; output.file where the
    /// configuration has input.folder.
    #[arg(long, value_name = "FILE", conflicts_with = "topic")]
    pub estimates: Option<PathBuf>,
    /// Show this pool only (repeatable).
    #[arg(long = "pool", value_name = "NAME")]
    pub pools: Vec<String>,
    /// Begin with the oldest estimate kept, not with the next one.
    #[arg(long)]
    pub from_beginning: bool,
    /// Stop at the present end of the topic, or of the file.
    #[arg(long)]
    pub until_end: bool,
    /// Print each estimate as a line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}
