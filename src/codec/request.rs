//! Records of the request topic: which encoding one is in, and both directions.

use super::error::{DecodeError, ErrorCode};
use super::limits::DecodeLimits;
use super::message::{Decoded, RequestMessage};
use super::{avro, json, schema};
use serde::{Deserialize, Serialize};

/// The encoding of the input topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Told per record: `C3 01` begins Avro single-object encoding, `{` (after white space) JSON.
    #[default]
    Auto,
    /// Avro single-object encoding only.
    Avro,
    /// JSON only.
    Json,
}

impl Encoding {
    /// The encoding of one record, where this setting allows it.
    fn of(self, record: &[u8]) -> Option<Self> {
        let found = if record.starts_with(&schema::SINGLE_OBJECT_MARKER) {
            Self::Avro
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
                "the first bytes are neither those of avro single-object encoding nor of a json object"
            }
            Self::Avro => "the first bytes are not those of avro single-object encoding, which is configured",
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
}

impl RequestDecoder {
    /// A decoder for records in this encoding, within these limits.
    pub fn new(encoding: Encoding, limits: DecodeLimits) -> Self {
        Self { encoding, limits, buffers: avro::IdBuffers::default() }
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

    /// Reads one record as it was written; [`DecodeLimits::admit`] checks what it says.
    ///
    /// # Errors
    /// As for [`RequestDecoder::decode`].
    pub fn read<'a>(&'a mut self, payload: &'a [u8]) -> Result<RequestMessage<'a>, DecodeError> {
        self.limits.check_size(payload)?;
        match self.encoding.of(payload) {
            Some(Encoding::Json) => json::read(payload, &self.limits, &mut self.buffers),
            Some(_) => avro::read_single_object(payload, &self.limits, &mut self.buffers),
            None => Err(DecodeError::new(ErrorCode::UnknownEncoding, self.encoding.expected())),
        }
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
        RequestEncoding::Json => json::write(message, out)?,
    }
    Ok(())
}
