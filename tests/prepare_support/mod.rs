//! Raw records for tests: hostile ones with a marker in them, and a trace turned into token ids.

use kvset::codec::{RawPrompt, RawRequest, SourceRecord, encode_raw_request};
use kvset::commands::produce::producing::message_of;
use kvset::core::engines::chat_engine::ChatEngine;
use kvset::core::units::PageSize;
use kvset::prepare::{Model, RawRecord, Tokenizers};
use kvset::settings::Settings;
use kvset::tokenize::TokenizeLimits;
use kvset::trace::{self, ReadOptions, TraceItem, TraceRow};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A text that stands for a prompt.
pub const MARKER: &str = "hunter2marker";
/// A token id that stands for a prompt's.
pub const MARKER_TOKEN: u32 = 987_654_321;

pub fn model_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenize/chatml")
}

/// The tokenizer of the model called `chat`.
pub fn tokenizers() -> Tokenizers {
    let model = Arc::new(Model::load(&model_directory()).expect("a usable model"));
    Tokenizers::new([("chat".to_owned(), model)], None, TokenizeLimits::default(), ChatEngine::default())
}

pub fn record<'r>(
    partition: i32,
    offset: i64,
    timestamp_ms: Option<i64>,
    key: Option<&'r [u8]>,
    value: Option<&'r [u8]>,
    headers: &[(&'r str, &'r [u8])],
) -> RawRecord<'r> {
    let source =
        SourceRecord { schema_header: None, topic: "raw", partition, offset, timestamp_ms, key, value };
    RawRecord { source, headers: headers.to_vec() }
}

/// Keys and values with a marker in each, one for every way to be refused, and some that are not.
pub fn hostile() -> Vec<(Vec<u8>, Vec<u8>)> {
    let (text, token) = (MARKER, MARKER_TOKEN);
    let chat = |message: &str| format!(r#"{{"model": "chat", "messages": [{message}]}}"#);
    let json = [
        format!(r#"{{"model": "chat", "prompt": "{text}"#),
        format!(r#""{text}""#),
        format!(r#"{{"model": "{text}", "prompt": "{text}"}}"#),
        format!(r#"{{"model": "{}", "tokens": [1]}}"#, text.repeat(200)),
        format!(r#"{{"model": "chat", "text": "{text}"}}"#),
        format!(r#"{{"tokens": [{token}], "cache": "{text}"}}"#),
        format!(r#"{{"model": "m", "tokens": [{token}, -1]}}"#),
        format!(r#"{{"model": "m", "tokens": [{token}, "{text}"]}}"#),
        format!(r#"{{"model": "m", "tokens": [{token}], "output_tokens": "{text}"}}"#),
        format!(r#"{{"model": "m", "tokens": [{}1]}}"#, format!("{token},").repeat(1000)),
        format!(r#"{{"model": "m", "event_time": 1, "page_ids": ["{text}"]}}"#),
        chat(&format!(r#"{{"role": "user", "content": [{{"type": "image_url", "image_url": "{text}"}}]}}"#)),
        chat(&format!(r#"{{"role": "user", "content": 7, "name": "{text}"}}"#)),
        chat(&format!(r#"{{"content": "{text}"}}"#)),
        chat(&format!(
            r#"{{"role": "assistant", "content": "x", "tool_calls": [{{"function": {{"name": "f", "arguments": "{text}"}}}}]}}"#
        )),
        format!(r#"{{"model": "chat", "prompt": "x", "messages": [], "user": "{text}"}}"#),
        format!(r#"{{"model": "chat", "prompt": "x", "chat_template": "{text}"}}"#),
        // These are fine, as are calls whose arguments are no JSON above, and must give nothing away all the same.
        chat(&format!(r#"{{"role": "user", "content": "{text}"}}"#)),
        format!(r#"{{"model": "m", "tokens": [{token}, {token}, {token}, {token}]}}"#),
    ];
    let mut values: Vec<Vec<u8>> = json.into_iter().map(String::into_bytes).collect();
    values.push([b"\xc3\x01", text.as_bytes()].concat());
    for prompt in [RawPrompt::Tokens(vec![MARKER_TOKEN; 8]), RawPrompt::Body(MARKER)] {
        let (event_time, fields) = (Some(-5), vec![("model", "chat")]);
        let request = RawRequest { event_time, fields, prompt, output_tokens: None, duration_ms: None };
        let mut value = Vec::new();
        encode_raw_request(&request, &mut value);
        values.push(value);
    }
    values.into_iter().map(|value| (format!("key-{MARKER}").into_bytes(), value)).collect()
}

/// Asserts that neither the marker nor its token is in these bytes, in any form.
pub fn assert_clean(bytes: &[u8], what: &str) {
    let token = MARKER_TOKEN.to_string();
    let forms: [&[u8]; 3] = [MARKER.as_bytes(), token.as_bytes(), &MARKER_TOKEN.to_le_bytes()];
    for form in forms {
        let found = bytes.windows(form.len()).any(|window| window == form);
        assert!(!found, "{what} holds a marker: {}", String::from_utf8_lossy(bytes));
    }
}

/// The settings under which the week is prepared and estimated.
pub fn week_settings() -> Settings {
    let mut settings = Settings::default();
    settings.estimate.page_size = PageSize::new(64);
    settings.estimate.windows =
        ["tumbling:1h", "last:500", "all"].map(|text| text.parse().expect("a window")).to_vec();
    settings.prepare.namespace = "{session?}".parse().expect("a template");
    settings
}

/// Reads a trace of page ids and makes of each request a raw record of token ids, a page of tokens for
/// each id: 64 that no other id has.
pub fn week(trace: &Path, requests: usize, mut take: impl FnMut(&TraceRow<'_>, Vec<u8>)) {
    let mut reader = trace::open(&[trace.to_owned()], &ReadOptions::default()).expect("a trace");
    let mut given = 0;
    while given < requests {
        let Some(item) = reader.next_item().expect("readable") else { break };
        let TraceItem::Request(row) = item else { panic!("a good row") };
        take(&row, raw(&row));
        given += 1;
    }
}

fn raw(row: &TraceRow<'_>) -> Vec<u8> {
    let event = &row.event;
    let size = event.page_size.expect("the trace says").get() as usize;
    let mut tokens = Vec::with_capacity(event.page_ids.len() * size);
    for id in event.page_ids.iter() {
        tokens.extend([id as u32, (id >> 32) as u32]);
        tokens.extend((2..size as u32).map(|place| place ^ id as u32));
    }
    let count = event.input_tokens.map_or(tokens.len(), |count| count as usize);
    tokens.resize(count, 7);
    let scope = message_of(row).scope;
    let mut fields = vec![("model", "week")];
    fields.extend(scope.as_deref().map(|scope| ("session", scope)));
    let request = RawRequest {
        event_time: Some(event.event_time.0),
        fields,
        prompt: RawPrompt::Tokens(tokens),
        output_tokens: event.output_tokens.and_then(|count| i64::try_from(count).ok()),
        duration_ms: event.duration_ms.and_then(|ms| i64::try_from(ms).ok()),
    };
    let mut value = Vec::new();
    encode_raw_request(&request, &mut value);
    value
}
