//! The shapes, one by one.

use super::LoggedPrompt;
use super::layout::{LogLayout, Prompt};
use super::{litellm, path, sglang, vllm};
use crate::codec::DecodeError;
use crate::record::members::{member, members};
use crate::record::outcome::LoggedOutcome;
use crate::time::NumberUnit::{Milliseconds, Seconds};
use kvset_core::request::labels::Label;

pub(super) static LITELLM: LogLayout = LogLayout {
    passed_over: litellm::passed_over,
    response: &["response"],
    prompt_tokens: &["prompt_tokens"],
    start: &["startTime"],
    end: &["endTime"],
    names: &[
        ("model", "model"),
        ("tenant", "metadata.user_api_key_team_id"),
        ("tenant", "metadata.user_api_key_hash"),
        ("session_id", "trace_id"),
        ("deployment", "model_id"),
        ("deployment", "hidden_params.model_id"),
    ],
    request: &["model_parameters"],
    ..LogLayout::of(Prompt::Own(litellm::prompt), litellm::SWITCH_ON)
};

pub(super) static KONG: LogLayout = LogLayout {
    response: &["ai.proxy.payload.response", "ai.proxy"],
    start: &["started_at"],
    duration: &[("latencies.request", Milliseconds)],
    names: &[("model", "ai.proxy.meta.request_model"), ("tenant", "consumer.username")],
    endpoint: &["request.uri"],
    status: &["response.status"],
    ..LogLayout::of(
        Prompt::At(&["ai.proxy.payload.request"]),
        "set config.logging.log_payloads and log_statistics of Kong's ai-proxy plugin (targets[].logging of \
         ai-proxy-advanced), and a client_body_buffer_size that holds your bodies",
    )
};

pub(super) static APISIX: LogLayout = LogLayout {
    response: &["response.body", "llm_summary"],
    prompt_tokens: &["llm_summary.prompt_tokens"],
    start: &["start_time"],
    duration: &[("latency", Milliseconds)],
    names: &[("model", "llm_summary.model"), ("tenant", "consumer.username")],
    endpoint: &["request.uri"],
    status: &["response.status"],
    ..LogLayout::of(
        Prompt::At(&["request.body", "llm_request"]),
        "set include_req_body and include_resp_body of APISIX's kafka-logger plugin, with max_req_body_bytes and a \
         client_body_buffer_size that hold your bodies, or logging.payloads of its ai-proxy plugin",
    )
};

pub(super) static HIGRESS: LogLayout = LogLayout {
    response: &["ai_log"],
    prompt_tokens: &["ai_log.input_token"],
    start: &["start_time"],
    duration: &[("ai_log.llm_service_duration", Milliseconds), ("duration", Milliseconds)],
    names: &[("model", "ai_log.model"), ("tenant", "ai_log.consumer"), ("session_id", "ai_log.session_id")],
    endpoint: &["path"],
    status: &["response_code"],
    ..LogLayout::of(
        Prompt::At(&["ai_log.request"]),
        "add to Higress's ai-statistics plugin the attribute {key: request, value_source: request_body, value: \
         \"@tostr\", apply_to_log: true}: messages alone would leave out tools",
    )
};

pub(super) static DYNAMO_PAYLOAD: LogLayout = LogLayout {
    response: &["payload.response", "response"],
    start: &["payload.response.created", "response.created"],
    // A record is written when its answer is complete.
    end: &["event_time_unix_ms"],
    names: &[("model", "payload.model"), ("model", "model"), ("session_id", "agent_context.session_id")],
    ..LogLayout::of(
        Prompt::At(&["request"]),
        "set DYN_REQUEST_TRACE, or DYN_AUDIT_FORCE_LOGGING, of Dynamo's frontend",
    )
};

pub(super) static VLLM: LogLayout = LogLayout {
    passed_over: served_no_prompt,
    response: &vllm::RESPONSE,
    // vLLM states when a request came; who logs it alongside its answer may do so, too.
    start: &["response.body.created", "response.created"],
    is_row: true,
    duration: &[("duration_ms", Milliseconds)],
    names: &[("model", "request.model"), ("model", "response.body.model"), ("model", "response.model")],
    request: &["request", "body"],
    endpoint: &["url"],
    status: &["response.status_code"],
    ..LogLayout::of(Prompt::Own(vllm::prompt), vllm::SWITCH_ON)
};

pub(super) static SGLANG: LogLayout = LogLayout {
    passed_over: sglang::passed_over,
    response: &["out.meta_info"],
    answer_ids: &["out.output_ids"],
    // Stated with --enable-metrics; the time stamp is the clock's of the host, without its zone.
    start: &["out.meta_info.request_received_ts"],
    end: &["timestamp"],
    duration: &[("out.meta_info.e2e_latency", Seconds)],
    names: &[
        // Each data-parallel rank has a cache of its own.
        (Label::Replica.name(), "out.meta_info.dp_rank"),
        ("session_id", "obj.session_id"),
        ("session_id", "obj.conversation_id"),
    ],
    parts: &["obj.session_params"],
    request: &["obj"],
    unnamed_model: Some("sglang"),
    ..LogLayout::of(Prompt::Own(sglang::prompt), sglang::SWITCH_ON)
};

pub(super) static OPENAI_BATCH: LogLayout = LogLayout {
    passed_over: |record| {
        if path::at(record, "error")?.is_some() {
            return Ok(Some("the request failed"));
        }
        let is_answer = path::at(record, "body")?.is_none() && path::at(record, "response.body")?.is_some();
        Ok(is_answer.then_some("a line of a batch's output, which has no prompt"))
    },
    response: &["response.body"],
    start: &["response.body.created"],
    names: &[("model", "body.model")],
    endpoint: &["url"],
    status: &["response.status_code"],
    ..LogLayout::of(
        Prompt::At(&["body"]),
        "these are the lines of a batch's input file; its output has no prompts",
    )
};

/// Requests, themselves or where the operator says in records of any shape. What stands alongside them has the names
/// of plain rows.
pub(super) static REQUESTS: LogLayout = LogLayout {
    passed_over: served_no_prompt,
    endpoint: &[
        "url",
        "path",
        "uri",
        "endpoint",
        "request_path",
        "request.path",
        "request.url",
        "request.uri",
    ],
    response: &["response", "chunks", ""],
    is_row: true,
    duration: &[("duration_ms", Milliseconds)],
    names: &[
        ("model", "model"),
        ("session_id", "session_id"),
        (Label::Replica.name(), Label::Replica.name()),
        (Label::Tenant.name(), Label::Tenant.name()),
        (Label::RetentionClass.name(), Label::RetentionClass.name()),
    ],
    ..LogLayout::of(
        // Where no place is named, the record is its request.
        Prompt::Own(|record, _| {
            let text = path::at(record, "")?.map(|found| found.text).unwrap_or_default();
            Ok(LoggedPrompt::Body(text))
        }),
        "",
    )
};

/// Why no cache of pages served the request of a record that has the names of plain rows.
fn served_no_prompt(record: &[u8]) -> Result<Option<&'static str>, DecodeError> {
    Ok(LoggedOutcome::of_record(record).passed_over(false))
}

/// Tells which paths lead somewhere in a record. Its own names are read once: most paths end at the first.
pub(super) fn has_paths(record: &[u8]) -> impl FnMut(&str) -> bool {
    let text = std::str::from_utf8(record).ok();
    let members = text.and_then(members).unwrap_or_default();
    move |path| {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        member(&members, first).is_some_and(|value| value != "null") && rest.is_none_or(|_| has(record, path))
    }
}

/// Whether a record tells whom it is for, and what it holds of it.
pub(super) fn has(record: &[u8], path: &str) -> bool {
    let found: Result<_, DecodeError> = path::at(record, path);
    found.is_ok_and(|found| found.is_some())
}
