//! Export requests in JSON. Each span and each log record is read by itself: one of another shape, or with a number
//! that no field holds, is refused alone.

use super::super::layouts::has;
use super::item::{LoggedItem, no_requests, shared};
use super::messages::{Resource, or_default};
use crate::codec::{DecodeError, ErrorCode};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Export<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    resource_spans: Vec<Process<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    resource_logs: Vec<Process<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Process<'a> {
    resource: Option<Resource>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    scope_spans: Vec<TelemetryScope<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    scope_logs: Vec<TelemetryScope<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TelemetryScope<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    spans: Vec<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    log_records: Vec<&'a RawValue>,
}

pub(super) fn items(record: &[u8]) -> Result<Vec<Result<LoggedItem, DecodeError>>, DecodeError> {
    if !has(record, "resourceSpans") && !has(record, "resourceLogs") {
        return Err(no_requests());
    }
    let broken =
        |_| DecodeError::new(ErrorCode::Undecodable, "json: not an export request of OTLP's traces or logs");
    let export: Export<'_> = serde_json::from_slice(record).map_err(broken)?;
    let mut items = Vec::new();
    for process in export.resource_spans.into_iter().chain(export.resource_logs) {
        let resource = shared(process.resource);
        let spans = process.scope_spans.iter().flat_map(|scope| &scope.spans);
        items.extend(spans.map(|span| Ok(LoggedItem::of_span(of_shape(span, "span")?, &resource))));
        let records = process.scope_logs.iter().flat_map(|scope| &scope.log_records);
        items.extend(
            records.map(|log| Ok(LoggedItem::of_log_record(of_shape(log, "log record")?, &resource))),
        );
    }
    Ok(items)
}

fn of_shape<'a, T: Deserialize<'a>>(raw: &'a RawValue, what: &str) -> Result<T, DecodeError> {
    let refused = |_| DecodeError::new(ErrorCode::Undecodable, format!("json: it is no {what} of OTLP's"));
    serde_json::from_str(raw.get()).map_err(refused)
}
