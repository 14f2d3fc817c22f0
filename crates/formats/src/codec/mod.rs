//! Bytes to typed events and estimates and back: Avro, JSON, dead letters.
//!
//! Two promises hold for everything that decodes here: no input, however hostile, makes it panic
//! or allocate beyond what the input's own size (and the configured limits) justify; and no error
//! text ever quotes any part of a payload.

mod avro;
mod container;
mod datum;
mod dead_letter;

mod estimate;
mod estimate_error;
mod frame;
pub(crate) mod integers;
mod json;
mod json_number;
mod limits;
pub(crate) mod message;
mod raw;
mod repack;
mod request;
mod resolved;
pub mod schema;
mod whole;
mod wire;
mod writer;

pub use container::{CONTAINER_MAGIC, ContainerError, ContainerLines, ContainerReader};
pub use dead_letter::{DeadLetter, LetterContent, Provenance, SourceRecord};
pub use estimate::{
    EstimateDetail, EstimateEncoding, EstimateKey, decode_estimate, encode_estimate, estimate_headers,
    pool_partition,
};
pub use estimate_error::EstimateError;
pub use frame::{Payload, SCHEMA_HEADER, SchemaId, SchemaRef, names_own_schema, uuid};
pub use kvset_core::request::refusal::{DecodeError, ErrorCode};
pub use limits::{DecodeLimits, check_page_count, count};
pub use message::{Decoded, RequestMessage};
pub use raw::{RawPrompt, RawRequest, encode_raw_request, read_raw_request};
pub use repack::Repacker;
pub use request::{Encoding, RequestDecoder, RequestEncoding, encode_request};
pub use writer::{LookupError, WriterSchema, WriterSchemas};
