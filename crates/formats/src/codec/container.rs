//! Avro object container files of request events, for replaying a recorded topic.

use super::error::DecodeError;
use super::limits::DecodeLimits;
use super::message::Decoded;
use super::resolved::{ResolvedEvent, is_recursive};
use super::schema;
use crate::watched::Watched;
use apache_avro::error::Details;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::{Reader, Schema};
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
    current: Option<ResolvedEvent>,
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

impl<R: Read> ContainerReader<R> {
    /// Opens a container. Events that name no pool belong to `default_pool`.
    ///
    /// # Errors
    /// [`ContainerError::Header`] when the head is not that of a container, or names a codec or a
    /// schema that cannot be read.
    pub fn open(input: R, limits: DecodeLimits, default_pool: &str) -> Result<Self, ContainerError> {
        let expected = schema::request_event();
        // The head is looked at, and then read again.
        let (mut input, mut seen) = (BufReader::new(input), Vec::new());
        check_head(&mut Watched { input: &mut input, watch: |head: &[u8]| seen.extend_from_slice(head) })?;
        let whole = Cursor::new(seen).chain(input);
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
        let owned = ResolvedEvent::take(value).ok_or_else(|| broken("of another schema".to_owned()))?;
        let message = self.current.insert(owned).message();
        let message = message.map(|message| message.or_pool(&self.default_pool));
        Ok(Some(message.and_then(|message| self.limits.admit(None, message))))
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
