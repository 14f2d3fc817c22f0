//! LiteLLM's standard logging payload: messages and parameters side by side.

use super::layout::missing;
use super::path;
use super::{LoggedPrompt, Places};
use crate::codec::{DecodeError, ErrorCode};
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
/// Calls that generate no text.
const OTHERS: [&str; 12] = [
    "embedding",
    "aembedding",
    "rerank",
    "arerank",
    "moderation",
    "amoderation",
    "image_generation",
    "aimage_generation",
    "transcription",
    "atranscription",
    "speech",
    "aspeech",
];

pub(super) fn passed_over(record: &[u8]) -> Result<Option<&'static str>, DecodeError> {
    let is = |path: &str, values: &[&str]| -> Result<bool, DecodeError> {
        Ok(path::at(record, path)?.is_some_and(|found| values.contains(&found.text.as_ref())))
    };
    Ok(match () {
        () if is("status", &["failure"])? => Some("the request failed"),
        () if is("cache_hit", &["true"])? => Some("the gateway answered from its own cache"),
        () if is("call_type", &OTHERS)? => Some("its endpoint generates no text"),
        () => None,
    })
}

/// The body that was asked for: the parameters beside the messages.
pub(super) fn prompt<'r>(record: &'r [u8], _: &Places) -> Result<LoggedPrompt<'r>, DecodeError> {
    let call = path::at(record, "call_type")?.map(|found| found.text.into_owned());
    let is_text = call.as_deref().is_some_and(|call| COMPLETIONS.contains(&call));
    if !is_text && call.as_deref().is_some_and(|call| !CHATS.contains(&call)) {
        let detail = "`call_type`: of calls of this type LiteLLM's payload leaves out parts of the prompt; log them \
            where they are served";
        return Err(DecodeError::new(ErrorCode::UnrenderedField, detail));
    }
    let messages = path::at(record, "messages")?.ok_or_else(|| missing("messages", SWITCH_ON))?.text;
    if messages.contains(MASK) || messages.contains("litellm_truncated") {
        let detail = format!("`messages` are masked or cut off: {SWITCH_ON}");
        return Err(DecodeError::new(ErrorCode::MissingField, detail));
    }
    if !messages.trim_start().starts_with('[') {
        let detail = format!("`messages` are no list: masked, or of another form; {SWITCH_ON}");
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
    #[derive(serde::Deserialize)]
    struct Message {
        content: String,
    }
    let messages: Vec<Message> = serde_json::from_str(messages).map_err(|_| {
        DecodeError::new(ErrorCode::InvalidBody, "`messages` of a text completion are no texts")
    })?;
    let texts: Vec<String> = messages.into_iter().map(|message| message.content).collect();
    Ok(Cow::Owned(serde_json::Value::from(texts).to_string()))
}
