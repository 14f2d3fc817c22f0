//! Every trace format carries what the serving engine found, where and for whom.

use kvset::core::request::event::CachedTokens;
use kvset::core::request::labels::Label;
use kvset::trace::{Format, IdScope, ReadOptions, TraceItem, TraceReader, write_row};
use std::io::Cursor;

/// Cached tokens, replica and tenant of a request; a refused row in words.
type Row = Result<(CachedTokens, String, String), String>;

/// Every row.
fn rows(format: Format, text: &str, scope: IdScope) -> Vec<Row> {
    let options = ReadOptions { format, id_scope: scope, ..ReadOptions::default() };
    let text = Box::new(Cursor::new(text.to_owned().into_bytes()));
    let mut reader = TraceReader::from_reader("log", text, &options).expect("readable");
    let mut rows = Vec::new();
    while let Some(item) = reader.next_item().expect("readable") {
        rows.push(match item {
            TraceItem::Request(row) => {
                let name = |label| row.event.labels.get(label).copied().unwrap_or("-").to_owned();
                Ok((row.event.cached_tokens, name(Label::Replica), name(Label::Tenant)))
            }
            TraceItem::Refused(error) => Err(error.to_string()),
        });
    }
    rows
}

fn found(cached: u64, replica: &str, tenant: &str) -> Row {
    Ok((CachedTokens::Stated(cached), replica.to_owned(), tenant.to_owned()))
}

const BESIDE: &str = r#""cached_tokens": 5, "replica": "r-1", "tenant": "t""#;

#[test]
fn rows_of_every_format_may_say_what_was_cached_where_and_for_whom() {
    let dynamo = |event: &str| {
        format!(
            r#"{{"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": 9, "request":
            {{"request_received_ms": 1, {event}}}, "replay": {{"trace_block_size": 4, "input_length": 9,
            "input_sequence_hashes": [1, 2]}}}}"#
        )
        .replace('\n', " ")
    };
    for (format, row) in [
        (Format::Mooncake, format!(r#"{{"timestamp": 0, "input_length": 9, "hash_ids": [1], {BESIDE}}}"#)),
        (
            Format::Qwen,
            format!(r#"{{"chat_id": 1, "timestamp": 0, "input_length": 9, "hash_ids": [1], {BESIDE}}}"#),
        ),
        (Format::Weka, format!(r#"{{"timestamp": 0, "input_length": 9, "hash_ids": [1], {BESIDE}}}"#)),
        (Format::TokenIds, format!(r#"{{"input_ids": [1, 2, 3, 4, 5, 6], {BESIDE}}}"#)),
        (Format::Dynamo, dynamo(BESIDE)),
    ] {
        assert_eq!(rows(format, &row, IdScope::Auto), [found(5, "r-1", "t")], "{row}");
        let scoped = rows(format, &row, IdScope::Field("tenant".to_owned()));
        assert_eq!(scoped, [found(5, "r-1", "t")], "a scope takes nothing away: {row}");
    }
    let session = r#"{"id": "s", "block_size": 4, "tenant": "t", "replica": 2, "requests": [
        {"t": 0, "in": 9, "hash_ids": [1, 2], "cached_tokens": 4},
        {"t": 1, "in": 9, "hash_ids": [1, 2], "cached_tokens": 8, "replica": 3}]}"#;
    let session = session.replace('\n', " ");
    assert_eq!(rows(Format::Weka, &session, IdScope::Auto), [found(4, "2", "t"), found(8, "3", "t")]);
}

#[test]
fn what_is_no_number_of_tokens_is_refused_by_field() {
    for wrong in ["-1", "1.5", "\"seven\"", "\"-7\"", "[7]", "true", "1e300"] {
        let row =
            format!(r#"{{"timestamp": 0, "input_length": 9, "hash_ids": [1], "cached_tokens": {wrong}}}"#);
        let error = rows(Format::Mooncake, &row, IdScope::Auto).remove(0).expect_err(wrong);
        assert!(error.contains("`cached_tokens`"), "{error}");
    }
}

#[test]
fn the_usage_of_every_api_is_understood() {
    let cached = |beside: &str| {
        let row = format!(r#"{{"input_ids": [1, 2, 3, 4, 5, 6], {beside}}}"#);
        rows(Format::TokenIds, &row, IdScope::Auto).remove(0).expect(beside).0
    };
    for usage in [
        r#"{"prompt_tokens": 6, "prompt_tokens_details": {"cached_tokens": 4}}"#,
        r#"{"input_tokens": 6, "input_tokens_details": {"cached_tokens": 4}}"#,
        r#"{"input_tokens": 1, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 4}"#,
        r#"{"prompt_tokens": 6, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 2}"#,
    ] {
        for row in [
            format!(r#""usage": {usage}"#),
            format!(r#""response": {{"body": {{"usage": {usage}}}}}"#),
            format!(r#""response": [{{"usage": null}}, {{"usage": {usage}}}, {{"choices": []}}]"#),
            format!(r#""chunks": [{{"choices": [{{"delta": {{}}}}]}}, {{"usage": {usage}}}]"#),
            format!(
                r#""response": {}"#,
                serde_json::Value::from(format!("data: {{\"usage\": {usage}}}\n\ndata: [DONE]\n"))
            ),
        ] {
            assert_eq!(cached(&row), CachedTokens::Stated(4), "{row}");
        }
    }
    let llama =
        r#""response": {"tokens_evaluated": 6, "timings": {"prompt_n": 2, "cache_n": 4, "predicted_n": 3}}"#;
    assert_eq!(cached(llama), CachedTokens::Stated(4), "llama.cpp's own");
    let stream = r#""chunks": [{"type": "message_start", "message": {"usage": {"input_tokens": 2,
        "cache_read_input_tokens": 4}}}, {"type": "message_delta", "usage": {"output_tokens": 9}}]"#;
    assert_eq!(cached(&stream.replace('\n', " ")), CachedTokens::Stated(4), "a stream of Anthropic's");
    let counted = r#""chunks": [{"usage": {"prompt_tokens_details": {"cached_tokens": 0}}},
        {"usage": {"prompt_tokens_details": {"cached_tokens": 4}}}, {"usage": null}]"#;
    assert_eq!(
        cached(&counted.replace('\n', " ")),
        CachedTokens::Stated(4),
        "the last chunk that says something"
    );
    for left_out in [
        r#"{"prompt_tokens": 6}"#,
        r#"{"prompt_tokens": 6, "prompt_tokens_details": null}"#,
        r#"{"prompt_tokens": 6, "prompt_tokens_details": {"audio_tokens": 0}}"#,
        r#"{"input_tokens": 6, "output_tokens": 3, "input_tokens_details": {"cached_tokens": null}}"#,
    ] {
        assert_eq!(cached(&format!(r#""usage": {left_out}"#)), CachedTokens::LeftOut, "{left_out}");
    }
    for silent in [r#""usage": null"#, r#""usage": {}"#, r#""output_tokens": 4"#, r#""cached_tokens": null"#]
    {
        assert_eq!(cached(silent), CachedTokens::Unstated, "{silent}");
    }
}

#[test]
fn what_is_written_reads_back() {
    let row = format!(r#"{{"timestamp": 0, "input_length": 9, "block_size": 9, "hash_ids": [1], {BESIDE}}}"#);
    let options = ReadOptions { format: Format::Weka, ..ReadOptions::default() };
    let text = Box::new(Cursor::new(row.into_bytes()));
    let mut reader = TraceReader::from_reader("log", text, &options).expect("readable");
    let mut written = Vec::new();
    let Some(TraceItem::Request(row)) = reader.next_item().expect("readable") else { panic!("a request") };
    write_row(&mut written, &row).expect("written");
    let written = String::from_utf8(written).expect("UTF-8");
    assert_eq!(rows(Format::Weka, &written, IdScope::Auto), [found(5, "r-1", "t")]);
}
