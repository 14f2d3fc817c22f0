//! Arguments of `kvset snapshot`.

use super::ConfigFile;
use clap::{Args, Subcommand};
use kvset_pipeline::facts::PartitionId;
use std::path::PathBuf;

/// Examples under the help of `kvset snapshot`.
pub const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  kvset snapshot list --directory kvset-state
  kvset snapshot inspect llm.requests-3 --config kvset.toml
  kvset snapshot list --shared --config kvset.toml
  kvset snapshot verify --json | jq '.snapshots[] | select(.problem)'

Nothing is changed, and a running service is not disturbed. Exit code 1 when a snapshot is unsound.";

/// What to do with the snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// List the snapshots by what their headers say, the newest of each partition first.
    #[command(after_help = "Example:\n  kvset snapshot list --directory kvset-state")]
    List {
        /// Only this partition.
        #[arg(long, value_name = "TOPIC-NUMBER", value_parser = partition)]
        partition: Option<PartitionId>,
        /// Where they are and how to print them.
        #[command(flatten)]
        place: SnapshotPlace,
    },
    /// Show all that is known of one snapshot, read and decoded as by `verify`.
    #[command(after_help = "Example:\n  kvset snapshot inspect llm.requests-3 --at 120000")]
    Inspect {
        /// The partition.
        #[arg(value_name = "TOPIC-NUMBER", value_parser = partition)]
        partition: PartitionId,
        /// Next offset of the snapshot; the newest when left out.
        #[arg(long, value_name = "OFFSET")]
        at: Option<i64>,
        /// Where it is and how to print it.
        #[command(flatten)]
        place: SnapshotPlace,
    },
    /// Read every byte of the snapshots, compare their checksums, and decode the states of the configuration.
    #[command(after_help = "\
Example:
  kvset snapshot verify --config kvset.toml

\"sound\" is a state that was decoded. A state of another configuration than the given one is not:
\"sound checksums\".")]
    Verify {
        /// Only this partition.
        #[arg(long, value_name = "TOPIC-NUMBER", value_parser = partition)]
        partition: Option<PartitionId>,
        /// Where they are and how to print them.
        #[command(flatten)]
        place: SnapshotPlace,
    },
}

/// Where the snapshots are and how to print what is found.
#[derive(Debug, Args)]
pub struct SnapshotPlace {
    /// Directory of the snapshots; `state.directory` of the configuration when left out.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Look in the object store that instances share, `state.shared` of the configuration.
    #[arg(long, conflicts_with = "directory")]
    pub shared: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

fn partition(text: &str) -> Result<PartitionId, String> {
    PartitionId::parse(text)
        .ok_or_else(|| "a partition is written as its topic, `-` and its number".to_owned())
}
