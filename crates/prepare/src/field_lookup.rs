//! Values that templates name, found in a record's fields, key and headers.

use super::fields::FieldValues;
use super::recipe::{Namespace, TemplateFields, TimeUnit};
use super::records::RawRecord;
use super::template::{FieldPlace, TemplatePart};
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
    fn get(&self, place: &FieldPlace<usize>) -> Result<Option<Cow<'_, str>>, DecodeError> {
        let bytes = match place {
            FieldPlace::Field(index) => return Ok(self.values.get(*index).map(Cow::Borrowed)),
            FieldPlace::Key => self.record.source.key,
            FieldPlace::Header(name) => self.header(name),
        };
        let text = bytes.map(std::str::from_utf8).transpose();
        let text = text.map_err(|_| invalid(&self.name(place), "is not UTF-8"))?;
        Ok(text.filter(|text| !text.is_empty()).map(Cow::Borrowed))
    }

    fn header(&self, wanted: &str) -> Option<&[u8]> {
        let found = self.record.headers.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| *value)
    }

    /// What the operator calls it.
    fn name(&self, place: &FieldPlace<usize>) -> String {
        match place {
            FieldPlace::Key => "the record's key".to_owned(),
            FieldPlace::Header(name) => format!("header {name}"),
            FieldPlace::Field(index) => format!("field {}", self.names.paths[*index].join(".")),
        }
    }

    pub(super) fn fill(&self, parts: &[TemplatePart<usize>]) -> Result<String, DecodeError> {
        let mut text = String::new();
        for part in parts {
            match part {
                TemplatePart::Text(words) => text.push_str(words),
                TemplatePart::Place { place, optional } => match self.get(place)? {
                    Some(value) => text.push_str(&value),
                    None if *optional => {}
                    None => return Err(self.missing(place)),
                },
            }
        }
        Ok(text)
    }

    fn missing(&self, place: &FieldPlace<usize>) -> DecodeError {
        DecodeError::new(ErrorCode::MissingField, format!("{} is missing", self.name(place)))
    }

    /// The namespace; under a key its value gives nothing of its name away.
    pub(super) fn namespace(&self, key: Option<HashKey>) -> Result<Option<Scope>, DecodeError> {
        let name = match &self.names.namespace {
            Namespace::Template(parts) => Cow::Owned(self.fill(parts)?),
            Namespace::Identity(numbers) => {
                let identity = PageIdentity::of(|field| self.values.get(*numbers.get(field)?));
                identity.scope.unwrap_or_default()
            }
        };
        let scope = || key.map_or_else(|| Scope::named(name.as_bytes()), |key| key.scope(name.as_bytes()));
        Ok((!name.is_empty()).then(scope))
    }

    /// A number, or a date and time.
    pub(super) fn event_time(&self, place: &FieldPlace<usize>, unit: TimeUnit) -> Result<Time, DecodeError> {
        let text = self.get(place)?.ok_or_else(|| self.missing(place))?;
        let time = WrittenTime::of_text(text).time(unit.numbers());
        time.map_err(|fault| invalid(&self.name(place), &fault.to_string()))
    }
}

pub(super) fn invalid(what: &str, why: &str) -> DecodeError {
    DecodeError::new(ErrorCode::InvalidField, format!("{what} {why}"))
}
