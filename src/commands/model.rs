//! `kvset model`: KV bytes a token from a model's config.json.

use crate::cli::Failure;
use crate::cli::args::{ModelArgs, ReplayArgs};
use crate::model::{CostOptions, ModelCost, cost};
use anyhow::Context as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;

/// Bytes read of a config at most: enough for any, and a wrong file is not read whole.
const MAX_CONFIG_BYTES: u64 = 8 << 20;

/// Runs `kvset model`.
pub fn run(args: &ModelArgs) -> Result<(), Failure> {
    let cost = cost_of(&read_config(&args.config)?, &args.config, &args.cost_options())?;
    let text = if args.json {
        serde_json::to_string_pretty(&cost).context("cannot write the result as JSON")? + "\n"
    } else {
        cost.to_string()
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

impl ReplayArgs {
    /// What the model's config says, once for each type of elements; none where no config is given.
    ///
    /// # Errors
    /// The config cannot be read, or the model's cache cannot be told from it.
    pub fn model_costs(&self) -> anyhow::Result<Vec<ModelCost>> {
        let Some(config) = &self.model_config else { return Ok(Vec::new()) };
        let text = read_config(config)?;
        let of = |kv_dtype| {
            let options = CostOptions { kv_dtype, ..CostOptions::default() };
            cost_of(&text, config, &options)
        };
        match self.kv_dtypes.as_slice() {
            [] => Ok(vec![of(None)?]),
            types => types.iter().map(|kv_dtype| of(Some(*kv_dtype))).collect(),
        }
    }
}

/// Reads a config.json; `-` is standard input.
fn read_config(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().take(MAX_CONFIG_BYTES).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(MAX_CONFIG_BYTES).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read model config `{}`", path.display()))?;
    Ok(text)
}

/// What a token costs by the config read from `path`.
fn cost_of(text: &str, path: &Path, options: &CostOptions) -> anyhow::Result<ModelCost> {
    cost(text, options).with_context(|| format!("cannot tell the cache of model config `{}`", path.display()))
}
