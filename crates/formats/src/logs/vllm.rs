//! Requests to vLLM with what it answered: the prompt's token ids where they were requested, else the body.

use super::layout::{first, missing, token_ids};
use super::path;
use super::{LoggedPrompt, Places};
use crate::codec::{DecodeError, ErrorCode};
use crate::record::numbers::count;
use serde_json::Value;

pub(super) const SWITCH_ON: &str =
    "log requests with \"return_token_ids\": true alongside their answers, or their bodies under `request`";

/// Where the answer is; that of a batch file is wrapped once more.
pub(super) const RESPONSE: [&str; 2] = ["response.body", "response"];
const REQUEST: &str = "request";

pub(super) fn prompt<'r>(record: &'r [u8], places: &Places) -> Result<LoggedPrompt<'r>, DecodeError> {
    let request = first(record, &[REQUEST, "body"])?.map(|found| found.text);
    let response = match &places.response {
        Some(path) => path.find(record)?,
        None => first(record, &RESPONSE)?.map(|found| found.text),
    };
    let prompts = response.and_then(|response| in_response(&response, copies(request.as_deref())));
    // No prompt is empty: where its ids are, they were not returned.
    if let Some(prompts) = prompts.filter(|prompts| prompts.iter().all(|ids| !ids.is_empty())) {
        // Of images the ids hold the places, not what they show.
        if let Some(field) = request.as_deref().and_then(media) {
            let detail = format!("`{field}` of the request holds something else than text");
            return Err(DecodeError::new(ErrorCode::UnsupportedContent, detail));
        }
        return Ok(LoggedPrompt::Tokens(prompts));
    }
    let body = request.filter(|body| body.trim_start().starts_with('{'));
    body.map(LoggedPrompt::Body).ok_or_else(|| missing("response.prompt_token_ids", SWITCH_ON))
}

/// Whether an answer holds the ids of its prompt.
pub(super) fn has_ids(record: &[u8]) -> bool {
    let response = first(record, &RESPONSE).ok().flatten();
    response.is_some_and(|response| in_response(&response.text, 1).is_some())
}

/// The prompts of an answer: a chat's stand alongside its choices, a completion's in each of them. In a stream the
/// first chunk has them.
fn in_response(response: &str, copies: usize) -> Option<Vec<Vec<u32>>> {
    let text = response.trim_start();
    if !text.starts_with(['{', '[']) {
        let chunks = text.lines().filter_map(|line| line.strip_prefix("data:"));
        return chunks
            .map(str::trim)
            .filter(|chunk| chunk.starts_with('{'))
            .find_map(|c| in_response(c, copies));
    }
    if text.starts_with('[') {
        let chunks: Vec<&serde_json::value::RawValue> = serde_json::from_str(text).ok()?;
        return chunks.iter().find_map(|chunk| in_response(chunk.get(), copies));
    }
    if let Ok(Some(ids)) = path::at(text.as_bytes(), "prompt_token_ids") {
        return token_ids(&ids.text);
    }
    let choices = path::at(text.as_bytes(), "choices").ok()??;
    let choices: Vec<&serde_json::value::RawValue> = serde_json::from_str(&choices.text).ok()?;
    let ids = choices.iter().step_by(copies).map(|choice| {
        let ids = path::at(choice.get().as_bytes(), "prompt_token_ids").ok()??;
        token_ids(&ids.text)?.into_iter().next()
    });
    ids.collect::<Option<Vec<_>>>().filter(|ids| !ids.is_empty())
}

/// How many answers were requested for each prompt.
fn copies(request: Option<&str>) -> usize {
    let asked = request.and_then(|request| path::at(request.as_bytes(), "n").ok()?);
    let asked = asked.and_then(|n| count(&n.text).ok()?).and_then(|n| usize::try_from(n).ok());
    asked.filter(|n| *n > 0).unwrap_or(1)
}

/// The field of a request that holds something else than text.
fn media(request: &str) -> Option<&'static str> {
    const FIELDS: [&str; 3] = ["multi_modal_data", "mm_processor_kwargs", "prompt_embeds"];
    for field in FIELDS {
        if path::at(request.as_bytes(), field).ok().flatten().is_some() {
            return Some(field);
        }
    }
    let messages = path::at(request.as_bytes(), "messages").ok()??;
    let messages: Value = serde_json::from_str(&messages.text).ok()?;
    let parts = messages.as_array()?.iter().filter_map(|message| message["content"].as_array()).flatten();
    let is_text =
        |part: &Value| part.is_string() || part["type"].as_str().is_some_and(|kind| kind.contains("text"));
    parts.into_iter().any(|part| !is_text(part)).then_some("messages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_answers_of_every_kind() {
        let ids = Some(vec![vec![1, 2]]);
        assert_eq!(in_response(r#"{"prompt_token_ids": [1, 2], "choices": []}"#, 1), ids);
        assert_eq!(in_response(r#"{"choices": [{"prompt_token_ids": [1, 2]}]}"#, 1), ids);
        let stream = "data: {\"choices\": []}\n\ndata: {\"prompt_token_ids\": [1, 2]}\n\ndata: [DONE]\n";
        assert_eq!(in_response(stream, 1), ids);
        assert_eq!(in_response(r#"[{"choices": []}, {"prompt_token_ids": [1, 2]}]"#, 1), ids);
        let two = r#"{"choices": [{"prompt_token_ids": [1]}, {"prompt_token_ids": [1]},
            {"prompt_token_ids": [2]}, {"prompt_token_ids": [2]}]}"#;
        assert_eq!(in_response(two, copies(Some(r#"{"n": 2}"#))), Some(vec![vec![1], vec![2]]));
        assert_eq!(in_response(r#"{"choices": [{"text": "x"}]}"#, 1), None);
    }

    #[test]
    fn what_is_no_text_is_seen_in_the_request() {
        assert_eq!(media(r#"{"messages": [{"content": "x"}, {"content": [{"type": "text"}]}]}"#), None);
        assert_eq!(media(r#"{"messages": [{"content": [{"type": "image_url"}]}]}"#), Some("messages"));
        assert_eq!(media(r#"{"multi_modal_data": {}}"#), Some("multi_modal_data"));
    }
}
