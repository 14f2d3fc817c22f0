//! Arguments of `config`, and examples of what keeps a machine in order.

use super::ConfigFile;
use clap::Subcommand;
use std::path::PathBuf;

/// Examples under the help of `kvset config`.
pub const CONFIG_EXAMPLES: &str = "\
Examples:
  kvset config default > kvset.toml
  kvset config check --connect kvset.toml
  KVSET__ESTIMATE__ENGINE=vllm kvset config show --config kvset.toml";

/// Examples under the help of `kvset completions`.
pub const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  kvset completions bash > ~/.local/share/bash-completion/completions/kvset
  kvset completions zsh > ~/.zfunc/_kvset
  kvset completions fish > ~/.config/fish/completions/kvset.fish";

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
  kvset config check --connect --config kvset.toml")]
    Check {
        /// Configuration file in TOML; where left out, the one the other commands would read.
        #[arg(env = "KVSET_CONFIG")]
        file: Option<PathBuf>,
        /// The same, as the other commands have it.
        #[arg(long = "config", value_name = "FILE")]
        config: Option<PathBuf>,
        /// Try brokers, topics, rights, registry, snapshot stores and the HTTP port too; no reader sees it.
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
