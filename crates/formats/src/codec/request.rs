//! Records of the request topic: which encoding one is in, and both directions.

use super::error::{DecodeError, ErrorCode};
use super::limits::DecodeLimits;
use super::message::{Decoded, RequestMessage};
use super::raw::{RawRequest, read_raw_request};
use super::resolved::ResolvedEvent;
use super::writer::{FRAME_MARKER, LookupError, SchemaId, WriterSchema, WriterSchemas};
use super::{avro, json, schema};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The encoding of the input topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Told per record: `C3 01` begins Avro single-object encoding, `00` Confluent's wire format, `{`
    /// (after white space) JSON.
    #[default]
    Auto,
    /// Avro single-object encoding only.
    Avro,
    /// Avro in Confluent's wire format only.
    ConfluentAvro,
    /// JSON only.
    Json,
}

impl Encoding {
    /// The encoding of one record, where this setting allows it.
    pub(super) fn of(self, record: &[u8]) -> Option<Self> {
        let found = if record.starts_with(&schema::SINGLE_OBJECT_MARKER) {
            Self::Avro
        } else if record.first() == Some(&FRAME_MARKER) {
            Self::ConfluentAvro
        } else if record.trim_ascii_start().first() == Some(&b'{') {
            Self::Json
        } else {
            return None;
        };
        (self == Self::Auto || self == found).then_some(found)
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Auto => {
                "the first bytes are neither those of avro single-object encoding, nor of confluent's wire \
                 format, nor of a json object"
            }
            Self::Avro => "the first bytes are not those of avro single-object encoding, which is configured",
            Self::ConfluentAvro => {
                "the first byte is not the zero of confluent's wire format, which is configured"
            }
            Self::Json => "the first bytes are not those of a json object, which is configured",
        }
    }
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
    writer: Option<(SchemaId, Option<Arc<WriterSchema>>)>,
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

    /// Gets the writer's schema that [`Self::decode`] or [`Self::read_raw`] will need for this record, where
    /// it needs one: the only step that may wait.
    ///
    /// # Errors
    /// The schema cannot be known now, and so neither what the record is.
    pub fn look_up(&mut self, payload: &[u8]) -> Result<(), LookupError> {
        let Some(schemas) = &self.schemas else { return Ok(()) };
        if self.encoding.of(payload) != Some(Encoding::ConfluentAvro) {
            return Ok(());
        }
        let Some(id) = SchemaId::of_record(payload) else { return Ok(()) };
        if self.writer.as_ref().is_none_or(|(known, schema)| *known != id || schema.is_none()) {
            self.writer = Some((id, schemas.find(id)?));
        }
        Ok(())
    }

    /// Reads a raw request; `None` where the record is one of something else. `rewritten` keeps what does not
    /// lie in the record.
    ///
    /// # Errors
    /// As for [`RequestDecoder::decode`].
    pub fn read_raw<'a>(
        &self,
        payload: &'a [u8],
        rewritten: &'a mut Vec<u8>,
    ) -> Option<Result<RawRequest<'a>, DecodeError>> {
        if self.encoding.of(payload) != Some(Encoding::ConfluentAvro) {
            return read_raw_request(payload);
        }
        match writer_of(payload, self.writer.as_ref(), self.schemas.is_some()) {
            Ok(writer) => writer.read_raw(payload, rewritten),
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
        payload: &'a [u8],
    ) -> Result<Decoded<'a>, DecodeError> {
        let limits = self.limits;
        limits.admit(key, self.read(payload)?)
    }

    /// Decodes one record as [`Self::decode`] does where that takes none of the decoder's buffers, so that
    /// several can be held at once: Avro in single-object encoding with packed ids. `None` where it is
    /// anything else, or is refused.
    pub fn decode_in_place<'a>(&self, key: Option<&'a [u8]>, payload: &'a [u8]) -> Option<Decoded<'a>> {
        self.limits.check_size(payload).ok()?;
        let is_avro = self.encoding.of(payload) == Some(Encoding::Avro);
        let message = is_avro.then(|| avro::read_packed(payload))??;
        self.limits.admit(key, message).ok()
    }

    /// Decodes what a [`Repacker`](super::Repacker) wrote of a record with this key: as [`Self::decode`] decodes the record.
    /// `None` where that refuses it.
    pub fn decode_repacked<'a>(&self, key: Option<&'a [u8]>, repacked: &'a [u8]) -> Option<Decoded<'a>> {
        self.limits.admit(key, avro::read_packed(repacked)?).ok()
    }

    /// Reads one record as it was written; [`DecodeLimits::admit`] checks what it says.
    ///
    /// # Errors
    /// As for [`RequestDecoder::decode`].
    pub fn read<'a>(&'a mut self, payload: &'a [u8]) -> Result<RequestMessage<'a>, DecodeError> {
        self.limits.check_size(payload)?;
        match self.encoding.of(payload) {
            Some(Encoding::Json) => json::read(payload, &self.limits, &mut self.buffers),
            Some(Encoding::ConfluentAvro) => {
                let writer = writer_of(payload, self.writer.as_ref(), self.schemas.is_some())?;
                writer.read(payload, &self.limits, &mut self.buffers, &mut self.resolved)
            }
            Some(_) => avro::read_single_object(payload, &self.limits, &mut self.buffers),
            None => Err(DecodeError::new(ErrorCode::UnknownEncoding, self.encoding.expected())),
        }
    }
}

/// The schema a framed record was written with.
fn writer_of<'w>(
    record: &[u8],
    known: Option<&'w (SchemaId, Option<Arc<WriterSchema>>)>,
    has_registry: bool,
) -> Result<&'w WriterSchema, DecodeError> {
    let refused = |detail: String| DecodeError::new(ErrorCode::UnknownSchema, detail);
    let Some(id) = SchemaId::of_record(record) else {
        return Err(DecodeError::new(ErrorCode::Undecodable, "avro: cut off inside the header"));
    };
    match known {
        Some((found, Some(writer))) if *found == id => Ok(writer),
        _ if has_registry => Err(refused(format!("the schema registry has no schema with id {id}"))),
        _ => Err(refused(format!("schema id {id} needs a registry: set schema_registry.url"))),
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
