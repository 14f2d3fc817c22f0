//! Avro object container files: every codec, foreign schemas, damage.

use apache_avro::types::Value;
use apache_avro::{Codec, Schema, Writer};
use kvset::codec::{ContainerError, ContainerReader, DecodeLimits, ErrorCode};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/codec").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every event as JSON, or the code that refused it.
fn read(bytes: &[u8]) -> Result<Vec<Json>, ContainerError> {
    let mut reader = ContainerReader::open(bytes, DecodeLimits::default(), "default")?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(match event {
            Ok(decoded) => json!({
                "pool": decoded.pool,
                "event_time": decoded.event.event_time.0,
                "page_ids": decoded.event.page_ids.iter().collect::<Vec<_>>(),
                "page_size": decoded.event.page_size.map(|size| size.get()),
                "input_tokens": decoded.event.input_tokens,
            }),
            Err(error) => json!(error.code().name()),
        });
    }
    assert_eq!(reader.events(), events.len() as u64);
    Ok(events)
}

/// The three events of the fixtures; one names no pool.
fn expected() -> Vec<Json> {
    let text = fixture("request_events.v1.expected.json");
    let mut events: Vec<Json> = serde_json::from_slice(&text).expect("the expectation is json");
    for event in &mut events {
        if event["pool"].is_null() {
            event["pool"] = json!("default");
        }
    }
    events
}

#[test]
fn every_codec_reads_the_same() {
    for codec in ["null", "deflate", "snappy", "zstandard"] {
        let events = read(&fixture(&format!("request_events.v1.{codec}.avro"))).expect(codec);
        assert_eq!(events, expected(), "{codec}");
    }
}

#[test]
fn each_event_says_whether_its_ids_are_chained() {
    let bytes = fixture("request_events.v1.deflate.avro");
    let mut reader = ContainerReader::open(&bytes[..], DecodeLimits::default(), "p").expect("a container");
    let mut said = Vec::new();
    while let Some(event) = reader.next_event().expect("whole") {
        said.push(event.expect("accepted").event.ids_chained);
    }
    assert_eq!(said, [true, false, true]);
}

#[test]
fn a_file_of_another_schema_is_resolved_by_field_name() {
    assert_eq!(read(&fixture("request_events.other_schema.avro")).expect("resolves"), expected());
}

#[test]
fn a_recursive_schema_is_refused_before_any_value_is_read() {
    let error = read(&fixture("request_events.recursive_schema.avro")).expect_err("refused");
    assert_eq!(error.to_string(), "not a readable avro container: its schema is recursive");
}

/// A container of our own whose values are `values`, of this schema.
fn container(schema: &str, values: Vec<Value>, codec: Codec) -> Vec<u8> {
    let schema = Schema::parse_str(schema).expect("the schema parses");
    let mut writer =
        Writer::builder().schema(&schema).writer(Vec::new()).codec(codec).build().expect("a writer");
    for value in values {
        writer.append_value(value).expect("a value of the schema");
    }
    writer.into_inner().expect("written into memory")
}

#[test]
fn a_refused_event_does_not_end_the_file() {
    let schema = r#"{"type": "record", "name": "R", "fields": [
        {"name": "event_time", "type": "long"}, {"name": "page_ids", "type": "bytes"}]}"#;
    let event = |time, ids: &[u8]| {
        Value::Record(vec![
            ("event_time".into(), Value::Long(time)),
            ("page_ids".into(), Value::Bytes(ids.to_vec())),
        ])
    };
    let bytes = container(schema, vec![event(-5, &[]), event(1, &[0; 7]), event(2, &[1; 8])], Codec::Null);
    let events = read(&bytes).expect("the file is whole");
    assert_eq!(events[0], json!(ErrorCode::EventTimeOutOfRange.name()));
    assert_eq!(events[1], json!(ErrorCode::Undecodable.name()));
    assert_eq!(events[2]["page_ids"], json!([0x0101_0101_0101_0101u64]));
}

#[test]
fn a_schema_without_the_required_fields_is_an_error_of_the_file() {
    let schema = r#"{"type": "record", "name": "R", "fields": [{"name": "event_time", "type": "long"}]}"#;
    let value = Value::Record(vec![("event_time".into(), Value::Long(1))]);
    let error = read(&container(schema, vec![value], Codec::Null)).expect_err("no page_ids");
    assert!(matches!(error, ContainerError::Broken { event: 0, .. }), "{error}");
}

#[test]
fn damage_anywhere_is_an_error_or_harmless_but_never_a_panic() {
    for codec in ["null", "deflate", "snappy", "zstandard"] {
        let whole = fixture(&format!("request_events.v1.{codec}.avro"));
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xa5;
            let _ = read(&damaged);
        }
        // The block and its marker fill the last bytes; without any one of them nothing is read.
        for end in (whole.len() - 60..whole.len()).chain(0..100) {
            let cut = read(&whole[..end]);
            assert!(cut.is_err() || cut.is_ok_and(|events| events.is_empty()), "{codec} cut off at {end}");
        }
    }
}

/// A disk that fails after some bytes.
struct FailsAfter<'a>(&'a [u8]);

impl std::io::Read for FailsAfter<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.0.is_empty() {
            return Err(std::io::Error::other("the disk is gone"));
        }
        self.0.read(buffer)
    }
}

#[test]
fn a_failing_disk_is_named() {
    let whole = fixture("request_events.v1.null.avro");
    for end in [2, 100, whole.len() - 30] {
        let opened = ContainerReader::open(FailsAfter(&whole[..end]), DecodeLimits::default(), "default");
        let error = match opened {
            Err(error) => error,
            Ok(mut reader) => reader.next_event().expect_err("the block is not whole"),
        };
        assert!(error.to_string().contains("the disk is gone"), "{end}: {error}");
    }
}

#[test]
fn what_is_no_container_says_so() {
    for (bytes, reason) in [
        (&b"Ob"[..], "no magic bytes: failed to fill whole buffer"),
        (b"{\"event_time\": 1}", "magic bytes Obj 1"),
        (b"Obj\x01\x02", "reading failed"),
    ] {
        let text = read(bytes).expect_err("no container").to_string();
        assert!(text.contains(reason), "`{text}` lacks `{reason}`");
    }
    let mut unknown = fixture("request_events.v1.deflate.avro");
    let at = unknown.windows(7).position(|window| window == b"deflate").expect("the codec's name");
    unknown[at..at + 7].copy_from_slice(b"unknown");
    let text = read(&unknown).expect_err("no such codec").to_string();
    assert!(text.contains("codec is none of null, deflate, snappy, zstandard"), "{text}");
}

#[test]
fn an_empty_compression_level_is_refused_rather_than_indexed() {
    let mut bytes = b"Obj\x01".to_vec();
    for (key, value) in
        [("avro.codec", "zstandard"), ("avro.schema", "\"long\""), ("avro.codec.compression_level", "")]
    {
        bytes.extend([2, key.len() as u8 * 2]);
        bytes.extend(key.as_bytes());
        bytes.push(value.len() as u8 * 2);
        bytes.extend(value.as_bytes());
    }
    bytes.extend([0; 17]);
    assert!(matches!(read(&bytes), Err(ContainerError::Header { .. })));
}
