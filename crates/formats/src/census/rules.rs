//! Which fields could matter to a replay: by what they hold and by the words of their names, never by a list of fields.

use super::lookups::{is_answered_from_cache, looks_nothing_up, says_not_computed};
use super::words::{any, words, words_of_last};
use crate::row_values::bare;
use serde_json::Value;

/// Why a field could matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnreadKind {
    /// A text of some length alongside a prompt.
    Text,
    /// A list of objects with functions or schemas.
    Functions,
    /// A list of whole numbers, as token ids are.
    Integers,
    /// A number whose name speaks of a cache and of tokens.
    CachedTokens,
    /// A name of a host, rank, or whatever else has a cache of its own.
    Cache,
    /// A name of an adapter, whose pages are its own.
    Adapter,
    /// A name of a tenant, an environment or a place.
    Owner,
    /// The share of the traffic that was kept.
    SampleRate,
    /// A parameter with which an engine looks nothing up in its cache.
    NoLookup,
    /// A word that a cache in front of the engine gave the answer.
    AnswerCache,
    /// When something was, where nothing says when requests came.
    Time,
    /// A word that no engine computed the prompt: refused before, failed, only tried, or another call than for an
    /// answer.
    NotComputed,
}

/// The shortest text that is one, in characters, and the fewest words of it.
const TEXT_CHARS: usize = 40;
const TEXT_WORDS: usize = 6;
/// The shortest list of whole numbers that may be tokens.
const MIN_INTEGERS: usize = 8;
/// The longest name of a cache or an owner.
const MAX_NAME: usize = 160;

/// Names of parts of a record that are of its answer, or of the log itself.
const OF_ANSWERS: [&str; 32] = [
    "response",
    "responses",
    "output",
    "outputs",
    "completion",
    "completions",
    "choice",
    "choices",
    "answer",
    "answers",
    "reply",
    "generated",
    "generation",
    "result",
    "results",
    "candidates",
    "error",
    "errors",
    "exception",
    "stack",
    "stacktrace",
    "traceback",
    "headers",
    "header",
    "feedback",
    "comment",
    "expected",
    "logprob",
    "logprobs",
    "embedding",
    "reasoning",
    "thinking",
];
/// Names of lists of numbers that are no tokens.
const NO_TOKENS: [&str; 14] = [
    "mask",
    "position",
    "positions",
    "timestamps",
    "times",
    "latencies",
    "offset",
    "offsets",
    "shape",
    "bytes",
    "buckets",
    "histogram",
    "bounds",
    "counts",
];
const CACHES: [&str; 38] = [
    "hosts",
    "pods",
    "nodes",
    "ranks",
    "gpus",
    "slot",
    "host",
    "hostname",
    "node",
    "pod",
    "server",
    "instance",
    "worker",
    "replica",
    "rank",
    "shard",
    "engine",
    "backend",
    "upstream",
    "cluster",
    "container",
    "machine",
    "gpu",
    "device",
    "partition",
    "port",
    "pid",
    "endpoint",
    "vm",
    "addr",
    "address",
    "ip",
    "target",
    "routed",
    "destination",
    "dp",
    "dispatched",
    "deployment",
];
/// The same where a URL names one: its own API is what it is reached by.
const CALLERS_OF_URLS: [&str; 8] = ["client", "user", "remote", "peer", "caller", "agent", "browser", "db"];
/// Names of those who ask, which are no caches.
const CALLERS: [&str; 16] = [
    "client",
    "user",
    "remote",
    "peer",
    "source",
    "caller",
    "forwarded",
    "agent",
    "browser",
    "sdk",
    "topic",
    "queue",
    "request",
    "api",
    "db",
    "task_type",
];
const ADAPTERS: [&str; 9] =
    ["adapter", "adapters", "lora", "peft", "finetune", "finetuned", "checkpoint", "salt", "weights"];
const OWNERS: [&str; 20] = [
    "tenant",
    "organization",
    "organisation",
    "org",
    "customer",
    "account",
    "workspace",
    "team",
    "project",
    "env",
    "environment",
    "stage",
    "namespace",
    "region",
    "zone",
    "az",
    "datacenter",
    "dc",
    "site",
    "cell",
];
const FOUND: [&str; 8] = ["cache", "cached", "hit", "hits", "reused", "matched", "caching", "prefix"];
const NOT_FOUND: [&str; 19] = [
    "creation",
    "create",
    "created",
    "write",
    "written",
    "miss",
    "missed",
    "max",
    "limit",
    "size",
    "capacity",
    "cost",
    "price",
    "usd",
    "rate",
    "ttl",
    "ratio",
    "allocated",
    "free",
];
const SCHEMAS: [&str; 9] = [
    "function",
    "functions",
    "function_declarations",
    "functionDeclarations",
    "parameters",
    "input_schema",
    "inputSchema",
    "json_schema",
    "parametersJsonSchema",
];
const SHARES: [&str; 12] = [
    "rate",
    "fraction",
    "ratio",
    "probability",
    "prob",
    "percent",
    "percentage",
    "share",
    "weight",
    "param",
    "factor",
    "interval",
];

/// Why a value at a path could matter; nothing where it could not.
pub(super) fn kind_of(path: &str, value: &Value) -> Option<UnreadKind> {
    if path.is_empty() {
        return None;
    }
    let of_answer = is_of_answer(path) || is_of_answer_form(path);
    let own: Vec<&str> = path.rsplit(['.']).take(2).collect();
    let last = words(own.first()?.trim_end_matches("[]"));
    match value {
        Value::Array(items) if is_integers(items) => {
            (!of_answer && !any(&last, &NO_TOKENS)).then_some(UnreadKind::Integers)
        }
        Value::Array(items) => {
            let has_functions = items.iter().any(has_schema);
            (has_functions && !of_answer).then_some(UnreadKind::Functions)
        }
        Value::Object(members) => {
            let is_of_tools = any(&last, &["tools", "functions"]) && !members.is_empty();
            (is_of_tools && members.values().all(has_schema)).then_some(UnreadKind::Functions)
        }
        _ if looks_nothing_up(&last, value) => Some(UnreadKind::NoLookup),
        _ if is_answered_from_cache(&own, value) => Some(UnreadKind::AnswerCache),
        _ if says_not_computed(&own, value) => Some(UnreadKind::NotComputed),
        _ if share_of(path, value).is_some() => Some(UnreadKind::SampleRate),
        _ if is_count(value) && is_of_cached(&own) && !any(&words(path), &["output", "completion"]) => {
            Some(UnreadKind::CachedTokens)
        }
        Value::String(_) | Value::Number(_) if is_time(&last, value) => Some(UnreadKind::Time),
        Value::String(_) if cache_named_in(path, value).is_some() => Some(UnreadKind::Cache),
        Value::String(text) if is_text(text) => (!of_answer).then_some(UnreadKind::Text),
        Value::String(text) if text.is_empty() || text.len() > MAX_NAME => None,
        Value::String(text) if served_by(&last, text) => Some(UnreadKind::Cache),
        Value::String(_) | Value::Number(_) => name_kind(&own, &last),
        _ => None,
    }
}

/// Whether a value is a date, or by its name and size a time of the last decades in seconds to nanoseconds.
fn is_time(last: &[String], value: &Value) -> bool {
    const TIMES: [&str; 14] = [
        "time",
        "timestamp",
        "ts",
        "date",
        "at",
        "created",
        "start",
        "started",
        "received",
        "begin",
        "when",
        "logged",
        "unix",
        "ns",
    ];
    /// 2001 to 2096, in seconds.
    const SECONDS: std::ops::Range<f64> = 1e9..4e9;
    let text = value.as_str().unwrap_or_default();
    let digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_date = (16..=40).contains(&text.len())
        && [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15].into_iter().all(digit)
        && text.as_bytes()[4] == b'-';
    let number = value.as_f64().or_else(|| text.parse().ok()).unwrap_or(0.0);
    let is_moment = [1.0, 1e3, 1e6, 1e9].iter().any(|unit| SECONDS.contains(&(number / unit)));
    is_date || (is_moment && any(last, &TIMES))
}

/// Whether a path leads to what was answered, or to what is said of that or of the log. A name that says prompt is
/// none, unless it lies in an answer.
fn is_of_answer(path: &str) -> bool {
    const ASKED: [&str; 6] = ["prompt", "instruction", "instructions", "system", "context", "persona"];
    let (around, last) = path.rsplit_once('.').unwrap_or(("", path));
    let last = words(last);
    any(&words(around), &OF_ANSWERS)
        || (any(&last, &OF_ANSWERS) && !any(&last, &ASKED))
        || last == ["user", "agent"]
}

/// Whether a path leads into the form that an answer must have: a schema or a grammar, which no prompt contains. That
/// of a tool is none.
fn is_of_answer_form(path: &str) -> bool {
    const FORMS: [&str; 8] =
        ["schema", "schemas", "guided", "grammar", "format", "constraint", "constraints", "structured"];
    const OF_TOOLS: [&str; 8] =
        ["tool", "tools", "function", "functions", "parameters", "declarations", "input", "mcp"];
    let words = words(path);
    any(&words, &FORMS) && !any(&words, &OF_TOOLS)
}

/// What a short value names by its field's name.
fn name_kind(own: &[&str], last: &[String]) -> Option<UnreadKind> {
    let around = own.get(1).map(|name| words(name)).unwrap_or_default();
    let is = |of: &[&str]| any(last, of) || (is_name(last) && any(&around, of));
    let is_measure =
        any(last, &["ms", "s", "seconds", "time", "count", "total", "size", "version", "type", "duration"])
            || any(last, &["status", "state", "code", "message"]);
    // New weights make old pages worthless, as another adapter does.
    let is_of_weights = any(last, &["weight", "weights"]) && any(last, &["version", "id", "name", "hash"]);
    if is_of_weights {
        Some(UnreadKind::Adapter)
    } else if is_measure {
        None
    } else if is(&ADAPTERS) {
        Some(UnreadKind::Adapter)
    } else if is(&CACHES) && !any(last, &CALLERS) && !any(&around, &CALLERS) {
        Some(UnreadKind::Cache)
    } else {
        is(&OWNERS).then_some(UnreadKind::Owner)
    }
}

/// Whether a name asks who served (`x-served-by`), and a value names one of several: they are numbered.
fn served_by(last: &[String], value: &str) -> bool {
    value.contains(|c: char| c.is_ascii_digit())
        && any(last, &["served", "handled", "processed", "routed"])
        && any(last, &["by", "from", "to", "at"])
}

/// What of a value names a cache, where the name of its field does not: the host of a URL by which something is
/// reached, and the value of a tag such as `host:gpu-1`.
pub(super) fn cache_named_in<'v>(path: &str, value: &'v Value) -> Option<&'v str> {
    const REACHED_BY: [&str; 9] =
        ["url", "uri", "base", "host", "endpoint", "server", "address", "upstream", "backend"];
    const NOT_REACHED: [&str; 10] = [
        "image", "file", "document", "source", "callback", "webhook", "origin", "referer", "page", "messages",
    ];
    let text = value.as_str().filter(|text| text.len() <= MAX_NAME)?;
    let words = words(path);
    if let Some((_, rest)) = text.split_once("://") {
        let is_reached =
            any(&words, &REACHED_BY) && !any(&words, &NOT_REACHED) && !any(&words, &CALLERS_OF_URLS);
        return rest.split(['/', '?']).next().filter(|host| is_reached && !host.is_empty());
    }
    let (key, named) = text.split_once([':', '='])?;
    let is_tag = path.ends_with("[]") && !named.is_empty() && !text.contains(char::is_whitespace);
    (is_tag && CACHES.contains(&key)).then_some(named)
}

/// Whether a field's name says only that it is a name.
fn is_name(last: &[String]) -> bool {
    last.iter().all(|word| ["id", "name", "key", "uid", "uuid", "index", "number"].contains(&word.as_str()))
}

/// Whether the last of these names speaks of tokens that a cache had; the one around it may say the half of it.
fn is_of_cached(own: &[&str]) -> bool {
    let words: Vec<String> = own.iter().flat_map(|name| words(name)).collect();
    let last = words_of_last(own);
    let speaks = |of: &[&str]| words.iter().any(|word| of.iter().any(|part| word.contains(part)));
    let is_found = any(&words, &FOUND) || speaks(&["cache"]);
    // What was not found is another count, and a stored block none.
    is_found
        && speaks(&["token", "toks", "usage", "block", "prefix"])
        && !any(&words, &["uncached", "noncached", "uncacheable"])
        && !any(&last, &NOT_FOUND)
        && any(
            &last,
            &[
                "tokens", "token", "toks", "cached", "hit", "hits", "read", "n", "count", "num", "reused",
                "matched", "blocks", "len", "length",
            ],
        )
}

fn is_count(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::String(text) => {
            !text.is_empty() && text.len() < 20 && text.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}

fn is_integers(items: &[Value]) -> bool {
    const LOOKED_AT: usize = 32;
    items.len() >= MIN_INTEGERS
        && items.iter().take(LOOKED_AT).all(|item| match bare(item) {
            Value::Number(number) => {
                number.is_u64()
                    || number.as_f64().is_some_and(|number| number.fract() == 0.0 && number >= 0.0)
            }
            Value::String(text) => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
            _ => false,
        })
}

fn has_schema(item: &Value) -> bool {
    item.as_object().is_some_and(|item| {
        SCHEMAS.iter().any(|name| item.get(*name).is_some_and(|inner| inner.is_object() || inner.is_array()))
    })
}

/// Whether a text is prose: words, or letters of a script that has no spaces.
pub(super) fn is_text(text: &str) -> bool {
    text.chars().nth(TEXT_CHARS - 1).is_some()
        && (text.split_whitespace().nth(TEXT_WORDS - 1).is_some()
            || text.chars().filter(|c| !c.is_ascii()).count() >= TEXT_CHARS / 2)
}

/// The share of the traffic that a value says was kept.
pub(super) fn share_of(path: &str, value: &Value) -> Option<f64> {
    let last = path.rsplit('.').next().unwrap_or_default();
    let mut name = words(last);
    if name.concat().ends_with("tracestate") {
        return value.as_str().and_then(share_of_trace_state);
    }
    let around = path.rsplit('.').nth(1).unwrap_or_default();
    if name.len() <= 2 && any(&name, &SHARES) || name == ["adjusted", "count"] {
        name.extend(words(around));
    }
    let is_sampled = name.iter().any(|word| word.starts_with("sampl"))
        || (any(&name, &["psr"]) || any(&name, &["keep", "kept", "retained"]) && any(&name, &SHARES));
    let says_percent = value.as_str().is_some_and(|text| text.trim_end().ends_with('%'));
    let names_share = any(&name, &SHARES)
        || name.len() == 1
        || says_percent
        || any(&name, &["psr", "every", "n", "in", "one", "adjusted"]);
    let is_of_generation = words(path).iter().any(|word| word == "params" || word == "parameters");
    if !is_sampled || !names_share || is_of_generation {
        return None;
    }
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => match text.trim_end_matches('%').parse::<f64>() {
            Ok(percent) if text.ends_with('%') => percent / 100.0,
            read => read.ok()?,
        },
        _ => return None,
    };
    let is_percent = any(&name, &["percent", "percentage"]);
    match number {
        _ if is_percent && number > 0.0 && number < 100.0 => Some(number / 100.0),
        _ if number > 0.0 && number < 1.0 => Some(number),
        // One of so many.
        _ if number > 1.0 && number.fract() == 0.0 && name.len() > 1 => Some(1.0 / number),
        _ => None,
    }
}

/// OpenTelemetry's `ot=th:...`, a threshold of 56 bits below which traces are dropped; `ot=p:...` in its former form.
fn share_of_trace_state(state: &str) -> Option<f64> {
    let vendor = state.split(',').find_map(|entry| entry.trim().strip_prefix("ot="))?;
    let field = |name: &str| vendor.split(';').find_map(|field| field.strip_prefix(name));
    let share = match (field("th:"), field("p:")) {
        (Some(digits), _) if digits.len() <= 14 => {
            let digits = format!("{digits:0<14}");
            let threshold = u64::from_str_radix(&digits, 16).ok()?;
            1.0 - threshold as f64 / (1u64 << 56) as f64
        }
        (_, Some(exponent)) => 0.5f64.powi(exponent.parse::<u8>().ok()?.into()),
        _ => return None,
    };
    (share > 0.0 && share < 1.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_could_matter_by_what_it_holds_and_is_called() {
        let prose = "You are a careful assistant of the company and answer briefly.";
        let ids: Vec<u32> = (0..20).collect();
        for (path, value, kind) in [
            ("system_prompt", json!(prose), Some(UnreadKind::Text)),
            ("response.text", json!(prose), None),
            (
                "kwargs.tools",
                json!([{"type": "function", "function": {"name": "f"}}]),
                Some(UnreadKind::Functions),
            ),
            ("agent_tools", json!({"a": {"input_schema": {}}}), Some(UnreadKind::Functions)),
            ("config.response_schema.properties.a.description", json!(prose), None),
            ("guided_json.properties.a.description", json!(prose), None),
            ("text.format.schemas", json!([{"json_schema": {}}]), None),
            ("tools[].input_schema.description", json!(prose), Some(UnreadKind::Text)),
            ("nvext.token_data", json!(ids), Some(UnreadKind::Integers)),
            ("output_ids", json!(ids), None),
            ("prompt_cache_read_tokens", json!(7), Some(UnreadKind::CachedTokens)),
            ("usage.details.cache_read_tokens", json!("7"), Some(UnreadKind::CachedTokens)),
            ("tokens.cached", json!(7), Some(UnreadKind::CachedTokens)),
            ("cache_creation_tokens", json!(7), None),
            ("max_tokens", json!(7), None),
            ("dp_rank", json!(1), Some(UnreadKind::Cache)),
            ("kubernetes.pod_name", json!("a-0"), Some(UnreadKind::Cache)),
            ("worker.id", json!("a"), Some(UnreadKind::Cache)),
            ("client_ip", json!("10.0.0.1"), None),
            ("x-served-by", json!("gpu-7"), Some(UnreadKind::Cache)),
            ("id_slot", json!(3), Some(UnreadKind::Cache)),
            ("api_base", json!("http://10.0.0.5:8000/v1"), Some(UnreadKind::Cache)),
            ("tags[]", json!("host:gpu-1"), Some(UnreadKind::Cache)),
            ("tags[]", json!("team:red"), None),
            ("image_url.url", json!("https://example.org/a.png"), None),
            ("upstream_cache_status", json!("EXPIRED"), None),
            ("weight_version", json!("2"), Some(UnreadKind::Adapter)),
            ("model_version", json!("2"), None),
            ("vllm_xargs.cache_salt", json!("a"), Some(UnreadKind::Adapter)),
            ("num_reused_blocks", json!(7), Some(UnreadKind::CachedTokens)),
            ("kv_cache.num_total_allocated_blocks", json!(7), None),
            ("matched_prefix_len", json!(7), Some(UnreadKind::CachedTokens)),
            ("uncached_prompt_tokens", json!(7), None),
            ("lora_task_id", json!(5), Some(UnreadKind::Adapter)),
            ("adapters[]", json!("a"), Some(UnreadKind::Adapter)),
            ("deployment.environment", json!("prod"), Some(UnreadKind::Owner)),
            ("sample_rate", json!(0.1), Some(UnreadKind::SampleRate)),
            ("SampleRate", json!(20), Some(UnreadKind::SampleRate)),
            ("sampling_params.n", json!(2), None),
            ("temperature", json!(0.7), None),
            ("logging_time", json!("2026-11-29T18:00:00Z"), Some(UnreadKind::Time)),
            ("values[][]", json!("1763640005159000000"), None),
            ("span.start_ns", json!("1763640005159000000"), Some(UnreadKind::Time)),
            ("start_ms", json!(1_763_640_005_159_i64), Some(UnreadKind::Time)),
            ("sampled_one_in", json!(50), Some(UnreadKind::SampleRate)),
            ("log_sampling", json!("5%"), Some(UnreadKind::SampleRate)),
            ("sampling.adjusted_count", json!(20), Some(UnreadKind::SampleRate)),
            ("sampled", json!(1), None),
            ("itemCount", json!(10), None),
            ("sampling.rate", json!(0.5), Some(UnreadKind::SampleRate)),
            ("agent.instructions", json!(prose), Some(UnreadKind::Text)),
            ("user_agent", json!(prose), None),
            ("served_from_cache", json!(true), Some(UnreadKind::AnswerCache)),
            ("gateway.cache_hit", json!("Yes"), Some(UnreadKind::AnswerCache)),
            ("prefix_cache_hit", json!(true), None),
            ("headers.x-edge-cache", json!("Hit from edge"), Some(UnreadKind::AnswerCache)),
            ("headers.x-edge-cache", json!("Miss from edge"), None),
            ("was_cached", json!(1), Some(UnreadKind::AnswerCache)),
            ("handled_by", json!("semantic-cache"), Some(UnreadKind::AnswerCache)),
            ("handled_by", json!("engine"), None),
            ("kv_source", json!("prefix_cache"), None),
            ("guardrail.denied", json!(true), Some(UnreadKind::NotComputed)),
            ("guardrail.denied", json!(false), None),
            ("final_state", json!("rejected"), Some(UnreadKind::NotComputed)),
            ("finish_reason", json!("stop"), None),
            ("http.status_code", json!(503), Some(UnreadKind::NotComputed)),
            ("http.status_code", json!("200"), None),
            ("http.status_code", json!(499), None),
            ("request.uri", json!("/v1/messages/count_tokens"), Some(UnreadKind::NotComputed)),
            ("request.uri", json!("/v1/models/a:generateContent"), None),
            ("dryRun", json!("true"), Some(UnreadKind::NotComputed)),
            ("rpc.grpc.status_code", json!(14), Some(UnreadKind::NotComputed)),
            ("rpc.grpc.status_code", json!(0), None),
            ("llm.request_type", json!("rerank"), Some(UnreadKind::NotComputed)),
            ("llm.request_type", json!("chat"), None),
            ("policy_result", json!("BLOCK"), Some(UnreadKind::NotComputed)),
            ("use_cache", json!(true), None),
            ("disable_prefix_caching", json!(true), Some(UnreadKind::NoLookup)),
            ("prompt_logprobs", json!(0), Some(UnreadKind::NoLookup)),
            ("logprob_start_len", json!(-1), None),
            ("logprob_start_len", json!(0), Some(UnreadKind::NoLookup)),
            ("skip_reading_prefix_cache", json!(true), Some(UnreadKind::NoLookup)),
            ("cache_prompt", json!(false), Some(UnreadKind::NoLookup)),
        ] {
            assert_eq!(kind_of(path, &value), kind, "{path}");
        }
    }

    #[test]
    fn a_trace_state_says_what_was_kept() {
        let share = |state: &str| share_of("spans[].traceState", &json!(state));
        assert_eq!(share("ot=th:8"), Some(0.5));
        assert_eq!(share("x=1,ot=rv:1;th:c"), Some(0.25));
        assert_eq!(share("ot=p:3"), Some(0.125));
        assert_eq!(share("ot=th:0"), None);
        assert_eq!(share("vendor=1"), None);
    }
}
