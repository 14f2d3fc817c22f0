//! Attributes whose names count: `gen_ai.prompt.0.role`, `llm.input_messages.1.message.content`. A convention is a row:
//! how it spells the fields of messages and of calls.

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
    pub kind: Option<&'a str>,
    pub id: Option<&'a str>,
    pub name: Option<&'a str>,
    pub arguments: Option<&'a str>,
}

/// Where a field of a message, or of a call, is kept.
type PlaceOfMessage = for<'m, 'a> fn(&'m mut IndexedMessage<'a>) -> &'m mut Option<&'a str>;
type PlaceOfCall = for<'m, 'a> fn(&'m mut IndexedCall<'a>) -> &'m mut Option<&'a str>;

/// How a convention spells what it says behind the number of a message.
pub(super) struct IndexedForm {
    /// What stands in front of all of it.
    pub within: &'static str,
    /// Fields of a message, and of a call below its number.
    pub message: &'static [(&'static str, PlaceOfMessage)],
    pub call: &'static [(&'static str, PlaceOfCall)],
    /// What stands in front of the fields of a part of a content below its number, where there are such.
    pub part: Option<&'static str>,
    /// What is kept alongside the messages.
    pub beside: &'static [&'static str],
}

impl IndexedForm {
    /// The messages below a prefix, in their order. `text` takes the values of their fields; one that it has no text for
    /// is passed over.
    ///
    /// # Errors
    /// A value is refused, a message is left out, or a field is of none.
    pub fn messages<'a>(
        &self,
        item: &'a LoggedItem,
        prefix: &str,
        text: impl Fn(Option<&'a AnyValue>) -> Result<Option<&'a str>, DecodeError>,
        unknown: impl Fn(&str) -> DecodeError,
    ) -> Result<Vec<IndexedMessage<'a>>, DecodeError> {
        let mut all: BTreeMap<usize, IndexedMessage<'_>> = BTreeMap::new();
        for (number, field, value) in numbered(item, prefix) {
            let Some(number) = number else {
                if self.beside.iter().any(|name| item.get(&format!("{prefix}.{name}")).is_some()) {
                    continue;
                }
                return Err(unknown(field));
            };
            let own = field.strip_prefix(self.within).ok_or_else(|| unknown(field))?;
            let said = all.entry(number).or_default();
            let Some(text) = text(value)? else { continue };
            self.keep(said, own, text).ok_or_else(|| unknown(field))?;
        }
        check_numbers(prefix, all.keys())?;
        Ok(all.into_values().collect())
    }

    /// Keeps a field; nothing where no message has it.
    fn keep<'a>(&self, said: &mut IndexedMessage<'a>, field: &'a str, text: &'a str) -> Option<()> {
        if let Some((_, place)) = self.message.iter().find(|(name, _)| *name == field) {
            *place(said) = Some(text);
            return Some(());
        }
        let (list, rest) = field.split_once('.')?;
        let (number, field) = rest.split_once('.')?;
        let number: usize = number.parse().ok()?;
        if let Some(field) =
            self.part.filter(|_| list == "contents").and_then(|within| field.strip_prefix(within))
        {
            said.parts.entry(number).or_default().insert(field, text);
            return Some(());
        }
        let (_, place) = self.call.iter().find(|(name, _)| list == "tool_calls" && *name == field)?;
        let call = said.calls.entry(number).or_default();
        *place(call) = Some(text);
        call.kind.is_none_or(|kind| kind == "function").then_some(())
    }
}

impl IndexedMessage<'_> {
    /// The message as OpenAI writes it, with this content.
    pub(super) fn json(
        &self,
        prefix: &str,
        role: &str,
        content: Option<String>,
    ) -> Result<String, DecodeError> {
        // An empty text is not logged either, and cannot be distinguished from one that was left out.
        if content.is_none() && self.calls.is_empty() {
            return Err(not_logged(prefix, "the content of a message"));
        }
        let mut fields: Vec<_> = content.map(|content| ("content", content)).into_iter().collect();
        if !self.calls.is_empty() {
            fields.push(("tool_calls", self.calls(prefix)?));
        }
        fields.extend(self.call_id.map(|id| ("tool_call_id", quoted(id))));
        fields.extend(self.name.map(|name| ("name", quoted(name))));
        Ok(chat::message(role, &fields))
    }

    /// The calls of a message that has some, as OpenAI writes them.
    fn calls(&self, prefix: &str) -> Result<String, DecodeError> {
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
