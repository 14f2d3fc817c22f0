//! What a JSON record seems to hold, wherever in it: for those who have a log and no settings yet.

use kvset_formats::logs::FieldPath;
use kvset_formats::time::{Form, Numbers, Written};
use serde_json::Value;
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
pub struct Shape {
    /// Requests, and where; nothing before the path for the record itself.
    pub requests: Vec<(Option<FieldPath>, PromptKind)>,
    /// Objects with a `usage`.
    pub usages: Vec<Option<FieldPath>>,
    /// Fields that seem to be times.
    pub times: Vec<(FieldPath, Form)>,
}

impl Shape {
    /// Looks through a record; nothing where it is no JSON object.
    pub fn of(record: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(record).ok()?;
        let mut shape = Self::default();
        value.as_object()?;
        shape.look(&value, &mut Vec::new());
        Some(shape)
    }

    fn look(&mut self, value: &Value, path: &mut Vec<String>) {
        let Some(object) = value.as_object() else { return };
        let here = FieldPath::of(path);
        if let Some(kind) = prompt_kind(value) {
            self.requests.push((here.clone(), kind));
        }
        if value["usage"].is_object() {
            self.usages.push(here);
        }
        for (name, inner) in object {
            path.push(name.clone());
            match (time_form(name, inner), FieldPath::of(path)) {
                (Some(form), Some(place)) => self.times.push((place, form)),
                _ if path.len() < MAX_DEPTH => self.look_inside(inner, path),
                _ => {}
            }
            path.pop();
        }
    }

    /// Strings that hold an object are looked through, too; lists are not: nobody could name a place in one.
    fn look_inside(&mut self, inner: &Value, path: &mut Vec<String>) {
        match inner {
            Value::Object(_) => self.look(inner, path),
            Value::String(text) if text.trim_start().starts_with('{') => {
                if let Ok(parsed) = serde_json::from_str::<Value>(text) {
                    self.look(&parsed, path);
                }
            }
            Value::String(text) if text.contains("data:") && text.contains("\"usage\"") => {
                self.usages.push(FieldPath::of(path));
            }
            _ => {}
        }
    }
}

/// What a prompt an object seems to hold.
fn prompt_kind(object: &Value) -> Option<PromptKind> {
    let is_list = |name: &str| object[name].is_array();
    if is_list("page_ids") {
        return Some(PromptKind::PageIds);
    }
    if super::fields::TOKEN_FIELDS.into_iter().any(is_list) {
        return Some(PromptKind::TokenIds);
    }
    if is_list("messages") {
        let tools = object["tools"].as_array();
        let theirs = tools.is_some_and(|tools| tools.iter().any(|tool| !tool["input_schema"].is_null()));
        let anthropic = !object["system"].is_null() || !object["anthropic_version"].is_null() || theirs;
        return Some(if anthropic { PromptKind::Anthropic } else { PromptKind::Chat });
    }
    let asks = !object["model"].is_null();
    match () {
        () if asks && (object["prompt"].is_string() || is_list("prompt")) => Some(PromptKind::Completion),
        () if asks && (object["input"].is_string() || is_list("input")) => Some(PromptKind::Responses),
        () => None,
    }
}

/// Whether a field's name and value are those of a time.
fn time_form(name: &str, value: &Value) -> Option<Form> {
    let name = name.to_ascii_lowercase();
    if !["time", "start", "created", "date", "_at", "ts"].iter().any(|part| name.contains(part)) {
        return None;
    }
    let written = match value {
        Value::Number(number) => Written::of_text(number.to_string()),
        Value::String(text) => Written::of_text(text.as_str()),
        _ => return None,
    };
    written.time(Numbers::Dates).ok().map(|time| time.form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_formats::time::Unit;

    fn shape(record: &str) -> Shape {
        Shape::of(record.as_bytes()).expect(record)
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
        assert_eq!(Shape::of(b"[1]"), None);
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
                ("started_at".to_owned(), Form::Number(Unit::Seconds)),
                ("ts".to_owned(), Form::Number(Unit::Milliseconds)),
                ("when.startTime".to_owned(), Form::Date),
            ]
        );
    }
}
