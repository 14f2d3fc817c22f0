//! Telling a trace's format from its first row.

use super::json::{Fields, Object, ignore, read_line};
use super::options::Format;
use super::tokens::TOKEN_FIELDS;
use crate::logs::Preset;
use serde::de::MapAccess;
use serde_json::value::RawValue;

/// Most field names that an error message shows.
const SHOWN_FIELDS: usize = 8;

/// The format of a trace that begins with `line`, or a description of what was seen instead.
///
/// The description names fields (never values), as far as they look like names.
pub(super) fn detect(line: &[u8]) -> Result<Format, String> {
    match line.trim_ascii_start().first() {
        Some(b'[') => Ok(Format::TokenIds),
        Some(b'{') => {
            let mut seen = Seen::default();
            match read_line(line, Object(&mut seen)) {
                Ok(()) => {
                    let plain = seen.format();
                    known_log(line, plain).or(plain).ok_or_else(|| seen.describe())
                }
                Err(_) => Err("a line that begins like a JSON object but is not one".to_owned()),
            }
        }
        _ => Err("a line that is neither a JSON object nor an array".to_owned()),
    }
}

/// The log known by name that `line` is of. Its fields may be those of a plain request, too, but not all it says.
fn known_log(line: &[u8], plain: Option<Format>) -> Option<Format> {
    match Preset::recognise(line)? {
        Preset::Dynamo | Preset::OpenaiBatch => None,
        Preset::Vllm if plain.is_some() => None,
        log => Some(Format::Log(log)),
    }
}

/// The fields of the first row that tell formats apart.
#[derive(Debug, Default)]
struct Seen {
    fields: Vec<String>,
    more_fields: usize,
    dynamo: bool,
    token_ids: bool,
    sessions: bool,
    hash_ids: bool,
    weka: bool,
    qwen: bool,
    openai: bool,
    /// Whether this is what an envelope holds; envelopes within envelopes are not opened.
    within: bool,
}

impl Seen {
    fn format(&self) -> Option<Format> {
        match self {
            Self { dynamo: true, .. } => Some(Format::Dynamo),
            Self { token_ids: true, .. } => Some(Format::TokenIds),
            Self { sessions: true, .. } => Some(Format::Weka),
            Self { hash_ids: true, qwen: true, .. } => Some(Format::Qwen),
            Self { hash_ids: true, weka: true, .. } => Some(Format::Weka),
            Self { hash_ids: true, .. } => Some(Format::Mooncake),
            Self { openai: true, .. } => Some(Format::Openai),
            _ => None,
        }
    }

    fn describe(&self) -> String {
        let more = match self.more_fields {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        format!("a JSON object with the fields {}{more}", self.fields.join(", "))
    }

    fn note_name(&mut self, key: &str) {
        let is_name =
            key.len() <= 40 && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        if is_name && self.fields.len() < SHOWN_FIELDS {
            self.fields.push(key.to_owned());
        } else {
            self.more_fields += 1;
        }
    }

    /// A dynamo file may wrap each record in an envelope.
    fn look_into_event(&mut self, event: &RawValue) {
        let mut inner = Self { within: true, ..Self::default() };
        let readable = read_line(event.get().as_bytes(), Object(&mut inner)).is_ok();
        self.dynamo |= readable && inner.dynamo;
    }

    /// A batch file wraps each request in an envelope.
    fn look_into_body(&mut self, body: &RawValue) {
        let mut inner = Self { within: true, ..Self::default() };
        let readable = read_line(body.get().as_bytes(), Object(&mut inner)).is_ok();
        self.openai |= readable && inner.openai;
    }
}

impl<'de> Fields<'de> for Seen {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.note_name(key);
        self.token_ids |= TOKEN_FIELDS.contains(&key);
        self.sessions |= key == "requests";
        self.hash_ids |= key == "hash_ids";
        self.weka |= matches!(key, "block_size" | "session_id" | "hash_id_scope");
        self.qwen |= key == "chat_id";
        self.openai |= matches!(key, "messages" | "prompt" | "input");
        match key {
            "schema" => {
                let schema: &RawValue = map.next_value()?;
                self.dynamo |= schema.get().starts_with("\"dynamo.request.trace.");
                Ok(())
            }
            "body" if !self.within => {
                let body: &RawValue = map.next_value()?;
                self.look_into_body(body);
                Ok(())
            }
            "event" if !self.within => {
                let event: &RawValue = map.next_value()?;
                self.look_into_event(event);
                Ok(())
            }
            _ => ignore(map),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_told_by_its_fields() {
        let cases = [
            (r#"{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[0]}"#, Format::Mooncake),
            (r#"{"id":"a","block_size":64,"hash_id_scope":"local","requests":[]}"#, Format::Weka),
            (r#"{"timestamp":0,"session_id":"a","block_size":64,"hash_ids":[]}"#, Format::Weka),
            (r#"{"chat_id":1,"parent_chat_id":-1,"timestamp":0.1,"turn":1,"hash_ids":[1]}"#, Format::Qwen),
            (r#"{"schema":"dynamo.request.trace.v1","request":{}}"#, Format::Dynamo),
            (r#"{"timestamp":1,"event":{"schema":"dynamo.request.trace.v1"}}"#, Format::Dynamo),
            ("[1,2]", Format::TokenIds),
            ("  [{\"tokens\":[1]}]", Format::TokenIds),
            (r#"{"input_ids":[1]}"#, Format::TokenIds),
            (r#"{"model":"m","messages":[]}"#, Format::Openai),
            (r#"{"prompt":"x","max_tokens":1}"#, Format::Openai),
            (r#"{"model":"m","instructions":"i","input":"x"}"#, Format::Openai),
            (r#"{"custom_id":"1","body":{"model":"m","messages":[]}}"#, Format::Openai),
        ];
        for (line, format) in cases {
            assert_eq!(detect(line.as_bytes()), Ok(format), "{line}");
        }
    }

    #[test]
    fn envelopes_within_envelopes_cost_no_stack() {
        for name in ["event", "body"] {
            let deep = format!("{}1{}", format!("{{\"{name}\":").repeat(200_000), "}".repeat(200_000));
            assert!(detect(deep.as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_unknown_is_described_without_values() {
        let seen = detect(br#"{"secret":"hunter2","a key with words":[4711]}"#).expect_err("no known format");
        assert_eq!(seen, "a JSON object with the fields secret and 1 more");
        for line in ["hash_ids: 1", "{\"hash_ids\":[1", "\"text\"", "42", "{}"] {
            assert!(detect(line.as_bytes()).is_err(), "{line}");
        }
    }
}
