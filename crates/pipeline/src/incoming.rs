//! A record on its way into a task.

use kvset_formats::codec::SourceRecord;

/// A record as a task takes it.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'r> {
    /// The record.
    pub record: SourceRecord<'r>,
    /// What a [`Repacker`](kvset_formats::codec::Repacker) wrote of it, where somebody had the time. It says the same
    /// as the record and is read in less.
    pub repacked: Option<&'r [u8]>,
}

impl<'r> From<SourceRecord<'r>> for Incoming<'r> {
    fn from(record: SourceRecord<'r>) -> Self {
        Self { record, repacked: None }
    }
}
