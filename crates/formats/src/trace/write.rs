//! Writing requests as flat weka rows, the form every reader of this crate understands.

use crate::record::row::TraceRow;
use kvset_core::request::labels::Labels;
use kvset_core::units::pages::Scope;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::io::{self, Write};

/// One row as it is written. Absent fields are left out.
#[derive(serde::Serialize)]
struct FlatRow<'a> {
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_size: Option<u32>,
    hash_ids: FlatIds<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ids_chained: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(flatten, serialize_with = "write_labels")]
    labels: Labels<&'a str>,
}

fn write_labels<S: Serializer>(labels: &Labels<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter().map(|(label, name)| (label.name(), name)))
}

/// The prompt's ids with the scope already in them: a file has no other place for it.
struct FlatIds<'a>(&'a TraceRow<'a>);

impl Serialize for FlatIds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = &self.0.event;
        let mut array = serializer.serialize_seq(Some(event.page_ids.len()))?;
        if let Some(first) = event.page_ids.get(0) {
            array.serialize_element(&event.scope.first_page(first))?;
        }
        for id in event.page_ids.from(1).iter() {
            array.serialize_element(&id)?;
        }
        array.end()
    }
}

/// Writes a request as one line: `timestamp` (ms), `session_id`, `model`, `block_size`, `hash_ids`, `ids_chained` (where they
/// are declared to be), `input_length`, `output_length`, `duration_ms`, `cached_tokens` and the labels. Its scope is mixed into the first page's id, so the
/// line is read back with ids that are unique within the whole file. Output page ids have no field here.
///
/// # Errors
///
/// What `out` answers.
pub fn write_row(out: &mut impl Write, row: &TraceRow<'_>) -> io::Result<()> {
    let event = &row.event;
    let flat = FlatRow {
        timestamp: event.event_time.0,
        session_id: row.session,
        model: row.pool,
        block_size: event.page_size.map(|size| size.get()),
        hash_ids: FlatIds(row),
        // Within their scope they may be, in the whole file only the first of them tells scopes apart.
        ids_chained: event.ids_chained && event.scope == Scope::GLOBAL,
        input_length: event.input_tokens,
        output_length: event.output_tokens,
        duration_ms: event.duration_ms,
        cached_tokens: event.cached_tokens.stated(),
        labels: event.labels,
    };
    serde_json::to_writer(&mut *out, &flat)?;
    out.write_all(b"\n")
}
