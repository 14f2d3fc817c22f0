//! Chat and completion requests as traces.

use kvset::core::request::labels::Label;
use kvset::core::units::PageSize;
use kvset::core::units::hashing::PageHasher;
use kvset::core::units::pages::Scope;
use kvset::logs::Preset;
use kvset::tokenize::Model;
use kvset::trace::{Format, IdScope, ReadOptions, TraceError, TraceItem, TraceReader};
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

const PAGE: PageSize = PageSize::new(4).unwrap();

fn model() -> Arc<Model> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenize/chatml");
    Arc::new(Model::load(&folder).expect("a usable model"))
}

fn options() -> ReadOptions {
    ReadOptions { model: Some(model()), page_size: Some(PAGE), ..ReadOptions::default() }
}

fn open(text: &str, options: &ReadOptions) -> Result<TraceReader, TraceError> {
    TraceReader::from_reader("log", Box::new(Cursor::new(text.to_owned().into_bytes())), options)
}

/// Line, time, page ids, tokens and scope of every request; refused rows in words.
type Row = (u64, i64, Vec<u64>, Option<u64>, Scope);

fn rows(mut reader: TraceReader) -> Vec<Result<Row, String>> {
    let mut rows = Vec::new();
    while let Some(item) = reader.next_item().expect("readable") {
        rows.push(match item {
            TraceItem::Request(row) => {
                let event = &row.event;
                assert_eq!(event.page_size, Some(PAGE));
                let ids = event.page_ids.iter().collect();
                Ok((row.line, event.event_time.0, ids, event.input_tokens, event.scope))
            }
            TraceItem::Refused(error) => Err(error.to_string()),
        });
    }
    rows
}

fn pages(tokens: &[u32]) -> Vec<u64> {
    let mut ids = Vec::new();
    PageHasher::new(PAGE).hash(Scope::GLOBAL, tokens, true, &mut ids);
    ids
}

#[test]
fn requests_become_pages_as_their_token_ids_do() {
    let text = concat!(
        r#"{"prompt": [1, 2, 3, 4, 5], "timestamp": 10}"#,
        "\n",
        r#"{"custom_id": "a", "body": {"prompt": [[1, 2, 3, 4], [6]]}}"#,
        "\n",
        r#"{"prompt": []}"#,
        "\n",
        r#"{"prompt": [7], "timestamp": 30}"#,
    );
    let reader = open(text, &options()).expect("opens");
    assert_eq!(reader.format(), Format::Openai, "told from the first row");
    let row = |line, time, tokens: &[u32]| {
        Ok((line, time, pages(tokens), Some(tokens.len() as u64), Scope::GLOBAL))
    };
    let expected = [
        row(1, 10, &[1, 2, 3, 4, 5]),
        row(2, 10, &[1, 2, 3, 4]),
        row(2, 10, &[6]),
        Err("log, line 3: missing_field: the prompt is an empty list".to_owned()),
        row(4, 30, &[7]),
    ];
    assert_eq!(rows(reader), expected);
}

#[test]
fn a_body_says_how_long_its_pages_are_to_be_kept() {
    let block = r#"[{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]"#;
    let body = format!(r#"{{"messages": [{{"role": "user", "content": {block}}}]}}"#);
    let text = [
        body.clone(),
        format!(r#"{{"body": {body}, "retention_class": "1h"}}"#),
        r#"{"prompt": [1, 2], "nvext": {"agent_hints": {"priority": 3}}}"#.to_owned(),
        r#"{"prompt": [1, 2]}"#.to_owned(),
    ];
    let batch = text.iter().filter(|line| !line.contains("1h"));
    let batch: Vec<_> = batch.map(|line| format!(r#"{{"url": "/v1/x", "body": {line}}}"#)).collect();
    let log = ReadOptions { format: Format::of_preset(Preset::OpenaiBatch), ..options() };
    for (text, options, expected) in [
        (text.join("\n"), options(), vec![Some("5m"), Some("1h"), Some("priority-3"), None]),
        (batch.join("\n"), log, vec![Some("5m"), Some("priority-3"), None]),
    ] {
        let mut reader = open(&text, &options).expect("opens");
        let mut found = Vec::new();
        while let Some(item) = reader.next_item().expect("readable") {
            if let TraceItem::Request(row) = item {
                found.push(row.event.labels.get(Label::RetentionClass).map(|class| class.to_string()));
            }
        }
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_answer_is_read_from_the_row_or_from_the_usage_of_its_response() {
    let text = concat!(
        r#"{"prompt": [1, 2, 3], "usage": {"prompt_tokens": 3, "completion_tokens": 7}, "duration_ms": 90}"#,
        "\n",
        r#"{"body": {"prompt": "a b c"}, "response": {"body": {"usage": {"prompt_tokens": 9, "completion_tokens": 8}}}}"#,
        "\n",
        r#"{"prompt": [1], "response": {"usage": {"input_tokens": 1, "output_tokens": 9}}, "usage": null}"#,
        "\n",
        r#"{"prompt": [[1], [2]], "usage": {"completion_tokens": 7}}"#,
        "\n",
        r#"{"prompt": [1], "usage": {"completion_tokens": "hunter2"}}"#,
        "\n",
        r#"{"prompt": [1], "usage": {"prompt_tokens": 5}}"#,
    );
    let mut reader = open(text, &options()).expect("opens");
    let mut answers = Vec::new();
    while let Some(item) = reader.next_item().expect("readable") {
        answers.push(match item {
            TraceItem::Request(row) => Ok((row.event.output_tokens, row.event.duration_ms)),
            TraceItem::Refused(error) => Err(error.to_string()),
        });
    }
    let read = [
        Ok((Some(7), Some(90))),
        Ok((Some(8), None)),
        Ok((Some(9), None)),
        Ok((None, None)),
        Ok((None, None)),
    ];
    assert_eq!(answers[..5], read, "a sum over two prompts tells of neither");
    let fault = answers[5].as_ref().expect_err("no number");
    assert!(fault.contains("`completion_tokens`") && !fault.contains("hunter2"), "{fault}");
    let fault = answers[6].as_ref().expect_err("a part of a prompt");
    assert!(fault.contains("states 5 prompt tokens and holds 1 token ids"), "{fault}");
    let notes = reader.notes().join("\n");
    assert!(notes.contains("1 of 3 prompts have another number of tokens"), "{notes}");
}

#[test]
fn a_chat_that_grows_shares_the_pages_of_its_beginning() {
    let turn = |role: &str, text: &str| format!(r#"{{"role": "{role}", "content": "{text}"}}"#);
    let chat = |turns: &[String]| format!(r#"{{"messages": [{}]}}"#, turns.join(","));
    let turns = [turn("user", "How many pages?"), turn("assistant", "Forty-two."), turn("user", "Why?")];
    let text = format!("{}\n{}\n", chat(&turns[..1]), chat(&turns));
    let rows = rows(open(&text, &options()).expect("opens"));
    let [Ok(first), Ok(second)] = &rows[..] else { panic!("{rows:?}") };
    let shared = first.2.iter().zip(&second.2).take_while(|(a, b)| a == b).count();
    // The last page is partial, and the model's turn begins after the prompt for it.
    assert!(
        shared + 2 >= first.2.len() && second.2.len() > first.2.len(),
        "{shared} shared of {}",
        first.2.len()
    );
}

#[test]
fn sessions_and_fields_scope_the_ids() {
    let text = r#"{"session_id": "s", "user": 7, "prompt": [1]}"#;
    let scope = |id_scope: &str| {
        let id_scope: IdScope = id_scope.parse().expect("an id scope");
        rows(open(text, &ReadOptions { id_scope, ..options() }).expect("opens"))
            .remove(0)
            .map(|(.., scope)| scope)
    };
    assert_eq!(scope("session"), Ok(Scope::named(b"s")));
    assert_eq!(scope("field:session_id"), Ok(Scope::named(b"s")));
    assert_eq!(scope("field:user"), Ok(Scope::named(b"7")));
    assert_eq!(scope("field:tenant"), Err("log, line 1: field `tenant` is missing".to_owned()));
}

#[test]
fn a_bad_row_is_named_by_its_code_and_the_rest_is_read() {
    let text = concat!(
        r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "hunter2"}]}]}"#,
        "\n",
        r#"{"prompt": "hunter2", "timestamp": -1}"#,
        "\n",
        r#"{"prompt": "hunter2""#,
        "\n",
        r#"{"prompt": [1]}"#,
    );
    let rows = rows(open(text, &options()).expect("opens"));
    let faults: Vec<&String> = rows.iter().filter_map(|row| row.as_ref().err()).collect();
    assert!(faults[0].contains("line 1: unsupported_content"), "{}", faults[0]);
    assert!(faults[1].contains("field `timestamp`"), "{}", faults[1]);
    assert!(faults[2].contains("line 3: the line ends"), "{}", faults[2]);
    assert!(!format!("{rows:?}").contains("hunter2"), "{rows:?}");
    assert!(rows[3].is_ok());
}

#[test]
fn without_a_model_the_option_is_named() {
    for format in [Format::Auto, Format::Openai] {
        let options = ReadOptions { format, ..ReadOptions::default() };
        let error = open(r#"{"prompt": "x"}"#, &options).err().expect("no model").to_string();
        assert!(error.contains("--model"), "{error}");
    }
}
