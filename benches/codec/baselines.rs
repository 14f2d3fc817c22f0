//! Other ways to read the same bytes. They check less: no pool, no limits, no numbers of tokens.

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use kvset::codec::schema;
use kvset::core::units::PageSize;
use kvset::core::units::hashing::PageHasher;
use kvset::core::units::pages::Scope;
use serde::Deserialize;

/// Bytes of the header of Avro's single-object encoding.
const HEADER: usize = 10;

/// The event's fields that the bench's records have.
#[derive(Deserialize)]
struct Event {
    event_time: i64,
    page_size: i32,
    page_ids: Vec<u64>,
}

/// serde_json into a struct that it was made for.
pub fn serde_json_typed(record: &[u8]) -> u64 {
    let event: Event = serde_json::from_slice(record).expect("an event");
    std::hint::black_box((event.event_time, event.page_size));
    sum(event.page_ids)
}

/// apache-avro's tree of values.
pub fn apache_avro(schema: &Schema) -> impl Fn(&[u8]) -> u64 {
    let reader = GenericDatumReader::builder(schema).build().expect("a reader");
    move |record| {
        let value = reader.read_value(&mut &record[HEADER..]).expect("an event");
        let Value::Record(fields) = value else { return 0 };
        let ids = fields.into_iter().find(|(name, _)| name == "page_ids").map(|(_, ids)| ids);
        match ids {
            Some(Value::Union(_, ids)) => sum_of(*ids),
            _ => 0,
        }
    }
}

fn sum_of(ids: Value) -> u64 {
    match ids {
        Value::Array(ids) => {
            sum(ids.into_iter().map(|id| if let Value::Long(id) = id { id as u64 } else { 0 }))
        }
        Value::Bytes(packed) => sum(packed.chunks_exact(8).map(packed_id)),
        _ => 0,
    }
}

fn packed_id(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// The schema that records are written with.
pub fn request_schema() -> Schema {
    Schema::parse_str(schema::REQUEST_EVENT).expect("the schema parses")
}

/// The loop everybody writes for a zigzag varint: a byte at a time.
fn long(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0u64, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Reads `array<long>` with that loop into a vector.
pub fn longs_by_hand(record: &[u8], into: &mut Vec<u64>) -> u64 {
    let mut bytes = &record[HEADER..];
    let (_event_time, _branch) = (long(&mut bytes), long(&mut bytes));
    into.clear();
    loop {
        match long(&mut bytes) {
            0 => return sum(into.iter().copied()),
            count => into.extend((0..count).map(|_| long(&mut bytes))),
        }
    }
}

/// Packed ids summed where they lie, and nothing else: the memory's speed.
pub fn packed_by_hand(record: &[u8]) -> u64 {
    let mut bytes = &record[HEADER..];
    let (_event_time, _branch, length) = (long(&mut bytes), long(&mut bytes), long(&mut bytes));
    sum(bytes[..length as usize].chunks_exact(8).map(packed_id))
}

/// serde_json into a vector of tokens, and the same hashing into pages.
pub fn tokens_then_hashed(line: &[u8], hasher: &mut PageHasher, ids: &mut Vec<u64>) -> u64 {
    let tokens: Vec<u32> = serde_json::from_slice(line).expect("tokens");
    ids.clear();
    hasher.hash(Scope::GLOBAL, &tokens, true, ids);
    sum(ids.iter().copied())
}

/// A hasher of pages of 64 tokens.
pub fn hasher() -> PageHasher {
    PageHasher::new(PageSize::new(64).expect("not zero"))
}

pub fn sum(ids: impl IntoIterator<Item = u64>) -> u64 {
    ids.into_iter().fold(0, u64::wrapping_add)
}
