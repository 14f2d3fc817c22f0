//! How long, or how preferably, a request asks its cache to keep its pages, as bodies of requests say it.
//!
//! A request has one class: the longest of the times that its `cache_control` names (Anthropic's Messages API,
//! gateways that take it in chats, and Dynamo's `nvext`, which pins a prefix for that time), else OpenAI's
//! `prompt_cache_retention`, else the highest priority of TensorRT-LLM's `kv_cache_retention_config`, with the time
//! that it holds for, else Dynamo's `nvext.agent_hints.priority`.
//!
//! Read in Anthropic's documentation of prompt caching (5 minutes where no `ttl` is named), OpenAI's API reference,
//! NVIDIA/TensorRT-LLM (`KvCacheRetentionConfig`) and ai-dynamo/dynamo (`docs/components/frontend/nvext.md`).

use kvset_core::request::labels::{Label, Labels};
use memchr::memmem;
use serde_json::Value;
use std::ops::Range;

/// One of these stands in every body that has a class; most have none, and are not parsed for it.
const NAMES: [&str; 4] =
    ["cache_control", "prompt_cache_retention", "kv_cache_retention_config", "agent_hints"];

/// What `cache_control` without a time stands for.
const DEFAULT_TTL: &str = "5m";

/// Longest name of a class that is taken out of a body, in bytes.
const MAX_BYTES: usize = 32;

/// The class of a request, by its body, bare or under `body`; `None` where it asks for nothing.
pub fn of_body(json: &[u8]) -> Option<String> {
    NAMES.iter().find(|name| memmem::find(json, name.as_bytes()).is_some())?;
    let request: Value = serde_json::from_slice(json).ok()?;
    let within = [Some(&request), request.get("body")].into_iter().flatten();
    let objects = within.flat_map(|body| [Some(body), body.get("extra_body")]).flatten();
    let class = objects.filter_map(of_object).next()?;
    (class.len() <= MAX_BYTES && !class.chars().any(char::is_control)).then_some(class)
}

/// Gives labels the class of a body, where they name none; its text is appended to `text`.
pub(crate) fn complete(labels: &mut Labels<Range<usize>>, body: &[u8], text: &mut String) {
    if labels.get(Label::RetentionClass).is_some() {
        return;
    }
    let class = of_body(body).map(|class| {
        let start = text.len();
        text.push_str(&class);
        start..text.len()
    });
    labels.set(Label::RetentionClass, class);
}

fn of_object(body: &Value) -> Option<String> {
    let hints = body.get("nvext");
    let of_hints = |name: &str| hints.and_then(|hints| hints.get(name));
    let config = body.get("kv_cache_retention_config").or_else(|| of_hints("kv_cache_retention_config"));
    let highest = config.and_then(highest_priority).map(|(priority, time)| match time {
        Some(ms) => format!("priority-{priority}-{ms}ms"),
        None => format!("priority-{priority}"),
    });
    let hinted = of_hints("agent_hints").and_then(|hints| hints.get("priority")?.as_i64());
    let longest = breakpoints(body).filter_map(ttl).max_by_key(|ttl| seconds(ttl));
    let stated = longest.or_else(|| body.get("prompt_cache_retention")?.as_str());
    stated.map(str::to_owned).or(highest).or_else(|| Some(format!("priority-{}", hinted?)))
}

/// Everything of a body that may have a `cache_control`: the body and Dynamo's hints, blocks of the system prompt,
/// tools, messages, and blocks of their content and of results in it. Texts and schemas, which may use the word for
/// something else, are not looked into.
fn breakpoints(body: &Value) -> impl Iterator<Item = &Value> {
    let top = [Some(body), body.get("nvext")].into_iter().flatten();
    let messages = || items(body.get("messages"));
    let blocks = || messages().flat_map(|message| items(message.get("content")));
    let results = blocks().flat_map(|block| items(block.get("content")));
    let lists = items(body.get("system")).chain(items(body.get("tools")));
    top.chain(lists).chain(messages()).chain(blocks()).chain(results)
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// The time that a block is to be kept, where it has a `cache_control`.
fn ttl(block: &Value) -> Option<&str> {
    let control = block.get("cache_control")?.as_object()?;
    Some(control.get("ttl").and_then(Value::as_str).unwrap_or(DEFAULT_TTL))
}

/// The length of a time such as `5m`; nothing where it is none.
fn seconds(ttl: &str) -> Option<u64> {
    let (number, unit) = ttl.split_at_checked(ttl.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// The highest priority of the prompt's token ranges, and how many milliseconds it holds for, the longest time of
/// several; `None` for as long as the pages are there.
fn highest_priority(config: &Value) -> Option<(i64, Option<u64>)> {
    let ranges = items(config.get("token_range_retention_configs"));
    let time = |range: &Value| range.get("duration_ms").and_then(Value::as_u64);
    let stated = ranges.filter_map(|range| Some((range.get("priority")?.as_i64()?, time(range))));
    stated.max_by_key(|(priority, time)| (*priority, time.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(body: &Value) -> Option<String> {
        of_body(body.to_string().as_bytes())
    }

    #[test]
    fn the_longest_time_of_a_request_is_its_class_wherever_it_stands() {
        let hour = json!({"type": "ephemeral", "ttl": "1h"});
        let default = json!({"type": "ephemeral"});
        let block = |control: &Value| json!([{"type": "text", "text": "x", "cache_control": control}]);
        let result = json!([{"type": "tool_result", "content": block(&hour)}]);
        for body in [
            json!({"cache_control": hour, "messages": []}),
            json!({"system": block(&hour), "messages": [{"role": "user", "content": block(&default)}]}),
            json!({"system": block(&default), "messages": [{"role": "user", "content": block(&hour)}]}),
            json!({"tools": [{"name": "t", "cache_control": hour}], "messages": []}),
            json!({"messages": [{"role": "user", "content": result}]}),
            json!({"body": {"system": block(&hour), "messages": []}}),
            json!({"messages": [], "nvext": {"cache_control": hour}}),
            json!({"messages": [], "extra_body": {"nvext": {"cache_control": hour}}}),
        ] {
            assert_eq!(class(&body).as_deref(), Some("1h"), "{body}");
        }
        let body = json!({"system": block(&default), "messages": []});
        assert_eq!(class(&body).as_deref(), Some("5m"), "as Anthropic's API takes it");
    }

    #[test]
    fn what_only_looks_like_it_is_no_class() {
        for body in [
            json!({"messages": [{"role": "user", "content": "set cache_control to 1h"}]}),
            json!({"messages": [{"role": "user", "content": [{"type": "tool_use", "input": {"cache_control": {"ttl": "1h"}}}]}]}),
            json!({"tools": [{"name": "t", "input_schema": {"properties": {"cache_control": {"type": "object"}}}}]}),
            json!({"system": [{"type": "text", "text": "x", "cache_control": null}], "messages": []}),
            json!({"messages": [], "nvext": {"agent_hints": {"osl": 7}}}),
            json!({"messages": [], "prompt_cache_retention": null}),
            json!({"messages": [], "prompt_cache_retention": "x".repeat(MAX_BYTES + 1)}),
            json!(["cache_control"]),
        ] {
            assert_eq!(class(&body), None, "{body}");
        }
        assert_eq!(
            of_body(b"{\"cache_control\": "),
            None,
            "what is no JSON is refused where its prompt is read"
        );
    }

    #[test]
    fn priorities_are_classes_the_highest_of_the_prompts_ranges() {
        let range = |priority: u32| json!({"token_start": 0, "token_end": 64, "priority": priority});
        let config = json!({"token_range_retention_configs": [range(30), range(80), range(35)], "decode_retention_priority": 90});
        assert_eq!(
            class(&json!({"prompt": [1], "kv_cache_retention_config": config})).as_deref(),
            Some("priority-80")
        );
        let timed = json!({"token_range_retention_configs": [{"token_start": 0, "priority": 80, "duration_ms": 30000}, range(40)]});
        let body = json!({"prompt": [1], "kv_cache_retention_config": timed});
        assert_eq!(class(&body).as_deref(), Some("priority-80-30000ms"));
        let hints = json!({"prompt": "x", "nvext": {"agent_hints": {"priority": -3}}});
        assert_eq!(class(&hints).as_deref(), Some("priority--3"));
        let day = json!({"messages": [], "prompt_cache_retention": "24h"});
        assert_eq!(class(&day).as_deref(), Some("24h"));
    }

    #[test]
    fn a_time_that_cannot_be_read_is_shorter_than_one_that_can() {
        let times = ["x", "", "7", "€", "30s", "5m", "59m", "1h", "2d"];
        assert!(times.is_sorted_by_key(|time| seconds(time)), "{:?}", times.map(seconds));
    }
}
