//! Writing requests as flat weka rows, the form every reader of this crate understands.

use crate::codec::message::write_labels;
use crate::record::row::TraceRow;
use kvset_core::request::event::RequestEvent;
use kvset_core::request::labels::Labels;
use kvset_core::units::pages::Scope;
use serde::Serializer;
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
    #[serde(serialize_with = "write_ids")]
    hash_ids: &'a RequestEvent<'a>,
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

/// The prompt's ids with the scope already in them: a file has no other place for it.
fn write_ids<S: Serializer>(event: &RequestEvent<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    let first = event.page_ids.get(0).map(|first| event.scope.first_page(first));
    serializer.collect_seq(first.into_iter().chain(event.page_ids.from(1).iter()))
}

/// Writes a request as one line: `timestamp` (ms), `session_id`, `model`, `block_size`, `hash_ids`, `ids_chained`
/// (where they are declared to be), `input_length`, `output_length`, `duration_ms`, `cached_tokens` and the labels.
/// Its scope is mixed into the first page's id, so the line is read back with ids that are unique within the whole
/// file. Output page ids have no field here.
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
        hash_ids: event,
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
