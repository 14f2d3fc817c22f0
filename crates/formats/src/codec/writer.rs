//! Records that name the schema of their content in a registry: an Avro datum of that schema, or JSON.
//!
//! What the name stands for is asked of [`WriterSchemas`], which may wait for a registry. A schema with
//! the fields and types of `schemas/request_event.avsc` or of `schemas/raw_request.avsc` is read where it
//! lies, like single-object encoding; any other is resolved to one of them by apache-avro: fields in another
//! order, further fields, missing fields that have a default, narrower numbers.

use super::avro::{self, IdBuffers};
use super::frame::SchemaRef;
use super::json;
use super::limits::DecodeLimits;
use super::message::RequestMessage;
use super::raw::{self, RawRequest};
use super::resolved::{ResolvedEvent, is_recursive};
use super::schema;
use super::whole::{NotWhole, read_whole};
use apache_avro::Schema;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use std::fmt;
use std::sync::Arc;

/// A writer's schema, made ready for reading request events or raw requests.
#[derive(Debug)]
pub struct WriterSchema(FieldLayout);

#[derive(Debug)]
enum FieldLayout {
    /// Fields and types of `schemas/request_event.avsc`, whatever the record is called.
    RequestEvent,
    Other(Box<Schema>),
    /// The same of `schemas/raw_request.avsc`.
    RawRequest,
    /// Any other with a prompt in place of page ids.
    OtherRaw(Box<Schema>),
    /// A JSON Schema: what it says of the content nobody needs.
    Json,
    Unusable(String),
}

impl WriterSchema {
    /// Takes a schema as its registry gives it. One that is of no use is kept as that, and every
    /// record of it is refused.
    pub fn parse(text: &str) -> Self {
        // First of all: it sets the bound of what apache-avro may allocate.
        schema::request_event();
        let unusable = |why: &str| Self(FieldLayout::Unusable(format!("the writer's schema {why}")));
        let Ok(writer) = Schema::parse_str(text) else { return unusable("is no avro schema") };
        let Schema::Record(record) = &writer else { return unusable("is no record") };
        let has = |field| record.lookup.contains_key(field);
        let is_raw = has("prompt") && !has("page_ids");
        if is_recursive(&writer, &mut Vec::new()) {
            return unusable("is recursive");
        }
        let lies_as = |ours: &Schema| fields(&writer) == fields(ours);
        Self(match is_raw {
            false if lies_as(schema::request_event()) => FieldLayout::RequestEvent,
            false => FieldLayout::Other(Box::new(writer)),
            true if lies_as(schema::raw_request()) => FieldLayout::RawRequest,
            true => FieldLayout::OtherRaw(Box::new(writer)),
        })
    }

    /// A schema that is there and cannot be used, because of this.
    pub fn unusable(why: impl Into<String>) -> Self {
        Self(FieldLayout::Unusable(why.into()))
    }

    /// A JSON Schema.
    pub fn json() -> Self {
        Self(FieldLayout::Json)
    }

    /// Whether records of it are JSON.
    pub(super) fn is_json(&self) -> bool {
        matches!(self.0, FieldLayout::Json)
    }

    /// Reads a record whose content begins at `start`. `resolved` keeps what does not lie in the record.
    pub(super) fn read<'a>(
        &self,
        record: &'a [u8],
        start: usize,
        limits: &DecodeLimits,
        buffers: &'a mut IdBuffers,
        resolved: &'a mut ResolvedEvent,
    ) -> Result<RequestMessage<'a>, DecodeError> {
        match &self.0 {
            FieldLayout::RequestEvent => avro::read_datum(record, start, limits, buffers),
            FieldLayout::Other(writer) => {
                let value = resolve(writer, schema::request_event(), &record[start..])?;
                *resolved = ResolvedEvent::take(value).ok_or_else(|| refused(NotWhole::Unfit))?;
                resolved.message()
            }
            FieldLayout::Json => json::read(&record[start..], limits, buffers),
            FieldLayout::RawRequest | FieldLayout::OtherRaw(_) => {
                let detail = "the writer's schema is one of raw requests, which kvset prepare reads";
                Err(DecodeError::new(ErrorCode::UnknownSchema, detail))
            }
            FieldLayout::Unusable(why) => Err(DecodeError::new(ErrorCode::UnknownSchema, why.clone())),
        }
    }

    /// Reads a raw request that begins at `start`; `None` where the schema is of something else. `rewritten` keeps
    /// what does not lie in the record.
    pub(super) fn read_raw<'a>(
        &self,
        record: &'a [u8],
        start: usize,
        rewritten: &'a mut Vec<u8>,
    ) -> Option<Result<RawRequest<'a>, DecodeError>> {
        match &self.0 {
            FieldLayout::RawRequest => Some(raw::read_datum(record, start)),
            FieldLayout::OtherRaw(writer) => Some(rewrite(writer, &record[start..]).and_then(|datum| {
                *rewritten = datum;
                raw::read_datum(rewritten, 0)
            })),
            FieldLayout::RequestEvent | FieldLayout::Other(_) | FieldLayout::Json => None,
            FieldLayout::Unusable(why) => Some(Err(DecodeError::new(ErrorCode::UnknownSchema, why.clone()))),
        }
    }
}

/// Names and types of a record's fields: what decides how its data lie.
fn fields(schema: &Schema) -> Option<Vec<(&str, String)>> {
    let Schema::Record(record) = schema else { return None };
    let layout = |schema: &Schema| schema::canonical_form(schema);
    Some(record.fields.iter().map(|field| (field.name.as_str(), layout(&field.schema))).collect())
}

fn resolve(writer: &Schema, ours: &Schema, datum: &[u8]) -> Result<Value, DecodeError> {
    read_whole(writer, ours, datum).map_err(refused)
}

fn refused(reason: NotWhole) -> DecodeError {
    DecodeError::new(ErrorCode::Undecodable, format!("avro: {reason}"))
}

/// The datum of a raw request of another schema as one of ours.
fn rewrite(writer: &Schema, datum: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let value = resolve(writer, schema::raw_request(), datum)?;
    let writer = GenericDatumWriter::builder(schema::raw_request()).build();
    writer.and_then(|writer| writer.write_value_to_vec(value)).map_err(|_| refused(NotWhole::Unfit))
}

/// Why it is not known what the name of a schema stands for. No record is refused for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The program stops, so nobody waits for the registry any longer.
    #[error("stopped while waiting for the schema registry")]
    Stopped,
    /// The registry, or the connection to it, refuses: waiting would not help.
    #[error("{0}")]
    Refused(String),
}

/// Where writers' schemas are found.
pub trait WriterSchemas: fmt::Debug + Send + Sync {
    /// The schema of this name, waited for as long as it takes; `None` when there is none.
    ///
    /// # Errors
    /// It cannot be known; the record is to be kept.
    fn find(&self, schema: SchemaRef) -> Result<Option<Arc<WriterSchema>>, LookupError>;
}
