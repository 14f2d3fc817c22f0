//! Records in Confluent's wire format: writers' schemas that differ from ours, in both directions.

use apache_avro::Schema;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use kvset::codec::{
    DecodeLimits, Encoding, ErrorCode, LookupError, Payload, RequestDecoder, RequestEncoding, RequestMessage,
    SchemaId, SchemaRef, WriterSchema, WriterSchemas, encode_request, schema,
};
use kvset::core::request::labels::{Label, Labels};
use kvset::core::units::pages::PageIds;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

fn by_id(id: u32) -> SchemaRef {
    SchemaRef::Id(SchemaId(id))
}

/// Schemas at hand, and which were requested.
#[derive(Debug, Default)]
struct Known {
    schemas: BTreeMap<SchemaRef, Arc<WriterSchema>>,
    asked: Mutex<Vec<SchemaRef>>,
    refuses: bool,
}

impl Known {
    fn of(schemas: &[(u32, &str)]) -> Self {
        let parsed = schemas.iter().map(|(id, text)| (by_id(*id), Arc::new(WriterSchema::parse(text))));
        Self { schemas: parsed.collect(), ..Self::default() }
    }
}

impl WriterSchemas for Known {
    fn find(&self, schema: SchemaRef) -> Result<Option<Arc<WriterSchema>>, LookupError> {
        self.asked.lock().expect("no panic").push(schema);
        if self.refuses {
            return Err(LookupError::Refused("wrong password".to_owned()));
        }
        Ok(self.schemas.get(&schema).cloned())
    }
}

fn decoder(known: Known) -> RequestDecoder {
    let schemas: Arc<dyn WriterSchemas> = Arc::new(known);
    RequestDecoder::new(Encoding::Auto, DecodeLimits::default()).with_schemas(Some(schemas))
}

/// A framed record of these fields.
fn framed(id: u32, schema: &str, fields: Vec<(&str, Value)>) -> Vec<u8> {
    let schema = Schema::parse_str(schema).expect("a schema");
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut record = vec![0];
    record.extend_from_slice(&id.to_be_bytes());
    let writer = GenericDatumWriter::builder(&schema).build().expect("a writer");
    writer.write_value_ref(&mut record, &Value::Record(fields)).expect("fits its schema");
    record
}

/// What a decoded event says, for comparing.
fn facts(decoder: &mut RequestDecoder, record: &[u8]) -> Result<Json, ErrorCode> {
    decoder.look_up(record).expect("known or absent");
    let decoded = decoder.decode(None, record).map_err(|error| error.code())?;
    let event = &decoded.event;
    Ok(json!({
        "pool": decoded.pool,
        "time": event.event_time.0,
        "ids": event.page_ids.iter().collect::<Vec<_>>(),
        "output_ids": event.output_page_ids.iter().collect::<Vec<_>>(),
        "page_size": event.page_size.map(|size| size.get()),
        "tokens": [event.input_tokens, event.output_tokens, event.duration_ms],
        "scope": format!("{:?}", event.scope),
        "chained": event.ids_chained,
        "measured": [event.cached_tokens.stated().map(|tokens| tokens.to_string()).as_deref(), event.labels.get(Label::Replica).copied(), event.labels.get(Label::Tenant).copied()],
    }))
}

const IDS: [u64; 3] = [11, u64::MAX, 33];

fn message() -> RequestMessage<'static> {
    RequestMessage {
        event_time: 1_700_000_000_000,
        page_ids: PageIds::from_slice(&IDS),
        pool: Some("llama".into()),
        page_size: Some(64),
        output_page_ids: PageIds::from_slice(&IDS[..1]),
        input_tokens: Some(200),
        output_tokens: Some(60),
        duration_ms: Some(5),
        scope: Some("tenant".into()),
        request_id: Some("r-1".into()),
        ids_chained: true,
        cached_tokens: Some(128),
        cached_tokens_left_out: false,
        complete_before: None,
        labels: Labels::from_iter([(Label::Replica, "engine-2"), (Label::Tenant, "search")]),
    }
}

fn packed(ids: &[u64]) -> Value {
    Value::Bytes(ids.iter().flat_map(|id| id.to_le_bytes()).collect())
}

/// What the message says, read from single-object encoding.
fn expected() -> Json {
    let mut record = Vec::new();
    encode_request(&message(), RequestEncoding::Avro, &mut record).expect("encodes");
    facts(&mut RequestDecoder::default(), &record).expect("reads")
}

fn record_schema(name: &str, fields: Json) -> String {
    json!({ "type": "record", "name": name, "fields": fields }).to_string()
}

#[test]
fn our_own_schema_is_read_whatever_it_is_called() {
    let renamed = schema::REQUEST_EVENT.replace("RequestEvent", "LlmRequest").replace("io.kvset", "com.acme");
    let undocumented = schema::REQUEST_EVENT.replace("\"doc\"", "\"note\"");
    for text in [schema::REQUEST_EVENT, &renamed, &undocumented] {
        let mut record = Vec::new();
        let encoding = RequestEncoding::ConfluentAvro(SchemaId(7));
        encode_request(&message(), encoding, &mut record).expect("encodes");
        assert_eq!(&record[..5], [0, 0, 0, 0, 7]);
        let mut decoder = decoder(Known::of(&[(7, text)]));
        assert_eq!(facts(&mut decoder, &record), Ok(expected()));
    }
}

#[test]
fn packed_ids_of_our_own_schema_stay_where_they_lie() {
    let mut record = Vec::new();
    encode_request(&message(), RequestEncoding::ConfluentAvro(SchemaId(7)), &mut record).expect("encodes");
    let mut decoder = decoder(Known::of(&[(7, schema::REQUEST_EVENT)]));
    decoder.look_up(&record).expect("known");
    let decoded = decoder.decode(None, &record).expect("reads");
    let inside = record.as_ptr_range().contains(&decoded.event.page_ids.as_packed().as_ptr());
    assert!(inside, "the ids were copied");
}

/// An older writer: fields that came later are not there and take their defaults.
#[test]
fn an_older_schema_with_fewer_fields_takes_our_defaults() {
    let old = record_schema(
        "RequestEvent",
        json!([
            { "name": "event_time", "type": "long" },
            { "name": "page_ids", "type": "bytes" },
            { "name": "pool", "type": "string" },
        ]),
    );
    let fields = vec![
        ("event_time", Value::Long(5)),
        ("page_ids", packed(&IDS)),
        ("pool", Value::String("llama".to_owned())),
    ];
    let read = facts(&mut decoder(Known::of(&[(1, &old)])), &framed(1, &old, fields)).expect("reads");
    assert_eq!(read["ids"], json!(IDS));
    assert_eq!((&read["output_ids"], &read["chained"]), (&json!([]), &json!(false)));
    assert_eq!((&read["page_size"], &read["tokens"]), (&Json::Null, &json!([null, null, null])));
}

/// A newer writer: fields in another order, more of them, and narrower or wider types.
#[test]
fn a_newer_schema_with_other_order_types_and_fields_reads_the_same() {
    let new = record_schema(
        "RequestEventV2",
        json!([
            { "name": "priority", "type": "int", "default": 0 },
            { "name": "tenant", "type": "string" },
            { "name": "replica", "type": ["string", "null"] },
            { "name": "cached_tokens", "type": "int" },
            { "name": "labels", "type": { "type": "map", "values": "string" }, "default": {} },
            { "name": "route", "type": ["null", { "type": "record", "name": "Route", "fields": [
                { "name": "hops", "type": { "type": "array", "items": "string" } },
            ] }], "default": null },
            { "name": "ids_chained", "type": "boolean" },
            { "name": "pool", "type": ["string", "null"] },
            { "name": "scope", "type": "string" },
            { "name": "duration_ms", "type": "int" },
            { "name": "output_tokens", "type": ["null", "int"] },
            { "name": "input_tokens", "type": "int" },
            { "name": "output_page_ids", "type": [{ "type": "array", "items": "long" }, "bytes"] },
            { "name": "page_size", "type": "int" },
            { "name": "page_ids", "type": { "type": "array", "items": "long" } },
            { "name": "event_time", "type": { "type": "long", "logicalType": "timestamp-millis" } },
        ]),
    );
    let text = |text: &str| Value::String(text.to_owned());
    let union = |branch, value| Value::Union(branch, Box::new(value));
    let longs = |ids: &[u64]| Value::Array(ids.iter().map(|id| Value::Long(*id as i64)).collect());
    let hops = Value::Record(vec![("hops".to_owned(), Value::Array(vec![text("edge")]))]);
    let fields = vec![
        ("priority", Value::Int(3)),
        ("tenant", text("search")),
        ("replica", union(0, text("engine-2"))),
        ("cached_tokens", Value::Int(128)),
        ("labels", Value::Map([("team".to_owned(), text("search"))].into())),
        ("route", union(1, hops)),
        ("ids_chained", Value::Boolean(true)),
        ("pool", union(0, text("llama"))),
        ("scope", text("tenant")),
        ("duration_ms", Value::Int(5)),
        ("output_tokens", union(1, Value::Int(60))),
        ("input_tokens", Value::Int(200)),
        ("output_page_ids", union(0, longs(&IDS[..1]))),
        ("page_size", Value::Int(64)),
        ("page_ids", longs(&IDS)),
        ("event_time", Value::TimestampMillis(1_700_000_000_000)),
    ];
    let mut decoder = decoder(Known::of(&[(2, &new), (7, schema::REQUEST_EVENT)]));
    let record = framed(2, &new, fields);
    assert_eq!(facts(&mut decoder, &record), Ok(expected()));
    // Records of both schemas by turns, as while producers are being replaced.
    let mut ours = Vec::new();
    encode_request(&message(), RequestEncoding::ConfluentAvro(SchemaId(7)), &mut ours).expect("encodes");
    for record in [&ours, &record, &ours] {
        assert_eq!(facts(&mut decoder, record), Ok(expected()));
    }
}

/// apache-avro takes a text or a union that is missing at the end of a record for null.
#[test]
fn a_record_of_another_schema_that_is_cut_off_is_refused_wherever_it_ends() {
    let schema = record_schema(
        "Ordered",
        json!([
            { "name": "event_time", "type": "long" },
            { "name": "page_ids", "type": "bytes" },
            { "name": "pool", "type": "string" },
            { "name": "replica", "type": ["null", "string"] },
            { "name": "tenant", "type": ["null", "string"] },
        ]),
    );
    let null = || Value::Union(0, Box::new(Value::Null));
    let fields = vec![
        ("event_time", Value::Long(5)),
        ("page_ids", packed(&IDS)),
        ("pool", Value::String("llama".to_owned())),
        ("replica", null()),
        ("tenant", null()),
    ];
    let record = framed(1, &schema, fields);
    let mut decoder = decoder(Known::of(&[(1, &schema)]));
    assert!(facts(&mut decoder, &record).is_ok());
    for end in 5..record.len() {
        assert_eq!(
            facts(&mut decoder, &record[..end]),
            Err(ErrorCode::Undecodable),
            "ends after {end} bytes"
        );
    }
    let longer = [&record[..], &[0]].concat();
    assert_eq!(facts(&mut decoder, &longer), Err(ErrorCode::Undecodable));
}

#[test]
fn what_cannot_be_read_is_refused_with_a_code() {
    let long = |name: &str| json!({ "name": name, "type": "long" });
    let no_ids = record_schema("R", json!([long("event_time")]));
    let tree = record_schema("Tree", json!([{ "name": "more", "type": ["null", "Tree"] }]));
    let known = || {
        let mut known = Known::of(&[(1, &no_ids), (2, "\"long\""), (3, "no schema"), (4, &tree)]);
        let other = Arc::new(WriterSchema::unusable("schema id 5 is no avro schema"));
        known.schemas.insert(by_id(5), other);
        known
    };
    let frame = |id: u8, datum: &[u8]| [&[0, 0, 0, 0, id], datum].concat();
    for (record, code) in [
        (frame(1, &[2]), ErrorCode::Undecodable),
        (frame(2, &[2]), ErrorCode::UnknownSchema),
        (frame(3, &[2]), ErrorCode::UnknownSchema),
        (frame(4, &[0]), ErrorCode::UnknownSchema),
        (frame(5, &[0]), ErrorCode::UnknownSchema),
        (frame(9, &[2]), ErrorCode::UnknownSchema),
        (vec![0, 0, 0], ErrorCode::Undecodable),
    ] {
        assert_eq!(facts(&mut decoder(known()), &record), Err(code), "{record:?}");
    }
    let mut without_registry = RequestDecoder::default();
    let error = without_registry.decode(None, &frame(1, &[2])).expect_err("no registry");
    assert_eq!(error.code(), ErrorCode::UnknownSchema);
    assert!(error.detail().contains("schema_registry.url"), "{error}");
}

#[test]
fn a_lookup_that_fails_refuses_no_record() {
    let mut decoder = decoder(Known { refuses: true, ..Known::default() });
    let failed = decoder.look_up(&[0, 0, 0, 0, 1, 2]);
    assert_eq!(failed, Err(LookupError::Refused("wrong password".to_owned())));
    for record in [b"{}".as_slice(), b"\xc3\x01", b"\0", b""] {
        assert_eq!(decoder.look_up(record), Ok(()), "it names no schema to ask for");
    }
}

#[test]
fn records_of_one_writer_ask_once() {
    let known = Arc::new(Known::of(&[(7, schema::REQUEST_EVENT), (8, schema::REQUEST_EVENT)]));
    let schemas: Arc<dyn WriterSchemas> = Arc::<Known>::clone(&known);
    let decoder = RequestDecoder::new(Encoding::ConfluentAvro, DecodeLimits::default());
    let mut decoder = decoder.with_schemas(Some(schemas));
    for id in [7, 7, 7, 8, 8, 7] {
        decoder.look_up(&[0, 0, 0, 0, id, 1]).expect("known");
    }
    assert_eq!(*known.asked.lock().expect("no panic"), [7, 8, 7].map(by_id));
}

proptest! {
    #[test]
    fn damaged_records_are_refused_or_read_but_never_panic(
        datum in prop::collection::vec(any::<u8>(), 0..200), id in 0u8..4,
    ) {
        let other = record_schema("R", json!([
            { "name": "event_time", "type": "long" },
            { "name": "page_ids", "type": { "type": "array", "items": "long" } },
            { "name": "labels", "type": { "type": "map", "values": ["null", "string", "double"] } },
        ]));
        let nulls = record_schema("N", json!([
            { "name": "page_ids", "type": "bytes" },
            { "name": "nothing", "type": { "type": "array", "items": "null" } },
            { "name": "event_time", "type": "long" },
        ]));
        let mut decoder = decoder(Known::of(&[(1, schema::REQUEST_EVENT), (2, &other), (3, &nulls)]));
        let record = [&[0, 0, 0, 0, id], datum.as_slice()].concat();
        let _ = facts(&mut decoder, &record);
    }
}

/// A decoder for this encoding that knows an Avro schema by 7, a JSON Schema by 8 and one of neither by 9.
fn decoder_of(encoding: Encoding) -> RequestDecoder {
    let mut known = Known::of(&[(7, schema::REQUEST_EVENT)]);
    known.schemas.insert(by_id(8), Arc::new(WriterSchema::json()));
    known.schemas.insert(by_id(9), Arc::new(WriterSchema::unusable("it is protobuf")));
    known.schemas.insert(SchemaRef::Guid(5), Arc::new(WriterSchema::parse(schema::REQUEST_EVENT)));
    let schemas: Arc<dyn WriterSchemas> = Arc::new(known);
    RequestDecoder::new(encoding, DecodeLimits::default()).with_schemas(Some(schemas))
}

/// The pool that a record names, or why it is refused.
fn pool(encoding: Encoding, payload: Payload<'_>) -> Result<String, (ErrorCode, String)> {
    let mut decoder = decoder_of(encoding);
    decoder.look_up(payload).expect("known or absent");
    match decoder.decode(None, payload) {
        Ok(decoded) => Ok(decoded.pool.into_owned()),
        Err(error) => Err((error.code(), error.detail().to_owned())),
    }
}

fn json_event() -> Vec<u8> {
    let mut json = Vec::new();
    encode_request(&message(), RequestEncoding::Json, &mut json).expect("encodes");
    json
}

#[test]
fn json_behind_a_json_schemas_frame_is_read_as_json() {
    let framed = [&[0, 0, 0, 0, 8][..], &json_event()].concat();
    for encoding in [Encoding::Auto, Encoding::Json] {
        assert_eq!(pool(encoding, Payload::from(&framed)), Ok("llama".to_owned()), "{encoding:?}");
    }
    let (code, detail) =
        pool(Encoding::ConfluentAvro, Payload::from(&framed)).expect_err("avro is configured");
    assert!(code == ErrorCode::UnknownEncoding && detail.contains("\"auto\" or \"json\""), "{detail}");
    let avro = framed_avro();
    assert_eq!(pool(Encoding::Auto, Payload::from(&avro)), Ok("llama".to_owned()));
    let (code, _) = pool(Encoding::Json, Payload::from(&avro)).expect_err("json is configured");
    assert_eq!(code, ErrorCode::UnknownEncoding);

    // Who prepares raw requests gets the same, and the frame of nothing else is taken off.
    let mut decoder = decoder_of(Encoding::Auto);
    for (record, content) in [(&framed, &framed[5..]), (&avro, &avro[..])] {
        decoder.look_up(record).expect("known");
        assert_eq!(decoder.json_within(record), content);
    }
    let broken = [&[0, 0, 0, 0, 8][..], b"{\"event_time\":"].concat();
    assert_eq!(pool(Encoding::Auto, Payload::from(&broken)).expect_err("cut off").0, ErrorCode::Undecodable);
}

fn framed_avro() -> Vec<u8> {
    let mut record = Vec::new();
    encode_request(&message(), RequestEncoding::ConfluentAvro(SchemaId(7)), &mut record).expect("encodes");
    record
}

#[test]
fn a_schema_that_a_header_names_is_looked_up_there() {
    let datum = &framed_avro()[5..];
    let guid = [&[1][..], &5_u128.to_be_bytes()].concat();
    for header in [&guid[..], &[0, 0, 0, 0, 7]] {
        let payload = Payload { bytes: datum, schema_header: Some(header) };
        assert_eq!(pool(Encoding::Auto, payload), Ok("llama".to_owned()));
        assert_eq!(decoder_of(Encoding::Auto).decode_in_place(None, payload).map(|_| ()), None);
    }
    // JSON is the same with and without, as its serializer promises; so is what carries a fingerprint of its own.
    let mut own = Vec::new();
    encode_request(&message(), RequestEncoding::Avro, &mut own).expect("encodes");
    for (encoding, bytes) in [(Encoding::Json, json_event()), (Encoding::Auto, own)] {
        let payload = Payload { bytes: &bytes, schema_header: Some(&guid) };
        assert_eq!(pool(encoding, payload), Ok("llama".to_owned()));
    }

    let unknown = [&[1][..], &6_u128.to_be_bytes()].concat();
    let (code, detail) =
        pool(Encoding::Auto, Payload { bytes: datum, schema_header: Some(&unknown) }).expect_err("unknown");
    assert!(code == ErrorCode::UnknownSchema, "{detail}");
    assert!(detail.contains("GUID 00000000-0000-0000-0000-000000000006"), "{detail}");
    let mut without = RequestDecoder::default();
    let error =
        without.decode(None, Payload { bytes: datum, schema_header: Some(&guid) }).expect_err("no registry");
    assert!(error.detail().contains("set schema_registry.url"), "{}", error.detail());
}

#[test]
fn frames_that_are_not_read_are_named_with_the_cure() {
    let glue = |compression| [&[3, compression][..], &[7; 16], &json_event()].concat();
    for (record, parts) in [
        (glue(0), ["aws glue", "07070707-0707-0707-0707-070707070707", "have the producer write"]),
        (glue(5), ["aws glue", "compressed with zlib", "have the producer write"]),
        ([&[0, 0, 0, 0, 9][..], b"\x0a\x03abc"].concat(), ["it is protobuf"; 3]),
        ([&[0, 0, 0, 0, 0, 0, 0, 0, 7][..], &json_event()].concat(), ["id 0", "apicurio", "as-confluent"]),
    ] {
        let (_, detail) = pool(Encoding::Auto, Payload::from(&record)).expect_err("not read");
        assert!(parts.iter().all(|part| detail.contains(part)), "{detail}");
        assert!(!detail.contains("llama"), "no payload");
    }
    for encoding in [Encoding::Avro, Encoding::Json, Encoding::ConfluentAvro] {
        let (code, detail) = pool(encoding, Payload::from(&glue(0))).expect_err("not read");
        assert!(code == ErrorCode::UnknownEncoding && detail.contains("aws glue"), "{detail}");
    }
}
