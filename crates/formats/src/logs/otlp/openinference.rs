//! Prompts as OpenInference writes them: the request's body in `input.value`, or its messages one field an attribute.
//!
//! `input.value` is what the instrumented function was given. Of an OpenAI client that is the request's body; of
//! LangChain, LlamaIndex and others it is a form of their own, and what the model was given stands in
//! `llm.input_messages`.

use super::bodies;
use super::chat::{self, quoted};
use super::indexed::{self, IndexedForm, IndexedMessage, check_numbers, numbered, unknown};
use super::item::LoggedItem;
use super::messages::AnyValue;
use crate::codec::{DecodeError, ErrorCode};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The input of the instrumented function, and what stands for one that is hidden.
pub(super) const INPUT: &str = "input.value";
const HIDDEN: &str = "__REDACTED__";
const MESSAGES: &str = "llm.input_messages";
const TOOLS: &str = "llm.tools";
const PROMPTS: &str = "llm.prompts";

/// How it spells a message.
const FORM: IndexedForm = IndexedForm {
    within: "message.",
    message: &[
        ("role", |said| &mut said.role),
        ("content", |said| &mut said.content),
        ("tool_call_id", |said| &mut said.call_id),
        ("name", |said| &mut said.name),
    ],
    call: &[
        ("tool_call.id", |call| &mut call.id),
        ("tool_call.function.name", |call| &mut call.name),
        ("tool_call.function.arguments", |call| &mut call.arguments),
    ],
    part: Some("message_content."),
    beside: &[],
};

/// The body of the request; nothing where none of these attributes holds one.
pub(super) fn body(item: &LoggedItem) -> Result<Option<String>, DecodeError> {
    let input = item.get(INPUT).and_then(AnyValue::text);
    if input == Some(HIDDEN) {
        let detail =
            format!("`{INPUT}` is hidden: set OPENINFERENCE_HIDE_INPUTS=false where requests are traced");
        return Err(DecodeError::new(ErrorCode::MissingField, detail));
    }
    if input.is_some_and(|input| input.contains(HIDDEN)) {
        let detail = format!("parts of `{INPUT}` are hidden, such as images");
        return Err(DecodeError::new(ErrorCode::UnsupportedContent, detail));
    }
    let tools = tools(item)?;
    if let Some(body) = input.and_then(bodies::request) {
        return Ok(Some(bodies::with_tools(body, tools.as_deref())));
    }
    if let Some(messages) = messages(item)? {
        return Ok(Some(chat::body(&messages, tools.as_deref())));
    }
    if let Some(messages) = input.and_then(bodies::messages) {
        return Ok(Some(chat::body(&messages, tools.as_deref())));
    }
    if let Some(text) = completion(item)? {
        return Ok(Some(chat::completion(text)));
    }
    Ok(None)
}

/// The messages whose fields are attributes of their own.
fn messages<'i>(item: &'i LoggedItem) -> Result<Option<Vec<String>>, DecodeError> {
    let text = |value: Option<&'i AnyValue>| match value.and_then(AnyValue::text) {
        Some(HIDDEN) => {
            let detail = format!(
                "`{MESSAGES}` is hidden: set OPENINFERENCE_HIDE_INPUT_MESSAGES=false where requests are traced"
            );
            Err(DecodeError::new(ErrorCode::MissingField, detail))
        }
        text => Ok(text),
    };
    let said = FORM.messages(item, MESSAGES, text, |_| unknown(MESSAGES))?;
    let messages: Vec<_> = said.iter().map(json).collect::<Result<_, _>>()?;
    Ok((!messages.is_empty()).then_some(messages))
}

fn json(said: &IndexedMessage<'_>) -> Result<String, DecodeError> {
    let role = said.role.ok_or_else(|| not_logged("the role of a message"))?;
    check_numbers(MESSAGES, said.parts.keys())?;
    let parts: Vec<_> = said.parts.values().map(part).collect::<Result<_, _>>()?;
    let content = match parts.is_empty() {
        true => said.content.map(quoted),
        false => Some(format!("[{}]", parts.join(","))),
    };
    said.json(MESSAGES, role, content)
}

/// A part that is text; of an image the attributes say where it was, not what it showed.
fn part(part: &BTreeMap<&str, &str>) -> Result<String, DecodeError> {
    let text = part.get("text").filter(|_| part.get("type").is_none_or(|kind| *kind == "text"));
    let text = text.ok_or_else(|| {
        let detail = format!("`{MESSAGES}` holds a part that is no text");
        DecodeError::new(ErrorCode::UnsupportedContent, detail)
    })?;
    Ok(format!("{{\"type\":\"text\",\"text\":{}}}", quoted(text)))
}

/// The tools, each the JSON of a whole one.
fn tools(item: &LoggedItem) -> Result<Option<String>, DecodeError> {
    let mut all: BTreeMap<usize, &RawValue> = BTreeMap::new();
    for (number, field, value) in numbered(item, TOOLS) {
        let number = number.filter(|_| field == "tool.json_schema").ok_or_else(|| unknown(TOOLS))?;
        let json = value.and_then(AnyValue::text).and_then(|text| serde_json::from_str(text).ok());
        all.insert(number, json.ok_or_else(|| chat::of_another_form(TOOLS))?);
    }
    if all.is_empty() {
        return Ok(None);
    }
    check_numbers(TOOLS, all.keys())?;
    let tools: Vec<&str> = all.values().map(|tool| tool.get()).collect();
    Ok(Some(format!("[{}]", tools.join(","))))
}

/// The text of a completion, of one prompt.
fn completion(item: &LoggedItem) -> Result<Option<&str>, DecodeError> {
    let mut texts = Vec::new();
    for (_, field, value) in numbered(item, PROMPTS) {
        if field == "prompt.text" {
            texts.extend(value.and_then(AnyValue::text));
        }
    }
    match texts[..] {
        [] => Ok(None),
        [text] => Ok(Some(text)),
        _ => Err(not_logged("which of several prompts the usage is of")),
    }
}

fn not_logged(what: &str) -> DecodeError {
    indexed::not_logged(MESSAGES, what)
}
