//! Attributes whose names count: `gen_ai.prompt.0.role`, `llm.input_messages.1.message.content`.

use super::chat::{self, quoted};
use super::item::LoggedItem;
use super::messages::AnyValue;
use crate::codec::{DecodeError, ErrorCode};
use std::collections::BTreeMap;

/// What attributes say of one message.
#[derive(Default)]
pub(super) struct IndexedMessage<'a> {
    pub role: Option<&'a str>,
    pub content: Option<&'a str>,
    /// The parts of a content, by the fields that each has.
    pub parts: BTreeMap<usize, BTreeMap<&'a str, &'a str>>,
    pub calls: BTreeMap<usize, IndexedCall<'a>>,
    pub call_id: Option<&'a str>,
    pub name: Option<&'a str>,
}

/// What they say of a call of a tool.
#[derive(Default)]
pub(super) struct IndexedCall<'a> {
    pub id: Option<&'a str>,
    pub name: Option<&'a str>,
    pub arguments: Option<&'a str>,
}

impl IndexedMessage<'_> {
    /// The calls of a message that has some, as OpenAI writes them.
    pub(super) fn calls(&self, prefix: &str) -> Result<String, DecodeError> {
        check_numbers(prefix, self.calls.keys())?;
        let calls = self.calls.values().map(|call| {
            let name = call.name.ok_or_else(|| not_logged(prefix, "the name of a tool that was called"))?;
            Ok(chat::call(call.id.unwrap_or_default(), name, &quoted(call.arguments.unwrap_or("{}"))))
        });
        let calls: Result<Vec<_>, DecodeError> = calls.collect();
        Ok(format!("[{}]", calls?.join(",")))
    }
}

/// The attributes below a prefix: their number, where it is one, what follows it, and the value.
pub(super) fn numbered<'a>(
    item: &'a LoggedItem,
    prefix: &str,
) -> impl Iterator<Item = (Option<usize>, &'a str, Option<&'a AnyValue>)> {
    item.all().filter_map(move |attribute| {
        let path = attribute.key.strip_prefix(prefix)?.strip_prefix('.')?;
        let (number, field) = path.split_once('.').unwrap_or((path, ""));
        Some((number.parse().ok(), field, attribute.value.as_ref()))
    })
}

/// Refuses numbers that leave one out: what it stood for is not logged.
pub(super) fn check_numbers<'n>(
    prefix: &str,
    numbers: impl Iterator<Item = &'n usize>,
) -> Result<(), DecodeError> {
    match numbers.enumerate().all(|(expected, number)| expected == *number) {
        true => Ok(()),
        false => Err(not_logged(prefix, "one of those before its last")),
    }
}

/// The refusal of an attribute that belongs to nothing there.
pub(super) fn unknown(prefix: &str) -> DecodeError {
    let detail =
        format!("below `{prefix}` is an attribute that is part of no message and no tool known here");
    DecodeError::new(ErrorCode::UnrenderedField, detail)
}

/// The refusal of a part that is not there.
pub(super) fn not_logged(prefix: &str, what: &str) -> DecodeError {
    DecodeError::new(ErrorCode::MissingField, format!("`{prefix}.N`: {what} is not logged"))
}
