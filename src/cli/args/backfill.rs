//! Arguments of `kvset backfill`.

use super::ConfigFile;
use clap::Args;
use kvset_service::backfill::{BackfillPlaces, BackfillWarmUp, RunId};
use kvset_settings::TopicName;
use std::path::PathBuf;

/// Arguments of `kvset backfill`.
#[derive(Debug, Args)]
#[command(after_help = "\
WHERE is an offset (1500), a time of the records' time stamps in UTC (2026-11-21T08:00:00Z) or in
milliseconds (@1795248000000), `earliest`, `latest`, or `committed`: where the live group goes on.
One WHERE holds for every partition; 0:100,3:1500 names some of them, and only those are read.

The live service, its group and its topics are left alone. A run that was stopped or killed goes on
when it is started again with the same arguments and its --run-id.

Examples:
  kvset backfill --config kvset.toml --from earliest --create-topics
  kvset backfill --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z --warm-up 6h
  kvset backfill --from 0:1500,1:1720 --to committed --run-id before-the-change --json
  kvset backfill --from earliest --run-id audit --report audit.html")]
pub struct BackfillArgs {
    /// Where to begin to count.
    #[arg(long, value_name = "WHERE")]
    pub from: BackfillPlaces,
    /// Where to end; the present end of the log where left out.
    #[arg(long, value_name = "WHERE", default_value = "latest")]
    pub to: BackfillPlaces,
    /// Records before --from that fill the cache and count nowhere: a span of event time like 6h, a number of records
    /// per partition, or `all`. Windows with less history are marked `warm_up`.
    #[arg(long, value_name = "SPAN")]
    pub warm_up: Option<BackfillWarmUp>,
    /// Name of the run, to go on with it later; the present time where left out.
    #[arg(long, value_name = "ID")]
    pub run_id: Option<RunId>,
    /// Topic of the estimates; output.topic of the configuration with .backfill.ID behind it where left
    /// out. Refused records go to output.dead_letter_topic with the same behind it.
    #[arg(long, value_name = "TOPIC")]
    pub output_topic: Option<TopicName>,
    /// Directory of the run's snapshots; state.directory of the configuration with .backfill/ID behind
    /// it where left out.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Create the run's topics where they do not exist, with as many partitions as the input topic has.
    #[arg(long)]
    pub create_topics: bool,
    /// Write a self-contained page with the plots, once the run is complete; the run's estimates are then in full
    /// detail.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Print what the run came to as JSON.
    #[arg(long)]
    pub json: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}
