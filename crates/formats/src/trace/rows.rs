//! The rows of a file: its lines, or records with their length in front of them.

use super::error::{RowFault, TraceError};
use super::frames::{self, Frames};
use super::input::Input;
use super::lines::{Lines, Step};
use super::text::is_utf16;
use super::unpack::{has_cores, read_ahead};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Reads row by row.
pub(super) enum Rows {
    /// One a line.
    Lines(Lines),
    /// One behind each length.
    Frames(Frames),
}

impl Rows {
    /// The row last stepped to.
    pub fn row(&self) -> &[u8] {
        match self {
            Self::Lines(lines) => lines.line(),
            Self::Frames(frames) => frames.record(),
        }
    }

    /// Its number, counted from 1; 0 before the first.
    pub fn number(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.number(),
            Self::Frames(frames) => frames.number(),
        }
    }

    /// Goes to the next row; why it cannot be read, where it cannot; nothing at the end.
    pub fn step(&mut self) -> io::Result<Option<Result<(), RowFault>>> {
        let (step, limit) = match self {
            Self::Lines(lines) => (lines.step()?, lines.limit()),
            Self::Frames(frames) => (frames.step()?, frames.limit()),
        };
        Ok(match step {
            Step::Line => Some(Ok(())),
            Step::TooLong => Some(Err(RowFault::LineTooLong { limit })),
            Step::Cut => Some(Err(RowFault::CutOff)),
            Step::End => None,
        })
    }
}

/// The records of a log's file as they are, for those who read them by themselves.
pub struct RawRecords {
    rows: Rows,
}

impl RawRecords {
    /// Opens a file, or standard input for `-`, plain or compressed; no record may have more than `limit` bytes.
    ///
    /// # Errors
    /// It cannot be opened, or its first bytes cannot be read.
    pub fn open(path: &Path, limit: usize) -> Result<Self, TraceError> {
        let Input { name, bytes, is_packed, .. } = Input::open(path)?;
        let bytes = if is_packed && has_cores() { read_ahead(bytes) } else { Ok(bytes) };
        let head = bytes.and_then(frames::head);
        let failed = |source| TraceError::Read { file: Arc::clone(&name), line: 0, source };
        let (head, bytes) = head.map_err(failed)?;
        let rows = match frames::is_framed(&head) {
            true => Rows::Frames(Frames::new(bytes, limit)),
            false if is_utf16(&head) => return Err(TraceError::Utf16 { file: name }),
            false => Rows::Lines(Lines::new(bytes, limit)),
        };
        Ok(Self { rows })
    }

    /// The next record, or why it cannot be read; nothing at the end.
    ///
    /// # Errors
    /// The file cannot be read on.
    pub fn next_record(&mut self) -> io::Result<Option<Result<&[u8], RowFault>>> {
        Ok(self.rows.step()?.map(|read| read.map(|()| self.rows.row())))
    }
}
