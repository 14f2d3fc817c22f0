//! A dead letter as its headers tell it (`schemas/dead_letter.avsc`), for people and for programs.

use crate::present::words::visible;
use kvset_formats::time::date_of_ms;
use kvset_kafka::kafka::reader::ReadRecord;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The columns of [`Letter::line`].
pub const HEADING: &str =
    "refused record                    time                  code                     why";

/// Longest text of a header that is shown, in characters: no more than this program writes.
const MAX_CHARS: usize = 256;

/// Why and where a record was refused. Payload is in `key` and `value` alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Letter {
    /// Place of the letter itself on its topic.
    pub at: (i32, i64),
    /// Topic, partition and offset of the refused record.
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// Broker time of the refused record, in milliseconds since the epoch.
    pub timestamp_ms: Option<i64>,
    /// The code and the reason.
    pub code: String,
    pub detail: String,
    /// What refused it.
    pub version: Option<String>,
    pub fingerprint: Option<String>,
    /// Size in bytes and XXH3-64 of the value, in letters without one.
    pub value_bytes: Option<u64>,
    pub value_xxh3: Option<String>,
    /// The refused record's own bytes.
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

/// A header's text without what a terminal would obey.
fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(visible).take(MAX_CHARS).collect()
}

impl Letter {
    /// Reads a record of the dead-letter topic; `None` where its headers are not those of a dead letter.
    pub fn of(record: ReadRecord) -> Option<Self> {
        let header = |name: &str| {
            record.headers.iter().find(|(found, _)| found == name).map(|(_, value)| clean(value))
        };
        let number = |name: &str| header(name)?.parse::<i64>().ok();
        Some(Self {
            at: (record.partition, record.offset),
            topic: header("kvset_topic")?,
            partition: header("kvset_partition")?.parse().ok()?,
            offset: number("kvset_offset")?,
            timestamp_ms: number("kvset_timestamp_ms"),
            code: header("kvset_error_code")?,
            detail: header("kvset_error_detail")?,
            version: header("kvset_version"),
            fingerprint: header("kvset_fingerprint"),
            value_bytes: number("kvset_value_bytes").and_then(|bytes| u64::try_from(bytes).ok()),
            value_xxh3: header("kvset_value_xxh3"),
            key: record.key,
            value: record.value,
        })
    }

    /// One line of a table, without payload.
    pub fn line(&self) -> String {
        let place = format!("{}/{} {}", self.topic, self.partition, self.offset);
        let time = self.timestamp_ms.filter(|ms| *ms >= 0).map_or_else(|| "-".to_owned(), date_of_ms);
        format!("{place:<33} {time:<21} {:<24} {}", self.code, self.detail)
    }

    /// Key and value, a line each, indented; bytes that are no text are written in hexadecimal digits.
    pub fn payload_lines(&self) -> String {
        let mut lines = String::new();
        for (name, bytes) in [("key", &self.key), ("value", &self.value)] {
            let shown = match bytes {
                None => "(none kept)".to_owned(),
                Some(bytes) => match text(bytes) {
                    Some(text) => text.chars().map(visible).collect(),
                    None => hex(bytes),
                },
            };
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "  {name:<6} {shown}");
        }
        lines
    }

    /// The letter as JSON; key and value with `raw` only, as `key` and `value` where they are UTF-8, else in
    /// hexadecimal digits as `key_hex` and `value_hex`.
    pub fn as_json(&self, raw: bool) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        put("topic", json!(self.topic));
        put("partition", json!(self.partition));
        put("offset", json!(self.offset));
        put("timestamp_ms", json!(self.timestamp_ms));
        put("code", json!(self.code));
        put("detail", json!(self.detail));
        put("version", json!(self.version));
        put("fingerprint", json!(self.fingerprint));
        put("value_bytes", json!(self.value_bytes.or(self.value.as_ref().map(|value| value.len() as u64))));
        put("value_xxh3", json!(self.value_xxh3));
        put("letter_partition", json!(self.at.0));
        put("letter_offset", json!(self.at.1));
        for (name, bytes) in [("key", &self.key), ("value", &self.value)].into_iter().filter(|_| raw) {
            match bytes.as_ref().map(|bytes| (text(bytes), bytes)) {
                Some((None, bytes)) => put(&format!("{name}_hex"), json!(hex(bytes))),
                Some((Some(text), _)) => put(name, json!(text)),
                None => put(name, Value::Null),
            }
        }
        Value::Object(object)
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

impl std::fmt::Debug for Letter {
    /// Shows sizes in place of the payload.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Letter").field("at", &self.at).field("line", &self.line()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: Option<&[u8]>) -> ReadRecord {
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        ReadRecord {
            partition: 1,
            offset: 5,
            timestamp_ms: None,
            key: Some(b"pool".to_vec()),
            value: value.map(<[u8]>::to_vec),
            headers: vec![
                header("kvset_topic", "requests"),
                header("kvset_partition", "3"),
                header("kvset_offset", "77"),
                header("kvset_timestamp_ms", "1700000000000"),
                header("kvset_error_code", "missing_field"),
                header("kvset_error_detail", "no \u{1b}[31mevent_time"),
            ],
        }
    }

    #[test]
    fn a_prompt_is_shown_only_when_asked_for() {
        let letter = Letter::of(record(Some(b"my secret prompt"))).expect("a dead letter");
        assert!(!letter.line().contains("secret") && !format!("{letter:?}").contains("secret"));
        let plain = letter.as_json(false);
        assert!(!plain.to_string().contains("secret") && plain.get("key").is_none());
        assert_eq!((&plain["offset"], &plain["value_bytes"]), (&json!(77), &json!(16)));
        assert_eq!(letter.as_json(true)["value"], "my secret prompt");
        assert!(letter.payload_lines().contains("my secret prompt"));
    }

    #[test]
    fn a_line_says_where_when_and_why_and_a_terminal_obeys_nothing_of_it() {
        let line = Letter::of(record(None)).expect("a dead letter").line();
        for part in ["requests/3 77", "2023-11-14T22:13:20Z", "missing_field", "event_time"] {
            assert!(line.contains(part), "{part} is missing in {line}");
        }
        assert!(!line.contains('\u{1b}'), "{line:?}");
        assert_eq!(HEADING.find("time"), line.find("2023"), "columns stand under their headings");
        assert_eq!(HEADING.find("code"), line.find("missing_field"));
    }

    #[test]
    fn bytes_that_are_no_text_are_digits_and_other_records_are_no_letters() {
        let letter = Letter::of(record(Some(&[0xff, 0x00]))).expect("a dead letter");
        assert_eq!(letter.as_json(true)["value_hex"], "ff00");
        let other = ReadRecord { headers: Vec::new(), ..record(None) };
        assert_eq!(Letter::of(other), None);
    }
}
