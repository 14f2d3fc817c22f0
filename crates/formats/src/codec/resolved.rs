//! Request events of schemas other than our own: apache-avro resolves them, this takes them over.

use super::error::{DecodeError, ErrorCode};
use super::message::RequestMessage;
use apache_avro::Schema;
use apache_avro::schema::Name;
use apache_avro::types::Value;
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::pages::PageIds;
use std::borrow::Cow;
use std::fmt;

/// The fields of one event, taken out of apache-avro's tree of values; ids packed.
#[derive(Default)]
pub(super) struct ResolvedEvent {
    /// Without ids and labels, which it would borrow.
    message: RequestMessage<'static>,
    page_ids: Vec<u8>,
    output_page_ids: Vec<u8>,
    labels: Labels<String>,
}

impl fmt::Debug for ResolvedEvent {
    /// Shows sizes in place of ids and names, which a log must not hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.page_ids.len() + self.output_page_ids.len();
        f.debug_struct("ResolvedEvent").field("id_bytes", &bytes).finish_non_exhaustive()
    }
}

impl ResolvedEvent {
    /// Takes the fields out of a value resolved to the request event's schema.
    pub(super) fn take(value: Value) -> Option<Self> {
        let Value::Record(fields) = value else { return None };
        let mut owned = Self::default();
        let message = &mut owned.message;
        for (name, value) in fields {
            let value = if let Value::Union(_, inner) = value { *inner } else { value };
            match name.as_str() {
                "event_time" => message.event_time = long(value)??,
                "page_ids" => owned.page_ids = packed(value)?,
                "pool" => message.pool = text(value)?.map(Cow::Owned),
                "page_size" => message.page_size = int(value)?,
                "output_page_ids" => owned.output_page_ids = packed(value)?,
                "input_tokens" => message.input_tokens = long(value)?,
                "output_tokens" => message.output_tokens = long(value)?,
                "duration_ms" => message.duration_ms = long(value)?,
                "scope" => message.scope = text(value)?.map(Cow::Owned),
                "ids_chained" => message.ids_chained = flag(value)?,
                "cached_tokens" => message.cached_tokens = long(value)?,
                "cached_tokens_left_out" => message.cached_tokens_left_out = flag(value)?,
                "complete_before" => message.complete_before = long(value)?,
                field => {
                    if let Some(label) = Label::of_field(field) {
                        owned.labels.set(label, text(value)?);
                    }
                }
            }
        }
        Some(owned)
    }

    /// The event as a message that borrows from this.
    pub(super) fn message(&self) -> Result<RequestMessage<'_>, DecodeError> {
        Ok(RequestMessage {
            page_ids: page_ids(&self.page_ids)?,
            output_page_ids: page_ids(&self.output_page_ids)?,
            labels: self.labels.each_ref().map(String::as_str),
            ..self.message.clone()
        })
    }
}

fn page_ids(packed: &[u8]) -> Result<PageIds<'_>, DecodeError> {
    PageIds::from_packed(packed).ok_or_else(|| {
        DecodeError::new(ErrorCode::Undecodable, "avro: packed ids of no multiple of eight bytes")
    })
}

// The outer option of these says whether the type is right, the inner one is the field's null.

fn long(value: Value) -> Option<Option<i64>> {
    match value {
        Value::Null => Some(None),
        Value::Long(number) | Value::TimestampMillis(number) => Some(Some(number)),
        _ => None,
    }
}

fn int(value: Value) -> Option<Option<i32>> {
    match value {
        Value::Null => Some(None),
        Value::Int(number) => Some(Some(number)),
        _ => None,
    }
}

fn flag(value: Value) -> Option<bool> {
    if let Value::Boolean(flag) = value { Some(flag) } else { None }
}

fn text(value: Value) -> Option<Option<String>> {
    match value {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text)),
        _ => None,
    }
}

fn packed(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        Value::Array(items) => {
            let mut bytes = Vec::with_capacity(items.len() * 8);
            for item in items {
                bytes.extend_from_slice(&long(item)??.to_le_bytes());
            }
            Some(bytes)
        }
        _ => None,
    }
}

/// Whether a record contains itself: values of such a schema nest as deep as a file likes, and are
/// decoded by recursion.
pub(super) fn is_recursive<'s>(schema: &'s Schema, enclosing: &mut Vec<&'s Name>) -> bool {
    match schema {
        Schema::Ref { name } => enclosing.contains(&name),
        Schema::Array(array) => is_recursive(&array.items, enclosing),
        Schema::Map(map) => is_recursive(&map.types, enclosing),
        Schema::Union(union) => union.variants().iter().any(|variant| is_recursive(variant, enclosing)),
        Schema::Record(record) => {
            enclosing.push(&record.name);
            let found = record.fields.iter().any(|field| is_recursive(&field.schema, enclosing));
            enclosing.pop();
            found
        }
        _ => false,
    }
}
