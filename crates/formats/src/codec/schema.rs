//! The published schemas, compiled in, and the fingerprints that name them on the wire.

use apache_avro::Schema;
use apache_avro::schema::{ArraySchema, Name, UnionSchema};
use std::collections::HashMap;
use std::sync::LazyLock;

/// `schemas/request_event.avsc`.
pub const REQUEST_EVENT: &str = include_str!("../../schemas/request_event.avsc");
/// `schemas/history/request_event.v1.avsc`: read, never written.
pub const REQUEST_EVENT_OF_V1: &str = include_str!("../../schemas/history/request_event.v1.avsc");
/// `schemas/history/request_event.v2.avsc`: read, never written.
pub const REQUEST_EVENT_OF_V2: &str = include_str!("../../schemas/history/request_event.v2.avsc");
/// `schemas/history/request_event.v3.avsc`: read, and written where an event says no more than this version can.
pub const REQUEST_EVENT_OF_V3: &str = include_str!("../../schemas/history/request_event.v3.avsc");
/// `schemas/history/request_event.v4.avsc`: read, never written.
pub const REQUEST_EVENT_OF_V4: &str = include_str!("../../schemas/history/request_event.v4.avsc");
/// `schemas/history/request_event.v5.avsc`: read, and written where an event says no more than this version can.
pub const REQUEST_EVENT_OF_V5: &str = include_str!("../../schemas/history/request_event.v5.avsc");
/// `schemas/history/request_event.v6.avsc`: read, and written where an event says no more than this version can.
pub const REQUEST_EVENT_OF_V6: &str = include_str!("../../schemas/history/request_event.v6.avsc");
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
/// Frozen: `avro.rs` reads exactly this schema's layout, and that of each later version. A changed schema gets a
/// constant, a [`EventVersion`] and a fixture of its own alongside this one.
pub const REQUEST_EVENT_V1: [u8; 8] = [0x6a, 0xc8, 0xe1, 0x25, 0xce, 0x8d, 0xb4, 0x55];

/// The same schema as apache-avro for Rust (to 0.22 at least) fingerprints it: its canonical form
/// keeps a primitive with a logical type as `{"type":"long"}` where the specification, and with it
/// Java and Python, writes `"long"`. Read so that Rust producers need not know; never written.
pub const REQUEST_EVENT_V1_RUST: [u8; 8] = [0x1a, 0xe2, 0xd1, 0x6c, 0xbc, 0x14, 0x8c, 0x3e];

/// The fingerprint of version 2 of the request event, which adds whether its ids are declared chained.
pub const REQUEST_EVENT_V2: [u8; 8] = [0x38, 0x7a, 0x2a, 0x1e, 0x9b, 0x41, 0x8c, 0x94];

/// Version 2 as apache-avro for Rust fingerprints it.
pub const REQUEST_EVENT_V2_RUST: [u8; 8] = [0xe0, 0x36, 0xec, 0xaa, 0x83, 0xb8, 0xa1, 0x76];

/// The fingerprint of version 3 of the request event, which adds what was measured, where and for whom.
pub const REQUEST_EVENT_V3: [u8; 8] = [0xd9, 0x57, 0xbc, 0x29, 0xe4, 0xd6, 0x99, 0xc2];

/// Version 3 as apache-avro for Rust fingerprints it.
pub const REQUEST_EVENT_V3_RUST: [u8; 8] = [0xba, 0xf8, 0x02, 0xa2, 0xe4, 0x64, 0x7b, 0xab];

/// The fingerprint of version 4 of the request event, which adds two fields that are reserved now.
pub const REQUEST_EVENT_V4: [u8; 8] = [0xf9, 0xdb, 0xa4, 0x2f, 0x68, 0xd8, 0xc0, 0xf0];

/// Version 4 as apache-avro for Rust fingerprints it.
pub const REQUEST_EVENT_V4_RUST: [u8; 8] = [0xc2, 0xfc, 0xb5, 0xb8, 0x4a, 0xda, 0xc1, 0x10];

/// The fingerprint of version 5 of the request event, which adds whether a usage leaves the cached tokens out.
pub const REQUEST_EVENT_V5: [u8; 8] = [0xae, 0xf6, 0xa1, 0xfd, 0xbf, 0x21, 0x02, 0xfb];

/// Version 5 as apache-avro for Rust fingerprints it.
pub const REQUEST_EVENT_V5_RUST: [u8; 8] = [0xda, 0xdc, 0x54, 0x97, 0x02, 0xae, 0x97, 0x67];

/// The fingerprint of version 6 of the request event, which adds how its ids were made.
pub const REQUEST_EVENT_V6: [u8; 8] = [0xc2, 0x4a, 0x0b, 0x02, 0x1a, 0x76, 0xa6, 0xb8];

/// Version 6 as apache-avro for Rust fingerprints it.
pub const REQUEST_EVENT_V6_RUST: [u8; 8] = [0xe6, 0x35, 0x29, 0x6f, 0x17, 0x6c, 0xb2, 0x7d];

/// The fingerprint of version 7 of the request event, which adds how long its pages are to be kept.
pub const REQUEST_EVENT_V7: [u8; 8] = [0xa3, 0x8b, 0x14, 0xa6, 0xb8, 0x39, 0x99, 0xfc];

/// Version 7 as apache-avro for Rust fingerprints it.
pub const REQUEST_EVENT_V7_RUST: [u8; 8] = [0x35, 0x1c, 0xf5, 0xad, 0x97, 0x8b, 0x55, 0xa8];

/// CRC-64-AVRO fingerprint, little-endian as it travels, of version 1 of the raw request.
pub const RAW_REQUEST_V1: [u8; 8] = [0x41, 0xf0, 0x31, 0x41, 0xa8, 0x42, 0xa0, 0xd2];

/// The same schema as apache-avro for Rust fingerprints it; see [`REQUEST_EVENT_V1_RUST`].
pub const RAW_REQUEST_V1_RUST: [u8; 8] = [0xc9, 0x8b, 0xc8, 0x7f, 0x20, 0x8b, 0x4a, 0xaf];
/// The most that apache-avro may allocate for one value, array or container block, in bytes.
///
/// The limit is the library's and holds for the whole process; its own default is 512 MiB.
const MAX_AVRO_ALLOCATION: usize = 64 << 20;

/// Versions of the request event. Each has the fields of the one before, and its own behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventVersion {
    V1,
    V2,
    V3,
    V4,
    V5,
    V6,
    V7,
}

impl EventVersion {
    pub(super) const ALL: [Self; 7] = [Self::V1, Self::V2, Self::V3, Self::V4, Self::V5, Self::V6, Self::V7];

    /// The version that a record in single-object encoding names.
    #[inline]
    pub(super) fn of(fingerprint: [u8; 8]) -> Option<Self> {
        match fingerprint {
            REQUEST_EVENT_V1 | REQUEST_EVENT_V1_RUST => Some(Self::V1),
            REQUEST_EVENT_V2 | REQUEST_EVENT_V2_RUST => Some(Self::V2),
            REQUEST_EVENT_V3 | REQUEST_EVENT_V3_RUST => Some(Self::V3),
            REQUEST_EVENT_V4 | REQUEST_EVENT_V4_RUST => Some(Self::V4),
            REQUEST_EVENT_V5 | REQUEST_EVENT_V5_RUST => Some(Self::V5),
            REQUEST_EVENT_V6 | REQUEST_EVENT_V6_RUST => Some(Self::V6),
            REQUEST_EVENT_V7 | REQUEST_EVENT_V7_RUST => Some(Self::V7),
            _ => None,
        }
    }

    /// The fingerprint that it is written under.
    pub(super) const fn fingerprint(self) -> [u8; 8] {
        match self {
            Self::V1 => REQUEST_EVENT_V1,
            Self::V2 => REQUEST_EVENT_V2,
            Self::V3 => REQUEST_EVENT_V3,
            Self::V4 => REQUEST_EVENT_V4,
            Self::V5 => REQUEST_EVENT_V5,
            Self::V6 => REQUEST_EVENT_V6,
            Self::V7 => REQUEST_EVENT_V7,
        }
    }

    /// Its parsed schema.
    pub(super) fn schema(self) -> &'static Schema {
        static V1: LazyLock<Schema> = LazyLock::new(|| parse(REQUEST_EVENT_OF_V1));
        static V2: LazyLock<Schema> = LazyLock::new(|| parse(REQUEST_EVENT_OF_V2));
        static V3: LazyLock<Schema> = LazyLock::new(|| parse(REQUEST_EVENT_OF_V3));
        static V4: LazyLock<Schema> = LazyLock::new(|| parse(REQUEST_EVENT_OF_V4));
        static V5: LazyLock<Schema> = LazyLock::new(|| parse(REQUEST_EVENT_OF_V5));
        static V6: LazyLock<Schema> = LazyLock::new(|| parse(REQUEST_EVENT_OF_V6));
        match self {
            Self::V1 => &V1,
            Self::V2 => &V2,
            Self::V3 => &V3,
            Self::V4 => &V4,
            Self::V5 => &V5,
            Self::V6 => &V6,
            Self::V7 => request_event(),
        }
    }
}

/// The parsed request event schema, of the newest version.
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

/// Every version of the capacity estimate, the newest first: the fingerprint, CRC-64-AVRO, little-endian as it travels, and
/// the schema. All are read, the newest is written.
pub const CAPACITY_ESTIMATES: [([u8; 8], &str); 9] = [
    // 9 adds what vLLM has twice, and what SGLang with a draft head finds at most.
    ([0x69, 0x92, 0xd2, 0x84, 0xef, 0x6b, 0xee, 0x31], CAPACITY_ESTIMATE),
    // 8 adds retention classes.
    (
        [0x14, 0x9d, 0x92, 0x76, 0xb4, 0x0c, 0xfb, 0x0e],
        include_str!("../../schemas/history/capacity_estimate.v8.avsc"),
    ),
    // 7 adds what restarts cost.
    (
        [0x57, 0xaf, 0xbc, 0x2d, 0x1e, 0x26, 0x48, 0xe8],
        include_str!("../../schemas/history/capacity_estimate.v7.avsc"),
    ),
    // 6 adds what the cache is worth.
    (
        [0x75, 0xcb, 0x2e, 0x97, 0x9a, 0x94, 0x09, 0x75],
        include_str!("../../schemas/history/capacity_estimate.v6.avsc"),
    ),
    // 5 adds what is recommended.
    (
        [0x4d, 0xdd, 0x3a, 0x3b, 0xb9, 0x62, 0xbf, 0xdc],
        include_str!("../../schemas/history/capacity_estimate.v5.avsc"),
    ),
    // 4 adds time, tiers, tenants and the optimum.
    (
        [0x63, 0x0c, 0x94, 0x59, 0x6e, 0x8f, 0xe0, 0x68],
        include_str!("../../schemas/history/capacity_estimate.v4.avsc"),
    ),
    // 3 adds what was measured and what routers would give.
    (
        [0x2e, 0xd6, 0x5d, 0x19, 0x14, 0xff, 0xea, 0xb8],
        include_str!("../../schemas/history/capacity_estimate.v3.avsc"),
    ),
    // 2 adds what requests met in flight, convergence and the plan.
    (
        [0xaf, 0x87, 0xec, 0x4b, 0xcc, 0x75, 0xf6, 0x33],
        include_str!("../../schemas/history/capacity_estimate.v2.avsc"),
    ),
    (
        [0x54, 0xa5, 0x9d, 0x49, 0x5d, 0x6e, 0x80, 0x36],
        include_str!("../../schemas/history/capacity_estimate.v1.avsc"),
    ),
];

/// The schema of the capacity estimate with this fingerprint, where this program knows it.
pub(super) fn capacity_estimate_of(fingerprint: [u8; 8]) -> Option<&'static Schema> {
    static SCHEMAS: LazyLock<[Schema; CAPACITY_ESTIMATES.len()]> =
        LazyLock::new(|| CAPACITY_ESTIMATES.map(|(_, text)| parse(text)));
    let place = CAPACITY_ESTIMATES.iter().position(|(known, _)| *known == fingerprint)?;
    SCHEMAS.get(place)
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
        let events = [
            (REQUEST_EVENT_V1, REQUEST_EVENT_V1_RUST),
            (REQUEST_EVENT_V2, REQUEST_EVENT_V2_RUST),
            (REQUEST_EVENT_V3, REQUEST_EVENT_V3_RUST),
            (REQUEST_EVENT_V4, REQUEST_EVENT_V4_RUST),
            (REQUEST_EVENT_V5, REQUEST_EVENT_V5_RUST),
            (REQUEST_EVENT_V6, REQUEST_EVENT_V6_RUST),
            (REQUEST_EVENT_V7, REQUEST_EVENT_V7_RUST),
        ];
        for ((fingerprint, of_rust), version) in events.into_iter().zip(EventVersion::ALL) {
            assert_eq!(crc_64_avro(&canonical_form(version.schema())), fingerprint, "{version:?}");
            assert_eq!(version.schema().fingerprint::<Rabin>().bytes, of_rust, "{version:?}");
            assert_eq!([fingerprint, of_rust].map(EventVersion::of), [Some(version); 2]);
            assert_eq!(version.fingerprint(), fingerprint);
        }
        for (version, _) in CAPACITY_ESTIMATES {
            let schema = capacity_estimate_of(version).expect("published");
            assert_eq!(crc_64_avro(&canonical_form(schema)), version);
        }
        assert_eq!(crc_64_avro(&canonical_form(raw_request())), RAW_REQUEST_V1);
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
