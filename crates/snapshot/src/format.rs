//! The bytes of a snapshot file, apart from any file.
//!
//! ```text
//! 0   8  magic                  8   4  format version        12  4  header length H
//! 16  -  fields (postcard)      H-8 8  xxh3-64 of 0..H-8      H   -  body
//! ```
//!
//! The body is the state, or the list of the parts that a large one is kept in ([`Contents`]).
//!
//! Magic, version, header length and the place of the header's checksum are the same in every
//! version, so that a rotten version number is distinguished from another program's file.

use super::contents::{Contents, PartsFile};
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::{Fingerprint, PartitionId, RecordIdentity, SnapshotFact};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// How every snapshot file begins. The last bytes are mangled by transfers that take it for text.
pub const MAGIC: [u8; 8] = *b"kvset\x1a\r\n";

/// The version this program writes and reads.
pub const VERSION: u32 = 1;

/// Longest header of any version, in bytes; so much is read to learn what a file is.
pub const MAX_HEADER_BYTES: usize = 4096;

const VERSION_AT: usize = 8;
const HEADER_BYTES_AT: usize = 12;
const FIELDS_AT: usize = 16;
const CHECKSUM_BYTES: usize = 8;

/// Why bytes are not the snapshot they should be. Positions are bytes from the file's start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Not a snapshot at all.
    #[error(
        "the file does not begin as a snapshot does (bytes 0 to 8): it is another kind of file or its start was \
         overwritten; remove it from the snapshot directory"
    )]
    WrongMagic,
    /// The file ends early.
    #[error(
        "the file ends after {found} bytes of {expected}, inside its {part}: it was cut short; restore it from a \
         copy, or let an older generation or a rebuild from the log take its place"
    )]
    Truncated {
        /// The part the file's end lies in.
        part: &'static str,
        /// Bytes the file should have, as far as is known.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// The file goes on past its end.
    #[error(
        "the file has {extra} bytes after its end at byte {end}: something was appended to it; restore it from a \
         copy, or let an older generation or a rebuild from the log take its place"
    )]
    TrailingBytes {
        /// Where the file should end.
        end: u64,
        /// Bytes after that.
        extra: u64,
    },
    /// The header's bytes changed after they were written.
    #[error(
        "the header does not match its checksum (bytes 0 to {end}): the file is rotten; check the disk, and \
         restore the file from a copy, or let an older generation or a rebuild from the log take its place"
    )]
    HeaderRotten {
        /// Where the header ends, as far as is known.
        end: u64,
    },
    /// The body's bytes changed after they were written.
    #[error(
        "the body does not match its checksum (bytes {start} to {end}): the file is rotten; check the disk, and \
         restore the file from a copy, or let an older generation or a rebuild from the log take its place"
    )]
    BodyRotten {
        /// Where the body begins.
        start: u64,
        /// Where the body ends.
        end: u64,
    },
    /// A file of parts is not where it should be.
    #[error(
        "the parts file {file} that the snapshot names is not next to it: it was removed or not copied along; restore \
         it from a copy, or let an older generation or a rebuild from the log take its place"
    )]
    PartsGone {
        /// Its name.
        file: PartsFile,
    },
    /// A part's bytes changed after they were written.
    #[error(
        "the parts file {file} does not match its checksum (bytes {start} to {end}): the file is rotten; check the \
         disk, and restore the file from a copy, or let an older generation or a rebuild from the log take its place"
    )]
    PartRotten {
        /// Its name.
        file: PartsFile,
        /// Where the part begins.
        start: u64,
        /// Where it ends.
        end: u64,
    },
    /// Written by another program.
    #[error(
        "the file has format version {found} (bytes 8 to 12) and this program reads version {VERSION}: run the program \
         that wrote it, or remove the file to rebuild from the log"
    )]
    OtherVersion {
        /// The file's version.
        found: u32,
    },
    /// The checksum is right and the fields make no sense: no release of this program wrote them.
    #[error(
        "the header's {field} makes no sense (bytes 16 to {end}) though its checksum is right: no release of this \
         program wrote it; remove the file"
    )]
    Malformed {
        /// The offending field.
        field: &'static str,
        /// Where the header ends.
        end: u64,
    },
    /// The same of a list of parts.
    #[error(
        "the snapshot's {field} makes no sense though its checksum is right: no release of this program wrote it; \
         remove the file"
    )]
    ContentsMalformed {
        /// What of it.
        field: &'static str,
    },
    /// Made under another configuration.
    #[error(
        "the snapshot was made under configuration {found} and the service runs under {expected}: state is never \
         reinterpreted; go back to the former configuration, or let the state be rebuilt from the log"
    )]
    WrongConfiguration {
        /// The file's fingerprint.
        found: Fingerprint,
        /// The service's fingerprint.
        expected: Fingerprint,
    },
    /// The state of another partition.
    #[error(
        "the snapshot holds the state of partition {found} and stands where that of {expected} belongs: it was \
         copied or renamed by hand; move it to the directory of its own partition"
    )]
    WrongPartition {
        /// The partition the header names.
        found: Box<PartitionId>,
        /// The partition requested.
        expected: Box<PartitionId>,
    },
    /// The file's name says another offset than its header.
    #[error(
        "the snapshot's next offset is {found} and its name says {expected}: it was renamed by hand; give it the \
         name of its own offset"
    )]
    WrongOffset {
        /// The header's next offset.
        found: NextOffset,
        /// The offset in the name.
        expected: NextOffset,
    },
}

impl FormatError {
    /// Whether the bytes are of no use to anyone, so that the file may be set aside. False where the
    /// file is sound and merely not the one wanted.
    pub fn is_corrupt(&self) -> bool {
        match self {
            Self::WrongMagic
            | Self::Truncated { .. }
            | Self::TrailingBytes { .. }
            | Self::HeaderRotten { .. }
            | Self::BodyRotten { .. }
            | Self::PartsGone { .. }
            | Self::PartRotten { .. }
            | Self::Malformed { .. }
            | Self::ContentsMalformed { .. } => true,
            Self::OtherVersion { .. }
            | Self::WrongConfiguration { .. }
            | Self::WrongPartition { .. }
            | Self::WrongOffset { .. } => false,
        }
    }
}

/// A state captured at a committed offset, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Whose state it is.
    pub partition: PartitionId,
    /// Where in the log it stands and what made it.
    pub fact: SnapshotFact,
    /// The task's own bytes.
    pub body: StateBody,
}

/// A state's bytes, as a store is given them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateBody {
    /// All of them, for one file.
    Whole(Vec<u8>),
    /// What no file has yet, and where everything is.
    InParts(InParts),
}

/// A large state: its new parts, and the list of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InParts {
    /// The new parts, as their file holds them.
    pub fresh: Vec<u8>,
    /// That file; `None` where nothing is new.
    pub file: Option<PartsFile>,
    /// Whether nothing written before is referred to: parts that no generation refers to can go first.
    pub is_first: bool,
    /// All parts. `None` while there are more new ones than one capture holds: these are written ahead, and there is
    /// no snapshot yet.
    pub contents: Option<Contents>,
    /// Bytes of the state, as far as it was captured.
    pub state_bytes: u64,
}

impl StateBody {
    /// Bytes of the state.
    pub fn state_bytes(&self) -> u64 {
        match self {
            Self::Whole(state) => state.len() as u64,
            Self::InParts(parts) => parts.state_bytes,
        }
    }

    /// Whether a snapshot can be made of it.
    pub fn is_complete(&self) -> bool {
        !matches!(self, Self::InParts(InParts { contents: None, .. }))
    }

    /// The memory it lies in, to be used again.
    pub fn into_buffer(self) -> Vec<u8> {
        match self {
            Self::Whole(buffer) | Self::InParts(InParts { fresh: buffer, .. }) => buffer,
        }
    }
}

impl From<Vec<u8>> for StateBody {
    fn from(state: Vec<u8>) -> Self {
        Self::Whole(state)
    }
}

/// What a file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The file's format version.
    pub version: u32,
    /// Whose state it is.
    pub partition: PartitionId,
    /// Where in the log it stands and what made it.
    pub fact: SnapshotFact,
    /// Bytes of the header, where the body begins.
    pub header_bytes: u64,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// The body's xxh3-64.
    pub body_checksum: u64,
    /// Bytes of the state.
    pub state_bytes: u64,
    /// Whether the body is the state's list of parts.
    pub is_in_parts: bool,
}

/// The fields of a header, in the order they are written. Frozen: a change is a new version.
#[derive(Serialize, Deserialize)]
struct HeaderFields<'a> {
    fingerprint: u64,
    topic: &'a str,
    partition: i32,
    next_offset: i64,
    last_record: Option<RecordIdentity>,
    body_bytes: u64,
    body_checksum: u64,
    /// Bytes of the state, where the body is the list of its parts.
    in_parts: Option<u64>,
}

impl Snapshot {
    /// What follows the header in the file: the state, or the list of its parts.
    ///
    /// # Errors
    /// [`FormatError::ContentsMalformed`] where not all parts are known yet.
    pub fn body(&self) -> Result<Cow<'_, [u8]>, FormatError> {
        let malformed = || FormatError::ContentsMalformed { field: "list of parts" };
        match &self.body {
            StateBody::Whole(state) => Ok(Cow::Borrowed(state)),
            StateBody::InParts(parts) => {
                let contents = parts.contents.as_ref().ok_or_else(malformed)?;
                contents.encode().map(Cow::Owned).map_err(|_| malformed())
            }
        }
    }

    /// The snapshot's own file.
    ///
    /// # Errors
    /// As for [`Snapshot::body`] and [`Snapshot::header`].
    pub fn file(&self) -> Result<Vec<u8>, FormatError> {
        let body = self.body()?;
        Ok([&self.header(&body)?[..], &body].concat())
    }

    /// The header's bytes; `body` follows them in the file.
    ///
    /// # Errors
    /// [`FormatError::Malformed`] when [`decode_header`] would refuse what the snapshot says.
    pub fn header(&self, body: &[u8]) -> Result<Vec<u8>, FormatError> {
        let fields = HeaderFields {
            fingerprint: self.fact.fingerprint.0,
            topic: self.partition.topic(),
            partition: self.partition.partition(),
            next_offset: self.fact.next_offset.0,
            last_record: self.fact.last_record,
            body_bytes: body.len() as u64,
            body_checksum: xxh3_64(body),
            in_parts: match &self.body {
                StateBody::Whole(_) => None,
                StateBody::InParts(parts) => Some(parts.state_bytes),
            },
        };
        let malformed = |field| FormatError::Malformed { field, end: FIELDS_AT as u64 };
        offsets_fit(&self.fact).map_err(malformed)?;
        let mut header = Vec::with_capacity(MAX_HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend([0; 4]);
        let mut header = postcard::to_extend(&fields, header).map_err(|_| malformed("length"))?;
        let length = (header.len() + CHECKSUM_BYTES) as u32;
        header[HEADER_BYTES_AT..FIELDS_AT].copy_from_slice(&length.to_le_bytes());
        header.extend(xxh3_64(&header).to_le_bytes());
        Ok(header)
    }
}

/// The state has seen every record before its next offset, and no other.
fn offsets_fit(fact: &SnapshotFact) -> Result<(), &'static str> {
    if fact.next_offset.0 < 0 {
        return Err("next offset");
    }
    match fact.last_record {
        Some(last) if !(0..fact.next_offset.0).contains(&last.offset.0) => Err("last record's offset"),
        _ => Ok(()),
    }
}

/// Reads the header of a file of `file_bytes` bytes from its first [`MAX_HEADER_BYTES`] (or all) bytes.
///
/// # Errors
/// Every [`FormatError`] but those of the body and of what the caller expects.
pub fn decode_header(head: &[u8], file_bytes: u64) -> Result<Header, FormatError> {
    let known = head.len().min(MAGIC.len());
    if head[..known] != MAGIC[..known] {
        return Err(FormatError::WrongMagic);
    }
    let truncated = |expected| FormatError::Truncated { part: "header", expected, found: head.len() as u64 };
    let (Some(version), Some(length)) = (u32_at(head, VERSION_AT), u32_at(head, HEADER_BYTES_AT)) else {
        return Err(truncated((FIELDS_AT + CHECKSUM_BYTES) as u64));
    };
    let end = length as usize;
    if !(FIELDS_AT + CHECKSUM_BYTES..=MAX_HEADER_BYTES).contains(&end) {
        return Err(FormatError::HeaderRotten { end: FIELDS_AT as u64 });
    }
    let header = head.get(..end).ok_or_else(|| truncated(u64::from(length)))?;
    let (covered, checksum) = header.split_at(end - CHECKSUM_BYTES);
    if xxh3_64(covered).to_le_bytes() != *checksum {
        return Err(FormatError::HeaderRotten { end: end as u64 });
    }
    match version {
        VERSION => decode_fields(covered, end as u64, file_bytes),
        found => Err(FormatError::OtherVersion { found }),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*four))
}

fn decode_fields(covered: &[u8], end: u64, file_bytes: u64) -> Result<Header, FormatError> {
    let malformed = |field| FormatError::Malformed { field, end };
    let (fields, rest) = postcard::take_from_bytes::<HeaderFields<'_>>(&covered[FIELDS_AT..])
        .map_err(|_| malformed("layout"))?;
    if !rest.is_empty() {
        return Err(malformed("layout"));
    }
    let header = Header {
        version: VERSION,
        partition: PartitionId::new(fields.topic, fields.partition).map_err(|_| malformed("partition"))?,
        fact: SnapshotFact {
            next_offset: NextOffset(fields.next_offset),
            fingerprint: Fingerprint(fields.fingerprint),
            last_record: fields.last_record,
        },
        header_bytes: end,
        body_bytes: fields.body_bytes,
        body_checksum: fields.body_checksum,
        state_bytes: fields.in_parts.unwrap_or(fields.body_bytes),
        is_in_parts: fields.in_parts.is_some(),
    };
    offsets_fit(&header.fact).map_err(malformed)?;
    let expected = end.checked_add(header.body_bytes).ok_or_else(|| malformed("body length"))?;
    match file_bytes.checked_sub(expected) {
        Some(0) => Ok(header),
        Some(extra) => Err(FormatError::TrailingBytes { end: expected, extra }),
        None => Err(FormatError::Truncated { part: "body", expected, found: file_bytes }),
    }
}

impl Header {
    /// Bytes of the snapshot's own file.
    pub fn file_bytes(&self) -> u64 {
        self.header_bytes + self.body_bytes
    }

    /// Checks that the state is that of `partition`, under `name`'s next offset.
    ///
    /// # Errors
    /// [`FormatError::WrongPartition`], [`FormatError::WrongOffset`].
    pub fn require_place(&self, partition: &PartitionId, name: NextOffset) -> Result<(), FormatError> {
        if self.partition != *partition {
            return Err(FormatError::WrongPartition {
                found: Box::new(self.partition.clone()),
                expected: Box::new(partition.clone()),
            });
        }
        if self.fact.next_offset != name {
            return Err(FormatError::WrongOffset { found: self.fact.next_offset, expected: name });
        }
        Ok(())
    }

    /// Checks that the state was made under the configuration `expected`.
    ///
    /// # Errors
    /// [`FormatError::WrongConfiguration`].
    pub fn require_fingerprint(&self, expected: Fingerprint) -> Result<(), FormatError> {
        let found = self.fact.fingerprint;
        if found == expected { Ok(()) } else { Err(FormatError::WrongConfiguration { found, expected }) }
    }
}

/// Compares a body with its header's checksum as it comes in.
pub struct BodyCheck<'a> {
    header: &'a Header,
    hasher: Xxh3,
    found: u64,
}

impl<'a> BodyCheck<'a> {
    /// A check of the body that follows `header`.
    pub fn new(header: &'a Header) -> Self {
        Self { header, hasher: Xxh3::new(), found: 0 }
    }

    /// The body's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.found += bytes.len() as u64;
    }

    /// The verdict, after the last bytes.
    ///
    /// # Errors
    /// [`FormatError::Truncated`], [`FormatError::BodyRotten`].
    pub fn finish(self) -> Result<(), FormatError> {
        let Header { header_bytes: start, body_bytes, body_checksum, .. } = *self.header;
        let end = self.header.file_bytes();
        if self.found < body_bytes {
            return Err(FormatError::Truncated { part: "body", expected: end, found: start + self.found });
        }
        if self.hasher.digest() != body_checksum {
            return Err(FormatError::BodyRotten { start, end });
        }
        Ok(())
    }
}
