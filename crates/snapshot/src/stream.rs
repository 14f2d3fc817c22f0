//! Reading a snapshot as a stream, so that a restore holds the state once, not the file alongside it.
//!
//! A state in one file is read twice: once to compare its checksum, once to decode it. The second time it comes out of
//! the page cache. A large one is read once, part by part. No byte reaches a decoder before its checksum was compared.

use super::assembled::{OpenParts, PartsReader};
use super::capture::BodyError;
use super::contents::Contents;
use super::format::{BodyCheck, FormatError, Header, MAX_HEADER_BYTES, decode_header};
use postcard::de_flavors::Flavor;
use serde::de::DeserializeOwned;
use std::io::{self, Read, SeekFrom};

/// Bytes read at once: some of the reader's chunks, and within the processor's cache.
const BUFFER_BYTES: usize = 1 << 18;

pub use super::source::{ByteSource, ReadError};

/// Reads a header; the source then stands at some place behind it.
///
/// # Errors
/// [`ReadError::Io`], [`ReadError::Format`].
pub fn read_header(source: &mut dyn ByteSource) -> Result<Header, ReadError> {
    let file_bytes = source.seek(SeekFrom::End(0)).map_err(ReadError::Io)?;
    source.rewind().map_err(ReadError::Io)?;
    let mut head = Vec::with_capacity(MAX_HEADER_BYTES);
    source.take(MAX_HEADER_BYTES as u64).read_to_end(&mut head).map_err(ReadError::Io)?;
    Ok(decode_header(&head, file_bytes)?)
}

/// A snapshot whose file matched its checksums; made by [`Verified::read`] only. The parts of a large state are
/// compared with theirs when they are read.
pub struct Verified {
    header: Header,
    state: StreamState,
}

/// Where a state's bytes are.
enum StreamState {
    /// Behind the header.
    Behind(Box<dyn ByteSource>),
    /// In files of parts.
    InParts(PartsReader),
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verified").field("header", &self.header).finish_non_exhaustive()
    }
}

impl Verified {
    /// Reads a whole snapshot file and compares its checksums; `open` opens the parts files it may name.
    ///
    /// # Errors
    /// [`ReadError::Io`], [`ReadError::Format`].
    pub fn read(mut source: Box<dyn ByteSource>, open: OpenParts) -> Result<Self, ReadError> {
        let header = read_header(&mut *source)?;
        if header.is_in_parts {
            let contents = read_contents(&mut *source, &header)?;
            let state = StreamState::InParts(PartsReader::open(contents, open)?);
            return Ok(Self { header, state });
        }
        source.seek(SeekFrom::Start(header.header_bytes)).map_err(ReadError::Io)?;
        let mut check = BodyCheck::new(&header);
        let mut body = Read::take(&mut source, header.body_bytes);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => check.update(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
        check.finish()?;
        Ok(Self { header, state: StreamState::Behind(source) })
    }

    /// The same of a file by itself: no parts files are alongside it.
    ///
    /// # Errors
    /// As for [`Verified::read`].
    pub fn alone(source: Box<dyn ByteSource>) -> Result<Self, ReadError> {
        Self::read(source, Box::new(|_| Err(io::ErrorKind::NotFound.into())))
    }

    /// What the snapshot says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Compares what was not compared yet.
    ///
    /// # Errors
    /// [`ReadError::Io`], [`ReadError::Format`].
    pub fn check(self) -> Result<(), ReadError> {
        match self.state {
            StreamState::Behind(_) => Ok(()),
            StreamState::InParts(parts) => parts.check(),
        }
    }

    /// The state's bytes, as they were captured.
    ///
    /// # Errors
    /// [`ReadError::Io`], [`ReadError::Format`].
    pub fn state(self) -> Result<Vec<u8>, ReadError> {
        let bytes = self.header.state_bytes;
        let mut state = Vec::new();
        self.into_reader()?.take(bytes).read_to_end(&mut state)?;
        Ok(state)
    }

    /// Whoever reads the state's bytes, from the first on.
    fn into_reader(self) -> Result<Box<dyn Read>, ReadError> {
        match self.state {
            StreamState::Behind(mut source) => {
                source.seek(SeekFrom::Start(self.header.header_bytes)).map_err(ReadError::Io)?;
                Ok(Box::new(source))
            }
            StreamState::InParts(parts) => Ok(Box::new(parts.into_reader()?)),
        }
    }

    /// Decodes the state that was [captured](super::capture).
    ///
    /// # Errors
    /// [`ReadError::Io`], [`ReadError::Format`], [`ReadError::Body`].
    pub fn restore<T: DeserializeOwned>(self) -> Result<T, ReadError> {
        let left = self.header.state_bytes;
        let mut failure = None;
        let stream = Stream {
            source: self.into_reader()?,
            left,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            failure: &mut failure,
        };
        let result = decode(stream);
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(result?),
        }
    }
}

/// The list of parts that is a snapshot's body, its checksum compared.
///
/// # Errors
/// [`ReadError::Io`], [`ReadError::Format`].
pub(super) fn read_contents(source: &mut dyn ByteSource, header: &Header) -> Result<Contents, ReadError> {
    source.seek(SeekFrom::Start(header.header_bytes)).map_err(ReadError::Io)?;
    let mut body = Vec::new();
    Read::take(&mut *source, header.body_bytes).read_to_end(&mut body).map_err(ReadError::Io)?;
    let mut check = BodyCheck::new(header);
    check.update(&body);
    check.finish()?;
    let malformed = |field| FormatError::ContentsMalformed { field };
    Ok(Contents::decode(&body, header.state_bytes).map_err(malformed)?)
}

fn decode<T: DeserializeOwned>(stream: Stream<'_>) -> Result<T, BodyError> {
    let mut decoder = postcard::Deserializer::from_flavor(stream);
    let state = T::deserialize(&mut decoder).map_err(BodyError::Decode)?;
    match decoder.finalize().map_err(BodyError::Decode)? {
        0 => Ok(state),
        rest => Err(BodyError::Trailing(rest)),
    }
}

/// The body as postcard asks for it: single bytes and short runs out of a buffer.
struct Stream<'a> {
    source: Box<dyn Read>,
    /// Bytes of the body not yet in the buffer.
    left: u64,
    buffer: Vec<u8>,
    /// What the buffer holds lies between `start` and `end`.
    start: usize,
    end: usize,
    /// Why reading ended early; postcard's own errors have no room for it.
    failure: &'a mut Option<io::Error>,
}

impl Stream<'_> {
    /// Makes the buffer hold at least `count` bytes.
    fn fill(&mut self, count: usize) -> postcard::Result<()> {
        let held = self.end - self.start;
        if count as u64 > held as u64 + self.left {
            return Err(postcard::Error::DeserializeUnexpectedEnd);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, held);
        if count > self.buffer.len() {
            self.buffer.resize(count, 0);
        }
        let room = (self.buffer.len() - held) as u64;
        let wanted = room.min(self.left) as usize;
        if let Err(error) = self.source.read_exact(&mut self.buffer[held..held + wanted]) {
            *self.failure = Some(error);
            return Err(postcard::Error::DeserializeUnexpectedEnd);
        }
        self.end += wanted;
        self.left -= wanted as u64;
        Ok(())
    }
}

impl<'de> Flavor<'de> for Stream<'de> {
    /// Bytes that remain behind the state.
    type Remainder = u64;
    type Source = ();

    fn pop(&mut self) -> postcard::Result<u8> {
        if self.start == self.end {
            self.fill(1)?;
        }
        let byte = self.buffer[self.start];
        self.start += 1;
        Ok(byte)
    }

    fn size_hint(&self) -> Option<usize> {
        usize::try_from(self.left).ok()?.checked_add(self.end - self.start)
    }

    /// A stream lends nothing for longer than its next read; owned states ask for none.
    fn try_take_n(&mut self, _: usize) -> postcard::Result<&'de [u8]> {
        Err(postcard::Error::WontImplement)
    }

    fn try_take_n_temp<'a>(&'a mut self, count: usize) -> postcard::Result<&'a [u8]>
    where
        'de: 'a,
    {
        if self.end - self.start < count {
            self.fill(count)?;
        }
        self.start += count;
        Ok(&self.buffer[self.start - count..self.start])
    }

    fn finalize(self) -> postcard::Result<u64> {
        Ok(self.left + (self.end - self.start) as u64)
    }
}
