//! What every layer of a model caches of a token.

use super::architecture::KnownModel;
use super::entry::{LayerEntry, StoredHeads, copies, layer_count};
use super::error::{ModelConfigError, ModelRead};
use super::families::{Family, HeadNames, LayerCache};
use super::fields::ConfigFields;
use super::formula::{CostLine, Factor, factor, group};
use super::kind::LayerKind;
use super::layers::Layers;
use super::options::{CostOptions, IndexerDtype, KvDtype};
use super::report::ModelCost;
use std::collections::BTreeMap;

/// The ratio of the layers of DeepSeek-V4 that pick tokens by an index.
const INDEXED_RATIO: u64 = 4;

/// What `kv_lora_rank` is needed for.
const LATENT_WIDTH: &str = "it is the width of the latent that MLA caches";

/// How much of a sequence a cache keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheReach {
    /// Every token.
    Every,
    /// The tokens of a window.
    Window,
}

impl CacheReach {
    /// What the layers are called.
    fn name(self) -> &'static str {
        match self {
            Self::Every => "full attention",
            Self::Window => "sliding-window attention",
        }
    }
}

/// What every layer caches of a token.
#[derive(Debug)]
pub(super) struct TokenCaches {
    /// The number of the layer, how much it keeps, and what it keeps of each token.
    entries: Vec<(usize, CacheReach, LayerEntry)>,
    /// What to know of them.
    pub remarks: Vec<String>,
}

impl TokenCaches {
    pub(super) fn of(
        model: &KnownModel<'_>,
        layers: &Layers,
        kv: KvDtype,
        options: &CostOptions,
    ) -> ModelRead<Self> {
        let (family, fields) = (&model.family, &model.fields);
        let from = &CacheSource { family, fields, layers, options };
        let mut caches = Self { entries: Vec::new(), remarks: Vec::new() };
        match family.cache {
            LayerCache::Grouped => caches.grouped(from, kv)?,
            LayerCache::IndexedGroups => {
                caches.grouped(from, kv)?;
                caches.sparse_groups(from)?;
            }
            LayerCache::Latent | LayerCache::SparseLatent | LayerCache::PlainSparseLatent
                if fields.is_null("kv_lora_rank") =>
            {
                caches.without_latent(from, kv)?;
            }
            // A class of latents serves the sparse models of its line, too.
            LayerCache::Latent if fields.value("index_topk").is_none() => caches.latent(from, kv)?,
            LayerCache::Latent | LayerCache::SparseLatent => caches.sparse_latent(from, kv, true)?,
            LayerCache::PlainSparseLatent => caches.sparse_latent(from, kv, false)?,
            LayerCache::Compressed => caches.compressed(from, kv)?,
        }
        Ok(caches)
    }

    fn push(&mut self, layer: usize, reach: CacheReach, entry: LayerEntry) {
        self.entries.push((layer, reach, entry));
    }

    /// Bytes per token of the layers with one reach, a line for each kind of entry.
    pub(super) fn lines(&self, reach: CacheReach) -> ModelRead<Vec<CostLine>> {
        self.lines_as(reach, reach.name())
    }

    fn lines_as(&self, reach: CacheReach, name: &str) -> ModelRead<Vec<CostLine>> {
        let mut kinds: Vec<Vec<&LayerEntry>> = Vec::new();
        for (_, _, entry) in self.entries.iter().filter(|(_, of, _)| *of == reach) {
            match kinds.iter_mut().find(|kind| kind[0].joins(entry)) {
                Some(kind) => kind.push(entry),
                None => kinds.push(vec![entry]),
            }
        }
        kinds.iter().map(|kind| LayerEntry::line(name, kind)).collect()
    }

    /// Bytes per token of each layer with one reach, those of one layer together.
    pub(super) fn by_layer(&self, reach: CacheReach) -> ModelRead<Vec<u64>> {
        let mut layers: BTreeMap<usize, u64> = BTreeMap::new();
        for (layer, _, entry) in self.entries.iter().filter(|(_, of, _)| *of == reach) {
            let bytes = LayerEntry::line(reach.name(), &[entry])?.bytes;
            let sum = layers.entry(*layer).or_default();
            *sum = sum.saturating_add(bytes);
        }
        Ok(layers.into_values().collect())
    }

    /// Ranks that hold a copy of each token.
    pub(super) fn copies(&self) -> u64 {
        let every = self.entries.iter().filter(|(_, reach, _)| *reach == CacheReach::Every);
        every.map(|(_, _, entry)| entry.copies()).min().unwrap_or(1)
    }

    /// Adds the lines of the layers that keep every token, and what all layers would cost.
    pub(super) fn add_token_lines(&self, cost: &mut ModelCost) -> ModelRead<()> {
        let full = self.lines(CacheReach::Every)?;
        let windowed = self.lines(CacheReach::Window)?;
        if full.is_empty() && windowed.is_empty() {
            return Err(ModelConfigError::NoTokens);
        }
        if full.is_empty() {
            // Nothing would be left to size by: a cached prefix then costs its window in each layer.
            cost.lines = windowed;
            cost.warnings.push(
                "no layer keeps every token: the figure counts each layer for each cached token, an upper \
                 bound for engines that free what falls out of the window"
                    .to_owned(),
            );
            return Ok(());
        }
        cost.lines = full;
        cost.windowed_lines = windowed;
        Ok(())
    }

    /// Keys and values of the KV heads of each layer.
    fn grouped(&mut self, from: &CacheSource<'_, '_>, kv: KvDtype) -> ModelRead<()> {
        for (reach, kind, names) in [
            (CacheReach::Every, LayerKind::Full, &from.family.full),
            (CacheReach::Window, LayerKind::Windowed, &from.family.windowed),
        ] {
            for layer in from.layers.of_kind(kind) {
                let stored = from.stored(layer, names)?;
                let key = from.key(layer, names)?;
                let value = from.value(layer, names)?;
                self.push(layer, reach, LayerEntry::of_heads(stored, &key, value.as_ref(), kv)?);
            }
        }
        if from.layers.heads.is_none() && from.are_query_heads(&from.family.full)? {
            self.remarks.push(
                "num_key_value_heads is absent: each query head is taken to have its own KV head".to_owned(),
            );
        }
        Ok(())
    }

    /// The index keys of sparse layers with heads: those that `sparse_attention_config` flags, or that `layer_types`
    /// calls so.
    fn sparse_groups(&mut self, from: &CacheSource<'_, '_>) -> ModelRead<()> {
        let CacheSource { fields, layers, options, .. } = *from;
        const FLAGS: &str = "sparse_attention_config.sparse_attention_freq";
        const USED: &str = "sparse_attention_config.use_sparse_attention";
        const WIDTHS: [&str; 2] = ["sparse_attention_config.sparse_index_dim", "index_head_dim"];
        if fields.flag(USED)? == Some(false) {
            return Ok(());
        }
        let count = layers.len() as u64;
        let sparse: Vec<bool> =
            match (fields.layer_list(FLAGS, count)?, fields.layer_list("layer_types", count)?) {
                (Some(flags), _) => flags.iter().map(|flag| flag.as_u64() != Some(0)).collect(),
                (None, Some(kinds)) => {
                    kinds.iter().map(|kind| kind.as_str() == Some("minimax_m3_sparse")).collect()
                }
                (None, None) => {
                    let needed_for = "it says which layers cache an index key alongside their heads";
                    return Err(fields.missing(FLAGS, needed_for));
                }
            };
        let width = WIDTHS.into_iter().find(|name| fields.value(name).is_some()).unwrap_or(WIDTHS[0]);
        let shown = width.rsplit('.').next().unwrap_or(width);
        for layer in layers.of_kind(LayerKind::Full).into_iter().filter(|layer| sparse[*layer]) {
            let width = fields.count(width, "it is the width of the sparse attention's index key")?;
            let entry = LayerEntry::index_key(shown, width, IndexerDtype::Bf16, options)?;
            self.push(layer, CacheReach::Every, entry);
        }
        Ok(())
    }

    /// A latent for each layer.
    fn latent(&mut self, from: &CacheSource<'_, '_>, kv: KvDtype) -> ModelRead<()> {
        let (rank, rope) = from.latent_widths()?;
        let copies = copies(from.options);
        for layer in from.layers.of_kind(LayerKind::Full) {
            self.push(layer, CacheReach::Every, LayerEntry::latent(rank, rope, kv, copies)?);
        }
        if kv == KvDtype::Nvfp4DsMla {
            let bytes = rank / 2 + rank / 16 + rope;
            self.remarks.push(format!(
                "nvfp4_ds_mla keeps the rotary part in 16 bit here; vLLM 0.33 on SM100 keeps it in FP8, which is \
                 {bytes} bytes a layer and token"
            ));
        }
        if copies > 1 {
            self.remarks.push(format!(
                "a latent cannot be split by heads: each of the {copies} tensor-parallel ranks holds a \
                 copy (data-parallel attention would hold one)"
            ));
        }
        Ok(())
    }

    /// A latent for each layer, and index keys for those that own an indexer; in FP8 the latent is packed or not.
    fn sparse_latent(&mut self, from: &CacheSource<'_, '_>, kv: KvDtype, packs_fp8: bool) -> ModelRead<()> {
        let CacheSource { fields, layers, options, .. } = *from;
        let packed = packs_fp8 && kv == KvDtype::Fp8;
        self.latent(from, if packed { KvDtype::Fp8DsMla } else { kv })?;
        let width = fields.count("index_head_dim", "it is the width of the sparse attention's index key")?;
        let owners = indexer_owners(fields, layers.len())?;
        for layer in layers.of_kind(LayerKind::Full).into_iter().filter(|layer| owners[*layer]) {
            let entry = LayerEntry::index_key("index_head_dim", width, IndexerDtype::Fp8, options)?;
            self.push(layer, CacheReach::Every, entry);
        }
        let owning = owners.iter().filter(|owns| **owns).count();
        if owning < owners.len() {
            self.remarks.push(format!(
                "{owning} of {} layers own an indexer; those that share one cache no index keys of their own",
                owners.len()
            ));
        }
        if kv == KvDtype::Fp8 {
            let (rank, rope) = from.latent_widths()?;
            self.remarks.push(match packed {
                true => format!(
                    "the latent in FP8 is packed as FlashMLA reads it (SM90); FlashInfer (SM100) reads plain FP8, {} bytes a \
                     layer and token",
                    rank + rope
                ),
                false => format!(
                    "the latent in FP8 is plain, as FlashInfer reads it (SM100); FlashMLA (SM90) packs it in {} bytes a layer \
                     and token: --kv-dtype fp8_ds_mla",
                    rank + rank / 128 * 4 + 2 * rope
                ),
            });
        }
        Ok(())
    }

    /// A model of a class with latents that has none: its heads, where nothing of MLA is left in it.
    fn without_latent(&mut self, from: &CacheSource<'_, '_>, kv: KvDtype) -> ModelRead<()> {
        if from.fields.value("qk_rope_head_dim").and_then(serde_json::Value::as_u64) != Some(0) {
            return Err(from.fields.missing("kv_lora_rank", LATENT_WIDTH));
        }
        self.grouped(from, kv)
    }

    /// DeepSeek-V4: one latent for every so many tokens, index keys with the ratio of 4, and a window.
    fn compressed(&mut self, from: &CacheSource<'_, '_>, kv: KvDtype) -> ModelRead<()> {
        let CacheSource { fields, layers, options, .. } = *from;
        let width = fields.count("head_dim", "it is the width of the latent that is cached")?;
        let rope = fields.count("qk_rope_head_dim", "it is the part of the latent that is rotated")?;
        let index = fields.count("index_head_dim", "it is the width of the index key")?;
        let packed = matches!(kv, KvDtype::Fp8 | KvDtype::Fp8DsMla);
        let one = || latent_of_v4(width, rope, kv, copies(options));
        for (layer, ratio) in layers.ratios.iter().copied().enumerate() {
            self.push(layer, CacheReach::Window, one()?);
            if ratio <= 1 {
                continue;
            }
            self.push(layer, CacheReach::Every, one()?.one_of(ratio));
            if ratio == INDEXED_RATIO {
                let auto = if packed { IndexerDtype::Fp8 } else { IndexerDtype::Bf16 };
                let key = LayerEntry::index_key("index_head_dim", index, auto, options)?;
                self.push(layer, CacheReach::Every, key.one_of(ratio));
            }
        }
        if !packed {
            let mut served = Self { entries: Vec::new(), remarks: Vec::new() };
            served.compressed(from, KvDtype::Fp8DsMla)?;
            let bytes: u64 = served.lines(CacheReach::Every)?.iter().map(|line| line.bytes).sum();
            self.remarks.push(format!(
                "vLLM 0.33 and SGLang 0.5.23 pack the latents and index keys of this model in FP8 unless configured otherwise: {bytes} \
                 bytes per token with --kv-dtype fp8_ds_mla"
            ));
        }
        self.remarks.push(
            "tokens that wait to be compressed are kept in float32 for each sequence, and are not counted"
                .to_owned(),
        );
        Ok(())
    }
}

/// The latent of DeepSeek-V4: in FP8 its rotary part is in 16 bit, and 64 elements share a byte of scale.
fn latent_of_v4(width: u64, rope: u64, kv: KvDtype, copies: u64) -> ModelRead<LayerEntry> {
    let trailing = match kv {
        KvDtype::Fp8 | KvDtype::Fp8DsMla => {
            let plain = width.checked_sub(rope).ok_or_else(|| ModelConfigError::Unexpected {
                field: "qk_rope_head_dim".to_owned(),
                found: rope.to_string(),
                expected: format!("at most the {width} of `head_dim`"),
            })?;
            let scales = (plain.div_ceil(64) + 1).next_multiple_of(8);
            vec![group(
                "(head_dim + qk_rope_head_dim + scales)",
                format!("({width} + {rope} + {scales})"),
                width + rope + scales,
            )]
        }
        KvDtype::Bf16 | KvDtype::Fp16 => vec![factor("head_dim", width), factor("b", 2)],
        _ => {
            let reason = "its latents are cached in 16 bit or packed: give bf16 or fp8_ds_mla".to_owned();
            return Err(ModelConfigError::KvDtype { kv_dtype: kv.name(), reason });
        }
    };
    Ok(LayerEntry { part: "latent", heads: None, leading: Vec::new(), trailing, copies })
}

/// What caches of layers are read from.
struct CacheSource<'a, 'b> {
    family: &'a Family,
    fields: &'a ConfigFields<'b>,
    layers: &'a Layers,
    options: &'a CostOptions,
}

impl CacheSource<'_, '_> {
    /// The KV heads of a layer that are stored over all ranks, and the name of the factor: where there are more
    /// ranks than heads, each rank has one.
    fn stored(&self, layer: usize, names: &HeadNames) -> ModelRead<StoredHeads> {
        let (field, count) = self.count(layer, names)?;
        let ranks = u64::from(self.options.tensor_parallel.get());
        match (count >= ranks, count.max(ranks) % count.min(ranks)) {
            (_, 1..) => Err(ModelConfigError::TensorParallel {
                tensor_parallel: self.options.tensor_parallel.get(),
                field: self.fields.path_of(field),
                count,
            }),
            (true, 0) => Ok(StoredHeads { name: field.to_owned(), stored: count, copies: 1 }),
            (false, 0) => {
                let name = format!("max({field}, tp)");
                Ok(StoredHeads { name, stored: ranks, copies: ranks / count })
            }
        }
    }

    /// The KV heads of a layer.
    fn count(&self, layer: usize, names: &HeadNames) -> ModelRead<(&'static str, u64)> {
        if let Some((field, heads)) = &self.layers.heads {
            return Ok((field, heads[layer]));
        }
        if let Some((flag, absent)) = self.family.multi_query
            && self.fields.flag(flag)?.unwrap_or(absent)
            && self.fields.flag("new_decoder_architecture")? != Some(true)
        {
            return Ok((flag, 1));
        }
        let closed = match names.gate {
            Some(flag) => self.fields.flag(flag)? != Some(true),
            None => false,
        };
        if let Some(found) = layer_count(self.fields, layer, &names.heads[usize::from(closed)..])? {
            return Ok(found);
        }
        let heads = self.query_heads("without num_key_value_heads it counts the KV heads")?;
        Ok(("num_attention_heads", heads))
    }

    fn query_heads(&self, needed_for: &'static str) -> ModelRead<u64> {
        self.fields.count("num_attention_heads", needed_for)
    }

    /// Whether no field counts KV heads.
    fn are_query_heads(&self, names: &HeadNames) -> ModelRead<bool> {
        let layers = self.layers.of_kind(LayerKind::Full);
        let Some(layer) = layers.first().or(self.layers.of_kind(LayerKind::Windowed).first()).copied() else {
            return Ok(false);
        };
        Ok(self.count(layer, names)?.0 == "num_attention_heads")
    }

    /// Elements of one head's key.
    fn key(&self, layer: usize, names: &HeadNames) -> ModelRead<Factor> {
        if let Some((name, dim)) = layer_count(self.fields, layer, names.key)? {
            return Ok(factor(name, dim));
        }
        if !names.derived {
            let needed_for = "it is the width of a cached key, which differs from hidden_size / heads here";
            return Err(self.fields.missing(names.key[0], needed_for));
        }
        let needed_for = "without head_dim it gives the width of a key";
        let hidden = self.fields.count("hidden_size", needed_for)?;
        let heads = self.query_heads(needed_for)?;
        if !hidden.is_multiple_of(heads) {
            let expected = format!("a multiple of the {heads} of `num_attention_heads`, or head_dim given");
            return Err(self.fields.inconsistent("hidden_size", hidden.to_string(), expected));
        }
        Ok(group("(hidden_size / num_attention_heads)", format!("({hidden} / {heads})"), hidden / heads))
    }

    /// Elements of one head's value; `None` where it is as wide as the key.
    fn value(&self, layer: usize, names: &HeadNames) -> ModelRead<Option<Factor>> {
        Ok(layer_count(self.fields, layer, names.value)?.map(|(name, dim)| factor(name, dim)))
    }

    /// Elements of a latent, and of its rotary part.
    fn latent_widths(&self) -> ModelRead<(u64, u64)> {
        let rank = self.fields.count("kv_lora_rank", LATENT_WIDTH)?;
        let rope =
            self.fields.count("qk_rope_head_dim", "it is the part of a key that MLA caches as it is")?;
        Ok((rank, rope))
    }
}

/// Which layers own an indexer.
fn indexer_owners(fields: &ConfigFields<'_>, layers: usize) -> ModelRead<Vec<bool>> {
    if let Some(types) = fields.layer_list("indexer_types", layers as u64)? {
        let owns = |kind: &serde_json::Value| match kind.as_str() {
            Some("full") => Ok(true),
            Some("shared") => Ok(false),
            _ => Err(fields.unexpected("indexer_types", kind, "full or shared")),
        };
        return types.iter().map(owns).collect();
    }
    if let Some(pattern) = fields.text("index_topk_pattern")? {
        return Ok((0..layers).map(|layer| pattern.as_bytes().get(layer) != Some(&b'S')).collect());
    }
    let every = fields.optional_count("index_topk_freq")?.unwrap_or(1);
    // Layers up to the offset own one, then every n-th does.
    let offset = fields.optional("index_skip_topk_offset")?.unwrap_or(2);
    Ok((0..layers as u64).map(|layer| (layer + 1).saturating_sub(offset).is_multiple_of(every)).collect())
}
