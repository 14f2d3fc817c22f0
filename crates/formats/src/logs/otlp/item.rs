//! A span or a log record that may be a request.

use super::messages::{AnyValue, KeyValue, LogRecord, OtlpValue, Resource, SpanEvent, TelemetrySpan};
use crate::codec::{DecodeError, ErrorCode};
use crate::record::numbers::count;
use std::rc::Rc;

/// Events of a span that hold attributes of its request.
const DETAILS: [&str; 2] = ["gen_ai.client.inference.operation.details", "gen_ai.content.prompt"];

/// What a record holds that may be a request.
#[derive(Default)]
pub(super) struct LoggedItem {
    /// The span's own id and that of the span around it; empty of a log record.
    pub id: Vec<u8>,
    pub parent: Vec<u8>,
    /// Attributes of the spans around it that may hold a part of its prompt.
    pub around: Vec<String>,
    /// Its own attributes, and those of the events that tell of the whole request.
    pub attributes: Vec<KeyValue>,
    /// Those of the process, which all its spans share.
    pub process: Rc<Vec<KeyValue>>,
    /// Events that hold one message each, in their order.
    pub messages: Vec<SpanEvent>,
    /// What a span or a log record says its attributes lost.
    pub dropped: u32,
    /// What a span says its events lost.
    pub dropped_events: u32,
    /// Nanoseconds since the Unix epoch.
    pub start: u64,
    /// The same of its end, which a log record does not tell.
    pub end: Option<u64>,
    /// Whether its status is an error.
    pub failed: bool,
    /// The name of a log's event; empty of a span.
    pub event: String,
}

/// The refusal of what is neither traces nor logs.
pub(super) fn no_requests() -> DecodeError {
    let detail = "neither traces nor logs of OTLP, in protobuf or JSON: metrics have no prompts; export `traces` or \
        `logs` with encoding otlp_proto or otlp_json";
    DecodeError::new(ErrorCode::Undecodable, detail)
}

/// The attributes of a process.
pub(super) fn shared(process: Option<Resource>) -> Rc<Vec<KeyValue>> {
    Rc::new(process.unwrap_or_default().attributes)
}

/// Whether an event of this name is one message of a prompt.
pub(super) fn is_message(event: &str) -> bool {
    event.starts_with("gen_ai.") && event.ends_with(".message")
}

/// Whether an event of this name tells of a whole request.
pub(super) fn is_details(event: &str) -> bool {
    DETAILS.contains(&event)
}

impl LoggedItem {
    pub(super) fn of_span(span: TelemetrySpan, process: &Rc<Vec<KeyValue>>) -> Self {
        let (mut attributes, mut messages) = (span.attributes, Vec::new());
        let mut dropped = span.dropped_attributes_count;
        for event in span.events {
            if is_details(&event.name) {
                // The conventions let the prompt stand in an event of its span, too.
                attributes.extend(event.attributes);
                dropped = dropped.saturating_add(event.dropped_attributes_count);
            } else if is_message(&event.name) {
                dropped = dropped.saturating_add(event.dropped_attributes_count);
                messages.push(event);
            }
        }
        Self {
            id: span.span_id,
            parent: span.parent_span_id,
            attributes,
            process: Rc::clone(process),
            messages,
            dropped,
            dropped_events: span.dropped_events_count,
            start: span.start_time_unix_nano,
            end: Some(span.end_time_unix_nano),
            failed: span.status.is_some_and(|status| status.code == 2),
            ..Self::default()
        }
    }

    pub(super) fn of_log_record(log: LogRecord, process: &Rc<Vec<KeyValue>>) -> Self {
        let mut attributes = log.attributes;
        if let Some(OtlpValue::Object(body)) = log.body.and_then(|body| body.value) {
            attributes.extend(body.values);
        }
        let start = if log.time_unix_nano > 0 { log.time_unix_nano } else { log.observed_time_unix_nano };
        let mut item = Self {
            attributes,
            process: Rc::clone(process),
            dropped: log.dropped_attributes_count,
            start,
            event: log.event_name,
            ..Self::default()
        };
        if item.event.is_empty() {
            // Where it stood before OTLP 1.5 had a field for it.
            item.event = item.scalar(&["event.name"]).unwrap_or_default();
        }
        item
    }

    /// Every attribute, its own before those of its process.
    pub(super) fn all(&self) -> impl Iterator<Item = &KeyValue> {
        self.attributes.iter().chain(self.process.iter())
    }

    pub(super) fn get(&self, key: &str) -> Option<&AnyValue> {
        value_of(self.all(), key)
    }

    pub(super) fn scalar(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| self.get(key)?.scalar())
    }

    /// The count of the first of these attributes that has one.
    pub(super) fn count(&self, keys: &[&str]) -> Result<Option<u64>, DecodeError> {
        for key in keys {
            let Some(text) = self.get(key).and_then(AnyValue::scalar) else { continue };
            let read = count(&text).map_err(|why| {
                DecodeError::new(ErrorCode::InvalidNumber, format!("`{key}` holds no count: {why}"))
            })?;
            if read.is_some() {
                return Ok(read);
            }
        }
        Ok(None)
    }
}

impl SpanEvent {
    pub(super) fn get(&self, key: &str) -> Option<&AnyValue> {
        value_of(self.attributes.iter(), key)
    }
}

fn value_of<'a>(mut attributes: impl Iterator<Item = &'a KeyValue>, key: &str) -> Option<&'a AnyValue> {
    attributes.find(|attribute| attribute.key == key)?.value.as_ref().filter(|value| value.value.is_some())
}
