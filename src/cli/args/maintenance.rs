//! Arguments of `config`, `completions` and `man`.

use super::ConfigFile;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `kvset config`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kvset config default > kvset.toml
  kvset config check --connect kvset.toml
  KVSET__ESTIMATE__ENGINE=vllm kvset config show --config kvset.toml")]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the default configuration, every setting explained.
    #[command(after_help = "Example:\n  kvset config default > kvset.toml")]
    Default,
    /// Print the reference of all settings as Markdown.
    #[command(after_help = "Example:\n  kvset config reference > configuration.md")]
    Reference,
    /// Check a configuration, with the environment's settings over it, and name every problem.
    #[command(after_help = "\
With --connect every line says what was tried: ok, FAILED with what to do, or - where it could not be tried.

Exit codes: 0 all is well, 1 something that --connect tried failed, 2 the configuration is wrong.

Examples:
  kvset config check kvset.toml
  kvset config check --connect")]
    Check {
        /// Configuration file in TOML; where left out, the one the other commands would read.
        #[arg(env = "KVSET_CONFIG")]
        file: Option<PathBuf>,
        /// Try brokers, topics, rights, registry, snapshot stores and the HTTP port too; writes to no topic.
        #[arg(long)]
        connect: bool,
    },
    /// Print the configuration in effect, secrets masked, with its fingerprint.
    #[command(after_help = "Example:\n  KVSET__LOG__LEVEL=debug kvset config show --config kvset.toml")]
    Show {
        /// Where the configuration is.
        #[command(flatten)]
        config: ConfigFile,
    },
}

/// Arguments of `kvset completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kvset completions bash > ~/.local/share/bash-completion/completions/kvset
  kvset completions zsh > ~/.zfunc/_kvset
  kvset completions fish > ~/.config/fish/completions/kvset.fish")]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Arguments of `kvset man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kvset man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Directory to write to; made if it is not there.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
