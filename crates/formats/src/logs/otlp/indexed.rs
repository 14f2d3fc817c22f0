//! Attributes whose names count: `gen_ai.prompt.0.role`, `llm.input_messages.1.message.content`.

use super::item::LoggedItem;
use super::messages::AnyValue;
use crate::codec::{DecodeError, ErrorCode};

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

/// The refusal of a part that is not there.
pub(super) fn not_logged(prefix: &str, what: &str) -> DecodeError {
    DecodeError::new(ErrorCode::MissingField, format!("`{prefix}.N`: {what} is not logged"))
}
