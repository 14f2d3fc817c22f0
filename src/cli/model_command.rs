//! `kvset model`: KV bytes a token from a model's config.json.

use super::Failure;
use super::args::ModelArgs;
use crate::model::{CostOptions, ModelCost, cost};
use anyhow::Context as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;

/// Bytes read of a config at most: enough for any, and a wrong file is not read whole.
const MAX_CONFIG_BYTES: u64 = 8 << 20;

/// Runs `kvset model`.
pub fn run(args: &ModelArgs) -> Result<(), Failure> {
    let cost = read_cost(&args.config, &args.cost_options())?;
    let text = if args.json {
        serde_json::to_string_pretty(&cost).context("cannot write the result as JSON")? + "\n"
    } else {
        cost.to_string()
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Reads a config.json (`-` is standard input) and computes what a token costs.
///
/// # Errors
/// The file cannot be read, or the model's cache cannot be told from it.
pub fn read_cost(path: &Path, options: &CostOptions) -> anyhow::Result<ModelCost> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().take(MAX_CONFIG_BYTES).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(MAX_CONFIG_BYTES).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read model config `{}`", path.display()))?;
    cost(&text, options)
        .with_context(|| format!("cannot tell the cache of model config `{}`", path.display()))
}
