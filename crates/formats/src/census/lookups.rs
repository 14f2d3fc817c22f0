//! Who looked a prompt up in the engine's cache, and who did not: parameters with which nothing is looked up, caches of
//! answers, and requests that no engine computed.

use super::words::{ENDED, OUTCOMES, any, is_set, words, words_of_last, words_of_value};
use crate::record::outcome::CLIENT_GONE;
use kvset_core::request::endpoint::generates_no_text;
use kvset_core::units::names::listed;
use serde_json::Value;

/// Parameters with which vLLM, SGLang, llama.cpp, TGI and TensorRT-LLM compute the whole prompt: they score its tokens,
/// or are told not to look.
pub(super) fn looks_nothing_up(name: &[String], value: &Value) -> bool {
    let is_on = match value {
        Value::Bool(flag) => *flag,
        Value::Number(_) => true,
        Value::String(text) => ["true", "1", "yes"].iter().any(|word| text.eq_ignore_ascii_case(word)),
        _ => false,
    };
    let has = |wanted: &[&str]| wanted.iter().all(|word| name.iter().any(|known| known == word));
    let is_off = matches!(value, Value::Bool(false))
        || value.as_u64() == Some(0)
        || value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("false"));
    let skips =
        name.iter().any(|word| ["skip", "bypass", "disable", "no", "ignore"].contains(&word.as_str()))
            && any(name, &["cache", "caching"]);
    let scored =
        [["prompt", "logprobs"], ["input", "logprobs"], ["context", "logits"], ["decoder", "details"]];
    let scores = scored.iter().any(|words| has(words));
    let starts_at = has(&["logprob", "start", "len"]) && value.as_i64().is_some_and(|start| start >= 0);
    starts_at || (is_on && (skips || scores)) || (is_off && name == ["cache", "prompt"])
}

/// Whether a field says that a cache of answers gave the answer: a flag, a hit, or a cache's name where the name of who
/// answered is asked for. What an engine says of its pages is none of that.
pub(super) fn is_answered_from_cache(own: &[&str], value: &Value) -> bool {
    const SAYS: [&str; 13] = [
        "hit", "from", "served", "status", "answered", "semantic", "exact", "result", "is", "was",
        "response", "answer", "reply",
    ];
    const ANSWERS: [&str; 5] = ["is", "was", "response", "answer", "reply"];
    const STORES: [&str; 6] = ["cache", "cached", "redis", "memcached", "semantic", "cdn"];
    const OF_PAGES: [&str; 11] =
        ["prefix", "kv", "page", "block", "radix", "token", "tokens", "count", "rate", "lookup", "engine"];
    const WHO: [&str; 6] = ["answered", "served", "source", "responder", "by", "from"];
    let names: Vec<String> = own.iter().flat_map(|name| words(name)).collect();
    let said = words_of_value(value);
    if any(&names, &OF_PAGES) || any(&said, &OF_PAGES) {
        return false;
    }
    let is_of_cache = any(&names, &["cache", "cached", "caching"]);
    let flag = is_set(value) || (value.as_u64() == Some(1) && any(&names, &ANSWERS));
    let is_alone = words_of_last(own) == ["cached"];
    (is_of_cache && flag && (is_alone || any(&names, &SAYS)))
        || (is_of_cache && any(&said, &["hit"]) && !any(&said, &["miss", "no", "not"]))
        || (any(&names, &WHO) && any(&said, &STORES))
}

/// Whether a field says that no engine computed the prompt: a flag of that name, an outcome of that value, a status
/// that is an error, or a call that asks for no answer.
pub(super) fn says_not_computed(own: &[&str], value: &Value) -> bool {
    const FLAGS: [&str; 3] = ["denied", "simulated", "dry"];
    const PHASES: [&str; 6] = ["level", "action", "resolution", "phase", "mode", "event"];
    const CALLS: [&str; 13] =
        listed("operation object path endpoint route uri method call task api type kind mode");
    const OTHER_CALLS: [&str; 15] = listed(
        "embed embedding embeddings moderation moderations tokenize detokenize rerank count health healthz \
            metrics score classify pooling",
    );
    let last = words_of_last(own);
    let said = words_of_value(value);
    let around = words_of_last(own.get(1..).unwrap_or_default());
    let is_code =
        any(&last, &["status", "code"]) && any(&[last.clone(), around].concat(), &["status", "http", "grpc"]);
    // A code may have its meaning behind it.
    let code = value.as_u64().or_else(|| value.as_str()?.split(' ').next()?.parse().ok());
    let is_of_grpc = own.iter().any(|name| any(&words(name), &["grpc"]));
    let is_grpc_fault = is_of_grpc
        && code.is_none()
        && value.as_str().is_some_and(|word| {
            !["ok", "cancelled", "canceled", ""].iter().any(|good| word.eq_ignore_ascii_case(good))
        });
    // The sixth hundred and beyond are no codes of HTTP.
    let is_error = |code: u64| match is_of_grpc {
        // Cancelled is of a client that has gone, as 499 is.
        true => (2..=16).contains(&code),
        false => (400..600).contains(&code) && code != CLIENT_GONE,
    };
    let calls_otherwise = match value.as_str().filter(|text| text.contains('/')) {
        Some(path) => generates_no_text(path),
        None => any(&said, &OTHER_CALLS),
    };
    let says_end = |words: &[String]| any(words, &ENDED) || any(words, &FLAGS);
    (is_set(value) && says_end(&last))
        // Of a cache it says what that had.
        || ((any(&last, &OUTCOMES) || any(&last, &PHASES))
            && !any(&last, &["cache"])
            && (says_end(&said) || any(&said, &["error", "timeout", "timed", "expired", "block", "deny"])))
        || (any(&last, &CALLS) && calls_otherwise)
        || (is_code && (is_grpc_fault || code.is_some_and(is_error)))
}
