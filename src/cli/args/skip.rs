//! Arguments of `skip`.

use super::ConfigFile;
use clap::Args;

/// Arguments of `kvset skip`.
#[derive(Debug, Args)]
#[command(after_help = "\
A batch with a wrong checksum, or one that decompresses to more than the client takes, holds its partition, and so do too
many records in a row that are no request events, under every pool's key: the service names the partition and the offset,
and all other partitions go on. This command finds where records can be read again, or takes your word with --to, and
notes the offsets in between with the group's committed offset: every instance of the group passes them from then on, a
backfill too. A dead letter with the code `unreadable` says which records are missing, and later estimates are marked
warm_up.

Stop the group's instances first: a group with members takes no offsets from others.

Examples:
  kvset skip --partition 3 --offset 120
  kvset skip --partition 3 --offset 120 --dry-run
  kvset skip --partition 3 --offset 120 --to 6120
  kvset skip --prepare --partition 0 --offset 7")]
pub struct SkipArgs {
    /// Partition of the input topic.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub partition: i32,
    /// The offset that cannot be read, as the service names it.
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    pub offset: i64,
    /// Pass everything before this offset, also what can be read.
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(1..))]
    pub to: Option<i64>,
    /// Pass records of prepare.topic, in prepare.group.
    #[arg(long)]
    pub prepare: bool,
    /// Say what would be passed; note nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}
