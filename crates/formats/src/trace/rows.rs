//! The rows of a file: its lines, or records with their length in front of them; and the records in those.

use super::error::TraceError;
use super::frames::{self, Frames};
use super::input::TraceInput;
use super::joined;
use super::lines::{LineReader, RowReader};
use super::text::utf16;
use super::unpack::{has_cores, read_ahead};
use crate::almost_json;
use crate::codec::DecodeError;
use crate::logs::{EnvelopeRecords, LogReader, RecordPath, open};
use crate::record::fault::RowFault;
use std::borrow::Cow;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

/// Tells whether something is a row.
type IsRow = Box<dyn Fn(&[u8]) -> bool + Send>;

/// What may carry the records of a file.
pub(super) enum Opener {
    /// Nothing.
    Bare,
    /// Whatever holds records of a log.
    Log(LogReader),
    /// Whatever holds rows that are told so.
    Rows(IsRow),
}

impl Opener {
    fn open<'r>(&self, row: &'r [u8]) -> Result<EnvelopeRecords<'r>, RowFault> {
        match self {
            Self::Bare => Ok(EnvelopeRecords::itself(row)),
            Self::Log(log) => Ok(log.open(row)?),
            Self::Rows(is_row) => {
                if is_row(row) {
                    return Ok(EnvelopeRecords::itself(row));
                }
                let is_list = row.trim_ascii_start().starts_with(b"[");
                match open(row, &mut |inner| is_row(inner)) {
                    Some(opened) => Ok(opened),
                    // A list that is JSON but for a habit is opened as what it almost is.
                    None if is_list && almost_json::as_json(row).is_some() => Err(RowFault::Truncated),
                    // What holds none is for the format to refuse.
                    None => Ok(EnvelopeRecords::itself(row)),
                }
            }
        }
    }
}

/// Reads record by record, each out of what carries it.
pub(super) struct RowRecords {
    rows: Box<dyn RowReader>,
    opener: Opener,
    /// Where the records of the last row lay that carried any.
    place: Option<RecordPath>,
    /// Records of the row at hand, last first.
    waiting: Vec<Result<Vec<u8>, RowFault>>,
    /// The record at hand, where it is not the row as it stands.
    record: Option<Vec<u8>>,
    /// How many records the row at hand carries.
    count: usize,
}

impl RowRecords {
    pub fn new(rows: Box<dyn RowReader>, opener: Opener) -> Self {
        Self { rows, opener, place: None, waiting: Vec::new(), record: None, count: 0 }
    }

    /// The record last stepped to.
    pub fn record(&self) -> &[u8] {
        self.record.as_deref().unwrap_or_else(|| self.rows.row())
    }

    /// The number of its row, counted from 1; 0 before the first.
    pub fn number(&self) -> u64 {
        self.rows.number()
    }

    /// Comments between the rows so far.
    pub fn comments(&self) -> u64 {
        self.rows.comments()
    }

    /// Where the last records lay that something carried.
    pub fn place(&self) -> Option<&RecordPath> {
        self.place.as_ref()
    }

    /// A fault of the record at hand, with its number among those of its row.
    pub fn fault(&self, fault: RowFault) -> RowFault {
        if self.record.is_some() { self.numbered(fault) } else { fault }
    }

    fn numbered(&self, fault: RowFault) -> RowFault {
        if self.count < 2 {
            return fault;
        }
        let number = self.count - self.waiting.len();
        RowFault::OneOfSeveral { number, count: self.count, fault: Box::new(fault) }
    }

    /// Goes to the next record; why there is none in a row; nothing at the end.
    pub fn step(&mut self) -> io::Result<Option<Result<(), RowFault>>> {
        loop {
            self.record = None;
            if let Some(next) = self.waiting.pop() {
                let next = next.map_err(|fault| self.numbered(fault));
                return Ok(Some(next.map(|record| self.record = Some(record))));
            }
            match self.rows.next_row()? {
                Some(Ok(())) => {}
                ended => return Ok(ended),
            }
            match self.open() {
                Ok(true) => return Ok(Some(Ok(()))),
                Ok(false) => {}
                Err(fault) => return Ok(Some(Err(fault))),
            }
        }
    }

    /// Opens the row at hand; true where it is itself the record.
    fn open(&mut self) -> Result<bool, RowFault> {
        let row = self.rows.row();
        let json;
        let opened = match self.opener.open(row) {
            Ok(opened) if opened.is_itself() => return Ok(true),
            Ok(opened) => opened,
            Err(fault) => {
                json = almost_json::as_json(row).ok_or(fault)?;
                self.opener.open(&json)?
            }
        };
        let EnvelopeRecords { place, records } = opened;
        let own = |record: Result<Cow<'_, [u8]>, DecodeError>| Ok(record?.into_owned());
        self.waiting = records.into_iter().rev().map(own).collect();
        self.count = self.waiting.len();
        if !place.is_top() {
            self.place = Some(place);
        }
        Ok(false)
    }
}

/// Opens the bytes of a file as rows, what stands on several lines put on one.
pub(super) fn lines(bytes: Box<dyn BufRead + Send>, limit: usize) -> io::Result<LineReader> {
    Ok(LineReader::new(joined::joined(bytes, limit)?, limit))
}

/// The rows of a log's file as they are, for those who read what is in them by themselves.
pub struct RawRecords {
    rows: Box<dyn RowReader>,
}

impl RawRecords {
    /// Opens a file, or standard input for `-`, plain or compressed; no record may have more than `limit` bytes.
    ///
    /// # Errors
    /// It cannot be opened, or its first bytes cannot be read.
    pub fn open(path: &Path, limit: usize) -> Result<Self, TraceError> {
        let TraceInput { name, bytes, is_packed, .. } = TraceInput::open(path)?;
        let bytes = if is_packed && has_cores() { read_ahead(bytes) } else { Ok(bytes) };
        let head = bytes.and_then(frames::head);
        let failed = |source| TraceError::Read { file: Arc::clone(&name), line: 0, source };
        let (head, bytes) = head.map_err(failed)?;
        let rows: Box<dyn RowReader> = match (frames::is_framed(&head), utf16(&head)) {
            (true, _) => Box::new(Frames::new(bytes, limit)),
            (false, Some(encoding)) => return Err(TraceError::Utf16 { file: name, encoding }),
            (false, None) => Box::new(lines(bytes, limit).map_err(failed)?),
        };
        Ok(Self { rows })
    }

    /// The next record, or why it cannot be read; nothing at the end.
    ///
    /// # Errors
    /// The file cannot be read on.
    pub fn next_record(&mut self) -> io::Result<Option<Result<&[u8], RowFault>>> {
        Ok(self.rows.next_row()?.map(|read| read.map(|()| self.rows.row())))
    }
}
