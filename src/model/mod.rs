//! KV bytes per token from a model's `config.json`.
//!
//! ```text
//! config.json -> fields (typed, checked) -> architecture (tables of families, no guessing)
//!             -> layers (which layer keeps what) -> caches (what a token takes in each)
//!             -> formula (a line each, numbers put in) -> ModelCost
//! ```
//!
//! [`cost`] is a pure function of the text and the [`CostOptions`].

mod architecture;
mod blocks;
mod cache_type;
mod caches;
mod entry;
mod error;
mod families;
mod fields;
mod formula;
mod json;
mod kind;
mod layers;
mod memory;
mod options;
mod pooling;
mod report;
mod reserve;
mod shared_pool;
mod state;

pub use cache_type::QUANTIZATION_FILE;
pub use error::ModelConfigError;
pub use formula::CostLine;
pub use memory::{CalculationStep, Deployment, KvMemory, Weights};
pub use options::{CacheTier, CostOptions, IndexerDtype, KvDtype, StateDtype};
pub use pooling::{Pooling, SharedPool};
pub use report::{LayerWindow, ModelCost, Reserve, ReservePer};

use architecture::KnownModel;
use caches::TokenCaches;
use fields::ConfigFields;
use layers::Layers;

/// Longest `config.json` that is read, in bytes; real ones stay below a tenth of it.
const MAX_CONFIG_BYTES: usize = 4 << 20;

/// What one cached token of the model of a `config.json` costs, and what its layers without a full cache need
/// alongside; `quantization` is the text of [`QUANTIZATION_FILE`] alongside it, if there is one.
///
/// # Errors
/// [`ModelConfigError`] names the field and what it should hold; an architecture that is in no table, and whose type is
/// not either, is refused by name.
pub fn cost(
    config: &str,
    quantization: Option<&str>,
    options: &CostOptions,
) -> Result<ModelCost, ModelConfigError> {
    if config.len() > MAX_CONFIG_BYTES {
        return Err(ModelConfigError::TooLong { bytes: config.len(), most: MAX_CONFIG_BYTES });
    }
    let root = json::parse(config)?;
    let model = architecture::find(ConfigFields::root(&root))?;
    let (kv, type_remarks) = cache_type::of(&model.fields, quantization, options)?;
    let layers = Layers::of(&model.family, &model.fields)?;
    let caches = TokenCaches::of(&model, &layers, kv, options)?;

    let mut cost = ModelCost::new(model.name.clone(), kv, options);
    caches.add_token_lines(&mut cost)?;
    cost.copies = caches.copies();
    reserve::add(&model, &layers, &caches, options, &mut cost)?;
    cost.pooling = shared_pool::of(model.family.cache, &layers, &caches, &cost)?;
    cost.page_size = options.page_size.map(|page| page.get());
    cost.longest_sequence = model.fields.value("max_position_embeddings").and_then(fields::whole);
    let own = std::mem::take(&mut cost.warnings);
    cost.warnings = remarks(&model, type_remarks, &caches, own)?;
    cost.finish()?;
    Ok(cost)
}

/// What an operator should know before using the figure, the most general first.
fn remarks(
    model: &KnownModel<'_>,
    of_type: Vec<String>,
    caches: &TokenCaches,
    own: Vec<String>,
) -> Result<Vec<String>, ModelConfigError> {
    let fields = &model.fields;
    let mut remarks =
        [model.remarks.clone(), of_type, fields.defaults_taken(), caches.remarks.clone(), own].concat();
    if let Some(layers) = predicting_layers(fields)? {
        remarks.push(format!(
            "{layers} multi-token prediction layer(s) are left out: an engine that speculates with them \
             caches them too, and finds less (kvset replay --draft-head)"
        ));
    }
    if fields.optional("num_kv_shared_layers")?.is_some() || layers::layers_a_cache(fields)?.is_some() {
        remarks.push("layers that read another layer's cache own none and are left out".into());
    }
    Ok(remarks)
}

/// Layers that predict further tokens, under the names that configs have for them.
fn predicting_layers(fields: &ConfigFields<'_>) -> Result<Option<u64>, ModelConfigError> {
    for name in ["num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"] {
        if let Some(layers) = fields.optional(name)? {
            return Ok(Some(layers));
        }
    }
    Ok(None)
}
