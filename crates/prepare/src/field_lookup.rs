//! Values that templates name, found in a record's fields, key and headers.

use super::fields::FieldValues;
use super::recipe::{Namespace, TemplateFields, TemplatePiece, TimeUnit, ValueSource};
use super::records::RawRecord;
use kvset_core::units::keyed::HashKey;
use kvset_core::units::pages::Scope;
use kvset_formats::codec::{DecodeError, ErrorCode};
use kvset_formats::identity::PageIdentity;
use kvset_formats::time::{Time, WrittenTime};
use std::borrow::Cow;

/// Looks values up in a record.
pub(super) struct FieldLookup<'a> {
    pub(super) names: &'a TemplateFields,
    pub(super) values: &'a FieldValues,
    pub(super) record: &'a RawRecord<'a>,
}

impl FieldLookup<'_> {
    fn get(&self, source: &ValueSource) -> Result<Option<Cow<'_, str>>, DecodeError> {
        let bytes = match source {
            ValueSource::Field(index) => return Ok(self.values.get(*index).map(Cow::Borrowed)),
            ValueSource::Key => self.record.source.key,
            ValueSource::Header(name) => self.header(name),
        };
        let text = bytes.map(std::str::from_utf8).transpose();
        let text = text.map_err(|_| invalid(&self.name(source), "is not UTF-8"))?;
        Ok(text.filter(|text| !text.is_empty()).map(Cow::Borrowed))
    }

    fn header(&self, wanted: &str) -> Option<&[u8]> {
        let found = self.record.headers.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| *value)
    }

    /// What the operator calls it.
    fn name(&self, source: &ValueSource) -> String {
        match source {
            ValueSource::Key => "the record's key".to_owned(),
            ValueSource::Header(name) => format!("header {name}"),
            ValueSource::Field(index) => format!("field {}", self.names.paths[*index].join(".")),
        }
    }

    pub(super) fn fill(&self, pieces: &[TemplatePiece]) -> Result<String, DecodeError> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                TemplatePiece::Text(part) => text.push_str(part),
                TemplatePiece::Place { source, optional } => match self.get(source)? {
                    Some(value) => text.push_str(&value),
                    None if *optional => {}
                    None => return Err(self.missing(source)),
                },
            }
        }
        Ok(text)
    }

    fn missing(&self, source: &ValueSource) -> DecodeError {
        DecodeError::new(ErrorCode::MissingField, format!("{} is missing", self.name(source)))
    }

    /// The namespace; under a key its value gives nothing of its name away.
    pub(super) fn namespace(&self, key: Option<HashKey>) -> Result<Option<Scope>, DecodeError> {
        let name = match &self.names.namespace {
            Namespace::Template(pieces) => Cow::Owned(self.fill(pieces)?),
            Namespace::Identity(numbers) => {
                let identity = PageIdentity::of(|place| self.values.get(*numbers.get(place)?));
                identity.scope.unwrap_or_default()
            }
        };
        let scope = || key.map_or_else(|| Scope::named(name.as_bytes()), |key| key.scope(name.as_bytes()));
        Ok((!name.is_empty()).then(scope))
    }

    /// A number, or a date and time.
    pub(super) fn event_time(&self, source: &ValueSource, unit: TimeUnit) -> Result<Time, DecodeError> {
        let text = self.get(source)?.ok_or_else(|| self.missing(source))?;
        let time = WrittenTime::of_text(text).time(unit.numbers());
        time.map_err(|fault| invalid(&self.name(source), &fault.to_string()))
    }
}

pub(super) fn invalid(what: &str, why: &str) -> DecodeError {
    DecodeError::new(ErrorCode::InvalidField, format!("{what} {why}"))
}
