//! Bodies of other APIs, made the chats that inference servers make of them.
//!
//! vLLM and SGLang answer Anthropic's Messages API and OpenAI's Responses API too, and turn their bodies into
//! chats for the model's template; the rules here are vLLM's (`vllm/entrypoints/anthropic/serving.py`,
//! `vllm/entrypoints/openai/responses/utils.py`), but that no text is left out where it takes the first part
//! only. For a closed model, whose own rendering is not public, that is an approximation: equal prefixes give
//! equal pages, their number follows the tokenizer at hand.
//!
//! What no chat can hold is refused by the field's name.

pub(super) mod anthropic;
pub(super) mod responses;

use super::error::TokenizeError;
use super::messages::Fields;
use super::unrendered;
use minijinja::Value;
use minijinja::value::ValueKind;

/// A value of an object; nothing where it is absent or null.
fn field(object: &Value, name: &str) -> Option<Value> {
    object.get_attr(name).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

/// A text of an object.
fn text(object: &Value, name: &str) -> Option<String> {
    field(object, name)?.as_str().map(str::to_owned)
}

/// What an object says it is.
fn kind(object: &Value) -> String {
    text(object, "type").unwrap_or_default()
}

/// The items of a list.
fn items(list: &Value) -> Vec<Value> {
    match list.kind() {
        ValueKind::Seq => list.try_iter().into_iter().flatten().collect(),
        _ => Vec::new(),
    }
}

/// A message of this role.
fn message(role: &str, content: Option<Value>) -> Fields {
    let mut message = Fields(vec![("role".to_owned(), Value::from(role))]);
    message.0.extend(content.map(|content| ("content".to_owned(), content)));
    message
}

/// A call of a function, its arguments as JSON in a string or as an object.
fn call(id: Option<Value>, name: Value, arguments: Value) -> Value {
    minijinja::context! {
        id => id,
        type => "function",
        function => minijinja::context! { name => name, arguments => arguments },
    }
}

/// A function as chats declare it: `schema` is the API's name for its parameters.
fn function(tool: &Value, schema: &str) -> Value {
    let names = [("name", "name"), ("description", "description"), ("parameters", schema)];
    let declared = names.map(|(own, theirs)| (own.to_owned(), field(tool, theirs)));
    let declared = declared.into_iter().filter_map(|(name, value)| Some((name, value?)));
    minijinja::context! { type => "function", function => Value::from_pairs(declared) }
}

fn unrendered(place: &str) -> TokenizeError {
    unrendered::refused(place)
}
