//! Why an estimate cannot be written or read.

use kvset_core::estimate::SCHEMA_VERSION;

/// Why an estimate cannot be written or read. No text quotes a payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// A number does not fit the schema: above 2^63-1, or not finite.
    #[error("estimate field `{field}` does not fit its schema: expected a finite number below 2^63")]
    Unrepresentable {
        /// Name of the field in the schema.
        field: String,
    },
    /// None of the encodings.
    #[error("no estimate: the first bytes are neither those of avro nor of a json object")]
    UnknownEncoding,
    /// Avro of a schema this program does not know.
    #[error(
        "no reader for estimates of the avro schema with fingerprint {fingerprint:016x}, only for version {SCHEMA_VERSION} \
         of schemas/capacity_estimate.avsc: read them with the kvset that wrote them"
    )]
    UnknownSchema {
        /// CRC-64-AVRO of the writer's schema.
        fingerprint: u64,
    },
    /// A record of another version than this program reads.
    #[error(
        "the estimate is of schema version {found} and this program reads version {SCHEMA_VERSION}: read it with the kvset \
         that wrote it"
    )]
    OtherVersion {
        /// The record's version.
        found: u32,
    },
    /// The bytes are not what the encoding demands.
    #[error("no estimate: {what}")]
    Undecodable {
        /// What is wrong with them.
        what: String,
    },
}
