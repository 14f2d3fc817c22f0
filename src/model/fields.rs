//! The fields of a `config.json`, read with their types and limits checked.

use super::error::{ModelConfigError, ModelRead};
use super::families::{Defaults, Family};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Largest count any field may hold; it keeps implausible numbers out of the formulas.
const MAX_COUNT: u64 = 1 << 31;

/// Most layers a model may have.
pub(super) const MAX_LAYERS: u64 = 10_000;

/// Fields that say how large a model is.
const SIZES: [&str; 18] = [
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "hidden_size",
    "n_embd",
    "d_model",
    "dim",
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_key_value_heads",
    "head_dim",
    "head_size",
    "layer_types",
    "layers_block_type",
    "block_configs",
    "hybrid_layer_pattern",
];

/// Lists with an entry per layer, which give the number of layers where nothing else does.
const LAYER_LISTS: [&str; 4] = ["layer_types", "layers_block_type", "block_configs", "hybrid_layer_pattern"];

/// Other names of usual fields: the usual one, and the one here.
pub(super) type FieldNames = &'static [(&'static str, &'static str)];

/// One level of a config, and the levels around it.
#[derive(Debug)]
pub(super) struct ConfigFields<'a> {
    map: &'a Map<String, Value>,
    root: &'a Map<String, Value>,
    /// Where this level is, as a prefix of its fields' names (`text_config.`).
    path: String,
    /// What the class takes for counts that are absent.
    defaults: Defaults,
    /// Names of the family's own for usual fields.
    names: FieldNames,
    /// Names that the form of the config has for usual fields.
    form: FieldNames,
    /// Defaults that stood for absent fields so far.
    taken: RefCell<BTreeMap<String, u64>>,
}

impl<'a> ConfigFields<'a> {
    pub(super) fn root(root: &'a Map<String, Value>) -> Self {
        Self::level(root, root, String::new())
    }

    fn level(map: &'a Map<String, Value>, root: &'a Map<String, Value>, path: String) -> Self {
        Self { map, root, path, defaults: &[], names: &[], form: &[], taken: RefCell::default() }
    }

    /// This level with a family's names and a class's defaults.
    pub(super) fn of_family(self, family: Family, defaults: Defaults) -> Self {
        Self { defaults, names: family.names, ..self }
    }

    /// This level in a form that has other names for usual fields.
    pub(super) fn of_form(self, form: FieldNames) -> Self {
        Self { form, ..self }
    }

    /// Whether this level has a member of that very name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// Whether this level says how large its model is.
    pub(super) fn says_sizes(&self) -> bool {
        let own = self.names.iter().map(|(_, own)| *own);
        SIZES.into_iter().chain(own).any(|name| self.at(name).is_some())
    }

    /// The object inside this level that says how large a model is, but for that of images and sounds.
    pub(super) fn sized_object(&self) -> Option<&'a str> {
        let is_of_media = |name: &str| ["vis", "audio", "image"].iter().any(|word| name.contains(word));
        let sized = |value: &Value| SIZES.iter().filter(|name| value.get(**name).is_some()).count() > 1;
        let found = self.map.iter().find(|(name, value)| !is_of_media(name) && sized(value));
        found.map(|(name, _)| name.as_str())
    }

    /// A remark for each default that stood for an absent field.
    pub(super) fn defaults_taken(&self) -> Vec<String> {
        let taken = self.taken.borrow();
        taken
            .iter()
            .map(|(name, value)| format!("`{name}` is absent: the class's own default {value} is taken"))
            .collect()
    }

    /// The level inside this one called `name`, if there is one.
    pub(super) fn nested(&self, name: &str) -> ModelRead<Option<Self>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                Ok(Some(Self::level(map, self.root, format!("{}{name}.", self.path))))
            }
            Some(other) => Err(self.unexpected(name, other, "an object")),
        }
    }

    /// The field's value, and the name it has here; `None` if it is absent or null.
    fn find(&self, name: &str) -> Option<(String, &'a Value)> {
        let names = self.form.iter().chain(self.names);
        let own = names.filter(|(usual, _)| *usual == name).map(|(_, own)| *own);
        own.chain([name]).find_map(|name| {
            let value = self.at(name).filter(|value| !value.is_null())?;
            Some((name.to_owned(), value))
        })
    }

    /// What is at a dotted path.
    fn at(&self, path: &str) -> Option<&'a Value> {
        let mut steps = path.split('.');
        let first = self.map.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.get(step))
    }

    /// The field's value; `None` if it is absent or null.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.find(name).map(|(_, value)| value)
    }

    /// Whether the field is there, with null as its value.
    pub(super) fn is_null(&self, name: &str) -> bool {
        self.at(name).is_some_and(Value::is_null)
    }

    /// The field's full name, as it is here or as the family has it.
    pub(super) fn path_of(&self, name: &str) -> String {
        let own = || self.names.iter().find(|(usual, _)| *usual == name).map(|(_, own)| (*own).to_owned());
        let name = self.find(name).map(|(name, _)| name).or_else(own).unwrap_or_else(|| name.to_owned());
        format!("{}{name}", self.path)
    }

    /// A positive count.
    pub(super) fn count(&self, name: &str, needed_for: &'static str) -> ModelRead<u64> {
        self.optional_count(name)?.ok_or_else(|| self.missing(name, needed_for))
    }

    /// A positive count that may be absent (the class's default stands for it) or null.
    pub(super) fn optional_count(&self, name: &str) -> ModelRead<Option<u64>> {
        match self.value(name) {
            Some(value) => match whole(value).filter(|count| (1..=MAX_COUNT).contains(count)) {
                Some(count) => Ok(Some(count)),
                None => Err(self.unexpected(name, value, "a whole number from 1 to 2147483648")),
            },
            None if self.is_null(name) => Ok(None),
            None => Ok(self.default_of(name)),
        }
    }

    /// The class's default for an absent field, which a remark then names.
    fn default_of(&self, name: &str) -> Option<u64> {
        let (_, value) = self.defaults.iter().find(|(absent, _)| *absent == name)?;
        self.taken.borrow_mut().insert(name.to_owned(), *value);
        Some(*value)
    }

    /// A count that may be absent, null, zero or -1, all of which mean none.
    pub(super) fn optional(&self, name: &str) -> ModelRead<Option<u64>> {
        match self.value(name) {
            Some(value) if whole(value) == Some(0) || value.as_i64() == Some(-1) => Ok(None),
            _ => self.optional_count(name),
        }
    }

    /// The number of layers, limited; that of a list with an entry per layer where no field counts them.
    pub(super) fn layer_count(&self) -> ModelRead<u64> {
        const FIELD: &str = "num_hidden_layers";
        let listed = LAYER_LISTS.iter().find_map(|name| self.value(name)?.as_array().map(Vec::len));
        let count = match (self.value(FIELD), listed.filter(|entries| *entries > 0)) {
            (None, Some(entries)) if !self.is_null(FIELD) => entries as u64,
            _ => self.count(FIELD, "it counts the layers that may own a cache")?,
        };
        if count > MAX_LAYERS {
            let expected = format!("at most {MAX_LAYERS} layers");
            return Err(self.inconsistent(FIELD, count.to_string(), expected));
        }
        Ok(count)
    }

    /// Whether this level itself counts its layers.
    pub(super) fn counts_layers(&self) -> bool {
        ["num_hidden_layers", "num_layers", "n_layer", "n_layers"].iter().any(|name| self.at(name).is_some())
    }

    /// A truth value; `None` if it is absent.
    pub(super) fn flag(&self, name: &str) -> ModelRead<Option<bool>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.unexpected(name, other, "true or false")),
        }
    }

    /// A text; `None` if it is absent.
    pub(super) fn text(&self, name: &str) -> ModelRead<Option<&'a str>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.unexpected(name, other, "a text")),
        }
    }

    /// A list; `None` if it is absent or, as some configs have it, empty.
    pub(super) fn list(&self, name: &str) -> ModelRead<Option<&'a [Value]>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(list)) if list.is_empty() => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(self.unexpected(name, other, "a list")),
        }
    }

    /// A list with one entry per layer, and after them, as some configs have it, those of multi-token prediction;
    /// `None` if it is absent or empty.
    pub(super) fn layer_list(&self, name: &str, layers: u64) -> ModelRead<Option<&'a [Value]>> {
        let expected = || format!("a list of {layers} entries, one per layer");
        let list = match self.value(name) {
            Some(Value::Array(_)) | None => self.list(name)?,
            Some(other) => return Err(self.unexpected(name, other, &expected())),
        };
        let Some(list) = list else { return Ok(None) };
        let predicting = self.optional("num_nextn_predict_layers")?.unwrap_or(0);
        match list.len() as u64 {
            entries if entries == layers || entries == layers.saturating_add(predicting) => {
                Ok(Some(&list[..layers as usize]))
            }
            _ => Err(self.inconsistent(name, format!("a list of {}", list.len()), expected())),
        }
    }

    /// What `per_layer_config` says of a field of one layer.
    pub(super) fn of_layer(&self, layer: usize, name: &str) -> Option<&'a Value> {
        let layers = self.map.get("per_layer_config")?;
        let of_layer = match layers {
            Value::Array(list) => list.get(layer),
            _ => layers.get(layer.to_string()),
        };
        of_layer?.get(name).filter(|value| !value.is_null())
    }

    /// The type that the weights have, which multimodal configs keep at either level.
    pub(super) fn dtype(&self) -> ModelRead<Option<(String, &'a str)>> {
        let root = Self::root(self.root);
        for level in [self, &root] {
            for name in ["torch_dtype", "dtype"] {
                if let Some(text) = level.text(name)? {
                    return Ok(Some((level.path_of(name), text)));
                }
            }
        }
        Ok(None)
    }

    /// The quantization that the root of the config declares.
    pub(super) fn quantization(&self) -> Option<&'a Map<String, Value>> {
        Self::quantization_of(self.root)
    }

    /// The quantization that this level declares.
    pub(super) fn own_quantization(&self) -> Option<&'a Map<String, Value>> {
        Self::quantization_of(self.map)
    }

    /// What the root, or this level, has as `quantization`: an object in TensorRT-LLM's checkpoints, a text in MLC's
    /// configs.
    pub(super) fn runtime_quantization(&self) -> Option<&'a Value> {
        [self.map, self.root].into_iter().find_map(|level| level.get("quantization"))
    }

    fn quantization_of(level: &'a Map<String, Value>) -> Option<&'a Map<String, Value>> {
        ["quantization_config", "compression_config"].iter().find_map(|name| level.get(*name)?.as_object())
    }

    /// The error for a field that is not there.
    pub(super) fn missing(&self, name: &str, needed_for: &'static str) -> ModelConfigError {
        ModelConfigError::Missing { field: self.path_of(name), needed_for }
    }

    /// The error for a field of the wrong kind. Values are described, not repeated at length.
    pub(super) fn unexpected(&self, name: &str, found: &Value, expected: &str) -> ModelConfigError {
        self.inconsistent(name, describe(found), expected)
    }

    /// The error for a field that contradicts the rest.
    pub(super) fn inconsistent(
        &self,
        name: &str,
        found: String,
        expected: impl Into<String>,
    ) -> ModelConfigError {
        ModelConfigError::Unexpected { field: self.path_of(name), found, expected: expected.into() }
    }
}

/// A whole number, also one that is written as a float (`8.0`).
pub(super) fn whole(value: &Value) -> Option<u64> {
    /// Above this not every whole number is a float.
    const EXACT: f64 = (1_u64 << 53) as f64;
    let of_float =
        |float: f64| (float.fract() == 0.0 && (0.0..EXACT).contains(&float)).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(of_float))
}

/// A value in a few words.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text `{}`", shorten(text)),
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// At most 60 characters of a text from outside, none of which can upset a terminal.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}
