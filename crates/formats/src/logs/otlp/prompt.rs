//! The prompt that attributes hold, as the body of a chat or a completion.

use super::super::FieldPath;
use super::Item;
use super::messages::AnyValue;
use crate::codec::{DecodeError, ErrorCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// OpenInference's body of the request, and what stands for one that is hidden.
const BODY: &str = "input.value";
const HIDDEN: &str = "__REDACTED__";
/// The conventions' names.
const MESSAGES: &str = "gen_ai.input.messages";
const INSTRUCTIONS: &str = "gen_ai.system_instructions";
const TOOLS: &str = "gen_ai.tool.definitions";

const SWITCH_ON: &str = "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true and \
    OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental where requests are traced";

/// Whether an attribute holds what must not leave.
pub(super) fn is_content(key: &str) -> bool {
    let known = [BODY, "output.value", MESSAGES, INSTRUCTIONS, TOOLS, "gen_ai.output.messages"];
    let indexed =
        ["llm.input_messages.", "llm.output_messages.", "llm.prompts.", "llm.choices.", "llm.tools."];
    known.contains(&key)
        || indexed.iter().any(|prefix| key.starts_with(prefix))
        || ["gen_ai.prompt", "gen_ai.completion", "gen_ai.tool.call"]
            .iter()
            .any(|prefix| key.starts_with(prefix))
}

pub(super) fn body(item: &Item, place: Option<&FieldPath>) -> Result<String, DecodeError> {
    if let Some(place) = place {
        let key = place.to_string();
        return item.get(&key).map(AnyValue::json).ok_or_else(|| missing(&key));
    }
    if let Some(body) = item.get(BODY).and_then(AnyValue::text) {
        if body == HIDDEN {
            let detail =
                format!("`{BODY}` is hidden: set OPENINFERENCE_HIDE_INPUTS=false where requests are traced");
            return Err(DecodeError::new(ErrorCode::MissingField, detail));
        }
        if body.contains(HIDDEN) {
            let detail = format!("parts of `{BODY}` are hidden, such as images");
            return Err(DecodeError::new(ErrorCode::UnsupportedContent, detail));
        }
        return object(body);
    }
    let Some(messages) = item.get(MESSAGES) else { return Err(missing(MESSAGES)) };
    if item.get("gen_ai.operation.name").and_then(AnyValue::text) == Some("text_completion") {
        return completion(&messages.json());
    }
    chat(item, &messages.json())
}

/// The body that OpenInference keeps.
fn object(body: &str) -> Result<String, DecodeError> {
    let text = body.trim();
    if text.starts_with('{') && text.ends_with('}') {
        return Ok(text.to_owned());
    }
    Err(cut_off(BODY))
}

fn missing(key: &str) -> DecodeError {
    DecodeError::new(ErrorCode::MissingField, format!("there is no attribute `{key}`: {SWITCH_ON}"))
}

fn cut_off(key: &str) -> DecodeError {
    let detail =
        format!("`{key}` is cut off or of another form: raise OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT");
    DecodeError::new(ErrorCode::InvalidBody, detail)
}

fn unsupported(part: &str) -> DecodeError {
    let detail = format!("`{MESSAGES}` holds a part of kind {part}, which is no text");
    DecodeError::new(ErrorCode::UnsupportedContent, detail)
}

/// A message as the conventions write it, or as OpenAI does.
#[derive(Deserialize)]
struct Message<'a> {
    role: String,
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// The body of a chat.
fn chat(item: &Item, messages: &str) -> Result<String, DecodeError> {
    let mut out: Vec<String> = Vec::new();
    if let Some(instructions) = item.get(INSTRUCTIONS) {
        let text = instructions_text(&instructions.json())?;
        out.extend(text.map(|text| message("system", &[("content", quoted(&text))])));
    }
    let messages: Vec<&RawValue> = serde_json::from_str(messages).map_err(|_| cut_off(MESSAGES))?;
    for raw in messages {
        let read: Message<'_> = serde_json::from_str(raw.get()).map_err(|_| cut_off(MESSAGES))?;
        match read.parts {
            Some(parts) => add_message(&mut out, &read.role, &parts)?,
            None => out.push(raw.get().to_owned()),
        }
    }
    let mut body = format!("{{\"messages\":[{}]", out.join(","));
    if let Some(tools) = item.get(TOOLS) {
        let tools = tools.json();
        let tools: Vec<&RawValue> = serde_json::from_str(&tools).map_err(|_| cut_off(TOOLS))?;
        let tools: Vec<&str> = tools.iter().map(|tool| tool.get()).collect();
        body += &format!(",\"tools\":[{}]", tools.join(","));
    }
    body.push('}');
    Ok(body)
}

/// A message of OpenAI's for the texts, the reasoning and the calls of one of the conventions'; one more for each
/// answer of a tool, ahead of it.
fn add_message(out: &mut Vec<String>, role: &str, parts: &[Part<'_>]) -> Result<(), DecodeError> {
    let (mut text, mut reasoning, mut calls) = (None::<String>, None::<String>, Vec::new());
    for part in parts {
        match part.kind.as_str() {
            "text" => {
                *text.get_or_insert_default() += &text_of(part.content).ok_or_else(|| unsupported("text"))?
            }
            "reasoning" => {
                *reasoning.get_or_insert_default() +=
                    &text_of(part.content).ok_or_else(|| unsupported("reasoning"))?;
            }
            "tool_call" => calls.push(call(part)),
            "tool_call_response" => {
                let answer = text_of(part.response.or(part.result).or(part.content));
                let content = quoted(&answer.unwrap_or_default());
                let id = quoted(part.id.as_deref().unwrap_or_default());
                out.push(message("tool", &[("tool_call_id", id), ("content", content)]));
            }
            // Kinds are names of the conventions, but anybody may write another.
            "blob" | "file" | "uri" => return Err(unsupported(&part.kind)),
            _ => return Err(unsupported("another name")),
        }
    }
    let mut fields = Vec::new();
    fields.extend(reasoning.map(|reasoning| ("reasoning_content", quoted(&reasoning))));
    fields.extend(text.map(|text| ("content", quoted(&text))));
    if !calls.is_empty() {
        fields.push(("tool_calls", format!("[{}]", calls.join(","))));
    }
    if !fields.is_empty() {
        out.push(message(role, &fields));
    }
    Ok(())
}

fn call(part: &Part<'_>) -> String {
    let arguments = part.arguments.map_or("{}", RawValue::get);
    let arguments = if arguments.starts_with('"') { arguments.to_owned() } else { quoted(arguments) };
    format!(
        "{{\"id\":{},\"type\":\"function\",\"function\":{{\"name\":{},\"arguments\":{arguments}}}}}",
        quoted(part.id.as_deref().unwrap_or_default()),
        quoted(part.name.as_deref().unwrap_or_default()),
    )
}

/// A text, or the JSON of what is none.
fn text_of(value: Option<&RawValue>) -> Option<String> {
    let value = value?.get();
    if value.starts_with('"') { serde_json::from_str(value).ok() } else { Some(value.to_owned()) }
}

/// The texts of the instructions, joined.
fn instructions_text(json: &str) -> Result<Option<String>, DecodeError> {
    let value: Value = serde_json::from_str(json).map_err(|_| cut_off(INSTRUCTIONS))?;
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| part["content"].as_str().or(part.as_str()));
            texts.collect::<Option<String>>().ok_or_else(|| cut_off(INSTRUCTIONS))?
        }
        _ => return Err(cut_off(INSTRUCTIONS)),
    };
    Ok((!text.is_empty()).then_some(text))
}

/// The body of a completion, whose prompt is the text of its only message.
fn completion(messages: &str) -> Result<String, DecodeError> {
    let messages: Vec<Message<'_>> = serde_json::from_str(messages).map_err(|_| cut_off(MESSAGES))?;
    let texts: Option<String> = match &messages[..] {
        [Message { parts: Some(parts), .. }] if parts.iter().all(|part| part.kind == "text") => {
            parts.iter().map(|part| text_of(part.content)).collect()
        }
        _ => None,
    };
    let text =
        texts.ok_or_else(|| unsupported("another kind than one text, though it is a text_completion"))?;
    Ok(format!("{{\"prompt\":{}}}", quoted(&text)))
}

fn message(role: &str, fields: &[(&str, String)]) -> String {
    let fields: String = fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
    format!("{{\"role\":{}{fields}}}", quoted(role))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
