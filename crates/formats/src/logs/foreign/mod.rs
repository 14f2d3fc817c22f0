//! Logs that hold no prompt which could be read, and what to log in their place.
//!
//! A table says how each looks; whatever is in none of its rows is described by what it lacks. Nothing here quotes a
//! record.

mod table;

use super::envelope::{EnvelopeValue, Visit, is_object, walk};
use super::shape::PromptKind;
use crate::record::members::{Members, member, members};
use serde_json::value::RawValue;
use table::Mark::{Begins, Columns, Each, EachAsks, Has, Magic, Near, Pairs, Says};
use table::{DESPITE, FILES, Foreign, Mark, NO_COUNTS, RECORDS, TEXTS};

const BREAKS_OFF: &str = "a JSON object breaks off, as where a collector splits long lines (Docker after 16 KiB): join \
    them, with Fluent Bit's multiline.parser docker, cri or Vector's auto_partial_merge";
const BARE_MESSAGES: &str = "a list of messages and nothing around it: write {\"timestamp\": ..., \"model\": ..., \
    \"messages\": [...]} a line for each request; in a transcript, each answer was one, with all messages before it";
const TEXT: &str = "a text, neither a JSON object nor an array: log requests with their prompts as JSON lines; where \
    such lines stand among others, --format with their kind and --skip-bad-rows read them";

/// Parts of the names of counts, as any log spells them.
const COUNTS: [&str; 6] = ["token", "promptlen", "inputlen", "outputlen", "usage", "latency"];

/// What a row is that has the fields of a format, or something with them in it, and is none of it: events of a cache
/// list tokens, but not those of prompts.
pub(crate) fn despite_its_fields(row: &[u8]) -> Option<String> {
    let members = members(std::str::from_utf8(row).ok()?)?;
    among(DESPITE, &members).map(|known| known.sentence(""))
}

/// What a file or a record is, and what helps; nothing where nobody can say. It is looked into as an envelope is.
pub fn describe(record: &[u8]) -> Option<String> {
    if let Some(file) = FILES.iter().find(|known| known.matches(|mark| is_of_bytes(mark, record))) {
        return Some(file.sentence(""));
    }
    let Ok(text) = std::str::from_utf8(record) else { return None };
    if lists_messages(text.trim()) {
        return Some(BARE_MESSAGES.to_owned());
    }
    let (mut found, mut has_prompt, mut has_counts, mut messages) = (None, false, false, None);
    walk(record, &mut |place, value| {
        if let Some(known) = known(value) {
            let at = if place.is_top() { String::new() } else { format!("{place} ") };
            found = Some(known.sentence(&at));
            return Visit::Stop;
        }
        let Some(members) = &value.members else {
            if place.is_top() || !is_object(value.text) {
                return Visit::Open;
            }
            found = Some(format!("{place} {BREAKS_OFF}"));
            return Visit::Stop;
        };
        has_counts = has_counts || members.iter().any(|(name, _)| is_count(name));
        if let Some((name, _)) = members.iter().find(|(_, value)| lists_messages(value.get())) {
            messages = messages.take().or(Some(name.clone().into_owned()));
        }
        let is_prompt = PromptKind::of_members(members).is_some();
        has_prompt |= is_prompt;
        if is_prompt { Visit::Pass } else { Visit::Open }
    });
    match found {
        None if has_prompt => None,
        None if let Some(name) = &messages => Some(format!(
            "it has a list of messages under another name, `{name}`: write it as `messages`, with what else the request \
             had (`model`, `tools`) beside it"
        )),
        None if has_counts => Some(format!("it has counts of tokens and no prompt: {NO_COUNTS}")),
        None if is_text(text) => Some(TEXT.to_owned()),
        None if let Some(name) = not_kept(text) => Some(format!(
            "its `{name}` is null, as where a body was too large to log: --request {name} names where requests are, and \
             --skip-bad-rows leaves such rows out"
        )),
        found => found,
    }
}

/// The field of a request that was not kept.
fn not_kept(record: &str) -> Option<&'static str> {
    let members = members(record)?;
    let is_null = |name: &&str| members.iter().any(|(known, json)| known == name && json.get() == "null");
    ["request", "request_body", "requestBody", "body", "payload", "input"].into_iter().find(is_null)
}

/// Whether a value is a list of messages, each of somebody.
fn lists_messages(json: &str) -> bool {
    let items: Option<Vec<&RawValue>> =
        json.starts_with('[').then(|| serde_json::from_str(json).ok()).flatten();
    let is_message = |item: &&RawValue| {
        members(item.get())
            .is_some_and(|members| ["role", "content"].iter().all(|name| member(&members, name).is_some()))
    };
    items.is_some_and(|items| !items.is_empty() && items.iter().all(is_message))
}

fn known(value: &EnvelopeValue<'_>) -> Option<&'static Foreign> {
    if let Some(members) = &value.members {
        return among(DESPITE, members).or_else(|| among(RECORDS, members));
    }
    if value.is_list {
        return None;
    }
    let line = value.text.lines().find(|line| !line.trim().is_empty())?;
    let holds = |mark: &Mark| match mark {
        Says(words) => line.contains(words),
        Begins(_, with) => line.trim_start().starts_with(with),
        Columns => is_columns(line),
        Pairs => line.split_whitespace().filter(|word| is_pair(word)).count() >= 3,
        _ => false,
    };
    TEXTS.iter().find(|known| known.matches(holds))
}

/// The first of these that an object is by its members.
fn among(table: &'static [Foreign], members: &Members<'_>) -> Option<&'static Foreign> {
    let each = |holds: &dyn Fn(&str) -> bool| {
        members.iter().all(|(_, value)| value.get().starts_with('{') && holds(value.get()))
    };
    let holds = |mark: &Mark| match mark {
        Has(path) => at(members, path).is_some(),
        Begins(path, with) => {
            let text = at(members, path).and_then(|json| json.strip_prefix('"'));
            text.is_some_and(|text| text.starts_with(with))
        }
        Each(path) if members.len() > 1 => {
            each(&|json| self::members(json).is_some_and(|inner| at(&inner, path).is_some()))
        }
        EachAsks if members.len() > 2 => each(&|json| PromptKind::of(json).is_some()),
        _ => false,
    };
    table.iter().find(|known| known.matches(holds))
}

impl Foreign {
    fn matches(&self, holds: impl Fn(&Mark) -> bool) -> bool {
        self.marks.iter().any(|all| all.iter().all(&holds))
    }

    fn sentence(&self, at: &str) -> String {
        format!("{at}this is {}: {}", self.what, self.instead)
    }
}

fn is_of_bytes(mark: &Mark, bytes: &[u8]) -> bool {
    match mark {
        Magic(magic) => bytes.starts_with(magic),
        Near(some) => memchr::memmem::find(bytes, some).is_some(),
        _ => false,
    }
}

/// The JSON at a way of names and indices; nothing for null.
fn at<'v>(members: &Members<'v>, path: &str) -> Option<&'v str> {
    let mut steps = path.split('/');
    let mut here = member(members, steps.next()?)?;
    for step in steps {
        here = match here.starts_with('[') {
            true => {
                let items: Vec<&RawValue> = serde_json::from_str(here).ok()?;
                items.get(step.parse::<usize>().ok()?)?.get()
            }
            false => member(&self::members(here)?, step)?,
        };
    }
    (here != "null").then_some(here)
}

/// Whether a line names the columns of a table: two words or more between commas, semicolons or tabs.
fn is_columns(line: &str) -> bool {
    let is_name = |column: &str| {
        let column = column.trim().trim_matches('"');
        let known = |c: char| c.is_alphanumeric() || " _-.()/#%".contains(c);
        !column.is_empty() && column.len() <= 64 && column.chars().all(known)
    };
    [',', ';', '\t'].into_iter().any(|separator| {
        let columns: Vec<&str> = line.split(separator).collect();
        columns.len() > 1
            && columns.iter().all(|column| is_name(column))
            && columns[0].contains(char::is_alphabetic)
    })
}

fn is_pair(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    })
}

/// Whether a record is a text, and neither JSON nor bytes of another kind.
fn is_text(record: &str) -> bool {
    let is_printed = |c: char| !c.is_control() || c.is_whitespace();
    let start = record.trim_start();
    // `[2025-11-20 12:00:00] ...`: a list has no such item.
    let dated = start.strip_prefix('[').and_then(|inner| inner.split_once(']')).is_some_and(|(inner, _)| {
        inner.starts_with(|c: char| c.is_ascii_digit()) && inner.contains(':') && !inner.contains('"')
    });
    (dated || !start.starts_with(['{', '['])) && record.chars().all(is_printed)
}

fn is_count(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    // Ids are no counts of them.
    !name.ends_with("ids") && COUNTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_named_also_behind_a_collector() {
        let text = "[2025-11-20 12:00:00] Receive: obj=GenerateReqInput(rid='a1', input_ids=[11, 12])";
        for record in [text.to_owned(), serde_json::json!({"log": text, "stream": "stdout"}).to_string()] {
            let told = describe(record.as_bytes()).expect("known");
            assert!(told.contains("SGLang") && told.contains("--log-requests-format json"), "{told}");
            assert!(!told.contains("a1") && !told.contains("11"), "{told}");
        }
        let behind = describe(br#"{"records": [{"properties": {"SequenceNumber": 0}}]}"#).expect("known");
        assert!(behind.starts_with("at `records[]` this is a log of Azure API Management"), "{behind}");
        assert!(describe(b"PAR1\x15\x04").expect("known").contains("Parquet"));
    }

    #[test]
    fn what_is_not_known_is_told_by_what_it_lacks() {
        let counts = describe(br#"{"ts": 1, "usage": {"inputTokens": 5}}"#).expect("counts");
        assert!(counts.contains("no prompt"), "{counts}");
        // PostHog's rows were told to log the prompts that they have.
        let renamed = br#"{"properties": {"$ai_input_tokens": 9, "$ai_input": [{"role": "user", "content": "hunter2"}]}}"#;
        let told = describe(renamed).expect("messages");
        assert!(told.contains("`$ai_input`") && !told.contains("hunter2"), "{told}");
        let bare = br#"[{"role": "user", "content": "hunter2"}]"#;
        assert!(describe(bare).is_some_and(|told| told.starts_with("a list of messages")));
        assert!(describe(b"hunter2").is_some_and(|told| !told.contains("hunter2")));
        assert_eq!(describe(br#"{"note": "hunter2"}"#), None);
    }

    #[test]
    fn columns_and_pairs_are_told_from_prose() {
        for line in ["Timestamp,Request tokens,Response tokens", "a;b", "TIMESTAMP\tContextTokens"] {
            assert!(is_columns(line), "{line}");
        }
        for line in ["5,472,18", "no JSON", "Well, it's said; done!", ""] {
            assert!(!is_columns(line), "{line}");
        }
    }
}
