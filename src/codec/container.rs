//! Avro object container files of request events, for replaying a recorded topic.

use super::error::DecodeError;
use super::limits::DecodeLimits;
use super::message::{Decoded, RequestMessage};
use super::schema;
use crate::core::pages::PageIds;
use apache_avro::error::Details;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::schema::Name;
use apache_avro::types::Value;
use apache_avro::{Reader, Schema};
use std::borrow::Cow;
use std::io::{BufReader, Chain, Cursor, Read};

/// Streams request events out of an Avro object container file, one block in memory at a time.
///
/// The file's own schema may be any that resolves to `schemas/request_event.avsc`. Blocks may be
/// plain or compressed with deflate, snappy or zstandard, and hold at most 64 MiB.
pub struct ContainerReader<R: Read> {
    values: Reader<'static, Chain<Cursor<Vec<u8>>, BufReader<R>>>,
    limits: DecodeLimits,
    default_pool: String,
    events: u64,
    current: Option<Owned>,
}

/// Why a container cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The file's head is not that of a readable container.
    #[error("not a readable avro container: {reason}")]
    Header {
        /// What is wrong with it.
        reason: String,
    },
    /// The file breaks off, a block is damaged, or its schema does not resolve.
    #[error("the avro container cannot be read beyond event {event}: {reason}")]
    Broken {
        /// Events read before, and so the index of the first one lost.
        event: u64,
        /// What is wrong there.
        reason: String,
    },
}

/// The fields of one event, taken out of apache-avro's tree of values; ids packed.
#[derive(Default)]
struct Owned {
    event_time: i64,
    page_ids: Vec<u8>,
    pool: Option<String>,
    page_size: Option<i32>,
    output_page_ids: Vec<u8>,
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    duration_ms: Option<i64>,
    scope: Option<String>,
}

impl<R: Read> ContainerReader<R> {
    /// Opens a container. Events that name no pool belong to `default_pool`.
    ///
    /// # Errors
    /// [`ContainerError::Header`] when the head is not that of a container, or names a codec or a
    /// schema that cannot be read.
    pub fn open(input: R, limits: DecodeLimits, default_pool: &str) -> Result<Self, ContainerError> {
        let expected = schema::request_event();
        let mut input = Recorder { input: BufReader::new(input), seen: Vec::new() };
        check_head(&mut input)?;
        let whole = Cursor::new(input.seen).chain(input.input);
        let values = Reader::builder(whole).reader_schema(expected).build();
        let values = values.map_err(|error| header(reason(&error, "its schema does not parse")))?;
        if is_recursive(values.writer_schema(), &mut Vec::new()) {
            return Err(header("its schema is recursive"));
        }
        Ok(Self { values, limits, default_pool: default_pool.to_owned(), events: 0, current: None })
    }

    /// Events read so far, refused ones included.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The next event: `None` at the end of the file, an inner error where one event is refused and
    /// reading can go on.
    ///
    /// # Errors
    /// [`ContainerError::Broken`] when nothing further can be read.
    pub fn next_event(&mut self) -> Result<Option<Result<Decoded<'_>, DecodeError>>, ContainerError> {
        let event = self.events;
        let broken = |reason: String| ContainerError::Broken { event, reason };
        let value = match self.values.next() {
            None => return Ok(None),
            Some(Ok(value)) => value,
            Some(Err(error)) => return Err(broken(reason(&error, "damaged, or of another schema"))),
        };
        self.events += 1;
        let owned = Owned::take(value).ok_or_else(|| broken("of another schema".to_owned()))?;
        let owned = self.current.insert(owned);
        let message = owned.message(&self.default_pool).ok_or_else(|| {
            DecodeError::new(super::ErrorCode::Undecodable, "avro: packed ids of no multiple of eight bytes")
        });
        Ok(Some(message.and_then(|message| self.limits.admit(None, message))))
    }
}

impl Owned {
    /// Takes the fields out of a value resolved to the request event's schema.
    fn take(value: Value) -> Option<Self> {
        let Value::Record(fields) = value else { return None };
        let mut owned = Self::default();
        for (name, value) in fields {
            let value = if let Value::Union(_, inner) = value { *inner } else { value };
            match name.as_str() {
                "event_time" => owned.event_time = long(value)??,
                "page_ids" => owned.page_ids = packed(value)?,
                "pool" => owned.pool = text(value)?,
                "page_size" => owned.page_size = int(value)?,
                "output_page_ids" => owned.output_page_ids = packed(value)?,
                "input_tokens" => owned.input_tokens = long(value)?,
                "output_tokens" => owned.output_tokens = long(value)?,
                "duration_ms" => owned.duration_ms = long(value)?,
                "scope" => owned.scope = text(value)?,
                _ => {}
            }
        }
        Some(owned)
    }

    fn message<'a>(&'a self, default_pool: &'a str) -> Option<RequestMessage<'a>> {
        Some(RequestMessage {
            event_time: self.event_time,
            page_ids: PageIds::from_packed(&self.page_ids)?,
            pool: Some(Cow::Borrowed(self.pool.as_deref().unwrap_or(default_pool))),
            page_size: self.page_size,
            output_page_ids: PageIds::from_packed(&self.output_page_ids)?,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            duration_ms: self.duration_ms,
            scope: self.scope.as_deref().map(Cow::Borrowed),
            request_id: None,
        })
    }
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

/// Remembers what was read, so that the head can be looked at and then read again.
struct Recorder<R> {
    input: R,
    seen: Vec<u8>,
}

impl<R: Read> Read for Recorder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.seen.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

/// Looks at magic and metadata before apache-avro does: it indexes an empty compression level.
fn check_head(input: &mut impl Read) -> Result<(), ContainerError> {
    let mut magic = [0; 4];
    input.read_exact(&mut magic).map_err(|error| header(format!("no magic bytes: {error}")))?;
    if magic != *b"Obj\x01" {
        return Err(header("it does not begin with the magic bytes Obj 1"));
    }
    let metadata_schema = Schema::map(Schema::Bytes).build();
    let metadata = GenericDatumReader::builder(&metadata_schema).build().and_then(|m| m.read_value(input));
    let metadata = metadata.map_err(|error| header(reason(&error, "its metadata is damaged")))?;
    let Value::Map(metadata) = metadata else { return Err(header("its metadata is no map")) };
    match metadata.get("avro.codec.compression_level") {
        Some(Value::Bytes(level)) if level.is_empty() => Err(header("its compression level is empty")),
        _ => Ok(()),
    }
}

fn header(reason: impl Into<String>) -> ContainerError {
    ContainerError::Header { reason: reason.into() }
}

/// What apache-avro's error says of the file or the disk; `otherwise` where its text could quote
/// a payload.
fn reason(error: &apache_avro::Error, otherwise: &str) -> String {
    match error.details() {
        Details::ReadIntoBuf(io)
        | Details::ReadBlockMarker(io)
        | Details::ReadMarker(io)
        | Details::ReadHeader(io)
        | Details::ReadBytes(io)
        | Details::ReadVariableIntegerBytes(io) => format!("reading failed: {io}"),
        Details::CodecNotSupported(_) => "its codec is none of null, deflate, snappy, zstandard".to_owned(),
        Details::MemoryAllocation { maximum, .. } => format!("a part of it is larger than {maximum} bytes"),
        Details::GetBlockMarker => "a block does not end with the file's marker".to_owned(),
        _ => otherwise.to_owned(),
    }
}

/// Whether a record contains itself: values of such a schema nest as deep as a file likes, and are
/// decoded by recursion.
fn is_recursive<'s>(schema: &'s Schema, enclosing: &mut Vec<&'s Name>) -> bool {
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
