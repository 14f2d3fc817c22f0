//! The blocks of one message.

use super::super::{call, content_of, field, kind, message, text, text_part, unrendered};
use super::Conversion;
use super::{not_text, results};
use crate::fields::ObjectFields;
use kvset_core::request::refusal::DecodeError;
use minijinja::Value;

/// What the blocks of one message come to.
#[derive(Default)]
struct MessageBlocks {
    parts: Vec<Value>,
    calls: Vec<Value>,
    thoughts: Option<String>,
}

impl Conversion<'_> {
    /// Adds a message of blocks, whose results of tools are messages of their own.
    pub(super) fn add_blocks(
        &mut self,
        said: ObjectFields,
        role: &str,
        blocks: &[Value],
        index: usize,
        chat: &mut Vec<ObjectFields>,
    ) -> Result<(), DecodeError> {
        let mut found = MessageBlocks::default();
        for (number, block) in blocks.iter().enumerate() {
            let place = format!("messages[{index}].content[{number}]");
            match kind(block).as_str() {
                "text" => self.add_text(block, &place, &mut found.parts)?,
                "thinking" => self.add_thought(block, &mut found.thoughts),
                // Opaque to engines, too.
                "redacted_thinking" => {}
                "tool_use" => {
                    let arguments = field(block, "input").unwrap_or_else(empty_object);
                    let name = field(block, "name").ok_or_else(|| unrendered(&place))?;
                    found.calls.push(call(field(block, "id"), name, arguments));
                }
                "tool_result" if role == "user" => {
                    if !self.rules.results_first && !found.parts.is_empty() {
                        chat.push(message(role, Some(content_of(std::mem::take(&mut found.parts)))));
                    }
                    chat.extend(self.results(block, &place)?);
                }
                "tool_result" => found.parts.push(results::as_text(block, &place)?),
                // What another API calls text is read where the chat is made ready.
                "input_text" | "output_text" | "refusal" => found.parts.push(block.clone()),
                _ => return Err(not_text(block, &place)),
            }
        }
        self.push(said, role, found, chat);
        Ok(())
    }

    fn add_text(&self, block: &Value, place: &str, parts: &mut Vec<Value>) -> Result<(), DecodeError> {
        let text = text(block, "text").ok_or_else(|| not_text(block, place))?;
        if self.rules.keeps_empty_texts || !text.is_empty() {
            parts.push(text_part(&text));
        }
        Ok(())
    }

    fn add_thought(&mut self, block: &Value, thoughts: &mut Option<String>) {
        let Some(thought) = text(block, "thinking") else { return };
        if self.rules.keeps_thoughts {
            thoughts.get_or_insert_default().push_str(&thought);
        } else {
            self.remarks.dropped_thoughts += u64::from(!thought.is_empty());
        }
    }

    /// Adds what is left of a message. A user's that says nothing is none; an assistant's takes its turn all the same.
    fn push(&self, mut said: ObjectFields, role: &str, found: MessageBlocks, chat: &mut Vec<ObjectFields>) {
        let MessageBlocks { parts, calls, thoughts } = found;
        if role != "assistant" && parts.is_empty() {
            return;
        }
        said.remove("content");
        if let Some(thoughts) = thoughts {
            said.set("reasoning_content", Value::from(thoughts));
        }
        said.set("content", content_of(parts));
        if !calls.is_empty() {
            said.set("tool_calls", Value::from(calls));
        }
        chat.push(said);
    }
}

fn empty_object() -> Value {
    Value::from_pairs(std::iter::empty::<(String, Value)>())
}
