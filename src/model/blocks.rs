//! `block_configs`: what each layer is in models whose layers were searched for (Nemotron-NAS, Puzzle).

use super::error::ModelRead;
use super::fields::{ConfigFields, whole};
use super::kind::{LayerKind, ListedHeads};
use serde_json::{Map, Value};

const FIELD: &str = "block_configs";

/// What each layer that the field lists keeps, and the heads of each where it says some.
type ListedBlocks = (Vec<LayerKind>, Option<ListedHeads>);

/// Reads the field; `None` if it is absent or empty.
pub(super) fn of(fields: &ConfigFields<'_>, count: u64) -> ModelRead<Option<ListedBlocks>> {
    let Some(list) = fields.layer_list(FIELD, count)? else { return Ok(None) };
    let (mut kinds, mut heads) = (Vec::new(), Vec::new());
    for block in list {
        let block = block.as_object().ok_or_else(|| fields.unexpected(FIELD, block, "a list of objects"))?;
        kinds.push(kind(fields, block)?);
        heads.push(kv_heads(fields, block)?);
    }
    if heads.iter().all(Option::is_none) {
        return Ok(Some((kinds, None)));
    }
    // A layer without attention has no heads, and none of it is counted.
    let usual = |kind: &LayerKind, heads: Option<u64>| match (heads, kind) {
        (Some(heads), _) => Ok(heads),
        (None, LayerKind::Nothing | LayerKind::State) => Ok(1),
        (None, _) => fields.count("num_key_value_heads", "a block with attention says no heads of its own"),
    };
    let heads = kinds.iter().zip(heads).map(|(kind, heads)| usual(kind, heads));
    let heads = heads.collect::<Result<_, _>>()?;
    Ok(Some((kinds, Some(("KV heads of `block_configs`", heads)))))
}

/// What a block keeps.
fn kind(fields: &ConfigFields<'_>, block: &Map<String, Value>) -> ModelRead<LayerKind> {
    if let Some(word) = block.get("block_type").filter(|word| !word.is_null()) {
        let kind = word.as_str().and_then(LayerKind::of_word);
        return kind.ok_or_else(|| {
            fields.unexpected(FIELD, word, "blocks whose `block_type` is attention, mamba, moe or mlp")
        });
    }
    let Some(attention) = block.get("attention").and_then(Value::as_object) else {
        let found = "a list with a block without `attention`".to_owned();
        return Err(fields.inconsistent(FIELD, found, "blocks that say what attention they have"));
    };
    let set = |name: &str| attention.get(name).and_then(Value::as_bool) == Some(true);
    let given = |name: &str| attention.get(name).is_some_and(|value| !value.is_null());
    if set("no_op") || set("replace_with_linear") {
        return Ok(LayerKind::Nothing);
    }
    if let Some(name) =
        ["window_length", "num_sink_tokens", "sparsify", "mamba"].into_iter().find(|name| given(name))
    {
        let found = format!("a list with a block that has `{name}`");
        return Err(fields.inconsistent(FIELD, found, "blocks with whole attention, or none"));
    }
    Ok(LayerKind::Full)
}

/// The KV heads of a block that says them.
fn kv_heads(fields: &ConfigFields<'_>, block: &Map<String, Value>) -> ModelRead<Option<u64>> {
    let attention = block.get("attention").and_then(Value::as_object);
    let find = |name: &str| {
        let own = attention.and_then(|attention| attention.get(name));
        own.or(block.get(name)).filter(|value| !value.is_null())
    };
    let count = |value: &Value, expected: &str| {
        let count = whole(value).filter(|count| (1..=1 << 20).contains(count));
        count.ok_or_else(|| fields.unexpected(FIELD, value, expected))
    };
    if let Some(value) = find("num_key_value_heads") {
        return count(value, "blocks whose `num_key_value_heads` is a whole number").map(Some);
    }
    let Some(value) = find("n_heads_in_group") else { return Ok(None) };
    let in_group = count(value, "blocks whose `n_heads_in_group` is a whole number")?;
    let heads = fields.count("num_attention_heads", "a block says how many of them share a KV head")?;
    if !heads.is_multiple_of(in_group) {
        let found = format!("a list with `n_heads_in_group` {in_group}");
        return Err(fields.inconsistent(FIELD, found, format!("a divisor of the {heads} query heads")));
    }
    Ok(Some(heads / in_group))
}
