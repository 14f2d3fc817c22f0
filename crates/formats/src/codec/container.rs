//! Avro object container files of request events, for replaying a recorded topic.

use super::json;
use super::limits::DecodeLimits;
use super::message::Decoded;
use super::resolved::{ResolvedEvent, is_recursive};
use super::schema;
use crate::watched::Watched;
use apache_avro::error::Details;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::{Reader, Schema};
use kvset_core::request::refusal::DecodeError;
use std::io::{self, BufReader, Chain, Cursor, Read};

/// First bytes of a container.
pub const CONTAINER_MAGIC: [u8; 4] = *b"Obj\x01";

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
        /// Whether the file ends within it.
        is_cut_off: bool,
    },
    /// The file breaks off, a block is damaged, or its schema does not resolve.
    #[error("the avro container cannot be read beyond event {event}: {reason}")]
    Broken {
        /// Events read before, and so the index of the first one lost.
        event: u64,
        /// What is wrong there.
        reason: String,
        /// Whether the file ends within a block, as one does that is being written.
        is_cut_off: bool,
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
            return Err(header(("its schema is recursive".to_owned(), false)));
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
        self.advance()?;
        let (limits, pool) = (&self.limits, &self.default_pool);
        let message = self.current.as_ref().map(ResolvedEvent::message);
        Ok(message.map(|message| message.and_then(|message| limits.admit(None, message.or_pool(pool)))))
    }

    /// Takes the next event, or none at the end.
    fn advance(&mut self) -> Result<(), ContainerError> {
        let event = self.events;
        let broken = |(reason, is_cut_off)| ContainerError::Broken { event, reason, is_cut_off };
        let value = self.values.next().transpose();
        let value = value.map_err(|error| broken(reason(&error, "damaged, or of another schema")))?;
        self.events += u64::from(value.is_some());
        let owned = value.map(|value| ResolvedEvent::take(value).ok_or("of another schema".to_owned()));
        self.current = owned.transpose().map_err(|reason| broken((reason, false)))?;
        Ok(())
    }
}

/// The events of a container as lines of JSON, as they would lie in a file of lines.
///
/// An event that no line can say is a line that tells why, and so is refused as it is where containers are read.
pub struct ContainerLines<R: Read> {
    reader: ContainerReader<R>,
    line: Vec<u8>,
    /// Bytes of the line that were read.
    read: usize,
}

impl<R: Read> ContainerLines<R> {
    /// Opens a container.
    ///
    /// # Errors
    /// As those of [`ContainerReader::open`]; of the kind `UnexpectedEof` where it was cut off.
    pub fn open(input: R) -> io::Result<Self> {
        let reader = ContainerReader::open(input, DecodeLimits::default(), "")?;
        Ok(Self { reader, line: Vec::new(), read: 0 })
    }

    /// Puts the next event in place of the line; leaves none at the end.
    fn fill(&mut self) -> io::Result<()> {
        (self.read, self.line) = (0, std::mem::take(&mut self.line));
        self.line.clear();
        self.reader.advance()?;
        let Some(event) = &self.reader.current else { return Ok(()) };
        match event.message() {
            Ok(message) => json::write(&message, &mut self.line)?,
            Err(refused) => serde_json::to_writer(&mut self.line, &refused.to_string())?,
        }
        self.line.push(b'\n');
        Ok(())
    }
}

impl<R: Read> Read for ContainerLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.line.len() {
            self.fill()?;
        }
        let count = (&self.line[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

impl From<ContainerError> for io::Error {
    fn from(error: ContainerError) -> Self {
        let (ContainerError::Header { is_cut_off, .. } | ContainerError::Broken { is_cut_off, .. }) = error;
        Self::new(if is_cut_off { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData }, error)
    }
}

/// Looks at magic and metadata before apache-avro does: it indexes an empty compression level.
fn check_head(input: &mut impl Read) -> Result<(), ContainerError> {
    let mut magic = [0; 4];
    let no_magic = |error: io::Error| header((format!("no magic bytes: {error}"), is_end(&error)));
    input.read_exact(&mut magic).map_err(no_magic)?;
    let refused = |reason: &str| Err(header((reason.to_owned(), false)));
    if magic != CONTAINER_MAGIC {
        return refused("it does not begin with the magic bytes Obj 1");
    }
    let metadata_schema = Schema::map(Schema::Bytes).build();
    let metadata = GenericDatumReader::builder(&metadata_schema).build().and_then(|m| m.read_value(input));
    let metadata = metadata.map_err(|error| header(reason(&error, "its metadata is damaged")))?;
    let Value::Map(metadata) = metadata else { return refused("its metadata is no map") };
    match metadata.get("avro.codec.compression_level") {
        Some(Value::Bytes(level)) if level.is_empty() => refused("its compression level is empty"),
        _ => Ok(()),
    }
}

fn header((reason, is_cut_off): (String, bool)) -> ContainerError {
    ContainerError::Header { reason, is_cut_off }
}

/// Whether a file ends too early.
fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// What apache-avro's error says of the file or the disk, `otherwise` where its text could quote a payload; and
/// whether it is that the file ends.
fn reason(error: &apache_avro::Error, otherwise: &str) -> (String, bool) {
    let text = match error.details() {
        Details::ReadIntoBuf(io)
        | Details::ReadBlockMarker(io)
        | Details::ReadMarker(io)
        | Details::ReadHeader(io)
        | Details::ReadBytes(io)
        | Details::ReadVariableIntegerBytes(io) => return (format!("reading failed: {io}"), is_end(io)),
        Details::CodecNotSupported(_) => "its codec is none of null, deflate, snappy, zstandard".to_owned(),
        Details::MemoryAllocation { maximum, .. } => format!("a part of it is larger than {maximum} bytes"),
        Details::GetBlockMarker => "a block does not end with the file's marker".to_owned(),
        _ => otherwise.to_owned(),
    };
    (text, false)
}
