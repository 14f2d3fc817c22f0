//! What a JSON record seems to hold, wherever in it: for those who have a log and no settings yet.

use super::FieldPath;
use crate::record::json::TOKEN_FIELDS;
use crate::record::members::{Members, member, members};
use crate::time::{Numbers, TimeForm, WrittenTime};
use serde_json::value::RawValue;
use std::fmt;

/// Levels of objects, and of JSON in strings, that are looked through.
const MAX_DEPTH: usize = 8;

/// What a prompt is given as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PromptKind {
    /// OpenAI's chats.
    Chat,
    /// OpenAI's completions.
    Completion,
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    Responses,
    /// Token ids.
    TokenIds,
    /// Page ids.
    PageIds,
}

impl PromptKind {
    /// What a prompt an object seems to hold, itself and not below.
    pub fn of(object: &str) -> Option<Self> {
        members(object).and_then(|members| Self::of_members(&members))
    }

    /// The same of an object with these members.
    pub fn of_members(members: &Members<'_>) -> Option<Self> {
        let begins = |name: &str, with: char| value(members, name).is_some_and(|json| json.starts_with(with));
        let is_list = |name: &str| begins(name, '[');
        let is_there = |name: &str| value(members, name).is_some();
        if is_list("page_ids") {
            return Some(Self::PageIds);
        }
        if TOKEN_FIELDS.into_iter().any(is_list) {
            return Some(Self::TokenIds);
        }
        if is_list("messages") {
            let tools = value(members, "tools").is_some_and(|tools| tools.contains("\"input_schema\""));
            let anthropic = is_there("system") || is_there("anthropic_version") || tools;
            return Some(if anthropic { Self::Anthropic } else { Self::Chat });
        }
        if begins("user_prompt", '"') {
            return Some(Self::Chat);
        }
        let asks = is_there("model");
        if asks && (begins("prompt", '"') || is_list("prompt")) {
            Some(Self::Completion)
        } else if asks && (begins("input", '"') || is_list("input")) {
            Some(Self::Responses)
        } else {
            None
        }
    }
}

impl fmt::Display for PromptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chat => "OpenAI chat",
            Self::Completion => "OpenAI completion",
            Self::Anthropic => "Anthropic message",
            Self::Responses => "OpenAI response request",
            Self::TokenIds => "token ids",
            Self::PageIds => "page ids",
        })
    }
}

/// What was found in a record, outermost first.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RecordShape {
    /// Requests, and where; nothing before the path for the record itself.
    pub requests: Vec<(Option<FieldPath>, PromptKind)>,
    /// Objects with a `usage`.
    pub usages: Vec<Option<FieldPath>>,
    /// Fields that seem to be times.
    pub times: Vec<(FieldPath, TimeForm)>,
}

/// The JSON of a member that is there and not null.
fn value<'r>(members: &Members<'r>, name: &str) -> Option<&'r str> {
    member(members, name).filter(|json| *json != "null")
}

impl RecordShape {
    /// Looks through a record; nothing where it is no JSON object.
    pub fn of(record: &[u8]) -> Option<Self> {
        let mut shape = Self::default();
        let members = members(std::str::from_utf8(record).ok()?)?;
        shape.look(&members, &mut Vec::new());
        Some(shape)
    }

    fn look(&mut self, members: &Members<'_>, path: &mut Vec<String>) {
        let here = FieldPath::of(path);
        if let Some(kind) = PromptKind::of_members(members) {
            self.requests.push((here.clone(), kind));
        }
        if value(members, "usage").is_some_and(|usage| usage.starts_with('{')) {
            self.usages.push(here);
        }
        for (name, inner) in members {
            path.push(name.clone().into_owned());
            match (time_form(name, inner), FieldPath::of(path)) {
                (Some(form), Some(place)) => self.times.push((place, form)),
                _ if path.len() < MAX_DEPTH => self.look_inside(inner.get(), path),
                _ => {}
            }
            path.pop();
        }
    }

    /// Strings that hold an object are looked through, too; lists are not: nobody could name a place in one.
    fn look_inside(&mut self, inner: &str, path: &mut Vec<String>) {
        if let Some(members) = members(inner) {
            return self.look(&members, path);
        }
        let Ok(text) = serde_json::from_str::<String>(inner) else { return };
        if let Some(members) = members(&text) {
            self.look(&members, path);
        } else if text.contains("data:") && text.contains("\"usage\"") {
            self.usages.push(FieldPath::of(path));
        }
    }
}

/// Whether a field's name and value are those of a time.
fn time_form(name: &str, value: &RawValue) -> Option<TimeForm> {
    let name = name.to_ascii_lowercase();
    if !["time", "start", "created", "date", "_at", "ts"].iter().any(|part| name.contains(part)) {
        return None;
    }
    let written = match serde_json::from_str(value.get()).ok()? {
        serde_json::Value::Number(number) => WrittenTime::of_text(number.to_string()),
        serde_json::Value::String(text) => WrittenTime::of_text(text),
        _ => return None,
    };
    written.time(Numbers::Dates).ok().map(|time| time.form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NumberUnit;

    fn shape(record: &str) -> RecordShape {
        RecordShape::of(record.as_bytes()).expect(record)
    }

    fn path(text: &str) -> Option<FieldPath> {
        text.parse().ok()
    }

    #[test]
    fn a_request_is_found_wherever_it_is() {
        assert_eq!(shape(r#"{"model": "m", "messages": []}"#).requests, [(None, PromptKind::Chat)]);
        let inner = r#"{"model": "m", "system": "s", "messages": []}"#;
        let quoted = serde_json::Value::from(inner).to_string();
        for request in [inner, &quoted] {
            let found = shape(&format!(r#"{{"a": {{"b": {request}}}}}"#)).requests;
            assert_eq!(found, [(path("a.b"), PromptKind::Anthropic)]);
        }
        for (request, kind) in [
            (r#"{"model": "m", "prompt": "x"}"#, PromptKind::Completion),
            (r#"{"model": "m", "input": "x"}"#, PromptKind::Responses),
            (r#"{"prompt_token_ids": [1]}"#, PromptKind::TokenIds),
            (r#"{"page_ids": [1]}"#, PromptKind::PageIds),
        ] {
            assert_eq!(shape(request).requests, [(None, kind)], "{request}");
        }
        assert_eq!(shape(r#"{"input": 7, "list": [{"messages": []}]}"#).requests, []);
        assert_eq!(RecordShape::of(b"[1]"), None);
    }

    #[test]
    fn usages_and_times_are_found() {
        let found = shape(
            r#"{"started_at": 1700000000, "ts": 1700000000123, "note": "2024-01-01T00:00:00Z", "n_tokens": 5,
                "when": {"startTime": "2024-01-01T00:00:00Z"}, "response": {"usage": {"prompt_tokens": 1}},
                "stream": "data: {\"usage\": {}}"}"#,
        );
        assert_eq!(found.usages, [path("response"), path("stream")]);
        let times: Vec<_> = found.times.iter().map(|(path, form)| (path.to_string(), *form)).collect();
        assert_eq!(
            times,
            [
                ("started_at".to_owned(), TimeForm::Number(NumberUnit::Seconds)),
                ("ts".to_owned(), TimeForm::Number(NumberUnit::Milliseconds)),
                ("when.startTime".to_owned(), TimeForm::Date),
            ]
        );
    }
}
