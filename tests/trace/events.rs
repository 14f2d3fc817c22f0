//! Request events in JSON, one per line, as a trace.

use kvset::commands::produce::producing::message_of;
use kvset::core::units::pages::Scope;
use kvset::trace::{Format, IdScope, ReadOptions, TraceItem, TraceReader};
use std::io::Cursor;

/// Ids as numbers and packed, a pool, a scope, outputs, what the engine found, and a field that nobody knows.
const EVENTS: &str = r#"{"event_time": 10, "pool": "a", "page_size": 4, "page_ids": [1, 18446744073709551615], "input_tokens": 9, "output_tokens": 4, "output_page_ids": [3], "duration_ms": 5, "cached_tokens": 4, "replica": "r-0", "ids_chained": true, "queue_ms": 1}
{"event_time": 20, "pool": "b", "page_ids": "AQAAAAAAAAA=", "scope": "tenant"}
{"event_time": 30, "page_ids": []}
"#;

fn open(text: &str, options: &ReadOptions) -> TraceReader {
    let bytes = Box::new(Cursor::new(text.as_bytes().to_vec()));
    TraceReader::from_reader("recorded", bytes, options).expect("opens")
}

/// What each line says: time, ids, output ids, page size, pool, scope, and what the engine said; refused lines in
/// words.
fn rows(mut reader: TraceReader) -> Vec<String> {
    let mut rows = Vec::new();
    while let Some(item) = reader.next_item().expect("whole") {
        rows.push(match item {
            TraceItem::Request(row) => {
                let event = row.event;
                let ids = [event.page_ids, event.output_page_ids].map(|ids| ids.iter().collect::<Vec<_>>());
                format!(
                    "{}: {} ms {ids:?} {:?} {:?} {} {:?} {:?}",
                    row.line,
                    event.event_time.0,
                    event.page_size.map(|size| size.get()),
                    row.pool,
                    event.scope.value(),
                    event.duration_ms,
                    message_of(&row).cached_tokens,
                )
            }
            TraceItem::Refused(error) => error.to_string(),
        });
    }
    rows
}

#[test]
fn events_are_read_by_name_by_detection_and_in_envelopes() {
    let expected = [
        "1: 10 ms [[1, 18446744073709551615], [3]] Some(4) Some(\"a\") 0 Some(5) Some(4)".to_owned(),
        format!("2: 20 ms [[1], []] Some(64) Some(\"b\") {} None None", Scope::named(b"tenant").value()),
        "3: 30 ms [[], []] Some(64) None 0 None None".to_owned(),
    ];
    for format in [Format::Events, Format::Auto] {
        let reader = open(EVENTS, &ReadOptions { format, ..ReadOptions::default() });
        assert_eq!(reader.format(), Format::Events);
        assert_eq!(rows(reader), expected, "as {format}");
    }
    let consumed: String =
        EVENTS.lines().map(|event| format!("{{\"key\": \"a\", \"value\": {event}}}\n")).collect();
    assert_eq!(rows(open(&consumed, &ReadOptions::default())), expected);
}

#[test]
fn an_event_that_is_refused_is_named_by_its_line_and_quoted_nowhere() {
    let cases = [
        (r#"{"event_time": 1}"#, "missing_field: page_ids"),
        (r#"{"event_time": 1, "page_ids": [1.5]}"#, "invalid_number: page_ids"),
        (r#"{"event_time": -1, "page_ids": []}"#, "event_time_out_of_range"),
        (r#"{"event_time": 1, "page_size": 4, "page_ids": [7], "input_tokens": 99}"#, "1 page"),
        (r#"{"event_time": 1, "page_ids": "secret!"}"#, "undecodable: json: page_ids"),
        (r#"{"event_time": 1, "page_ids": [1]"#, "undecodable: json: cut off"),
        (
            r#"{"event_time": 1, "page_ids": [], "input_tokens": 1, "cached_tokens": 2}"#,
            "invalid_cached_tokens",
        ),
        ("[1, 2]", "unknown_encoding"),
    ];
    for (bad, reason) in cases {
        let good = r#"{"event_time": 5, "page_ids": [1]}"#;
        let read = rows(open(&format!("{good}\n{bad}\n{good}\n"), &ReadOptions::default()));
        assert_eq!(read.len(), 3, "{bad}: {read:?}");
        assert!(read[1].starts_with("recorded, line 2: ") && read[1].contains(reason), "{bad}: {}", read[1]);
        assert!(!read[1].contains("secret"), "{}", read[1]);
    }
}

#[test]
fn pools_share_a_cache_only_where_that_is_said() {
    let pools = |id_scope: IdScope| {
        let mut reader = open(EVENTS, &ReadOptions { id_scope, ..ReadOptions::default() });
        let mut pools = Vec::new();
        while let Some(item) = reader.next_item().expect("whole") {
            let TraceItem::Request(row) = item else { panic!("a row was refused") };
            pools.push(row.pool.map(str::to_owned));
        }
        pools
    };
    assert_eq!(pools(IdScope::Auto), [Some("a".to_owned()), Some("b".to_owned()), None]);
    assert_eq!(pools(IdScope::Global), [None, None, None]);
}
