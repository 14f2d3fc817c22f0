//! Avro container files as traces.

use apache_avro::types::Value;
use apache_avro::{Codec, Schema, Writer};
use kvset::commands::produce::producing::message_of;
use kvset::core::units::pages::Scope;
use kvset::trace::{Format, IdScope, ReadOptions, TraceError, TraceItem, TraceReader, write_row};
use std::io::Cursor;

/// One event of the written files: time, pool, ids of the prompt and of the output, scope.
type Written = (i64, Option<&'static str>, &'static [u64], &'static [u64], Option<&'static str>);

const EVENTS: [Written; 3] = [
    (10, Some("a"), &[1, 2], &[3], None),
    (20, Some("b"), &[1], &[], Some("tenant")),
    (30, None, &[], &[], None),
];

fn packed(ids: &[u64]) -> Value {
    Value::Bytes(ids.iter().flat_map(|id| id.to_le_bytes()).collect())
}

fn optional(text: Option<&str>) -> Value {
    match text {
        Some(text) => Value::Union(1, Box::new(Value::String(text.to_owned()))),
        None => Value::Union(0, Box::new(Value::Null)),
    }
}

/// A container of `events` with a schema of this test's own.
fn container(events: &[Written]) -> Vec<u8> {
    let schema = Schema::parse_str(
        r#"{"type": "record", "name": "Written", "fields": [
            {"name": "event_time", "type": "long"}, {"name": "pool", "type": ["null", "string"]},
            {"name": "page_ids", "type": "bytes"}, {"name": "output_page_ids", "type": "bytes"},
            {"name": "scope", "type": ["null", "string"]}]}"#,
    )
    .expect("the schema parses");
    let writer = Writer::builder().schema(&schema).writer(Vec::new()).codec(Codec::Null).build();
    let mut writer = writer.expect("a writer");
    for (time, pool, ids, outputs, scope) in events {
        let fields = [
            ("event_time", Value::Long(*time)),
            ("pool", optional(*pool)),
            ("page_ids", packed(ids)),
            ("output_page_ids", packed(outputs)),
            ("scope", optional(*scope)),
        ];
        let record = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        writer.append_value(Value::Record(record)).expect("a value of the schema");
    }
    writer.into_inner().expect("written into memory")
}

fn open(bytes: Vec<u8>, options: &ReadOptions) -> Result<TraceReader, TraceError> {
    TraceReader::from_reader("recorded", Box::new(Cursor::new(bytes)), options)
}

/// Every request's time, ids, output ids, page size, scope and place, refused rows in words, the notes.
fn rows(mut reader: TraceReader) -> Result<(Vec<String>, Vec<String>), TraceError> {
    let mut rows = Vec::new();
    while let Some(item) = reader.next_item()? {
        rows.push(match item {
            TraceItem::Request(row) => format!(
                "{}: {} ms {:?} {:?} {:?} {}",
                row.line,
                row.event.event_time.0,
                row.event.page_ids.iter().collect::<Vec<_>>(),
                row.event.output_page_ids.iter().collect::<Vec<_>>(),
                row.event.page_size.map(|size| size.get()),
                row.event.scope.value(),
            ),
            TraceItem::Refused(error) => error.to_string(),
        });
    }
    let notes = reader.notes();
    Ok((rows, notes))
}

fn expected() -> Vec<String> {
    vec![
        "1: 10 ms [1, 2] [3] Some(64) 0".to_owned(),
        format!("2: 20 ms [1] [] Some(64) {}", Scope::named(b"tenant").value()),
        "3: 30 ms [] [] Some(64) 0".to_owned(),
    ]
}

#[test]
fn events_are_read_by_name_by_detection_and_compressed() {
    let plain = container(&EVENTS);
    let zst = zstd::encode_all(&*plain, 3).expect("memory");
    for bytes in [plain, zst] {
        for format in [Format::Avro, Format::Auto] {
            let reader =
                open(bytes.clone(), &ReadOptions { format, ..ReadOptions::default() }).expect("opens");
            assert_eq!(reader.format(), Format::Avro);
            assert_eq!(rows(reader).expect("whole").0, expected(), "as {format}");
        }
    }
}

#[test]
fn each_event_is_of_the_pool_that_it_names_unless_pools_share() {
    let pools = |id_scope: &str| {
        let id_scope: IdScope = id_scope.parse().expect("an id scope");
        let options = ReadOptions { id_scope, ..ReadOptions::default() };
        let mut reader = open(container(&EVENTS), &options).expect("opens");
        let mut pools = Vec::new();
        while let Some(item) = reader.next_item().expect("whole") {
            if let TraceItem::Request(row) = item {
                pools.push(row.pool.map(str::to_owned));
            }
        }
        pools
    };
    let distinct: std::collections::BTreeSet<_> = pools("auto").into_iter().flatten().collect();
    assert!(distinct.len() > 1, "{distinct:?}");
    assert!(pools("global").iter().all(Option::is_none), "told to share");
}

#[test]
fn id_scopes_follow_the_option() {
    let scopes = |id_scope: &str| {
        let id_scope: IdScope = id_scope.parse().expect("an id scope");
        let options = ReadOptions { id_scope, ..ReadOptions::default() };
        let mut reader = open(container(&EVENTS[..2]), &options).expect("opens");
        let mut scopes = Vec::new();
        while let Some(item) = reader.next_item().expect("whole") {
            scopes.push(match item {
                TraceItem::Request(row) => Ok(row.event.scope),
                TraceItem::Refused(error) => Err(error.fault.to_string()),
            });
        }
        scopes
    };
    let named = |name: &str| Ok(Scope::named(name.as_bytes()));
    let missing = |name: &str| Err(format!("field `{name}` is missing"));
    assert_eq!(scopes("auto"), [Ok(Scope::GLOBAL), named("tenant")]);
    assert_eq!(scopes("global"), [Ok(Scope::GLOBAL), Ok(Scope::GLOBAL)]);
    assert_eq!(scopes("field:pool"), [named("a"), named("b")]);
    assert_eq!(scopes("field:scope"), [missing("scope"), named("tenant")]);
    assert_eq!(scopes("session"), [missing("session_id"), missing("session_id")]);
}

#[test]
fn an_event_out_of_range_is_refused_by_its_number_and_the_rest_is_read() {
    let events = [EVENTS[0], (-7, Some("a"), &[99][..], &[][..], None), EVENTS[2]];
    let (rows, _) = rows(open(container(&events), &ReadOptions::default()).expect("opens")).expect("whole");
    assert_eq!(rows.len(), 3);
    assert!(rows[1].starts_with("recorded, line 2: event_time_out_of_range"), "{}", rows[1]);
}

#[test]
fn a_truncated_file_is_an_error_and_never_a_shorter_trace() {
    let whole = container(&EVENTS);
    for cut in 1..60 {
        let opened = open(whole[..whole.len() - cut].to_vec(), &ReadOptions::default());
        let error = opened.and_then(rows).expect_err("the last block is not whole").to_string();
        assert!(error.starts_with("cannot read trace recorded: "), "{error}");
        assert!(!error.contains("tenant"), "{error}");
    }
    let forced = ReadOptions { format: Format::Avro, ..ReadOptions::default() };
    let error = open(b"{}\n".to_vec(), &forced).err().expect("no container").to_string();
    assert!(error.contains("not a readable avro container"), "{error}");
}

/// What a recorded event says of its ids, a replay and a producer go on saying; of prompts hashed here it is known.
#[test]
fn whether_ids_are_chained_is_kept() {
    let said = |mut reader: TraceReader| {
        let mut said = Vec::new();
        while let Some(item) = reader.next_item().expect("readable") {
            let TraceItem::Request(row) = item else { panic!("a row was refused") };
            said.push((row.event.ids_chained, message_of(&row).ids_chained));
        }
        said
    };
    let options = ReadOptions::default();
    let events = include_bytes!("../fixtures/codec/request_events.v1.deflate.avro").to_vec();
    assert_eq!(said(open(events, &options).expect("a container")), [true, false, true].map(|c| (c, c)));
    let tokens = b"[1, 2, 3]\n{\"tokens\": [4]}\n".to_vec();
    assert_eq!(said(open(tokens, &options).expect("token ids")), [(true, true); 2]);
    let mooncake = include_bytes!("../fixtures/trace/mooncake.jsonl").to_vec();
    assert!(said(open(mooncake, &options).expect("a trace")).iter().all(|said| *said == (false, false)));
}

/// A row of any format may declare its ids chained, as those that `kvset generate` writes do, for the scope it
/// declares.
#[test]
fn a_row_declares_its_ids_chained_within_the_scope_it_declares() {
    let row = |scope: &str| {
        format!(
            r#"{{"timestamp": 1, "session_id": "s", "block_size": 4, "hash_id_scope": "{scope}", "hash_ids": [1, 2], "ids_chained": true}}"#
        )
    };
    let said = |scope: &str, id_scope: IdScope| {
        let mut reader = open(row(scope).into_bytes(), &ReadOptions { id_scope, ..ReadOptions::default() })
            .expect("a row");
        let Some(TraceItem::Request(row)) = reader.next_item().expect("readable") else {
            panic!("no request")
        };
        let mut written = Vec::new();
        write_row(&mut written, &row).expect("memory");
        let again = String::from_utf8(written).expect("json").contains("\"ids_chained\":true");
        (row.event.ids_chained, again)
    };
    assert_eq!(said("global", IdScope::Auto), (true, true));
    assert_eq!(said("local", IdScope::Auto), (true, false), "a file has one scope for all its rows");
    assert_eq!(said("global", IdScope::Session), (true, false));
    assert_eq!(said("local", IdScope::Global), (false, false), "as asked for, and not as declared");
}
