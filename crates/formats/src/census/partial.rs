//! Rows that say by themselves that their prompts are not whole: a flag or a count of what was left out, fewer bytes
//! logged than there were, a system prompt that is only named, and messages that lie elsewhere.

use super::UnreadField;
use super::rules::{UnreadKind, is_of_answer};
use super::scopes::is_beside_the_request;
use super::words::{any, is_set, words_of_last};
use crate::record::json::TOKEN_FIELDS;
use crate::row_values::walk;
use kvset_core::units::names::listed;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is done to a prompt that is cut.
const CUT: [&str; 9] =
    ["truncated", "clipped", "abridged", "trimmed", "elided", "dropped", "omitted", "removed", "shortened"];
/// What else is done to texts before they are logged.
const CHANGED: [&str; 8] =
    ["masked", "anonymized", "pseudonymized", "redacted", "redaction", "scrubbed", "hash", "rewritten"];
/// What it is made of.
const PARTS: [&str; 15] = listed(
    "message messages turn turns token tokens char chars characters bytes part parts images tools lines",
);
/// What no text of a message is.
const MEDIA: [&str; 10] =
    ["image", "images", "audio", "audios", "video", "videos", "attachment", "attachments", "file", "files"];
const CONTENT: &str = "messages[].content";
/// The most letters of a token on average, in texts of any length but for a few tokens.
const LETTERS: usize = 8;
const SLACK: usize = 16;
/// Bytes by which a request may be longer than the row that it was logged in, alongside half of that.
const ROOM: usize = 1024;

/// What a row has, as far as it is asked.
#[derive(Default)]
struct Said {
    /// Fields that say that something is missing.
    paths: BTreeSet<String>,
    /// Fields that name a system prompt, and that count what no text is.
    systems: Vec<String>,
    media: Vec<String>,
    /// Numbers by their fields.
    numbers: BTreeMap<String, f64>,
    /// Messages and tools of the row.
    messages: usize,
    tools: usize,
    /// Letters of a prompt beside token ids, and the place and number of these.
    letters: usize,
    /// Bytes of the whole row.
    bytes: usize,
    ids: Option<(String, usize)>,
    has_system: bool,
    has_media: bool,
    /// Contents of messages, and those that only say where they lie.
    contents: u64,
    elsewhere: u64,
    is_cut: bool,
}

impl Said {
    /// Takes a message, by itself: agents cut the output of their tools, and the engine saw it so.
    fn message(&mut self, message: &Value) {
        let role = message["role"].as_str().unwrap_or_default();
        if let Some(text) = message["content"].as_str() {
            self.content(text, matches!(role, "tool" | "function"));
        }
    }

    fn take(&mut self, path: &str, value: &Value) {
        let items = value.as_array().map_or(0, Vec::len);
        match path.rsplit('.').next() {
            Some("messages") => self.messages = self.messages.max(items),
            Some("tools") => self.tools = self.tools.max(items),
            _ => {}
        }
        if path.ends_with("messages[]") && value.is_object() {
            self.message(value);
        }
        let names: Vec<&str> = path.rsplit('.').take(1).collect();
        let last = words_of_last(&names);
        let text = value.as_str().unwrap_or_default();
        let number = value.as_f64().unwrap_or(0.0);
        match path.rsplit("messages[].").next().filter(|_| path.contains("messages[].")) {
            Some("role") => self.has_system |= matches!(text, "system" | "developer"),
            Some("content") if value.is_string() => {}
            Some(_) => {
                self.has_media |=
                    any(&last, &MEDIA) || any(&super::words::words(text), &MEDIA) && text.len() < 16;
            }
            None if matches!(path, "prompt" | "text") => self.letters = self.letters.max(text.len()),
            None if TOKEN_FIELDS.contains(&path) && value.is_array() => {
                self.ids = value.as_array().map(|ids| (path.to_owned(), ids.len()));
            }
            // What an answer says that it goes on with stands in front of the prompt.
            None if path.ends_with("response.previous_response_id") && !text.is_empty() => {
                self.paths.insert(path.to_owned());
            }
            None if counted(path, &last) == Some(RowAmount::Tools) => {
                self.numbers.insert(path.to_owned(), number);
            }
            None if is_of_answer(path) || is_beside_the_request(path) => {}
            None => {
                let is_flag = is_set(value) && (any(&last, &CUT) || any(&last, &CHANGED));
                let is_flag = is_flag || (items > 0 && any(&last, &CHANGED) && any(&last, &["fields"]));
                let is_count = number > 0.0 && any(&last, &CUT) && any(&last, &PARTS);
                if is_flag || is_count {
                    self.paths.insert(path.to_owned());
                }
                let is_named = any(&last, &["id", "name", "ref", "version", "key", "hash"]);
                if any(&last, &["system", "sys"]) && any(&last, &["prompt"]) && is_named && !text.is_empty() {
                    self.systems.push(path.to_owned());
                }
                if number > 0.0 && any(&last, &MEDIA) && any(&last, &["num", "n", "count", "number"]) {
                    self.media.push(path.to_owned());
                }
                self.has_system |= matches!(path, "system" | "instructions") || path.ends_with(".system");
                if number > 0.0 {
                    self.numbers.insert(path.to_owned(), number);
                }
            }
        }
    }

    /// Takes what a message says.
    fn content(&mut self, text: &str, is_of_tool: bool) {
        let is_place = !text.contains(char::is_whitespace)
            && (text.contains("://") || text.starts_with('/') && text.matches('/').count() > 1);
        self.contents += 1;
        self.elsewhere += u64::from(is_place);
        self.is_cut |= !is_of_tool && says_cut(text);
    }

    /// The fields that say that the prompt is not whole.
    fn fields(mut self) -> BTreeSet<String> {
        let is_less = |(path, logged): (&String, &f64)| {
            let whole = path.strip_suffix("_logged").or_else(|| path.strip_suffix("_captured"))?;
            self.numbers.get(whole).filter(|whole| *whole > logged).map(|_| path.clone())
        };
        self.paths.extend(self.numbers.iter().filter_map(is_less));
        if !self.has_system {
            self.paths.append(&mut self.systems.into_iter().collect());
        }
        if !self.has_media {
            self.paths.append(&mut self.media.into_iter().collect());
        }
        let row = std::mem::take(&mut self.numbers);
        let is_of_text =
            self.paths.is_empty() && self.ids.is_none() && (self.contents > 0 || self.letters > 0);
        let longer = row.into_iter().filter(|(path, number)| {
            let last = words_of_last(&[path.rsplit('.').next().unwrap_or_default()]);
            match counted(path, &last) {
                Some(RowAmount::Length) => is_of_text && *number > (self.bytes * 3 / 2 + ROOM) as f64,
                Some(RowAmount::Messages) => self.messages > 0 && *number > (self.messages + 1) as f64,
                Some(RowAmount::Tools) => self.messages > 0 && *number > self.tools as f64,
                None => false,
            }
        });
        self.paths.extend(longer.map(|(path, _)| path));
        // No token is that long, but for a few.
        let is_more = |(_, ids): &(String, usize)| *ids > 0 && self.letters > (ids + SLACK) * LETTERS;
        self.paths.extend(self.ids.filter(is_more).map(|(path, _)| path));
        if self.is_cut || (self.contents > 0 && self.elsewhere == self.contents) {
            self.paths.insert(CONTENT.to_owned());
        }
        self.paths
    }
}

/// What a number of a row counts that the row has.
#[derive(PartialEq, Eq, Debug)]
enum RowAmount {
    /// Characters, bytes, words or tokens of a request: a row with all of it is about as long.
    Length,
    Messages,
    Tools,
}

/// What a number at a path counts by its name.
fn counted(path: &str, last: &[String]) -> Option<RowAmount> {
    const OTHERS: [&str; 23] = listed(
        "max min limit context ctx window model output response completion answer call calls batch page file cache \
            resp out sent image total audio",
    );
    let all = super::words::words(path);
    let has = |of: &[&str]| any(last, of);
    if any(&all, &OTHERS) || path.contains("[]") {
        return None;
    }
    let is_number = has(&["num", "n", "count", "number"]);
    let is_length = has(&["length", "len", "size", "chars", "characters", "bytes", "words"]);
    let is_of_request =
        has(&["request", "prompt", "input", "content", "body", "payload", "message", "messages"])
            || last == ["bytes", "in"];
    match (is_number, is_length) {
        (true, _) if has(&["message", "messages"]) => Some(RowAmount::Messages),
        (true, _) if has(&["tool", "tools"]) => Some(RowAmount::Tools),
        (false, true) if is_of_request => Some(RowAmount::Length),
        _ => None,
    }
}

/// Whether a text says in its middle how much of it is missing: `…132 tokens truncated…`.
fn says_cut(text: &str) -> bool {
    CUT[..5].iter().chain(["omitted", "removed"].iter()).any(|cut| {
        text.match_indices(cut).any(|(at, _)| {
            let mut before = text[..at].split_whitespace().rev();
            let part = before.next().unwrap_or_default();
            let number = before.next().unwrap_or_default().trim_start_matches(|c: char| !c.is_ascii_digit());
            let behind = text[at + cut.len()..].chars().next();
            PARTS.contains(&part)
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && behind.is_some_and(|behind| matches!(behind, '…' | '.' | ']' | ')' | '>'))
        })
    })
}

/// The fields by which these rows say that prompts are not whole.
pub(super) fn partial(rows: &mut dyn Iterator<Item = &Value>) -> Vec<UnreadField> {
    let (mut fields, mut of) = (BTreeMap::<String, u64>::new(), 0);
    for row in rows {
        of += 1;
        let mut said = Said { bytes: row.to_string().len(), ..Said::default() };
        walk(row, &mut |path, value| {
            if !path.is_empty() {
                said.take(path, value);
            }
        });
        said.fields().into_iter().for_each(|path| *fields.entry(path).or_default() += 1);
    }
    let told =
        fields.into_iter().map(|(path, rows)| UnreadField::counted(path, UnreadKind::Partial, (rows, of)));
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(row: &Value) -> Vec<String> {
        partial(&mut std::iter::once(row)).into_iter().map(|field| field.path).collect()
    }

    #[test]
    fn rows_say_that_their_prompts_are_not_whole() {
        let messages = json!([{"role": "user", "content": "What is this?"}]);
        for (name, value) in [
            ("truncated", json!(true)),
            ("dropped_messages", json!(4)),
            ("num_images", json!(3)),
            ("system_prompt_id", json!("sp_support_v3")),
            ("prompt_chars", json!(48_211)),
            ("request_size", json!(48_211)),
            ("bytes_in", json!(48_211)),
            ("message_count", json!(9)),
            ("numTools", json!(12)),
            ("pii_masked", json!(true)),
            ("redacted_fields", json!(["messages"])),
        ] {
            assert_eq!(named(&json!({"messages": messages, name: value})), [name]);
        }
        let bytes = json!({"messages": messages, "payload_bytes_logged": 2000, "payload_bytes": 90000});
        assert_eq!(named(&bytes), ["payload_bytes_logged"]);
        for content in ["s3://prompts/blob/c1/3.txt", "It begins…132 tokens truncated…and ends."] {
            assert_eq!(named(&json!({"messages": [{"role": "user", "content": content}]})), [CONTENT]);
        }
    }

    /// 64 ids beside a text of 900 tokens were taken for all of it.
    #[test]
    fn ids_beside_a_text_that_is_far_longer_are_not_all_of_it() {
        let row = |letters: usize| json!({"prompt_token_ids": vec![7; 64], "prompt": "x".repeat(letters)});
        assert_eq!(named(&row(4000)), ["prompt_token_ids"]);
        assert_eq!(named(&row(300)), [""; 0]);
    }

    #[test]
    fn whole_prompts_say_nothing() {
        let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]);
        for row in [
            json!({"messages": messages, "system_prompt_id": "a", "truncated": false, "dropped_messages": 0}),
            json!({"messages": messages, "num_images": 0, "response": {"truncated": true}}),
            json!({"messages": messages, "message_count": 3, "num_tools": 0, "content_length": 900}),
            json!({"messages": messages, "max_prompt_length": 48_211, "response_bytes": 48_211, "pii_masked": false}),
            json!({"token_ids": vec![7; 64], "prompt_length": 48_211}),
            json!({"messages": messages, "payload_bytes_logged": 90, "payload_bytes": 90}),
            json!({"messages": [{"role": "tool", "content": "It begins [132 lines truncated] and ends."}]}),
            json!({"messages": [{"role": "user", "content": "10 lines removed from the file, why?"}]}),
            json!({"messages": [{"role": "user", "content": "see https://example.org/a please"}]}),
        ] {
            assert_eq!(named(&row), [""; 0], "{row}");
        }
    }
}
