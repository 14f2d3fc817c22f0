//! The command line: what each command takes, how it ends, and where its result goes.
//!
//! A command is a struct of arguments in [`args`] and a module of the commands that runs it. What that returns
//! decides the exit code: 0 for success, 1 for a failure at run time, 2 for wrong usage or configuration. Results go
//! to standard output, everything else to standard error.

pub mod args;
mod failure;
pub mod interrupt;
mod stdout;
mod version;

pub use failure::Failure;
pub use stdout::{json, print};

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// How much KV cache does this LLM traffic need? Exact capacity estimates from request logs.
#[derive(Debug, Parser)]
#[command(name = "kvset", version, long_version = version::long(), propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  kvset demo --duration 30s
  kvset run --config kvset.toml --create-topics
  kvset generate --requests 10000 --output load.jsonl.zst
  kvset config default > kvset.toml

Exit codes: 0 success, 1 failure at run time, 2 wrong usage or configuration.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service: subscribe, estimate, publish.
    Run(args::RunArgs),
    /// See it all in one command: embedded broker, generated load, the same pipeline.
    Demo(args::DemoArgs),
    /// Estimate a part of the log again, into topics of its own.
    Backfill(args::BackfillArgs),
    /// Turn raw request logs into request events: tokenise, hash, sample.
    Prepare(args::PrepareArgs),
    /// Write a trace as request events to a topic.
    Produce(args::ProduceArgs),
    /// Say whether the running service is ready, by the exit code too.
    Health(args::HealthArgs),
    /// Show committed estimates as they are published.
    Watch(args::WatchArgs),
    /// Show records that were refused, and why.
    DeadLetters(args::DeadLettersArgs),
    /// Pass records that no client can read, and note which.
    Skip(args::SkipArgs),
    /// Estimate from trace files, without Kafka.
    Replay(Box<args::ReplayArgs>),
    /// Say what a log can and cannot tell of the cache it needs.
    Doctor(Box<args::DoctorArgs>),
    /// Replay every single change of a configuration, and rank them.
    #[command(after_help = args::TUNE_EXAMPLES)]
    Tune(Box<args::ReplayArgs>),
    /// Show where prompts part, and what mending that would bring.
    Prefixes(args::PrefixesArgs),
    /// Write a synthetic agentic workload as a trace.
    Generate(args::GenerateArgs),
    /// Compute the KV bytes per token from a model's config.json, formula shown.
    Model(args::ModelArgs),
    /// Print, check and show the configuration.
    #[command(after_help = args::CONFIG_EXAMPLES)]
    Config {
        /// What to do.
        #[command(subcommand)]
        command: args::ConfigCommand,
    },
    /// List, inspect and verify the service's snapshots.
    #[command(after_help = args::SNAPSHOT_EXAMPLES)]
    Snapshot {
        /// What to do.
        #[command(subcommand)]
        command: args::SnapshotCommand,
    },
    /// Print a completion script for a shell.
    #[command(after_help = args::COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory.
    #[command(after_help = "Example:\n  kvset man ~/.local/share/man/man1")]
    Man {
        /// Directory to write to; made if it is not there.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_of_arguments_is_consistent() {
        Cli::command().debug_assert();
        args::standalone_commands().into_iter().for_each(|command| command.debug_assert());
    }
}
