//! How the records of one log are read: by a preset, at places that the operator named, or both.

use super::envelope::{self, EnvelopeRecords};
use super::layouts::has_paths;
use super::shape::PromptKind;
use super::{Logged, Places, Preset, foreign, layouts};
use crate::codec::{DecodeError, ErrorCode};
use std::borrow::Cow;

/// Reads records of a log. What carries a record is opened first, then the record is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReader {
    /// The log's shape; without one the operator names where requests are.
    pub preset: Option<Preset>,
    /// Places that the operator named.
    pub places: Places,
}

impl LogReader {
    /// The log's records in what came: itself, or what a collector put around them.
    ///
    /// # Errors
    /// There is no record of this log in it, whatever else it is.
    pub fn open<'r>(&self, record: &'r [u8]) -> Result<EnvelopeRecords<'r>, DecodeError> {
        if self.is_record(record) {
            return Ok(EnvelopeRecords::itself(record));
        }
        if record.trim_ascii() == b"[]" {
            return Ok(EnvelopeRecords::none());
        }
        match envelope::open(record, &mut |inner| self.is_record(inner)) {
            Some(EnvelopeRecords { place, records }) => {
                let check = |inner: Cow<'r, [u8]>| match self.is_record(&inner) {
                    true => Ok(inner),
                    false => Err(self.refusal(&inner)),
                };
                Ok(EnvelopeRecords {
                    place,
                    records: records.into_iter().map(|inner| inner.and_then(check)).collect(),
                })
            }
            // What is no export request of OTLP's, in protobuf or JSON, its reader says.
            None if self.is_of_spans() => Ok(EnvelopeRecords::itself(record)),
            None => Err(self.refusal(record)),
        }
    }

    /// Reads a record that was opened.
    ///
    /// # Errors
    /// As a whole it is not of this log's shape; a request that is of no use is one of the requests.
    pub fn read<'r>(&self, record: &'r [u8]) -> Result<Logged<'r>, DecodeError> {
        match self.preset {
            Some(preset) => preset.read(record, &self.places),
            None => layouts::REQUESTS.read(record, &self.places),
        }
    }

    /// Whether the operator says where requests are, or they are the records: they may be token ids then, too.
    pub fn names_places(&self) -> bool {
        self.preset.is_none() || self.places.request.is_some()
    }

    /// Why a record in which the operator named the place of the request is none of one that a cache served.
    ///
    /// # Errors
    /// The record is not JSON.
    pub fn passes_over(&self, record: &[u8]) -> Result<Option<&'static str>, DecodeError> {
        match (self.preset, &self.places.request) {
            (None, Some(_)) => layouts::REQUESTS.other_than_a_request(record),
            _ => Ok(None),
        }
    }

    fn is_of_spans(&self) -> bool {
        matches!(self.preset, Some(Preset::Otlp | Preset::EnvoyAiGateway))
    }

    /// Whether this is a record of the log, itself and not what it carries.
    fn is_record(&self, record: &[u8]) -> bool {
        if let Some(path) = &self.places.request
            && path.find(record).is_ok_and(|found| found.is_some())
        {
            return true;
        }
        if self.preset.is_none() && self.places.request.is_none() {
            let text = std::str::from_utf8(record).ok();
            return text.and_then(PromptKind::of).is_some() || layouts::has(record, "body");
        }
        self.preset.is_some_and(|preset| {
            let mut has = has_paths(record);
            preset.marks().iter().any(|row| row.iter().all(|path| has(path)))
        })
    }

    /// Why what came is no record of this log.
    fn refusal(&self, record: &[u8]) -> DecodeError {
        let kind = std::str::from_utf8(record).ok().and_then(PromptKind::of);
        let known = match kind {
            Some(kind) => Some(format!("this is a bare request ({kind})")),
            None => Preset::recognise(record).map(|(log, place)| format!("{place} this is the log of {log}")),
        };
        let what = known.or_else(|| foreign::describe(record));
        let is_object = record.trim_ascii_start().starts_with(b"{");
        let (code, what) = match what {
            Some(what) if is_object => (ErrorCode::MissingField, what),
            Some(what) => (ErrorCode::Undecodable, what),
            None if is_object => (ErrorCode::MissingField, "a JSON object of something else".to_owned()),
            None => (ErrorCode::Undecodable, "no JSON object".to_owned()),
        };
        DecodeError::new(code, format!("{}; {what}", self.lacks()))
    }

    /// What a record of this log would have.
    fn lacks(&self) -> String {
        match (self.preset, &self.places.request) {
            (_, Some(path)) => format!("there is no request at `{path}`, where it is looked for"),
            (Some(preset), None) => {
                let row = |row: &&[&str]| {
                    row.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(" and ")
                };
                let rows: Vec<String> = preset.marks().iter().map(row).collect();
                format!(
                    "no record of the log of {preset}, which is a JSON object with {}",
                    rows.join(", or ")
                )
            }
            (None, None) => "no request".to_owned(),
        }
    }
}
