//! Arguments of `dead-letters`.

use super::ConfigFile;
use clap::Args;
use clap::builder::PossibleValuesParser;
use kvset_formats::codec::ErrorCode;
use kvset_settings::TopicName;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Arguments of `kvset dead-letters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Where each refused record was, which code refused it and why, as the dead letters' headers say. Key and
value, which may hold prompts, are printed with --raw only; dead letters of `kvset prepare` hold none.

Examples:
  kvset dead-letters --from-beginning --until-end
  kvset dead-letters --from-beginning --until-end --json | jq -r .code | sort | uniq -c
  kvset dead-letters --code missing_field -n 1 --from-beginning --raw
  kvset dead-letters --estimates kvset-estimates.jsonl --from-beginning --until-end
  kvset dead-letters --prepare")]
pub struct DeadLettersArgs {
    /// Topic to read; output.dead_letter_topic of the configuration where left out.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<TopicName>,
    /// File of estimates, as `kvset run --folder` writes it, whose dead letters to read in place of a topic;
    /// output.file where the configuration has input.folder.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["topic", "prepare"])]
    pub estimates: Option<PathBuf>,
    /// Read prepare.dead_letter_topic of the configuration: what `kvset prepare` refused.
    #[arg(long, conflicts_with = "topic")]
    pub prepare: bool,
    /// Show records refused with this code only (repeatable).
    #[arg(long = "code", value_name = "CODE", value_parser = PossibleValuesParser::new(ErrorCode::ALL.map(ErrorCode::name)))]
    pub codes: Vec<String>,
    /// Begin with the oldest dead letter kept, not with the next one.
    #[arg(long)]
    pub from_beginning: bool,
    /// Stop at the present end of the topic, or of the file.
    #[arg(long)]
    pub until_end: bool,
    /// Stop after so many were shown.
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<NonZeroU64>,
    /// Print each as a line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Print key and value of the refused record too; they may hold prompts.
    #[arg(long)]
    pub raw: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}
