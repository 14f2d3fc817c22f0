//! Which layer caches what.

use super::error::ModelError;
use super::families::{Family, Layout};
use super::fields::Fields;

/// What one layer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Every token.
    Full,
    /// The last tokens of a sequence.
    Windowed,
    /// A state of constant size.
    State,
    /// Nothing: no attention, or another layer's cache is read.
    Nothing,
}

/// The layers of a model.
#[derive(Debug)]
pub(super) struct Layers {
    kinds: Vec<Kind>,
    /// The field that says how many tokens windowed layers keep, and what it says.
    pub window: Option<(&'static str, u64)>,
}

impl Layers {
    pub(super) fn of(family: Family, fields: &Fields<'_>) -> Result<Self, ModelError> {
        let count = fields.layer_count("num_hidden_layers")?;
        let mut kinds = match listed(fields, count)? {
            Some(kinds) => kinds,
            None => laid_out(family.layout, fields, count)?,
        };
        let shared = fields.optional("num_kv_shared_layers")?.unwrap_or(0);
        if shared >= count {
            return Err(fields.inconsistent(
                "num_kv_shared_layers",
                shared.to_string(),
                format!("less than the {count} of `num_hidden_layers`"),
            ));
        }
        kinds[(count - shared) as usize..].fill(Kind::Nothing);
        let window = if kinds.contains(&Kind::Windowed) { Some(window(family, fields)?) } else { None };
        Ok(Self { kinds, window })
    }

    /// Layers, those that keep nothing too.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The numbers of the layers of one kind.
    pub(super) fn of_kind(&self, kind: Kind) -> Vec<usize> {
        (0..self.kinds.len()).filter(|layer| self.kinds[*layer] == kind).collect()
    }
}

/// The kinds `layer_types` lists.
fn listed(fields: &Fields<'_>, count: u64) -> Result<Option<Vec<Kind>>, ModelError> {
    let Some(list) = fields.layer_list("layer_types", count)? else { return Ok(None) };
    let kind = |value: &serde_json::Value| match value.as_str() {
        Some("full_attention" | "attention" | "deepseek_sparse_attention") => Ok(Kind::Full),
        Some("sliding_attention" | "chunked_attention") => Ok(Kind::Windowed),
        Some("linear_attention" | "mamba") => Ok(Kind::State),
        _ => Err(fields.unexpected(
            "layer_types",
            value,
            "full_attention, sliding_attention, chunked_attention, linear_attention, mamba or attention",
        )),
    };
    list.iter().map(kind).collect::<Result<_, _>>().map(Some)
}

/// The kinds that follow from the architecture's rule.
fn laid_out(layout: Layout, fields: &Fields<'_>, count: u64) -> Result<Vec<Kind>, ModelError> {
    let every = |n: u64, other: Kind| {
        (1..=count).map(|layer| if layer.is_multiple_of(n) { Kind::Full } else { other }).collect()
    };
    let windowed = fields.optional_count("sliding_window")?.is_some();
    match layout {
        Layout::AllFull => Ok(vec![Kind::Full; count as usize]),
        Layout::AllWindowed => Ok(vec![if windowed { Kind::Windowed } else { Kind::Full }; count as usize]),
        Layout::WindowedFromLayer => {
            let used = windowed && fields.flag("use_sliding_window")?.unwrap_or(false);
            let first = match used {
                true => fields.count("max_window_layers", "it is the first layer with a sliding window")?,
                false => count,
            };
            Ok((0..count).map(|layer| if layer >= first { Kind::Windowed } else { Kind::Full }).collect())
        }
        Layout::FullEvery(n) if windowed => {
            Ok(every(fields.optional_count("sliding_window_pattern")?.unwrap_or(n), Kind::Windowed))
        }
        Layout::FullEvery(_) => Ok(vec![Kind::Full; count as usize]),
        Layout::FullEveryElseChunked(n) => Ok(every(n, Kind::Windowed)),
        Layout::FullEveryElseLinear => {
            let needed_for = "it says which layers attend to everything; `layer_types` says it too";
            Ok(every(fields.count("full_attention_interval", needed_for)?, Kind::State))
        }
        Layout::LetterPattern => letters(fields, count),
        Layout::Listed => Err(ModelError::Missing {
            field: fields.path_of("layer_types"),
            needed_for: "it says which layers have attention and which a state",
        }),
    }
}

/// The kinds a `hybrid_override_pattern` spells.
fn letters(fields: &Fields<'_>, count: u64) -> Result<Vec<Kind>, ModelError> {
    const FIELD: &str = "hybrid_override_pattern";
    let needed_for = "it says which layers have attention and which a state";
    let pattern = fields
        .text(FIELD)?
        .ok_or_else(|| ModelError::Missing { field: fields.path_of(FIELD), needed_for })?;
    let kind = |letter| match letter {
        '*' => Some(Kind::Full),
        'M' => Some(Kind::State),
        '-' | 'E' => Some(Kind::Nothing),
        _ => None,
    };
    let kinds: Option<Vec<Kind>> = pattern.chars().map(kind).collect();
    kinds.filter(|kinds| kinds.len() as u64 == count).ok_or_else(|| {
        let found = format!("a text of {} letters", pattern.chars().count());
        fields.inconsistent(FIELD, found, format!("{count} letters out of M, *, - and E, one a layer"))
    })
}

/// How much windowed layers keep.
fn window(family: Family, fields: &Fields<'_>) -> Result<(&'static str, u64), ModelError> {
    let name = match family.layout {
        Layout::FullEveryElseChunked(_) => "attention_chunk_size",
        _ => "sliding_window",
    };
    Ok((name, fields.count(name, "it says how many tokens windowed layers keep")?))
}
