//! Spans and log records of OpenTelemetry, in JSON and in Protobuf.

use super::*;

/// A chat as spans and log records tell of it; one record holds several.
#[test]
fn otlp() {
    check(
        Preset::Otlp,
        &[
            WITH_ALL,
            Chat(|event| event.duration = None),
            WITH_ALL,
            PassedOver("no span or log record"),
            Refused("missing_field", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
            Refused("missing_field", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"),
            Refused("invalid_body", "`gen_ai.input.messages` is cut off"),
            Refused("unsupported_content", "blob"),
            Refused("undecodable", "metrics have no prompts"),
            Refused(
                "missing_field",
                "1 of 3 requests of the record (number 2), the first of them: there is no attribute",
            ),
        ],
    );
    let partly = prepare(&settings(Some(Preset::Otlp)), &fixture("otlp.jsonl")[9]);
    assert_eq!(events(&partly), [chat(), chat()], "the others of the record are none the worse");
    assert_eq!((partly.outputs.len(), partly.total().requests, partly.shares.len()), (3, 2, 1));
}

/// Tools and parts of messages as the conventions write them, and what they say was not captured.
#[test]
fn otlp_tools_and_parts_are_those_that_were_served() {
    let parts = |events: &[Event]| {
        let content = r#"[{"type": "text", "text": "What"}, {"type": "text", "text": "is there?"}]"#;
        let messages = format!(
            r#"[{{"role": "system", "content": "Be brief."}}, {{"role": "user", "name": "ann", "content": {content}}}]"#
        );
        assert_eq!(events[0].ids, ids_of(&messages));
    };
    check_file(
        Preset::Otlp,
        "otlp-parts.jsonl",
        &[
            WITH_ALL,
            Refused("missing_field", "a tool whose description or parameters are not captured"),
            Refused("unrendered_field", "a tool that is no function"),
            Other(parts),
            Refused("missing_field", "does not hold the answer of a tool"),
            Refused("missing_field", "does not hold any part of a message"),
        ],
    );
}

/// OpenLLMetry's attributes, the conventions' events before 1.37, and what does not hold a whole prompt.
#[test]
fn otlp_of_older_conventions() {
    const CHAT: &str =
        r#"{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is there?"}"#;
    let without_tools = |events: &[Event]| assert_eq!(events[0].ids, ids_of(&format!("[{CHAT}]")));
    let called = |events: &[Event]| {
        let call = r#"{"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": "look", "arguments": "{\"at\": \"hunter2\"}"}}]}"#;
        let answer = r#"{"role": "tool", "tool_call_id": "c", "content": "A bird."}"#;
        assert_eq!(events[0].ids, ids_of(&format!("[{CHAT}, {call}, {answer}]")));
    };
    check_file(
        Preset::Otlp,
        "otlp-older.jsonl",
        &[
            WITH_ALL,
            Chat(|event| event.cached = None),
            Other(called),
            Other(without_tools),
            Other(without_tools),
            Refused("scattered_prompt", "2 of 2 requests of the record (number 1, 2)"),
            Refused("scattered_prompt", "OTEL_SEMCONV_STABILITY_OPT_IN"),
            PassedOver("no span or log record"),
            Refused("unrendered_field", "`gen_ai.prompt.0.user` is the first prompt"),
            PassedOver("no span or log record"),
            Refused("invalid_body", "as Python prints it"),
            Refused("missing_field", "the call that an answer of a tool belongs to"),
            Refused("missing_field", "one of those before its last"),
            Refused("missing_field", "the content of a message"),
            Refused("missing_field", "have contents recorded"),
            Refused("missing_field", "OTEL_SPAN_EVENT_COUNT_LIMIT"),
            Refused("unsupported_content", "message 0"),
            Refused("invalid_body", "`gen_ai.prompt` is of another form"),
            Refused("missing_field", "the schema of a tool"),
        ],
    );
}

/// A number that no field holds, a list in place of an object, null in place of a span.
#[test]
fn a_span_that_is_broken_leaves_the_others_of_its_record() {
    let record = String::from_utf8(fixture("otlp.jsonl").swap_remove(9)).expect("text");
    for broken in [
        r#"{"startTimeUnixNano": "99999999999999999999999999"}"#,
        r#"{"attributes": [{"key": "a", "value": {"intValue": 18446744073709551616}}]}"#,
        r#"{"attributes": [{"key": "gen_ai.tool.definitions", "value": {"stringValue": 5}}]}"#,
        r#"{"attributes": {"gen_ai.operation.name": "hunter2"}}"#,
        "null",
        "7",
    ] {
        let record = record.replacen(r#""spans":["#, &format!(r#""spans":[{broken},"#), 1);
        let prepared = prepare(&settings(Some(Preset::Otlp)), record.as_bytes());
        assert_eq!(events(&prepared), [chat(), chat()], "{broken}");
        let why = reason(&prepared);
        assert!(why.starts_with("2 of 4 requests of the record (number 1, 3)"), "{broken}: {why}");
        assert_eq!(prepared.refused.map(|code| code.name()), Some("undecodable"), "{broken}");
        assert_eq!(prepared.refused_requests, 2, "{broken}");
    }
}

/// A line of a replay is read as a record of prepare is: its good requests count, the others are bad rows.
#[test]
fn a_replayed_line_with_one_bad_request_gives_the_others() {
    let model = Arc::new(Model::load(&model_directory()).expect("a usable model"));
    let lines = fixture("otlp.jsonl");
    let text = [&lines[9], &b"\n"[..], &lines[0], b"\n"].concat();
    let page_size = PageSize::new(4);
    let options =
        ReadOptions { page_size, model: Some(model), order: RowOrder::Written, ..ReadOptions::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("otlp.jsonl");
    std::fs::write(&path, text).expect("a disk");
    let mut reader = kvset::trace::open_ahead(&[path], &options, 2, &[]).expect("a known format");
    let mut found = Vec::new();
    while let Some(item) = reader.next_item().expect("readable") {
        found.push(match item {
            TraceItem::Request(row) => format!("line {}: {} pages", row.line, row.event.page_ids.len()),
            TraceItem::Refused(error) => format!("line {}: {}", error.line, error.fault),
        });
    }
    let pages = plain().ids.len();
    let refused = "request 2 of 3 in it: missing_field: there is no attribute `gen_ai.input.messages`";
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[..2], vec![format!("line 1: {pages} pages"); 2]);
    assert!(found[2].contains("line 1: ") && found[2].contains(refused), "{}", found[2]);
    assert_eq!(found[3], format!("line 2: {pages} pages"));
}

/// The collector's own encoding; the fixtures are not made with the library that reads them.
#[test]
fn otlp_in_protobuf() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs");
    let read = |name: &str| std::fs::read(folder.join(name)).expect(name);
    let otlp = settings(Some(Preset::Otlp));
    assert_eq!(events(&prepare(&otlp, &read("otlp-traces.binpb"))), [chat()]);
    let logs = prepare(&otlp, &read("otlp-logs.binpb"));
    assert_eq!(events(&logs), [Event { duration: None, ..chat() }]);
    let metrics = prepare(&otlp, &read("otlp-metrics.binpb"));
    assert_eq!(metrics.refused.map(|code| code.name()), Some("undecodable"));
    assert!(reason(&metrics).contains("metrics have no prompts"), "{}", reason(&metrics));
    for name in ["otlp-traces.binpb", "otlp-logs.binpb"] {
        assert_eq!(Preset::of(&read(name)), Some(Preset::Otlp), "{name}");
        let cut = &read(name)[..read(name).len() - 5];
        assert_eq!(prepare(&otlp, cut).refused.map(|code| code.name()), Some("undecodable"), "{name}");
    }
}

#[test]
fn attributes_are_fields_of_templates() {
    let mut settings = settings(Some(Preset::Otlp));
    settings.prepare.pool = "{service.name}/{model}/{session_id}".parse().expect("a template");
    let event = events(&prepare(&settings, &fixture("otlp.jsonl")[0])).pop().expect("an event");
    assert_eq!(event.pool, "assistant/chat/conv-1");
}

/// What the collector's file exporter writes with `format: proto`: each record behind its length, all of them or each
/// compressed where that is requested.
#[test]
fn a_file_of_protobuf_is_replayed_as_its_records_are() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs");
    let records = ["otlp-traces.binpb", "otlp-logs.binpb", "otlp-metrics.binpb"]
        .map(|name| std::fs::read(folder.join(name)).expect(name));
    let framed = |record: &Vec<u8>| [&(record.len() as u32).to_be_bytes()[..], record].concat();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).expect("memory");
    let file = std::fs::read(folder.join("otlp-file.binpb")).expect("a fixture");
    assert_eq!(file, records.each_ref().map(framed).concat());
    let each_packed = records.each_ref().map(|record| framed(&zstd(record))).concat();
    let json = framed(&zstd(&fixture("otlp.jsonl")[0]));
    let model = Arc::new(Model::load(&model_directory()).expect("a usable model"));
    let read = |bytes: &[u8], format: Format| {
        let options = ReadOptions {
            page_size: PageSize::new(4),
            model: Some(Arc::clone(&model)),
            format,
            ..ReadOptions::default()
        };
        let bytes = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let mut reader = TraceReader::from_reader("log", bytes, &options).expect("a known format");
        let (mut ids, mut refused) = (Vec::new(), Vec::new());
        while let Some(item) = reader.next_item().expect("readable") {
            match item {
                TraceItem::Request(row) => ids.push(row.event.page_ids.iter().collect::<Vec<_>>()),
                TraceItem::Refused(error) => refused.push(error.to_string()),
            }
        }
        (ids, refused)
    };
    let chat = plain().ids;
    for (name, bytes) in [("plain", &file), ("packed", &zstd(&file)), ("each packed", &each_packed)] {
        for format in [Format::Auto, Format::Log(Preset::Otlp)] {
            let (ids, refused) = read(bytes, format);
            assert_eq!(ids, [chat.clone(), chat.clone()], "{name}");
            let [refused] = &refused[..] else { panic!("{name}: {refused:?}") };
            assert!(refused.starts_with("log, line 3: undecodable: neither traces nor logs"), "{refused}");
        }
    }
    assert_eq!(read(&json, Format::Auto), (vec![chat.clone()], vec![]));
    let (ids, refused) = read(&file[..records[0].len() + 100], Format::Auto);
    assert_eq!(ids, [chat]);
    assert!(refused[0].contains("ends before its length says"), "{refused:?}");
}
