//! Bodies of other APIs, made the chats that inference servers make of them.
//!
//! vLLM and SGLang answer Anthropic's Messages API and OpenAI's Responses API too, and turn their bodies into chats
//! for the model's template, each by its own [rules](super::rules), but that no text is left out where vLLM takes the
//! first part only. For a closed model, whose own rendering is not public, that is an approximation: equal prefixes
//! give equal pages, their number follows the tokenizer at hand.
//!
//! What no chat can hold is refused by the field's name.

pub(super) mod anthropic;
pub(super) mod langchain;
pub(super) mod responses;

use super::fields::ObjectFields;
use super::unrendered;
use kvset_core::request::refusal::DecodeError;
use minijinja::Value;
use minijinja::value::ValueKind;

/// A value of an object; nothing where it is absent or null.
pub(super) fn field(object: &Value, name: &str) -> Option<Value> {
    object.get_attr(name).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

/// The fields of an object as they are written.
pub(super) fn written(object: &Value) -> Vec<(String, Value)> {
    let keys = object.try_iter().into_iter().flatten();
    let fields = keys.filter_map(|key| Some((key.as_str()?.to_owned(), object.get_item(&key).ok()?)));
    fields.collect()
}

/// A text of an object.
fn text(object: &Value, name: &str) -> Option<String> {
    field(object, name)?.as_str().map(str::to_owned)
}

/// What an object says it is; one that holds nothing but a text, as those of Bedrock's Converse do, is one.
pub(super) fn kind(object: &Value) -> String {
    let is_bare = || object.len() == Some(1) && text(object, "text").is_some();
    text(object, "type").unwrap_or_else(|| if is_bare() { "text".to_owned() } else { String::new() })
}

/// The items of a list.
fn items(list: &Value) -> Vec<Value> {
    match list.kind() {
        ValueKind::Seq => list.try_iter().into_iter().flatten().collect(),
        _ => Vec::new(),
    }
}

/// A message of this role.
fn message(role: &str, content: Option<Value>) -> ObjectFields {
    let mut message = ObjectFields(vec![("role".to_owned(), Value::from(role))]);
    message.0.extend(content.map(|content| ("content".to_owned(), content)));
    message
}

/// A part that is text.
fn text_part(text: &str) -> Value {
    minijinja::context! { type => "text", text => text }
}

/// One text as a text, several as parts.
fn content_of(mut parts: Vec<Value>) -> Value {
    match parts.len() {
        0 => Value::from(""),
        1 => match text(&parts[0], "text").filter(|_| kind(&parts[0]) == "text") {
            Some(text) => Value::from(text),
            None => Value::from(std::mem::take(&mut parts)),
        },
        _ => Value::from(parts),
    }
}

/// A call of a function, its arguments as JSON in a string or as an object.
fn call(id: Option<Value>, name: Value, arguments: Value) -> Value {
    minijinja::context! {
        id => id,
        type => "function",
        function => minijinja::context! { name => name, arguments => arguments },
    }
}

fn unrendered(place: &str) -> DecodeError {
    unrendered::refused(place)
}
