//! OpenTelemetry's spans and log records of requests to models, as the collector's Kafka exporter writes them: one
//! record holds many, in protobuf or in JSON.
//!
//! Attributes are those of the semantic conventions for generative AI (`gen_ai.*`), of OpenInference, and of the SDKs
//! in [`sdks`], each read where it keeps the prompt.

mod bodies;
mod chat;
mod content;
mod events;
mod export;
mod indexed;
mod item;
mod json;
mod messages;
mod nested;
mod older;
mod openinference;
mod prompt;
mod sdks;
mod tools;
mod vercel;

use super::envelope;
use super::shape::PromptKind;
use super::{FieldPath, Logged, LoggedPrompt, LoggedRequest, Places};
use crate::codec::{DecodeError, ErrorCode};
use crate::record::observed::{CacheWrites, ObservedRequest};
use crate::time::{NumberUnit, Numbers, TimeNumber, WrittenTime};
use export::items;
use item::{LoggedItem, is_details, is_message};
use kvset_core::request::event::CachedTokens;
use memchr::memmem;
use messages::AnyValue;
use sdks::Sdk;
use std::borrow::Cow;
use std::time::Duration;

/// Spans of other operations are parts of an agent's work, or no generation.
/// Semantic Kernel's older versions have names of their own.
const GENERATIONS: [&str; 5] =
    ["chat", "text_completion", "generate_content", "chat.completions", "text.completions"];
/// Longest attribute that templates may name, in bytes of its name and its value, and most of them.
const MAX_NAME_BYTES: usize = 1024;
const MAX_NAMES: usize = 256;

pub(super) fn read<'r>(record: &'r [u8], places: &Places) -> Result<Logged<'r>, DecodeError> {
    let items = nested::innermost(items(record)?, may_be_request);
    if items.is_empty() && memmem::find(record, b"logRecords").is_some() && holds_another_log(record) {
        return Ok(Logged::PassedOver(
            "its log records have requests of another log as texts in their bodies: take these out, with jq -c \
             '.resourceLogs[].scopeLogs[].logRecords[].body.stringValue | fromjson'",
        ));
    }
    if items.is_empty() {
        return Ok(Logged::PassedOver(
            "it has no span or log record of a request to a model that was answered",
        ));
    }
    let (count, place) = (items.len(), places.request.clone());
    let requests = items.into_iter().map(move |item| request(&item?, place.as_ref()));
    Ok(Logged::Requests { count, requests: Box::new(requests) })
}

/// Whether the body of a log record is a request, or has one in it, as JSON in a text.
fn holds_another_log(record: &[u8]) -> bool {
    envelope::open(record, &mut |inner| std::str::from_utf8(inner).ok().and_then(PromptKind::of).is_some())
        .is_some()
}

/// Whether a record is of this kind in protobuf, and tells of requests to models.
pub(super) fn is_protobuf(record: &[u8]) -> bool {
    record.trim_ascii_start().first() != Some(&b'{') && has_requests(record)
}

/// Whether an export request tells of a request to a model.
pub(super) fn has_requests(record: &[u8]) -> bool {
    items(record).is_ok_and(|items| items.iter().any(may_be_request))
}

/// What an item that is broken is of, nobody can say.
fn may_be_request(item: &Result<LoggedItem, DecodeError>) -> bool {
    item.as_ref().map_or(true, is_request)
}

/// Whether a span or a log record is of one request to a model that was answered.
fn is_request(item: &LoggedItem) -> bool {
    if item.failed || item.get("error.type").is_some() {
        return false;
    }
    if let Some(is_request) = Sdk::of(item).and_then(|sdk| sdk.is_request(item)) {
        return is_request;
    }
    if !item.event.is_empty() && !is_details(&item.event) {
        return is_message(&item.event);
    }
    let text = |key: &str| item.get(key).and_then(AnyValue::text);
    match (text("gen_ai.operation.name"), text("llm.request.type")) {
        (Some(operation), _) => GENERATIONS.contains(&operation),
        // OpenLLMetry's, before the conventions had a name for it.
        (None, Some(kind)) => ["chat", "completion"].contains(&kind),
        (None, None) => {
            is_details(&item.event)
                || [
                    "gen_ai.request.model",
                    "gen_ai.usage.prompt_tokens",
                    "gen_ai.prompt.0.content",
                    "request_data",
                ]
                .iter()
                .any(|key| item.get(key).is_some())
        }
    }
}

fn request<'r>(item: &LoggedItem, place: Option<&FieldPath>) -> Result<LoggedRequest<'r>, DecodeError> {
    if item.dropped > 0 {
        let detail = "attributes were dropped, perhaps parts of the prompt (`dropped_attributes_count`): raise \
            OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT where the request is traced";
        return Err(DecodeError::new(ErrorCode::MissingField, detail));
    }
    if is_message(&item.event) {
        let detail = "its prompt is spread over several log records, a message in each (`gen_ai.user.message` and the \
            like), and none says how many: set OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental where \
            requests are traced";
        return Err(DecodeError::new(ErrorCode::ScatteredPrompt, detail));
    }
    let prompt = prompt::body(item, place)?;
    let started =
        WrittenTime::Number(TimeNumber::Whole(item.start)).time(Numbers::In(NumberUnit::Nanoseconds)).ok();
    let duration = item.end.and_then(|end| end.checked_sub(item.start)).map(Duration::from_nanos);
    let input_tokens = item.count(&[
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.usage.prompt_tokens",
        "llm.token_count.prompt",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
    ])?;
    let input_tokens = input_tokens.or_else(|| usage_of(item));
    let cached_tokens = item.count(&[
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
        "ai.usage.cachedInputTokens",
    ])?;
    Ok(LoggedRequest {
        prompt: LoggedPrompt::Body(Cow::Owned(prompt)),
        arrival: started.filter(|_| item.start > 0),
        names: names(item),
        observed: ObservedRequest {
            duration,
            input_tokens,
            output_tokens: item.count(&[
                "gen_ai.usage.output_tokens",
                "gen_ai.usage.completion_tokens",
                "llm.usage.completion_tokens",
                "llm.token_count.completion",
                "ai.usage.outputTokens",
                "ai.usage.completionTokens",
            ])?,
            cached_tokens: CachedTokens::of_usage(cached_tokens, input_tokens.is_some()),
            cache_writes: cache_writes(item)?,
            unread: content::unread(item),
            ..ObservedRequest::default()
        },
    })
}

/// Prompt tokens of a usage that is one attribute, as MLflow and Langfuse write it.
fn usage_of(item: &LoggedItem) -> Option<u64> {
    let usages =
        [("mlflow.chat.tokenUsage", "input_tokens"), ("langfuse.observation.usage_details", "input")];
    usages.into_iter().find_map(|(key, field)| {
        let usage: serde_json::Value = serde_json::from_str(&item.get(key)?.json()).ok()?;
        usage[field].as_u64()
    })
}

/// Tokens written; how long they are kept, no convention says.
fn cache_writes(item: &LoggedItem) -> Result<Option<CacheWrites>, DecodeError> {
    let tokens = item.count(&[
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ])?;
    Ok(tokens.map(|tokens| CacheWrites { tokens, ..CacheWrites::default() }))
}

/// The names that templates have for some attributes, and every short one by its own.
fn names<'r>(item: &LoggedItem) -> Vec<(Cow<'r, str>, String)> {
    let known = [
        (
            "model",
            &[
                "gen_ai.request.model",
                "llm.request.model",
                "llm.model_name",
                "gen_ai.response.model",
                "ai.model.id",
                "langfuse.observation.model.name",
            ][..],
        ),
        ("session_id", &["gen_ai.conversation.id", "session.id", "langfuse.session.id"]),
    ];
    let known = known.into_iter().filter_map(|(name, keys)| Some((Cow::Borrowed(name), item.scalar(keys)?)));
    let own = item.all().filter(|attribute| !content::is_content(&attribute.key));
    let own = own.filter_map(|attribute| {
        let value = attribute.value.as_ref()?.scalar()?;
        let bytes = attribute.key.len() + value.len();
        (bytes <= MAX_NAME_BYTES).then(|| (Cow::Owned(attribute.key.clone()), value))
    });
    known.chain(own.take(MAX_NAMES)).collect()
}
