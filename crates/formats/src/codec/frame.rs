//! What stands around a record's content where producers register schemas: which schema it names, and where the
//! content begins.
//!
//! | written by | form |
//! |---|---|
//! | Confluent's serializers | a zero byte and four bytes of id before the content |
//! | the same with `HeaderSchemaIdSerializer` | the header `__value_schema_id`: a zero byte and an id, or a one and a GUID |
//! | AWS Glue's serializers | a three, a byte of compression and 16 bytes of the schema version's id before the content |
//!
//! Confluent's are read in `confluentinc/schema-registry` (`io.confluent.kafka.serializers.schema.id.SchemaId`),
//! Glue's in `awslabs/aws-glue-schema-registry` (`AWSSchemaRegistryConstants`).

use super::schema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a record in Confluent's wire format begins with.
pub(super) const FRAME_MARKER: u8 = 0;
/// Marker and schema id: where the content begins.
pub(super) const FRAME_HEADER: usize = 5;

/// What a record in the format of AWS Glue's serializers begins with.
const GLUE_MARKER: u8 = 3;
/// Marker, compression and the id of the schema version.
const GLUE_HEADER: usize = 18;
/// Content as it is, and content that zlib compressed.
const GLUE_COMPRESSIONS: [(u8, &str); 2] = [(0, "not compressed"), (5, "compressed with zlib")];

/// A schema's number in a registry. It never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SchemaId(pub u32);

impl fmt::Display for SchemaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SchemaId {
    /// The id a framed record carries; `None` for anything else.
    pub fn of_record(record: &[u8]) -> Option<Self> {
        let (id, _) = record.strip_prefix(&[FRAME_MARKER])?.split_first_chunk()?;
        Some(Self(u32::from_be_bytes(*id)))
    }

    /// Appends what a framed record begins with.
    pub(super) fn put_header(self, out: &mut Vec<u8>) {
        out.push(FRAME_MARKER);
        out.extend_from_slice(&self.0.to_be_bytes());
    }
}

/// What a registry finds a schema by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SchemaRef {
    /// Its number.
    Id(SchemaId),
    /// Its name in every registry, which is made of what it says.
    Guid(u128),
}

impl SchemaRef {
    /// Reads the value of the header [`SCHEMA_HEADER`]; `None` where it is none of Confluent's.
    fn of_header(header: &[u8]) -> Option<Self> {
        // Indexes of a Protobuf message may follow.
        match header.split_first()? {
            (0, id) => Some(Self::Id(SchemaId(u32::from_be_bytes(*id.first_chunk()?)))),
            (1, guid) => Some(Self::Guid(u128::from_be_bytes(*guid.first_chunk()?))),
            _ => None,
        }
    }
}

impl fmt::Display for SchemaRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "id {id}"),
            Self::Guid(guid) => write!(f, "GUID {}", uuid(*guid)),
        }
    }
}

/// A UUID in the usual groups.
pub fn uuid(id: u128) -> String {
    let digits = format!("{id:032x}");
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &digits[group]).join("-")
}

/// The header in which a producer may name the schema of a record's value.
pub const SCHEMA_HEADER: &str = "__value_schema_id";

/// Whether a value says what it is written in, whatever a header says: JSON does, and so does the request event's own
/// schema in single-object encoding. No other content of ours begins as they do.
#[inline]
pub fn names_own_schema(value: &[u8]) -> bool {
    schema::single_object_fingerprint(value).is_some_and(schema::is_of_request)
        || value.trim_ascii_start().first() == Some(&b'{')
}

/// A record's value, with the header that may name its schema.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    /// The value; empty for a tombstone.
    pub bytes: &'a [u8],
    /// The value of the header [`SCHEMA_HEADER`], if there is one.
    pub schema_header: Option<&'a [u8]>,
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Payload<'a> {
    fn from(bytes: &'a T) -> Self {
        Self { bytes: bytes.as_ref(), schema_header: None }
    }
}

/// What stands around the content of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// Nothing.
    Absent,
    /// The schema that the content, which begins there, was written with.
    Registered { schema: SchemaRef, start: usize },
    /// The marker of such a frame, and too few bytes.
    CutOff,
    /// A frame of AWS Glue's serializers, and how its content is compressed.
    Glue { version: u128, compression: &'static str },
}

impl Frame {
    /// What stands around this payload's content.
    #[inline]
    pub(super) fn of(payload: Payload<'_>) -> Self {
        let Payload { bytes, schema_header } = payload;
        if let Some(schema) = schema_header.and_then(SchemaRef::of_header)
            && !names_own_schema(bytes)
        {
            return Self::Registered { schema, start: 0 };
        }
        match bytes.first() {
            Some(&FRAME_MARKER) => match SchemaId::of_record(bytes) {
                Some(id) => Self::Registered { schema: SchemaRef::Id(id), start: FRAME_HEADER },
                None => Self::CutOff,
            },
            Some(&GLUE_MARKER) => Self::glue(bytes).unwrap_or(Self::Absent),
            _ => Self::Absent,
        }
    }

    fn glue(bytes: &[u8]) -> Option<Self> {
        let (head, _) = bytes.split_first_chunk::<GLUE_HEADER>()?;
        let (_, compression) = GLUE_COMPRESSIONS.into_iter().find(|(byte, _)| *byte == head[1])?;
        Some(Self::Glue { version: u128::from_be_bytes(*head.last_chunk()?), compression })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: &[u8], schema_header: Option<&[u8]>) -> Frame {
        Frame::of(Payload { bytes, schema_header })
    }

    fn registered(schema: SchemaRef, start: usize) -> Frame {
        Frame::Registered { schema, start }
    }

    #[test]
    fn a_frame_is_told_by_its_first_bytes_or_by_a_header() {
        let guid: Vec<u8> = std::iter::once(1).chain(0xa0..0xb0).collect();
        let by_guid = SchemaRef::Guid(0xa0a1_a2a3_a4a5_a6a7_a8a9_aaab_acad_aeaf);
        let by_id = SchemaRef::Id(SchemaId(258));
        assert_eq!(frame(&[0, 0, 0, 1, 2, 9], None), registered(by_id, 5));
        assert_eq!(frame(&[0, 0, 0, 1], None), Frame::CutOff);
        assert_eq!(
            frame(&[0, 9], Some(&guid)),
            registered(by_guid, 0),
            "the header goes before the first byte"
        );
        assert_eq!(frame(&[9], Some(&[0, 0, 0, 1, 2])), registered(by_id, 0));
        assert_eq!(
            frame(&[9], Some(&[&guid[..], &[0]].concat())),
            registered(by_guid, 0),
            "and Protobuf's indexes"
        );
        assert_eq!(frame(b" {}", Some(&guid)), Frame::Absent, "JSON needs no schema");
        for other in [&[][..], &[0], &[1, 2], &[7; 17]] {
            assert_eq!(frame(&[9], Some(other)), Frame::Absent, "{other:?}");
        }
        assert_eq!(frame(&[], None), Frame::Absent);
        assert_eq!(by_guid.to_string(), "GUID a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
    }

    #[test]
    fn frames_of_glue_are_told_by_marker_compression_and_length() {
        let mut bytes = vec![3, 5];
        bytes.extend(0..16);
        let Frame::Glue { version, compression } = frame(&bytes, None) else { panic!("a frame of Glue's") };
        assert_eq!(uuid(version), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(compression, "compressed with zlib");
        bytes[1] = 1;
        assert_eq!(frame(&bytes, None), Frame::Absent, "no such compression");
        assert_eq!(frame(&[3, 0, 7], None), Frame::Absent, "too short");
    }
}
