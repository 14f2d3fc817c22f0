//! Bad rows are refused one by one without being quoted, bad files end with an error, nothing panics.

use kvset::core::request::event::RequestEvent;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::core::units::{EventTime, PageSize};
use kvset::trace::{Format, ReadOptions, RowOrder, TraceError, TraceItem, TraceReader, TraceRow, write_row};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

const FORMATS: [Format; 5] = [Format::Mooncake, Format::Weka, Format::Qwen, Format::Dynamo, Format::TokenIds];

fn with(format: Format) -> ReadOptions {
    ReadOptions { format, ..ReadOptions::default() }
}

/// Times of the requests read, and what was said of the rows refused.
fn read(bytes: &[u8], options: &ReadOptions) -> Result<(Vec<i64>, Vec<String>), TraceError> {
    let mut reader = TraceReader::from_reader("trace", Box::new(Cursor::new(bytes.to_vec())), options)?;
    let (mut times, mut refused) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next_item()? {
        match item {
            TraceItem::Request(row) => times.push(row.event.event_time.0),
            TraceItem::Refused(error) => refused.push(error.to_string()),
        }
    }
    Ok((times, refused))
}

/// What is said of one bad line between two good ones, which must both be read.
fn refusal(format: Format, good: &str, bad: &str) -> String {
    let text = format!("{good}\n{bad}\n{good}\n");
    let (times, mut refused) = read(text.as_bytes(), &with(format)).expect("the file as a whole is fine");
    assert_eq!((times.len(), refused.len()), (2, 1), "{bad:.80}");
    refused.remove(0).strip_prefix("trace, line 2: ").expect("file and line lead").to_owned()
}

/// Numbers, flags and nulls among the rows of a list were passed over without a word, and rows behind one in front.
#[test]
fn an_item_of_a_list_that_is_no_row_is_refused() {
    let good = r#"{"timestamp":1,"input_length":512,"output_length":1,"hash_ids":[1]}"#;
    for lost in ["null", "5", "true", "\"a text\"", "[]", "{}"] {
        for items in [[lost, good, good], [good, lost, good], [good, good, lost]] {
            let list = format!("[{}]\n", items.join(","));
            // What begins like a list of token ids is one row.
            let rows = if ["5", "[]"].contains(&items[0]) { 0..=2 } else { 2..=2 };
            for format in [Format::Auto, Format::Mooncake] {
                let (times, refused) = read(list.as_bytes(), &with(format)).expect("a list");
                assert!(rows.contains(&times.len()) && refused.len() == 1, "{list} {refused:?}");
            }
        }
    }
}

#[test]
fn bad_rows_are_refused_with_their_reason() {
    let good = r#"{"timestamp":1,"input_length":512,"output_length":1,"hash_ids":[1]}"#;
    let cases = [
        (r#"{"timestamp":1,"hash_ids":[1,2"#, "the line ends in the middle of a JSON value"),
        (r#"{"timestamp":1,"hash_ids":[1,]}"#, "not valid JSON at byte 30"),
        (r#"{"timestamp":1,"hash_ids":[1]} x"#, "not valid JSON at byte 32"),
        (
            r#"{"timestamp":NaN,"hash_ids":[1]}"#,
            "field `timestamp` is missing, where Python's words NaN, Infinity and None, of which the row has one, say nothing",
        ),
        (r#"{"timestamp":1e999,"hash_ids":[1]}"#, "not valid JSON at byte 18"),
        (
            r#"{"timestamp":1e20,"hash_ids":[1]}"#,
            "field `timestamp` is a date of a log in no unit: as seconds, milliseconds, microseconds or nanoseconds \
             since the epoch it is in 1970, or thousands of years ahead",
        ),
        (r#"{"timestamp":-1,"hash_ids":[1]}"#, "field `timestamp` is negative"),
        (r#"{"timestamp":-0.5,"hash_ids":[1]}"#, "field `timestamp` is negative"),
        (
            r#"{"timestamp":"noon","hash_ids":[1]}"#,
            "field `timestamp` is neither a number nor a date and time as RFC 3339 writes it",
        ),
        (r#"{"timestamp":1,"hash_ids":[1.5]}"#, "field `hash_ids` holds no page ids: it is no whole number"),
        (
            r#"{"timestamp":1,"hash_ids":[18446744073709551616]}"#,
            "field `hash_ids` holds no page ids: it is a float above 2^53, which is not exact: write it as an \
             integer, or in quotes",
        ),
        (
            r#"{"timestamp":1,"hash_ids":["a secret"]}"#,
            "field `hash_ids` holds no page ids: it is a text that is no number",
        ),
        (
            r#"{"timestamp":1,"hash_ids":[[1]]}"#,
            "field `hash_ids` holds no page ids: it is neither a number nor a number in quotes",
        ),
        (
            r#"{"timestamp":1,"hash_ids":null}"#,
            "field `hash_ids` has the wrong type or is out of range, near byte 30",
        ),
        (r#"{"timestamp":1,"hash_ids":[1],"hash_ids":[1]}"#, "field `hash_ids` appears twice"),
        (
            r#"{"timestamp":1,"input_length":-512,"hash_ids":[1]}"#,
            "field `input_length` holds no count: it is negative",
        ),
        (
            r#"{"timestamp":1,"block_size":0,"hash_ids":[1]}"#,
            "field `block_size` has the wrong type or is out of range, near byte 29",
        ),
        (
            r#"{"timestamp":1,"hash_id_scope":"secret","hash_ids":[1]}"#,
            "field `hash_id_scope` has the wrong type or is out of range, near byte 39",
        ),
        (r#"{"timestamp":1}"#, "field `hash_ids` is missing"),
        (r#"{"timestamp":null,"hash_ids":[1]}"#, "field `timestamp` is missing"),
        (r#"{"hash_ids":[1]}"#, "field `timestamp` is missing"),
        ("null", "field `timestamp` is missing"),
        ("[1,2,3]", "not a row of this format: unexpected type at byte 1"),
        ("\"secret\"", "not a row of this format: unexpected type at byte 8"),
        ("secret", "not valid JSON at byte 1"),
        (
            r#"{"timestamp":1,"input_length":2000,"hash_ids":[77,78]}"#,
            "2 page ids do not fit 2000 prompt tokens at 512 tokens per page: expected 3 or 4; --page-size says how many \
             tokens a page has where the trace does not",
        ),
    ];
    let mut wrong = String::new();
    for (bad, reason) in cases {
        let found = refusal(Format::Mooncake, good, bad);
        if found != reason {
            writeln!(wrong, "{bad}\n  expected {reason}\n  found    {found}").expect("memory");
        }
        assert!(!found.contains("secret"), "{found}");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn bad_sessions_records_and_prompts_are_refused() {
    let session = r#"{"id":"a","requests":[{"t":1,"hash_ids":[1]}]}"#;
    let weka = [
        (r#"{"id":"a","requests":[{"t":1,"type":"marker"}]}"#, "field `hash_ids` is missing"),
        (r#"{"id":"a","requests":[{"hash_ids":[1]}]}"#, "field `t` is missing"),
        (r#"{"id":"a","requests":[{"requests":[]}]}"#, "field `t` is missing"),
        (r#"{"id":"a","requests":[],"requests":[]}"#, "field `requests` appears twice"),
        (r#"{"hash_id_scope":"local","requests":[{"t":1,"hash_ids":[1]}]}"#, "field `session_id` is missing"),
        (
            r#"{"id":"a","requests":{"t":1}}"#,
            "field `requests` has the wrong type or is out of range, near byte 22",
        ),
    ];
    for (bad, reason) in weka {
        assert_eq!(refusal(Format::Weka, session, bad), reason, "{bad}");
    }
    let record = r#"{"request_received_ms":1,"input_sequence_hashes":[1]}"#;
    let dynamo = [
        (
            r#"{"event_type":"request_end","request":{"request_received_ms":1,"replay":null}}"#,
            "field `input_sequence_hashes` is missing",
        ),
        (r#"{"replay":{"input_sequence_hashes":[1]}}"#, "field `request_received_ms` is missing"),
        (
            r#"{"request":{"replay":{"trace_block_size":0}}}"#,
            "field `trace_block_size` has the wrong type or is out of range, near byte 43",
        ),
    ];
    for (bad, reason) in dynamo {
        assert_eq!(refusal(Format::Dynamo, record, bad), reason, "{bad}");
    }
    let tokens = [
        "7",
        "[1,[2]]",
        "[[[1]]]",
        "[4294967296]",
        "[-1]",
        "[1.5]",
        r#"{"text":"secret"}"#,
        r#"{"tokens":7}"#,
        r#"{"tokens":[1],"input_ids":[1]}"#,
        r#"{"tokens":["secret"]}"#,
        r#"[{"tokens":[1]},2]"#,
        r#"{"tokens":{"tokens":[1]}}"#,
        r#"{"tokens":[{"tokens":[1]}]}"#,
    ];
    for bad in tokens {
        let found = refusal(Format::TokenIds, "[1]", bad);
        assert!(!found.contains("secret"), "{found}");
    }
}

#[test]
fn one_bad_request_does_not_take_its_session_along() {
    let line = r#"{"id":"a","block_size":4,"requests":[{"t":1,"in":8,"hash_ids":[1,2]},{"t":2,"in":8,"hash_ids":[1]}]}"#;
    let (times, refused) = read(line.as_bytes(), &with(Format::Weka)).expect("readable");
    assert_eq!((times, refused.len()), (vec![1000], 1));
}

#[test]
fn lines_are_bounded() {
    let options = ReadOptions { max_line_bytes: 64, ..with(Format::TokenIds) };
    let long = "1,".repeat(1000);
    let (times, refused) = read(format!("[1]\n[{long}1]\n[2]\n").as_bytes(), &options).expect("readable");
    assert_eq!(times.len(), 2);
    assert_eq!(refused, ["trace, line 2: the line is longer than 64 bytes"]);
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let open = r#"{"t":1,"requests":["#.repeat(100_000);
    let good = r#"{"timestamp":1,"hash_ids":[]}"#;
    refusal(Format::Weka, good, &open);
    refusal(Format::TokenIds, "[1]", &"[".repeat(100_000));
    let ignored =
        format!(r#"{{"timestamp":1,"hash_ids":[],"extra":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let outcome = read(ignored.as_bytes(), &with(Format::Mooncake)).expect("readable");
    assert_eq!(outcome.0.len() + outcome.1.len(), 1);
    let closed = format!("{}{}", r#"{"t":1,"requests":["#.repeat(40), "]}".repeat(40));
    assert_eq!(read(closed.as_bytes(), &with(Format::Weka)).expect("readable").1, [""; 0]);
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    let bad = [b"{\"timestamp\":1,\"session_id\":\"", &[0xff, 0xfe][..], b"\",\"hash_ids\":[]}\n"].concat();
    let bytes = [&bad, &b"\0\0\0\n"[..], b"{\"timestamp\":1,\"hash_ids\":[]}\n"].concat();
    let (times, refused) = read(&bytes, &with(Format::Mooncake)).expect("readable");
    assert_eq!((times.len(), refused.len()), (1, 2));
}

#[test]
fn damaged_compression_ends_the_trace_with_an_error() {
    let row = b"{\"timestamp\":1,\"input_length\":512,\"hash_ids\":[1]}\n";
    let text: Vec<u8> = row.repeat(20_000);
    let zst = zstd::encode_all(&*text, 3).expect("memory");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text).expect("memory");
    let gz = encoder.finish().expect("memory");
    for packed in [zst, gz] {
        assert!(read(&packed, &with(Format::Mooncake)).is_ok());
        for cut in [5, packed.len() / 2, packed.len() - 1] {
            let error = read(&packed[..cut], &with(Format::Mooncake)).expect_err("cut short");
            assert!(matches!(error, TraceError::Read { .. }), "{error}");
        }
        let garbage = [&packed[..], b"garbage after the end"].concat();
        assert!(read(&garbage, &with(Format::Mooncake)).is_err());
    }
}

#[test]
fn a_directory_is_refused_with_what_to_do_instead() {
    let folder = tempfile::tempdir().expect("a folder");
    let error =
        kvset::trace::open(&[folder.path().to_owned()], &ReadOptions::default()).err().expect("no trace");
    let expected =
        format!("cannot open trace {}: it is a directory; name the files in it", folder.path().display());
    assert_eq!(error.to_string(), expected);
}

/// It was told as a line of something else than JSON, row after row where a format was named.
#[test]
fn text_in_utf16_is_named_as_such() {
    let row = "{\"timestamp\":1,\"input_length\":512,\"output_length\":1,\"hash_ids\":[1]}\n";
    let written =
        |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> { text.encode_utf16().flat_map(bytes).collect() };
    let marked = format!("\u{feff}{row}");
    let files = [
        (written(&marked, u16::to_le_bytes), "UTF-16"),
        (written(&marked, u16::to_be_bytes), "UTF-16"),
        (written(row, u16::to_le_bytes), "UTF-16LE"),
        (written(row, u16::to_be_bytes), "UTF-16BE"),
        (written("[1,2]\n", u16::to_le_bytes), "UTF-16LE"),
        (written("\u{feff}\n", u16::to_le_bytes), "UTF-16"),
    ];
    for (plain, encoding) in files {
        let expected = format!(
            "trace trace is text in UTF-16, as PowerShell's `>` writes it; convert it to UTF-8 with `iconv -f {encoding} \
             -t UTF-8`"
        );
        let packed = zstd::encode_all(&plain[..], 3).expect("memory");
        for (file, format) in [(&plain, Format::Auto), (&plain, Format::Mooncake), (&packed, Format::Auto)] {
            let error = read(file, &with(format)).expect_err("not UTF-8");
            assert_eq!(error.to_string(), expected, "{plain:?} as {format:?}");
        }
    }
    let utf8 = read(marked.as_bytes(), &ReadOptions::default()).expect("UTF-8 may have a mark");
    assert_eq!(utf8, (vec![1], vec![]));
}

#[test]
fn a_reader_is_at_its_end_after_an_error() {
    let zst = zstd::encode_all(&b"[1]\n[2]\n"[..], 3).expect("memory");
    let cut = zst[..zst.len() - 1].to_vec();
    let mut reader =
        TraceReader::from_reader("cut", Box::new(Cursor::new(cut)), &with(Format::TokenIds)).expect("opens");
    while reader.next_item().is_ok_and(|item| item.is_some()) {}
    assert!(reader.next_item().is_ok_and(|item| item.is_none()));
}

#[test]
fn an_unknown_format_says_what_was_seen_and_what_to_do() {
    let error = read(b"\n{\"question\":\"secret\",\"n\":1}\n", &ReadOptions::default()).expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "cannot tell the format of trace trace from line 2: a JSON object with the fields question, n, of no format \
         that is known; a request in it, or a prompt that is a text, is named with --request, and a file that begins \
         with another line with --format (openai for chats) and --skip-bad-rows"
    );
    let chat = read(b"{\"prompt\":\"secret\",\"n\":1}\n", &ReadOptions::default()).expect_err("no model");
    assert!(!chat.to_string().contains("secret"), "{chat}");
}

fn by_arrival() -> ReadOptions {
    ReadOptions { order: RowOrder::Arrival, ..with(Format::Dynamo) }
}

#[test]
fn dynamo_records_beyond_the_reorder_buffer_are_refused() {
    let record = |ms: u64| format!(r#"{{"request_received_ms":{ms},"input_sequence_hashes":[1]}}"#);
    let lines: Vec<String> = (1000..2000).chain([5]).map(record).collect();
    let text = lines.join("\n");
    let (times, refused) = read(text.as_bytes(), &by_arrival()).expect("readable");
    assert_eq!((times.len(), times[0], refused.len()), (1001, 5, 0), "the whole file fits");
    let tight = ReadOptions { reorder_bytes: 10_000, ..by_arrival() };
    let (times, refused) = read(text.as_bytes(), &tight).expect("readable");
    assert_eq!((times.len(), refused.len()), (1000, 1));
    assert!(refused[0].contains("sort it by time"), "{refused:?}");
}

/// A row whose ids fit its tokens.
fn row_strategy() -> impl Strategy<Value = (i64, u32, Vec<u64>, u64, Option<u64>, Option<String>)> {
    (1u32..100, prop::collection::vec(any::<u64>(), 0..20)).prop_flat_map(|(page_size, ids)| {
        let tokens = ids.len() as u64 * u64::from(page_size);
        let least = tokens.saturating_sub(u64::from(page_size) - 1).max(u64::from(!ids.is_empty()));
        (
            0i64..1_000_000_000,
            Just(page_size),
            Just(ids),
            least..tokens + u64::from(page_size),
            any::<Option<u64>>(),
            proptest::option::of(".*"),
        )
    })
}

proptest! {
    #[test]
    fn written_rows_are_read_back(rows in prop::collection::vec(row_strategy(), 1..20)) {
        let mut file = Vec::new();
        for (time_ms, page_size, ids, tokens, output, session) in &rows {
            let event = RequestEvent {
                event_time: EventTime(*time_ms),
                page_size: PageSize::new(*page_size),
                page_ids: PageIds::from_slice(ids),
                input_tokens: Some(*tokens),
                output_tokens: *output,
                ..RequestEvent::default()
            };
            let row = TraceRow { event, session: session.as_deref(), ..TraceRow::default() };
            write_row(&mut file, &row).expect("memory");
        }
        let mut reader =
            TraceReader::from_reader("x", Box::new(Cursor::new(file)), &ReadOptions::default()).expect("opens");
        for (index, (time_ms, page_size, ids, tokens, output, session)) in rows.iter().enumerate() {
            let item = reader.next_item().expect("readable").expect("as many as written");
            let TraceItem::Request(row) = item else { panic!("refused: {item:?}") };
            prop_assert_eq!(row.line, index as u64 + 1);
            prop_assert_eq!(row.event.event_time, EventTime(*time_ms));
            prop_assert_eq!(row.event.page_size, PageSize::new(*page_size));
            prop_assert_eq!(row.event.page_ids, PageIds::from_slice(ids));
            prop_assert_eq!(row.event.input_tokens, Some(*tokens));
            prop_assert_eq!(row.event.output_tokens, *output);
            prop_assert_eq!(row.session, session.as_deref());
            prop_assert_eq!(row.event.scope, Scope::GLOBAL);
        }
        prop_assert!(reader.next_item().expect("readable").is_none());
    }

    #[test]
    fn random_damage_never_panics(
        which in 0usize..6, cut in any::<prop::sample::Index>(), byte in any::<u8>(),
        insert in any::<bool>(), asked in 0usize..6,
    ) {
        let names = ["mooncake", "qwen", "weka_flat", "weka_sessions", "dynamo", "token_ids"];
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace");
        let mut bytes = std::fs::read(root.join(format!("{}.jsonl", names[which]))).expect("a fixture");
        let at = cut.index(bytes.len());
        if insert { bytes.insert(at, byte) } else { bytes[at] = byte }
        let format = FORMATS.get(asked).copied().unwrap_or(Format::Auto);
        let _ = read(&bytes, &with(format));
        let _ = read(&bytes[..at], &with(format));
    }
}
