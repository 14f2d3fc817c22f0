//! What one layer caches of one token, as a product.

use super::error::{ModelConfigError, ModelRead};
use super::fields::{ConfigFields, whole};
use super::formula::{CostLine, Factor, factor, group, product, ratio};
use super::options::{CacheTier, CostOptions, IndexerDtype, KvDtype};

/// FP8 elements that share one 4-byte scale in sparse-attention caches.
const FP8_SCALE_BLOCK: u64 = 128;

/// What one layer caches of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerEntry {
    /// What it is, where the layer's kind does not say it (`latent`).
    pub part: &'static str,
    pub heads: Option<StoredHeads>,
    /// Factors in front of the layers.
    pub leading: Vec<Factor>,
    /// Factors after the heads.
    pub trailing: Vec<Factor>,
    /// Ranks that hold a copy of what is not split by heads.
    pub copies: u64,
}

/// KV heads over all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredHeads {
    /// The name of the factor.
    pub name: String,
    /// How many are stored: where there are more ranks than heads, each rank has one.
    pub stored: u64,
    /// Ranks that hold each of them.
    pub copies: u64,
}

impl LayerEntry {
    /// Keys and values of heads.
    pub(super) fn of_heads(
        heads: StoredHeads,
        key: &Factor,
        value: Option<&Factor>,
        kv: KvDtype,
    ) -> ModelRead<Self> {
        let (leading, width) = match value.filter(|value| value.value() != key.value()) {
            None => (vec![factor("2", 2)], key.clone()),
            Some(value) => (Vec::new(), key.plus(value)),
        };
        let scales = if leading.is_empty() { 2 } else { 1 };
        Ok(Self { part: "", heads: Some(heads), leading, trailing: elements(width, scales, kv)?, copies: 1 })
    }

    /// A compressed latent of `rank` elements and `rope` that are rotated.
    pub(super) fn latent(rank: u64, rope: u64, kv: KvDtype, copies: u64) -> ModelRead<Self> {
        let trailing = match kv {
            KvDtype::Fp8DsMla => vec![fp8_latent(rank, rope)?],
            KvDtype::Nvfp4DsMla => vec![nvfp4_latent(rank, rope)?],
            _ => {
                let sum =
                    group("(kv_lora_rank + qk_rope_head_dim)", format!("({rank} + {rope})"), rank + rope);
                elements(sum, 2, kv)?
            }
        };
        Ok(Self { part: "latent", heads: None, leading: Vec::new(), trailing, copies })
    }

    /// The index key of a layer with an indexer; `auto` is the type that engines give it.
    pub(super) fn index_key(
        field: &str,
        width: u64,
        auto: IndexerDtype,
        options: &CostOptions,
    ) -> ModelRead<Self> {
        let dtype = match options.indexer_dtype {
            IndexerDtype::Auto => auto,
            given => given,
        };
        let trailing = match dtype {
            IndexerDtype::Auto | IndexerDtype::Bf16 => elements(factor(field, width), 1, KvDtype::Bf16)?,
            IndexerDtype::Fp8 => vec![scaled_index(field, width, (1, FP8_SCALE_BLOCK, 4))?],
            IndexerDtype::Mxfp4 => vec![scaled_index(field, width, (2, 32, 1))?],
        };
        Ok(Self { part: "indexer keys", heads: None, leading: Vec::new(), trailing, copies: copies(options) })
    }

    /// One such entry for every so many tokens.
    pub(super) fn one_of(mut self, tokens: u64) -> Self {
        if tokens > 1 {
            self.trailing.push(ratio(format!("1/{tokens}"), 1, tokens));
        }
        self
    }

    /// Bytes per token of several layers that differ at most in their heads.
    pub(super) fn line(kind: &str, of_layers: &[&Self]) -> ModelRead<CostLine> {
        let first = of_layers[0];
        let count = factor("L", of_layers.len() as u64);
        let mut factors = first.leading.clone();
        match &first.heads {
            None => factors.push(count),
            Some(StoredHeads { name, stored: heads, .. }) => {
                let stored =
                    of_layers.iter().filter_map(|entry| entry.heads.as_ref()).map(|heads| heads.stored);
                if stored.clone().all(|other| other == *heads) {
                    factors.extend([count, factor(name, *heads)]);
                } else {
                    let sum = stored.sum();
                    factors.push(group(format!("sum of {name} over L"), format!("{sum}"), sum));
                }
            }
        }
        factors.extend(first.trailing.iter().cloned());
        let what = match first.part {
            "" => kind.to_owned(),
            "latent" => format!("{kind}, latent"),
            part => part.to_owned(),
        };
        product(what, first.copies, &factors)
    }

    /// Ranks that hold a copy of it.
    pub(super) fn copies(&self) -> u64 {
        self.heads.as_ref().map_or(self.copies, |heads| heads.copies)
    }

    /// Whether two layers' entries make one line: all but the number of heads is the same.
    pub(super) fn joins(&self, other: &Self) -> bool {
        let name = |entry: &Self| entry.heads.as_ref().map(|heads| heads.name.clone());
        self.part == other.part
            && self.leading == other.leading
            && self.trailing == other.trailing
            && self.copies == other.copies
            && name(self) == name(other)
    }
}

/// Ranks that hold a copy of what cannot be split by heads.
pub(super) fn copies(options: &CostOptions) -> u64 {
    match options.tier {
        CacheTier::Gpu => u64::from(options.tensor_parallel.get()),
        CacheTier::Host => 1,
    }
}

/// The factors of `width` elements; `scales` of four bytes go with them where each head and token has its own.
fn elements(width: Factor, scales: u64, kv: KvDtype) -> ModelRead<Vec<Factor>> {
    let in_blocks = |block: u64| match width.value().is_multiple_of(block) {
        true => Ok(()),
        false => Err(ModelConfigError::KvDtype {
            kv_dtype: kv.name(),
            reason: format!(
                "a scale is shared by {block} elements, and {} is {}",
                width.name(),
                width.value()
            ),
        }),
    };
    let scaled = |width: Factor| vec![width.plus_number(4 * scales)];
    Ok(match kv {
        KvDtype::Fp32 => vec![width, factor("b", 4)],
        KvDtype::Auto | KvDtype::Bf16 | KvDtype::Fp16 => vec![width, factor("b", 2)],
        KvDtype::Fp8 | KvDtype::Int8 => vec![width, factor("b", 1)],
        KvDtype::Nvfp4 => {
            in_blocks(16)?;
            vec![width, ratio("b", 9, 16)]
        }
        KvDtype::Mxfp8 => {
            in_blocks(32)?;
            vec![width, ratio("b", 33, 32)]
        }
        KvDtype::Int8PerTokenHead | KvDtype::Fp8PerTokenHead => scaled(width),
        KvDtype::Int4PerTokenHead => {
            in_blocks(2)?;
            scaled(width.halved())
        }
        KvDtype::Fp8DsMla | KvDtype::Nvfp4DsMla => {
            return Err(ModelConfigError::KvDtype {
                kv_dtype: kv.name(),
                reason: "it is a layout of latents (MLA), and this model caches heads: give fp8 or nvfp4"
                    .to_owned(),
            });
        }
    })
}

/// The packed FP8 layout of a latent: it in FP8, its scales, the rotary part in 16 bit.
fn fp8_latent(rank: u64, rope: u64) -> ModelRead<Factor> {
    let scales = blocks(KvDtype::Fp8DsMla, "kv_lora_rank", rank, FP8_SCALE_BLOCK)? * 4;
    Ok(group(
        "(kv_lora_rank + kv_lora_rank / 128 * 4 + 2 * qk_rope_head_dim)",
        format!("({rank} + {scales} + {})", 2 * rope),
        rank + scales + 2 * rope,
    ))
}

/// The packed NVFP4 layout of a latent: it in FP4, its scales, padding, the rotary part in 16 bit.
fn nvfp4_latent(rank: u64, rope: u64) -> ModelRead<Factor> {
    let scales = blocks(KvDtype::Nvfp4DsMla, "kv_lora_rank", rank, 16)?;
    Ok(group(
        "(kv_lora_rank / 2 + kv_lora_rank / 16 + 16 + 2 * qk_rope_head_dim)",
        format!("({} + {scales} + 16 + {})", rank / 2, 2 * rope),
        rank / 2 + scales + 16 + 2 * rope,
    ))
}

/// An index key with its scales: elements a byte, elements that share a scale, and the bytes of one.
fn scaled_index(field: &str, width: u64, (a_byte, block, scale): (u64, u64, u64)) -> ModelRead<Factor> {
    if !width.is_multiple_of(block) {
        return Err(ModelConfigError::Unexpected {
            field: field.to_owned(),
            found: width.to_string(),
            expected: format!("a multiple of {block}, which share a scale"),
        });
    }
    let (data, scales) = (width / a_byte, width / block * scale);
    let halves = if a_byte == 2 { " / 2" } else { "" };
    let times = if scale == 1 { String::new() } else { format!(" * {scale}") };
    Ok(group(
        format!("({field}{halves} + {field} / {block}{times})"),
        format!("({data} + {scales})"),
        data + scales,
    ))
}

/// Blocks of elements that share a scale.
fn blocks(kv_dtype: KvDtype, name: &str, width: u64, block: u64) -> ModelRead<u64> {
    if !width.is_multiple_of(block) {
        let reason = format!("a scale is shared by {block} elements, and `{name}` is {width}");
        return Err(ModelConfigError::KvDtype { kv_dtype: kv_dtype.name(), reason });
    }
    Ok(width / block)
}

/// The first of several count fields of one layer that is there, and its name.
pub(super) fn layer_count(
    fields: &ConfigFields<'_>,
    layer: usize,
    names: &[&'static str],
) -> ModelRead<Option<(&'static str, u64)>> {
    for name in names {
        let of_layer = fields.of_layer(layer, name);
        let count = match of_layer {
            Some(value) => {
                let count = whole(value).filter(|count| (1..=1 << 31).contains(count));
                let field = || format!("per_layer_config.{layer}.{name}");
                Some(count.ok_or_else(|| fields.unexpected(&field(), value, "a whole number from 1"))?)
            }
            None => fields.optional_count(name)?,
        };
        if let Some(count) = count {
            return Ok(Some((name, count)));
        }
    }
    Ok(None)
}
