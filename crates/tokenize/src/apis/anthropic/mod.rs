//! Anthropic's Messages API: `system`, blocks of content, tools by `input_schema`.

mod blocks;
mod results;

use super::{items, kind, message, text, unrendered};
use crate::fields::ObjectFields;
use crate::remarks::ChatRemarks;
use crate::rules::{BILLING_HEADER, ChatRules};
use crate::unrendered::shown_role;
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::units::names::listed;
use minijinja::Value;
use minijinja::value::ValueKind;

/// Kinds of blocks that chats do not have, and that make a message this API's.
const BLOCKS: [&str; 6] =
    ["tool_use", "tool_result", "thinking", "redacted_thinking", "tool_reference", "search_result"];

/// Kinds of blocks that no engine reads, as far as the API has a name for them.
const UNREAD: [&str; 16] = listed(
    "image document container_upload search_result server_tool_use web_search_tool_result \
        web_fetch_tool_result code_execution_tool_result bash_code_execution_tool_result \
        text_editor_code_execution_tool_result tool_search_tool_result mcp_tool_use mcp_tool_result \
        tool_addition tool_removal tool_reference",
);

/// How the engine at hand turns messages of this API into a chat.
pub(in super::super) struct Conversion<'a> {
    pub rules: &'static ChatRules,
    /// Whether late system messages move to the head of the chat: what the engine finds out of the chat template.
    pub moves_late_system: bool,
    pub remarks: &'a mut ChatRemarks,
}

/// Whether a message is this API's.
pub(in super::super) fn is_message(message: &ObjectFields) -> bool {
    let content = message.get("content").map(items).unwrap_or_default();
    content.iter().any(|block| BLOCKS.contains(&kind(block).as_str()))
}

impl Conversion<'_> {
    /// The messages of a chat.
    ///
    /// # Errors
    /// A role, a block or a field that no chat has, or content that is not text.
    pub(in super::super) fn chat(
        &mut self,
        system: Option<&Value>,
        messages: Vec<ObjectFields>,
    ) -> Result<Vec<ObjectFields>, DecodeError> {
        let mut head =
            system.map(|system| self.system_texts(system, "system")).transpose()?.unwrap_or_default();
        let is_system = |message: &ObjectFields| message.role() == "system";
        // Of a chat without another head the first one is that.
        let first = usize::from(head.is_empty());
        let is_late = messages.iter().enumerate().any(|(at, message)| at >= first && is_system(message));
        self.remarks.late_systems = u64::from(is_late);
        self.remarks.moved_systems = u64::from(is_late && self.moves_late_system);
        if self.moves_late_system {
            for (index, message) in messages.iter().enumerate().filter(|(_, message)| is_system(message)) {
                head.extend(self.late_text(message, index)?);
            }
        }
        let mut chat = Vec::new();
        if !head.is_empty() {
            chat.push(message("system", Some(Value::from(head.join(self.rules.system_joiner)))));
        }
        for (index, message) in messages.into_iter().enumerate() {
            match message.role() {
                "system" if self.moves_late_system => {}
                "system" if self.rules.drops_billing_header => {
                    let text = self.late_text(&message, index)?;
                    chat.extend(text.map(|text| super::message("system", Some(Value::from(text)))));
                }
                _ => self.add(message, index, &mut chat)?,
            }
        }
        Ok(chat)
    }

    /// The texts of `system`, but for blocks that the engine drops.
    fn system_texts(&mut self, system: &Value, place: &str) -> Result<Vec<String>, DecodeError> {
        let is_text = system.as_str().is_some();
        let mut texts = texts(system, place)?;
        let count = texts.len();
        texts.retain(|text| !text.starts_with(BILLING_HEADER));
        let headers = count - texts.len();
        self.remarks.billing_headers |= u64::from(headers > 0);
        if headers > 0 && (!self.rules.drops_billing_header || is_text) {
            // Of one text only the header's line goes, where the chat is made ready.
            texts = self::texts(system, place)?;
        }
        texts.retain(|text| !text.is_empty());
        Ok(texts)
    }

    /// The text of a system message among the others.
    fn late_text(&mut self, message: &ObjectFields, index: usize) -> Result<Option<String>, DecodeError> {
        let Some(content) = message.get("content") else { return Ok(None) };
        let mut texts = texts(content, &format!("messages[{index}].content"))?;
        if self.rules.drops_billing_header {
            let count = texts.len();
            texts.retain(|text| !text.starts_with(BILLING_HEADER));
            self.remarks.billing_headers |= u64::from(texts.len() < count);
        } else {
            texts.iter_mut().for_each(|text| *text = text.trim().to_owned());
        }
        texts.retain(|text| !text.is_empty());
        Ok((!texts.is_empty()).then(|| texts.join(self.rules.system_joiner)))
    }

    /// Adds a message of a user or an assistant.
    fn add(
        &mut self,
        mut message: ObjectFields,
        index: usize,
        chat: &mut Vec<ObjectFields>,
    ) -> Result<(), DecodeError> {
        let said = message.role();
        let role = match said {
            "assistant" | "system" => said.to_owned(),
            _ if self.rules.user_roles.contains(&said) => "user".to_owned(),
            _ => return Err(self.unknown_role(&message, index)),
        };
        message.set("role", Value::from(role.as_str()));
        let content = message.get("content").filter(|content| content.kind() == ValueKind::Seq).cloned();
        match content {
            None => chat.push(message),
            Some(content) => self.add_blocks(message, &role, &items(&content), index, chat)?,
        }
        Ok(())
    }

    fn unknown_role(&self, message: &ObjectFields, index: usize) -> DecodeError {
        let (rules, role) = (self.rules, shown_role(Some(message.role())));
        let detail = format!(
            "`messages[{index}].role` is {role}, which {} {} does not take in Anthropic's API",
            rules.engine, rules.version
        );
        DecodeError::new(ErrorCode::UnrenderedField, detail)
    }
}

/// A text, or the texts of blocks.
fn texts(content: &Value, place: &str) -> Result<Vec<String>, DecodeError> {
    if let Some(text) = content.as_str() {
        return Ok(vec![text.to_owned()]);
    }
    if content.kind() != ValueKind::Seq {
        return Err(unrendered(place));
    }
    let blocks = items(content).into_iter().enumerate();
    let read = blocks.map(|(number, block)| {
        let text = text(&block, "text").filter(|_| kind(&block) == "text");
        text.ok_or_else(|| not_text(&block, &format!("{place}[{number}]")))
    });
    read.collect()
}

/// The refusal of a block that is no text, by its kind where the API has a name for it.
fn not_text(block: &Value, place: &str) -> DecodeError {
    let kind = kind(block);
    let named = UNREAD.into_iter().find(|known| *known == kind);
    let what =
        named.map_or_else(|| "no text".to_owned(), |kind| format!("of the kind `{kind}`, which is no text"));
    let detail = format!("{place} is {what}; images, documents and files are not supported");
    DecodeError::new(ErrorCode::UnsupportedContent, detail)
}
