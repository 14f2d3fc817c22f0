//! Arguments of `kvset demo`.

use super::ConfigFile;
use super::parse::factor;
use clap::Args;
use kvset_settings::Span;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `kvset demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing needs to be installed: a broker runs inside the process.

Examples:
  kvset demo
  kvset demo --listen 127.0.0.1:9464
  kvset demo --duration 30s --json
  kvset demo --trace requests.jsonl.zst --speed 600")]
pub struct DemoArgs {
    /// Wall-clock time to run for, like 30s; until Ctrl-C where left out.
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Replay this trace instead of a generated workload.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// How much faster than the wall clock event time runs.
    #[arg(long, value_name = "N", value_parser = factor, default_value = "600")]
    pub speed: f64,
    /// Serve the live page, the API and metrics on this address, like 127.0.0.1:9464; nowhere where left
    /// out, whatever the configuration says.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Print each final estimate as a line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}
