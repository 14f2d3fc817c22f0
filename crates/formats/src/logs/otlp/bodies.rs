//! Attributes that hold a whole request as JSON.

use super::chat::{self, quoted};
use super::item::LoggedItem;
use crate::codec::{DecodeError, ErrorCode};
use crate::record::members::member_text;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Attributes that hold a request's body, or its messages, and whose they are.
///
/// | attribute | whose |
/// |---|---|
/// | `mlflow.spanInputs` | MLflow's spans of LLMs and chat models |
/// | `langfuse.observation.input` | Langfuse's generations |
/// | `request_data` | Logfire's spans of clients |
/// | `braintrust.input_json` | Braintrust's |
const ATTRIBUTES: [&str; 4] =
    ["mlflow.spanInputs", "langfuse.observation.input", "request_data", "braintrust.input_json"];

/// The body of a request that the first of these attributes which is there holds: an object of one of the APIs, or a
/// list of messages.
///
/// # Errors
/// It holds something else.
pub(super) fn body(item: &LoggedItem) -> Result<Option<String>, DecodeError> {
    let held = ATTRIBUTES.into_iter().find_map(|key| Some((key, item.get(key)?.json())));
    let Some((key, text)) = held else { return Ok(None) };
    let messages = || messages(&text).map(|messages| chat::body(&messages, None));
    let body = request(&text).map(str::to_owned).or_else(messages);
    body.map(Some).ok_or_else(|| not_a_request(key, &text))
}

#[derive(Deserialize)]
struct BodyOutline<'a> {
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// The text, where it is a body of one of the APIs.
pub(super) fn request(text: &str) -> Option<&str> {
    let text = text.trim();
    let outline: BodyOutline<'_> = serde_json::from_str(text).ok()?;
    let is_text_or_list = |value: &&RawValue| value.get().starts_with(['"', '[']);
    let is_body = match outline.messages {
        Some(list) => messages(list.get()).is_some(),
        None => outline.prompt.or(outline.input).as_ref().is_some_and(is_text_or_list),
    };
    is_body.then_some(text)
}

/// The messages of a list, where each has a role.
pub(super) fn messages(text: &str) -> Option<Vec<String>> {
    let list: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    let all = !list.is_empty() && list.iter().all(|message| is_message(message));
    all.then(|| list.iter().map(|message| message.get().to_owned()).collect())
}

/// Whether this is an object with a role.
pub(super) fn is_message(message: &RawValue) -> bool {
    member_text(message.get(), "role").is_some()
}

/// A body with tools that stand apart from it; its own hold.
pub(super) fn with_tools(body: &str, tools: Option<&str>) -> String {
    let own = serde_json::from_str::<BodyOutline<'_>>(body).ok().and_then(|outline| outline.tools);
    match (tools, own.filter(|own| !matches!(own.get(), "null" | "[]"))) {
        (Some(tools), None) => {
            let rest = body.trim_start().strip_prefix('{').unwrap_or_default();
            // Of a name that stands twice the last one holds.
            let rest = rest.trim_end().strip_suffix('}').unwrap_or(rest).trim_end();
            let comma = if rest.is_empty() { "" } else { "," };
            format!("{{{rest}{comma}{}:{tools}}}", quoted("tools"))
        }
        _ => body.to_owned(),
    }
}

/// The refusal of an attribute that holds no request, whole or in a form of its own.
pub(super) fn not_a_request(key: &str, text: &str) -> DecodeError {
    match serde_json::from_str::<Value>(text) {
        Err(error) if error.is_eof() => chat::malformed(key, &error),
        Ok(Value::Array(_)) => own_form(key, "a list whose items are no messages with a role"),
        Ok(Value::Object(_)) => own_form(key, "an object without a list of messages with a role"),
        _ => own_form(key, "a text"),
    }
}

fn own_form(key: &str, what: &str) -> DecodeError {
    let detail = format!(
        "`{key}` is {what}: the SDK keeps its own input there, not the request that the model got; trace the requests \
         where they are served"
    );
    DecodeError::new(ErrorCode::InvalidBody, detail)
}
