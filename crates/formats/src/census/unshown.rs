//! Fields that speak of what a prompt has and neither its messages nor its token ids show: pictures and sounds, files,
//! and what a server adds to it.

use super::scopes::{is_beside_the_request, is_within};
use super::words::{any, any_of_several, is_set, words};
use kvset_core::request::unshown::{Unshown, unshown};
use kvset_core::units::names::listed;
use serde_json::Value;

/// Whether a field speaks of media that are a part of the prompt; one that only describes a service does not.
pub(super) fn speaks_of_media(path: &str, last: &[String], value: &Value) -> bool {
    const MEDIA: [&str; 13] = listed(
        "image img picture photo screenshot audio video clip pixel attachment multimodal media embeds",
    );
    const OTHERS: [&str; 27] = listed(
        "output generation generated response completion support supported supports capability enabled enable \
            allow allowed docker container base repository tag quality size format detail max limit price cost \
            modalities",
    );
    const HAS: [&str; 7] = ["has", "is", "with", "contains", "includes", "uses", "vision"];
    const COUNTS: [&str; 7] = ["num", "n", "count", "number", "tokens", "total", "placeholders"];
    let all = words(path);
    let is_media = any_of_several(last, &MEDIA) || last.starts_with(&["mm".to_owned()]);
    let name = path.rsplit('.').next().unwrap_or_default();
    let is_known = unshown(name).is_some_and(|(_, kind)| kind == Unshown::Media);
    let is_item = path.ends_with("[]");
    if is_item
        || !(is_media || is_known)
        || any(&all, &OTHERS)
        || is_within(path)
        || is_beside_the_request(path)
    {
        return false;
    }
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => {
            members.values().any(|inner| !matches!(inner, Value::Null | Value::Bool(_)))
        }
        Value::Number(number) => number.as_f64().is_some_and(|number| number > 0.0) && any(last, &COUNTS),
        Value::String(text) => is_file(text) || (is_set(value) && any(last, &HAS)),
        Value::Bool(_) => is_set(value) && any(last, &HAS),
        Value::Null => false,
    }
}

/// Whether a text names a file of pictures or sounds, or is one.
fn is_file(text: &str) -> bool {
    const ENDS: [&str; 12] = listed(".png .jpg .jpeg .webp .gif .bmp .mp4 .webm .wav .mp3 .ogg .pdf");
    let path = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    text.starts_with("data:") || ENDS.iter().any(|end| path.ends_with(end))
}

/// Whether a field says that a server adds to the text of a prompt, or takes from it: files, a search, tools that are
/// only named, a cut in its middle.
pub(super) fn speaks_of_additions(path: &str, last: &[String], value: &Value) -> bool {
    const ADDED: [&str; 6] = ["plugins", "transforms", "files", "connectors", "knowledge", "grounding"];
    const OFF: [&str; 4] = ["disabled", "none", "off", "auto"];
    let has = |wanted: &[&str]| wanted.iter().all(|word| last.iter().any(|known| known == word));
    let is_named = has(&["tool", "ids"]) || has(&["tool", "names"]) || has(&["toolset"]);
    let is_search = has(&["web", "search"]) || has(&["file", "search"]) || has(&["search", "options"]);
    let is_added = last.len() == 1 && any(last, &ADDED);
    let is_beside = !is_named && is_beside_the_request(path);
    if path.ends_with("[]") || !(is_named || is_search || is_added) || is_within(path) || is_beside {
        return false;
    }
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::String(text) => is_search && !text.is_empty() && !OFF.contains(&text.as_str()),
        _ => is_set(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn speaks(of: fn(&str, &[String], &Value) -> bool, path: &str, value: &Value) -> bool {
        of(path, &words(path.rsplit('.').next().unwrap_or_default()), value)
    }

    #[test]
    fn media_are_recognised_by_name_and_value() {
        for (path, value) in [
            ("image_urls", json!(["https://x/0"])),
            ("mm_data", json!({"image": "a"})),
            ("has_image", json!(true)),
            ("input.attachments", json!([{"id": 1}])),
            ("screenshot", json!("s/7.png")),
            ("usage.prompt_tokens_details.image_tokens", json!(576)),
            ("pixel_values_hash", json!(["ab"])),
        ] {
            assert!(speaks(speaks_of_media, path, &value), "{path}");
        }
        for (path, value) in [
            ("kubernetes.container_image", json!("vllm/vllm-openai:v0.9")),
            ("image", json!("vllm/vllm-openai")),
            ("images", json!([])),
            ("has_image", json!(false)),
            ("usage.prompt_tokens_details.image_tokens", json!(0)),
            ("model.supports_images", json!(true)),
            ("messages[].content[].image_url", json!({"url": "a"})),
            ("response.images", json!(["a"])),
        ] {
            assert!(!speaks(speaks_of_media, path, &value), "{path}");
        }
    }

    #[test]
    fn additions_that_are_switched_on_are_recognised() {
        for (path, value) in [
            ("plugins", json!([{"id": "web"}])),
            ("files", json!([{"id": "f"}])),
            ("features.web_search", json!(true)),
            ("tool_names", json!(["a"])),
            ("web_search_options", json!({"size": "low"})),
        ] {
            assert!(speaks(speaks_of_additions, path, &value), "{path}");
        }
        for (path, value) in [
            ("plugins", json!([])),
            ("features.web_search", json!(false)),
            ("log.file.path", json!("/a")),
            ("tools[].tool_ids", json!(["a"])),
        ] {
            assert!(!speaks(speaks_of_additions, path, &value), "{path}");
        }
    }
}
