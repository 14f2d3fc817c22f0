//! The caches that values name, whatever their fields are called: the host of a URL, the value of a tag such as
//! `host:gpu-1`, a segment of a path behind the name of what it is, and a numbered engine within a short text.

use super::scopes::{is_of_caller, is_within};
use super::words::{any, any_of_several, words};
use kvset_core::units::names::listed;
use serde_json::Value;

/// The longest name of a cache or an owner.
pub(super) const MAX_NAME: usize = 160;
/// What has a cache of its own.
pub(super) const CACHES: [&str; 33] = listed(
    "slot host hostname node pod server instance worker replica rank shard engine backend upstream cluster \
        container machine gpu device partition port pid endpoint vm addr address ip target routed \
        destination dp dispatched deployment",
);

/// What of a value names a cache, where the name of its field does not.
pub(super) fn cache_named_in(path: &str, value: &Value) -> Option<String> {
    let text = value.as_str().filter(|text| text.len() <= MAX_NAME)?;
    if text.contains("://") && is_reached(path) {
        return host(text).map(str::to_owned);
    }
    // Text that is said has no cache's name.
    if is_within(path) || is_of_caller(path) || is_said(path) {
        return None;
    }
    tagged(path, text).or_else(|| segment(text)).or_else(|| numbered(text)).or_else(|| precision(text))
}

/// Whether a field's URL is what an engine is reached by.
fn is_reached(path: &str) -> bool {
    const REACHED_BY: [&str; 9] =
        ["url", "uri", "base", "host", "endpoint", "server", "address", "upstream", "backend"];
    const NOT_REACHED: [&str; 10] = [
        "image", "file", "document", "source", "callback", "webhook", "origin", "referer", "page", "messages",
    ];
    let words = words(path);
    any(&words, &REACHED_BY) && !any(&words, &NOT_REACHED) && !is_of_caller(path)
}

fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?']).next().filter(|host| !host.is_empty())
}

/// Whether a field holds what somebody said, or names what it is about.
fn is_said(path: &str) -> bool {
    const SAID: [&str; 14] = listed(
        "prompt input inputs text answer completion output title query question comment description model \
            version",
    );
    any(&words(path), &SAID)
}

/// The pairs of a text that is made of them, such as `env:prod,pod_name:engine-0`.
pub(super) fn pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    let pieces = text.split([',', ';', ' ', '|']).filter(|piece| !piece.is_empty());
    let pairs: Option<Vec<_>> = pieces.map(|piece| piece.split_once([':', '='])).collect();
    pairs.filter(|pairs| {
        !pairs.is_empty() && pairs.iter().all(|(key, named)| !key.is_empty() && !named.is_empty())
    })
}

/// The values of tags that are called as caches are.
fn tagged(path: &str, text: &str) -> Option<String> {
    let pairs = pairs(text)?;
    if pairs.len() < 2 && !path.ends_with("[]") && !any_of_several(&words(path), &["tag", "label"]) {
        return None;
    }
    let named: Vec<_> = pairs
        .iter()
        .filter(|(key, _)| any_of_several(&words(key), &CACHES))
        .map(|(_, named)| *named)
        .collect();
    (!named.is_empty()).then(|| named.join(","))
}

/// What stands in a path behind the name of what it is: `.../accounts/a`.
fn segment(text: &str) -> Option<String> {
    if !text.contains('/') || text.contains(char::is_whitespace) {
        return None;
    }
    let segments: Vec<_> = text.split('/').filter(|segment| !segment.is_empty()).collect();
    let named = segments.windows(2).rev().find(|pair| {
        let kind = pair[0].to_lowercase();
        kind == "accounts" || kind.strip_suffix('s').is_some_and(|one| CACHES.contains(&one))
    });
    named.map(|pair| pair[1].to_owned())
}

/// The engines and machines with a number that a text has: `engine-0`, `gpu3`, `cuda:1`.
fn numbered(text: &str) -> Option<String> {
    const MACHINES: [&str; 16] = [
        "engine", "gpu", "cuda", "worker", "replica", "node", "pod", "host", "shard", "rank", "instance",
        "vllm", "sglang", "dp", "server", "machine",
    ];
    let is_number =
        |word: &str| !word.is_empty() && word.len() <= 4 && word.bytes().all(|b| b.is_ascii_digit());
    let words = words(text);
    let mut named = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).filter(|next| is_number(next));
        let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
        let head = &word[..word.len() - digits.len()];
        match next {
            Some(number) if MACHINES.contains(&word.as_str()) => named.push(format!("{word}{number}")),
            _ if is_number(digits) && MACHINES.contains(&head) => named.push(word.clone()),
            _ => {}
        }
    }
    (!named.is_empty()).then(|| named.join(","))
}

/// A precision of weights: each is another engine's.
fn precision(text: &str) -> Option<String> {
    const PRECISIONS: [&str; 14] = [
        "fp4", "fp8", "fp16", "bf16", "int4", "int8", "w4a16", "w8a8", "awq", "gptq", "nvfp4", "mxfp4",
        "gguf", "marlin",
    ];
    let words = words(text);
    words.iter().any(|word| PRECISIONS.contains(&word.as_str())).then(|| text.to_owned())
}

/// Whether a text is a route of an API, which names no server.
pub(super) fn is_route(text: &str) -> bool {
    const APIS: [&str; 16] = listed(
        "v1 api openai chat completions completion messages responses generate stream embeddings embed \
            invoke converse rerank score",
    );
    let words = words(text);
    let is_of_apis = words.iter().all(|word| APIS.contains(&word.as_str()));
    // A version alone is none.
    let names_one = words.last().is_some_and(|word| !["v1", "api"].contains(&word.as_str()));
    text.starts_with('/') || (is_of_apis && names_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_name_caches_under_names_that_do_not() {
        let named = |path: &str, value: &str| cache_named_in(path, &json!(value));
        for (path, value, cache) in [
            ("route[]", "engine-0", "engine0"),
            ("devices[]", "cuda:1", "cuda1"),
            ("ddtags", "env:prod,pod_name:vllm-0", "vllm-0"),
            ("tag", "kube.var.log.containers.vllm-3_llm_vllm.log", "vllm3"),
            ("log_source", "s3://logs/gpu-2/2025.jsonl", "gpu2"),
            ("resourceId", "/SUBSCRIPTIONS/x/PROVIDERS/COGNITIVE/ACCOUNTS/acc1", "acc1"),
            ("serving_variant", "awq", "awq"),
            ("engine_core", "EngineCore_DP1", "dp1"),
        ] {
            assert_eq!(named(path, value).as_deref(), Some(cache), "{path}");
        }
        for (path, value) in [
            ("route[]", "gw-1"),
            ("messages[].content", "engine-0"),
            ("client_host", "host-1"),
            ("title", "Node 12 is down"),
            ("feature", "chat"),
            ("endpoint", "/v1/chat/completions"),
            ("page_url", "https://example.org/chat"),
        ] {
            assert_eq!(named(path, value), None, "{path}");
        }
    }

    #[test]
    fn routes_of_apis_are_no_servers() {
        assert!(is_route("/v1/embeddings") && is_route("chat/completions") && is_route("chat.completions"));
        assert!(!is_route("v1") && !is_route("gpu-1") && !is_route("10.0.0.1:8000"));
    }
}
