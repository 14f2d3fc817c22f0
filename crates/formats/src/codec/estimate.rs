//! Records of the estimates topic: value, key and partition.

use super::datum::put_datum;
use super::estimate_error::EstimateError;
use super::frame::{FRAME_HEADER, FRAME_MARKER, SchemaId};
use super::schema;
use super::whole::read_whole;
use kvset_core::estimate::{Estimate, SCHEMA_VERSION};
use kvset_core::units::window::WindowKind;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::num::NonZeroU32;

/// How estimates are written. Readers recognise each record by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EstimateEncoding {
    /// One JSON object, fields in the order of the schema.
    #[default]
    Json,
    /// Avro single-object encoding of `schemas/capacity_estimate.avsc`.
    Avro,
    /// The same datum in Confluent's wire format, under the id that the schema has in a registry.
    ConfluentAvro(SchemaId),
}

/// How much of an estimate its record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EstimateDetail {
    /// What to act on and to judge it by, and what was requested by name: at most 2 KB by default.
    #[default]
    Summary,
    /// Everything: the requirement distribution and the whole curve, too.
    Full,
}

impl EstimateDetail {
    /// The estimate as its record holds it.
    pub fn of(self, estimate: &Estimate) -> Cow<'_, Estimate> {
        match self {
            Self::Summary => Cow::Owned(estimate.summary()),
            Self::Full => Cow::Borrowed(estimate),
        }
    }
}

/// The headers of an estimate's record, by which a consumer passes records over without reading them.
pub fn estimate_headers(estimate: &Estimate, encoding: EstimateEncoding) -> Vec<(&'static str, String)> {
    let content_type = match encoding {
        EstimateEncoding::Json => "application/json",
        EstimateEncoding::Avro => "application/avro",
        EstimateEncoding::ConfluentAvro(_) => "application/vnd.confluent.avro",
    };
    vec![
        ("content-type", content_type.to_owned()),
        ("kvset_schema_version", estimate.schema_version.to_string()),
        ("kvset_window", estimate.window.to_string()),
        ("kvset_act_on", estimate.act_on.to_string()),
    ]
}

/// Appends an estimate to `out`. Equal estimates give equal bytes.
///
/// # Errors
/// [`EstimateError::Unrepresentable`] when a number is too large for an Avro long or not finite.
pub fn encode_estimate(
    estimate: &Estimate,
    encoding: EstimateEncoding,
    out: &mut Vec<u8>,
) -> Result<(), EstimateError> {
    let begin = out.len();
    put_header(encoding, out);
    let datum = put_datum(estimate, schema::capacity_estimate_in_full(), "estimate", out);
    if datum.is_err() || encoding == EstimateEncoding::Json {
        out.truncate(begin);
    }
    // A number that one encoding refuses, the other refuses.
    datum?;
    match encoding {
        EstimateEncoding::Json => {
            serde_json::to_writer(out, estimate).map_err(|_| unrepresentable("estimate"))
        }
        EstimateEncoding::Avro | EstimateEncoding::ConfluentAvro(_) => Ok(()),
    }
}

/// What comes before the datum; before JSON nothing.
fn put_header(encoding: EstimateEncoding, out: &mut Vec<u8>) {
    match encoding {
        EstimateEncoding::Json => {}
        EstimateEncoding::Avro => {
            out.extend_from_slice(&schema::SINGLE_OBJECT_MARKER);
            out.extend_from_slice(&schema::CAPACITY_ESTIMATE_V1);
        }
        EstimateEncoding::ConfluentAvro(id) => id.put_header(out),
    }
}

/// Reads an estimate in any encoding. Of Confluent's wire format the id is passed over: what it stands for only the
/// registry knows, and the estimates topic has one writer, which uses `schemas/capacity_estimate.avsc`.
///
/// # Errors
/// Any but [`EstimateError::Unrepresentable`].
pub fn decode_estimate(record: &[u8]) -> Result<Estimate, EstimateError> {
    if record.starts_with(&schema::SINGLE_OBJECT_MARKER) {
        return decode_avro(record);
    }
    if record.first() == Some(&FRAME_MARKER) {
        let datum = record.get(FRAME_HEADER..);
        let datum = datum.ok_or_else(|| undecodable("avro cut off inside the header"))?;
        return decode_datum(datum);
    }
    if record.trim_ascii_start().first() != Some(&b'{') {
        return Err(EstimateError::UnknownEncoding);
    }
    let estimate = serde_json::from_slice(record).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        other_version(record)
            .unwrap_or_else(|| undecodable(format!("json that does not fit at line {line} column {column}")))
    })?;
    let estimate = of_this_version(estimate)?;
    // JSON can hold numbers that no estimate has.
    let datum = put_datum(&estimate, schema::capacity_estimate_in_full(), "estimate", &mut Vec::new());
    datum.map_err(|_| undecodable("json with a number that is too large"))?;
    Ok(estimate)
}

fn decode_avro(record: &[u8]) -> Result<Estimate, EstimateError> {
    let fingerprint = schema::single_object_fingerprint(record)
        .ok_or_else(|| undecodable("avro cut off inside the header"))?;
    if fingerprint != schema::CAPACITY_ESTIMATE_V1 {
        return Err(EstimateError::UnknownSchema { fingerprint: u64::from_le_bytes(fingerprint) });
    }
    decode_datum(&record[schema::SINGLE_OBJECT_HEADER..])
}

fn decode_datum(datum: &[u8]) -> Result<Estimate, EstimateError> {
    let schema = schema::capacity_estimate();
    let value = read_whole(schema, schema, datum).map_err(|reason| undecodable(format!("avro: {reason}")))?;
    let json = Json::try_from(value).map_err(|_| undecodable("a number that is not finite"))?;
    let estimate = serde_json::from_value(json);
    of_this_version(estimate.map_err(|_| undecodable("a value outside its field's range"))?)
}

/// Refuses what says that it is of another version, whatever else fits.
fn of_this_version(estimate: Estimate) -> Result<Estimate, EstimateError> {
    match estimate.schema_version {
        SCHEMA_VERSION => Ok(estimate),
        found => Err(EstimateError::OtherVersion { found }),
    }
}

/// The refusal of JSON that does not fit because it is of another version.
fn other_version(record: &[u8]) -> Option<EstimateError> {
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: u32,
    }
    let Versioned { schema_version: found } = serde_json::from_slice(record).ok()?;
    (found != SCHEMA_VERSION).then_some(EstimateError::OtherVersion { found })
}

fn undecodable(what: impl Into<String>) -> EstimateError {
    EstimateError::Undecodable { what: what.into() }
}

fn unrepresentable(field: &str) -> EstimateError {
    EstimateError::Unrepresentable { field: field.to_owned() }
}

/// What identifies an estimate on its topic: `<window>|<end_ms>|<partition>|<pool>`, for example
/// `tumbling:5m|1700000100000|3|llama-70b/eu`.
///
/// Names of windows and numbers hold no `|` and the pool comes last, so nothing needs escaping and any UTF-8 name reads
/// back. Compaction keeps one record per pool, window kind and window end: a final estimate replaces the provisional
/// ones before it. A pool that is in two partitions of the input, by mistake, has a record of each: without the
/// partition, two instances would publish two final estimates under one key, and compaction would keep either.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EstimateKey {
    /// Kind of window.
    pub window: WindowKind,
    /// End of the window, in milliseconds of event time.
    pub end_ms: i64,
    /// The input partition whose records are counted.
    pub partition: i32,
    /// The pool.
    pub pool: String,
}

impl EstimateKey {
    /// The key of this estimate's record.
    pub fn of(estimate: &Estimate) -> Self {
        let Estimate { window, end_ms, partition, .. } = *estimate;
        Self { window, end_ms, partition, pool: estimate.pool.clone() }
    }

    /// The record key.
    pub fn to_bytes(&self) -> Vec<u8> {
        format!("{}|{}|{}|{}", self.window, self.end_ms, self.partition, self.pool).into_bytes()
    }

    /// Reads a record key, `<window>|<end_ms>|<partition>|<pool>` in UTF-8; `None` of one that [`Self::to_bytes`] did
    /// not write.
    pub fn from_bytes(key: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(key).ok()?.splitn(4, '|');
        let parsed = Self {
            window: parts.next()?.parse().ok()?,
            end_ms: parts.next()?.parse().ok()?,
            partition: parts.next()?.parse().ok()?,
            pool: parts.next()?.to_owned(),
        };
        // One spelling only, or compaction would keep two records for one window.
        (parsed.to_bytes() == key).then_some(parsed)
    }
}

/// The partition for a pool's estimates: the one that Kafka's default partitioner (Java, and
/// librdkafka's `murmur2_random`) picks for the pool's name as key.
///
/// The record key holds the window too, so left to the partitioner a pool's windows would scatter;
/// with this, consumers find each pool whole in one partition, the same as in a request topic of
/// as many partitions.
pub fn pool_partition(pool: &str, partitions: NonZeroU32) -> i32 {
    let positive = murmur2(pool.as_bytes()) & 0x7fff_ffff;
    // Less than 2^31, as the hash is.
    (positive % partitions.get()) as i32
}

/// MurmurHash2, 32 bits, with the seed of Kafka's `Utils.murmur2`.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    // Kafka's lengths are 32 bits; a longer key could not be sent.
    let mut hash = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let k = u32::from_le_bytes(*word).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (k ^ (k >> 24)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_equals_kafkas_published_cases() {
        // The cases of Kafka's UtilsTest.testMurmur2.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }
}
