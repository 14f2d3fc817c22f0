//! Frozen records, and the schemas as documentation: every field described, every name in step.

use kvset::codec::{
    DeadLetter, DecodeError, DecodeLimits, Encoding, ErrorCode, EstimateDetail, EstimateEncoding,
    EstimateError, EstimateKey, Provenance, RawPrompt, RequestDecoder, SourceRecord, decode_estimate,
    encode_estimate, read_raw_request, schema,
};
use kvset::core::estimate::Estimate;
use kvset::core::request::event::CachedTokens;
use kvset::core::request::labels::Label;
use kvset::core::units::pages::Scope;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/codec").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_version_of_the_request_event_stays_readable() {
    let expected: Json = serde_json::from_slice(&fixture("request_event.v1.expected.json")).expect("json");
    for name in ["packed.avro", "longs.avro", "json", "signed.json", "base64.json"] {
        let record = fixture(&format!("request_event.v1.{name}"));
        let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
        let decoded = decoder.decode(None, &record).unwrap_or_else(|error| panic!("{name}: {error}"));
        let event = decoded.event;
        assert_eq!(event.scope, Scope::named(b"tenant-4"), "{name}");
        let read = json!({
            "event_time": event.event_time.0, "pool": decoded.pool, "page_size": event.page_size.map(|s| s.get()),
            "input_tokens": event.input_tokens, "output_tokens": event.output_tokens,
            "duration_ms": event.duration_ms, "scope": "tenant-4",
            "page_ids": event.page_ids.iter().collect::<Vec<_>>(),
            "output_page_ids": event.output_page_ids.iter().collect::<Vec<_>>(),
            "ids_chained": event.ids_chained, "cached_tokens": event.cached_tokens.stated(),
            "cached_tokens_left_out": event.cached_tokens == CachedTokens::LeftOut,
            "complete_before": event.complete_before.map(|before| before.0),
            "replica": event.labels.get(Label::Replica).copied(), "tenant": event.labels.get(Label::Tenant).copied(),
            "id_scheme": event.labels.get(Label::IdScheme).copied(),
            "retention_class": event.labels.get(Label::RetentionClass).copied(),
        });
        assert_eq!(read, expected, "{name}");
    }
}

#[test]
fn every_version_of_the_raw_request_stays_readable() {
    let expected: Json = serde_json::from_slice(&fixture("raw_request.v1.expected.json")).expect("json");
    for (name, prompt) in [("packed", "tokens"), ("array", "tokens"), ("body", "body")] {
        let record = fixture(&format!("raw_request.v1.{name}.avro"));
        let request = read_raw_request(&record).expect("its schema is known");
        let request = request.unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = match request.prompt {
            RawPrompt::Tokens(tokens) => json!(tokens),
            RawPrompt::Body(body) => json!(body),
        };
        assert_eq!(found, expected[prompt], "{name}");
        let fields: serde_json::Map<_, _> =
            request.fields.iter().map(|(field, value)| ((*field).to_owned(), json!(value))).collect();
        assert_eq!(Json::Object(fields), expected["fields"], "{name}");
        let numbers = [request.event_time, request.output_tokens, request.duration_ms];
        let names = ["event_time", "output_tokens", "duration_ms"];
        assert_eq!(numbers.map(|number| json!(number)), names.map(|name| expected[name].clone()), "{name}");
    }
}

#[test]
fn every_version_of_the_estimate_stays_readable_and_is_written_to_the_byte() {
    let estimate = decode_estimate(&fixture("capacity_estimate.v1.json")).expect("json");
    assert_eq!(EstimateKey::of(&estimate).to_bytes(), fixture("capacity_estimate.v1.key"));
    assert_written_as_far_as_it_says_something(&estimate, "capacity_estimate.v1.json");
    bless(&estimate);
    let avro = fixture("capacity_estimate.v1.avro");
    assert_eq!(decode_estimate(&avro).expect("avro"), estimate);
    let short = fixture("capacity_estimate.v1.short.json");
    assert_eq!(decode_estimate(&short).expect("json"), estimate);
    for (encoding, bytes) in [(EstimateEncoding::Json, short), (EstimateEncoding::Avro, avro)] {
        let mut written = Vec::new();
        encode_estimate(&estimate, encoding, &mut written).expect("within the schema");
        assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&bytes), "{encoding:?}");
        assert_eq!(written, bytes, "{encoding:?}");
    }
    let mut summary = Vec::new();
    encode_estimate(&EstimateDetail::Summary.of(&estimate), EstimateEncoding::Json, &mut summary)
        .expect("within the schema");
    let frozen = fixture("capacity_estimate.v1.summary.json");
    assert_eq!(String::from_utf8_lossy(&summary), String::from_utf8_lossy(&frozen));
    let read = decode_estimate(&frozen).expect("json");
    assert_eq!((&read.recommended, read.required.len()), (&estimate.recommended, 0));
}

/// What a later program wrote is refused by its version, whether or not the rest would fit; so is what says none.
#[test]
fn an_estimate_of_another_version_is_refused() {
    let text = String::from_utf8(fixture("capacity_estimate.v1.short.json")).expect("json");
    let of = |said: &str| text.replacen("\"schema_version\":1,", said, 1);
    let later = of("\"schema_version\":2,");
    for text in [&later, &later.replacen("\"status\":\"final\",", "\"state\":\"final\",", 1)] {
        let error = decode_estimate(text.as_bytes()).expect_err("of version 2").to_string();
        let said = ["schema version 2", "reads version 1", "read it with the kvset that wrote it"];
        assert!(said.iter().all(|part| error.contains(part)), "{error}");
    }
    let error = decode_estimate(of("").as_bytes()).expect_err("of no version");
    assert!(matches!(error, EstimateError::Undecodable { .. }), "{error}");

    let mut avro = fixture("capacity_estimate.v1.avro");
    avro[2] ^= 1;
    let error = decode_estimate(&avro).expect_err("of another schema").to_string();
    assert!(error.contains("version 1 of schemas/capacity_estimate.avsc"), "{error}");
}

/// Writes the newest version anew, where that is asked for.
fn bless(estimate: &Estimate) {
    if std::env::var_os("KVSET_BLESS").is_none() {
        return;
    }
    let summary = EstimateDetail::Summary.of(estimate);
    let files = [
        ("short.json", estimate, EstimateEncoding::Json),
        ("avro", estimate, EstimateEncoding::Avro),
        ("summary.json", &summary, EstimateEncoding::Json),
    ];
    for (name, estimate, encoding) in files {
        let mut written = Vec::new();
        encode_estimate(estimate, encoding, &mut written).expect("within the schema");
        let path = format!("{}/tests/fixtures/codec/capacity_estimate.v1.{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, written).expect("a writable checkout");
    }
}

/// Compares what is written in JSON with all that the schema has: the same names and values, less what is null, false
/// or empty and has that for its default.
fn assert_written_as_far_as_it_says_something(estimate: &Estimate, whole: &str) {
    let mut written = Vec::new();
    encode_estimate(estimate, EstimateEncoding::Json, &mut written).expect("within the schema");
    let whole = fixture(whole);
    let [written, whole] = [&written, &whole].map(|text| serde_json::from_slice::<Json>(text).expect("json"));
    assert_same_but_for_defaults(&written, &whole, "");
}

fn assert_same_but_for_defaults(written: &Json, whole: &Json, at: &str) {
    match (written, whole) {
        (Json::Object(written), Json::Object(whole)) => {
            let left_out = |value: &Json| value.is_null() || *value == json!(false) || *value == json!([]);
            for (name, value) in whole {
                match written.get(name) {
                    Some(written) => assert_same_but_for_defaults(written, value, &format!("{at}.{name}")),
                    None => assert!(left_out(value), "{at}.{name} is left out though it says {value}"),
                }
            }
            written.keys().for_each(|name| assert!(whole.contains_key(name), "{at}.{name} is new"));
        }
        (Json::Array(written), Json::Array(whole)) => {
            assert_eq!(written.len(), whole.len(), "{at}");
            written
                .iter()
                .zip(whole)
                .for_each(|(written, whole)| assert_same_but_for_defaults(written, whole, at));
        }
        _ => assert_eq!(written, whole, "{at}"),
    }
}

fn parse(text: &str) -> Json {
    serde_json::from_str(text).expect("a schema is json")
}

/// Visits every record schema inside `schema`.
fn records<'a>(schema: &'a Json, visit: &mut dyn FnMut(&'a Json)) {
    match schema {
        Json::Array(variants) => variants.iter().for_each(|variant| records(variant, visit)),
        Json::Object(object) => {
            if object.get("type") == Some(&json!("record")) {
                visit(schema);
            }
            for inner in ["type", "items"].iter().filter_map(|key| object.get(*key)) {
                records(inner, visit);
            }
            for field in object.get("fields").and_then(Json::as_array).into_iter().flatten() {
                records(&field["type"], visit);
            }
        }
        _ => {}
    }
}

#[test]
fn every_field_is_documented_and_every_nullable_one_defaults_to_null() {
    for text in [schema::REQUEST_EVENT, schema::CAPACITY_ESTIMATE, schema::DEAD_LETTER, schema::RAW_REQUEST] {
        let schema = parse(text);
        assert_eq!(schema["namespace"], "io.kvset");
        let mut fields = 0;
        records(&schema, &mut |record| {
            assert!(record["doc"].as_str().is_some_and(|doc| doc.ends_with('.')), "{}", record["name"]);
            for field in record["fields"].as_array().expect("fields") {
                fields += 1;
                let doc = field["doc"].as_str().unwrap_or_default();
                assert!(doc.len() > 10 && doc.ends_with('.'), "{} lacks documentation", field["name"]);
                if field["type"][0] == "null" {
                    assert_eq!(field.get("default"), Some(&Json::Null), "{}", field["name"]);
                }
                if field["type"]["type"] == "enum" {
                    assert!(field["type"]["default"].is_string(), "{} has no default symbol", field["name"]);
                }
            }
        });
        assert!(fields >= 5, "the schema was walked");
    }
}

/// Holds an object's keys against a record's field names, into every depth: what JSON leaves out has a default.
/// Notes the names met.
fn assert_same_names(schema: &Json, value: &Json, met: &mut BTreeSet<(String, String)>) {
    match (schema, value) {
        (Json::Object(object), Json::Object(members)) if object.get("type") == Some(&json!("record")) => {
            let fields = object["fields"].as_array().expect("fields");
            let name = |field: &Json| field["name"].as_str().expect("a name").to_owned();
            for field in fields {
                match members.get(&name(field)) {
                    Some(value) => {
                        met.insert((name(schema), name(field)));
                        assert_same_names(&field["type"], value, met);
                    }
                    None => assert!(field.get("default").is_some(), "{field}"),
                }
            }
            let names: BTreeSet<_> = fields.iter().map(name).collect();
            members.keys().for_each(|key| assert!(names.contains(key), "{key} is in no schema"));
        }
        (Json::Object(object), Json::Array(items)) => {
            items.iter().for_each(|item| assert_same_names(&object["items"], item, met));
        }
        (Json::Object(object), _) if object.get("type").is_some_and(Json::is_object) => {
            assert_same_names(&object["type"], value, met);
        }
        // A union is null or one other type, null first.
        (Json::Array(union), value) if !value.is_null() => assert_same_names(&union[1], value, met),
        _ => {}
    }
}

#[test]
fn the_names_of_the_estimate_in_json_are_those_of_its_schema() {
    let estimate = decode_estimate(&fixture("capacity_estimate.v1.json")).expect("json");
    assert!(
        !estimate.capacities.is_empty() && !estimate.required[0].coverage.is_empty(),
        "nested names are seen"
    );
    let in_flight = estimate.in_flight.as_ref().expect("requests in flight");
    assert!(!in_flight.required[0].coverage.is_empty(), "nested names are seen");
    let plan = estimate.plan.as_ref().expect("a plan");
    assert!(plan.tiers[0].next_unit.is_some(), "nested names are seen");
    let measured = estimate.measured.as_ref().expect("measured");
    assert!(measured.effective_capacity.is_some() && !measured.restarts.is_empty(), "nested names are seen");
    assert!(measured.ledger.lost_in_engine.is_some(), "nested names are seen");
    let routing = &estimate.routing[0];
    assert!(!routing.capacities.is_empty() && !routing.required[0].coverage.is_empty());
    assert!(
        !estimate.retention[0].capacities.is_empty() && !estimate.retention_required[0].coverage.is_empty()
    );
    let traffic = &estimate.traffic.as_ref().expect("two tiers").tiers[0];
    assert!(!traffic.peaks.is_empty() && traffic.load_bytes.is_some(), "nested names are seen");
    assert!(!estimate.tenants[0].required[0].coverage.is_empty(), "nested names are seen");
    assert!(estimate.capacities[0].eviction_age_ms.is_some(), "nested names are seen");
    let value = serde_json::to_value(&estimate).expect("serialises");
    let (parsed, mut met) = (parse(schema::CAPACITY_ESTIMATE), BTreeSet::new());
    assert_same_names(&parsed, &value, &mut met);
    records(&parsed, &mut |record| {
        for field in record["fields"].as_array().expect("fields") {
            let of = |name: &Json| name.as_str().expect("a name").to_owned();
            assert!(
                met.contains(&(of(&record["name"]), of(&field["name"]))),
                "{} is never there",
                field["name"]
            );
        }
    });
}

#[test]
fn a_dead_letter_has_the_headers_of_its_schema_and_the_original_bytes() {
    let record = SourceRecord {
        schema_header: None,
        topic: "requests",
        partition: 3,
        offset: 51,
        timestamp_ms: Some(1_700_000_000_000),
        key: Some(b"pool"),
        value: Some(b"\xffbroken"),
    };
    let error = DecodeError::new(ErrorCode::UnknownEncoding, "x".repeat(1000));
    let by = Provenance { version: "0.1.0", fingerprint: "00ff12ab34cd56ef" };
    let letter = DeadLetter::new(record, &error, by);
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (record.key, record.value));
    let fields = parse(schema::DEAD_LETTER)["fields"].clone();
    let names: Vec<_> =
        fields.as_array().expect("fields").iter().map(|field| field["name"].clone()).collect();
    let redacted = DeadLetter::redacted(record, &error, by);
    assert_eq!((redacted.key.as_deref(), redacted.value.as_deref()), (None, None));
    // The last is for letters of several records.
    let written =
        redacted.headers.iter().map(|(name, _)| json!(name)).chain([json!(DeadLetter::LAST_OFFSET)]);
    assert_eq!(written.collect::<Vec<_>>(), names);
    assert_eq!(redacted.headers[..letter.headers.len()], letter.headers, "and size and hash of the value");
    assert_eq!(redacted.headers[8], ("kvset_value_bytes", "7".to_owned()));
    let texts: Vec<_> = letter.headers.iter().map(|(_, text)| text.as_str()).collect();
    let detail = "x".repeat(256);
    let expected =
        ["requests", "3", "51", "1700000000000", "unknown_encoding", &detail, "0.1.0", "00ff12ab34cd56ef"];
    assert_eq!(texts, expected);

    let bare =
        DeadLetter::new(SourceRecord { timestamp_ms: None, key: None, value: None, ..record }, &error, by);
    assert_eq!((bare.key, bare.value), (None, None), "nothing is made up");
    assert!(bare.headers.iter().all(|(name, _)| *name != "kvset_timestamp_ms"));
    assert!(!format!("{letter:?}").contains("broken"), "no payload in debug output");
}
