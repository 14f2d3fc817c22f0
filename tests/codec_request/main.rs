//! Request events: equal to apache-avro's reading of the same bytes, and safe on hostile input.
#![allow(unsafe_code, reason = "an allocator that watches what is asked of it")]

mod event;

use base64::Engine;
use event::{Event, by_apache_avro, events};
use kvset::codec::{
    DecodeError, DecodeLimits, Encoding, ErrorCode, Repacker, RequestDecoder, RequestEncoding, SchemaId,
    schema,
};
use kvset::core::request::event::CachedTokens;
use kvset::core::request::labels::Label;
use kvset::core::units::pages::PageIds;
use proptest::prelude::*;
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Notes the largest single allocation of each thread.
struct Watching;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    // A thread that is ending has no cell any more, and nothing to measure.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every call is handed to the system allocator unchanged.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

fn decode(record: &[u8]) -> Result<Event, DecodeError> {
    let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
    let decoded = decoder.decode(None, record)?;
    let event = decoded.event;
    Ok(Event {
        event_time: event.event_time.0,
        ids: event.page_ids.iter().collect(),
        output_ids: event.output_page_ids.iter().collect(),
        pool: Some(decoded.pool.into_owned()),
        page_size: event.page_size.map(|size| size.get() as i32),
        input_tokens: event.input_tokens.map(|n| n as i64),
        output_tokens: event.output_tokens.map(|n| n as i64),
        duration_ms: event.duration_ms.map(|n| n as i64),
        scope: None,
        request_id: None,
        ids_chained: event.ids_chained,
        cached_tokens: event.cached_tokens.stated().map(|tokens| tokens as i64),
        cached_tokens_left_out: event.cached_tokens == CachedTokens::LeftOut,
        complete_before: event.complete_before.map(|before| before.0),
        replica: event.labels.get(Label::Replica).map(|name| name.to_string()),
        tenant: event.labels.get(Label::Tenant).map(|name| name.to_string()),
        id_scheme: event.labels.get(Label::IdScheme).map(|name| name.to_string()),
        retention_class: event.labels.get(Label::RetentionClass).map(|name| name.to_string()),
    })
}

fn code(record: impl AsRef<[u8]>) -> ErrorCode {
    code_with(DecodeLimits::default(), record)
}

fn code_with(limits: DecodeLimits, record: impl AsRef<[u8]>) -> ErrorCode {
    let mut decoder = RequestDecoder::new(Encoding::Auto, limits);
    assert!(decoder.decode_in_place(Some(b"pool"), record.as_ref()).is_none(), "refused either way");
    decoder.decode(Some(b"pool"), record.as_ref()).expect_err("should be refused").code()
}

const LINE: &str = r#"{"event_time": 1700000000000, "page_ids": [1, 2, 3]}"#;

/// `LINE` with one more member, or another one in place of the page ids.
fn line_with(member: &str) -> String {
    LINE.replace("}", &format!(", {member}}}"))
}

proptest! {
    #[test]
    fn reads_what_apache_avro_wrote(
        event in events(), packed: bool, block in prop::option::of(1usize..64),
    ) {
        let record = by_apache_avro(&event, packed, block);
        let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
        let key = event.pool.clone().unwrap_or("the key".to_owned());
        let in_place = decoder.decode_in_place(Some(key.as_bytes()), &record);
        prop_assert_eq!(in_place.is_some(), packed, "a list of longs takes a buffer");
        in_place.iter().for_each(|decoded| event.assert_decoded(decoded));
        let decoded = decoder.decode(Some(key.as_bytes()), &record).expect("a valid record");
        event.assert_decoded(&decoded);
    }

    #[test]
    fn writes_the_bytes_that_apache_avro_writes(event in events(), packed: bool) {
        let encoding = if packed { RequestEncoding::Avro } else { RequestEncoding::AvroLongs };
        prop_assert_eq!(event.encode(encoding), by_apache_avro(&event, packed, None));
    }

    #[test]
    fn every_encoding_reads_back(event in events(), at in 0usize..3) {
        let encoding = [RequestEncoding::Avro, RequestEncoding::AvroLongs, RequestEncoding::Json][at];
        let record = event.encode(encoding);
        let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
        let key = event.pool.clone().unwrap_or("the key".to_owned());
        // A decoder that has been used before must not let anything of it through.
        let _ = decoder.decode(Some(b"k"), br#"{"event_time":1,"page_ids":[9,9,9],"output_page_ids":[9]}"#);
        event.assert_decoded(&decoder.decode(Some(key.as_bytes()), &record).expect("a valid record"));
    }

    /// However a record is written: what is repacked says the same in no more bytes, and what is refused is not
    /// repacked.
    #[test]
    fn a_repacked_record_says_what_the_record_says(
        event in events(),
        at in 0usize..4,
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let encodings =
            [RequestEncoding::Avro, RequestEncoding::AvroLongs, RequestEncoding::Json, RequestEncoding::ConfluentAvro(SchemaId(7))];
        let mut record = event.encode(encodings[at]);
        if let Some(cut) = cut {
            record.truncate(cut.index(record.len()));
        }
        let mut out = b"what was there before".to_vec();
        let before = out.len();
        let is_repacked = Repacker::new(Encoding::Auto, DecodeLimits::default()).repack(&record, &mut out);
        let written = &out[before..];
        prop_assert_eq!(is_repacked, !written.is_empty());
        if !is_repacked {
            return Ok(());
        }
        prop_assert!(written.len() <= record.len());
        let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
        let key = event.pool.clone().unwrap_or("the key".to_owned());
        let again = decoder.decode_repacked(Some(key.as_bytes()), written).expect("what was read");
        event.assert_decoded(&again);
        let again = format!("{again:?}");
        let decoded = decoder.decode(Some(key.as_bytes()), &record).expect("it was read");
        prop_assert_eq!(again, format!("{decoded:?}"));
    }

    #[test]
    fn a_damaged_record_is_refused_or_read_as_apache_avro_reads_it(
        event in events(),
        packed: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..4),
    ) {
        let mut record = by_apache_avro(&event, packed, None);
        for (at, byte, kind) in damage {
            let body = record.len() - 10;
            if body == 0 {
                break;
            }
            let at = 10 + at.index(body);
            match kind {
                0 => record[at] ^= 1 << (byte % 8),
                1 => record[at] = byte,
                2 => record.insert(at, byte),
                _ => record.truncate(at),
            }
        }
        if let Ok(read) = decode(&record) {
            let expected = Event::by_apache_avro(&record).expect("apache-avro reads what we read");
            prop_assert_eq!(read, Event { scope: None, request_id: None, ..expected });
        }
    }

    #[test]
    fn random_bytes_never_panic_and_take_no_memory_they_do_not_hold(
        mut record in prop::collection::vec(any::<u8>(), 0..200),
        head in 0u8..4,
    ) {
        match head {
            0 => drop(record.splice(0..0, [&[0xC3, 0x01][..], &schema::REQUEST_EVENT_V1].concat())),
            1 => record.insert(0, b'{'),
            2 => drop(record.splice(0..0, *b"{\"page_ids\":[")),
            _ => {}
        }
        let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
        LARGEST.set(0);
        let refused = decoder.decode(Some(b"pool"), &record).is_err();
        prop_assert!(LARGEST.get() <= 8 * record.len() + 256, "{} bytes at once, refused: {refused}", LARGEST.get());
    }

    #[test]
    fn json_by_another_producer_reads_the_same(event in events(), signed: bool, base64: bool) {
        let ids = |ids: &[u64]| match (base64, signed) {
            (true, _) => json!(base64::engine::general_purpose::STANDARD.encode(PageIds::from_slice(ids).as_packed())),
            (_, true) => json!(ids.iter().map(|id| *id as i64).collect::<Vec<_>>()),
            _ => json!(ids),
        };
        // serde_json's map sorts its keys, so the order is not that of the schema.
        let object = json!({
            "event_time": event.event_time, "page_ids": ids(&event.ids), "output_page_ids": ids(&event.output_ids),
            "pool": event.pool, "page_size": event.page_size, "input_tokens": event.input_tokens,
            "output_tokens": event.output_tokens, "duration_ms": event.duration_ms, "scope": event.scope,
            "request_id": event.request_id, "ids_chained": event.ids_chained, "cached_tokens": event.cached_tokens,
            "replica": event.replica, "tenant": event.tenant, "id_scheme": event.id_scheme,
            "retention_class": event.retention_class, "complete_before": event.complete_before,
            "cached_tokens_left_out": event.cached_tokens_left_out, "zz_unknown": {"nested": [1, {"deep": null}]},
        });
        for text in [object.to_string(), format!("\n {object:#}\n"), object.to_string().replace('/', "\\/")] {
            let mut decoder = RequestDecoder::new(Encoding::Json, DecodeLimits::default());
            let key = event.pool.clone().unwrap_or("the key".to_owned());
            event.assert_decoded(&decoder.decode(Some(key.as_bytes()), text.as_bytes()).expect("valid json"));
        }
    }
}

fn sample() -> Event {
    Event {
        event_time: 1_700_000_000_000,
        ids: vec![u64::MAX, 1, 1 << 63, 300],
        output_ids: vec![7],
        pool: Some("llama-70b".to_owned()),
        page_size: Some(64),
        input_tokens: Some(257 - 64),
        output_tokens: Some(100),
        duration_ms: Some(4200),
        scope: Some("tenant-4".to_owned()),
        request_id: Some("req-1".to_owned()),
        ids_chained: true,
        cached_tokens: Some(128),
        cached_tokens_left_out: false,
        complete_before: Some(1_700_000_000_900),
        replica: Some("engine-2".to_owned()),
        tenant: Some("search".to_owned()),
        id_scheme: Some("vllm:sha256_cbor:64".to_owned()),
        retention_class: Some("1h".to_owned()),
    }
}

#[test]
fn packed_ids_are_borrowed_from_the_record() {
    let record = sample().encode(RequestEncoding::Avro);
    let mut decoder = RequestDecoder::default();
    LARGEST.set(0);
    let decoded = decoder.decode(None, &record).expect("a valid record");
    let range = record.as_ptr_range();
    assert!(range.contains(&decoded.event.page_ids.as_packed().as_ptr()));
    assert!(range.contains(&decoded.event.output_page_ids.as_packed().as_ptr()));
    assert_eq!(LARGEST.get(), 0, "a packed record is decoded without any allocation");
}

#[test]
fn a_used_decoder_takes_no_memory_for_ids() {
    for encoding in [RequestEncoding::AvroLongs, RequestEncoding::Json] {
        let mut event = sample();
        (event.ids, event.page_size) = ((0..5000).collect(), None);
        let record = event.encode(encoding);
        let mut decoder = RequestDecoder::default();
        decoder.decode(None, &record).expect("a valid record");
        LARGEST.set(0);
        decoder.decode(None, &record).expect("a valid record");
        assert!(LARGEST.get() < 100, "{encoding:?} took {} bytes at once", LARGEST.get());
    }
}

#[test]
fn the_header_of_apache_avro_for_rust_is_read_too() {
    let mut record = by_apache_avro(&sample(), true, None);
    record[2..10].copy_from_slice(&schema::REQUEST_EVENT_V1_RUST);
    assert_eq!(decode(&record).map(|event| event.ids_chained).ok(), Some(true));
}

/// A schema of another version is another fingerprint: the record is refused, and said which schema is read.
#[test]
fn an_event_of_another_version_is_refused() {
    let mut record = by_apache_avro(&sample(), true, None);
    record[2] ^= 1;
    let mut decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default());
    let error = decoder.decode(Some(b"pool"), &record).expect_err("unknown");
    assert_eq!(error.code(), ErrorCode::UnknownSchema);
    for part in
        ["83c867331fb0073d", "version 1 of schemas/request_event.avsc", "name the schema in a registry"]
    {
        assert!(error.detail().contains(part), "{error}");
    }
}

#[test]
fn cut_off_at_every_byte_is_refused() {
    for encoding in [RequestEncoding::Avro, RequestEncoding::AvroLongs, RequestEncoding::Json] {
        let record = sample().encode(encoding);
        for end in 2..record.len() {
            assert_eq!(code(&record[..end]), ErrorCode::Undecodable, "{encoding:?} cut off at {end}");
        }
    }
}

#[test]
fn a_count_of_cached_tokens_beside_the_word_that_there_is_none_is_refused() {
    let event = Event { cached_tokens_left_out: true, ..sample() };
    for encoding in [RequestEncoding::Avro, RequestEncoding::Json] {
        assert_eq!(code(event.encode(encoding)), ErrorCode::InvalidCachedTokens, "{encoding:?}");
    }
}

#[test]
fn trailing_bytes_are_refused() {
    for (encoding, behind) in
        [(RequestEncoding::Avro, b"\0"), (RequestEncoding::AvroLongs, b"\x02"), (RequestEncoding::Json, b"}")]
    {
        let record = [sample().encode(encoding).as_slice(), behind].concat();
        assert_eq!(code(record), ErrorCode::Undecodable);
    }
}

/// A record whose datum begins with event time 0 and goes on with `datum`.
fn avro_with(datum: &[u8]) -> Vec<u8> {
    [&[0xC3, 0x01][..], &schema::REQUEST_EVENT_V1, &[0], datum].concat()
}

#[test]
fn lies_about_length_are_refused_before_memory_is_taken() {
    // The zigzag varint of i64::MAX, and of i64::MIN.
    let huge = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let least = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let lies: [&[u8]; 9] = [
        &[&[0][..], &huge].concat(),        // bytes
        &[&[0][..], &least].concat(),       // bytes of negative length
        &[&[2][..], &huge].concat(),        // array items
        &[&[2][..], &least, &[0]].concat(), // array items with a block size
        &[2, 0xc0, 0x84, 0x3d, 2, 2, 2],    // half a million items, which the page limit allows
        &[&[2][..], &[0x80; 11]].concat(),  // a varint without end
        &[0, 14, 1, 2, 3, 4, 5, 6, 7],      // seven bytes are no id
        &[4, 0],                            // third branch of a union of two
        &[1, 0],                            // branch -1
    ];
    for lie in lies {
        LARGEST.set(0);
        assert_eq!(code(avro_with(lie)), ErrorCode::Undecodable, "{lie:?}");
        assert!(LARGEST.get() < 512, "{lie:?} took {} bytes", LARGEST.get());
    }
}

#[test]
fn the_byte_size_of_an_array_block_is_checked() {
    // Two items of a byte each behind a negative count and the block's size, the other fields null, empty or false.
    let record = |size: u8| avro_with(&[&[2, 3, size, 2, 4, 0][..], &[0; 17]].concat());
    let mut decoder = RequestDecoder::default();
    let right = record(4);
    let decoded = decoder.decode(Some(b"pool"), &right).expect("the size is right");
    assert_eq!(decoded.event.page_ids.iter().collect::<Vec<_>>(), [1, 2]);
    for wrong in [0, 2, 3, 6] {
        assert_eq!(code(record(wrong)), ErrorCode::Undecodable, "zigzag size {wrong}");
    }
}

#[test]
fn each_fault_has_its_code() {
    let cases: [(&str, ErrorCode); 30] = [
        ("", ErrorCode::EmptyRecord),
        ("\0\0\0\0\u{1}", ErrorCode::UnknownSchema),
        ("\u{1}\0\0\0\u{1}", ErrorCode::UnknownEncoding),
        ("[1, 2]", ErrorCode::UnknownEncoding),
        ("  ", ErrorCode::UnknownEncoding),
        ("{", ErrorCode::Undecodable),
        (r#"{"page_ids": []}"#, ErrorCode::MissingField),
        (r#"{"event_time": null, "page_ids": []}"#, ErrorCode::MissingField),
        (r#"{"event_time": 1}"#, ErrorCode::MissingField),
        (r#"{"event_time": "1", "page_ids": []}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "event_time": 1, "page_ids": []}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": [], "page_ids": []}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1.5, "page_ids": []}"#, ErrorCode::InvalidNumber),
        (r#"{"event_time": 1e400, "page_ids": []}"#, ErrorCode::Undecodable),
        (r#"{"event_time": NaN, "page_ids": []}"#, ErrorCode::Undecodable),
        (r#"{"event_time": -1, "page_ids": []}"#, ErrorCode::EventTimeOutOfRange),
        (r#"{"event_time": 1700000000000000, "page_ids": []}"#, ErrorCode::EventTimeOutOfRange),
        (r#"{"event_time": 18446744073709551615, "page_ids": []}"#, ErrorCode::InvalidNumber),
        (r#"{"event_time": 1, "page_ids": [1.0]}"#, ErrorCode::InvalidNumber),
        (r#"{"event_time": 1, "page_ids": [18446744073709551616]}"#, ErrorCode::InvalidNumber),
        (r#"{"event_time": 1, "page_ids": [-9223372036854775809]}"#, ErrorCode::InvalidNumber),
        (r#"{"event_time": 1, "page_ids": ["1"]}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": [[1]]}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": [1e400]}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": [NaN]}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": [1,]}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": 7}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": {}}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": "AAAA"}"#, ErrorCode::Undecodable),
        (r#"{"event_time": 1, "page_ids": "?"}"#, ErrorCode::Undecodable),
    ];
    for (record, expected) in cases {
        assert_eq!(code(record), expected, "{record}");
    }
    for (member, expected) in [
        (r#""input_tokens": -1"#, ErrorCode::InvalidNumber),
        (r#""output_tokens": 1.5"#, ErrorCode::InvalidNumber),
        (r#""duration_ms": -1"#, ErrorCode::InvalidNumber),
        (r#""page_size": 0"#, ErrorCode::InvalidPageSize),
        (r#""page_size": -64"#, ErrorCode::InvalidPageSize),
        (r#""page_size": 65537"#, ErrorCode::InvalidPageSize),
        (r#""page_size": 99999999999"#, ErrorCode::InvalidPageSize),
        (r#""page_size": 64, "input_tokens": 256"#, ErrorCode::PageCountMismatch),
        (r#""page_size": 64, "input_tokens": 127"#, ErrorCode::PageCountMismatch),
        (
            r#""page_size": 64, "input_tokens": 192, "output_tokens": 64, "output_page_ids": [1, 2]"#,
            ErrorCode::PageCountMismatch,
        ),
        (r#""pool": "another""#, ErrorCode::PoolConflict),
        (r#""ids_chained": 1"#, ErrorCode::Undecodable),
        (r#""ids_chained": "true""#, ErrorCode::Undecodable),
        (r#""cached_tokens": -1"#, ErrorCode::InvalidCachedTokens),
        (r#""cached_tokens": 1.5"#, ErrorCode::InvalidCachedTokens),
        (r#""cached_tokens": "12""#, ErrorCode::InvalidCachedTokens),
        (r#""cached_tokens": {"a": [1]}"#, ErrorCode::InvalidCachedTokens),
        (r#""cached_tokens": [true]"#, ErrorCode::InvalidCachedTokens),
        (r#""cached_tokens": 193, "input_tokens": 192"#, ErrorCode::InvalidCachedTokens),
        (r#""cached_tokens": 193, "page_size": 64"#, ErrorCode::InvalidCachedTokens),
        (r#""replica": 7"#, ErrorCode::Undecodable),
        (r#""tenant": "a\tb""#, ErrorCode::InvalidField),
    ] {
        assert_eq!(code(line_with(member)), expected, "{member}");
    }
    assert_eq!(code([0x7b, 0xff, 0x7d]), ErrorCode::Undecodable, "not UTF-8");
    assert_eq!(code([0xC3, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0]), ErrorCode::UnknownSchema);
}

#[test]
fn page_counts_may_leave_a_partial_last_page_out_or_in() {
    for tokens in [129, 191, 192, 193, 255] {
        let line = line_with(&format!(r#""pool": "p", "page_size": 64, "input_tokens": {tokens}"#));
        assert!(
            decode(line.as_bytes()).is_ok(),
            "3 pages hold {tokens} tokens, the last one in part or left out"
        );
    }
}

#[test]
fn limits_are_limits() {
    let limits =
        DecodeLimits { max_record_bytes: LINE.len(), max_pages_per_request: 3, ..DecodeLimits::default() };
    let mut decoder = RequestDecoder::new(Encoding::Auto, limits);
    assert!(decoder.decode(Some(b"pool"), LINE.as_bytes()).is_ok(), "at the limits");
    assert_eq!(code_with(limits, format!("{LINE} ")), ErrorCode::RecordTooLarge);
    for encoding in [RequestEncoding::Avro, RequestEncoding::AvroLongs, RequestEncoding::Json] {
        let limits = DecodeLimits { max_pages_per_request: 4, ..DecodeLimits::default() };
        assert_eq!(
            code_with(limits, sample().encode(encoding)),
            ErrorCode::TooManyPages,
            "prompt and output are 5"
        );
    }
    let base64 = LINE.replace("[1, 2, 3]", &format!("\"{}=\"", "A".repeat(43)));
    assert_eq!(
        code_with(DecodeLimits { max_pages_per_request: 3, ..limits }, &base64),
        ErrorCode::RecordTooLarge
    );
    let limits = DecodeLimits { max_record_bytes: 1000, ..limits };
    assert_eq!(code_with(limits, &base64), ErrorCode::TooManyPages);
}

#[test]
fn the_pool_comes_from_the_key_or_the_value() {
    let decode = |key: Option<&[u8]>, record: &str| {
        let mut decoder = RequestDecoder::default();
        decoder.decode(key, record.as_bytes()).map(|d| d.pool.into_owned()).map_err(|e| e.code())
    };
    let named = line_with(r#""pool": "p""#);
    assert_eq!(decode(Some(b"p"), &named), Ok("p".to_owned()));
    assert_eq!(decode(None, &named), Ok("p".to_owned()));
    assert_eq!(decode(Some(b""), &named), Ok("p".to_owned()), "an empty key is none");
    assert_eq!(decode(Some(b"p"), LINE), Ok("p".to_owned()));
    assert_eq!(decode(Some(b"p"), &line_with(r#""pool": """#)), Ok("p".to_owned()));
    assert_eq!(decode(None, LINE), Err(ErrorCode::MissingPool));
    assert_eq!(decode(Some(b""), LINE), Err(ErrorCode::MissingPool));
    assert_eq!(decode(Some(b"\xff"), LINE), Err(ErrorCode::InvalidPool));
    assert_eq!(decode(Some(&[b'x'; 257]), LINE), Err(ErrorCode::InvalidPool));
    assert_eq!(
        decode(Some(b"a\nb"), LINE),
        Err(ErrorCode::InvalidPool),
        "a line break would forge log lines"
    );
}

#[test]
fn a_configured_encoding_refuses_the_other() {
    let avro = sample().encode(RequestEncoding::Avro);
    for (encoding, record) in [(Encoding::Json, avro.as_slice()), (Encoding::Avro, LINE.as_bytes())] {
        let mut decoder = RequestDecoder::new(encoding, DecodeLimits::default());
        assert_eq!(
            decoder.decode(Some(b"llama-70b"), record).unwrap_err().code(),
            ErrorCode::UnknownEncoding
        );
    }
}

#[test]
fn whether_ids_are_chained_is_a_boolean_or_not_said() {
    for (member, expected) in [("true", true), ("false", false), ("null", false)] {
        let line = line_with(&format!(r#""pool": "p", "ids_chained": {member}"#));
        assert_eq!(decode(line.as_bytes()).expect(member).ids_chained, expected, "{member}");
    }
    assert!(!decode(line_with(r#""pool": "p""#).as_bytes()).expect("not said").ids_chained);
    let bare = Event { cached_tokens: None, replica: None, tenant: None, ..sample() };
    let bare = Event { id_scheme: None, retention_class: None, complete_before: None, ..bare };
    let mut record = bare.encode(RequestEncoding::Avro);
    // Six nulls and another boolean follow it.
    let boolean = record.len() - 8;
    assert_eq!(record[boolean..], [1, 0, 0, 0, 0, 0, 0, 0]);
    record[boolean] = 2;
    assert_eq!(code(record), ErrorCode::Undecodable, "neither of the two bytes of avro");
}

#[test]
fn deep_json_is_harmless() {
    for deep in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 20)] {
        assert_eq!(code(line_with(&format!("\"unknown\": {deep}"))), ErrorCode::Undecodable);
    }
    let closed = format!("\"unknown\": {}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let mut decoder = RequestDecoder::default();
    // Ignored or refused, but never a stack overflow.
    let _ = decoder.decode(Some(b"pool"), line_with(&closed).as_bytes());
}

#[test]
fn errors_quote_nothing_of_the_record() {
    let secret = "s3cret";
    let records = [
        format!(r#"{{"event_time": "{secret}", "page_ids": []}}"#),
        format!(r#"{{"event_time": 1, "page_ids": ["{secret}"]}}"#),
        format!(r#"{{"event_time": 1, "page_ids": "{secret}"}}"#),
        format!(r#"{{"event_time": 1, "page_ids": [], "page_size": "{secret}"}}"#),
        format!(r#"{{"event_time": 1, "page_ids": [], "pool": "{secret}"}}"#),
        format!(r#"{{"event_time": 1, "page_ids": [], "{secret}"}}"#),
        format!(r#"{{"event_time": 1, "page_ids": [], "scope": "{secret}", "duration_ms": -1}}"#),
    ];
    for record in records {
        let mut decoder = RequestDecoder::default();
        let error = decoder.decode(Some(b"k3y"), record.as_bytes()).expect_err("should be refused");
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(!text.contains(secret) && !text.contains("k3y"), "{text}");
        }
    }
    assert!(
        !format!("{:?}", sample().message()).contains("18446744073709551615"),
        "no page id in debug output"
    );
}

/// What takes long to read is repacked, and nothing else: packed ids are read where they lie, and a record in
/// Confluent's wire format may have to wait for its schema.
#[test]
fn what_takes_long_to_read_is_repacked() {
    let mut repacker = Repacker::new(Encoding::Auto, DecodeLimits::default());
    let longs: Vec<u64> = (0..100).map(|id| id << 50).collect();
    let event = |ids: &[u64]| json!({"event_time": 1_700_000_000_000_u64, "page_ids": ids}).to_string();
    let mut out = Vec::new();
    assert!(repacker.repack(event(&longs).as_bytes(), &mut out));
    assert!(!repacker.takes_long(&out), "what was repacked need not be again");
    let length = out.len();
    for left_alone in
        [&event(&[1; 100]).into_bytes()[..], b"{", b"", b"no json", &[0, 0, 0, 0, 7], &[0xC3, 1]]
    {
        assert!(!repacker.repack(left_alone, &mut out), "{} bytes", left_alone.len());
        assert_eq!(out.len(), length);
    }
    let only_avro = Repacker::new(Encoding::Avro, DecodeLimits::default());
    assert!(!only_avro.takes_long(event(&longs).as_bytes()), "JSON is refused where Avro is configured");
}
