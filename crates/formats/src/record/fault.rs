//! What can be wrong with one record.
//!
//! No message quotes a record: records hold prompts and token ids. Positions, lengths and field names are
//! enough to find the fault.

use super::numbers::NumberFault;
use crate::codec::DecodeError;
use crate::time::TimeFault;
use kvset_core::request::event::PageCountMismatch;
use std::fmt;

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
    /// An event is not what `schemas/request_event.avsc` allows, or a request cannot be tokenised.
    #[error(transparent)]
    Event(#[from] DecodeError),
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

impl RowFault {
    /// A fault that was found once the words of Python's JSON were taken out.
    pub(crate) fn without_words(self) -> Self {
        Self::Words { fault: Box::new(self) }
    }

    /// A required field is not there.
    pub(crate) fn missing(field: impl fmt::Display) -> Self {
        Self::Missing { field: field.to_string() }
    }

    /// Translates a parser's error without its text, which may quote the row. `field` is the known
    /// field that was being read, or empty.
    pub(crate) fn from_json(error: &serde_json::Error, field: &'static str) -> Self {
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
