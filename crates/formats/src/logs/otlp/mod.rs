//! OpenTelemetry's spans and log records of requests to models, as the collector's Kafka exporter writes them: one
//! record holds many, in protobuf or in JSON.
//!
//! Attributes are those of the semantic conventions for generative AI (`gen_ai.*`), and those of OpenInference, whose
//! `input.value` is the body of the request.

mod messages;
mod prompt;

use super::{FieldPath, Logged, LoggedPrompt, LoggedRequest, Places};
use crate::codec::{DecodeError, ErrorCode};
use messages::{AnyValue, KeyValue, Logs, Span, Traces};
use prost::Message;
use std::borrow::Cow;
use std::rc::Rc;

/// Spans of other operations are parts of an agent's work, or no generation.
const GENERATIONS: [&str; 3] = ["chat", "text_completion", "generate_content"];
/// Longest attribute that templates may name, in bytes of its name and its value, and most of them.
const MAX_NAME_BYTES: usize = 1024;
const MAX_NAMES: usize = 256;

/// What a record holds that may be a request.
struct Item {
    attributes: Vec<KeyValue>,
    /// Those of the process, which all its spans share.
    process: Rc<Vec<KeyValue>>,
    /// What a span or a log record says its attributes lost.
    dropped: u32,
    /// Nanoseconds since the Unix epoch.
    start: u64,
    end: Option<u64>,
    failed: bool,
    /// The name of a log's event.
    event: String,
}

pub(super) fn read<'r>(record: &'r [u8], places: &Places) -> Result<Logged<'r>, DecodeError> {
    let items: Vec<Item> = items(record)?.into_iter().filter(is_request).collect();
    if items.is_empty() {
        return Ok(Logged::PassedOver(
            "it has no span or log record of a request to a model that was answered",
        ));
    }
    let (count, place) = (items.len(), places.request.clone());
    let requests = items.into_iter().map(move |item| request(&item, place.as_ref()));
    Ok(Logged::Requests { count, requests: Box::new(requests) })
}

/// Whether a record is of this kind; one in protobuf must tell of requests to models, too.
pub(super) fn is_otlp(record: &[u8]) -> bool {
    if record.trim_ascii_start().first() == Some(&b'{') {
        return ["resourceSpans", "resourceLogs"].iter().any(|name| super::layouts::has(record, name));
    }
    items(record).is_ok_and(|items| items.iter().any(is_request))
}

fn items(record: &[u8]) -> Result<Vec<Item>, DecodeError> {
    if record.trim_ascii_start().first() == Some(&b'{') {
        return from_json(record);
    }
    // The three kinds differ only in what is innermost: the ids of a span have their lengths, the time of a log
    // record has its type.
    if let Ok(traces) = Traces::decode(record)
        && spans(&traces).all(|span| span.trace_id.len() == 16 && span.span_id.len() == 8)
        && spans(&traces).next().is_some()
    {
        return Ok(of_traces(traces));
    }
    match Logs::decode(record) {
        Ok(logs) if logs.resource_logs.iter().flat_map(|logs| &logs.scope_logs).any(has_times) => {
            Ok(of_logs(logs))
        }
        _ => Err(no_requests()),
    }
}

fn spans(traces: &Traces) -> impl Iterator<Item = &Span> {
    traces.resource_spans.iter().flat_map(|spans| &spans.scope_spans).flat_map(|scope| &scope.spans)
}

fn has_times(scope: &messages::ScopeLogs) -> bool {
    scope.log_records.iter().any(|log| log.time_unix_nano > 0 || log.observed_time_unix_nano > 0)
}

fn from_json(record: &[u8]) -> Result<Vec<Item>, DecodeError> {
    let has = |name| super::layouts::has(record, name);
    let broken =
        |_| DecodeError::new(ErrorCode::Undecodable, "json: not an export request of OTLP's traces or logs");
    if has("resourceSpans") {
        return serde_json::from_slice(record).map(of_traces).map_err(broken);
    }
    if has("resourceLogs") {
        return serde_json::from_slice(record).map(of_logs).map_err(broken);
    }
    Err(no_requests())
}

fn no_requests() -> DecodeError {
    let detail = "neither traces nor logs of OTLP, in protobuf or JSON: metrics have no prompts; export `traces` or \
        `logs` with encoding otlp_proto or otlp_json";
    DecodeError::new(ErrorCode::Undecodable, detail)
}

fn of_traces(traces: Traces) -> Vec<Item> {
    let mut items = Vec::new();
    for process in traces.resource_spans {
        let resource = Rc::new(process.resource.unwrap_or_default().attributes);
        for span in process.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let mut attributes = span.attributes;
            // The conventions let the prompt stand in an event of its span, too.
            let of_events = span.events.into_iter().filter(|event| event.name.starts_with("gen_ai."));
            attributes.extend(of_events.flat_map(|event| event.attributes));
            items.push(Item {
                attributes,
                process: Rc::clone(&resource),
                dropped: span.dropped_attributes_count,
                start: span.start_time_unix_nano,
                end: Some(span.end_time_unix_nano),
                failed: span.status.is_some_and(|status| status.code == 2),
                event: String::new(),
            });
        }
    }
    items
}

fn of_logs(logs: Logs) -> Vec<Item> {
    let mut items = Vec::new();
    for process in logs.resource_logs {
        let resource = Rc::new(process.resource.unwrap_or_default().attributes);
        for log in process.scope_logs.into_iter().flat_map(|scope| scope.log_records) {
            let mut attributes = log.attributes;
            if let Some(messages::Value::Object(body)) = log.body.and_then(|body| body.value) {
                attributes.extend(body.values);
            }
            let start = if log.time_unix_nano > 0 { log.time_unix_nano } else { log.observed_time_unix_nano };
            let event = log.event_name;
            items.push(Item {
                attributes,
                process: Rc::clone(&resource),
                dropped: log.dropped_attributes_count,
                start,
                end: None,
                failed: false,
                event,
            });
        }
    }
    items
}

impl Item {
    fn all(&self) -> impl Iterator<Item = &KeyValue> {
        self.attributes.iter().chain(self.process.iter())
    }

    fn get(&self, key: &str) -> Option<&AnyValue> {
        let found = self.all().find(|attribute| attribute.key == key);
        found?.value.as_ref().filter(|value| value.value.is_some())
    }

    fn scalar(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| self.get(key)?.scalar())
    }

    fn number(&self, keys: &[&str]) -> Option<u64> {
        self.scalar(keys)?.parse().ok()
    }
}

/// Whether a span or a log record is of one request to a model that was answered.
fn is_request(item: &Item) -> bool {
    if item.failed || item.get("error.type").is_some() {
        return false;
    }
    if let Some(kind) = item.get("openinference.span.kind") {
        return kind.text() == Some("LLM");
    }
    match item.get("gen_ai.operation.name").and_then(AnyValue::text) {
        Some(operation) => GENERATIONS.contains(&operation),
        None => {
            item.event.starts_with("gen_ai.")
                || ["gen_ai.request.model", "gen_ai.usage.prompt_tokens", "gen_ai.prompt.0.content"]
                    .iter()
                    .any(|key| item.get(key).is_some())
        }
    }
}

fn request<'r>(item: &Item, place: Option<&FieldPath>) -> Result<LoggedRequest<'r>, DecodeError> {
    if item.dropped > 0 {
        let detail = "attributes were dropped, perhaps parts of the prompt (`dropped_attributes_count`): raise \
            OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT where the request is traced";
        return Err(DecodeError::new(ErrorCode::MissingField, detail));
    }
    let prompt = prompt::body(item, place)?;
    let ms = |nanoseconds: u64| i64::try_from(nanoseconds / 1_000_000).ok();
    let duration_ms = item.end.and_then(|end| ms(end.checked_sub(item.start)?));
    Ok(LoggedRequest {
        prompt: LoggedPrompt::Body(Cow::Owned(prompt)),
        event_time: ms(item.start).filter(|ms| *ms > 0),
        duration_ms,
        input_tokens: item.number(&[
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "llm.token_count.prompt",
        ]),
        output_tokens: item.number(&[
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
        ]),
        cached_tokens: item
            .number(&["gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"]),
        names: names(item),
    })
}

/// The names that templates have for some attributes, and every short one by its own.
fn names<'r>(item: &Item) -> Vec<(Cow<'r, str>, String)> {
    let known = [
        ("model", &["gen_ai.request.model", "llm.model_name", "gen_ai.response.model"][..]),
        ("session_id", &["gen_ai.conversation.id", "session.id"]),
    ];
    let known = known.into_iter().filter_map(|(name, keys)| Some((Cow::Borrowed(name), item.scalar(keys)?)));
    let own = item.all().filter(|attribute| !prompt::is_content(&attribute.key));
    let own = own.filter_map(|attribute| {
        let value = attribute.value.as_ref()?.scalar()?;
        let bytes = attribute.key.len() + value.len();
        (bytes <= MAX_NAME_BYTES).then(|| (Cow::Owned(attribute.key.clone()), value))
    });
    known.chain(own.take(MAX_NAMES)).collect()
}
