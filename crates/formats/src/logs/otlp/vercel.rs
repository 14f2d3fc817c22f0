//! Prompts as the Vercel AI SDK writes them: `ai.prompt.messages` and `ai.prompt.tools` of the spans
//! `ai.generateText.doGenerate`, `ai.streamText.doStream` and their like. The spans around these repeat the prompt in
//! `ai.prompt`.

use super::chat::{self, ChatMessage, malformed, message, of_another_form, quoted};
use super::item::LoggedItem;
use super::messages::{AnyValue, OtlpValue as Any};
use super::tools::OfferedTool;
use crate::codec::{DecodeError, ErrorCode};
use crate::record::members::members;
use serde::Deserialize;
use serde_json::value::RawValue;

const MESSAGES: &str = "ai.prompt.messages";
const TOOLS: &str = "ai.prompt.tools";

/// The body of a chat; nothing where the attributes are not there.
pub(super) fn body(item: &LoggedItem) -> Result<Option<String>, DecodeError> {
    let Some(messages) = item.get(MESSAGES) else { return Ok(None) };
    let json = messages.json();
    let messages: Vec<ChatMessage<'_>> =
        serde_json::from_str(&json).map_err(|error| malformed(MESSAGES, &error))?;
    let mut chat = Vec::new();
    for said in &messages {
        let (Some(role), Some(content)) = (&said.role, said.content) else {
            return Err(of_another_form(MESSAGES));
        };
        add(role, content.get(), &mut chat)?;
    }
    let tools = item.get(TOOLS).map(tools).transpose()?;
    Ok(Some(chat::body(&chat, tools.as_deref())))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VercelPart<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
}

/// Adds a message; each result of a tool is one by itself.
fn add(role: &str, content: &str, chat: &mut Vec<String>) -> Result<(), DecodeError> {
    if content.starts_with('"') {
        chat.push(message(role, &[("content", content.to_owned())]));
        return Ok(());
    }
    let parts: Vec<VercelPart<'_>> =
        serde_json::from_str(content).map_err(|error| malformed(MESSAGES, &error))?;
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), String::new(), Vec::new());
    for part in &parts {
        match part.kind.as_str() {
            "text" => texts.push(part.text.as_deref().ok_or_else(|| of_another_form(MESSAGES))?),
            "reasoning" => thoughts.push_str(part.text.as_deref().unwrap_or_default()),
            "tool-call" => calls.push(call(part)?),
            "tool-result" => chat.push(result(part)?),
            _ => {
                let detail = format!("`{MESSAGES}` holds a part that is no text");
                return Err(DecodeError::new(ErrorCode::UnsupportedContent, detail));
            }
        }
    }
    let thoughts = Some(thoughts.as_str()).filter(|thoughts| !thoughts.is_empty());
    chat.extend(chat::turn((role, None), thoughts, &texts, &calls));
    Ok(())
}

fn call(part: &VercelPart<'_>) -> Result<String, DecodeError> {
    let name = part.tool_name.as_deref().ok_or_else(|| of_another_form(MESSAGES))?;
    let arguments = chat::as_text(part.args.or(part.input).map_or("{}", RawValue::get));
    Ok(chat::call(part.tool_call_id.as_deref().unwrap_or_default(), name, &arguments))
}

/// What a tool answered: a text, or the JSON of what is none.
fn result<'a>(part: &VercelPart<'a>) -> Result<String, DecodeError> {
    let value = |output: &'a RawValue| {
        let members = members(output.get()).unwrap_or_default();
        members.into_iter().rfind(|(name, _)| name == "value").map_or(output, |(_, value)| value)
    };
    let output = part.output.map(value);
    let said = output.or(part.result).ok_or_else(|| of_another_form(MESSAGES))?;
    let content = chat::as_text(said.get());
    let id = quoted(part.tool_call_id.as_deref().unwrap_or_default());
    Ok(message("tool", &[("tool_call_id", id), ("content", content)]))
}

/// The tools: a list of texts, each the JSON of one.
fn tools(value: &AnyValue) -> Result<String, DecodeError> {
    let texts: Vec<String> = match &value.value {
        Some(Any::List(list)) => {
            list.values.iter().map(|tool| tool.text().map(str::to_owned)).collect::<Option<_>>()
        }
        _ => serde_json::from_str(&value.json()).ok(),
    }
    .ok_or_else(|| of_another_form(TOOLS))?;
    let tools: Result<Vec<String>, _> = texts.iter().map(|text| tool(text)).collect();
    Ok(format!("[{}]", tools?.join(",")))
}

fn tool(text: &str) -> Result<String, DecodeError> {
    let tool: OfferedTool<'_> = serde_json::from_str(text).map_err(|error| malformed(TOOLS, &error))?;
    if tool.kind.as_deref().is_some_and(|kind| kind != "function") {
        let detail = format!("`{TOOLS}` has a tool that is no function, which no chat template renders");
        return Err(DecodeError::new(ErrorCode::UnrenderedField, detail));
    }
    let schema = tool.parameters.or(tool.input_schema).map(RawValue::get);
    Ok(chat::function(&tool.name, tool.description.as_deref().map(quoted).as_deref(), schema))
}
