//! The spans and log records of an export request, in protobuf or JSON.

use super::item::{LoggedItem, no_requests, shared};
use super::json;
use super::messages::{Exported, KeyValue, LogRecord, TelemetrySpan};
use crate::codec::DecodeError;
use prost::Message;
use std::fmt::Debug;
use std::rc::Rc;

/// The items of a record; one that is broken by itself leaves the others as they are.
pub(super) fn items(record: &[u8]) -> Result<Vec<Result<LoggedItem, DecodeError>>, DecodeError> {
    if record.trim_ascii_start().first() == Some(&b'{') {
        return json::items(record);
    }
    // The three kinds differ only in what is innermost: the ids of a span have their lengths, the time of a log
    // record has its type.
    if let Ok(traces) = Exported::<TelemetrySpan>::decode(record)
        && inner(&traces).all(|span| span.trace_id.len() == 16 && span.span_id.len() == 8)
        && inner(&traces).next().is_some()
    {
        return Ok(of_processes(traces, LoggedItem::of_span));
    }
    match Exported::<LogRecord>::decode(record) {
        Ok(logs) if inner(&logs).any(|log| log.time_unix_nano > 0 || log.observed_time_unix_nano > 0) => {
            Ok(of_processes(logs, LoggedItem::of_log_record))
        }
        _ => Err(no_requests()),
    }
}

fn inner<T: Message + Default + Debug>(exported: &Exported<T>) -> impl Iterator<Item = &T> {
    exported.processes.iter().flat_map(|process| &process.scopes).flat_map(|scope| &scope.items)
}

fn of_processes<T: Message + Default + Debug>(
    exported: Exported<T>,
    item: fn(T, &Rc<Vec<KeyValue>>) -> LoggedItem,
) -> Vec<Result<LoggedItem, DecodeError>> {
    let mut items = Vec::new();
    for process in exported.processes {
        let resource = shared(process.resource);
        let inner = process.scopes.into_iter().flat_map(|scope| scope.items);
        items.extend(inner.map(|inner| Ok(item(inner, &resource))));
    }
    items
}
