//! The arguments of every command, and what they mean to the parts that run them.

mod backfill;
mod demo;
mod generate;
mod maintenance;
mod model;
mod parse;
mod replay;
mod service;
mod snapshot;

pub use backfill::BackfillArgs;
pub use demo::DemoArgs;
pub use generate::GenerateArgs;
pub use maintenance::{CompletionsArgs, ConfigArgs, ConfigCommand, ManArgs};
pub use model::ModelArgs;
pub use replay::{ChainChecking, ReplayArgs, TraceArgs};
pub use service::{PrepareArgs, ProduceArgs, RunArgs, SendArgs, WatchArgs};
pub use snapshot::{SnapshotArgs, SnapshotCommand, SnapshotPlace};

use clap::Args;
use std::path::{Path, PathBuf};

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
pub struct ConfigFile {
    /// Configuration file in TOML; `kvset config default` prints one. KVSET__SECTION__KEY variables win
    /// over it.
    #[arg(long, value_name = "FILE", env = "KVSET_CONFIG")]
    pub config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file, where one is named.
    pub fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}

/// The arguments of every command as a command of its own, for tests of the declarations.
#[cfg(test)]
pub(super) fn standalone_commands() -> Vec<clap::Command> {
    vec![
        BackfillArgs::augment_args(clap::Command::new("backfill")),
        DemoArgs::augment_args(clap::Command::new("demo")),
        ModelArgs::augment_args(clap::Command::new("model")),
        ReplayArgs::augment_args(clap::Command::new("replay")),
        RunArgs::augment_args(clap::Command::new("run")),
        PrepareArgs::augment_args(clap::Command::new("prepare")),
        ProduceArgs::augment_args(clap::Command::new("produce")),
        WatchArgs::augment_args(clap::Command::new("watch")),
    ]
}
