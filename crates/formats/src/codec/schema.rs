//! The published schemas, compiled in, and the fingerprints that name them on the wire.

use apache_avro::Schema;
use apache_avro::schema::{ArraySchema, Name, UnionSchema};
use std::collections::HashMap;
use std::sync::LazyLock;

/// `schemas/request_event.avsc`.
pub const REQUEST_EVENT: &str = include_str!("../../schemas/request_event.avsc");
/// `schemas/capacity_estimate.avsc`.
pub const CAPACITY_ESTIMATE: &str = include_str!("../../schemas/capacity_estimate.avsc");
/// `schemas/raw_request.avsc`.
pub const RAW_REQUEST: &str = include_str!("../../schemas/raw_request.avsc");
/// `schemas/dead_letter.avsc`.
pub const DEAD_LETTER: &str = include_str!("../../schemas/dead_letter.avsc");

/// The two bytes that begin Avro single-object encoding; the schema's fingerprint follows.
pub(super) const SINGLE_OBJECT_MARKER: [u8; 2] = [0xC3, 0x01];
/// Marker and fingerprint: where the datum begins.
pub(super) const SINGLE_OBJECT_HEADER: usize = 10;

/// CRC-64-AVRO fingerprint, little-endian as it travels, of version 1 of the request event.
///
/// Frozen: `avro.rs` reads exactly this schema's layout. A changed schema gets a constant, a reader and a fixture of
/// its own alongside this one.
pub const REQUEST_EVENT_V1: [u8; 8] = [0x3c, 0x07, 0xb0, 0x1f, 0x33, 0x67, 0xc8, 0x83];

/// The same schema as apache-avro for Rust (to 0.22 at least) fingerprints it: its canonical form
/// keeps a primitive with a logical type as `{"type":"long"}` where the specification, and with it
/// Java and Python, writes `"long"`. Read so that Rust producers need not know; never written.
pub const REQUEST_EVENT_V1_RUST: [u8; 8] = [0xfb, 0xff, 0x0d, 0x31, 0xcf, 0x8c, 0x91, 0xb3];

/// CRC-64-AVRO fingerprint, little-endian as it travels, of version 1 of the raw request.
pub const RAW_REQUEST_V1: [u8; 8] = [0x41, 0xf0, 0x31, 0x41, 0xa8, 0x42, 0xa0, 0xd2];

/// The same schema as apache-avro for Rust fingerprints it; see [`REQUEST_EVENT_V1_RUST`].
pub const RAW_REQUEST_V1_RUST: [u8; 8] = [0xc9, 0x8b, 0xc8, 0x7f, 0x20, 0x8b, 0x4a, 0xaf];

/// CRC-64-AVRO fingerprint, little-endian as it travels, of version 1 of the capacity estimate.
pub const CAPACITY_ESTIMATE_V1: [u8; 8] = [0xa9, 0xdc, 0x26, 0x06, 0x1f, 0x6f, 0x8f, 0xa2];

/// The most that apache-avro may allocate for one value, array or container block, in bytes.
///
/// The limit is the library's and holds for the whole process; its own default is 512 MiB.
const MAX_AVRO_ALLOCATION: usize = 64 << 20;

/// The parsed request event schema.
pub(super) fn request_event() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| parse(REQUEST_EVENT));
    &SCHEMA
}

/// The parsed capacity estimate schema.
pub(super) fn capacity_estimate() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| parse(CAPACITY_ESTIMATE));
    &SCHEMA
}

/// The same with each named type in place of its name, for who writes field by field.
pub(super) fn capacity_estimate_in_full() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| in_full(capacity_estimate(), &mut HashMap::new()));
    &SCHEMA
}

/// The schema with the records that it names in place of their names.
fn in_full(schema: &Schema, named: &mut HashMap<Name, Schema>) -> Schema {
    match schema {
        Schema::Ref { name } => named.get(name).unwrap_or(schema).clone(),
        Schema::Array(array) => {
            Schema::Array(ArraySchema { items: Box::new(in_full(&array.items, named)), ..array.clone() })
        }
        Schema::Record(record) => {
            let mut record = record.clone();
            record.fields.iter_mut().for_each(|field| field.schema = in_full(&field.schema, named));
            named.insert(record.name.clone(), Schema::Record(record.clone()));
            Schema::Record(record)
        }
        Schema::Union(union) => {
            let variants = union.variants().iter().map(|variant| in_full(variant, named)).collect();
            // As many branches of as many kinds as before.
            UnionSchema::new(variants).map_or_else(|_| schema.clone(), Schema::Union)
        }
        other => other.clone(),
    }
}

/// The parsed raw request schema.
pub(super) fn raw_request() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| parse(RAW_REQUEST));
    &SCHEMA
}

#[allow(clippy::expect_used, reason = "the text is compiled in and a test parses it: no input reaches this")]
fn parse(text: &str) -> Schema {
    apache_avro::util::max_allocation_bytes(MAX_AVRO_ALLOCATION);
    Schema::parse_str(text).expect("the schemas compiled into this program parse")
}

/// The specification's canonical form: apache-avro's, with primitives in their simple form.
pub(super) fn canonical_form(schema: &Schema) -> String {
    schema.canonical_form().replace(r#"{"type":"long"}"#, r#""long""#)
}

/// The fingerprint a record in single-object encoding carries; `None` for anything else.
pub(super) fn single_object_fingerprint(record: &[u8]) -> Option<[u8; 8]> {
    record.strip_prefix(&SINGLE_OBJECT_MARKER)?.first_chunk::<8>().copied()
}

/// Whether a fingerprint in single-object encoding is that of the request event's schema.
#[inline]
pub(super) fn is_of_request(fingerprint: [u8; 8]) -> bool {
    matches!(fingerprint, REQUEST_EVENT_V1 | REQUEST_EVENT_V1_RUST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apache_avro::rabin::Rabin;

    /// CRC-64-AVRO as the Avro specification gives it, bit by bit.
    fn crc_64_avro(text: &str) -> [u8; 8] {
        const EMPTY: u64 = 0xc15d_213a_a4d7_a795;
        let shift = |crc: u64| (crc >> 1) ^ (EMPTY & (crc & 1).wrapping_neg());
        let step = |crc: u64, byte: u8| (0..8).fold(crc ^ u64::from(byte), |crc, _| shift(crc));
        text.bytes().fold(EMPTY, step).to_le_bytes()
    }

    #[test]
    fn fingerprints_are_those_of_the_schema_files() {
        for (schema, fingerprint) in [
            (request_event(), REQUEST_EVENT_V1),
            (raw_request(), RAW_REQUEST_V1),
            (capacity_estimate(), CAPACITY_ESTIMATE_V1),
        ] {
            assert_eq!(crc_64_avro(&canonical_form(schema)), fingerprint);
        }
        assert_eq!(request_event().fingerprint::<Rabin>().bytes, REQUEST_EVENT_V1_RUST);
        assert_eq!(raw_request().fingerprint::<Rabin>().bytes, RAW_REQUEST_V1_RUST);
    }

    #[test]
    fn fingerprints_do_not_hang_on_documentation_defaults_or_logical_types() {
        let canonical = canonical_form(request_event());
        for stripped in ["doc", "default", "logicalType"] {
            assert!(!canonical.contains(stripped), "the canonical form keeps {stripped}");
        }
    }
}
