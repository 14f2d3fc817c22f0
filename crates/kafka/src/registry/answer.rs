//! What a registry answers, read from its bytes.

use kvset_formats::codec::{SchemaId, SchemaRef, WriterSchema};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// What a registry says of a schema; Avro where it names no type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemaAnswer {
    schema: String,
    schema_type: Option<String>,
    #[serde(default)]
    references: Vec<IgnoredAny>,
}

/// The schema that was requested under this name; `None` when the answer is none of a registry.
pub fn schema(name: SchemaRef, body: &[u8]) -> Option<WriterSchema> {
    let answer: SchemaAnswer = serde_json::from_slice(body).ok()?;
    Some(match answer.schema_type.as_deref() {
        Some("JSON") => WriterSchema::json(),
        Some("PROTOBUF") => WriterSchema::unusable(format!(
            "the schema with {name} is one of protobuf, which is not read: have the producer write avro or json, in this \
             wire format or without"
        )),
        Some(kind) if kind != "AVRO" => {
            WriterSchema::unusable(format!("the schema with {name} is neither of avro nor of json"))
        }
        _ if !answer.references.is_empty() => WriterSchema::unusable(format!(
            "the schema with {name} refers to other schemas, which are not followed: register it in one piece"
        )),
        _ => WriterSchema::parse(&answer.schema),
    })
}

/// The id of a schema that is, or was just, registered.
pub fn id(body: &[u8]) -> Option<SchemaId> {
    number(body, "id").map(SchemaId)
}

/// A registry's own number for what went wrong.
pub fn error_code(body: &[u8]) -> Option<u32> {
    number(body, "error_code")
}

fn number(body: &[u8], field: &str) -> Option<u32> {
    serde_json::from_slice::<Value>(body).ok()?.get(field)?.as_u64()?.try_into().ok()
}
