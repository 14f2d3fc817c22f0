//! Anthropic's Messages API: `system`, blocks of content, tools by `input_schema`.

use super::{call, field, function, items, kind, message, text, unrendered};
use crate::error::{TokenizeCode, TokenizeError};
use crate::messages::Fields;
use minijinja::Value;
use minijinja::value::ValueKind;

/// Kinds of blocks that chats do not have.
const BLOCKS: [&str; 4] = ["tool_use", "tool_result", "thinking", "redacted_thinking"];

/// Whether a message is this API's.
pub(in super::super) fn is_message(message: &Fields) -> bool {
    let content = message.get("content").map(items).unwrap_or_default();
    content.iter().any(|block| BLOCKS.contains(&kind(block).as_str()))
}

/// Whether a tool is this API's.
pub(in super::super) fn is_tool(tool: &Value) -> bool {
    field(tool, "input_schema").is_some()
}

/// A tool as a chat declares it. The server's own tools have no schema, and what they add to a prompt is not known.
pub(in super::super) fn tool(tool: &Value) -> Value {
    function(tool, "input_schema")
}

/// The messages of a chat.
///
/// # Errors
/// A field that no chat has, or content that is not text.
pub(in super::super) fn chat(
    system: Option<&Value>,
    messages: Vec<Fields>,
) -> Result<Vec<Fields>, TokenizeError> {
    let mut chat = Vec::new();
    if let Some(system) = system {
        let said = texts(system, "system")?.concat();
        if !said.is_empty() {
            chat.push(message("system", Some(Value::from(said))));
        }
    }
    for (index, message) in messages.into_iter().enumerate() {
        add(message, index, &mut chat)?;
    }
    Ok(chat)
}

/// A text, or the texts of blocks.
fn texts(content: &Value, place: &str) -> Result<Vec<String>, TokenizeError> {
    if let Some(text) = content.as_str() {
        return Ok(vec![text.to_owned()]);
    }
    if content.kind() != ValueKind::Seq {
        return Err(unrendered(place));
    }
    let blocks = items(content).into_iter().enumerate();
    let read = blocks.map(|(number, block)| match kind(&block).as_str() {
        "text" => text(&block, "text").ok_or_else(|| not_text(&format!("{place}[{number}]"))),
        _ => Err(not_text(&format!("{place}[{number}]"))),
    });
    read.collect()
}

fn not_text(place: &str) -> TokenizeError {
    let detail = format!("{place} is not text; images, documents and files are not supported");
    TokenizeError::new(TokenizeCode::UnsupportedContent, detail)
}

/// What the blocks of one message come to.
#[derive(Default)]
struct Said {
    parts: Vec<Value>,
    calls: Vec<Value>,
    thoughts: String,
}

/// Adds a message: results of tools go before it as messages of their own.
fn add(mut said: Fields, index: usize, chat: &mut Vec<Fields>) -> Result<(), TokenizeError> {
    let Some(content) = said.get("content").filter(|content| content.kind() == ValueKind::Seq).cloned()
    else {
        chat.push(said);
        return Ok(());
    };
    let mut found = Said::default();
    for (number, block) in items(&content).into_iter().enumerate() {
        let place = format!("messages[{index}].content[{number}]");
        match kind(&block).as_str() {
            "thinking" => found.thoughts.push_str(&text(&block, "thinking").unwrap_or_default()),
            "tool_use" => {
                let arguments = field(&block, "input").unwrap_or_else(empty_object);
                let name = field(&block, "name").ok_or_else(|| unrendered(&place))?;
                found.calls.push(call(field(&block, "id"), name, arguments));
            }
            "tool_result" => chat.push(result(&block, &place)?),
            "redacted_thinking" => return Err(unrendered(&place)),
            // Text is kept as it is; anything else is refused with the other parts of chats.
            _ => found.parts.push(block),
        }
    }
    let Said { mut parts, calls, thoughts } = found;
    if parts.is_empty() && calls.is_empty() && thoughts.is_empty() {
        return Ok(());
    }
    said.remove("content");
    if !thoughts.is_empty() {
        said.set("reasoning_content", Value::from(thoughts));
    }
    let only_text = (parts.len() == 1).then(|| text(&parts[0], "text")).flatten();
    match only_text {
        Some(text) => said.set("content", Value::from(text)),
        None if parts.is_empty() => said.set("content", Value::from("")),
        None => said.set("content", Value::from(std::mem::take(&mut parts))),
    }
    if !calls.is_empty() {
        said.set("tool_calls", Value::from(calls));
    }
    chat.push(said);
    Ok(())
}

/// What a tool answered. That it failed is left to the template to show.
fn result(block: &Value, place: &str) -> Result<Fields, TokenizeError> {
    let content = field(block, "content");
    let content = content.map(|content| texts(&content, place)).transpose()?.unwrap_or_default();
    let mut answer = message("tool", Some(Value::from(content.join("\n"))));
    if let Some(id) = field(block, "tool_use_id") {
        answer.set("tool_call_id", id);
    }
    if let Some(failed) = field(block, "is_error").filter(Value::is_true) {
        answer.set("is_error", failed);
    }
    Ok(answer)
}

fn empty_object() -> Value {
    Value::from_pairs(std::iter::empty::<(String, Value)>())
}
