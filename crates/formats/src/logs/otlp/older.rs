//! Prompts as older conventions write them.
//!
//! | where | whose |
//! |---|---|
//! | `gen_ai.prompt.N.role`, `.content`, `.tool_calls.M.name`; `llm.request.functions.N.name` | OpenLLMetry, LiteLLM |
//! | the same below `llm.prompts.N` | OpenLLMetry before it followed the conventions |
//! | `gen_ai.prompt`, of the span or of its event `gen_ai.content.prompt` | the conventions up to 1.27 |
//! | events `gen_ai.user.message` and the like | see [`events`] |
//!
//! Nobody may say there what is left out, so whatever does not fit is refused: a message that has no text, an answer of
//! a tool that nobody called, a list that Python printed.

use super::bodies::is_message;
use super::chat::{self, is_completion, malformed, missing, of_another_form, quoted};
use super::events;
use super::indexed::{IndexedForm, check_numbers, not_logged, numbered, unknown};
use super::item::LoggedItem;
use super::messages::AnyValue;
use crate::codec::{DecodeError, ErrorCode};
use crate::record::members::member_text;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const PROMPT: &str = "gen_ai.prompt";
const OLD_PROMPT: &str = "llm.prompts";
const FUNCTIONS: &str = "llm.request.functions";

/// How these conventions spell a message.
const FORM: IndexedForm = IndexedForm {
    within: "",
    message: &[
        ("role", |said| &mut said.role),
        ("content", |said| &mut said.content),
        ("tool_call_id", |said| &mut said.call_id),
    ],
    call: &[
        ("type", |call| &mut call.kind),
        ("id", |call| &mut call.id),
        ("name", |call| &mut call.name),
        ("function.name", |call| &mut call.name),
        ("arguments", |call| &mut call.arguments),
        ("function.arguments", |call| &mut call.arguments),
    ],
    part: None,
    // OpenLLMetry's.
    beside: &["prompt_filter_results", "prompt_error"],
};

/// The body of a chat or a completion; nothing where none of these conventions is followed.
pub(super) fn body(item: &LoggedItem) -> Result<Option<String>, DecodeError> {
    for prefix in [PROMPT, OLD_PROMPT] {
        if let Some(messages) = indexed_messages(item, prefix)? {
            return Ok(Some(chat::body(&messages, functions(item)?.as_deref())));
        }
    }
    if let Some(prompt) = item.get(PROMPT) {
        return whole(item, prompt).map(Some);
    }
    match events::messages(item)? {
        Some(messages) => Ok(Some(chat::body(&messages, functions(item)?.as_deref()))),
        None => Ok(None),
    }
}

/// The whole prompt as one text: the messages in JSON, or the text that is to be completed.
fn whole(item: &LoggedItem, prompt: &AnyValue) -> Result<String, DecodeError> {
    let json = prompt.json();
    if let Ok(messages) = serde_json::from_str::<Vec<&RawValue>>(&json)
        && !messages.is_empty()
        && messages.iter().all(|message| is_message(message))
    {
        let messages: Vec<String> = messages.iter().map(|message| message.get().to_owned()).collect();
        return Ok(chat::body(&messages, functions(item)?.as_deref()));
    }
    match prompt.text() {
        Some(text) if is_completion(item) && !text.trim_start().starts_with(['[', '{']) => {
            Ok(chat::completion(text))
        }
        _ => Err(match serde_json::from_str::<&RawValue>(&json) {
            Err(error) if json.trim_start().starts_with(['[', '{']) => malformed(PROMPT, &error),
            _ => of_another_form(PROMPT),
        }),
    }
}

/// The messages whose fields are attributes of their own.
fn indexed_messages<'i>(item: &'i LoggedItem, prefix: &str) -> Result<Option<Vec<String>>, DecodeError> {
    let text = |value: Option<&'i AnyValue>| match value.and_then(AnyValue::text) {
        Some(text) => Ok(Some(text)),
        None => Err(of_another_form(&format!("{prefix}.N.content"))),
    };
    let refused = |field: &str| if field == "user" { first_of_several(prefix) } else { unknown(prefix) };
    let said = FORM.messages(item, prefix, text, refused)?;
    let (mut called, mut messages) = (false, Vec::new());
    for message in &said {
        let role = message.role.ok_or_else(|| missing(&format!("{prefix}.N.role")))?;
        if role == "tool" && !called {
            return Err(not_logged(prefix, "the call that an answer of a tool belongs to"));
        }
        called = !message.calls.is_empty() || (called && role == "tool");
        let content = message.content.map(|text| content(prefix, text)).transpose()?;
        messages.push(message.json(prefix, role, content)?);
    }
    Ok((!messages.is_empty()).then_some(messages))
}

/// A text, or the parts that were written as one.
fn content(prefix: &str, text: &str) -> Result<String, DecodeError> {
    if text.starts_with("[{'") {
        let detail = format!("`{prefix}.N.content` is a list as Python prints it, no text and no JSON");
        return Err(DecodeError::new(ErrorCode::InvalidBody, detail));
    }
    let is_part = |part: &&RawValue| member_text(part.get(), "type").is_some();
    let is_parts = serde_json::from_str::<Vec<&RawValue>>(text)
        .is_ok_and(|parts| !parts.is_empty() && parts.iter().all(is_part));
    Ok(if is_parts { text.to_owned() } else { quoted(text) })
}

/// The tools of OpenLLMetry, whose schemas are JSON in texts.
fn functions(item: &LoggedItem) -> Result<Option<String>, DecodeError> {
    if item.get(FUNCTIONS).is_some() {
        return Err(unknown(FUNCTIONS));
    }
    let mut all: BTreeMap<usize, [Option<&str>; 3]> = BTreeMap::new();
    for (number, field, value) in numbered(item, FUNCTIONS) {
        let number = number.ok_or_else(|| unknown(FUNCTIONS))?;
        let place = match field {
            "name" => 0,
            "description" => 1,
            "parameters" | "input_schema" => 2,
            _ => return Err(unknown(FUNCTIONS)),
        };
        all.entry(number).or_default()[place] = value.and_then(AnyValue::text);
    }
    if all.is_empty() {
        return Ok(None);
    }
    check_numbers(FUNCTIONS, all.keys())?;
    let tools: Vec<String> = all.values().map(function).collect::<Result<_, _>>()?;
    Ok(Some(format!("[{}]", tools.join(","))))
}

fn function([name, description, schema]: &[Option<&str>; 3]) -> Result<String, DecodeError> {
    let name = name.ok_or_else(|| not_logged(FUNCTIONS, "the name of a tool"))?;
    let schema = schema.ok_or_else(|| not_logged(FUNCTIONS, "the schema of a tool"))?;
    let schema: &RawValue = serde_json::from_str(schema)
        .map_err(|error| malformed("llm.request.functions.N.parameters", &error))?;
    Ok(chat::function(name, description.map(quoted).as_deref(), Some(schema.get())))
}

fn first_of_several(prefix: &str) -> DecodeError {
    let detail = format!(
        "`{prefix}.0.user` is the first prompt of a completion, which may have had others that are not logged"
    );
    DecodeError::new(ErrorCode::UnrenderedField, detail)
}
