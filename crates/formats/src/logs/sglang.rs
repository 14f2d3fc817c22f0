//! SGLang's request log: what its tokenizer manager was given, and what came of it.

use super::layout::{missing, token_ids};
use super::path;
use super::{LoggedPrompt, Places};
use crate::codec::{DecodeError, ErrorCode};
use std::borrow::Cow;

pub(super) const SWITCH_ON: &str =
    "start SGLang with --log-requests --log-requests-level 3 --log-requests-format json";

/// Characters that are left of a longer text at level 2, and items of a longer list.
const CUT: usize = 2048;
/// What stands for the rest.
const ELLIPSIS: &str = "...";
/// Parts of a prompt that are no tokens.
const MEDIA: [&str; 4] = ["obj.image_data", "obj.video_data", "obj.audio_data", "obj.input_embeds"];

pub(super) fn passed_over(record: &[u8]) -> Result<Option<&'static str>, DecodeError> {
    let event = path::at(record, "event")?;
    let event = event.as_ref().map(|found| found.text.as_ref());
    Ok(match event {
        Some("request.finished") => None,
        Some("request.received") => Some("a request that has not finished; it is logged again when it has"),
        _ => Some("an event of another kind than request.finished"),
    })
}

pub(super) fn prompt<'r>(record: &'r [u8], _: &Places) -> Result<LoggedPrompt<'r>, DecodeError> {
    for media in MEDIA {
        if path::at(record, media)?.is_some_and(|found| !matches!(found.text.as_ref(), "[]" | "false")) {
            let detail = format!("`{media}` is part of the prompt and no text");
            return Err(DecodeError::new(ErrorCode::UnsupportedContent, detail));
        }
    }
    let goes_on = path::at(record, "obj.session_params.rid")?.is_some();
    if goes_on && path::at(record, "out.meta_info.prompt_tokens")?.is_none() {
        let detail =
            "`obj.session_params` goes on with a session, of whose prompt the log has what is new only";
        return Err(DecodeError::new(ErrorCode::PromptMismatch, detail));
    }
    if let Some(ids) = path::at(record, "obj.input_ids")? {
        let read = token_ids(&ids.text);
        return read.map(LoggedPrompt::Tokens).ok_or_else(|| cut_off("obj.input_ids"));
    }
    let Some(text) = path::at(record, "obj.text")? else {
        return Err(missing("obj.input_ids", SWITCH_ON));
    };
    if !text.quoted {
        return Ok(LoggedPrompt::Body(Cow::Owned(format!("{{\"prompt\":{}}}", text.text))));
    }
    if is_cut_off(&text.text) {
        return Err(cut_off("obj.text"));
    }
    let body = serde_json::json!({"prompt": text.text});
    Ok(LoggedPrompt::Body(Cow::Owned(body.to_string())))
}

/// Whether a text is what level 2 leaves of a longer one.
fn is_cut_off(text: &str) -> bool {
    let half = CUT / 2;
    text.len() >= CUT
        && text.chars().count() == CUT + ELLIPSIS.len()
        && text.chars().skip(half).take(ELLIPSIS.len()).all(|character| character == '.')
}

fn cut_off(path: &str) -> DecodeError {
    DecodeError::new(ErrorCode::InvalidField, format!("`{path}` is cut off or no prompt: {SWITCH_ON}"))
}
