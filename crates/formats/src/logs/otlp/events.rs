//! Messages that are events of their span, one each: `gen_ai.user.message` and the like.
//!
//! | where in the event | whose |
//! |---|---|
//! | `gen_ai.event.content`: the message, as OpenAI writes it | Azure AI Inference, Semantic Kernel |
//! | `content`: a text, or blocks as Amazon Bedrock writes them | Strands Agents, and others that follow the conventions of 1.28 |
//! | attribute `events` of the span: a list of such messages | Pydantic AI before its version 2 |

use super::chat::{self, ChatMessage, malformed, message, of_another_form, quoted};
use super::item::{LoggedItem, is_message};
use super::messages::{AnyValue, SpanEvent};
use crate::codec::{DecodeError, ErrorCode};
use crate::record::members::{member_text, members};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

const EVENT_CONTENT: &str = "gen_ai.event.content";
const CONTENT: &str = "content";
const LIST: &str = "events";

/// The messages of a chat; nothing where the span has no such events.
pub(super) fn messages(item: &LoggedItem) -> Result<Option<Vec<String>>, DecodeError> {
    if let Some(list) = item.get(LIST) {
        return of_list(&list.json()).map(Some);
    }
    if item.messages.is_empty() {
        return Ok(None);
    }
    if item.dropped_events > 0 {
        let detail = "events were dropped, perhaps parts of the prompt (`dropped_events_count`): raise \
            OTEL_SPAN_EVENT_COUNT_LIMIT where the request is traced";
        return Err(DecodeError::new(ErrorCode::MissingField, detail));
    }
    let mut chat = Vec::new();
    for event in &item.messages {
        add_event(event, &mut chat)?;
    }
    Ok(Some(chat))
}

fn add_event(event: &SpanEvent, chat: &mut Vec<String>) -> Result<(), DecodeError> {
    let text = |key: &str| event.get(key).and_then(AnyValue::text);
    if let Some(said) = text(EVENT_CONTENT) {
        chat.push(whole(&event.name, said, EVENT_CONTENT)?);
        return Ok(());
    }
    let role = text("role").unwrap_or_else(|| role_of(&event.name));
    let Some(content) = event.get(CONTENT) else { return Err(without_content(&event.name)) };
    let json = content.json();
    if let Ok(blocks) = serde_json::from_str::<Vec<BedrockBlock<'_>>>(&json) {
        return add_blocks(role, &blocks, chat);
    }
    let mut fields = vec![("content", quoted(content.text().unwrap_or(&json)))];
    fields.extend(text("id").map(|id| ("tool_call_id", quoted(id))));
    chat.push(message(role, &fields));
    Ok(())
}

/// A message of OpenAI's, whose role may be that of the event.
fn whole(event: &str, text: &str, place: &str) -> Result<String, DecodeError> {
    let read: ChatMessage<'_> = serde_json::from_str(text).map_err(|error| malformed(place, &error))?;
    if read.content.is_none() && read.tool_calls.is_none() {
        let detail = format!("`{place}` is a message without its content: have contents recorded");
        return Err(DecodeError::new(ErrorCode::MissingField, detail));
    }
    if read.role.is_some() {
        return Ok(text.to_owned());
    }
    let rest = text.trim().strip_prefix('{').unwrap_or_default();
    Ok(format!("{{\"role\":{},{rest}", quoted(role_of(event))))
}

/// The messages in the list of a span's events.
fn of_list(json: &str) -> Result<Vec<String>, DecodeError> {
    let events: Vec<&RawValue> = serde_json::from_str(json).map_err(|error| malformed(LIST, &error))?;
    let mut chat = Vec::new();
    for event in events {
        let name = member_text(event.get(), "event.name").ok_or_else(|| of_another_form(LIST))?;
        if is_message(&name) {
            chat.push(whole(&name, event.get(), LIST)?);
        }
    }
    Ok(chat)
}

fn role_of(event: &str) -> &str {
    event.trim_start_matches("gen_ai.").trim_end_matches(".message")
}

/// The refusal of a message that is not in its event.
fn without_content(event: &str) -> DecodeError {
    let event = ["system", "user", "assistant", "tool"]
        .into_iter()
        .find(|role| *role == role_of(event))
        .map_or_else(|| "gen_ai.*.message".to_owned(), |role| format!("gen_ai.{role}.message"));
    let detail = format!(
        "the event `{event}` has neither `{EVENT_CONTENT}` nor `{CONTENT}`: have the contents of messages recorded \
         where requests are traced"
    );
    DecodeError::new(ErrorCode::MissingField, detail)
}

/// A block of Amazon Bedrock's: one of its fields is there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BedrockBlock<'a> {
    text: Option<String>,
    #[serde(borrow)]
    tool_use: Option<ToolUse<'a>>,
    #[serde(borrow)]
    tool_result: Option<ToolResult<'a>>,
    reasoning_content: Option<Value>,
    /// A mark for the provider's cache, and no part of the prompt.
    #[serde(rename = "cachePoint")]
    _cache_point: Option<Value>,
    image: Option<Value>,
    document: Option<Value>,
    video: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse<'a> {
    tool_use_id: String,
    name: String,
    #[serde(borrow)]
    input: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    tool_use_id: String,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// Adds a message of blocks; each result of a tool is one by itself.
fn add_blocks(role: &str, blocks: &[BedrockBlock<'_>], chat: &mut Vec<String>) -> Result<(), DecodeError> {
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), String::new(), Vec::new());
    for block in blocks {
        if block.image.is_some() || block.document.is_some() || block.video.is_some() {
            let detail = format!("`{CONTENT}` of an event holds a block that is no text");
            return Err(DecodeError::new(ErrorCode::UnsupportedContent, detail));
        }
        texts.extend(block.text.as_deref());
        if let Some(said) =
            block.reasoning_content.as_ref().and_then(|said| said["reasoningText"]["text"].as_str())
        {
            thoughts.push_str(said);
        }
        if let Some(ToolUse { tool_use_id, name, input }) = &block.tool_use {
            calls.push(chat::call(tool_use_id, name, &quoted(input.get())));
        }
        if let Some(result) = &block.tool_result {
            chat.push(answered(result)?);
        }
    }
    let thoughts = Some(thoughts.as_str()).filter(|thoughts| !thoughts.is_empty());
    chat.extend(chat::turn((role, None), thoughts, &texts, &calls));
    Ok(())
}

fn answered(result: &ToolResult<'_>) -> Result<String, DecodeError> {
    let json = |answer: &str| {
        let json = members(answer)?.into_iter().find(|(name, _)| name == "json")?.1;
        (json.get() != "null").then(|| json.get().to_owned())
    };
    let said =
        result.content.iter().map(|answer| member_text(answer.get(), "text").or_else(|| json(answer.get())));
    let said: Option<Vec<String>> = said.collect();
    let said = said.ok_or_else(|| {
        let detail = format!("`{CONTENT}` of an event holds an answer of a tool that is no text");
        DecodeError::new(ErrorCode::UnsupportedContent, detail)
    })?;
    let fields = [("tool_call_id", quoted(&result.tool_use_id)), ("content", quoted(&said.join("\n")))];
    Ok(message("tool", &fields))
}
