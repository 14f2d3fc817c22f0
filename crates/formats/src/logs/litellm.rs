//! LiteLLM's standard logging payload: messages and parameters side by side.

use super::envelope::is_object;
use super::layout::missing;
use super::path;
use super::{LoggedPrompt, Places};
use crate::codec::{DecodeError, ErrorCode};
use crate::record::members::member_text;
use kvset_core::units::names::listed;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What LiteLLM puts in place of a prompt that is not to be logged.
const MASK: &str = "redacted-by-litellm";

pub(super) const SWITCH_ON: &str = "send LiteLLM's whole standard_logging_object, with \
    litellm_settings.turn_off_message_logging = false";

/// Calls of these types have their whole prompt in the payload. Of Anthropic's API and the Responses API the payload
/// leaves out `system`, and in older versions `instructions`.
const CHATS: [&str; 2] = ["completion", "acompletion"];
const COMPLETIONS: [&str; 2] = ["text_completion", "atext_completion"];
/// Calls that generate text from more than the payload has. `generate_content` and `run_thread` have several spellings.
const PARTIAL: [&str; 9] = listed(
    "anthropic_messages responses generate_content pass_through passthrough realtime run_thread \
        send_message call_mcp_tool",
);
/// Parts of the names of calls that generate no text: of media, files, jobs and whatever else a provider keeps.
const OTHERS: [&str; 20] = listed(
    "embedding rerank moderation image_ transcription speech search batch assistant thread message file \
        fine_tuning video vector_store container ocr list_mcp_tools list_input_items skill",
);

pub(super) fn passed_over(record: &[u8]) -> Result<Option<&'static str>, DecodeError> {
    let is = |path: &str, values: &[&str]| -> Result<bool, DecodeError> {
        Ok(path::at(record, path)?
            .is_some_and(|found| values.iter().any(|value| found.text.eq_ignore_ascii_case(value))))
    };
    Ok(if is("status", &["failure"])? {
        Some("the request failed")
    } else if is("cache_hit", &["true", "1"])? {
        Some("the gateway answered from its own cache")
    } else {
        path::at(record, "call_type")?
            .is_some_and(|call| generates_no_text(&call.text))
            .then_some("its endpoint generates no text")
    })
}

/// Whether calls of this type are answered without generating text.
fn generates_no_text(call: &str) -> bool {
    let is_one_of = |parts: &[&str]| parts.iter().any(|part| call.contains(part));
    !is_one_of(&PARTIAL) && is_one_of(&OTHERS)
}

/// The body that was requested: the parameters alongside the messages.
pub(super) fn prompt<'r>(record: &'r [u8], _: &Places) -> Result<LoggedPrompt<'r>, DecodeError> {
    let call = path::at(record, "call_type")?.map(|found| found.text.into_owned());
    let is_text = call.as_deref().is_some_and(|call| COMPLETIONS.contains(&call));
    if !is_text && call.as_deref().is_some_and(|call| !CHATS.contains(&call)) {
        let detail = "`call_type`: of calls of this type LiteLLM's payload leaves out parts of the prompt; log them \
            where they are served";
        return Err(DecodeError::new(ErrorCode::UnrenderedField, detail));
    }
    let logged =
        path::at(record, "messages")?.filter(|messages| !["{}", "[]", ""].contains(&messages.text.trim()));
    if logged.is_none()
        && let Some(body) = path::at(record, "proxy_server_request")?
            .filter(|body| is_object(&body.text) && body.text.len() > 2)
    {
        // The table of spends keeps the body as the proxy was sent it.
        let body = path::at(body.text.as_bytes(), "body")?
            .map_or(body.text.clone(), |inner| Cow::Owned(inner.text.into_owned()));
        return Ok(LoggedPrompt::Body(Cow::Owned(body.into_owned())));
    }
    let messages = logged.ok_or_else(|| missing("messages", SWITCH_ON))?.text;
    if messages.contains(MASK) || messages.contains("litellm_truncated") {
        let detail = format!("`messages` are masked or cut off: {SWITCH_ON}");
        return Err(DecodeError::new(ErrorCode::MissingField, detail));
    }
    if !messages.trim_start().starts_with('[') {
        let detail = "`messages` are a text where a list of messages is expected: how it became a prompt is not in the \
            payload; log such requests where they are served";
        return Err(DecodeError::new(ErrorCode::InvalidBody, detail));
    }
    let mut body = String::from("{");
    let (name, value) = if is_text { ("prompt", texts(&messages)?) } else { ("messages", messages) };
    body += &format!("\"{name}\":{value}");
    if let Some(parameters) = path::at(record, "model_parameters")? {
        let parameters: BTreeMap<String, &RawValue> = serde_json::from_str(&parameters.text)
            .map_err(|_| DecodeError::new(ErrorCode::InvalidField, "`model_parameters` is no JSON object"))?;
        for (key, value) in parameters.iter().filter(|(key, _)| *key != name) {
            body += &format!(",{}:{}", serde_json::Value::from(key.as_str()), value.get());
        }
    }
    body.push('}');
    debug_assert!(serde_json::from_str::<IgnoredAny>(&body).is_ok());
    Ok(LoggedPrompt::Body(Cow::Owned(body)))
}

/// The prompts of a completion, each of which the payload makes a message of a user.
fn texts(messages: &str) -> Result<Cow<'static, str>, DecodeError> {
    let texts = serde_json::from_str::<Vec<&RawValue>>(messages).ok();
    let texts =
        texts.and_then(|texts| texts.into_iter().map(|text| member_text(text.get(), "content")).collect());
    let texts: Vec<String> = texts.ok_or_else(|| {
        DecodeError::new(ErrorCode::InvalidBody, "`messages` of a text completion are no texts")
    })?;
    Ok(Cow::Owned(serde_json::Value::from(texts).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_generate_no_text_are_told_by_what_they_are_of() {
        for call in
            ["aembedding", "acreate_batch", "avector_store_search", "a_add_message", "aget_messages", "aocr"]
        {
            assert!(generates_no_text(call), "{call}");
        }
        for call in [
            "acompletion",
            "atext_completion",
            "anthropic_messages",
            "aresponses",
            "agenerate_content",
            "arun_thread",
            "new_kind",
        ] {
            assert!(!generates_no_text(call), "{call}");
        }
    }
}
