//! Which fields could matter to a replay: by what they hold and by the words of their names, never by a list of fields.

use super::caches::{CACHES, MAX_NAME, cache_named_in, is_route, pairs};
use super::lookups::{is_answered_from_cache, looks_nothing_up, says_not_computed};
use super::scopes::{CALLERS, is_beside_the_request, is_in_front, is_of_caller, is_within, keeps_no_answers};
use super::shares::{names_sampler, share_of};
use super::times::is_time;
use super::unshown::{speaks_of_additions, speaks_of_media};
use super::words::{ANSWERS, FOUND, JUDGED, NOT_FOUND, TOKENS, any, any_of_several, words, words_of_last};
use crate::row_values::bare;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kvset_core::units::names::listed;
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
    /// A name of a model, which matters where requests seem to stand there twice.
    Model,
    /// A name of the model that answered, where that is not the one that was asked.
    Answering,
    /// What is said of rows that are not in the file.
    Rest,
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
    /// A word of the row that its prompt is not whole.
    Partial,
    /// A limit that a prompt is longer than.
    Limit,
    /// Media that are a part of the prompt.
    Media,
    /// What a server adds to the text of a prompt, or takes from it.
    Added,
    /// A mask of an answer in a list of ids that holds it.
    WithAnswer,
    /// A count that another one of the row contradicts.
    Contradiction,
    /// Values of few that part the log by what became of its requests.
    Outcome,
    /// No answer, where others have one.
    NoAnswer,
}

/// The shortest text that is one, in characters, and the fewest words of it.
const TEXT_CHARS: usize = 40;
const TEXT_WORDS: usize = 6;
/// The shortest list of whole numbers that may be tokens.
const MIN_INTEGERS: usize = 8;

/// Names of parts of a record that are of its log, or of how its answer came.
const OF_ANSWERS: [&str; 24] = listed(
    "rationale verdict delta answers choice generation result results candidates error errors exception \
        stack stacktrace traceback headers header comment expected logprob logprobs embedding reasoning \
        thinking",
);
/// Names of lists of numbers that are no tokens.
const NO_TOKENS: [&str; 14] = listed(
    "mask position positions timestamps times latencies offset offsets shape bytes buckets histogram bounds \
        counts",
);
/// Names of those who ask, alongside the [`CALLERS`], and of what they ask by.
const ASKING: [&str; 7] = ["source", "forwarded", "sdk", "topic", "queue", "request", "api"];
/// What runs the engines: what it names or numbers is one of them.
const SERVING: [&str; 10] =
    ["ray", "vllm", "sglang", "triton", "skypilot", "slurm", "bentoml", "modal", "runpod", "sagemaker"];
const ADAPTERS: [&str; 10] = [
    "customization",
    "adapter",
    "adapters",
    "lora",
    "peft",
    "finetune",
    "finetuned",
    "checkpoint",
    "salt",
    "weights",
];
const OWNERS: [&str; 27] = listed(
    "location tenant organization organisation org customer account workspace team project env environment \
        stage namespace region zone az datacenter dc site cell pool fleet rack accelerator hardware arn",
);
/// Words of counts that are of no prompt's tokens, alongside [`NOT_FOUND`].
const OTHER_COUNTS: [&str; 10] =
    ["id", "version", "max", "limit", "size", "capacity", "usd", "ttl", "allocated", "free"];
const SCHEMAS: [&str; 9] = listed(
    "function functions function_declarations functionDeclarations parameters input_schema inputSchema \
        json_schema parametersJsonSchema",
);
/// Why a value at a path could matter; nothing where it could not.
pub(super) fn kind_of(path: &str, value: &Value) -> Option<UnreadKind> {
    if path.is_empty() {
        return None;
    }
    let of_answer = is_of_answer(path) || is_of_answer_form(path);
    let own: Vec<&str> = path.rsplit(['.']).take(2).collect();
    let mut last = words(own.first()?.trim_end_matches("[]"));
    // What a cloud calls its headers is no measure.
    if last.len() > 2 && last.starts_with(&["x".to_owned(), "ms".to_owned()]) {
        last.drain(..2);
    }
    match value {
        _ if speaks_of_media(path, &last, value) => Some(UnreadKind::Media),
        _ if speaks_of_additions(path, &last, value) => Some(UnreadKind::Added),
        Value::Array(items) if is_integers(items) => {
            (!of_answer && !any(&last, &NO_TOKENS)).then_some(UnreadKind::Integers)
        }
        Value::Array(items) if is_short_of_numbers(items) => {
            name_kind(path, &own, &last, value).filter(|kind| *kind == UnreadKind::Cache)
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
        _ if !keeps_no_answers(path) && is_answered_from_cache(&own, value) => Some(UnreadKind::AnswerCache),
        _ if !is_beside_the_request(path) && says_not_computed(&own, value) => Some(UnreadKind::NotComputed),
        Value::Number(_) if limits_prompts(path, &last) => Some(UnreadKind::Limit),
        _ if share_of(path, value).is_some() || names_sampler(path, value) => Some(UnreadKind::SampleRate),
        _ if says_what_was_cached(path, value) => Some(UnreadKind::CachedTokens),
        Value::String(_) | Value::Number(_) if is_time(&last, value) => Some(UnreadKind::Time),
        Value::String(_) if cache_named_in(path, value).is_some() => Some(UnreadKind::Cache),
        Value::String(text) if is_text(text) || is_packed_text(text) => {
            (!of_answer && !is_heading(path, &last, text)).then_some(UnreadKind::Text)
        }
        Value::String(text) if text.is_empty() || text.len() > MAX_NAME => None,
        Value::String(text) if served_by(&last, text) => Some(UnreadKind::Cache),
        Value::String(_) | Value::Number(_) => name_kind(path, &own, &last, value),
        _ => None,
    }
}

/// Whether a number is the most that a prompt may have by its name: `num_ctx`, `max_prompt_tokens`, `truncation_length`.
fn limits_prompts(path: &str, last: &[String]) -> bool {
    const OTHERS: [&str; 20] = listed(
        "output completion response new generated used left remaining free version id size count total file images \
            message messages turns history",
    );
    let has = |of: &[&str]| any(last, of);
    let is_most = has(&["max", "limit", "window", "length", "len", "n", "num", "to"]);
    let is_of_prompt = has(&["ctx", "context", "truncate", "truncation"])
        || (has(&["max"])
            && (has(&["prompt", "input", "seq", "model"]) && has(&["tokens", "length", "len"])));
    let is_cut = last == ["truncate"];
    ((is_most && is_of_prompt) || is_cut) && !any(last, &OTHERS) && !is_of_answer(path)
}

/// Whether a short text is what an application calls a conversation, for its users to find it again, or says of a
/// request, for those who look at it later.
fn is_heading(path: &str, last: &[String], text: &str) -> bool {
    const TITLES: [&str; 5] = ["title", "subject", "headline", "heading", "caption"];
    const NOTES: [&str; 6] = ["note", "notes", "remark", "remarks", "description", "summary"];
    text.len() <= MAX_NAME && (any(last, &TITLES) || (any(last, &NOTES) && !is_within(path)))
}

/// Whether a path leads to what was answered, or to what is said of that or of the log. A name that says prompt is
/// none, unless it lies in an answer.
pub(super) fn is_of_answer(path: &str) -> bool {
    const ASKED: [&str; 6] = ["prompt", "instruction", "instructions", "system", "context", "persona"];
    let (around, last) = path.rsplit_once('.').unwrap_or(("", path));
    let last = words(last);
    let speaks = |words: &[String]| [&ANSWERS[..], &JUDGED, &OF_ANSWERS].iter().any(|of| any(words, of));
    speaks(&words(around))
        || (speaks(&last) && (!any(&last, &ASKED) || any(&last, &JUDGED)))
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
fn name_kind(path: &str, own: &[&str], last: &[String], value: &Value) -> Option<UnreadKind> {
    if is_within(path) && any(&words(path), &["arguments", "choices", "delta"]) {
        return None;
    }
    let around = own.get(1).map(|name| words(name)).unwrap_or_default();
    let is = |of: &[&str]| any_of_several(last, of) || (is_name(last) && any_of_several(&around, of));
    let text = value.as_str().unwrap_or_default();
    let is_measure =
        any(last, &["ms", "s", "seconds", "time", "count", "total", "size", "version", "type", "duration"])
            || any(last, &["status", "state", "code", "message", "usage", "utilization", "pct", "ratio"])
            || value.is_f64();
    // New weights make old pages worthless, as another adapter does.
    let is_of_weights = (any(last, &["weight", "weights", "checkpoint", "ckpt"])
        && any(last, &["version", "id", "name", "hash", "step", "iteration"]))
        || (any(last, &["policy", "actor", "global", "rollout", "training", "train", "optimizer"])
            && any(last, &["version", "step", "iteration", "epoch"]));
    let is_of_hardware = any(last, &["gpu", "instance", "accelerator", "machine", "hardware", "node", "vm"])
        && any(last, &["type", "class", "family", "sku", "kind"]);
    let is_of_state = any(last, &["model"]) && any(last, &["revision", "commit", "sha", "hash", "digest"]);
    // A gateway names each deployment of a model by a digest.
    let is_deployment = any(last, &["model"]) && is_digest(text);
    // Two of these are two engines' ways to fill pages.
    let is_of_engine = [["kv", "dtype"], ["block", "size"], ["template", "version"]]
        .iter()
        .any(|both| both.iter().all(|word| any(last, &[word])))
        || last == ["tokenizer"]
        || last == ["quantization"];
    if is_of_engine && !is_within(path) {
        return Some(UnreadKind::Owner);
    }
    if is_of_weights || is_of_state {
        Some(UnreadKind::Adapter)
    } else if names_who_answered(path, &around, last) && !text.is_empty() {
        Some(UnreadKind::Answering)
    } else if is_of_hardware && !text.is_empty() {
        Some(UnreadKind::Owner)
    } else if is_measure {
        None
    } else if is(&ADAPTERS) {
        Some(UnreadKind::Adapter)
    } else if is_deployment || (is(&CACHES) && !is_asking(last) && !is_asking(&around)) {
        (!is_in_front(own) && !is_in_front(&[text]) && !is_route(text)).then_some(UnreadKind::Cache)
    } else if any(last, &["stream"]) && any(last, &["log", "name"]) {
        // CloudWatch has one of each task.
        Some(UnreadKind::Cache)
    } else if any(&around, &SERVING) && (is_name(last) || any(last, &["actor", "task"])) {
        Some(UnreadKind::Cache)
    } else if is(&OWNERS) && !is_of_caller(path) {
        Some(UnreadKind::Owner)
    } else {
        let is_elsewhere = is_of_answer(path) || is_within(path) || is_beside_the_request(path);
        (is(&["model"]) && !text.is_empty() && !is_elsewhere).then_some(UnreadKind::Model)
    }
}

/// Whether a name is of the model that answered: that of an answer, or one that was chosen, or a version of it.
fn names_who_answered(path: &str, around: &[String], last: &[String]) -> bool {
    const CHOSEN: [&str; 21] = listed(
        "used selected actual resolved routed served serving final effective chosen answering answered provider tuned \
            upstream deployed target path version backend response",
    );
    let is_of_answer =
        any(around, &["response", "completion", "answer", "reply", "output"]) && last == ["model"];
    let is_entity = any(last, &["entity", "endpoint"]) && any(last, &["served"]);
    let is_model = any(last, &["model"]) && any(last, &CHOSEN);
    (is_of_answer || is_entity || is_model) && !is_within(path) && !is_beside_the_request(path)
}

fn is_asking(words: &[String]) -> bool {
    any(words, &CALLERS) || any(words, &ASKING)
}

/// Whether a text is a digest, of 32 digits and more.
fn is_digest(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a list is of a few whole numbers, as ranks and devices are.
fn is_short_of_numbers(items: &[Value]) -> bool {
    const FEW: usize = 16;
    (1..=FEW).contains(&items.len()) && items.iter().all(|item| item.is_u64())
}

/// Whether a name asks who served (`x-served-by`), and a value names one of several: they are numbered, or have a name
/// of two words.
fn served_by(last: &[String], value: &str) -> bool {
    let is_one = value.contains(|c: char| c.is_ascii_digit()) || words(value).len() > 1;
    is_one
        && any(last, &["served", "handled", "processed", "routed"])
        && any(last, &["by", "from", "to", "at"])
}

/// Whether a field's name says only that it is a name.
fn is_name(last: &[String]) -> bool {
    last.iter().all(|word| ["id", "name", "key", "uid", "uuid", "index", "number"].contains(&word.as_str()))
}

/// Whether a value counts tokens that a cache had, or their share; a text of pairs may hold such a count.
fn says_what_was_cached(path: &str, value: &Value) -> bool {
    // Prices are fractions; a whole number beside them counts.
    let is_price = any(&words(path), &["price", "cost"]) && value.as_u64().is_none_or(|count| count == 0);
    if keeps_no_answers(path) || is_price || any(&words(path), &["output", "completion"]) {
        return false;
    }
    let counts = |(key, held): &(&str, &str)| is_count(&Value::from(*held)) && any(&words(key), &FOUND);
    let names: Vec<&str> = path.rsplit('.').take(3).collect();
    match value {
        Value::String(text) if text.len() <= MAX_NAME && !is_count(value) && !is_within(path) => {
            pairs(text).is_some_and(|pairs| pairs.len() > 1 && pairs.iter().any(counts))
        }
        _ => is_count(value) && (is_of_cached(&names) || is_share_of_cached(&names) || is_of_computed(path)),
    }
}

/// Whether the last of these names speaks of tokens that a cache had; those around it may say a part of it.
fn is_of_cached(names: &[&str]) -> bool {
    let words: Vec<String> = names.iter().take(2).flat_map(|name| words(name)).collect();
    let all: Vec<String> = names.iter().flat_map(|name| super::words::words(name)).collect();
    let last = words_of_last(names);
    let speaks = |of: &[&str]| all.iter().any(|word| of.iter().any(|part| word.contains(part)));
    let is_found = any(&words, &FOUND)
        || any(&words, &["prefix", "caching"])
        || words.iter().any(|word| word.contains("cache"));
    // Places that the cached tokens were found in: each has a part of them.
    let is_part = words_of_last(&names[1..]).starts_with(&["cached".to_owned(), "tokens".to_owned()]);
    // What was not found is another count, and a stored block none.
    is_found
        && speaks(&["tok", "usage", "block", "prefix", "page", "kv", "char", "prompt"])
        && !any(&all, &["uncached", "noncached", "uncacheable"])
        && !any(&last, &NOT_FOUND)
        && !any(&last, &OTHER_COUNTS)
        && (is_part
            || any(&last, &TOKENS)
            || any(&last, &FOUND)
            || any(&last, &["read", "n", "count", "num", "blocks", "len", "length"]))
}

/// Whether a name speaks of the tokens of a prompt that were computed: the rest was found.
pub(super) fn is_of_computed(path: &str) -> bool {
    let last = words(path.rsplit('.').next().unwrap_or_default());
    any(&last, &["prefill", "prefilled", "computed", "recomputed"]) && any(&last, &TOKENS)
}

/// Whether a path leads to the share that a cache had.
pub(super) fn is_share(path: &str) -> bool {
    is_share_of_cached(&path.rsplit('.').take(3).collect::<Vec<_>>())
}

/// Whether a name speaks of the share that a cache had.
fn is_share_of_cached(names: &[&str]) -> bool {
    const SHARES: [&str; 7] = ["ratio", "rate", "pct", "percent", "percentage", "share", "fraction"];
    let (last, around) = (words_of_last(names), words_of_last(names.get(1..).unwrap_or_default()));
    let is_found = |words: &[String]| any(words, &FOUND) || any(words, &["reuse"]);
    let is_of_cache =
        any(&last, &["cache", "cached", "prefix", "kv"]) || any(&around, &["cache", "prefix", "kv"]);
    any(&last, &SHARES) && is_found(&last) && is_of_cache
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

/// Whether a text is prose in base64.
fn is_packed_text(text: &str) -> bool {
    const SHORTEST: usize = 128;
    let is_packed = text.len() >= SHORTEST && !text.contains([' ', '.', ':']);
    let prose = is_packed
        .then(|| STANDARD.decode(text).ok())
        .flatten()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    prose.is_some_and(|prose| is_text(&prose))
}

/// Whether a text is prose: words, or letters of a script that has no spaces.
pub(super) fn is_text(text: &str) -> bool {
    text.chars().nth(TEXT_CHARS - 1).is_some()
        && (text.split_whitespace().nth(TEXT_WORDS - 1).is_some()
            || text.chars().filter(|c| !c.is_ascii()).count() >= TEXT_CHARS / 2)
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
            ("judge_prompt", json!(prose), None),
            ("run.description", json!(prose), None),
            ("tools[].input_schema.description", json!(prose.repeat(4)), Some(UnreadKind::Text)),
            ("conversation.title", json!(prose), None),
            ("title", json!(prose.repeat(4)), Some(UnreadKind::Text)),
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
            ("model_version", json!("2"), Some(UnreadKind::Answering)),
            ("usedModel", json!("llama"), Some(UnreadKind::Answering)),
            ("served_entity_name", json!("a"), Some(UnreadKind::Answering)),
            ("response_headers.x-ms-region", json!("West Europe"), Some(UnreadKind::Owner)),
            ("policy_version", json!(3), Some(UnreadKind::Adapter)),
            ("global_step", json!(3), Some(UnreadKind::Adapter)),
            ("trainer.rollout_iteration", json!(3), Some(UnreadKind::Adapter)),
            ("step", json!(3), None),
            ("kv_cache_dtype", json!("auto"), Some(UnreadKind::Owner)),
            ("block_size", json!(64), Some(UnreadKind::Owner)),
            ("gpu_type", json!("h100"), Some(UnreadKind::Owner)),
            ("pool", json!("batch"), Some(UnreadKind::Owner)),
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
            ("attributes.tailsampling.policy", json!("latency"), Some(UnreadKind::SampleRate)),
            ("sampling_params.n", json!(2), None),
            ("temperature", json!(0.7), None),
            ("logging_time", json!("2026-11-29T18:00:00Z"), Some(UnreadKind::Time)),
            ("date", json!(45939.37037), Some(UnreadKind::Time)),
            ("processing_time", json!(45939.37037), None),
            ("values[][]", json!("1763640005159000000"), None),
            ("values[][0]", json!("1763640005159000000"), Some(UnreadKind::Time)),
            ("span.start_ns", json!("1763640005159000000"), Some(UnreadKind::Time)),
            ("start_ms", json!(1_763_640_005_159_i64), Some(UnreadKind::Time)),
            ("sampled_one_in", json!(50), Some(UnreadKind::SampleRate)),
            ("log_sampling", json!("5%"), Some(UnreadKind::SampleRate)),
            ("sampling.adjusted_count", json!(20), Some(UnreadKind::SampleRate)),
            ("sampled", json!(1), None),
            ("itemCount", json!(10), Some(UnreadKind::SampleRate)),
            ("cart.itemCount", json!(10), None),
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
            ("response_headers.x-served-by", json!("vllm-a"), Some(UnreadKind::Cache)),
            ("devices[]", json!("cuda:0"), Some(UnreadKind::Cache)),
            ("gpu_ids", json!([0, 1]), Some(UnreadKind::Cache)),
            ("env.CUDA_VISIBLE_DEVICES", json!("0"), Some(UnreadKind::Cache)),
            ("ray.actor_id", json!("00ab"), Some(UnreadKind::Cache)),
            ("model_id", json!("ab".repeat(32)), Some(UnreadKind::Cache)),
            ("model_id", json!("qwen"), Some(UnreadKind::Model)),
            ("response.model", json!("qwen"), Some(UnreadKind::Answering)),
            ("choices[].model", json!("qwen"), None),
            ("model_revision", json!("ab".repeat(20)), Some(UnreadKind::Adapter)),
            ("resource.labels.location", json!("us-east1"), Some(UnreadKind::Owner)),
            ("logStreamName", json!("ecs/app/0f1e"), Some(UnreadKind::Cache)),
            ("stream", json!("stdout"), None),
            ("gateway_pod", json!("gw-1"), None),
            ("gateway.upstream_pod", json!("a"), Some(UnreadKind::Cache)),
            ("endpoint", json!("/v1/chat/completions"), None),
            ("client_region", json!("eu"), None),
            ("judge.rationale", json!(prose), None),
            ("delta", json!(prose), None),
            ("tool_status", json!("failed"), None),
            ("eval_result", json!("failed"), None),
            ("user_profile_cache", json!("hit"), None),
            ("retrieval.cache_hit", json!(true), None),
            ("grpc_status", json!("RESOURCE_EXHAUSTED"), Some(UnreadKind::NotComputed)),
            ("grpc_status", json!("OK"), None),
            ("http.response.status", json!("503 Service Unavailable"), Some(UnreadKind::NotComputed)),
            ("http.response.status", json!("200 OK"), None),
            ("task", json!("embed"), Some(UnreadKind::NotComputed)),
            ("cache_hit_ratio", json!(0.85), Some(UnreadKind::CachedTokens)),
            ("cached_pct", json!(84.9), Some(UnreadKind::CachedTokens)),
            ("cached_tokens_details.device", json!(2000), Some(UnreadKind::CachedTokens)),
            ("kv_hit_pages", json!(46), Some(UnreadKind::CachedTokens)),
            ("prefix_cache.hit_rate", json!(0.85), Some(UnreadKind::CachedTokens)),
            ("metrics", json!("prompt=3524 cached=2992"), Some(UnreadKind::CachedTokens)),
            ("tokens.cache.read", json!(2992), Some(UnreadKind::CachedTokens)),
            ("tokens.cache.write", json!(2992), None),
            ("kv.matched", json!(2992), Some(UnreadKind::CachedTokens)),
            ("prefill_tokens", json!(532), Some(UnreadKind::CachedTokens)),
            ("cached_ktok", json!(2.9), Some(UnreadKind::CachedTokens)),
            ("cached_chars", json!(9000), Some(UnreadKind::CachedTokens)),
            ("retrieval.hit_rate", json!(0.5), None),
            ("gpu_cache_usage_pct", json!(0.5), None),
            ("kv_page_size", json!(64), None),
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
            ("options.num_ctx", json!(512), Some(UnreadKind::Limit)),
            ("n_ctx", json!(512), Some(UnreadKind::Limit)),
            ("truncation_length", json!(512), Some(UnreadKind::Limit)),
            ("max_input_tokens", json!(512), Some(UnreadKind::Limit)),
            ("maxContextLength", json!(512), Some(UnreadKind::Limit)),
            ("parameters.truncate", json!(512), Some(UnreadKind::Limit)),
            ("context_window_messages", json!(10), None),
            ("max_new_tokens", json!(512), None),
            ("context_tokens", json!(512), None),
            ("max_tokens", json!(512), None),
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
}
