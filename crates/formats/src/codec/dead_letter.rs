//! A refused record on its way to the dead-letter topic (`schemas/dead_letter.avsc`).

use super::frame::Payload;
use kvset_core::request::refusal::DecodeError;
use xxhash_rust::xxh3::xxh3_64;

/// The record that was refused, as it was read.
#[derive(Debug, Clone, Copy)]
pub struct SourceRecord<'a> {
    /// Topic it was read from.
    pub topic: &'a str,
    /// Partition it was read from.
    pub partition: i32,
    /// Its offset in that partition.
    pub offset: i64,
    /// Its broker time stamp, in milliseconds since the epoch.
    pub timestamp_ms: Option<i64>,
    /// Its key, if it has one.
    pub key: Option<&'a [u8]>,
    /// Its value; none for a tombstone.
    pub value: Option<&'a [u8]>,
    /// The value of its header [`SCHEMA_HEADER`](super::SCHEMA_HEADER), if there is one.
    pub schema_header: Option<&'a [u8]>,
}

impl<'a> SourceRecord<'a> {
    /// Its value as decoders take it; empty for a tombstone.
    pub fn payload(&self) -> Payload<'a> {
        Payload { bytes: self.value.unwrap_or_default(), schema_header: self.schema_header }
    }
}

/// What refused it.
#[derive(Debug, Clone, Copy)]
pub struct Provenance<'a> {
    /// Version of this program.
    pub version: &'a str,
    /// Fingerprint of the configuration in force.
    pub fingerprint: &'a str,
}

/// A record for the dead-letter topic: the original bytes, and headers that say why.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The original key.
    pub key: Option<Vec<u8>>,
    /// The original value, untouched; none in a redacted letter.
    pub value: Option<Vec<u8>>,
    /// Header names and texts, in the order of `schemas/dead_letter.avsc`.
    pub headers: Vec<(&'static str, String)>,
}

impl std::fmt::Debug for DeadLetter {
    /// Shows sizes in place of the payload, which may hold what a log must not.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadLetter")
            .field("key_bytes", &self.key.as_ref().map(Vec::len))
            .field("value_bytes", &self.value.as_ref().map(Vec::len))
            .field("headers", &self.headers)
            .finish()
    }
}

/// What a dead letter holds of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LetterContent {
    /// Key and value as they came.
    Raw,
    /// Where the record is, the size and the hash of its value.
    #[default]
    Redacted,
    /// No dead letter is written.
    Off,
}

/// What a letter's headers, and what Kafka adds, take at most, in bytes: so much room is left for them.
const HEADER_BYTES: usize = 4096;

/// Longest detail in a header, in characters.
const MAX_DETAIL_CHARS: usize = 256;

impl DeadLetter {
    /// The header that has the hash of the record.
    pub const HASH: &str = "kvset_value_xxh3";
    /// The header that has the offset of the last record, where a letter is of several.
    pub const LAST_OFFSET: &str = "kvset_last_offset";

    /// Addresses a refused record to the dead-letter topic.
    pub fn new(record: SourceRecord<'_>, error: &DecodeError, by: Provenance<'_>) -> Self {
        let mut headers = vec![
            ("kvset_topic", record.topic.to_owned()),
            ("kvset_partition", record.partition.to_string()),
            ("kvset_offset", record.offset.to_string()),
        ];
        headers.extend(record.timestamp_ms.map(|ms| ("kvset_timestamp_ms", ms.to_string())));
        headers.extend([
            ("kvset_error_code", error.code().name().to_owned()),
            ("kvset_error_detail", error.detail().chars().take(MAX_DETAIL_CHARS).collect()),
            ("kvset_version", by.version.to_owned()),
            ("kvset_fingerprint", by.fingerprint.to_owned()),
        ]);
        Self { key: record.key.map(<[u8]>::to_vec), value: record.value.map(<[u8]>::to_vec), headers }
    }

    /// The record as it came where that makes no larger letter than so many bytes; else without its value, which its
    /// size and hash stand for, and without a key that is too large itself.
    pub fn within(
        max_bytes: usize,
        record: SourceRecord<'_>,
        error: &DecodeError,
        by: Provenance<'_>,
    ) -> Self {
        let size = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let room = max_bytes.saturating_sub(HEADER_BYTES);
        if size(record.key).saturating_add(size(record.value)) <= room {
            return Self::new(record, error, by);
        }
        let key = record.key.filter(|key| key.len() <= room);
        Self { key: key.map(<[u8]>::to_vec), ..Self::redacted(record, error, by) }
    }

    /// The same without key and value: their place is taken by the value's size and hash, which find the
    /// record again where its log is still kept, and give nothing of it away.
    pub fn redacted(record: SourceRecord<'_>, error: &DecodeError, by: Provenance<'_>) -> Self {
        let mut letter = Self::new(SourceRecord { key: None, value: None, ..record }, error, by);
        letter.headers.extend(record.value.into_iter().flat_map(Self::stand_in));
        letter
    }

    /// The headers that stand for a value that a letter leaves out: its size and its hash.
    pub(crate) fn stand_in(value: &[u8]) -> [(&'static str, String); 2] {
        let hash = format!("{:016x}", xxh3_64(value));
        [("kvset_value_bytes", value.len().to_string()), (Self::HASH, hash)]
    }
}
