//! Records of the request topic: which encoding one is in, and both directions.

use super::frame::{Frame, Payload, SchemaId, SchemaRef, uuid};
use super::limits::DecodeLimits;
use super::message::{Decoded, RequestMessage};
use super::raw::{RawRequest, read_raw_request};
use super::resolved::ResolvedEvent;
use super::writer::{LookupError, WriterSchema, WriterSchemas};
use super::{avro, json, schema};
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The encoding of the input topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Recognised record by record: `C3 01` begins Avro single-object encoding, `00` Confluent's wire format, `{`
    /// (after white space) JSON.
    #[default]
    Auto,
    /// Avro single-object encoding only.
    Avro,
    /// Avro in Confluent's wire format only.
    ConfluentAvro,
    /// JSON only, by itself or in Confluent's wire format with a JSON Schema.
    Json,
}

/// What one record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordForm {
    SingleObject,
    Json,
    /// What the schema says that a registry knows by this name. The content begins at `start`.
    Registered {
        schema: SchemaRef,
        start: usize,
    },
}

impl Encoding {
    /// What one record is, where this setting allows it. What is JSON by a registry is known there alone.
    ///
    /// # Errors
    /// It is nothing that is read, or another form than the setting names.
    pub(super) fn form(self, payload: Payload<'_>) -> Result<RecordForm, DecodeError> {
        let bytes = payload.bytes;
        let form = match Frame::of(payload) {
            Frame::Registered { schema, start } => RecordForm::Registered { schema, start },
            Frame::Absent if bytes.starts_with(&schema::SINGLE_OBJECT_MARKER) => RecordForm::SingleObject,
            Frame::Absent if bytes.trim_ascii_start().first() == Some(&b'{') => RecordForm::Json,
            Frame::Absent => return Err(self.unexpected()),
            Frame::CutOff if self.allows_frames() => {
                return Err(DecodeError::new(ErrorCode::Undecodable, "avro: cut off inside the header"));
            }
            Frame::CutOff => return Err(self.unexpected()),
            Frame::Glue { version, compression } => return Err(of_glue(version, compression)),
        };
        let is_allowed = match form {
            RecordForm::SingleObject => matches!(self, Self::Auto | Self::Avro),
            RecordForm::Json => matches!(self, Self::Auto | Self::Json),
            RecordForm::Registered { .. } => self.allows_frames(),
        };
        if is_allowed { Ok(form) } else { Err(self.unexpected()) }
    }

    /// Whether records may name their schema in a registry; with JSON it must be one of JSON.
    fn allows_frames(self) -> bool {
        self != Self::Avro
    }

    /// Whether records may be of this writer's schema.
    fn check_schema(self, writer: &WriterSchema) -> Result<(), DecodeError> {
        match self {
            Self::Json if !writer.is_json() => Err(self.unexpected()),
            Self::ConfluentAvro if writer.is_json() => {
                let detail = "the record is json by its schema in the registry, and avro is configured: set the encoding \
                              to \"auto\" or \"json\"";
                Err(DecodeError::new(ErrorCode::UnknownEncoding, detail))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn unexpected(self) -> DecodeError {
        let detail = match self {
            Self::Auto => {
                "the first bytes are neither those of avro single-object encoding, nor of confluent's wire \
                 format, nor of a json object"
            }
            Self::Avro => "the first bytes are not those of avro single-object encoding, which is configured",
            Self::ConfluentAvro => {
                "the first byte is not the zero of confluent's wire format, which is configured"
            }
            Self::Json => {
                "the record is not a json object, by its first bytes or its schema, which is configured"
            }
        };
        DecodeError::new(ErrorCode::UnknownEncoding, detail)
    }
}

#[cold]
fn of_glue(version: u128, compression: &str) -> DecodeError {
    let detail = format!(
        "this is a frame of the aws glue schema registry (schema version {}, {compression}), which is not read: have \
         the producer write json, avro in single-object encoding or confluent's wire format",
        uuid(version)
    );
    DecodeError::new(ErrorCode::UnknownEncoding, detail)
}

/// Turns records into request events.
///
/// Packed Avro ids stay where they lie in the record. Ids in any other form are decoded into two
/// buffers that live as long as the decoder, so that a record costs no allocation for its ids once
/// the buffers have grown; they grow to at most 8 bytes an id of the largest request accepted.
#[derive(Debug, Default)]
pub struct RequestDecoder {
    encoding: Encoding,
    limits: DecodeLimits,
    buffers: avro::IdBuffers,
    schemas: Option<Arc<dyn WriterSchemas>>,
    /// The schema looked up last: records of one writer come in a row.
    writer: Option<(SchemaRef, Option<Arc<WriterSchema>>)>,
    resolved: ResolvedEvent,
}

impl RequestDecoder {
    /// A decoder for records in this encoding, within these limits.
    pub fn new(encoding: Encoding, limits: DecodeLimits) -> Self {
        Self { encoding, limits, ..Self::default() }
    }

    /// The same, which finds writers' schemas here.
    pub fn with_schemas(self, schemas: Option<Arc<dyn WriterSchemas>>) -> Self {
        Self { schemas, ..self }
    }

    /// Gets the writer's schema that [`Self::decode`], [`Self::read_raw`] or [`Self::json_within`] will need for this
    /// record, where they need one: the only step that may wait.
    ///
    /// # Errors
    /// The schema cannot be known now, and so neither what the record is.
    pub fn look_up<'p>(&mut self, payload: impl Into<Payload<'p>>) -> Result<(), LookupError> {
        let Some(schemas) = &self.schemas else { return Ok(()) };
        let Ok(RecordForm::Registered { schema, .. }) = self.encoding.form(payload.into()) else {
            return Ok(());
        };
        if self.writer.as_ref().is_none_or(|(known, writer)| *known != schema || writer.is_none()) {
            self.writer = Some((schema, schemas.find(schema)?));
        }
        Ok(())
    }

    /// The JSON in a record whose schema is one of JSON; any other record as it is.
    pub fn json_within<'a>(&self, payload: impl Into<Payload<'a>>) -> &'a [u8] {
        let payload = payload.into();
        match (self.encoding.form(payload), &self.writer) {
            (Ok(RecordForm::Registered { schema, start }), Some((known, Some(writer))))
                if *known == schema && writer.is_json() =>
            {
                &payload.bytes[start..]
            }
            _ => payload.bytes,
        }
    }

    /// Reads a raw request; `None` where the record is one of something else. `rewritten` keeps what does not
    /// lie in the record.
    ///
    /// # Errors
    /// As for [`RequestDecoder::decode`].
    pub fn read_raw<'a>(
        &self,
        payload: impl Into<Payload<'a>>,
        rewritten: &'a mut Vec<u8>,
    ) -> Option<Result<RawRequest<'a>, DecodeError>> {
        let payload = payload.into();
        let Ok(RecordForm::Registered { schema, start }) = self.encoding.form(payload) else {
            return read_raw_request(payload.bytes);
        };
        match writer_of(schema, self.writer.as_ref(), self.schemas.is_some()) {
            Ok(writer) => writer.read_raw(payload.bytes, start, rewritten),
            Err(unknown) => Some(Err(unknown)),
        }
    }

    /// Decodes and checks one record: `key` names the pool, `payload` is the value (empty for a
    /// tombstone). An empty key counts as none.
    ///
    /// # Errors
    /// The bounded code and a detail that quotes neither key nor payload.
    pub fn decode<'a>(
        &'a mut self,
        key: Option<&'a [u8]>,
        payload: impl Into<Payload<'a>>,
    ) -> Result<Decoded<'a>, DecodeError> {
        let limits = self.limits;
        limits.admit(key, self.read(payload)?)
    }

    /// Decodes one record as [`Self::decode`] does where that takes none of the decoder's buffers, so that
    /// several can be held at once: Avro in single-object encoding with packed ids. `None` where it is
    /// anything else, or is refused.
    pub fn decode_in_place<'a>(
        &self,
        key: Option<&'a [u8]>,
        payload: impl Into<Payload<'a>>,
    ) -> Option<Decoded<'a>> {
        let payload = payload.into();
        self.limits.check_size(payload.bytes).ok()?;
        let is_avro = self.encoding.form(payload) == Ok(RecordForm::SingleObject);
        let message = is_avro.then(|| avro::read_packed(payload.bytes))??;
        self.limits.admit(key, message).ok()
    }

    /// Decodes what a [`Repacker`](super::Repacker) wrote of a record with this key: as [`Self::decode`] decodes the
    /// record. `None` where that refuses it.
    pub fn decode_repacked<'a>(&self, key: Option<&'a [u8]>, repacked: &'a [u8]) -> Option<Decoded<'a>> {
        self.limits.admit(key, avro::read_packed(repacked)?).ok()
    }

    /// Reads one record as it was written; [`DecodeLimits::admit`] checks what it says.
    ///
    /// # Errors
    /// As for [`RequestDecoder::decode`].
    pub fn read<'a>(
        &'a mut self,
        payload: impl Into<Payload<'a>>,
    ) -> Result<RequestMessage<'a>, DecodeError> {
        let payload = payload.into();
        let (record, limits) = (payload.bytes, &self.limits);
        limits.check_size(record)?;
        match self.encoding.form(payload)? {
            RecordForm::Json => json::read(record, limits, &mut self.buffers),
            RecordForm::SingleObject => avro::read_single_object(record, limits, &mut self.buffers),
            RecordForm::Registered { schema, start } => {
                let writer = writer_of(schema, self.writer.as_ref(), self.schemas.is_some())?;
                self.encoding.check_schema(writer)?;
                writer.read(record, start, limits, &mut self.buffers, &mut self.resolved)
            }
        }
    }
}

/// The schema that a record names.
fn writer_of(
    schema: SchemaRef,
    known: Option<&(SchemaRef, Option<Arc<WriterSchema>>)>,
    has_registry: bool,
) -> Result<&WriterSchema, DecodeError> {
    let refused = |detail: String| DecodeError::new(ErrorCode::UnknownSchema, detail);
    match known {
        Some((found, Some(writer))) if *found == schema => Ok(writer),
        _ if has_registry => {
            Err(refused(format!("the schema registry has no schema with {schema}{}", hint(schema))))
        }
        _ => Err(refused(format!("the schema with {schema} needs a registry: set schema_registry.url"))),
    }
}

/// Why an id that no registry gives may be there.
fn hint(schema: SchemaRef) -> &'static str {
    match schema {
        SchemaRef::Id(SchemaId(0)) => {
            "; apicurio's serializers write ids of eight bytes unless they are set to four (as-confluent)"
        }
        _ => "",
    }
}

/// How request events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestEncoding {
    /// Avro single-object encoding, ids packed: smallest and fastest to read.
    #[default]
    Avro,
    /// Avro single-object encoding, ids as an array of long.
    AvroLongs,
    /// The datum of [`Self::Avro`] in Confluent's wire format, under the id that the schema has in a
    /// registry.
    ConfluentAvro(SchemaId),
    /// JSON, ids as an array of unsigned integers.
    Json,
}

/// Appends one request event to `out`.
///
/// # Errors
/// None that serialising into memory can meet; the type is serde_json's.
pub fn encode_request(
    message: &RequestMessage<'_>,
    encoding: RequestEncoding,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    match encoding {
        RequestEncoding::Avro => avro::write_single_object(message, avro::IdForm::Packed, out),
        RequestEncoding::AvroLongs => avro::write_single_object(message, avro::IdForm::Longs, out),
        RequestEncoding::ConfluentAvro(id) => {
            id.put_header(out);
            avro::write_datum(message, avro::IdForm::Packed, out);
        }
        RequestEncoding::Json => json::write(message, out)?,
    }
    Ok(())
}
