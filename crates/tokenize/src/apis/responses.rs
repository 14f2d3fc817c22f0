//! OpenAI's Responses API: `instructions`, `input` as a text or as items, tools without a level of their own.

use super::{call, field, function, items, kind, message, text, unrendered};
use crate::error::TokenizeError;
use crate::messages::Fields;
use minijinja::Value;
use minijinja::value::ValueKind;

/// Whether a tool is a function in this API's form.
pub(in super::super) fn is_tool(tool: &Value) -> bool {
    kind(tool) == "function" && field(tool, "name").is_some() && field(tool, "function").is_none()
}

/// A tool as a chat declares it.
pub(in super::super) fn tool(tool: &Value) -> Value {
    function(tool, "parameters")
}

/// The messages of a chat.
///
/// # Errors
/// An item that no chat has: of a server's own tools, or a reference to what the server keeps.
pub(in super::super) fn chat(
    instructions: Option<&Value>,
    input: &Value,
) -> Result<Vec<Fields>, TokenizeError> {
    let mut chat = Vec::new();
    if let Some(instructions) = instructions {
        let said = instructions.as_str().ok_or_else(|| unrendered("instructions"))?;
        if !said.is_empty() {
            chat.push(message("system", Some(Value::from(said))));
        }
    }
    if input.as_str().is_some() {
        chat.push(message("user", Some(input.clone())));
        return Ok(chat);
    }
    if input.kind() != ValueKind::Seq {
        return Err(unrendered("input"));
    }
    for (index, item) in items(input).iter().enumerate() {
        add(item, &format!("input[{index}]"), &mut chat)?;
    }
    // Templates join texts: what an assistant did without a word has an empty one.
    for message in chat.iter_mut().filter(|message| message.get("content").is_none()) {
        message.set("content", Value::from(""));
    }
    Ok(chat)
}

/// Adds an item. What an assistant thought, said and called is one message, however many items it is.
fn add(item: &Value, place: &str, chat: &mut Vec<Fields>) -> Result<(), TokenizeError> {
    let refused = || unrendered(place);
    match kind(item).as_str() {
        "" | "message" => {
            let role = text(item, "role").ok_or_else(refused)?;
            let content = field(item, "content").unwrap_or_else(|| Value::from(""));
            if role == "assistant" {
                set_open(chat, "content", content);
            } else {
                chat.push(message(&role, Some(content)));
            }
        }
        "function_call" => {
            let name = field(item, "name").ok_or_else(refused)?;
            let arguments = field(item, "arguments").unwrap_or_else(|| Value::from(""));
            let called = call(field(item, "call_id"), name, arguments);
            let mut calls = open(chat).get("tool_calls").map(items).unwrap_or_default();
            calls.push(called);
            open(chat).set("tool_calls", Value::from(calls));
        }
        "function_call_output" => {
            let mut answer = message("tool", Some(field(item, "output").ok_or_else(refused)?));
            if let Some(id) = field(item, "call_id") {
                answer.set("tool_call_id", id);
            }
            chat.push(answer);
        }
        "reasoning" => {
            if field(item, "encrypted_content").is_some() {
                return Err(unrendered(&format!("{place}.encrypted_content")));
            }
            let told = ["content", "summary"].iter().filter_map(|name| field(item, name));
            let told = told.map(|parts| items(&parts)).find(|parts| !parts.is_empty()).unwrap_or_default();
            let texts: Option<Vec<String>> = told.iter().map(|part| text(part, "text")).collect();
            set_open(chat, "reasoning_content", Value::from(texts.ok_or_else(refused)?.join("\n")));
        }
        _ => return Err(refused()),
    }
    Ok(())
}

/// The assistant's message that goes on; a new one after any other.
fn open(chat: &mut Vec<Fields>) -> &mut Fields {
    let is_open = |message: &Fields| message.get("role").and_then(Value::as_str) == Some("assistant");
    if !chat.last().is_some_and(is_open) {
        chat.push(message("assistant", None));
    }
    let last = chat.len() - 1;
    &mut chat[last]
}

/// Gives the assistant's message a field; one that has it already is followed by another message.
fn set_open(chat: &mut Vec<Fields>, name: &str, value: Value) {
    if open(chat).get(name).is_some() {
        chat.push(message("assistant", None));
    }
    open(chat).set(name, value);
}
