//! What the bodies of chats are written of, and why a prompt is refused.

use super::item::LoggedItem;
use super::messages::AnyValue;
use crate::codec::{DecodeError, ErrorCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

const SWITCH_ON: &str = "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true and \
    OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental where requests are traced";

/// A message as OpenAI writes it, or Vercel's SDK.
#[derive(Deserialize)]
pub(super) struct ChatMessage<'a> {
    pub role: Option<String>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub tool_calls: Option<&'a RawValue>,
}

/// A message of OpenAI's; the fields are JSON.
pub(super) fn message(role: &str, fields: &[(&str, String)]) -> String {
    let fields: String = fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
    format!("{{\"role\":{}{fields}}}", quoted(role))
}

/// A message of thoughts, texts and calls of tools, of whom it names; nothing where it has none of the three.
pub(super) fn turn<T: AsRef<str>>(
    (role, name): (&str, Option<&str>),
    thoughts: Option<&str>,
    texts: &[T],
    calls: &[String],
) -> Option<String> {
    let thoughts = thoughts.map(|thoughts| ("reasoning_content", quoted(thoughts)));
    let calls = (!calls.is_empty()).then(|| ("tool_calls", format!("[{}]", calls.join(","))));
    let texts = content(texts).map(|content| ("content", content));
    let mut fields: Vec<_> = thoughts.into_iter().chain(texts).chain(calls).collect();
    let says_something = !fields.is_empty();
    fields.extend(name.map(|name| ("name", quoted(name))));
    says_something.then(|| message(role, &fields))
}

/// A text as it is written; of any other JSON the text that it is.
pub(super) fn as_text(json: &str) -> String {
    if json.starts_with('"') { json.to_owned() } else { quoted(json) }
}

/// A call of a tool; the arguments are a text.
pub(super) fn call(id: &str, name: &str, arguments: &str) -> String {
    format!(
        "{{\"id\":{},\"type\":\"function\",\"function\":{{\"name\":{},\"arguments\":{arguments}}}}}",
        quoted(id),
        quoted(name),
    )
}

/// One text, or several as parts, which engines join in ways of their own; nothing of none.
pub(super) fn content<T: AsRef<str>>(texts: &[T]) -> Option<String> {
    let part = |text: &T| format!("{{\"type\":\"text\",\"text\":{}}}", quoted(text.as_ref()));
    match texts {
        [] => None,
        [text] => Some(quoted(text.as_ref())),
        several => Some(format!("[{}]", several.iter().map(part).collect::<Vec<_>>().join(","))),
    }
}

/// A function as a tool; its description and the schema of its parameters are JSON, and null where it has none.
pub(super) fn function(name: &str, description: Option<&str>, schema: Option<&str>) -> String {
    let fields = [("description", description), ("parameters", schema)].map(|(name, json)| {
        let json = json.filter(|json| *json != "null");
        json.map_or_else(String::new, |json| format!(",\"{name}\":{json}"))
    });
    format!("{{\"type\":\"function\",\"function\":{{\"name\":{}{}}}}}", quoted(name), fields.concat())
}

/// The body of a chat.
pub(super) fn body(messages: &[String], tools: Option<&str>) -> String {
    let tools = tools.map_or_else(String::new, |tools| format!(",\"tools\":{tools}"));
    format!("{{\"messages\":[{}]{tools}}}", messages.join(","))
}

/// The body of a completion of one text.
pub(super) fn completion(text: &str) -> String {
    format!("{{\"prompt\":{}}}", quoted(text))
}

pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Whether the request is a completion of a text, by the conventions' name or by OpenLLMetry's.
pub(super) fn is_completion(item: &LoggedItem) -> bool {
    let is = |key: &str, value: &str| item.get(key).and_then(AnyValue::text) == Some(value);
    is("gen_ai.operation.name", "text_completion")
        || is("gen_ai.operation.name", "text.completions")
        || is("llm.request.type", "completion")
}

/// The refusal of a prompt that is not there, of a span by the conventions.
pub(super) fn missing(key: &str) -> DecodeError {
    DecodeError::new(ErrorCode::MissingField, format!("there is no attribute `{key}`: {SWITCH_ON}"))
}

/// The refusal of JSON that is not whole, or of another shape than its SDK writes.
pub(super) fn malformed(key: &str, error: &serde_json::Error) -> DecodeError {
    if error.is_eof() {
        let detail = format!("`{key}` is cut off: raise OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT");
        return DecodeError::new(ErrorCode::InvalidBody, detail);
    }
    of_another_form(key)
}

/// The refusal of what is written in a way that is not known.
pub(super) fn of_another_form(key: &str) -> DecodeError {
    DecodeError::new(ErrorCode::InvalidBody, format!("`{key}` is of another form than is known of it"))
}
