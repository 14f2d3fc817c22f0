//! The prompt that attributes hold, as the body of a chat or a completion.

use super::super::FieldPath;
use super::chat::{self, is_completion, malformed, message, missing, of_another_form, quoted};
use super::item::LoggedItem;
use super::messages::AnyValue;
use super::sdks::Sdk;
use super::{bodies, older, openinference, tools, vercel};
use crate::codec::{DecodeError, ErrorCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The conventions' names.
const MESSAGES: &str = "gen_ai.input.messages";
const INSTRUCTIONS: &str = "gen_ai.system_instructions";
const TOOLS: &str = "gen_ai.tool.definitions";

type ReadForm = fn(&LoggedItem) -> Result<Option<String>, DecodeError>;

/// The forms in which SDKs keep prompts: each reads the body that an item holds in it, if it does. The first holds.
const FORMS: [ReadForm; 5] = [vercel::body, openinference::body, by_conventions, bodies::body, older::body];

/// The body of the request, from wherever the span's SDK keeps it.
pub(super) fn body(item: &LoggedItem, place: Option<&FieldPath>) -> Result<String, DecodeError> {
    if let Some(place) = place {
        let key = place.to_string();
        return item.get(&key).map(AnyValue::json).ok_or_else(|| missing(&key));
    }
    for form in FORMS {
        if let Some(body) = form(item)? {
            return Ok(body);
        }
    }
    Err(not_there(item))
}

/// The body by the conventions; nothing where they are not followed.
fn by_conventions(item: &LoggedItem) -> Result<Option<String>, DecodeError> {
    let Some(messages) = item.get(MESSAGES).map(AnyValue::json) else { return Ok(None) };
    if is_completion(item) { completion(&messages) } else { chat_of(item, &messages) }.map(Some)
}

/// Attributes that vLLM writes, and nobody who sends requests.
const ENGINES_OWN: [&str; 2] = ["gen_ai.latency.time_in_queue", "gen_ai.latency.e2e"];

/// Why a span of a request has no prompt that can be read.
fn not_there(item: &LoggedItem) -> DecodeError {
    if let Some(input) = item.get(openinference::INPUT) {
        return bodies::not_a_request(openinference::INPUT, &input.json());
    }
    if ENGINES_OWN.into_iter().any(|key| item.get(key).is_some()) {
        let detail = "this is a span of vLLM's own, which never has a prompt: trace requests where they are sent, or log \
            them alongside their answers with \"return_token_ids\": true";
        return DecodeError::new(ErrorCode::MissingField, detail);
    }
    let Some(sdk) = Sdk::of(item) else { return missing(MESSAGES) };
    let Sdk { name, keeps, advice, .. } = sdk;
    let detail = match item.get(keeps) {
        Some(_) => format!("the prompt is in `{keeps}` of {name}, which is not read: {advice}"),
        None => format!("there is no attribute `{keeps}`, where {name} keeps prompts: {advice}"),
    };
    DecodeError::new(ErrorCode::MissingField, detail)
}

fn unsupported(part: &str) -> DecodeError {
    let detail = format!("`{MESSAGES}` holds a part of kind {part}, which is no text");
    DecodeError::new(ErrorCode::UnsupportedContent, detail)
}

fn not_captured(what: &str) -> DecodeError {
    DecodeError::new(ErrorCode::MissingField, format!("`{MESSAGES}` does not hold {what}"))
}

/// A message as the conventions write it, or as OpenAI does.
#[derive(Deserialize)]
struct PromptMessage<'a> {
    role: String,
    name: Option<String>,
    #[serde(borrow)]
    parts: Option<Vec<PromptPart<'a>>>,
}

#[derive(Deserialize)]
struct PromptPart<'a> {
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
fn chat_of(item: &LoggedItem, messages: &str) -> Result<String, DecodeError> {
    let mut out: Vec<String> = Vec::new();
    if let Some(instructions) = item.get(INSTRUCTIONS) {
        let text = instructions_text(&instructions.json())?;
        out.extend(text.map(|text| message("system", &[("content", quoted(&text))])));
    }
    let messages: Vec<&RawValue> =
        serde_json::from_str(messages).map_err(|error| malformed(MESSAGES, &error))?;
    for raw in messages {
        let read: PromptMessage<'_> =
            serde_json::from_str(raw.get()).map_err(|error| malformed(MESSAGES, &error))?;
        match read.parts {
            Some(parts) => add_message(&mut out, &read.role, read.name.as_deref(), &parts)?,
            None => out.push(raw.get().to_owned()),
        }
    }
    let mut tools = item.get(TOOLS).map(|tools| tools::of_definitions(&tools.json())).transpose()?;
    if let (None, Some(parameters)) = (&tools, item.get(tools::PARAMETERS)) {
        tools = tools::of_parameters(&parameters.json())?;
    }
    Ok(chat::body(&out, tools.as_deref()))
}

/// A message of OpenAI's for the texts, the reasoning and the calls of one of the conventions'; one more for each
/// answer of a tool, ahead of it.
fn add_message(
    out: &mut Vec<String>,
    role: &str,
    name: Option<&str>,
    parts: &[PromptPart<'_>],
) -> Result<(), DecodeError> {
    let (mut texts, mut reasoning, mut calls) = (Vec::new(), None::<String>, Vec::new());
    for part in parts {
        match part.kind.as_str() {
            "text" => texts.push(text_of(part.content).ok_or_else(|| not_captured("the text of a part"))?),
            "reasoning" => {
                *reasoning.get_or_insert_default() +=
                    &text_of(part.content).ok_or_else(|| not_captured("the text of a reasoning"))?;
            }
            "tool_call" => calls.push(call(part).ok_or_else(|| not_captured("the name of a tool called"))?),
            "tool_call_response" => {
                let answer = text_of(part.response.or(part.result).or(part.content));
                let content = quoted(&answer.ok_or_else(|| not_captured("the answer of a tool"))?);
                let id = quoted(part.id.as_deref().unwrap_or_default());
                out.push(message("tool", &[("tool_call_id", id), ("content", content)]));
            }
            // Kinds are names of the conventions, but anybody may write another.
            "blob" | "file" | "uri" => return Err(unsupported(&part.kind)),
            _ => return Err(unsupported("another name")),
        }
    }
    if parts.is_empty() {
        return Err(not_captured("any part of a message"));
    }
    out.extend(chat::turn((role, name), reasoning.as_deref(), &texts, &calls));
    Ok(())
}

fn call(part: &PromptPart<'_>) -> Option<String> {
    let arguments = chat::as_text(part.arguments.map_or("{}", RawValue::get));
    Some(chat::call(part.id.as_deref().unwrap_or_default(), part.name.as_deref()?, &arguments))
}

/// A text, or the JSON of what is none.
fn text_of(value: Option<&RawValue>) -> Option<String> {
    let value = value?.get();
    if value.starts_with('"') { serde_json::from_str(value).ok() } else { Some(value.to_owned()) }
}

/// The texts of the instructions, joined.
fn instructions_text(json: &str) -> Result<Option<String>, DecodeError> {
    let value: Value = serde_json::from_str(json).map_err(|error| malformed(INSTRUCTIONS, &error))?;
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| part["content"].as_str().or(part.as_str()));
            texts.collect::<Option<String>>().ok_or_else(|| of_another_form(INSTRUCTIONS))?
        }
        _ => return Err(of_another_form(INSTRUCTIONS)),
    };
    Ok((!text.is_empty()).then_some(text))
}

/// The body of a completion, whose prompt is the text of its only message.
fn completion(messages: &str) -> Result<String, DecodeError> {
    let messages: Vec<PromptMessage<'_>> =
        serde_json::from_str(messages).map_err(|error| malformed(MESSAGES, &error))?;
    let texts: Option<String> = match &messages[..] {
        [PromptMessage { parts: Some(parts), .. }] if parts.iter().all(|part| part.kind == "text") => {
            parts.iter().map(|part| text_of(part.content)).collect()
        }
        _ => None,
    };
    let text =
        texts.ok_or_else(|| unsupported("another kind than one text, though it is a text_completion"))?;
    Ok(chat::completion(&text))
}
