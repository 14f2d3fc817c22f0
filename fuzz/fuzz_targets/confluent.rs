//! Records in Confluent's wire format: a writer's schema in one line and a datum behind it, and the whole
//! input as a datum of schemas that are known to be usable. Seeds: `fuzz/seeds/confluent`.
#![no_main]

use kvset::codec::{
    DecodeLimits, Encoding, LookupError, RequestDecoder, SchemaRef, WriterSchema, WriterSchemas, schema,
};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

/// Our own schemas, and some that apache-avro has to resolve to one of them.
static KNOWN: LazyLock<Vec<Arc<WriterSchema>>> = LazyLock::new(|| {
    let parse = |text: &str| Arc::new(WriterSchema::parse(text));
    let ours = [schema::REQUEST_EVENT, schema::RAW_REQUEST];
    ours.into_iter().chain([OTHER_TYPES, EMPTY_ITEMS, OTHER_RAW]).map(parse).collect()
});

const OTHER_TYPES: &str = r#"{"type":"record","name":"R","fields":[
    {"name":"labels","type":{"type":"map","values":["null","string","double"]}},
    {"name":"pool","type":["string","null"]},
    {"name":"page_ids","type":{"type":"array","items":"long"}},
    {"name":"page_size","type":"int"},
    {"name":"event_time","type":{"type":"long","logicalType":"timestamp-millis"}}]}"#;

/// Items of no bytes cost a record nothing.
const EMPTY_ITEMS: &str = r#"{"type":"record","name":"N","fields":[
    {"name":"page_ids","type":"bytes"},
    {"name":"nothing","type":{"type":"array","items":"null"}},
    {"name":"event_time","type":"long"}]}"#;

const OTHER_RAW: &str = r#"{"type":"record","name":"W","fields":[
    {"name":"prompt","type":["string",{"type":"array","items":"int"}]},
    {"name":"fields","type":{"type":"map","values":"string"}},
    {"name":"output_tokens","type":"int"}]}"#;

/// One schema under every id.
#[derive(Debug)]
struct Only(Arc<WriterSchema>);

impl WriterSchemas for Only {
    fn find(&self, _: SchemaRef) -> Result<Option<Arc<WriterSchema>>, LookupError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

fuzz_target!(|input: &[u8]| {
    for known in &*KNOWN {
        decode(Arc::clone(known), input);
    }
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (Some(schema), Some(datum)) = (parts.next(), parts.next()) else { return };
    let Ok(schema) = std::str::from_utf8(schema) else { return };
    decode(Arc::new(WriterSchema::parse(schema)), datum);
});

fn decode(writer: Arc<WriterSchema>, datum: &[u8]) {
    let limits = DecodeLimits::default();
    let schemas: Arc<dyn WriterSchemas> = Arc::new(Only(writer));
    let mut decoder = RequestDecoder::new(Encoding::Auto, limits).with_schemas(Some(schemas));
    let record = [&[0, 0, 0, 0, 1], datum].concat();
    decoder.look_up(&record).expect("it is known");
    let mut rewritten = Vec::new();
    if let Some(Err(error)) = decoder.read_raw(&record, &mut rewritten) {
        assert!(error.to_string().len() < 500);
    }
    match decoder.decode(Some(b"pool"), &record) {
        Ok(decoded) => {
            let pages = decoded.event.page_ids.len() + decoded.event.output_page_ids.len();
            assert!(pages <= limits.max_pages_per_request && decoded.pool.len() <= limits.max_pool_bytes);
        }
        Err(error) => assert!(error.to_string().len() < 500),
    }
}
