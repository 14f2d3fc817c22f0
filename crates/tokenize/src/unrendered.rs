//! Fields that are part of a prompt in some API and reach no chat template.
//!
//! An inference server that takes OpenAI-compatible bodies ignores them, so a body that carries one was
//! written for another API, and its prompt is not what the template would make of it. Such a body is
//! refused by the name of the field: leaving it out would give fewer pages than the prompt has, in
//! silence.

use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::request::unshown::unshown;

/// Fields of a body, by the APIs that document them as part of the prompt, alongside those that no prompt shows in any
/// form ([`unshown`]).
const BODY_FIELDS: [&str; 22] = [
    // Anthropic Messages, and Bedrock's Converse.
    "mcp_servers",
    "container",
    "toolConfig",
    // OpenAI Responses, Conversations and Assistants.
    "additional_instructions",
    "previous_response_id",
    "assistant_id",
    "attachments",
    // OpenAI chats before there were tools, and completions that fill a gap.
    "functions",
    "function_call",
    "suffix",
    // Google's generateContent.
    "contents",
    "systemInstruction",
    "system_instruction",
    "cachedContent",
    "cached_content",
    // Cohere.
    "preamble",
    "chat_history",
    "message",
    "connectors",
    // Ollama and vLLM of their own.
    "think",
    "task_instructions",
    // LiteLLM's log, whose messages have their tools alongside them.
    "model_parameters",
];

/// Names of what APIs keep for whoever sends no messages; beside messages they are names of a log's own.
pub(super) const NAMES_OF_HISTORIES: [&str; 2] = ["conversation", "thread_id"];

/// Fields of one message, in the same sense.
pub(super) const MESSAGE_FIELDS: [&str; 7] =
    ["function_call", "refusal", "audio", "images", "prefix", "partial", "attachments"];

/// The refusal of a body that carries `field`.
pub(super) fn refused(field: &str) -> DecodeError {
    let detail =
        format!("`{field}` is part of the prompt and would not be rendered by the model's chat template");
    DecodeError::new(ErrorCode::UnrenderedField, detail)
}

/// A role as messages quote it: names of roles are short; anything else may be a part of a prompt.
pub(super) fn shown_role(role: Option<&str>) -> String {
    const LONGEST: usize = 24;
    let is_name = |role: &&str| {
        (1..=LONGEST).contains(&role.len())
            && role.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    role.filter(is_name).map_or_else(|| "no name of a role".to_owned(), |role| format!("`{role}`"))
}

/// The field of a body that `key` names and no template renders.
pub(super) fn of_body(key: &str) -> Option<&'static str> {
    // Embeddings alone are a prompt of their own, which is refused as such.
    let shown_nowhere = unshown(key).map(|(name, _)| name).filter(|name| *name != "prompt_embeds");
    shown_nowhere.or_else(|| known(&BODY_FIELDS, key))
}

/// The entry of `fields` that `key` names.
pub(super) fn known(fields: &[&'static str], key: &str) -> Option<&'static str> {
    fields.iter().copied().find(|field| *field == key)
}
