//! Telling a trace's format, and where its records lie, from its first row.

use super::first_row::FirstRow;
use super::formats::LineFormat;
use super::id_arrays::Shortened;
use super::options::Format;
use crate::almost_json;
use crate::logs::shape::{PromptKind, RecordShape};
use crate::logs::{EnvelopeRecords, FieldPath, Places, Preset, foreign, open};
use crate::record::numbers::TokenId;
use crate::record::stated_time::StatedTime;
use crate::record::subagents::SubagentEvidence;
use serde_json::value::RawValue;

/// Most fields that seem to be times and are named.
const SHOWN_FIELDS: usize = 8;

/// Tells a format by the row without its ids: they are nearly all of it, and would be read for each format anew.
pub(super) fn detect_row(row: &[u8]) -> Result<Detected, String> {
    let mut shortened = Shortened::default();
    match shortened.take(row, &mut Vec::new()) {
        true => detect(&shortened.json),
        false => detect(row),
    }
}

/// How the rows of a trace are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Detected {
    /// The format of its records.
    pub format: Format,
    /// Whether something is put around the records.
    pub is_enveloped: bool,
    /// Where in each record the request and its answer are, for requests in records of no known shape.
    pub places: Places,
    /// What the times of sub-agents show.
    pub subagents: SubagentEvidence,
    /// Fields of the first row that seem to be times and are not read.
    pub unread_times: Vec<String>,
}

impl Detected {
    /// Rows that lie in nothing else.
    pub fn plain(format: Format) -> Self {
        Self {
            format,
            is_enveloped: false,
            places: Places::default(),
            subagents: SubagentEvidence::default(),
            unread_times: Vec::new(),
        }
    }
}

/// How a trace that begins with `line` is to be read, or a description of what was seen instead.
///
/// The description names fields (never values), as far as they look like names.
pub(super) fn detect(line: &[u8]) -> Result<Detected, String> {
    if let Some(what) = foreign::despite_its_fields(line) {
        return Err(what);
    }
    if let Some(format) = format_of(line) {
        let unread_times = match format {
            Format::Openai | Format::TokenIds => unread_times(line),
            _ => Vec::new(),
        };
        return Ok(Detected { unread_times, ..Detected::plain(format) });
    }
    if let Some(json) = almost_json::as_json(line) {
        return detect(&json);
    }
    if let Some(inner) = in_envelope(line) {
        return inner.map(|found| Detected { unread_times: unread_times(line), ..found });
    }
    foreign::describe(line).map_or_else(|| Err(describe(line)), Err)
}

/// The format of a row that lies in nothing else.
pub fn format_of(row: &[u8]) -> Option<Format> {
    match row.trim_ascii_start().first()? {
        b'[' => is_token_ids(row).then_some(Format::TokenIds),
        b'{' => {
            // What is no text stands in words that nobody needs here.
            let plain = LineFormat::shown_by(&FirstRow::of(&String::from_utf8_lossy(row))?);
            known_log(row, plain).or(plain)
        }
        _ => None,
    }
}

/// Whether a list is one of tokens, of prompts of tokens, or of objects with them.
fn is_token_ids(list: &[u8]) -> bool {
    let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(list) else { return false };
    items.first().is_none_or(|first| match first.get().as_bytes()[0] {
        b'{' => format_of(first.get().as_bytes()) == Some(Format::TokenIds),
        b'[' => true,
        _ => serde_json::from_str::<TokenId>(first.get()).is_ok(),
    })
}

/// The log known by name that `row` is of. Its fields may be those of a plain request, too, but not all it says.
fn known_log(row: &[u8], plain: Option<Format>) -> Option<Format> {
    match Preset::of(row)? {
        Preset::Dynamo | Preset::OpenaiBatch => None,
        Preset::Vllm if plain.is_some() => None,
        log => Some(Format::Log(log)),
    }
}

/// What lies in a row that is of no format itself: a record of a log, rows of a format, or a request.
fn in_envelope(line: &[u8]) -> Option<Result<Detected, String>> {
    let (mut format, mut is_request) = (None, false);
    let EnvelopeRecords { place, .. } = open(line, &mut |inner| {
        let found = format_of(inner);
        is_request = found.is_some_and(Format::has_places)
            && std::str::from_utf8(inner).ok().and_then(PromptKind::of).is_some();
        // A bare text is a prompt of its own only where a model is asked.
        format = found.filter(|format| *format != Format::Openai || is_request || has_body(inner));
        format.is_some()
    })?;
    let format = format?;
    let mut names = place.names();
    // A request with its headers is no line of a batch.
    if !is_request && format == Format::Openai && !names.is_empty() {
        names.push("body".to_owned());
        is_request = true;
    }
    // A request that has all alongside it is read with what stands around it.
    let Some(request) = FieldPath::of(&names).filter(|_| is_request) else {
        return Some(Ok(Detected { is_enveloped: true, ..Detected::plain(format) }));
    };
    Some(places_of(line, request).map(|places| Detected { places, ..Detected::plain(format) }))
}

/// Fields of a row that seem to be times and have no name that is known for one.
fn unread_times(row: &[u8]) -> Vec<String> {
    let RecordShape { times, .. } = RecordShape::of(row).unwrap_or_default();
    let paths = times.into_iter().map(|(path, _)| path.to_string());
    paths.filter(|path| StatedTime::name(path).is_none()).take(SHOWN_FIELDS).collect()
}

/// The places of the request and of the answer with its usage, where there is one of each.
fn places_of(line: &[u8], request: FieldPath) -> Result<Places, String> {
    let RecordShape { requests, usages, .. } = RecordShape::of(line).unwrap_or_default();
    if requests.len() > 1 {
        let places: Vec<_> =
            requests.iter().flat_map(|(place, _)| place).map(|place| format!("`{place}`")).collect();
        return Err(format!("requests at {}: name one of them with --request", places.join(" and ")));
    }
    let usages: Vec<_> = usages.into_iter().flatten().filter(|usage| *usage != request).collect();
    let response = match usages.as_slice() {
        [usage] => Some(usage.clone()),
        _ => None,
    };
    Ok(Places { request: Some(request), response })
}

/// Whether a record has its request under `body`, as a line of a batch.
fn has_body(record: &[u8]) -> bool {
    let row = std::str::from_utf8(record).ok().and_then(FirstRow::of);
    row.is_some_and(|row| row.has(&["body"]))
}

/// What can be said of a row that nobody knows.
fn describe(line: &[u8]) -> String {
    let mut values = serde_json::Deserializer::from_slice(line).into_iter::<&RawValue>();
    let first = values.next();
    match (line.trim_ascii_start().first(), first) {
        (Some(b'{' | b'['), Some(Ok(_))) if !line[values.byte_offset()..].trim_ascii().is_empty() => {
            "a line that goes on behind its JSON; write a record a line, for example with `jq -c .`"
                .to_owned()
        }
        (Some(b'{'), Some(Ok(_))) => {
            FirstRow::describe(&String::from_utf8_lossy(line))
        }
        (Some(b'['), Some(Ok(_))) => "a JSON array, whose items are of no format that is known".to_owned(),
        (Some(b'{' | b'['), _) => {
            "a line that begins like JSON and is none: broken off, with a comma behind a last item, or one record over \
             several lines, which `jq -c .` puts on one (`jq -c '.[]'` where the file is an array)"
                .to_owned()
        }
        _ => "a line that is neither a JSON object nor an array".to_owned(),
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
            (r#"{"timestamp":0,"session_id":"a","input_length":512,"hash_ids":[1]}"#, Format::Mooncake),
            (
                r#"{"timestamp":0.5,"chunk_size":256,"seq_len":512,"chunk_hashes":["0xa","0xb"]}"#,
                Format::Mooncake,
            ),
            (r#"{"input_tok_ids":[1],"output_toks":1,"arrival_time_ns":1}"#, Format::TokenIds),
            (r#"{"chat_id":1,"parent_chat_id":-1,"timestamp":0.1,"turn":1,"hash_ids":[1]}"#, Format::Qwen),
            (r#"{"schema":"dynamo.request.trace.v1","request":{}}"#, Format::Dynamo),
            (r#"{"timestamp":1,"event":{"schema":"dynamo.request.trace.v1"}}"#, Format::Dynamo),
            (r#"{"event_time":1,"page_size":4,"page_ids":[1],"input_tokens":4}"#, Format::Events),
            ("[1,2]", Format::TokenIds),
            ("  [{\"tokens\":[1]}]", Format::TokenIds),
            (r#"{"input_ids":[1]}"#, Format::TokenIds),
            (r#"{"model":"m","messages":[]}"#, Format::Openai),
            (r#"{"prompt":"x","max_tokens":1}"#, Format::Openai),
            (r#"{"model":"m","instructions":"i","input":"x"}"#, Format::Openai),
            (r#"{"custom_id":"1","body":{"model":"m","messages":[]}}"#, Format::Openai),
        ];
        for (line, format) in cases {
            assert_eq!(detect(line.as_bytes()), Ok(Detected::plain(format)), "{line}");
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
        assert!(seen.starts_with("a JSON object with the fields secret and 1 more, of no format"), "{seen}");
        for line in ["hash_ids: 1", "{\"hash_ids\":[1", "\"text\"", "42", "{}"] {
            assert!(detect(line.as_bytes()).is_err(), "{line}");
        }
    }
}
