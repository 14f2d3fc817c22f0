//! What can go wrong while reading a trace: the file as a whole, or one row of it ([`RowFault`]).
//!
//! No message quotes a row: rows hold prompts and token ids. Positions, lengths and field names are
//! enough to find the fault.

use super::options::Format;
use crate::codec::ContainerError;
use crate::record::fault::RowFault;
use kvset_core::units::features::Feature;
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
         `iconv -f {encoding} -t UTF-8`"
    )]
    Utf16 { file: Arc<str>, encoding: &'static str },
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

/// What reading chat and completion requests takes.
fn openai_need() -> String {
    match Feature::Tokenize.require(cfg!(feature = "tokenize")) {
        Ok(()) => "only the model's own tokenizer and chat template can read: name the model's directory with --model"
            .to_owned(),
        Err(missing) => format!("only a tokenizer can read: {missing}"),
    }
}
