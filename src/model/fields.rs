//! The fields of a `config.json`, read with their types and limits checked.

use super::error::ModelError;
use serde_json::{Map, Value};

/// Largest count any field may hold; it keeps implausible numbers out of the formulas.
const MAX_COUNT: u64 = 1 << 31;

/// Most layers a model may have.
pub(super) const MAX_LAYERS: u64 = 10_000;

/// Parses the text of a config.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, ModelError> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(ModelError::NotAnObject { reason: format!("it is {}", describe(&other)) }),
        Err(error) => Err(ModelError::NotAnObject { reason: error.to_string() }),
    }
}

/// One level of a config, and the levels around it.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    root: &'a Map<String, Value>,
    /// Where this level is, as a prefix of its fields' names (`text_config.`).
    path: String,
    /// What the architecture takes for counts that are absent.
    defaults: &'static [(&'static str, u64)],
}

impl<'a> Fields<'a> {
    pub(super) fn root(root: &'a Map<String, Value>) -> Self {
        Self { map: root, root, path: String::new(), defaults: &[] }
    }

    /// The same level with the architecture's own defaults for absent counts.
    pub(super) fn with_defaults(self, defaults: &'static [(&'static str, u64)]) -> Self {
        Self { defaults, ..self }
    }

    /// A remark for each default that stands for an absent count.
    pub(super) fn defaults_taken(&self) -> Vec<String> {
        let absent = self.defaults.iter().filter(|(name, _)| !self.map.contains_key(*name));
        absent
            .map(|(name, value)| {
                format!("`{name}` is absent: the architecture's own default {value} is taken")
            })
            .collect()
    }

    /// The level inside this one called `name`, if there is one.
    pub(super) fn nested(&self, name: &str) -> Result<Option<Self>, ModelError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                Ok(Some(Self { map, root: self.root, path: format!("{}{name}.", self.path), defaults: &[] }))
            }
            Some(other) => Err(self.unexpected(name, other, "an object")),
        }
    }

    /// The field's value; `None` where it is absent or null.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// The field's full name.
    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// A positive count.
    pub(super) fn count(&self, name: &str, needed_for: &'static str) -> Result<u64, ModelError> {
        let missing = || ModelError::Missing { field: self.path_of(name), needed_for };
        self.optional_count(name)?.ok_or_else(missing)
    }

    /// A positive count that may be absent (the architecture's default stands for it) or null.
    pub(super) fn optional_count(&self, name: &str) -> Result<Option<u64>, ModelError> {
        match self.map.get(name) {
            None => Ok(self.defaults.iter().find(|(absent, _)| *absent == name).map(|(_, value)| *value)),
            Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().filter(|count| (1..=MAX_COUNT).contains(count)) {
                Some(count) => Ok(Some(count)),
                None => Err(self.unexpected(name, value, "a whole number from 1 to 2147483648")),
            },
        }
    }

    /// A count that may be absent, null or zero, all of which mean none.
    pub(super) fn optional(&self, name: &str) -> Result<Option<u64>, ModelError> {
        match self.value(name).and_then(Value::as_u64) {
            Some(0) => Ok(None),
            _ => self.optional_count(name),
        }
    }

    /// The number of layers, limited.
    pub(super) fn layer_count(&self, name: &str) -> Result<u64, ModelError> {
        let count = self.count(name, "it counts the layers that may own a cache")?;
        if count > MAX_LAYERS {
            let expected = format!("at most {MAX_LAYERS} layers");
            return Err(self.inconsistent(name, count.to_string(), expected));
        }
        Ok(count)
    }

    /// A truth value; `None` where it is absent.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, ModelError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.unexpected(name, other, "true or false")),
        }
    }

    /// A text; `None` where it is absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, ModelError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.unexpected(name, other, "a text")),
        }
    }

    /// A list with one entry a layer; `None` where it is absent or, as some configs have it, empty.
    pub(super) fn layer_list(&self, name: &str, layers: u64) -> Result<Option<&'a [Value]>, ModelError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(list)) if list.is_empty() => Ok(None),
            Some(Value::Array(list)) if list.len() as u64 == layers => Ok(Some(list)),
            Some(other) => {
                Err(self.unexpected(name, other, &format!("a list of {layers} entries, one a layer")))
            }
        }
    }

    /// The type KV elements have unless configured, which multimodal configs keep at either level.
    pub(super) fn dtype(&self) -> Result<Option<&'a str>, ModelError> {
        let root = Self::root(self.root);
        for level in [self, &root] {
            for name in ["torch_dtype", "dtype"] {
                if let Some(text) = level.text(name)? {
                    return Ok(Some(text));
                }
            }
        }
        Ok(None)
    }

    /// Whether the checkpoint says that its KV cache is to be quantized.
    pub(super) fn declares_quantized_cache(&self) -> bool {
        let scheme = |map: &Map<String, Value>| {
            let quantization = map.get("quantization_config").and_then(Value::as_object);
            ["kv_cache_scheme", "kv_cache_quant_algo"]
                .iter()
                .any(|name| quantization.and_then(|q| q.get(*name)).is_some_and(|value| !value.is_null()))
        };
        scheme(self.map) || scheme(self.root)
    }

    /// The error for a field of the wrong kind. Values are described, not repeated at length.
    pub(super) fn unexpected(&self, name: &str, found: &Value, expected: &str) -> ModelError {
        self.inconsistent(name, describe(found), expected)
    }

    /// The error for a field that contradicts the rest.
    pub(super) fn inconsistent(&self, name: &str, found: String, expected: impl Into<String>) -> ModelError {
        ModelError::Unexpected { field: self.path_of(name), found, expected: expected.into() }
    }
}

/// A value in a few words.
fn describe(value: &Value) -> String {
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
