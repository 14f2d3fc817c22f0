//! Raw records become request events, or dead letters that give nothing away.

use crate::kafka_support::{Input, shared_trace};
use crate::prepare_support::{MARKER, MARKER_TOKEN, hostile, tokenizers, week};
use crate::registry_support::Registry;
use apache_avro::Schema;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use kvset::codec::{
    DecodeLimits, Encoding, ErrorCode, LetterContent, RawPrompt, RawRequest, RequestDecoder, RequestEncoding,
    RequestMessage, SchemaId, encode_raw_request, encode_request, schema,
};
use kvset::core::request::event::{CachedTokens, RequestEvent};
use kvset::core::request::labels::Label;
use kvset::core::request::sample::Sample;
use kvset::core::units::PageSize;
use kvset::core::units::hashing::PageHasher;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::logs::Preset;
use kvset::output::Destination;
use kvset::prepare::{NumberUnit, TimeUnit};
use kvset::prepare::{PreparedRecord, Preparer, Tokenizers};
use kvset::service::plan::schemas::open;
use kvset::service::plan::task_config;
use kvset::service::prepare::recipe;
use kvset::settings::{HttpUrl, Secret, Settings};
use std::sync::Arc;

const TIME: i64 = 1_700_000_000_000;

/// Pages of four tokens, pools by model.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.estimate.page_size = PageSize::new(4);
    settings
}

fn preparer(settings: &Settings) -> Preparer {
    Preparer::new(Arc::new(recipe(settings)), tokenizers())
}

fn prepare_with(
    settings: &Settings,
    key: Option<&[u8]>,
    value: &[u8],
    headers: &[(&str, &[u8])],
) -> PreparedRecord {
    let record = crate::prepare_support::record(0, 0, Some(TIME), key, Some(value), headers);
    preparer(settings).prepare(&record)
}

fn prepare(settings: &Settings, value: &str) -> PreparedRecord {
    prepare_with(settings, None, value.as_bytes(), &[])
}

/// Pool, event time, ids and prompt tokens of every event.
type Event = (String, i64, Vec<u64>, Option<u64>);

fn events(prepared: &PreparedRecord) -> Vec<Event> {
    assert_eq!(prepared.refused, None);
    let mut decoder = RequestDecoder::new(Encoding::Avro, DecodeLimits::default());
    let mut found = Vec::new();
    for output in &prepared.outputs {
        assert_eq!(output.destination, Destination::Results);
        let value = output.value.as_deref().expect("an event");
        let decoded = decoder.decode(output.key.as_deref(), value).expect("a request event");
        let event = decoded.event;
        let ids = event.page_ids.iter().collect();
        found.push((decoded.pool.into_owned(), event.event_time.0, ids, event.input_tokens));
    }
    found
}

fn pages(namespace: Scope, tokens: &[u32]) -> Vec<u64> {
    let mut ids = Vec::new();
    PageHasher::new(PageSize::new(4).expect("not zero")).hash(namespace, tokens, false, &mut ids);
    ids
}

#[test]
fn token_ids_become_full_pages_of_the_pool_that_the_template_names() {
    let mut settings = settings();
    settings.prepare.pool = "{model}/{meta.cluster}".parse().expect("a template");
    let prepared =
        prepare(&settings, r#"{"model": "m", "meta": {"cluster": "eu"}, "token_ids": [1, 2, 3, 4, 5, 6]}"#);
    let expected = ("m/eu".to_owned(), TIME, pages(Scope::GLOBAL, &[1, 2, 3, 4]), Some(6));
    assert_eq!(events(&prepared), [expected]);
    let total = prepared.total();
    assert_eq!((total.requests, total.tokens, total.pages), (1, 6, 1));
    let several =
        prepare(&settings, r#"{"tokens": [[1, 2, 3, 4], [], [9]], "model": 7, "meta": {"cluster": true}}"#);
    let row = |ids: Vec<u64>, tokens| ("7/true".to_owned(), TIME, ids, Some(tokens));
    assert_eq!(
        events(&several),
        [row(pages(Scope::GLOBAL, &[1, 2, 3, 4]), 4), row(vec![], 0), row(vec![], 1)]
    );
}

#[test]
fn a_chat_is_tokenised_by_the_model_it_names_bare_or_in_a_body() {
    let settings = settings();
    let chat = r#"{"model": "chat", "messages": [{"role": "user", "content": "How many pages are that?"}]}"#;
    let (bare, wrapped) = (prepare(&settings, chat), prepare(&settings, &format!(r#"{{"body": {chat}}}"#)));
    assert!(bare.total().pages > 2, "{} pages", bare.total().pages);
    assert_eq!(events(&bare), events(&wrapped));
    let completion = prepare(&settings, r#"{"model": "chat", "prompt": [[1, 2, 3, 4], [5]]}"#);
    assert_eq!(events(&completion)[0].2, pages(Scope::GLOBAL, &[1, 2, 3, 4]));
    let unknown = prepare(&settings, r#"{"model": "other", "prompt": "x"}"#);
    assert_eq!(unknown.refused, Some(ErrorCode::UnknownModel));
}

#[test]
fn avro_and_json_give_the_same_events() {
    let settings = settings();
    let avro = |prompt: RawPrompt<'_>| {
        let (event_time, fields) = (Some(5), vec![("model", "chat"), ("unused", "x")]);
        let request = RawRequest { event_time, fields, prompt, output_tokens: Some(3), duration_ms: None };
        let mut value = Vec::new();
        encode_raw_request(&request, &mut value);
        events(&prepare_with(&settings, None, &value, &[]))
    };
    let at_five = |mut settings: Settings, json: &str| {
        settings.prepare.event_time = "{t}".parse().expect("a template");
        events(&prepare(&settings, json))
    };
    let tokens =
        at_five(settings.clone(), r#"{"t": 5, "model": "chat", "tokens": [1, 2, 3, 4], "output_tokens": 3}"#);
    assert_eq!(avro(RawPrompt::Tokens(vec![1, 2, 3, 4])), tokens);
    let body = at_five(settings.clone(), r#"{"t": 5, "model": "chat", "prompt": "hello world"}"#);
    assert_eq!(avro(RawPrompt::Body(r#"{"prompt": "hello world"}"#)), body);
}

/// Prepares a record whose schema is in this registry.
fn prepare_framed(settings: &Settings, registry: &Registry, value: &[u8]) -> PreparedRecord {
    let mut settings = settings.clone();
    settings.schema_registry.url = HttpUrl::new(&registry.url()).expect("an address");
    let schemas = open(&settings.schema_registry).expect("nothing is missing").expect("an address");
    let mut preparer = preparer(&settings).with_schemas(Some(schemas));
    let record = crate::prepare_support::record(0, 0, Some(TIME), Some(b"chat"), Some(value), &[]);
    preparer.look_up(&record).expect("the registry answers");
    preparer.prepare(&record)
}

#[test]
fn confluents_wire_format_gives_the_same_events_as_single_object_encoding() {
    let (settings, registry) = (settings(), Registry::up());
    let raw = RawRequest {
        event_time: Some(5),
        fields: vec![("model", "chat")],
        prompt: RawPrompt::Tokens(vec![1, 2, 3, 4]),
        output_tokens: Some(3),
        duration_ms: None,
    };
    let mut plain = Vec::new();
    encode_raw_request(&raw, &mut plain);
    let expected = events(&prepare_with(&settings, None, &plain, &[]));
    assert_eq!(expected[0].2, pages(Scope::GLOBAL, &[1, 2, 3, 4]));
    let frame = |id: u32, datum: &[u8]| [&[0], &id.to_be_bytes()[..], datum].concat();
    // What follows marker and fingerprint is the datum.
    let ours = frame(registry.add(schema::RAW_REQUEST), &plain[10..]);
    assert_eq!(events(&prepare_framed(&settings, &registry, &ours)), expected);

    let other = r#"{"type": "record", "name": "Call", "fields": [
        {"name": "prompt", "type": {"type": "array", "items": "int"}},
        {"name": "region", "type": "string"},
        {"name": "output_tokens", "type": "int"},
        {"name": "fields", "type": {"type": "map", "values": "string"}},
        {"name": "event_time", "type": "long"}]}"#;
    let fields = [
        ("prompt", Value::Array([1, 2, 3, 4].map(Value::Int).to_vec())),
        ("region", Value::String("north".to_owned())),
        ("output_tokens", Value::Int(3)),
        ("fields", Value::Map([("model".to_owned(), Value::String("chat".to_owned()))].into())),
        ("event_time", Value::Long(5)),
    ];
    let schema = Schema::parse_str(other).expect("a schema");
    let writer = GenericDatumWriter::builder(&schema).build().expect("a writer");
    let value = Value::Record(fields.map(|(name, value)| (name.to_owned(), value)).to_vec());
    let datum = writer.write_value_to_vec(value).expect("fits its schema");
    let resolved = frame(registry.add(other), &datum);
    assert_eq!(events(&prepare_framed(&settings, &registry, &resolved)), expected);

    let mut by_key = settings.clone();
    by_key.prepare.pool = "{key}".parse().expect("a template");
    let ids = [11, 22];
    let message =
        RequestMessage { event_time: 7, page_ids: PageIds::from_slice(&ids), ..RequestMessage::default() };
    let mut event = Vec::new();
    let encoding = RequestEncoding::ConfluentAvro(SchemaId(registry.add(schema::REQUEST_EVENT)));
    encode_request(&message, encoding, &mut event).expect("encodes");
    let prepared = prepare_framed(&by_key, &registry, &event);
    assert_eq!(events(&prepared), [("chat".to_owned(), 7, ids.to_vec(), None)]);

    for (value, code) in [
        (frame(99, &datum), ErrorCode::UnknownSchema),
        (resolved[..resolved.len() - 1].to_vec(), ErrorCode::Undecodable),
        ([&ours[..], &[0]].concat(), ErrorCode::Undecodable),
    ] {
        assert_eq!(prepare_framed(&settings, &registry, &value).refused, Some(code));
    }
    let without_registry = prepare_with(&settings, None, &ours, &[]);
    assert_eq!(without_registry.refused, Some(ErrorCode::UnknownSchema));
}

#[test]
fn page_ids_go_on_as_they_are_in_either_encoding() {
    let mut settings = settings();
    settings.prepare.pool = "{key}".parse().expect("a template");
    let ids = [11, 22];
    let message = RequestMessage {
        event_time: 7,
        page_ids: PageIds::from_slice(&ids),
        page_size: Some(4),
        input_tokens: Some(8),
        ..RequestMessage::default()
    };
    for encoding in [RequestEncoding::Avro, RequestEncoding::AvroLongs, RequestEncoding::Json] {
        let mut value = Vec::new();
        encode_request(&message, encoding, &mut value).expect("encodes");
        let prepared = prepare_with(&settings, Some(b"p"), &value, &[]);
        assert_eq!(events(&prepared), [("p".to_owned(), 7, ids.to_vec(), Some(8))]);
    }
}

#[test]
fn ids_made_here_are_declared_chained_and_others_as_their_maker_said() {
    let settings = settings();
    let said = |value: &str| {
        let prepared = prepare(&settings, value);
        let value = prepared.outputs[0].value.as_deref().expect("an event");
        RequestDecoder::default().decode(Some(b"m"), value).expect("an event").event.ids_chained
    };
    assert!(said(r#"{"model": "m", "tokens": [1, 2, 3, 4]}"#));
    let ready = r#"{"model": "m", "event_time": 1, "page_ids": [5]}"#;
    assert!(!said(ready));
    assert!(said(&ready.replace("[5]", "[5], \"ids_chained\": true")));
}

#[test]
fn ids_made_here_name_their_scheme_and_others_that_of_their_maker() {
    let said = |key: &str, value: &str| {
        let mut settings = settings();
        settings.prepare.hash_key = Secret::new(key);
        let record = crate::prepare_support::record(0, 0, Some(TIME), None, Some(value.as_bytes()), &[]);
        let prepared = kvset::service::prepare::preparer(&settings).expect("a key").prepare(&record);
        let value = prepared.outputs[0].value.as_deref().expect("an event");
        let mut decoder = RequestDecoder::default();
        let event = decoder.decode(Some(b"m"), value).expect("an event").event;
        event.labels.get(Label::IdScheme).map(|scheme| (*scheme).to_owned())
    };
    const KEY: &str = "000102030405060708090a0b0c0d0e0f";
    let (tokens, ready) =
        (r#"{"model": "m", "tokens": [1, 2, 3, 4]}"#, r#"{"model": "m", "event_time": 1, "page_ids": [5]}"#);
    let of_vllm = ready.replace("[5]", r#"[5], "id_scheme": "vllm:sha256:4""#);
    assert_eq!(said("", tokens).as_deref(), Some("kvset:xxh3:4"));
    assert_eq!((said("", ready), said("", &of_vllm).as_deref()), (None, Some("vllm:sha256:4")));
    assert_eq!(said(KEY, tokens).as_deref(), Some("kvset:xxh3-keyed:4"));
    assert_eq!((said(KEY, ready), said(KEY, &of_vllm).as_deref()), (None, Some("vllm:sha256:4:keyed")));
}

#[test]
fn a_namespace_keeps_pages_apart_and_its_name_does_not_go_out() {
    let mut settings = settings();
    settings.prepare.namespace = "{tenant?}".parse().expect("a template");
    let tokens =
        |tenant: &str| prepare(&settings, &format!(r#"{{{tenant} "model": "m", "tokens": [1, 2, 3, 4]}}"#));
    assert_eq!(events(&tokens(""))[0].2, pages(Scope::GLOBAL, &[1, 2, 3, 4]));
    let named = tokens(r#""tenant": "acme","#);
    assert_eq!(events(&named)[0].2, pages(Scope::named(b"acme"), &[1, 2, 3, 4]));
    let ready = prepare(&settings, r#"{"tenant": "acme", "model": "m", "event_time": 1, "page_ids": [5]}"#);
    let value = ready.outputs[0].value.as_deref().expect("an event");
    assert!(!value.windows(4).any(|window| window == b"acme"));
    let scope = RequestDecoder::default().decode(Some(b"m"), value).expect("an event").event.scope;
    assert_ne!(scope, Scope::GLOBAL);
}

#[test]
fn event_times_are_read_in_their_unit_or_as_dates() {
    let mut settings = settings();
    settings.prepare.event_time = "{at}".parse().expect("a template");
    let time = |settings: &Settings, at: &str| {
        let prepared = prepare(settings, &format!(r#"{{"at": {at}, "model": "m", "tokens": []}}"#));
        prepared.refused.map_or_else(|| Ok(events(&prepared)[0].1), Err)
    };
    assert_eq!(time(&settings, "1700000000123"), Ok(1_700_000_000_123));
    assert_eq!(time(&settings, r#""2023-11-14T22:13:20.5Z""#), Ok(1_700_000_000_500));
    assert_eq!(time(&settings, r#""soon""#), Err(ErrorCode::InvalidField));
    assert_eq!(time(&settings, "null"), Err(ErrorCode::MissingField));
    for seconds in ["1700000000.25", "1700000000250", "1700000000250000", r#""2023-11-15T06:13:20.25+08:00""#]
    {
        assert_eq!(time(&settings, seconds), Ok(1_700_000_000_250), "{seconds}");
    }
    assert_eq!(time(&settings, "1700"), Ok(1_700), "milliseconds from a start");
    for no_date in ["170000000000", "17000000000", "-1"] {
        assert_eq!(time(&settings, no_date), Err(ErrorCode::InvalidField), "{no_date}");
    }
    settings.prepare.event_time_unit = TimeUnit::Stated(NumberUnit::Seconds);
    assert_eq!(time(&settings, "1700000000.25"), Ok(1_700_000_000_250));
    assert_eq!(time(&settings, "1700"), Ok(1_700_000));
    assert_eq!(
        time(&settings, "1700000000250"),
        Err(ErrorCode::InvalidField),
        "a date in milliseconds alone"
    );
}

#[test]
fn names_come_from_headers_and_keys_too() {
    let mut settings = settings();
    settings.prepare.pool = "{header:cluster}/{key}".parse().expect("a template");
    let headers: [(&str, &[u8]); 2] = [("other", b"x"), ("cluster", b"eu")];
    let prepared = prepare_with(&settings, Some(b"k"), br#"{"tokens": [1]}"#, &headers);
    assert_eq!(prepared.shares[0].0, "eu/k");
    let without = prepare_with(&settings, Some(b"k"), br#"{"tokens": [1]}"#, &[]);
    assert_eq!(without.refused, Some(ErrorCode::MissingField));
}

#[test]
fn limits_hold_for_records_tokens_prompts_and_pages() {
    let mut settings = settings();
    settings.prepare.max_tokens = 8;
    settings.input.max_pages_per_request = 1;
    let code = |value: &str| prepare(&settings, value).refused;
    assert_eq!(code(r#"{"model": "m", "tokens": [1, 2, 3, 4]}"#), None);
    assert_eq!(code(r#"{"model": "m", "tokens": [1, 2, 3, 4, 5, 6, 7, 8]}"#), Some(ErrorCode::TooManyPages));
    assert_eq!(
        code(r#"{"model": "m", "tokens": [[1, 2, 3], [1, 2, 3], [1, 2, 3]]}"#),
        Some(ErrorCode::RequestTooLarge)
    );
    let many = format!(r#"{{"model": "m", "tokens": [{}[]]}}"#, "[],".repeat(2000));
    assert_eq!(code(&many), Some(ErrorCode::RequestTooLarge));
    settings.input.max_pages_per_request = 1000;
    settings.prepare.max_tokens = 10_000;
    settings.prepare.max_event_bytes = kvset::settings::Size(1024);
    let tokens: Vec<u32> = (0..1000).collect();
    let large = format!(r#"{{"model": "m", "tokens": {tokens:?}}}"#);
    assert_eq!(prepare(&settings, &large).refused, Some(ErrorCode::TooManyPages), "2000 bytes of ids");
    settings.prepare.max_record_bytes = kvset::settings::Size(1024);
    let long = format!(r#"{{"model": "m", "tokens": [1], "x": "{}"}}"#, "x".repeat(1024));
    assert_eq!(prepare(&settings, &long).refused, Some(ErrorCode::RecordTooLarge));
    assert_eq!(prepare(&settings, "").refused, Some(ErrorCode::EmptyRecord));
}

#[test]
fn a_format_that_is_named_refuses_the_others() {
    let mut settings = settings();
    settings.prepare.format = kvset::prepare::RawFormat::TokenIds;
    assert_eq!(prepare(&settings, r#"{"model": "chat", "tokens": [1]}"#).refused, None);
    let refused = prepare(&settings, r#"{"model": "chat", "prompt": "x"}"#).refused;
    assert_eq!(refused, Some(ErrorCode::UnknownEncoding));
}

/// The service would choose the same pages again, so a sample of the sample is the sample.
#[test]
fn a_sampled_pool_keeps_the_pages_the_service_would_follow() {
    let mut settings = settings();
    settings.prepare.sample = true;
    settings.estimate.sample_rate = "0.25".parse().expect("a share");
    let tokens: Vec<u32> = (0..4000).collect();
    let all = pages(Scope::GLOBAL, &tokens);
    let prepared = prepare(&settings, &format!(r#"{{"model": "m", "tokens": {tokens:?}}}"#));
    let sample = Sample::at(settings.estimate.sample_rate);
    let kept: Vec<u64> = sample.followed(Scope::GLOBAL, PageIds::from_slice(&all)).collect();
    assert!((150..350).contains(&kept.len()), "{} of 1000", kept.len());
    assert_eq!(events(&prepared)[0].2, kept);

    let requests = |sampled: bool| {
        let mut input = Input::default();
        let mut settings = settings.clone();
        settings.prepare.sample = sampled;
        let mut preparer = preparer(&settings);
        for number in 0..200u32 {
            let shared: Vec<u32> = (0..400).chain(number % 10 * 1000..number % 10 * 1000 + 400).collect();
            let json = format!(r#"{{"model": "m", "tokens": {shared:?}}}"#);
            let time = Some(TIME + i64::from(number) * 60_000);
            let record = crate::prepare_support::record(0, 0, time, None, Some(json.as_bytes()), &[]);
            for output in preparer.prepare(&record).outputs {
                input.push(0, "m", output.value.expect("an event"));
            }
        }
        input.expected(&task_config(&settings).expect("usable settings"))
    };
    let (sampled, whole) = (requests(true), requests(false));
    assert!(!whole.estimates.is_empty() && whole.letters.is_empty());
    assert!(sampled == whole, "the service estimates the same from either");
    let estimate = &whole.estimates["m"][0].1;
    assert!(
        String::from_utf8_lossy(estimate.as_deref().unwrap_or_default()).contains(r#""sample_rate":0.25"#)
    );
}

#[test]
fn nothing_of_a_prompt_is_in_what_becomes_of_it() {
    for letters in [LetterContent::Redacted, LetterContent::Off] {
        let mut settings = settings();
        settings.prepare.dead_letters = letters;
        settings.prepare.max_tokens = 1000;
        let mut preparer = preparer(&settings);
        let mut codes = std::collections::BTreeSet::new();
        for (key, value) in hostile() {
            let record = crate::prepare_support::record(0, 0, Some(TIME), Some(&key), Some(&value), &[]);
            let prepared = preparer.prepare(&record);
            codes.extend(prepared.refused);
            let expected = if letters == LetterContent::Off && prepared.refused.is_some() { 0 } else { 1 };
            assert_eq!(prepared.outputs.len(), expected);
            for output in &prepared.outputs {
                let mut all = format!("{output:?} {:?}", output.headers).into_bytes();
                all.extend(output.key.iter().chain(&output.value).flatten());
                crate::prepare_support::assert_clean(&all, "an output");
                if prepared.refused.is_some() {
                    assert_eq!((&output.key, &output.value), (&None, &None), "redacted");
                    assert!(output.headers.iter().any(|(name, _)| *name == "kvset_value_xxh3"));
                }
            }
        }
        assert!(codes.len() >= 9, "only {codes:?}");
    }
    let mut settings = settings();
    settings.prepare.dead_letters = LetterContent::Raw;
    let (key, value) = hostile().remove(0);
    let prepared = prepare_with(&settings, Some(&key), &value, &[]);
    assert_eq!(prepared.outputs[0].value.as_deref(), Some(&value[..]), "where it is asked for");
    assert!(MARKER_TOKEN > 100_000 && !MARKER.is_empty());
}

#[test]
fn the_week_as_token_ids_gives_the_estimates_of_its_page_ids() {
    let Some(trace) = shared_trace("weka_claude_code_week.jsonl.zst") else { return };
    let settings = crate::prepare_support::week_settings();
    let mut preparer = Preparer::new(Arc::new(recipe(&settings)), Tokenizers::default());
    let (mut page_ids, mut prepared, mut tokens) = (Input::default(), Input::default(), 0);
    week(&trace, usize::MAX, |row, raw| {
        page_ids.push_row(0, "week", row);
        let record = crate::prepare_support::record(0, 0, Some(TIME), None, Some(&raw), &[]);
        let made = preparer.prepare(&record);
        assert_eq!((made.refused, made.outputs.len()), (None, 1));
        tokens += made.total().tokens;
        let output = made.outputs.into_iter().next().expect("an event");
        assert_eq!(output.key.as_deref(), Some(&b"week"[..]));
        prepared.push(0, "week", output.value.expect("an event"));
    });
    assert!(prepared.records() > 4000 && tokens > 300_000_000, "{} records", prepared.records());
    let task = task_config(&settings).expect("usable settings");
    let (expected, found) = (page_ids.expected(&task), prepared.expected(&task));
    assert!(expected.letters.is_empty() && expected.estimates["week"].len() > 100);
    assert!(expected == found, "estimates differ");
    println!(
        "{} requests, {tokens} tokens: {} equal estimates",
        prepared.records(),
        found.estimates["week"].len()
    );
}

/// What is read of every event.
fn read_events<T>(prepared: &PreparedRecord, read: impl Fn(&RequestEvent<'_>) -> T) -> Vec<T> {
    assert_eq!(prepared.refused, None);
    let mut decoder = RequestDecoder::new(Encoding::Avro, DecodeLimits::default());
    let mut found = Vec::new();
    for output in &prepared.outputs {
        let value = output.value.as_deref().expect("an event");
        found.push(read(&decoder.decode(output.key.as_deref(), value).expect("a request event").event));
    }
    found
}

/// Cached tokens, replica and tenant of every event.
fn measured(prepared: &PreparedRecord) -> Vec<(Option<u64>, Option<String>, Option<String>)> {
    read_events(prepared, |event| {
        let name = |label| event.labels.get(label).map(|name| name.to_string());
        (event.cached_tokens.stated(), name(Label::Replica), name(Label::Tenant))
    })
}

/// What each event asks of its cache.
fn retention_classes(prepared: &PreparedRecord) -> Vec<Option<String>> {
    read_events(prepared, |event| event.labels.get(Label::RetentionClass).map(|name| name.to_string()))
}

#[test]
fn what_a_body_asks_of_its_cache_goes_with_the_pages() {
    let settings = settings();
    let control = r#""cache_control": {"type": "ephemeral", "ttl": "1h"}"#;
    let chat = format!(
        r#"{{"model": "chat", "messages": [{{"role": "user", "content": [{{"type": "text", "text": "x", {control}}}]}}]}}"#
    );
    let plain =
        r#"{"model": "chat", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}"#;
    let class = |value: &str| retention_classes(&prepare(&settings, value));
    assert_eq!(class(&chat), [Some("1h".to_owned())]);
    assert_eq!(class(plain), [None]);
    assert_eq!(
        events(&prepare(&settings, &chat)),
        events(&prepare(&settings, plain)),
        "it is no part of a prompt"
    );
    let wrapped = format!(r#"{{"body": {chat}, "retention_class": "pinned"}}"#);
    assert_eq!(class(&wrapped), [Some("pinned".to_owned())], "what the record says goes first");
    assert_eq!(class(&format!(r#"{{"body": {chat}}}"#)), [Some("1h".to_owned())]);
    let tokens = r#"{"model": "m", "tokens": [1, 2, 3, 4], "retention_class": "priority-80"}"#;
    assert_eq!(class(tokens), [Some("priority-80".to_owned())]);
    let mut of_a_log = settings.clone();
    of_a_log.prepare.preset = Some(Preset::OpenaiBatch);
    let line =
        format!(r#"{{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {chat}}}"#);
    assert_eq!(retention_classes(&prepare(&of_a_log, &line)), [Some("1h".to_owned())]);
}

#[test]
fn what_the_engine_found_where_and_for_whom_goes_with_the_pages() {
    let named = |cached| (Some(cached), Some("r-1".to_owned()), Some("t".to_owned()));
    let names = r#""replica": "r-1", "tenant": "t""#;
    let ids = r#""model": "m", "token_ids": [1, 2, 3, 4, 5, 6]"#;
    for said in [
        r#""cached_tokens": 4"#,
        r#""usage": {"prompt_tokens_details": {"cached_tokens": 4}}"#,
        r#""usage": {"input_tokens_details": {"cached_tokens": 4}}"#,
        r#""usage": {"input_tokens": 2, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0}"#,
        r#""usage": {"prompt_cache_hit_tokens": 4}"#,
        r#""response": {"usage": {"prompt_tokens_details": {"cached_tokens": 4}}}"#,
        r#""response": [{"usage": null}, {"usage": {"prompt_tokens_details": {"cached_tokens": 4}}}]"#,
        r#""chunks": [{"message": {"usage": {"cache_read_input_tokens": 4}}}, {"usage": {"output_tokens": 1}}]"#,
    ] {
        let prepared = prepare(&settings(), &format!("{{{ids}, {names}, {said}}}"));
        assert_eq!(measured(&prepared), [named(4)], "{said}");
    }
    let event = format!(
        r#"{{"model": "m", "event_time": 7, "page_ids": [1], "page_size": 4, "cached_tokens": 4, {names}}}"#
    );
    assert_eq!(measured(&prepare(&settings(), &event)), [named(4)]);
    let several = r#"{"model": "m", "token_ids": [[1, 2, 3, 4], [5, 6]], "cached_tokens": 4}"#;
    assert_eq!(measured(&prepare(&settings(), several)), [(None, None, None), (None, None, None)]);
}

/// What a usage says, with its cached tokens left out or nowhere: the event says which, and how long the answer was.
#[test]
fn a_usage_without_cached_tokens_is_told_from_none() {
    let ids = r#""model": "m", "token_ids": [1, 2, 3, 4, 5, 6]"#;
    let left_out = (CachedTokens::LeftOut, Some(9));
    for (said, expected) in [
        (r#""usage": {"prompt_tokens": 6, "completion_tokens": 9}"#, left_out),
        (r#""usage": {"prompt_tokens": 6, "completion_tokens": 9, "prompt_tokens_details": null}"#, left_out),
        (r#""response": {"usage": {"input_tokens": 6, "output_tokens": 9}}"#, left_out),
        (
            r#""response": "data: {\"usage\": {\"prompt_tokens\": 6, \"completion_tokens\": 9}}\n\n""#,
            left_out,
        ),
        (r#""output_tokens": 9"#, (CachedTokens::Unstated, Some(9))),
        (r#""usage": null"#, (CachedTokens::Unstated, None)),
        (r#""cached_tokens": 0, "usage": {"prompt_tokens": 6}"#, (CachedTokens::Stated(0), None)),
    ] {
        let prepared = prepare(&settings(), &format!("{{{ids}, {said}}}"));
        let mut decoder = RequestDecoder::new(Encoding::Avro, DecodeLimits::default());
        let value = prepared.outputs[0].value.as_deref().expect("an event");
        let event = decoder.decode(Some(b"p"), value).expect("a request event").event;
        assert_eq!((event.cached_tokens, event.output_tokens), expected, "{said}");
    }
    let several = r#"{"model": "m", "token_ids": [[1, 2], [3]], "usage": {"prompt_tokens": 3, "completion_tokens": 9}}"#;
    let prepared = prepare(&settings(), several);
    let mut decoder = RequestDecoder::new(Encoding::Avro, DecodeLimits::default());
    for output in &prepared.outputs {
        let value = output.value.as_deref().expect("an event");
        let event = decoder.decode(Some(b"p"), value).expect("a request event").event;
        assert_eq!(
            (event.cached_tokens, event.output_tokens),
            (CachedTokens::Unstated, None),
            "a sum tells of none"
        );
    }
}

#[test]
fn cached_tokens_that_cannot_be_have_a_dead_letter_code_of_their_own() {
    for wrong in ["7", "-1", "1.5", "\"many\"", "true"] {
        let record =
            format!(r#"{{"model": "m", "token_ids": [1, 2, 3, 4, 5, 6], "cached_tokens": {wrong}}}"#);
        assert_eq!(prepare(&settings(), &record).refused, Some(ErrorCode::InvalidCachedTokens), "{wrong}");
    }
}

/// What gateways write: the request and the response as JSON in strings, alongside what they know themselves.
#[test]
fn a_request_inside_a_gateways_record_is_the_request() {
    let mut settings = settings();
    let request = r#"{"model": "m", "token_ids": [1, 2, 3, 4, 5, 6]}"#;
    let expected = events(&prepare(&settings, request))[0].2.clone();
    settings.prepare.request = "ai.payload.request".parse().ok();
    settings.prepare.response = "ai.payload.response".parse().ok();
    settings.prepare.event_time = "{started_at}".parse().expect("a template");
    let usage = r#"{"usage": {"prompt_tokens_details": {"cached_tokens": 4}}}"#;
    let stream = format!("data: {{\"usage\": null}}\n\ndata: {usage}\n\ndata: [DONE]\n");
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    for (request, response) in [
        (request.to_owned(), usage.to_owned()),
        (quoted(request), quoted(usage)),
        (quoted(request), quoted(&stream)),
        (request.to_owned(), format!("[{{}}, {usage}]")),
    ] {
        let record = format!(
            r#"{{"started_at": 7, "tenant": "t", "messages": "of the gateway", "tokens": 6,
                "ai": {{"payload": {{"request": {request}, "response": {response}}}}}}}"#
        );
        let prepared = prepare(&settings, &record);
        let found = &events(&prepared)[0];
        assert_eq!((found.1, &found.2), (7, &expected), "{record}");
        assert_eq!(measured(&prepared), [(Some(4), None, Some("t".to_owned()))], "{record}");
    }
    let without = |payload: &str| {
        prepare(&settings, &format!(r#"{{"started_at": 7, "ai": {{"payload": {payload}}}}}"#)).refused
    };
    assert_eq!(without("{}"), Some(ErrorCode::MissingField));
    assert_eq!(without(r#"{"request": "hunter2"}"#), Some(ErrorCode::Undecodable));
    assert_eq!(without(r#"{"request": {"model": "m", "page_ids": [1]}}"#), Some(ErrorCode::UnknownEncoding));
    assert_eq!(without(r#"{"request": {"model": "m"}}"#), Some(ErrorCode::MissingField));
}

#[test]
fn json_behind_a_json_schemas_frame_is_prepared_as_json() {
    let (mut settings, registry) = (settings(), Registry::up());
    settings.prepare.event_time = "{t}".parse().expect("a template");
    let id = registry.add_answer(serde_json::json!({ "schema": "{}", "schemaType": "JSON" }));
    let json = br#"{"t": 5, "model": "chat", "tokens": [1, 2, 3, 4], "output_tokens": 3}"#;
    let expected = events(&prepare_with(&settings, None, json, &[]));
    assert_eq!(expected.len(), 1);
    let framed = [&[0], &id.to_be_bytes()[..], json].concat();
    assert_eq!(events(&prepare_framed(&settings, &registry, &framed)), expected);
    // A dead letter is of the record as it came.
    let broken = [&[0], &id.to_be_bytes()[..], b"{\"t\": 5"].concat();
    settings.prepare.dead_letters = kvset::codec::LetterContent::Raw;
    let refused = prepare_framed(&settings, &registry, &broken);
    assert_eq!(refused.refused, Some(ErrorCode::Undecodable));
    assert_eq!(refused.outputs[0].value.as_deref(), Some(&broken[..]));
    let protobuf = registry.add_answer(serde_json::json!({ "schema": "syntax", "schemaType": "PROTOBUF" }));
    let refused = prepare_framed(&settings, &registry, &[&[0], &protobuf.to_be_bytes()[..], json].concat());
    let detail = &refused.outputs[0]
        .headers
        .iter()
        .find(|(name, _)| *name == "kvset_error_detail")
        .expect("a detail")
        .1;
    assert!(detail.contains("protobuf") && detail.contains("have the producer write"), "{detail}");
}
