//! Messages made ready for a chat template, as inference servers do it.

use super::fields::ObjectFields;
use super::remarks::ChatRemarks;
use super::rules::{BILLING_HEADER, ChatRules};
use super::unrendered::{self, shown_role};
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::units::names::listed;
use minijinja::Value;
use minijinja::value::ValueKind;

/// The names of what a model thought, the standard one first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// What a message says besides a text.
const BESIDE_TEXTS: [&str; 12] = listed(
    "role id name tool_calls tool_call_id type created_at timestamp reasoning_content reasoning thinking \
        metadata",
);
/// The longest name of a field that is shown.
const SHOWN_NAME: usize = 40;

/// How the messages of a chat are made ready.
#[derive(Clone, Copy)]
pub(super) struct Preparation {
    pub rules: &'static ChatRules,
    /// Whether the template takes a list of text parts as a message's content.
    pub takes_parts: bool,
}

impl Preparation {
    /// Makes the message at `index` ready:
    /// - fields that are `null` are dropped, as `transformers` does; a content that is not there is an empty text;
    /// - the arguments of tool calls, JSON in a string, become an object, which templates expect;
    /// - content of several text parts stays a list where the template takes one, else its texts are joined; other
    ///   kinds of content are refused;
    /// - reasoning is there under its standard name, and under `thinking`;
    /// - fields that are part of a prompt and that no template is given are refused by their names.
    pub fn message(
        self,
        mut message: ObjectFields,
        index: usize,
        remarks: &mut ChatRemarks,
    ) -> Result<ObjectFields, DecodeError> {
        message.0.retain(|(_, value)| !value.is_none());
        let role = self.role(&message, index)?;
        message.set("role", Value::from(role.as_str()));
        for field in unrendered::MESSAGE_FIELDS {
            // `false` and what is empty say nothing; so does `null`, which is gone already.
            if message.get(field).is_some_and(Value::is_true) {
                return Err(unrendered::refused(&format!("messages[{index}].{field}")));
            }
        }
        let content = match message.get("content").cloned() {
            Some(content) => content,
            None if says_nothing(&role, &message) => Value::from(""),
            None => return Err(without_content(&message, index)),
        };
        message.set("content", self.content(&content, &role, index, remarks)?);
        match message.get("tool_calls").cloned() {
            Some(calls) if calls.is_true() => message.set("tool_calls", self.calls(&calls, index)?),
            _ => message.remove("tool_calls"),
        }
        let reasoning = REASONING.iter().find_map(|name| message.get(name)).cloned();
        if let Some(reasoning) = reasoning {
            message.set("reasoning_content", reasoning.clone());
            if message.get("thinking").is_none() {
                message.set("thinking", reasoning);
            }
        }
        Ok(message)
    }

    /// The role, where the engine takes it.
    fn role(self, message: &ObjectFields, index: usize) -> Result<String, DecodeError> {
        let said = message.get("role").and_then(Value::as_str);
        let said = said.ok_or_else(|| refused(ErrorCode::MissingField, index, "it has no role"))?;
        if self.rules.roles.is_empty() {
            return Ok(said.to_owned());
        }
        let lower = said.to_ascii_lowercase();
        if self.rules.roles.contains(&lower.as_str()) {
            return Ok(lower);
        }
        let (rules, role) = (self.rules, shown_role(Some(said)));
        let what = format!("its role is {role}, which {} {} does not take", rules.engine, rules.version);
        Err(refused(ErrorCode::UnrenderedField, index, &what))
    }

    fn content(
        self,
        content: &Value,
        role: &str,
        index: usize,
        remarks: &mut ChatRemarks,
    ) -> Result<Value, DecodeError> {
        let mut parts = match content.kind() {
            ValueKind::String => vec![ContentPart::Text(content.clone())],
            ValueKind::Seq => {
                let parts = content.try_iter().into_iter().flatten().enumerate();
                parts
                    .map(|(number, part)| ContentPart::of(&part, index, number))
                    .collect::<Result<Vec<_>, _>>()?
            }
            _ => {
                let what = "its content is neither text nor a list of parts; an object by itself is one in a list, [...]";
                return Err(refused(ErrorCode::InvalidBody, index, what));
            }
        };
        let has_header = role == "system" && parts.iter().any(ContentPart::has_billing_header);
        remarks.billing_headers |= u64::from(has_header);
        if has_header && self.rules.drops_billing_header {
            parts = parts.into_iter().filter_map(ContentPart::without_billing_header).collect();
        }
        let is_list = content.kind() == ValueKind::Seq && self.takes_parts;
        let only_texts = parts.iter().all(|part| matches!(part, ContentPart::Text(_)));
        if is_list && (role != "tool" || !only_texts) {
            return Ok(parts.into_iter().map(ContentPart::shown).collect());
        }
        let texts: Vec<Value> = parts.into_iter().filter_map(|part| part.into_text(self.rules)).collect();
        let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
        Ok(Value::from(texts.join(self.rules.part_joiner)))
    }

    fn calls(self, calls: &Value, index: usize) -> Result<Value, DecodeError> {
        let wrong = || refused(ErrorCode::InvalidBody, index, "its tool_calls are not a list of calls");
        if calls.kind() != ValueKind::Seq {
            return Err(wrong());
        }
        let calls = calls.try_iter().map_err(|_| wrong())?;
        calls.map(|call| self.call(&call, index)).collect()
    }

    fn call(self, call: &Value, index: usize) -> Result<Value, DecodeError> {
        let function = call.get_attr("function").ok().filter(|function| function.kind() == ValueKind::Map);
        let Some(function) = function else { return Ok(call.clone()) };
        let arguments = function.get_attr("arguments").unwrap_or_default();
        let Some(text) = arguments.as_str() else { return Ok(call.clone()) };
        let empty = || Value::from_pairs(std::iter::empty::<(String, Value)>());
        let parsed = match text.trim().is_empty() {
            true => Some(empty()),
            false => serde_json::from_str(text).ok(),
        };
        let parsed = match parsed {
            Some(parsed) if !self.rules.empties_bad_arguments || parsed.kind() == ValueKind::Map => parsed,
            _ if self.rules.empties_bad_arguments => empty(),
            _ => {
                let what = "the arguments of a tool call are not JSON";
                return Err(refused(ErrorCode::InvalidBody, index, what));
            }
        };
        Ok(with(call, "function", with(&function, "arguments", parsed)))
    }
}

fn refused(code: ErrorCode, index: usize, what: &str) -> DecodeError {
    DecodeError::new(code, format!("message {index}: {what}"))
}

/// Whether a message needs no content: an assistant's may be its calls or its thoughts alone.
fn says_nothing(role: &str, message: &ObjectFields) -> bool {
    role == "assistant" && other_text(message).is_none()
}

/// The field that may hold the text of a message in place of its content.
fn other_text(message: &ObjectFields) -> Option<&str> {
    let is_text = |value: &Value| {
        value.is_true() && matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
    };
    let mut others =
        message.0.iter().filter(|(name, value)| !BESIDE_TEXTS.contains(&name.as_str()) && is_text(value));
    others.next().map(|(name, _)| name.as_str()).filter(|name| name.len() <= SHOWN_NAME)
}

/// Why a message without a content has no text that an engine reads.
fn without_content(message: &ObjectFields, index: usize) -> DecodeError {
    let what = match other_text(message) {
        Some(name) => {
            format!("it has no content but `{name}`, which no engine reads: write that as `content`")
        }
        None => {
            "its content is null or missing: the log leaves texts out, and without them it has no prompts"
                .to_owned()
        }
    };
    refused(ErrorCode::MissingField, index, &what)
}

/// A part of a content.
enum ContentPart {
    Text(Value),
    /// The name of a tool that was loaded.
    ToolReference(Value),
}

impl ContentPart {
    /// What is neither text nor a reference to a tool is refused.
    fn of(part: &Value, index: usize, number: usize) -> Result<Self, DecodeError> {
        if part.as_str().is_some() {
            return Ok(Self::Text(part.clone()));
        }
        let field = |name: &str| part.get_attr(name).ok().filter(|value| value.as_str().is_some());
        let kind = field("type");
        let read = match kind.as_ref().and_then(Value::as_str) {
            Some("text" | "input_text" | "output_text") => field("text").map(Self::Text),
            Some("refusal") => field("refusal").map(Self::Text),
            Some("tool_reference") => field("name").map(Self::ToolReference),
            Some(_) => {
                let what =
                    format!("part {number} is not text; images, audio, video and files are not supported");
                return Err(refused(ErrorCode::UnsupportedContent, index, &what));
            }
            // Bedrock's Converse names the kind of a part by the name of what it holds.
            None if part.len() == Some(1) => field("text").map(Self::Text),
            None => None,
        };
        let what = format!("part {number} has no type, or not the text of it");
        read.ok_or_else(|| refused(ErrorCode::MissingField, index, &what))
    }

    fn has_billing_header(&self) -> bool {
        matches!(self, Self::Text(text) if text.as_str().is_some_and(|text| text.starts_with(BILLING_HEADER)))
    }

    /// What is behind the header's line; nothing where that is all.
    fn without_billing_header(self) -> Option<Self> {
        if !self.has_billing_header() {
            return Some(self);
        }
        let Self::Text(text) = self else { return None };
        let rest = text.as_str()?.split_once('\n')?.1;
        (!rest.is_empty()).then(|| Self::Text(Value::from(rest)))
    }

    /// What a template that takes parts sees.
    fn shown(self) -> Value {
        match self {
            Self::Text(text) => minijinja::context! { type => "text", text => text },
            Self::ToolReference(name) => minijinja::context! { type => "tool_reference", name => name },
        }
    }

    /// What is left of it in one text.
    fn into_text(self, rules: &ChatRules) -> Option<Value> {
        match self {
            Self::Text(text) => Some(text),
            Self::ToolReference(name) => rules.writes_tool_references.then_some(name),
        }
    }
}

/// A map with one value replaced in its place.
fn with(map: &Value, name: &str, value: Value) -> Value {
    let keys = map.try_iter().into_iter().flatten();
    Value::from_pairs(keys.map(|key| {
        let old =
            if key.as_str() == Some(name) { value.clone() } else { map.get_item(&key).unwrap_or_default() };
        (key, old)
    }))
}
