//! Where in a record something is: a path of names, through objects and through JSON in strings.

use crate::codec::{DecodeError, ErrorCode};
use crate::packed::{json_in, text_of_list};
use crate::record::members::members;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A dotted path to a value, such as `ai.proxy.payload.request`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath(Vec<String>);

impl FromStr for FieldPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err(format!("`{text}` is no path of field names joined by dots"));
        }
        Ok(Self(names))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl FieldPath {
    /// The path of these names; nothing without a name, or with one that a path cannot say.
    pub fn of(names: &[String]) -> Option<Self> {
        let sayable = |name: &String| !name.is_empty() && !name.contains('.');
        (!names.is_empty() && names.iter().all(sayable)).then(|| Self(names.to_vec()))
    }

    /// The JSON at this path; a string on the way or at its end is read as JSON itself. Nothing where a name is not
    /// there, or is null.
    ///
    /// # Errors
    /// The record, or a string on the way, is not JSON.
    pub fn find<'r>(&self, record: &'r [u8]) -> Result<Option<Cow<'r, str>>, DecodeError> {
        Ok(self.at(record)?.map(|value| value.text))
    }

    /// The same, with whether it stood in a string.
    pub(super) fn at<'r>(&self, record: &'r [u8]) -> Result<Option<PathValue<'r>>, DecodeError> {
        let found = find(record, self.0.iter().map(String::as_str));
        found.map_err(|what| undecodable(what, &self.to_string()))
    }
}

/// A value of a record.
pub(super) struct PathValue<'r> {
    /// The JSON, or what is in the string.
    pub text: Cow<'r, str>,
    /// Whether it stood in a string.
    pub quoted: bool,
}

/// The value at a path that is written with dots, the record itself at the empty one; nothing where a name is not
/// there, or is null.
pub(super) fn at<'r>(record: &'r [u8], path: &str) -> Result<Option<PathValue<'r>>, DecodeError> {
    find(record, path.split('.').filter(|name| !name.is_empty())).map_err(|what| undecodable(what, path))
}

fn find<'r, 'n>(
    record: &'r [u8],
    names: impl Iterator<Item = &'n str>,
) -> Result<Option<PathValue<'r>>, &'static str> {
    let text = std::str::from_utf8(record).map_err(|_| "not UTF-8")?;
    let mut here = PathValue { text: Cow::Borrowed(text), quoted: false };
    for name in names {
        let next = match here.text {
            Cow::Borrowed(text) => field(text, name)?,
            Cow::Owned(text) => field(&text, name)?
                .map(|value| PathValue { text: Cow::Owned(value.text.into_owned()), quoted: value.quoted }),
        };
        let Some(next) = next else { return Ok(None) };
        here = next;
    }
    Ok(Some(here))
}

/// The value of a member, out of its string, or the list of its bytes, where it is one.
fn field<'t>(object: &'t str, name: &str) -> Result<Option<PathValue<'t>>, &'static str> {
    if !object.trim_start().starts_with('{') {
        return Ok(None);
    }
    let members = members(object).ok_or("no JSON on the way")?;
    // Of a name that stands twice the last one holds.
    let found = members.into_iter().rfind(|(key, _)| key == name).map(|(_, value)| value);
    let Some(value) = found.filter(|value| value.get() != "null") else { return Ok(None) };
    if let Some(text) = text_of_list(value.get()) {
        return Ok(Some(PathValue { text: json_in(Cow::Owned(text)), quoted: true }));
    }
    if !value.get().starts_with('"') {
        return Ok(Some(PathValue { text: Cow::Borrowed(value.get()), quoted: false }));
    }
    let text: String = serde_json::from_str(value.get()).map_err(|_| "no text")?;
    Ok(Some(PathValue { text: json_in(Cow::Owned(text)), quoted: true }))
}

/// Says where, never what.
fn undecodable(what: &str, path: &str) -> DecodeError {
    DecodeError::new(ErrorCode::Undecodable, format!("json: {what} at `{path}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, record: &str) -> Result<Option<String>, DecodeError> {
        let path: FieldPath = path.parse().expect("a path");
        Ok(path.find(record.as_bytes())?.map(Cow::into_owned))
    }

    #[test]
    fn a_request_is_found_below_objects_and_inside_strings() {
        let text = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(found("a.b", r#"{"x": 1, "a": {"b": {"c": [1]}}}"#), text(r#"{"c": [1]}"#));
        assert_eq!(found("a.b", r#"{"a": {"b": "{\"c\": 1}"}}"#), text(r#"{"c": 1}"#));
        assert_eq!(found("a.b", r#"{"a": "{\"b\": {\"c\": \"\\\"\"}}"}"#), text(r#"{"c": "\""}"#));
        assert_eq!(found("a", r#"{"a": 1, "\u0061": {"last": 2}}"#), text(r#"{"last": 2}"#));
        for nothing in [r#"{"a": {}}"#, r#"{"a": {"b": null}}"#, r#"{"a": [1]}"#, r#"{"a": 5}"#, "[]"] {
            assert_eq!(found("a.b", nothing), Ok(None), "{nothing}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_and_not_quoted() {
        for record in [r#"{"a": {"b": hunter2}}"#, r#"{"a": "{hunter2"}"#, r#"{"a": {"b": 1}} hunter2"#] {
            let error = found("a.b", record).expect_err(record);
            assert_eq!(error.code(), ErrorCode::Undecodable);
            assert!(error.to_string().contains("`a.b`") && !error.to_string().contains("hunter2"), "{error}");
        }
        assert!("a..b".parse::<FieldPath>().is_err() && "".parse::<FieldPath>().is_err());
    }
}
