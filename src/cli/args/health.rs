//! Arguments of `health`.

use super::ConfigFile;
use super::parse::server;
use clap::Args;
use kvset_settings::HttpUrl;

/// Arguments of `kvset health`.
#[derive(Debug, Args)]
#[command(after_help = "\
Asks /readyz of http.listen, on this machine, or of --url: whether the service's results are up to date. For what runs a
command and reads its exit code: a container's health check, an exec probe, a script.

Exit codes: 0 ready, 1 not ready or no answer, with the reason on standard error, 2 wrong usage or configuration.

Examples:
  kvset health --config kvset.toml
  kvset health --url http://kvset-0.kvset-pods:9464
  kvset health --live")]
pub struct HealthArgs {
    /// Address of the service; that of http.listen in the configuration where left out.
    #[arg(long, value_name = "URL", value_parser = server)]
    pub url: Option<HttpUrl>,
    /// Read /livez: only whether the process works. For a supervisor that restarts what does not: a rebuild of state or
    /// a broker out of reach makes a service not ready, and a restart would cure neither.
    #[arg(long)]
    pub live: bool,
    /// Where the configuration is.
    #[command(flatten)]
    pub config: ConfigFile,
}
