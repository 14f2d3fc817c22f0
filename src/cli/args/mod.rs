//! The arguments of every command, and what they mean to the parts that run them.

mod backfill;
mod counted;
mod dead_letters;
mod demo;
mod doctor;
mod engine;
mod generate;
mod growth;
mod health;
mod maintenance;
mod model;
mod parse;
mod prefixes;
mod replay;
mod service;
mod skip;
mod snapshot;
mod tune;

pub use backfill::BackfillArgs;
pub use counted::with_default_count;
pub use dead_letters::DeadLettersArgs;
pub use demo::DemoArgs;
pub use doctor::DoctorArgs;
pub use generate::GenerateArgs;
pub use growth::{GrowthArgs, Switch};
pub use health::HealthArgs;
pub use maintenance::{COMPLETIONS_EXAMPLES, CONFIG_EXAMPLES, ConfigCommand};
pub use model::ModelArgs;
pub use prefixes::PrefixesArgs;
pub use replay::{ReplayArgs, TraceArgs};
pub use service::{PrepareArgs, ProduceArgs, RunArgs, SendArgs, WatchArgs};
pub use skip::SkipArgs;
pub use snapshot::{SNAPSHOT_EXAMPLES, SnapshotCommand, SnapshotPlace};
pub use tune::TUNE_EXAMPLES;

use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
pub struct ConfigFile {
    /// Configuration file in TOML; `kvset config default` prints one. KVSET__SECTION__KEY variables win
    /// over it. Where none is named, ./kvset.toml is read if it is there.
    #[arg(long, value_name = "FILE", env = "KVSET_CONFIG")]
    pub config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file that is named, else the one that lies in the working directory, which is then said on
    /// standard error.
    pub fn file(&self) -> Option<&Path> {
        found(self.config.as_deref())
    }
}

/// Read where no other configuration is named.
const BESIDE: &str = "kvset.toml";

/// The configuration in force: the one named, else [`BESIDE`] where there is one.
pub fn found(named: Option<&Path>) -> Option<&Path> {
    static SAID: Once = Once::new();
    if named.is_some() {
        return named;
    }
    let beside = Path::new(BESIDE);
    if !beside.is_file() {
        return None;
    }
    SAID.call_once(|| eprintln!("reading ./{BESIDE}, as no other configuration is named"));
    Some(beside)
}

/// The arguments of every command as a command of its own, for tests of the declarations.
#[cfg(test)]
pub(super) fn standalone_commands() -> Vec<clap::Command> {
    vec![
        BackfillArgs::augment_args(clap::Command::new("backfill")),
        DemoArgs::augment_args(clap::Command::new("demo")),
        DoctorArgs::augment_args(clap::Command::new("doctor")),
        HealthArgs::augment_args(clap::Command::new("health")),
        ModelArgs::augment_args(clap::Command::new("model")),
        PrefixesArgs::augment_args(clap::Command::new("prefixes")),
        ReplayArgs::augment_args(clap::Command::new("replay")),
        RunArgs::augment_args(clap::Command::new("run")),
        PrepareArgs::augment_args(clap::Command::new("prepare")),
        ProduceArgs::augment_args(clap::Command::new("produce")),
        DeadLettersArgs::augment_args(clap::Command::new("dead-letters")),
        SkipArgs::augment_args(clap::Command::new("skip")),
        WatchArgs::augment_args(clap::Command::new("watch")),
    ]
}
