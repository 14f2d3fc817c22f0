//! What the bodies of chats are written of, and why a prompt is refused.

use super::item::Item;
use super::messages::AnyValue;
use crate::codec::{DecodeError, ErrorCode};
use serde_json::Value;

const SWITCH_ON: &str = "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true and \
    OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental where requests are traced";

/// A message of OpenAI's; the fields are JSON.
pub(super) fn message(role: &str, fields: &[(&str, String)]) -> String {
    let fields: String = fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
    format!("{{\"role\":{}{fields}}}", quoted(role))
}

/// A call of a tool; the arguments are a text.
pub(super) fn call(id: &str, name: &str, arguments: &str) -> String {
    format!(
        "{{\"id\":{},\"type\":\"function\",\"function\":{{\"name\":{},\"arguments\":{arguments}}}}}",
        quoted(id),
        quoted(name),
    )
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
pub(super) fn is_completion(item: &Item) -> bool {
    let is = |key: &str, value: &str| item.get(key).and_then(AnyValue::text) == Some(value);
    is("gen_ai.operation.name", "text_completion") || is("llm.request.type", "completion")
}

/// The refusal of a prompt that is not there.
pub(super) fn missing(key: &str) -> DecodeError {
    DecodeError::new(ErrorCode::MissingField, format!("there is no attribute `{key}`: {SWITCH_ON}"))
}

/// The refusal of a prompt that is not whole, or written in another way.
pub(super) fn cut_off(key: &str) -> DecodeError {
    let detail =
        format!("`{key}` is cut off or of another form: raise OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT");
    DecodeError::new(ErrorCode::InvalidBody, detail)
}
