//! Logs that are known by name: each fixture holds one chat as its gateway, engine or collector logs it, and gives the
//! page ids of the plain chat, with what the log says of its answer.

mod spans;

use crate::prepare_support::{model_directory, record, tokenizers};
use kvset::codec::{DecodeLimits, Encoding, RequestDecoder};
use kvset::core::request::labels::Label;
use kvset::core::units::PageSize;
use kvset::logs::Preset;
use kvset::prepare::{PreparedRecord, Preparer};
use kvset::service::prepare::{preparer, recipe};
use kvset::settings::{Secret, Settings};
use kvset::tokenize::Model;
use kvset::trace::{Format, ReadOptions, RowOrder, TraceItem, TraceReader};
use std::path::PathBuf;
use std::sync::Arc;

/// The record's own time stamp.
const STAMP: i64 = 1_800_000_000_000;
/// When the fixtures' request came.
const CAME: i64 = 1_700_000_000_250;
/// The same as answers state it, to the second.
const CREATED: i64 = 1_700_000_000_000;

fn fixture(name: &str) -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

pub(super) fn settings(preset: Option<Preset>) -> Settings {
    let mut settings = Settings::default();
    settings.estimate.page_size = PageSize::new(4);
    settings.prepare.preset = preset;
    settings
}

pub(super) fn prepare(settings: &Settings, value: &[u8]) -> PreparedRecord {
    let record = record(0, 0, Some(STAMP), None, Some(value), &[]);
    Preparer::new(Arc::new(recipe(settings)), tokenizers()).prepare(&record)
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    pool: String,
    time: i64,
    ids: Vec<u64>,
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    duration: Option<u64>,
    tenant: Option<String>,
}

fn events(prepared: &PreparedRecord) -> Vec<Event> {
    let mut decoder = RequestDecoder::new(Encoding::Avro, DecodeLimits::default());
    let results = prepared.outputs.iter().filter(|output| output.key.is_some());
    results
        .map(|output| {
            let value = output.value.as_deref().expect("an event");
            let decoded = decoder.decode(output.key.as_deref(), value).expect("a request event");
            let event = decoded.event;
            Event {
                pool: decoded.pool.into_owned(),
                time: event.event_time.0,
                ids: event.page_ids.iter().collect(),
                input: event.input_tokens,
                output: event.output_tokens,
                cached: event.cached_tokens.stated(),
                duration: event.duration_ms,
                tenant: event.labels.get(Label::Tenant).map(|name| (*name).to_owned()),
            }
        })
        .collect()
}

/// The chat of all fixtures.
fn plain() -> Event {
    let chat = fixture("chat.jsonl");
    events(&prepare(&settings(None), &chat[0])).pop().expect("an event")
}

/// What is expected of a line of a fixture.
enum Line {
    /// The chat, with everything that is known of it but this.
    Chat(fn(&mut Event)),
    /// Another request, of so many pages or tokens.
    Other(fn(&[Event])),
    /// No request that a cache served, and why.
    PassedOver(&'static str),
    /// Refused, with this code and these words.
    Refused(&'static str, &'static str),
}

use Line::{Chat, Other, PassedOver, Refused};

/// The chat and what a whole log says of it.
fn chat() -> Event {
    let plain = plain();
    Event {
        pool: "chat".to_owned(),
        time: CAME,
        output: Some(7),
        cached: Some(12),
        duration: Some(1500),
        tenant: Some("team-a".to_owned()),
        ..plain
    }
}

fn check(preset: Preset, expected: &[Line]) {
    check_file(preset, &format!("{preset}.jsonl"), expected);
}

fn check_file(preset: Preset, file: &str, expected: &[Line]) {
    let lines = fixture(file);
    assert_eq!(lines.len(), expected.len(), "{preset}");
    for (number, (line, expected)) in lines.iter().zip(expected).enumerate() {
        let prepared = prepare(&settings(Some(preset)), line);
        let what = format!("{preset}, line {}: {:?}", number + 1, reason(&prepared));
        match expected {
            Chat(but) => {
                let mut chat = chat();
                but(&mut chat);
                assert_eq!(events(&prepared), [chat], "{what}");
            }
            Other(holds) => {
                assert_eq!(prepared.refused, None, "{what}");
                holds(&events(&prepared));
            }
            PassedOver(why) => {
                assert!(prepared.outputs.is_empty() && prepared.refused.is_none(), "{what}");
                assert!(prepared.passed_over.is_some_and(|found| found.contains(why)), "{what}");
            }
            Refused(code, words) => {
                assert_eq!(prepared.refused.map(|code| code.name()), Some(*code), "{what}");
                assert!(reason(&prepared).contains(words), "{what}");
            }
        }
        assert!(!reason(&prepared).contains("hunter2"), "{what}");
        if matches!(expected, Chat(_) | PassedOver(_)) {
            assert_eq!(Preset::of(line), Some(preset), "{what}");
        }
    }
}

/// The ids of a plain chat of these messages, without tools.
fn ids_of(messages: &str) -> Vec<u64> {
    let body = format!(r#"{{"model": "chat", "messages": {messages}}}"#);
    events(&prepare(&settings(None), body.as_bytes())).pop().expect("an event").ids
}

/// The detail of a dead letter.
pub(super) fn reason(prepared: &PreparedRecord) -> String {
    let details = prepared.outputs.iter().flat_map(|output| &output.headers);
    let details = details.filter(|(name, _)| *name == "kvset_error_detail");
    details.map(|(_, value)| value.clone()).collect()
}

const WITH_ALL: Line = Chat(|_| {});

#[test]
fn litellm() {
    check(
        Preset::Litellm,
        &[
            WITH_ALL,
            Refused("missing_field", "turn_off_message_logging"),
            PassedOver("failed"),
            PassedOver("its own cache"),
            Refused("unrendered_field", "`call_type`"),
            PassedOver("generates no text"),
            Other(|events| assert!(events[0].ids != plain().ids && events[0].input < plain().input)),
            Refused("missing_field", "`messages`"),
        ],
    );
}

#[test]
fn kong() {
    check(
        Preset::Kong,
        &[
            WITH_ALL,
            WITH_ALL,
            Refused("missing_field", "log_payloads"),
            PassedOver("failed"),
            PassedOver("generates no text"),
            Refused("invalid_body", "cut off"),
        ],
    );
}

#[test]
fn apisix() {
    check(
        Preset::Apisix,
        &[
            WITH_ALL,
            WITH_ALL,
            Refused("missing_field", "include_req_body"),
            PassedOver("failed"),
            PassedOver("generates no text"),
            Refused("invalid_body", "cut off"),
        ],
    );
}

#[test]
fn higress() {
    check(
        Preset::Higress,
        &[
            WITH_ALL,
            Refused("missing_field", "@tostr"),
            PassedOver("failed"),
            PassedOver("generates no text"),
            Refused("missing_field", "@tostr"),
        ],
    );
}

/// Dynamo's hashes are page ids; they are what its router made of the prompt.
#[test]
fn dynamo() {
    let hashes = |events: &[Event]| {
        let pages = plain().ids.len();
        assert_eq!(events[0].ids.len(), pages);
        let known =
            Event { ids: events[0].ids.clone(), input: Some(4 * pages as u64), tenant: None, ..chat() };
        assert_eq!(events, [known]);
    };
    check(
        Preset::Dynamo,
        &[
            Other(hashes),
            PassedOver("another kind than request_end"),
            PassedOver("another kind than request_end"),
            Chat(|event| (event.time, event.duration, event.tenant) = (CREATED, None, None)),
            Refused("missing_field", "`input_sequence_hashes`"),
            Other(hashes),
        ],
    );
    let mut payloads = settings(Some(Preset::Dynamo));
    payloads.prepare.request = "payload.request".parse().ok();
    let lines = fixture("dynamo.jsonl");
    // The record is written when the answer is complete, which says to the second when it began.
    let expected = Event { time: CREATED, duration: Some(250), tenant: None, ..chat() };
    assert_eq!(events(&prepare(&payloads, &lines[1])), [expected]);
}

#[test]
fn vllm() {
    let known: fn(&mut Event) = |event| {
        (event.time, event.duration, event.tenant) = (1_700_000_000_000, None, None);
    };
    check(
        Preset::Vllm,
        &[
            Chat(known),
            Chat(|event| (event.time, event.duration, event.tenant) = (STAMP, None, None)),
            Other(|events| assert_eq!(events[0].ids, plain().ids)),
            Other(|events| assert_eq!((&events[0].ids, events[0].cached), (&plain().ids, Some(12)))),
            Refused("unsupported_content", "`messages`"),
            Refused("missing_field", "return_token_ids"),
        ],
    );
}

#[test]
fn sglang() {
    check(
        Preset::Sglang,
        &[
            Chat(|event| (event.pool, event.tenant) = ("sglang".to_owned(), None)),
            PassedOver("not finished"),
            Refused("invalid_field", "--log-requests-level 3"),
            Refused("missing_field", "--log-requests-level 3"),
            Refused("unsupported_content", "`obj.image_data`"),
            Refused("unknown_model", ""),
            Refused("invalid_field", "`obj.text` is cut off"),
            Other(|events| assert!(plain().ids.iter().all(|id| !events[0].ids.contains(id)))),
        ],
    );
}

#[test]
fn openai_batch() {
    check(
        Preset::OpenaiBatch,
        &[
            Chat(|event| *event = Event { time: STAMP, ..plain() }),
            PassedOver("generates no text"),
            PassedOver("batch's output"),
            Chat(|event| {
                *event = Event { time: 1_700_000_000_000, output: Some(7), cached: Some(12), ..plain() }
            }),
            PassedOver("the request failed"),
        ],
    );
}

/// What a log leaves out of a prompt shows in the number of tokens that the engine counted.
#[test]
fn a_prompt_that_is_not_logged_whole_shows_in_its_tokens() {
    let line = fixture("otlp.jsonl").swap_remove(0);
    let whole = prepare(&settings(Some(Preset::Otlp)), &line);
    assert_eq!((whole.stated.prompts, whole.stated.differing), (1, 0));
    let without_tools =
        String::from_utf8(line).expect("text").replace("gen_ai.tool.definitions", "not.logged");
    let part = prepare(&settings(Some(Preset::Otlp)), without_tools.as_bytes());
    assert_eq!(part.refused.map(|code| code.name()), Some("prompt_mismatch"));
    let why = reason(&part);
    assert!(why.contains("states 168 prompt tokens and holds a text of 34 tokens"), "{why}");
}

#[test]
fn envoy_ai_gateway() {
    let settings = settings(Some(Preset::EnvoyAiGateway));
    let lines = fixture("envoy-ai-gateway.jsonl");
    let prepared: Vec<_> = lines.iter().map(|line| prepare(&settings, line)).collect();
    assert_eq!(events(&prepared[0]), [chat()]);
    assert_eq!(prepared[1].refused.map(|code| code.name()), Some("missing_field"));
    assert!(reason(&prepared[1]).contains("OPENINFERENCE_HIDE_INPUTS"));
    assert_eq!(prepared[2].refused.map(|code| code.name()), Some("unsupported_content"));
    assert!(prepared[3].passed_over.is_some() && prepared[3].outputs.is_empty());
}

#[test]
fn settings_go_before_the_preset() {
    let lines = fixture("kong.jsonl");
    let mut settings = settings(Some(Preset::Kong));
    settings.prepare.event_time = "{ai.proxy.payload.at}".parse().expect("a template");
    settings.prepare.pool = "{route.name}/{tenant}/{model}".parse().expect("a template");
    settings.prepare.namespace = "{consumer.id}".parse().expect("a template");
    let mut record: serde_json::Value = serde_json::from_slice(&lines[0]).expect("JSON");
    record["ai"]["proxy"]["payload"]["at"] = serde_json::json!(5);
    let event = events(&prepare(&settings, record.to_string().as_bytes())).pop().expect("an event");
    assert_eq!((&*event.pool, event.time), ("chat/team-a/chat", 5));
    assert_ne!(event.ids, plain().ids, "a namespace of its own");
}

/// What a gateway's or an engine's user may have: bodies of each API, bare and wrapped, and every known log.
fn shapes() -> Vec<(&'static str, Vec<u8>)> {
    let line = |name: &str, index: usize| fixture(name).swap_remove(index);
    let chat: serde_json::Value = serde_json::from_slice(&line("chat.jsonl", 0)).expect("JSON");
    let tool = &chat["tools"][0]["function"];
    let anthropic = serde_json::json!({
        "model": "chat", "max_tokens": 64, "system": "Be brief.", "messages": [chat["messages"][1]],
        "tools": [{"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}],
    });
    let responses = serde_json::json!({
        "model": "chat", "instructions": "Be brief.", "input": "What is there?",
        "tools": [{"type": "function", "name": tool["name"], "description": tool["description"],
            "parameters": tool["parameters"]}],
    });
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs");
    vec![
        ("chat", line("chat.jsonl", 0)),
        ("anthropic", anthropic.to_string().into_bytes()),
        ("responses", responses.to_string().into_bytes()),
        ("batch", line("openai-batch.jsonl", 0)),
        ("litellm", line("litellm.jsonl", 0)),
        ("kong", line("kong.jsonl", 0)),
        ("kong, streamed", line("kong.jsonl", 1)),
        ("apisix", line("apisix.jsonl", 0)),
        ("higress", line("higress.jsonl", 0)),
        ("envoy", line("envoy-ai-gateway.jsonl", 0)),
        ("otlp traces", line("otlp.jsonl", 0)),
        ("otlp traces, protobuf", std::fs::read(folder.join("otlp-traces.binpb")).expect("a fixture")),
        ("otlp logs, protobuf", std::fs::read(folder.join("otlp-logs.binpb")).expect("a fixture")),
        ("dynamo audit", line("dynamo.jsonl", 3)),
        ("vllm", line("vllm.jsonl", 0)),
        ("sglang", line("sglang.jsonl", 0)),
    ]
}

/// None of them is taken wrongly, and none refused without a word on what to set; with the preset that the refusal
/// names, all give the page ids of the plain chat.
#[test]
fn no_shape_is_taken_wrongly_or_refused_without_a_reason() {
    let (plain, shapes) = (plain(), shapes());
    assert_eq!(shapes.len(), 16);
    let mut refused = 0;
    for (name, shape) in shapes {
        let bare = prepare(&settings(None), &shape);
        if bare.refused.is_none() {
            let [event] = &events(&bare)[..] else { panic!("{name}: one event") };
            assert_eq!(event.ids, plain.ids, "{name} is taken wrongly");
            continue;
        }
        refused += 1;
        let why = reason(&bare);
        assert!(!why.contains("What is") && !why.contains("brief"), "{name}: {why}");
        let preset = Preset::of(&shape).unwrap_or_else(|| panic!("{name}: {why}"));
        assert!(why.contains(&format!("set prepare.preset = \"{preset}\"")), "{name}: {why}");
        let [event] = &events(&prepare(&settings(Some(preset)), &shape))[..] else {
            panic!("{name}: one event")
        };
        assert_eq!(event.ids, plain.ids, "{name}");
    }
    assert_eq!(refused, 12);
}

/// Lines of a batch that ask for embeddings have bodies that look like those of the Responses API; no cache of pages
/// serves them.
#[test]
fn embeddings_of_a_batch_are_no_prompts() {
    let passed = prepare(&settings(None), &fixture("openai-batch.jsonl")[1]);
    assert_eq!((passed.refused, passed.passed_over), (None, Some("its endpoint generates no text")));
}

/// What hostile or careless writers log: each is refused by its reason, or read for what it is.
#[test]
fn careless_records_are_refused_or_read_for_what_they_are() {
    let refusal = |preset: Option<Preset>, record: &str| {
        let prepared = prepare(&settings(preset), record.as_bytes());
        let code = prepared.refused.map(|code| code.name());
        assert!(prepared.shares.is_empty() && code.is_some(), "{record}: {}", reason(&prepared));
        format!("{}: {}", code.unwrap_or_default(), reason(&prepared))
    };
    let no_list = refusal(Some(Preset::Litellm), r#"{"call_type": "completion", "messages": "hunter2"}"#);
    assert!(no_list.starts_with("invalid_body: `messages` are a text"), "{no_list}");
    let no_time = r#"{"started_at": 99999999999999999999, "ai": {"proxy": {"payload": {"request": {"model": "chat", "prompt": "a"}}}}}"#;
    let no_time = refusal(Some(Preset::Kong), no_time);
    assert!(no_time.starts_with("invalid_field: `started_at` is a date of a log in no unit"), "{no_time}");
    let nothing = refusal(None, r#"{"model": "chat", "prompt": []}"#);
    assert_eq!(nothing, "missing_field: the prompt is an empty list");
    // Ids that were requested and not returned leave the text.
    let chat = r#""messages": [{"role": "user", "content": "What is there?"}]"#;
    let ids = ids_of(r#"[{"role": "user", "content": "What is there?"}]"#);
    let bare = format!(r#"{{"model": "chat", "prompt_token_ids": [], {chat}}}"#);
    let logged =
        format!(r#"{{"request": {{"model": "chat", {chat}}}, "response": {{"prompt_token_ids": []}}}}"#);
    for (preset, record) in [(None, bare), (Some(Preset::Vllm), logged)] {
        let [event] = &events(&prepare(&settings(preset), record.as_bytes()))[..] else { panic!("{record}") };
        assert_eq!(event.ids, ids, "{record}");
    }
}

/// `kvset replay` reads the same logs through the same reader, and tells them by themselves.
#[test]
fn a_replay_of_a_log_is_that_of_its_plain_requests() {
    let model = Arc::new(Model::load(&model_directory()).expect("a usable model"));
    let read = |format: Format, line: Vec<u8>| {
        let options = ReadOptions {
            format,
            page_size: PageSize::new(4),
            model: Some(Arc::clone(&model)),
            ..ReadOptions::default()
        };
        let mut reader = TraceReader::from_reader("log", Box::new(std::io::Cursor::new(line)), &options)
            .expect("a known format");
        let found = reader.format();
        let Some(TraceItem::Request(row)) = reader.next_item().expect("readable") else { panic!("{format}") };
        let event = &row.event;
        let ids: Vec<u64> = event.page_ids.iter().collect();
        let told = (event.event_time.0, event.duration_ms, event.cached_tokens.stated(), event.output_tokens);
        (found, ids, told, event.labels.get(Label::Tenant).map(|name| (*name).to_owned()))
    };
    let (_, plain, ..) = read(Format::Auto, fixture("chat.jsonl").swap_remove(0));
    let whole = (CAME, Some(1500), Some(12), Some(7));
    for (name, preset) in Preset::NAMES {
        if matches!(preset, Preset::Dynamo | Preset::OpenaiBatch) {
            continue; // Formats of their own.
        }
        let line = fixture(&format!("{name}.jsonl")).swap_remove(0);
        let (_, ids, told, tenant) = read(Format::Log(preset), line.clone());
        assert_eq!(ids, plain, "{name}");
        match preset {
            Preset::Vllm => assert_eq!(told, (CAME - 250, None, Some(12), Some(7))),
            Preset::Sglang => assert_eq!((told, tenant), (whole, None)),
            _ => assert_eq!((told, tenant.as_deref()), (whole, Some("team-a")), "{name}"),
        }
        let (found, ids, ..) = read(Format::Auto, line);
        let expected = if preset == Preset::EnvoyAiGateway { Preset::Otlp } else { preset };
        assert_eq!((found, ids), (Format::Log(expected), plain.clone()), "{name}");
    }
    let (_, hashes, told, _) = read(Format::Auto, fixture("dynamo.jsonl").swap_remove(0));
    assert_eq!((hashes.len(), told), (self::plain().ids.len(), whole), "page ids as Dynamo made them");
}

/// Under a key nobody can hash a guessed prompt and look for its ids; what is shared stays shared.
#[test]
fn ids_under_a_key_are_others_and_shared_as_far() {
    let keyed = |key: &str, preset: Option<Preset>, record: &[u8]| {
        let mut settings = settings(preset);
        settings.prepare.models = vec![];
        settings.prepare.hash_key = Secret::new(key);
        let mut preparer = preparer(&settings).expect("a key");
        let source = crate::prepare_support::record(0, 0, Some(STAMP), None, Some(record), &[]);
        preparer.prepare(&source)
    };
    const KEY: &str = "000102030405060708090a0b0c0d0e0f";
    let tokens =
        |last: u32| format!(r#"{{"model": "m", "tokens": [1, 2, 3, 4, 5, 6, 7, {last}]}}"#).into_bytes();
    let ids = |key: &str, last: u32| events(&keyed(key, None, &tokens(last))).remove(0).ids;
    let (plain, first, second) = (ids("", 8), ids(KEY, 8), ids(KEY, 9));
    assert!(plain.iter().all(|id| !first.contains(id)) && plain.len() == first.len());
    assert!(first[0] == second[0] && first[1] != second[1]);
    assert_ne!(ids(&KEY.replace("00", "ff"), 8), first);
    // Ids that Dynamo made without the key.
    let trace = fixture("dynamo.jsonl").swap_remove(0);
    let (made, hidden) = (keyed("", Some(Preset::Dynamo), &trace), keyed(KEY, Some(Preset::Dynamo), &trace));
    let (made, hidden) = (events(&made).remove(0), events(&hidden).remove(0));
    assert!(made.ids.iter().all(|id| !hidden.ids.contains(id)) && made.ids.len() == hidden.ids.len());
    // The hash of a refused record could be tested, too.
    let has_hash = |prepared: &PreparedRecord| {
        prepared.outputs[0].headers.iter().any(|(name, _)| *name == "kvset_value_xxh3")
    };
    assert!(has_hash(&keyed("", None, b"broken")) && !has_hash(&keyed(KEY, None, b"broken")));
    let mut wrong = settings(None);
    wrong.prepare.hash_key = Secret::new("hunter2");
    let error = preparer(&wrong).err().expect("no key").to_string();
    assert!(error.contains("prepare.hash_key") && !error.contains("hunter2"), "{error}");
    assert!(!format!("{wrong:?}").contains("hunter2") && !wrong.to_toml().contains("hunter2"));
}
