//! Every format's frozen fixture gives its expected rows, whatever it is packed in.

use kvset::core::units::PageSize;
use kvset::core::units::pages::Scope;
use kvset::trace::{Format, IdScope, ReadOptions, TraceItem, TraceReader, TraceRow, open};
use std::io::{Cursor, Write};
use std::path::PathBuf;

/// Name of the fixture, its format, and the page size requested.
const FIXTURES: [(&str, Format, Option<u32>); 6] = [
    ("mooncake", Format::Mooncake, None),
    ("qwen", Format::Qwen, None),
    ("weka_flat", Format::Weka, None),
    ("weka_sessions", Format::Weka, None),
    ("dynamo", Format::Dynamo, None),
    ("token_ids", Format::TokenIds, Some(4)),
];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).expect("a fixture")
}

fn options(format: Format, page_size: Option<u32>) -> ReadOptions {
    ReadOptions { format, page_size: page_size.and_then(PageSize::new), ..ReadOptions::default() }
}

fn reader(bytes: Vec<u8>, options: &ReadOptions) -> TraceReader {
    TraceReader::from_reader("fixture", Box::new(Cursor::new(bytes)), options).expect("readable")
}

fn describe(row: &TraceRow<'_>) -> String {
    let event = &row.event;
    let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let scope = match event.scope {
        Scope::GLOBAL => "global",
        scope if row.session.is_some_and(|s| scope == Scope::named(s.as_bytes())) => "session",
        _ => "other",
    };
    format!(
        "line {}: {} ms, {} a page, ids {:?}, in {}, out {}, duration {}, session {}, scope {scope}",
        row.line,
        event.event_time.0,
        event.page_size.expect("every row has one"),
        event.page_ids.iter().collect::<Vec<_>>(),
        number(event.input_tokens),
        number(event.output_tokens),
        number(event.duration_ms),
        row.session.unwrap_or("-"),
    )
}

fn rows(mut reader: TraceReader) -> Vec<String> {
    let mut rows = Vec::new();
    while let Some(item) = reader.next_item().expect("readable") {
        match item {
            TraceItem::Request(row) => rows.push(describe(&row)),
            TraceItem::Refused(error) => rows.push(error.to_string()),
        }
    }
    rows
}

fn expected(name: &str) -> Vec<String> {
    let text = String::from_utf8(bytes(&format!("{name}.expected"))).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_fixture_gives_its_rows_by_name_and_by_detection() {
    for (name, format, page_size) in FIXTURES {
        for asked in [format, Format::Auto] {
            let path = fixture(&format!("{name}.jsonl"));
            let reader = open(&[path], &options(asked, page_size)).expect("opens");
            assert_eq!(reader.format(), format, "{name}");
            assert_eq!(rows(reader), expected(name), "{name} as {asked}");
        }
    }
}

#[test]
fn compression_line_ends_and_marks_change_nothing() {
    for (name, _, page_size) in FIXTURES {
        let plain = bytes(&format!("{name}.jsonl"));
        let half = plain.len() / 2;
        let zst = |part: &[u8]| zstd::encode_all(part, 3).expect("memory");
        let gz = |part: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(part).expect("memory");
            encoder.finish().expect("memory")
        };
        // A skippable frame first, as pzstd and seekable zstd write them.
        let skippable = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9], &*zst(&plain)].concat();
        let crlf = String::from_utf8(plain.clone()).expect("text").replace('\n', "\r\n");
        let packed = [
            ("zst", zst(&plain)),
            ("two zst frames", [zst(&plain[..half]), zst(&plain[half..])].concat()),
            ("skippable frame", skippable),
            ("gz", gz(&plain)),
            ("two gz members", [gz(&plain[..half]), gz(&plain[half..])].concat()),
            ("crlf", crlf.into_bytes()),
            ("byte-order mark", [b"\xef\xbb\xbf", &*plain].concat()),
            ("no last line end", plain.trim_ascii_end().to_vec()),
        ];
        for (kind, bytes) in packed {
            let found = rows(reader(bytes, &options(Format::Auto, page_size)));
            assert_eq!(found, expected(name), "{name}, {kind}");
        }
    }
}

#[test]
fn id_scopes_follow_the_option() {
    let scopes = |name: &str, id_scope: IdScope| {
        let options = ReadOptions { id_scope, ..ReadOptions::default() };
        let mut reader = open(&[fixture(name)], &options).expect("opens");
        let mut scopes = Vec::new();
        while let Some(item) = reader.next_item().expect("readable") {
            match item {
                TraceItem::Request(row) => scopes.push(Ok(row.event.scope)),
                TraceItem::Refused(error) => scopes.push(Err(error.fault.to_string())),
            }
        }
        scopes
    };
    let named = |name: &str| Ok(Scope::named(name.as_bytes()));
    let field = |name: &str| IdScope::Field(name.to_owned());
    assert!(scopes("weka_sessions.jsonl", IdScope::Global).iter().all(|scope| *scope == Ok(Scope::GLOBAL)));
    assert_eq!(scopes("weka_flat.jsonl", IdScope::Session), [named("trace_0534#0"), named("trace_0001#0")]);
    assert_eq!(scopes("weka_flat.jsonl", field("model")), [named("m"), named("m")]);
    assert_eq!(scopes("weka_flat.jsonl", field("session_id"))[0], named("trace_0534#0"));
    assert_eq!(scopes("weka_sessions.jsonl", field("id"))[..2], [named("trace_a"), named("trace_a")]);
    assert_eq!(scopes("qwen.jsonl", field("chat_id")), [named("159"), named("160")]);
    assert_eq!(scopes("dynamo.jsonl", field("request_id")), [named("r2"), named("r1")]);
    let missing = Err("field `session_id` is missing".to_owned());
    assert_eq!(scopes("mooncake.jsonl", IdScope::Session), [missing.clone(), missing.clone(), missing]);
    assert_eq!(scopes("mooncake.jsonl", field("tenant"))[0], Err("field `tenant` is missing".to_owned()));
}

#[test]
fn a_page_size_asked_for_does_not_overrule_the_row() {
    let sizes = |name: &str| {
        let mut reader = open(&[fixture(name)], &options(Format::Auto, Some(128))).expect("opens");
        let mut sizes = Vec::new();
        while let Some(item) = reader.next_item().expect("readable") {
            if let TraceItem::Request(row) = item {
                sizes.push(row.event.page_size.map(PageSize::get));
            }
        }
        sizes
    };
    assert_eq!(sizes("weka_flat.jsonl"), [Some(64), Some(32)]);
    assert_eq!(sizes("mooncake.jsonl"), [Some(128)], "only the empty row fits 128 tokens per page");
}

#[test]
fn sessions_go_on_from_file_to_file_and_a_note_says_so() {
    let path = fixture("weka_sessions.jsonl");
    let mut reader = open(&[path.clone(), path], &ReadOptions::default()).expect("opens");
    let (mut last, mut count) = (i64::MIN, 0);
    while let Some(item) = reader.next_item().expect("readable") {
        let TraceItem::Request(row) = item else { panic!("refused: {item:?}") };
        assert!(row.event.event_time.0 >= last, "time ran backward");
        last = row.event.event_time.0;
        count += 1;
    }
    assert_eq!((count, last), (22, 2 * 19_250));
    assert!(reader.notes()[0].starts_with("8 sessions have no common clock"));
}

#[test]
fn empty_traces_hold_nothing() {
    for bytes in [&b""[..], b"\n \r\n\n", b"\xef\xbb\xbf"] {
        assert_eq!(rows(reader(bytes.to_vec(), &ReadOptions::default())), [""; 0]);
    }
}

#[test]
fn a_missing_file_is_named_before_anything_is_read() {
    let paths = [fixture("mooncake.jsonl"), fixture("not-there.jsonl")];
    let error = open(&paths, &ReadOptions::default()).err().expect("the second is missing").to_string();
    assert!(error.contains("not-there.jsonl"), "{error}");
}

#[test]
fn token_ids_may_tell_of_the_answer() {
    let text = concat!(
        r#"{"output_tokens": 6, "duration_ms": 40, "input_ids": [1, 2, 3]}"#,
        "\n",
        r#"{"input_ids": [1], "usage": {"completion_tokens": 5, "prompt_tokens": 1}}"#,
        "\n",
        r#"{"input_ids": [[1], [2]], "output_tokens": 6}"#,
        "\n[1]\n",
    );
    let mut reader = reader(text.as_bytes().to_vec(), &options(Format::TokenIds, Some(4)));
    let mut answers = Vec::new();
    while let Some(item) = reader.next_item().expect("readable") {
        let TraceItem::Request(row) = item else { panic!("every row is read") };
        answers.push((row.event.output_tokens, row.event.duration_ms));
    }
    assert_eq!(answers, [(Some(6), Some(40)), (Some(5), None), (None, None), (None, None), (None, None)]);
    assert_eq!(reader.notes(), Vec::<String>::new());
}
