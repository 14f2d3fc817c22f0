//! `kvset model`: KV bytes per token from a model's config.json.

use crate::cli::Failure;
use crate::cli::args::{ModelArgs, ReplayArgs};
use crate::model::{CostOptions, KvMemory, ModelCost, QUANTIZATION_FILE, StateDtype, cost};
use anyhow::Context as _;
use kvset_core::engines::profile::Profile;
use kvset_core::units::Bytes;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};

/// Bytes read of a file at most: enough for any, and a wrong file is not read whole. An index of weights names every
/// tensor, and takes some of them.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Name of the file that says how many bytes the weights take.
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// Most bytes of weights that are believed, far more than any model has and exact as a number of JSON.
const MAX_WEIGHTS: f64 = (1_u64 << 52) as f64;

/// Runs `kvset model`.
pub fn run(args: &ModelArgs) -> Result<(), Failure> {
    let checkpoint = Checkpoint::read(&args.config)?;
    let cost = checkpoint.cost(&args.cost_options())?;
    let weights = if args.accelerator_memory.is_some() { checkpoint.weights()? } else { None };
    let deployment = args.deployment(weights).map_err(Failure::usage)?;
    let kv_memory = deployment.map(|deployment| deployment.left_for(&cost)).transpose();
    let result = CostAnswer { cost, kv_memory: kv_memory.map_err(|error| Failure::Usage(error.into()))? };
    let text = if args.json {
        serde_json::to_string_pretty(&result).context("cannot write the result as JSON")? + "\n"
    } else {
        result.to_string()
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// The bytes per token, and what is left for tokens where the memory is given.
#[derive(Serialize)]
struct CostAnswer {
    #[serde(flatten)]
    cost: ModelCost,
    #[serde(skip_serializing_if = "Option::is_none")]
    kv_memory: Option<KvMemory>,
}

impl fmt::Display for CostAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cost.fmt(f)?;
        self.kv_memory.as_ref().map_or(Ok(()), |kv_memory| kv_memory.fmt(f))
    }
}

impl ReplayArgs {
    /// What the model's config says, once for each type of elements; none where no config is given.
    ///
    /// # Errors
    /// The config cannot be read, or the model's cache cannot be known from it.
    pub fn model_costs(&self) -> anyhow::Result<Vec<ModelCost>> {
        let Some(config) = &self.model_config else { return Ok(Vec::new()) };
        let checkpoint = Checkpoint::read(config)?;
        // vLLM's size of a state is the least block, so that of SGLang is taken where no other engine is named.
        let is_sglang = self.engines.iter().all(|engine| *engine == Profile::Sglang);
        let options = CostOptions {
            state_dtype: self.mamba_ssm_dtype,
            unnamed_state_dtype: is_sglang.then_some(StateDtype::Float32),
            ..CostOptions::default()
        };
        match self.kv_dtypes.as_slice() {
            [] => Ok(vec![checkpoint.cost(&options)?]),
            types => types
                .iter()
                .map(|kv_dtype| checkpoint.cost(&CostOptions { kv_dtype: *kv_dtype, ..options }))
                .collect(),
        }
    }
}

/// The files of a checkpoint that say what it caches.
struct Checkpoint {
    path: PathBuf,
    config: String,
    quantization: Option<String>,
}

impl Checkpoint {
    /// Reads a config.json, or that of a directory, and the quantization alongside it; `-` is standard input.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let mut path = path.to_path_buf();
        if path.is_dir() {
            path.push("config.json");
        }
        let (config, quantization) = if path.as_os_str() == "-" {
            (read_limited(io::stdin()), None)
        } else {
            (File::open(&path).and_then(read_limited), file_alongside(&path, QUANTIZATION_FILE)?)
        };
        let config = config.with_context(|| {
            let (path, name) = (path.display(), path.to_string_lossy());
            let is_repository = name.split('/').count() == 2 && !name.ends_with(".json");
            let advice = match is_repository {
                true => format!(
                    ": fetch it with `hf download {name} config.json --local-dir .`, and name the file"
                ),
                false => String::new(),
            };
            format!("cannot read model config `{path}`{advice}")
        })?;
        Ok(Self { path, config, quantization })
    }

    /// What a token costs.
    fn cost(&self, options: &CostOptions) -> anyhow::Result<ModelCost> {
        let path = self.path.display();
        let cost = cost(&self.config, self.quantization.as_deref(), options);
        cost.with_context(|| format!("cannot compute the cache of model config `{path}`"))
    }
}

impl Checkpoint {
    /// Bytes of the weights, as the index of their files says; `None` if there is no index, or it does not say.
    fn weights(&self) -> anyhow::Result<Option<Bytes>> {
        if self.path.as_os_str() == "-" {
            return Ok(None);
        }
        let Some(text) = file_alongside(&self.path, WEIGHTS_INDEX)? else { return Ok(None) };
        let index: Value = serde_json::from_str(&text)
            .with_context(|| format!("`{WEIGHTS_INDEX}` alongside the config is no index of weights"))?;
        let size = &index["metadata"]["total_size"];
        anyhow::ensure!(
            size.is_null() || size.is_number(),
            "`metadata.total_size` of `{WEIGHTS_INDEX}` alongside the config is no number"
        );
        Ok(size.as_f64().filter(|size| *size >= 1.0 && *size <= MAX_WEIGHTS).map(|size| Bytes(size as u64)))
    }
}

/// Reads a text, up to the limit.
fn read_limited(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// The text of another file of the checkpoint; `None` if there is none.
fn file_alongside(config: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let path = config.with_file_name(name);
    match File::open(&path).and_then(read_limited) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}
