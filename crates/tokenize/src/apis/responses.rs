//! OpenAI's Responses API: `instructions`, `input` as a text or as items, tools without a level of their own.

use super::anthropic::Conversion;
use super::{call, field, items, kind, message, text, unrendered, written};
use crate::fields::ObjectFields;
use crate::rules::ChatRules;
use kvset_core::request::refusal::DecodeError;
use minijinja::Value;
use minijinja::value::ValueKind;

/// What stands between the texts of reasoning of several items that are one message.
const THOUGHT_JOINER: &str = "\n";

/// The messages of a chat.
///
/// # Errors
/// An item that no chat has: of a server's own tools, or a reference to what the server keeps.
pub(in super::super) fn chat(
    instructions: Option<&Value>,
    input: &Value,
    conversion: &Conversion<'_>,
) -> Result<Vec<ObjectFields>, DecodeError> {
    let rules = conversion.rules;
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
    if items(input).iter().any(is_of_chat) {
        chat.extend(items(input).iter().map(|item| ObjectFields(written(item))));
        return Ok(chat);
    }
    for (index, item) in items(input).iter().enumerate() {
        add(item, &format!("input[{index}]"), rules, &mut chat)?;
    }
    Ok(if conversion.moves_late_system { with_one_head(chat, rules) } else { chat })
}

/// Whether an item is a message of a chat, whose calls stand in it: exports keep chats under `input`, too.
fn is_of_chat(item: &Value) -> bool {
    kind(item).is_empty()
        && (field(item, "tool_calls").is_some() || text(item, "role").as_deref() == Some("tool"))
}

/// Adds an item. What an assistant thought, said and called is one message, however many items it is.
fn add(
    item: &Value,
    place: &str,
    rules: &ChatRules,
    chat: &mut Vec<ObjectFields>,
) -> Result<(), DecodeError> {
    let refused = || unrendered(place);
    match kind(item).as_str() {
        "" | "message" => {
            let role = text(item, "role").ok_or_else(refused)?;
            let content = field(item, "content");
            match (role.as_str(), rules.developer_label, content) {
                ("assistant", _, content) => {
                    say(chat, "content", content.unwrap_or_else(|| Value::from("")), rules.assistant_joiner);
                }
                ("developer", Some(label), Some(content)) => {
                    chat.push(message("system", Some(labelled(&content, label))));
                }
                (_, _, content) => chat.push(message(&role, content)),
            }
        }
        "function_call" => {
            if field(item, "namespace").is_some() {
                return Err(unrendered(&format!("{place}.namespace")));
            }
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
            let told = rules.reasoning_places.iter().filter_map(|name| field(item, name));
            let told = told.map(|parts| items(&parts)).find(|parts| !parts.is_empty()).unwrap_or_default();
            let texts: Option<Vec<String>> = told.iter().map(|part| text(part, "text")).collect();
            let thought = texts.ok_or_else(refused)?.join(THOUGHT_JOINER);
            if !thought.is_empty() || rules.assistant_joiner.is_none() {
                let joiner = rules.assistant_joiner.map(|_| THOUGHT_JOINER);
                say(chat, "reasoning_content", Value::from(thought), joiner);
            }
        }
        _ => return Err(refused()),
    }
    Ok(())
}

/// A developer's content behind a label.
fn labelled(content: &Value, label: &str) -> Value {
    if let Some(text) = content.as_str() {
        return Value::from(format!("{label}{text}"));
    }
    let mut parts = items(content);
    match parts.iter().position(|part| text(part, "text").is_some()) {
        Some(at) => {
            let said = text(&parts[at], "text").unwrap_or_default();
            parts[at] = minijinja::context! { type => "text", text => format!("{label}{said}") };
        }
        None => parts.insert(0, minijinja::context! { type => "text", text => label.trim_end() }),
    }
    Value::from(parts)
}

/// The chat with all that the system says at its head.
fn with_one_head(chat: Vec<ObjectFields>, rules: &ChatRules) -> Vec<ObjectFields> {
    let is_system = |message: &ObjectFields| message.role() == "system";
    // Other engines leave them where they are.
    if rules.developer_label.is_none() || !chat.iter().skip(1).any(is_system) {
        return chat;
    }
    let (system, others): (Vec<_>, Vec<_>) = chat.into_iter().partition(is_system);
    let texts = system.iter().filter_map(|message| message.get("content")).flat_map(|content| match content
        .as_str()
    {
        Some(said) => vec![said.to_owned()],
        None => items(content).iter().filter_map(|part| text(part, "text")).collect(),
    });
    let head = message("system", Some(Value::from(texts.collect::<Vec<_>>().join("\n\n"))));
    std::iter::once(head).chain(others).collect()
}

/// The assistant's message that goes on; a new one after any other.
fn open(chat: &mut Vec<ObjectFields>) -> &mut ObjectFields {
    if chat.last().is_none_or(|message| message.role() != "assistant") {
        chat.push(message("assistant", None));
    }
    let last = chat.len() - 1;
    &mut chat[last]
}

/// Gives the assistant's message a field. One that has it already goes on behind the joiner, or is followed by another
/// message where there is none.
fn say(chat: &mut Vec<ObjectFields>, name: &str, value: Value, joiner: Option<&str>) {
    let said = open(chat).get(name).cloned();
    let said = match (said, joiner) {
        (None, _) => value,
        (Some(said), Some(joiner)) => joined(&said, &value, joiner),
        (Some(_), None) => {
            chat.push(message("assistant", None));
            value
        }
    };
    open(chat).set(name, said);
}

/// Two texts as one, or the parts of both.
fn joined(first: &Value, second: &Value, joiner: &str) -> Value {
    match (first.as_str(), second.as_str()) {
        (Some(""), _) => second.clone(),
        (_, Some("")) => first.clone(),
        (Some(first), Some(second)) => Value::from(format!("{first}{joiner}{second}")),
        _ => {
            let parts = |content: &Value| match content.as_str() {
                Some(text) => vec![minijinja::context! { type => "text", text => text }],
                None => items(content),
            };
            parts(first).into_iter().chain(parts(second)).collect()
        }
    }
}
