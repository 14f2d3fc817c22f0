//! Where snapshots are read from, and how reading fails.

use super::capture::BodyError;
use super::format::FormatError;
use std::io::{self, Read, Seek};

/// Where a snapshot's bytes come from: a file, or memory behind a [`io::Cursor`].
pub trait ByteSource: Read + Seek + Send {}

impl<T: Read + Seek + Send> ByteSource for T {}

/// Reading failed, or what was read is no sound snapshot.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes could not be had.
    #[error("reading failed: {0}; check the disk or the store and its permissions")]
    Io(io::Error),
    /// They were had and are wrong.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// They are right and hold no state of the asked-for kind.
    #[error(transparent)]
    Body(#[from] BodyError),
}

impl ReadError {
    /// Whether the snapshot is of no use to anyone and may be set aside.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Self::Format(error) if error.is_corrupt())
    }
}

/// On the way through a reader, which knows errors of the system only.
impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            other => Self::new(io::ErrorKind::InvalidData, other),
        }
    }
}

/// Back from there.
impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        error.downcast::<Self>().unwrap_or_else(Self::Io)
    }
}
