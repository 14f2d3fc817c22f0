//! The program: reads its arguments and runs a command.

use crate::cli::{Cli, Command, Failure, args};
use crate::commands;
use clap::Parser as _;
use std::process::ExitCode;

/// Runs the program on the process's arguments.
pub fn main() -> ExitCode {
    match run(Cli::parse_from(args::with_default_count("--tenants", "10", std::env::args_os()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Run(args) => commands::run::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Backfill(args) => commands::backfill::run(&args),
        Command::Prepare(args) => commands::prepare::run(&args),
        Command::Produce(args) => commands::produce::run(&args),
        Command::Health(args) => commands::health::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::DeadLetters(args) => commands::dead_letters::run(&args),
        Command::Skip(args) => commands::skip::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Tune(args) => commands::tune::run(&args),
        Command::Prefixes(args) => commands::prefixes::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
        Command::Model(args) => commands::model::run(&args),
        Command::Config { command } => commands::config::run(&command),
        Command::Snapshot { command } => commands::snapshot::run(&command),
        Command::Completions { shell } => commands::shell::completions(shell),
        Command::Man { directory } => commands::shell::manual(&directory),
    }
}
