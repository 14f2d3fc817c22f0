//! What a token costs in the layers that cache it.

use super::error::ModelError;
use super::families::{Absent, Cache, Family};
use super::fields::Fields;
use super::formula::{CostLine, Factor, factor, group, product};
use super::layers::{Kind, Layers};
use super::options::{CostOptions, KvDtype, Tier};
use super::report::ModelCost;

/// FP8 elements that share one 4-byte scale in sparse-attention caches.
const SCALE_BLOCK: u64 = 128;

/// How a token is cached, with the numbers the formulas take.
#[derive(Debug)]
pub(super) enum Attention {
    Grouped {
        /// Stored KV heads by layer: where there are more ranks than heads, each rank has one.
        heads: Vec<u64>,
        /// The factor's name, for a uniform number of heads.
        heads_name: String,
        head_dim: Factor,
        element: Factor,
    },
    Latent {
        /// Bytes a layer.
        entry: Vec<Factor>,
        /// Bytes a layer of the sparse attention's indexer.
        indexer: Option<Factor>,
        /// Ranks that hold a copy.
        copies: u64,
    },
}

impl Attention {
    pub(super) fn new(
        family: Family,
        fields: &Fields<'_>,
        layers: &Layers,
        dtype: KvDtype,
        options: &CostOptions,
    ) -> Result<Self, ModelError> {
        if family.cache == Cache::Grouped {
            return grouped(family, fields, layers, dtype, options);
        }
        let rank = fields.count("kv_lora_rank", "it is the width of the latent that MLA caches")?;
        let rope = fields.count("qk_rope_head_dim", "it is the part of a key that MLA caches as it is")?;
        let copies = match options.tier {
            Tier::Gpu => u64::from(options.tensor_parallel.get()),
            Tier::Host => 1,
        };
        let sparse = family.cache == Cache::SparseLatent;
        let indexer = if sparse { Some(indexer(fields)?) } else { None };
        let entry = match (sparse, dtype) {
            (true, KvDtype::Fp8) => vec![sparse_fp8_entry(fields, rank, rope)?],
            _ => vec![
                group("(kv_lora_rank + qk_rope_head_dim)", format!("({rank} + {rope})"), rank + rope),
                factor("b", dtype.bytes()),
            ],
        };
        Ok(Self::Latent { entry, indexer, copies })
    }

    /// Adds the lines of the layers that keep every token, and what all layers would cost.
    pub(super) fn add_token_lines(&self, layers: &Layers, cost: &mut ModelCost) -> Result<(), ModelError> {
        let full = layers.of_kind(Kind::Full);
        let windowed = layers.of_kind(Kind::Windowed);
        if full.is_empty() && windowed.is_empty() {
            return Err(ModelError::NoTokens);
        }
        if full.is_empty() {
            // Nothing would be left to size by: a cached prefix then costs its window in each layer.
            cost.lines = self.lines("sliding-window attention", &windowed)?;
            cost.warnings.push(
                "no layer keeps every token: the figure counts each layer for each cached token, an upper \
                 bound for engines that free what falls out of the window"
                    .to_owned(),
            );
            return Ok(());
        }
        cost.lines = self.lines("full attention", &full)?;
        if !windowed.is_empty() {
            cost.windowed_lines = self.lines("sliding-window attention", &windowed)?;
        }
        Ok(())
    }

    /// Bytes a token of some layers.
    pub(super) fn lines(&self, what: &str, layers: &[usize]) -> Result<Vec<CostLine>, ModelError> {
        if layers.is_empty() {
            return Ok(Vec::new());
        }
        let count = factor("L", layers.len() as u64);
        match self {
            Self::Grouped { heads, heads_name, head_dim, element } => {
                let of_layers: Vec<u64> = layers.iter().map(|layer| heads[*layer]).collect();
                let mut factors = vec![factor("2", 2)];
                if of_layers.iter().all(|heads| *heads == of_layers[0]) {
                    factors.extend([count, factor(heads_name, of_layers[0])]);
                } else {
                    let sum = of_layers.iter().sum();
                    factors.push(group(format!("sum of {heads_name} over L"), format!("{sum}"), sum));
                }
                factors.extend([head_dim.clone(), element.clone()]);
                Ok(vec![product(what, 1, &factors)?])
            }
            Self::Latent { entry, indexer, copies } => {
                let factors: Vec<Factor> = [count.clone()].into_iter().chain(entry.iter().cloned()).collect();
                let latent = product(format!("{what}, latent"), *copies, &factors)?;
                let indexer = indexer.clone().map(|keys| product("indexer keys", *copies, &[count, keys]));
                Ok([latent].into_iter().chain(indexer.transpose()?).collect())
            }
        }
    }

    /// What is particular to this kind of cache.
    pub(super) fn warnings(
        &self,
        fields: &Fields<'_>,
        options: &CostOptions,
    ) -> Result<Vec<String>, ModelError> {
        let mut warnings = fields.defaults_taken();
        match self {
            Self::Grouped { .. } => {
                if fields.value("num_key_value_heads").is_none() && warnings.is_empty() {
                    warnings.push(
                        "num_key_value_heads is absent: each query head is taken to have its own KV head"
                            .into(),
                    );
                }
            }
            Self::Latent { indexer, copies, .. } => {
                if *copies > 1 {
                    warnings.push(format!(
                        "a latent cannot be split by heads: each of the {copies} tensor-parallel ranks holds a \
                         copy (data-parallel attention would hold one)"
                    ));
                }
                if let (Some(indexer), Some((owners, field))) = (indexer, indexer_owners(fields)?) {
                    let ranks = if options.tier == Tier::Gpu { *copies } else { 1 };
                    let all = fields.layer_count("num_hidden_layers")?;
                    let saved =
                        product("shared indexers", ranks, &[factor("L", all - owners), indexer.clone()])?;
                    warnings.push(format!(
                        "`{field}` lets layers share an indexer: {owners} of {all} own one. every layer is counted, \
                         as SGLang allocates them; an engine that allocates the owners' alone (vLLM) needs {} \
                         bytes a token less",
                        saved.bytes
                    ));
                }
            }
        }
        Ok(warnings)
    }
}

/// The heads by layer, each checked against the ranks.
fn grouped(
    family: Family,
    fields: &Fields<'_>,
    layers: &Layers,
    dtype: KvDtype,
    options: &CostOptions,
) -> Result<Attention, ModelError> {
    let (field, heads) = kv_heads(family, fields, layers.len())?;
    let ranks = u64::from(options.tensor_parallel.get());
    let stored = heads.iter().map(|&count| match (count >= ranks, count.max(ranks) % count.min(ranks)) {
        (_, 1..) => Err(ModelError::TensorParallel {
            tensor_parallel: options.tensor_parallel.get(),
            field: fields.path_of(field),
            count,
        }),
        (true, 0) => Ok(count),
        (false, 0) => Ok(ranks),
    });
    let stored: Vec<u64> = stored.collect::<Result<_, _>>()?;
    let replicated = heads.iter().any(|count| *count < ranks);
    Ok(Attention::Grouped {
        heads: stored,
        heads_name: if replicated { format!("max({field}, tp)") } else { field.to_owned() },
        head_dim: head_dim(family, fields)?,
        element: factor("b", dtype.bytes()),
    })
}

/// KV heads by layer, and the field they come from.
fn kv_heads(
    family: Family,
    fields: &Fields<'_>,
    layers: usize,
) -> Result<(&'static str, Vec<u64>), ModelError> {
    const FIELD: &str = "num_key_value_heads";
    for name in ["num_key_value_heads_per_layer", FIELD] {
        if !fields.value(name).is_some_and(|value| value.is_array()) {
            continue;
        }
        // An empty list is no list, and no count either, which is what is said of it below.
        let Some(list) = fields.layer_list(name, layers as u64)? else { break };
        let count = |value: &serde_json::Value| {
            let count = value.as_u64().filter(|count| (1..=1 << 20).contains(count));
            count.ok_or_else(|| fields.unexpected(name, value, "a list of whole numbers from 1"))
        };
        return Ok((name, list.iter().map(count).collect::<Result<_, _>>()?));
    }
    let heads = match (fields.optional_count(FIELD)?, family.kv_heads) {
        (Some(heads), _) => heads,
        (None, Absent::FromQueryHeads) => {
            fields.count("num_attention_heads", "without num_key_value_heads it counts the KV heads")?
        }
        (None, Absent::Error) => fields.count(FIELD, "it counts the cached heads of a layer")?,
    };
    Ok((FIELD, vec![heads; layers]))
}

/// Elements of one head's key, and as many of its value.
fn head_dim(family: Family, fields: &Fields<'_>) -> Result<Factor, ModelError> {
    let needed_for =
        "it is the width of a cached key, and this architecture's differs from hidden_size / heads";
    for name in ["head_dim", "attention_head_dim"] {
        if let Some(dim) = fields.optional_count(name)? {
            return Ok(factor(name, dim));
        }
    }
    match family.head_dim {
        Absent::Error => fields.count("head_dim", needed_for).map(|dim| factor("head_dim", dim)),
        Absent::FromQueryHeads => {
            let hidden = fields.count("hidden_size", "without head_dim it gives the width of a key")?;
            let heads =
                fields.count("num_attention_heads", "without head_dim it gives the width of a key")?;
            if !hidden.is_multiple_of(heads) {
                let expected =
                    format!("a multiple of the {heads} of `num_attention_heads`, or head_dim given");
                return Err(fields.inconsistent("hidden_size", hidden.to_string(), expected));
            }
            Ok(group("(hidden_size / num_attention_heads)", format!("({hidden} / {heads})"), hidden / heads))
        }
    }
}

/// The packed FP8 layout of sparse MLA: the latent in FP8, its scales, the rotary part in bf16.
fn sparse_fp8_entry(fields: &Fields<'_>, rank: u64, rope: u64) -> Result<Factor, ModelError> {
    let scales = scales(fields, "kv_lora_rank", rank)?;
    Ok(group(
        "(kv_lora_rank + kv_lora_rank / 128 * 4 + 2 * qk_rope_head_dim)",
        format!("({rank} + {scales} + {})", 2 * rope),
        rank + scales + 2 * rope,
    ))
}

/// The indexer's key, always in FP8 with its scales.
fn indexer(fields: &Fields<'_>) -> Result<Factor, ModelError> {
    let dim = fields.count("index_head_dim", "it is the width of the sparse attention's index key")?;
    let scales = scales(fields, "index_head_dim", dim)?;
    Ok(group("(index_head_dim + index_head_dim / 128 * 4)", format!("({dim} + {scales})"), dim + scales))
}

/// Bytes of the scales of `width` FP8 elements.
fn scales(fields: &Fields<'_>, name: &str, width: u64) -> Result<u64, ModelError> {
    if !width.is_multiple_of(SCALE_BLOCK) {
        return Err(fields.inconsistent(name, width.to_string(), "a multiple of 128, which share a scale"));
    }
    Ok(width / SCALE_BLOCK * 4)
}

/// How many layers own an indexer, and the field that says so; `None` where all of them do.
fn indexer_owners(fields: &Fields<'_>) -> Result<Option<(u64, &'static str)>, ModelError> {
    let count = fields.layer_count("num_hidden_layers")?;
    if let Some(types) = fields.layer_list("indexer_types", count)? {
        let owners = types.iter().filter(|kind| kind.as_str() != Some("shared")).count() as u64;
        return Ok((owners < count).then_some((owners, "indexer_types")));
    }
    let every = fields.optional_count("index_topk_freq")?.unwrap_or(1);
    // Layers up to the offset own one, then every n-th does.
    let offset = fields.optional("index_skip_topk_offset")?.unwrap_or(2);
    let owners = (0..count).filter(|layer| (layer + 1).saturating_sub(offset).is_multiple_of(every)).count();
    Ok((every > 1).then_some((owners as u64, "index_topk_freq")))
}
