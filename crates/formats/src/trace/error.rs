//! What can go wrong while reading a trace: the file as a whole, or one row of it.
//!
//! No message quotes a row: rows hold prompts and token ids. Positions, lengths and field names are
//! enough to find the fault.

use super::numbers::NumberFault;
use super::options::Format;
use crate::codec::{ContainerError, DecodeError};
use crate::time::TimeFault;
use kvset_core::request::event::PageCountMismatch;
use kvset_core::units::features::Feature;
#[cfg(feature = "tokenize")]
use kvset_tokenize::TokenizeError;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The trace cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file is missing or may not be read.
    #[error("cannot open trace {file}: {source}")]
    Open { file: Arc<str>, source: io::Error },
    /// The disk failed, or the compressed data are damaged or cut short.
    #[error(
        "cannot read trace {file} after line {line}: {source}; if it is compressed, test it with `zstd -t` or `gzip -t`"
    )]
    Read { file: Arc<str>, line: u64, source: io::Error },
    /// The first row is of no known format.
    #[error("cannot tell the format of trace {file} from line {line}: {seen}")]
    UnknownFormat { file: Arc<str>, line: u64, seen: String },
    /// Places of requests are named for rows that are read whole.
    #[error("--request names where requests are in the records of a log: rows of {format} are read whole")]
    NoPlaces { format: Format },
    /// The file is text of two bytes a character.
    #[error(
        "trace {file} is text in UTF-16, as PowerShell's `>` writes it; convert it to UTF-8 with \
         `iconv -f UTF-16 -t UTF-8`"
    )]
    Utf16 { file: Arc<str> },
    /// Requests that are to be tokenised, but with which tokenizer?
    #[error("trace {file} holds chat or completion requests, which {}", openai_need())]
    NoModel { file: Arc<str> },
    /// The system has no thread to read with.
    #[error("cannot start a thread to read the trace: {source}")]
    Thread { source: io::Error },
    /// Requests did not come in the order of the trace, which was expected of it.
    #[error("the requests of the trace did not come in its order")]
    ReadAgain,
    /// The file is no avro container, breaks off or is damaged.
    #[error("cannot read trace {file}: {source}")]
    Container { file: Arc<str>, source: ContainerError },
}

/// One row that could not be read; the rows after it can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {fault}")]
pub struct RowError {
    /// The trace file, as it was named.
    pub file: Arc<str>,
    /// Line, or event of an avro file, counted from 1.
    pub line: u64,
    /// What is wrong with the row.
    pub fault: RowFault,
}

/// Why a row is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// The line holds something else than JSON.
    #[error("not valid JSON at byte {column}")]
    Syntax { column: usize },
    /// The line ends within a JSON value.
    #[error("the line ends in the middle of a JSON value")]
    Truncated,
    /// The row is JSON of a shape that the format does not have.
    #[error("not a row of this format: unexpected type at byte {column}")]
    Shape { column: usize },
    /// A known field holds a value it cannot hold.
    #[error("field `{field}` has the wrong type or is out of range, near byte {column}")]
    Field { field: &'static str, column: usize },
    /// A count, an id or a time in a form that says none.
    #[error("field `{field}` holds no {what}: {why}")]
    Number { field: &'static str, what: &'static str, why: NumberFault },
    /// A time is none.
    #[error("field `{field}` {fault}")]
    Time { field: &'static str, fault: TimeFault },
    /// A time that does not count from what the others of its file count from.
    #[error(
        "its time {}: they cannot be of one log; --time-unit names the unit of all",
        if *is_date {
            "is a date, and those of the rows before it count from the start of the file"
        } else {
            "would be in 1970, and those of the rows before it are dates of a log"
        }
    )]
    OtherClock { is_date: bool },
    /// A field that the format requires, or that `--id-scope` names, is not there.
    #[error("field `{field}` is missing")]
    Missing { field: String },
    /// The same of a row with words that only Python's JSON has, once they were taken out.
    #[error("{fault}, where Python's words NaN, Infinity and None, of which the row has one, say nothing")]
    Words { fault: Box<RowFault> },
    /// A field appears twice in one object.
    #[error("field `{field}` appears twice")]
    Repeated { field: &'static str },
    /// The number of page ids contradicts the number of tokens.
    #[error("{0}; --page-size says how many tokens a page has where the trace does not")]
    PageCount(#[from] PageCountMismatch),
    /// An event is not what `schemas/request_event.avsc` allows.
    #[error(transparent)]
    Event(#[from] DecodeError),
    /// A request cannot be tokenised.
    #[cfg(feature = "tokenize")]
    #[error(transparent)]
    Request(#[from] TokenizeError),
    /// The line is longer than the configured limit.
    #[error("the line is longer than {limit} bytes")]
    LineTooLong { limit: usize },
    /// One of a line's requests; the others are read.
    #[error("request {number} of {count} in it: {fault}")]
    OneOfSeveral { number: usize, count: usize, fault: Box<RowFault> },
    /// A record in a file of records with lengths is shorter than it says, or damaged.
    #[error("the record ends before its length says, or what it is compressed with is damaged")]
    CutOff,
    /// A row of what a session adds lists another number of blocks than its tokens fill.
    #[error("it lists {blocks} blocks of {page_size} tokens for {tokens} tokens")]
    Blocks { blocks: usize, tokens: u64, page_size: u32 },
    /// The sessions of a trace have more pages than are remembered.
    #[error("the sessions of the trace have more than {most} pages together: split it by session")]
    SessionPages { most: usize },
    /// A row arrived later than the reorder buffer can repair.
    #[error(
        "came {late_ms} ms before a request already passed on: the trace is further out of order than {limit} bytes of \
         requests held back can repair; sort it by time, as with `jq -sc 'sort_by(.timestamp)[]'`, or turn one that is \
         newest first around with `tac`"
    )]
    OutOfOrder { late_ms: u128, limit: usize },
}

/// What reading chat and completion requests takes.
fn openai_need() -> String {
    match Feature::Tokenize.require(cfg!(feature = "tokenize")) {
        Ok(()) => "only the model's own tokenizer and chat template can read: name the model's directory with --model"
            .to_owned(),
        Err(missing) => format!("only a tokenizer can read: {missing}"),
    }
}

impl RowFault {
    /// A fault that was found once the words of Python's JSON were taken out.
    pub(super) fn without_words(self) -> Self {
        Self::Words { fault: Box::new(self) }
    }

    /// A required field is not there.
    pub(super) fn missing(field: impl fmt::Display) -> Self {
        Self::Missing { field: field.to_string() }
    }

    /// Translates a parser's error without its text, which may quote the row. `field` is the known
    /// field that was being read, or empty.
    pub(super) fn from_json(error: &serde_json::Error, field: &'static str) -> Self {
        use serde_json::error::Category;
        let column = error.column();
        match error.classify() {
            Category::Eof => Self::Truncated,
            Category::Data if field.is_empty() => Self::Shape { column },
            Category::Data => Self::Field { field, column },
            Category::Syntax | Category::Io => Self::Syntax { column },
        }
    }
}
