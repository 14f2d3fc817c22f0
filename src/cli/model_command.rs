//! `kvset model`: KV bytes a token from a model's config.json.

use super::Failure;
use super::args::{ModelArgs, ReplayArgs};
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

impl ReplayArgs {
    /// Bytes of KV state a token costs: as given, or as the model's config says; `None` where neither is.
    ///
    /// # Errors
    /// The config cannot be read, or the model's cache cannot be told from it.
    pub fn token_cost(&self) -> anyhow::Result<Option<f64>> {
        let Some(config) = &self.model_config else { return Ok(self.kv_bytes_per_token) };
        let options = CostOptions { kv_dtype: self.kv_dtype, ..CostOptions::default() };
        Ok(Some(read_cost(config, &options)?.bytes_per_token as f64))
    }
}

/// Reads a config.json (`-` is standard input) and computes what a token costs.
///
/// # Errors
/// The file cannot be read, or the model's cache cannot be told from it.
fn read_cost(path: &Path, options: &CostOptions) -> anyhow::Result<ModelCost> {
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
