//! Which layer keeps what.

use super::blocks;
use super::error::ModelRead;
use super::families::{Family, LayerLayout};
use super::fields::{ConfigFields, whole};
use super::kind::{LayerKind, ListedHeads, WORDS};
use serde_json::Value;

/// The layers of a model.
#[derive(Debug)]
pub(super) struct Layers {
    kinds: Vec<LayerKind>,
    /// The field that says how many tokens windowed layers keep, and what it says.
    pub window: Option<(&'static str, u64)>,
    /// KV heads by layer, and the field that lists them, where each layer has its own.
    pub heads: Option<ListedHeads>,
    /// By layer, the tokens that one compressed entry stands for; empty for other models.
    pub ratios: Vec<u64>,
    /// The kinds of those that predict further tokens, where the config lists them.
    pub predicting: Vec<LayerKind>,
}

impl Layers {
    pub(super) fn of(family: &Family, fields: &ConfigFields<'_>) -> ModelRead<Self> {
        let count = fields.layer_count()?;
        let blocks = blocks::of(fields, count)?;
        let mut ratios = Vec::new();
        let (mut kinds, heads) = match blocks {
            Some(blocks) => blocks,
            None => (kinds(family, fields, count, &mut ratios)?, listed_heads(fields, count)?),
        };
        let shared = fields.optional("num_kv_shared_layers")?.unwrap_or(0);
        if shared >= count {
            return Err(fields.inconsistent(
                "num_kv_shared_layers",
                shared.to_string(),
                format!("less than the {count} of `num_hidden_layers`"),
            ));
        }
        let owning = kinds.len() - shared as usize;
        kinds[owning..].fill(LayerKind::Nothing);
        if let Some(layers) = layers_a_cache(fields)? {
            let readers =
                kinds.iter_mut().enumerate().filter(|(layer, _)| !(*layer as u64).is_multiple_of(layers));
            readers.for_each(|(_, kind)| *kind = LayerKind::Nothing);
        }
        let has_window = kinds.contains(&LayerKind::Windowed) || !ratios.is_empty();
        let window = if has_window { Some(window(family, fields)?) } else { None };
        let predicting = predicting(fields, count);
        let mut layers = Self { kinds, window, heads, ratios, predicting };
        layers.widen(fields)?;
        Ok(layers)
    }

    /// A window that holds the longest sequence keeps every token.
    fn widen(&mut self, fields: &ConfigFields<'_>) -> ModelRead<()> {
        let longest = fields.value("max_position_embeddings").and_then(whole);
        if self.window.zip(longest).is_some_and(|((_, tokens), longest)| tokens >= longest) {
            self.kinds
                .iter_mut()
                .filter(|kind| **kind == LayerKind::Windowed)
                .for_each(|kind| *kind = LayerKind::Full);
            self.window = None;
        }
        Ok(())
    }

    /// Layers, those that keep nothing too.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The numbers of the layers that keep this.
    pub(super) fn of_kind(&self, kind: LayerKind) -> Vec<usize> {
        (0..self.kinds.len()).filter(|layer| self.kinds[*layer].keeps(kind)).collect()
    }
}

/// Layers in a row that read the cache of the first of them (cross-layer attention); none where each has its own.
pub(super) fn layers_a_cache(fields: &ConfigFields<'_>) -> ModelRead<Option<u64>> {
    let shares = fields.flag("use_cla")? == Some(true);
    let layers = if shares { fields.optional_count("cla_share_factor")? } else { None };
    Ok(layers.filter(|layers| *layers > 1))
}

/// The kinds of the layers, by the config's list or by the rule; `ratios` is filled where layers compress.
fn kinds(
    family: &Family,
    fields: &ConfigFields<'_>,
    count: u64,
    ratios: &mut Vec<u64>,
) -> ModelRead<Vec<LayerKind>> {
    match family.layout {
        LayerLayout::Ratios => {
            *ratios = compress_ratios(fields, count)?;
            let kind = |ratio: &u64| if *ratio > 1 { LayerKind::Full } else { LayerKind::Windowed };
            Ok(ratios.iter().map(kind).collect())
        }
        LayerLayout::Twice => Ok(vec![LayerKind::Full; 2 * count as usize]),
        // Each of these layers has both, whatever its kind is called.
        LayerLayout::Both => Ok(vec![LayerKind::FullAndState; count as usize]),
        _ => match listed(fields, count)? {
            Some(kinds) => Ok(kinds),
            None => laid_out(family, fields, count),
        },
    }
}

/// The kinds that the config lists by name.
fn listed(fields: &ConfigFields<'_>, count: u64) -> ModelRead<Option<Vec<LayerKind>>> {
    for name in ["layer_types", "layers_block_type"] {
        let Some(list) = fields.layer_list(name, count)? else { continue };
        let kind = |value: &Value| {
            let kind = value.as_str().and_then(LayerKind::of_word);
            kind.ok_or_else(|| fields.unexpected(name, value, WORDS))
        };
        return list.iter().map(kind).collect::<Result<_, _>>().map(Some);
    }
    Ok(None)
}

/// The kinds of the layers that predict further tokens: listed by themselves, or behind the others.
fn predicting(fields: &ConfigFields<'_>, count: u64) -> Vec<LayerKind> {
    let list = |name| fields.value(name).and_then(Value::as_array).map(Vec::as_slice);
    let behind = || list("layer_types")?.get(count as usize..);
    let listed = list("mtp_layer_types").or_else(behind).unwrap_or_default();
    let kind = |value: &Value| value.as_str().and_then(LayerKind::of_word);
    listed.iter().map(kind).collect::<Option<_>>().unwrap_or_default()
}

/// The kinds that follow from the family's rule.
fn laid_out(family: &Family, fields: &ConfigFields<'_>, count: u64) -> ModelRead<Vec<LayerKind>> {
    let layout = family.layout;
    let knows_windows = !matches!(layout, LayerLayout::AllFull);
    let windowed = knows_windows
        && fields.optional("sliding_window")?.is_some()
        && fields.flag("use_sliding_window")? != Some(false);
    let by = |full: &dyn Fn(u64) -> bool, other: LayerKind| {
        Ok((0..count).map(|layer| if full(layer) { LayerKind::Full } else { other }).collect())
    };
    let every = |n: u64| move |layer: u64| (layer + 1).is_multiple_of(n);
    match layout {
        LayerLayout::AllFull | LayerLayout::Both | LayerLayout::Twice | LayerLayout::Ratios => {
            by(&|_| true, LayerKind::Full)
        }
        LayerLayout::AllWindowed => by(&|_| !windowed, LayerKind::Windowed),
        LayerLayout::WindowedFromLayer => {
            let used = windowed && fields.flag("use_sliding_window")? == Some(true);
            let first = match used {
                true => fields.count("max_window_layers", "it is the first layer with a sliding window")?,
                false => count,
            };
            by(&|layer| layer < first, LayerKind::Windowed)
        }
        LayerLayout::FullEvery(_) | LayerLayout::FullEveryAndLast(_) | LayerLayout::FullFirstOf(_)
            if !windowed =>
        {
            by(&|_| true, LayerKind::Full)
        }
        LayerLayout::FullEvery(n) => match pattern(fields, n)? {
            Pattern::Every(n) => by(&every(n), LayerKind::Windowed),
            Pattern::Letters(letters) => {
                let letter = |layer: u64| letters[layer as usize % letters.len()];
                by(&|layer| letter(layer) != b'L' || layer + 1 == count, LayerKind::Windowed)
            }
        },
        LayerLayout::FullEveryAndLast(n) => {
            by(&|layer| every(n)(layer) || layer + 1 == count, LayerKind::Windowed)
        }
        LayerLayout::FullFirstOf(n) => by(&|layer| layer.is_multiple_of(n), LayerKind::Windowed),
        LayerLayout::FullEveryElseChunked(n) => chunked(fields, count, n),
        LayerLayout::WindowFlags(field) => by_flags(fields, field, count, |set| set, LayerKind::Windowed),
        LayerLayout::FullFlags(field) => by_flags(fields, field, count, |set| !set, LayerKind::State),
        LayerLayout::FullEveryElseState(n) => {
            let n = fields.optional_count("full_attention_interval")?.unwrap_or(n);
            by(&every(n), LayerKind::State)
        }
        LayerLayout::Letters(field) => letters(fields, field, count),
        LayerLayout::Period { period, offset } => {
            let needed_for = "it says which layers have attention and which a state";
            let period = fields.count(period, needed_for)?;
            let offset = fields
                .value(offset)
                .and_then(whole)
                .map_or_else(|| fields.optional_count(offset).map(Option::unwrap_or_default), Ok)?;
            by(&|layer| layer % period == offset, LayerKind::State)
        }
        LayerLayout::StateBut(field) => by_places(fields, field, count, 0, false),
        LayerLayout::StateButOrFull(field) => by_places(fields, field, count, 0, true),
        LayerLayout::StateButFromOne(field) if fields.value(field).is_none() => {
            let needed_for =
                "it says which layers have attention and which a state; `layer_types` says it too";
            Err(fields.missing(field, needed_for))
        }
        LayerLayout::StateButFromOne(field) => by_places(fields, field, count, 1, false),
        LayerLayout::LastOfGroups => {
            let needed_for = "it says how many layers share one with attention";
            let group = fields.count("layer_group_size", needed_for)?;
            let whole = count / group * group;
            by(&|layer| every(group)(layer) || layer >= whole, LayerKind::State)
        }
        // Without a list and a window there is one kind of layers, but where some keep a state.
        LayerLayout::Listed if !windowed && family.recurrence.is_none() => by(&|_| true, LayerKind::Full),
        LayerLayout::Listed => Err(fields.missing("layer_types", "it says what each layer keeps")),
    }
}

/// How a config says which layers are windowed.
enum Pattern<'a> {
    /// The last of every so many is full.
    Every(u64),
    /// `L` is windowed, other letters are full.
    Letters(&'a [u8]),
}

/// The pattern in the config, under one of its names; the class's own otherwise.
fn pattern<'a>(fields: &ConfigFields<'a>, n: u64) -> ModelRead<Pattern<'a>> {
    for name in
        ["sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers", "layer_switch"]
    {
        match fields.value(name) {
            None => {}
            Some(Value::String(letters)) if !letters.is_empty() => {
                return Ok(Pattern::Letters(letters.as_bytes()));
            }
            Some(_) => return Ok(Pattern::Every(fields.optional_count(name)?.unwrap_or(n))),
        }
    }
    Ok(Pattern::Every(n))
}

/// Layers without rotation are full, the others attend within chunks, where there are any.
fn chunked(fields: &ConfigFields<'_>, count: u64, n: u64) -> ModelRead<Vec<LayerKind>> {
    if fields.is_null("attention_chunk_size") {
        return Ok(vec![LayerKind::Full; count as usize]);
    }
    if fields.layer_list("no_rope_layers", count)?.is_some() {
        return by_flags(fields, "no_rope_layers", count, |set| set, LayerKind::Windowed);
    }
    let n = fields.optional_count("no_rope_layer_interval")?.unwrap_or(n);
    Ok((1..=count)
        .map(|layer| if layer.is_multiple_of(n) { LayerKind::Full } else { LayerKind::Windowed })
        .collect())
}

/// Layers by a list of 0 and 1.
fn by_flags(
    fields: &ConfigFields<'_>,
    field: &'static str,
    count: u64,
    is_other: fn(bool) -> bool,
    other: LayerKind,
) -> ModelRead<Vec<LayerKind>> {
    let needed_for = "it says what each layer keeps; `layer_types` says it too";
    let list = fields.layer_list(field, count)?.ok_or_else(|| fields.missing(field, needed_for))?;
    let kind = |value: &Value| match whole(value).or(value.as_bool().map(u64::from)) {
        Some(flag @ (0 | 1)) => Ok(if is_other(flag == 1) { other } else { LayerKind::Full }),
        _ => Err(fields.unexpected(field, value, "a list of 0 and 1")),
    };
    list.iter().map(kind).collect()
}

/// Layers by a list of those with attention, counted from `first`; the others keep a state. Where there is no such
/// list none has attention, or each has.
fn by_places(
    fields: &ConfigFields<'_>,
    field: &'static str,
    count: u64,
    first: u64,
    or_full: bool,
) -> ModelRead<Vec<LayerKind>> {
    let other = |full: bool| if full { LayerKind::Full } else { LayerKind::State };
    let Some(list) = fields.list(field)? else { return Ok(vec![other(or_full); count as usize]) };
    let mut kinds = vec![LayerKind::State; count as usize];
    for value in list {
        let layer = whole(value).and_then(|layer| layer.checked_sub(first)).filter(|layer| *layer < count);
        let expected = || format!("a list of layers from {first} to {}", count - 1 + first);
        let layer = layer.ok_or_else(|| fields.unexpected(field, value, &expected()))?;
        kinds[layer as usize] = LayerKind::Full;
    }
    Ok(kinds)
}

/// The kinds that a text of letters spells.
fn letters(fields: &ConfigFields<'_>, field: &'static str, count: u64) -> ModelRead<Vec<LayerKind>> {
    let needed_for = "it says which layers have attention and which a state";
    let pattern = fields.text(field)?.ok_or_else(|| fields.missing(field, needed_for))?;
    let kind = |letter| match letter {
        '*' => Some(LayerKind::Full),
        'M' => Some(LayerKind::State),
        '-' | 'E' => Some(LayerKind::Nothing),
        _ => None,
    };
    let kinds: Option<Vec<LayerKind>> = pattern.chars().map(kind).collect();
    kinds.filter(|kinds| kinds.len() as u64 == count).ok_or_else(|| {
        let found = format!("a text of {} letters", pattern.chars().count());
        fields.inconsistent(field, found, format!("{count} letters out of M, *, - and E, one per layer"))
    })
}

/// The ratios by which layers compress, 0 for those with a window only: a list of them, or a list of kinds and a
/// ratio for each kind.
fn compress_ratios(fields: &ConfigFields<'_>, count: u64) -> ModelRead<Vec<u64>> {
    const FIELD: &str = "compress_ratios";
    let needed_for = "it says how many tokens one entry of each layer stands for";
    let missing = || fields.missing(FIELD, needed_for);
    let ratio = |value: &Value| {
        let ratio = whole(value).filter(|ratio| *ratio <= 1 << 20);
        ratio.ok_or_else(|| fields.unexpected(FIELD, value, "a list of whole numbers"))
    };
    if let Some(list) = fields.layer_list(FIELD, count)? {
        return list.iter().map(ratio).collect();
    }
    let rates = fields.value("compress_rates").and_then(Value::as_object).ok_or_else(missing)?;
    let kinds = fields.layer_list("layer_types", count)?.ok_or_else(missing)?;
    let of_kind = |kind: &Value| {
        let word = kind.as_str().ok_or_else(|| fields.unexpected("layer_types", kind, "a list of texts"))?;
        rates.get(word).map_or(Ok(0), ratio)
    };
    kinds.iter().map(of_kind).collect()
}

/// KV heads by layer, where a list has them.
fn listed_heads(fields: &ConfigFields<'_>, count: u64) -> ModelRead<Option<ListedHeads>> {
    for name in ["num_key_value_heads_per_layer", "num_key_value_heads", "num_kv_heads"] {
        if !fields.value(name).is_some_and(Value::is_array) {
            continue;
        }
        // An empty list is no list, and no count either, which is what is said of it below.
        let Some(list) = fields.layer_list(name, count)? else { break };
        let heads = |value: &Value| {
            let heads = whole(value).filter(|heads| (1..=1 << 20).contains(heads));
            heads.ok_or_else(|| fields.unexpected(name, value, "a list of whole numbers from 1"))
        };
        return Ok(Some((name, list.iter().map(heads).collect::<Result<_, _>>()?)));
    }
    Ok(None)
}

/// How much windowed layers keep.
fn window(family: &Family, fields: &ConfigFields<'_>) -> ModelRead<(&'static str, u64)> {
    let name = match family.layout {
        LayerLayout::FullEveryElseChunked(_) => "attention_chunk_size",
        _ => "sliding_window",
    };
    let needed_for = "it says how many tokens windowed layers keep";
    let tokens = match fields.optional_count(name)? {
        Some(tokens) => Ok(tokens),
        None => fields.count("sliding_window_size", needed_for),
    };
    Ok((name, tokens.map_err(|_| fields.missing(name, needed_for))?))
}
