//! Messages made ready for a chat template, as inference servers do it.

use super::error::{TokenizeCode, TokenizeError};
use super::unrendered;
use minijinja::Value;
use minijinja::value::ValueKind;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;

/// A JSON object in the order it was written; of a repeated key the last value counts.
#[derive(Clone, Default)]
pub(super) struct Fields(pub Vec<(String, Value)>);

impl Fields {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Takes a field away.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }

    /// Sets a field in its place, or as the last one.
    pub fn set(&mut self, name: &str, value: Value) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                // Through a map, so that an object of many keys costs no search a key.
                let mut places = hashbrown::HashMap::<String, usize, foldhash::fast::RandomState>::default();
                let mut fields = Fields::default();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    match places.get(&key) {
                        Some(place) => fields.0[*place].1 = value,
                        None => {
                            places.insert(key.clone(), fields.0.len());
                            fields.0.push((key, value));
                        }
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// The names of what a model thought, the standard one first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Makes the message at `index` ready:
/// - fields that are `null` are dropped, as `transformers` does;
/// - the arguments of tool calls, JSON in a string, become an object, which templates expect;
/// - content of several text parts stays a list where the template takes one, else its texts are
///   joined by line ends, as vLLM does; other kinds of content are refused;
/// - reasoning is there under its standard name, and under `thinking`;
/// - fields that are part of a prompt and that no template is given are refused by their names.
pub(super) fn prepare(mut message: Fields, index: usize, takes_parts: bool) -> Result<Fields, TokenizeError> {
    message.0.retain(|(_, value)| !value.is_none());
    if message.get("role").is_none_or(|role| role.kind() != ValueKind::String) {
        return Err(refused(TokenizeCode::MissingField, index, "it has no role"));
    }
    for field in unrendered::MESSAGE_FIELDS {
        // `false` and what is empty say nothing; so does `null`, which is gone already.
        if message.get(field).is_some_and(Value::is_true) {
            return Err(unrendered::refused(&format!("messages[{index}].{field}")));
        }
    }
    if let Some(content) = message.get("content").cloned() {
        message.set("content", prepare_content(&content, index, takes_parts)?);
    }
    if let Some(calls) = message.get("tool_calls").cloned() {
        message.set("tool_calls", prepare_calls(&calls, index)?);
    }
    let reasoning = REASONING.iter().find_map(|name| message.get(name)).cloned();
    if let Some(reasoning) = reasoning {
        message.set("reasoning_content", reasoning.clone());
        if message.get("thinking").is_none() {
            message.set("thinking", reasoning);
        }
    }
    Ok(message)
}

fn refused(code: TokenizeCode, index: usize, what: &str) -> TokenizeError {
    TokenizeError::new(code, format!("message {index}: {what}"))
}

fn prepare_content(content: &Value, index: usize, takes_parts: bool) -> Result<Value, TokenizeError> {
    match content.kind() {
        ValueKind::String => Ok(content.clone()),
        ValueKind::Seq => {
            let parts = content.try_iter().into_iter().flatten().enumerate();
            let texts = parts.map(|(part, value)| text_of(&value, index, part));
            let texts: Vec<Value> = texts.collect::<Result<_, _>>()?;
            Ok(if takes_parts { texts.into_iter().map(text_part).collect() } else { joined(&texts) })
        }
        _ => {
            Err(refused(TokenizeCode::InvalidBody, index, "its content is neither text nor a list of parts"))
        }
    }
}

fn text_part(text: Value) -> Value {
    minijinja::context! { type => "text", text => text }
}

fn joined(texts: &[Value]) -> Value {
    let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
    Value::from(texts.join("\n"))
}

/// The text of a part; what is not text is refused.
fn text_of(part: &Value, index: usize, number: usize) -> Result<Value, TokenizeError> {
    if part.as_str().is_some() {
        return Ok(part.clone());
    }
    let field = |name: &str| part.get_attr(name).ok().filter(|value| value.as_str().is_some());
    let kind = field("type");
    let text = match kind.as_ref().and_then(Value::as_str) {
        Some("text" | "input_text" | "output_text") => field("text"),
        Some("refusal") => field("refusal"),
        Some(_) => {
            let what = format!("part {number} is not text; images, audio, video and files are not supported");
            return Err(refused(TokenizeCode::UnsupportedContent, index, &what));
        }
        None => None,
    };
    text.ok_or_else(|| {
        refused(
            TokenizeCode::MissingField,
            index,
            &format!("part {number} has no type, or not the text of it"),
        )
    })
}

fn prepare_calls(calls: &Value, index: usize) -> Result<Value, TokenizeError> {
    let wrong = || refused(TokenizeCode::InvalidBody, index, "its tool_calls are not a list of calls");
    if calls.kind() != ValueKind::Seq {
        return Err(wrong());
    }
    let calls = calls.try_iter().map_err(|_| wrong())?;
    calls.map(|call| prepare_call(&call, index)).collect()
}

fn prepare_call(call: &Value, index: usize) -> Result<Value, TokenizeError> {
    let function = call.get_attr("function").ok().filter(|function| function.kind() == ValueKind::Map);
    let Some(function) = function else { return Ok(call.clone()) };
    let arguments = function.get_attr("arguments").unwrap_or_default();
    let Some(text) = arguments.as_str() else { return Ok(call.clone()) };
    let parsed: Value = match text.trim().is_empty() {
        true => Value::from_pairs(std::iter::empty::<(String, Value)>()),
        false => serde_json::from_str(text).map_err(|_| {
            refused(TokenizeCode::InvalidBody, index, "the arguments of a tool call are not JSON")
        })?,
    };
    Ok(with(call, "function", with(&function, "arguments", parsed)))
}

/// A map with one value replaced in its place.
fn with(map: &Value, name: &str, value: Value) -> Value {
    let keys = map.try_iter().into_iter().flatten();
    Value::from_pairs(keys.map(|key| {
        let old =
            if key.as_str() == Some(name) { value.clone() } else { map.get_item(&key).unwrap_or_default() };
        (key, old)
    }))
}
