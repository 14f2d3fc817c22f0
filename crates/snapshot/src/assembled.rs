//! A large state's bytes, read part by part out of the files they lie in.

use super::contents::{Contents, Extent, PartHash, PartsFile};
use super::format::FormatError;
use super::source::{ReadError, Source};
use std::io::{self, Read, SeekFrom};

/// Opens a parts file of the snapshot's own store.
pub type OpenParts = Box<dyn FnMut(&PartsFile) -> io::Result<Box<dyn Source>> + Send>;

/// Reads the parts one after another. None of a part's bytes is handed on before all of them match its hash.
pub(super) struct Assembled {
    contents: Contents,
    open: OpenParts,
    /// The files, once they were asked for, and where each was left.
    files: Vec<Option<(Box<dyn Source>, u64)>>,
    /// Parts read.
    next: usize,
    part: Vec<u8>,
    /// Bytes of the part handed on.
    taken: usize,
}

impl Assembled {
    pub(super) fn new(contents: Contents, open: OpenParts) -> Self {
        let files = contents.files.iter().map(|_| None).collect();
        Self { contents, open, files, next: 0, part: Vec::new(), taken: 0 }
    }

    /// Reads all parts there are left, and lets go of them.
    pub(super) fn check(mut self) -> Result<(), ReadError> {
        while let Some(extent) = self.contents.extents.get(self.next).copied() {
            self.load(extent)?;
        }
        Ok(())
    }

    /// Makes a part the one whose bytes are handed on.
    fn load(&mut self, extent: Extent) -> Result<(), ReadError> {
        let Extent { file, at, bytes, hash } = extent;
        let name = self.contents.files[file as usize];
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => ReadError::Format(FormatError::PartsGone { file: name }),
            _ => ReadError::Io(error),
        };
        let place = &mut self.files[file as usize];
        let (source, left_at) = match place {
            Some(opened) => opened,
            None => place.insert(((self.open)(&name).map_err(gone)?, 0)),
        };
        if *left_at != at {
            source.seek(SeekFrom::Start(at)).map_err(ReadError::Io)?;
        }
        self.part.resize(bytes as usize, 0);
        let end = at + u64::from(bytes);
        let rotten = || ReadError::Format(FormatError::PartRotten { file: name, start: at, end });
        source.read_exact(&mut self.part).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => rotten(),
            _ => ReadError::Io(error),
        })?;
        *left_at = end;
        if PartHash::of(&self.part) != hash {
            return Err(rotten());
        }
        (self.next, self.taken) = (self.next + 1, 0);
        Ok(())
    }
}

impl Read for Assembled {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.part.len() {
            let Some(extent) = self.contents.extents.get(self.next).copied() else { return Ok(0) };
            self.load(extent).map_err(io::Error::from)?;
        }
        let count = out.len().min(self.part.len() - self.taken);
        out[..count].copy_from_slice(&self.part[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
