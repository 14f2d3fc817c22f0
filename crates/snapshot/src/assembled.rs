//! A large state's bytes, read part by part out of the files they lie in.

use super::contents::{Contents, PartExtent, PartHash, PartsFile};
use super::format::FormatError;
use super::source::{ByteSource, ReadError};
use std::io::{self, Read, SeekFrom};
use std::sync::mpsc::{Receiver, sync_channel};

/// Parts that are read ahead of whoever decodes them.
const AHEAD: usize = 64;

/// Opens a parts file of the snapshot's own store.
pub type OpenParts = Box<dyn FnMut(&PartsFile) -> io::Result<Box<dyn ByteSource>> + Send>;

/// The parts of a state, and their files.
pub(super) struct PartsReader {
    extents: std::vec::IntoIter<PartExtent>,
    /// Each with where it was left.
    files: Vec<(PartsFile, Box<dyn ByteSource>, u64)>,
}

impl PartsReader {
    /// Opens all files.
    ///
    /// # Errors
    /// [`FormatError::PartsGone`], [`ReadError::Io`].
    pub(super) fn open(contents: Contents, mut open: OpenParts) -> Result<Self, ReadError> {
        let opened = |name: PartsFile| match open(&name) {
            Ok(source) => Ok((name, source, 0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(FormatError::PartsGone { file: name }.into())
            }
            Err(error) => Err(in_file(name, &error)),
        };
        let files = contents.files.into_iter().map(opened).collect::<Result<_, _>>()?;
        Ok(Self { extents: contents.extents.into_iter(), files })
    }

    /// Reads all parts there are left, and lets go of them.
    ///
    /// # Errors
    /// [`FormatError::PartRotten`], [`ReadError::Io`].
    pub(super) fn check(mut self) -> Result<(), ReadError> {
        let mut part = Vec::new();
        while self.next_into(&mut part)? {}
        Ok(())
    }

    /// All bytes in order. A thread reads and compares parts while those before are decoded.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn into_reader(mut self) -> Result<impl Read, ReadError> {
        let (send, parts) = sync_channel(AHEAD);
        let read_ahead = move || {
            loop {
                let mut part = Vec::new();
                let read = match self.next_into(&mut part) {
                    Ok(false) => return,
                    Ok(true) => Ok(part),
                    Err(error) => Err(error),
                };
                let is_last = read.is_err();
                if send.send(read).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("kvset-restore".to_owned());
        // It ends with the last part, or when nobody wants another.
        thread.spawn(read_ahead).map_err(ReadError::Io)?;
        Ok(ReadAhead { parts, part: Vec::new(), taken: 0 })
    }

    /// Reads the next part and compares it with its hash; false when there is none.
    fn next_into(&mut self, part: &mut Vec<u8>) -> Result<bool, ReadError> {
        let Some(PartExtent { file, at, bytes, hash }) = self.extents.next() else { return Ok(false) };
        let (name, source, left_at) = &mut self.files[file as usize];
        if *left_at != at {
            source.seek(SeekFrom::Start(at)).map_err(|error| in_file(*name, &error))?;
        }
        let end = at + u64::from(bytes);
        let rotten = || ReadError::Format(FormatError::PartRotten { file: *name, start: at, end });
        part.resize(bytes as usize, 0);
        source.read_exact(part).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => rotten(),
            _ => in_file(*name, &error),
        })?;
        *left_at = end;
        if PartHash::of(part) == hash { Ok(true) } else { Err(rotten()) }
    }
}

/// An error of the system, with the parts file it happened in.
fn in_file(name: PartsFile, error: &io::Error) -> ReadError {
    ReadError::Io(io::Error::new(error.kind(), format!("parts file {name}: {error}")))
}

/// Parts that a thread has read, as one run of bytes.
struct ReadAhead {
    parts: Receiver<Result<Vec<u8>, ReadError>>,
    part: Vec<u8>,
    /// Bytes of the part handed on.
    taken: usize,
}

impl Read for ReadAhead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.part.len() {
            // Nobody sends any more: the end, or a thread that panicked, whose state ends too early.
            let Ok(part) = self.parts.recv() else { return Ok(0) };
            (self.part, self.taken) = (part?, 0);
        }
        let count = out.len().min(self.part.len() - self.taken);
        out[..count].copy_from_slice(&self.part[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
