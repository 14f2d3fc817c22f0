//! The spans and log records of an export request, in protobuf or JSON.

use super::item::{LoggedItem, no_requests, shared};
use super::json;
use super::messages::{Logs, ScopeLogs, TelemetrySpan, Traces};
use crate::codec::DecodeError;
use prost::Message;

/// The items of a record; one that is broken by itself leaves the others as they are.
pub(super) fn items(record: &[u8]) -> Result<Vec<Result<LoggedItem, DecodeError>>, DecodeError> {
    if record.trim_ascii_start().first() == Some(&b'{') {
        return json::items(record);
    }
    // The three kinds differ only in what is innermost: the ids of a span have their lengths, the time of a log
    // record has its type.
    if let Ok(traces) = Traces::decode(record)
        && spans(&traces).all(|span| span.trace_id.len() == 16 && span.span_id.len() == 8)
        && spans(&traces).next().is_some()
    {
        return Ok(of_traces(traces).map(Ok).collect());
    }
    match Logs::decode(record) {
        Ok(logs) if logs.resource_logs.iter().flat_map(|logs| &logs.scope_logs).any(has_times) => {
            Ok(of_logs(logs).map(Ok).collect())
        }
        _ => Err(no_requests()),
    }
}

fn spans(traces: &Traces) -> impl Iterator<Item = &TelemetrySpan> {
    traces.resource_spans.iter().flat_map(|spans| &spans.scope_spans).flat_map(|scope| &scope.spans)
}

fn has_times(scope: &ScopeLogs) -> bool {
    scope.log_records.iter().any(|log| log.time_unix_nano > 0 || log.observed_time_unix_nano > 0)
}

fn of_traces(traces: Traces) -> impl Iterator<Item = LoggedItem> {
    traces.resource_spans.into_iter().flat_map(|process| {
        let resource = shared(process.resource);
        let spans = process.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.map(move |span| LoggedItem::of_span(span, &resource))
    })
}

fn of_logs(logs: Logs) -> impl Iterator<Item = LoggedItem> {
    logs.resource_logs.into_iter().flat_map(|process| {
        let resource = shared(process.resource);
        let records = process.scope_logs.into_iter().flat_map(|scope| scope.log_records);
        records.map(move |record| LoggedItem::of_log_record(record, &resource))
    })
}
