//! The raw request (`schemas/raw_request.avsc`) as an Avro datum, read where it lies and written.

use super::schema;
use super::wire::{Cursor, put_bytes, put_long};
use kvset_core::request::refusal::{DecodeError, ErrorCode};

/// A request of a raw log. `Debug` is left out: the prompt must reach no log.
pub struct RawRequest<'a> {
    /// Milliseconds since the Unix epoch.
    pub event_time: Option<i64>,
    /// Names and values for templates.
    pub fields: Vec<(&'a str, &'a str)>,
    /// The prompt.
    pub prompt: RawPrompt<'a>,
    /// Tokens generated.
    pub output_tokens: Option<i64>,
    /// Milliseconds from arrival to last token.
    pub duration_ms: Option<i64>,
}

/// A prompt before it is hashed.
pub enum RawPrompt<'a> {
    /// Token ids.
    Tokens(Vec<u32>),
    /// The body of a chat or completion request, as JSON.
    Body(&'a str),
}

/// Most names and values a record may bring.
const MAX_FIELDS: usize = 256;

/// Reads a raw request in single-object encoding; `None` where the record is of another schema.
///
/// # Errors
/// The bounded code and a detail that quotes nothing.
pub fn read_raw_request(record: &[u8]) -> Option<Result<RawRequest<'_>, DecodeError>> {
    match schema::single_object_fingerprint(record)? {
        schema::RAW_REQUEST_V1 | schema::RAW_REQUEST_V1_RUST => {
            Some(read_datum(record, schema::SINGLE_OBJECT_HEADER))
        }
        _ => None,
    }
}

/// Reads the datum that begins at `start`.
pub(super) fn read_datum(record: &[u8], start: usize) -> Result<RawRequest<'_>, DecodeError> {
    let mut cursor = Cursor::new(record, start);
    // Fields of a record follow each other in the schema's order; so do these initialisers.
    let request = RawRequest {
        event_time: cursor.nullable(Cursor::long)?,
        fields: read_fields(&mut cursor)?,
        prompt: read_prompt(&mut cursor)?,
        output_tokens: cursor.nullable(Cursor::long)?,
        duration_ms: cursor.nullable(Cursor::long)?,
    };
    match cursor.remaining() {
        0 => Ok(request),
        _ => Err(cursor.undecodable("bytes behind the end of the record")),
    }
}

fn read_fields<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<(&'a str, &'a str)>, DecodeError> {
    let mut fields = Vec::new();
    cursor.items(|cursor| {
        if fields.len() == MAX_FIELDS {
            let detail = format!("the record has more than {MAX_FIELDS} fields");
            return Err(DecodeError::new(ErrorCode::InvalidField, detail));
        }
        fields.push((cursor.string()?, cursor.string()?));
        Ok(())
    })?;
    Ok(fields)
}

fn read_prompt<'a>(cursor: &mut Cursor<'a>) -> Result<RawPrompt<'a>, DecodeError> {
    match cursor.long()? {
        0 => {
            let (tokens, rest) = cursor.bytes()?.as_chunks::<4>();
            if !rest.is_empty() {
                return Err(cursor.undecodable("packed token ids of no multiple of four bytes before"));
            }
            Ok(RawPrompt::Tokens(tokens.iter().map(|token| u32::from_le_bytes(*token)).collect()))
        }
        1 => {
            let mut tokens = Vec::new();
            cursor.items(|cursor| {
                let token = u32::try_from(cursor.long()?);
                tokens.push(token.map_err(|_| cursor.undecodable("a token id out of range before"))?);
                Ok(())
            })?;
            Ok(RawPrompt::Tokens(tokens))
        }
        2 => Ok(RawPrompt::Body(cursor.string()?)),
        _ => Err(cursor.undecodable("a union branch that does not exist before")),
    }
}

/// Appends a raw request in single-object encoding, token ids packed.
pub fn encode_raw_request(request: &RawRequest<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&schema::SINGLE_OBJECT_MARKER);
    out.extend_from_slice(&schema::RAW_REQUEST_V1);
    put_nullable_long(out, request.event_time);
    if !request.fields.is_empty() {
        put_long(out, request.fields.len() as i64);
        for (name, value) in &request.fields {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value.as_bytes());
        }
    }
    put_long(out, 0);
    match &request.prompt {
        RawPrompt::Tokens(tokens) => {
            put_long(out, 0);
            // Little-endian in memory, which `lib.rs` asserts at compile time.
            put_bytes(out, bytemuck::cast_slice(tokens));
        }
        RawPrompt::Body(body) => {
            put_long(out, 2);
            put_bytes(out, body.as_bytes());
        }
    }
    put_nullable_long(out, request.output_tokens);
    put_nullable_long(out, request.duration_ms);
}

fn put_nullable_long(out: &mut Vec<u8>, value: Option<i64>) {
    put_long(out, i64::from(value.is_some()));
    if let Some(value) = value {
        put_long(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apache_avro::types::Value;
    use apache_avro::writer::datum::GenericDatumWriter;
    use proptest::prelude::*;

    type Read<'a> = (Option<i64>, Vec<(&'a str, &'a str)>, Result<Vec<u32>, &'a str>, Option<i64>);

    fn read(record: &[u8]) -> Read<'_> {
        let Some(Ok(request)) = read_raw_request(record) else { panic!("readable") };
        let prompt = match request.prompt {
            RawPrompt::Tokens(tokens) => Ok(tokens),
            RawPrompt::Body(body) => Err(body),
        };
        (request.event_time, request.fields, prompt, request.output_tokens)
    }

    fn bytes_of(request: &RawRequest<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        encode_raw_request(request, &mut out);
        out
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            event_time in any::<Option<i64>>(),
            fields in prop::collection::vec(("[a-z]{1,5}", ".{0,5}"), 0..4),
            tokens in prop::collection::vec(any::<u32>(), 0..40),
            body in prop::option::of(".{0,20}"),
        ) {
            let fields: Vec<_> = fields.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            let prompt = body.as_deref().map_or(RawPrompt::Tokens(tokens.clone()), RawPrompt::Body);
            let (output_tokens, duration_ms) = (event_time, None);
            let request = RawRequest { event_time, fields: fields.clone(), prompt, output_tokens, duration_ms };
            let expected = body.as_deref().map_or(Ok(tokens), Err);
            let bytes = bytes_of(&request);
            prop_assert_eq!(read(&bytes), (event_time, fields, expected, event_time));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let record = [&schema::SINGLE_OBJECT_MARKER[..], &schema::RAW_REQUEST_V1, &bytes].concat();
            prop_assert!(read_raw_request(&record).is_some());
        }
    }

    #[test]
    fn a_general_encoder_is_understood() {
        let schema = schema::raw_request();
        let mut record = apache_avro::types::Record::new(schema).expect("a record");
        record.put("event_time", Value::Union(1, Box::new(Value::TimestampMillis(7))));
        let fields = [("model".to_owned(), Value::String("m".to_owned()))].into();
        record.put("fields", Value::Map(fields));
        record.put("prompt", Value::Union(1, Box::new(Value::Array(vec![Value::Long(5), Value::Long(6)]))));
        for field in ["output_tokens", "duration_ms"] {
            record.put(field, Value::Union(0, Box::new(Value::Null)));
        }
        let writer = GenericDatumWriter::builder(schema).build().expect("a writer");
        let datum = writer.write_value_to_vec(record).expect("encodes");
        let bytes = [&schema::SINGLE_OBJECT_MARKER[..], &schema::RAW_REQUEST_V1, &datum].concat();
        assert_eq!(read(&bytes), (Some(7), vec![("model", "m")], Ok(vec![5, 6]), None));
    }

    #[test]
    fn other_schemas_are_none_of_its_business() {
        let other = [&schema::SINGLE_OBJECT_MARKER[..], &schema::REQUEST_EVENT_V1].concat();
        assert!(read_raw_request(&other).is_none() && read_raw_request(b"{}").is_none());
    }
}
