//! KV bytes a token from a model's `config.json` (ENGINES 3).
//!
//! ```text
//! config.json -> fields (typed, checked) -> architecture (a table, no guessing)
//!             -> layers (which layer caches what) -> formula (a line each, numbers put in) -> ModelCost
//! ```
//!
//! [`cost`] is a pure function of the text and the [`CostOptions`].

mod architecture;
mod attention;
mod error;
mod families;
mod fields;
mod formula;
mod layers;
mod options;
mod pooling;
mod report;
mod reserve;
mod shared_pool;
mod state;

pub use error::ModelError;
pub use formula::CostLine;
pub use options::{CostOptions, KvDtype, Tier};
pub use pooling::{Pooling, SharedPool};
pub use report::{ModelCost, Reserve, ReservePer};

use attention::Attention;
use fields::Fields;
use layers::Layers;

/// Longest `config.json` that is read, in bytes; real ones stay below a tenth of it.
const MAX_CONFIG_BYTES: usize = 4 << 20;

/// What one cached token of this model costs, and what its layers without a full cache need beside.
///
/// # Errors
/// [`ModelError`] names the field and what it should hold; an architecture that is not in the table
/// is refused by name.
pub fn cost(config_json: &str, options: &CostOptions) -> Result<ModelCost, ModelError> {
    if config_json.len() > MAX_CONFIG_BYTES {
        return Err(ModelError::TooLong { bytes: config_json.len(), most: MAX_CONFIG_BYTES });
    }
    let root = fields::parse(config_json)?;
    let (architecture, family, fields) = architecture::find(&Fields::root(&root))?;
    let dtype = options.kv_dtype.map_or_else(|| options::declared_dtype(&fields), Ok)?;
    let layers = Layers::of(family, &fields)?;
    let attention = Attention::new(family, &fields, &layers, dtype, options)?;

    let mut cost = ModelCost::new(architecture, dtype, options);
    cost.warnings = warnings(&fields, &attention, options)?;
    attention.add_token_lines(&layers, &mut cost)?;
    reserve::add(family, &fields, &layers, &attention, options, &mut cost)?;
    cost.pooling = shared_pool::of(&layers, &attention, &cost)?;
    cost.page_size = options.page_size.map(|page| page.get());
    cost.finish()?;
    Ok(cost)
}

/// What an operator should know before using the figure.
fn warnings(
    fields: &Fields<'_>,
    attention: &Attention,
    options: &CostOptions,
) -> Result<Vec<String>, ModelError> {
    let mut warnings = attention.warnings(fields, options)?;
    if let Some(layers) = fields.optional("num_nextn_predict_layers")? {
        warnings.push(format!(
            "{layers} multi-token prediction layer(s) are left out: an engine that speculates with them \
             caches them too"
        ));
    }
    if options.kv_dtype.is_none() && fields.declares_quantized_cache() {
        warnings.push(
            "the checkpoint declares a quantized KV cache: give --kv-dtype fp8 if the engine follows it"
                .into(),
        );
    }
    if fields.optional("num_kv_shared_layers")?.is_some() {
        warnings.push("layers that read another layer's cache own none and are left out".into());
    }
    Ok(warnings)
}
