//! Request events of schemas other than our own: apache-avro resolves them, this takes them over.

use super::message::{FieldSlot, FieldVisitor, PAGE_IDS, RequestMessage};
use apache_avro::Schema;
use apache_avro::schema::Name;
use apache_avro::types::Value;
use kvset_core::request::labels::Labels;
use kvset_core::request::refusal::{DecodeError, ErrorCode};
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
        let (mut owned, fields) = (Self::default(), fields.into_iter());
        let Self { message, page_ids, output_page_ids, labels } = &mut owned;
        let mut taking = ResolvedFields { fields, ids: [page_ids, output_page_ids], labels };
        message.each_field(&mut taking).ok()?;
        // What a container names its requests, nobody reads.
        message.request_id = None;
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

/// The fields of a record that was resolved, which stand in the schema's order.
struct ResolvedFields<'o> {
    fields: std::vec::IntoIter<(String, Value)>,
    /// Where the ids of the prompt and of the output go.
    ids: [&'o mut Vec<u8>; 2],
    labels: &'o mut Labels<String>,
}

/// The record is not of the schema that it was resolved to.
struct NotResolved;

impl FieldVisitor<'static> for ResolvedFields<'_> {
    type Error = NotResolved;

    fn field(&mut self, name: &'static str, slot: FieldSlot<'_, 'static>) -> Result<(), NotResolved> {
        use FieldSlot::{Flag, Ids, Int, Label, Long, Text, Time};
        let next = self.fields.next().filter(|(next, _)| next == name);
        let (_, value) = next.ok_or(NotResolved)?;
        match (slot, if let Value::Union(_, inner) = value { *inner } else { value }) {
            (Ids(_), ids) => *self.ids[usize::from(name != PAGE_IDS)] = packed(ids).ok_or(NotResolved)?,
            (Time(time), Value::Long(ms) | Value::TimestampMillis(ms)) => *time = ms,
            (Flag(flag), Value::Boolean(is_set)) => *flag = is_set,
            (Long(long), Value::Long(number) | Value::TimestampMillis(number)) => *long = Some(number),
            (Int(int), Value::Int(number)) => *int = Some(number),
            (Text(text), Value::String(said)) => *text = Some(Cow::Owned(said)),
            (Label(label, _), Value::String(said)) => self.labels.set(label, Some(said)),
            (Long(_) | Int(_) | Text(_) | Label(..), Value::Null) => {}
            _ => return Err(NotResolved),
        }
        Ok(())
    }
}

fn packed(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        Value::Array(items) => {
            let mut bytes = Vec::with_capacity(items.len() * 8);
            for item in items {
                let Value::Long(id) = item else { return None };
                bytes.extend_from_slice(&id.to_le_bytes());
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
