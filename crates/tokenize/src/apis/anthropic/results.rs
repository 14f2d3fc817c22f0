//! What tools answered.

use super::super::{content_of, field, items, kind, message, text, text_part, unrendered};
use super::{Conversion, not_text};
use crate::fields::ObjectFields;
use kvset_core::request::refusal::DecodeError;
use minijinja::Value;
use minijinja::value::ValueKind;

impl Conversion<'_> {
    /// The messages of a result: one, but where it refers to tools alongside what it says.
    pub(super) fn results(&self, block: &Value, place: &str) -> Result<Vec<ObjectFields>, DecodeError> {
        let answer = |content: Value| {
            let mut answer = message("tool", Some(content));
            if let Some(id) = field(block, "tool_use_id") {
                answer.set("tool_call_id", id);
            }
            // That it failed is left to the template to show.
            if let Some(failed) = field(block, "is_error").filter(Value::is_true) {
                answer.set("is_error", failed);
            }
            answer
        };
        let parts = parts(block, place)?;
        if self.rules.results_first {
            let (references, texts): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_reference);
            let texts: Vec<String> = texts.iter().filter_map(|part| text(part, "text")).collect();
            let mut answers = vec![answer(Value::from(texts.join("\n")))];
            if !references.is_empty() {
                answers.push(answer(Value::from(references)));
            }
            return Ok(answers);
        }
        let mut runs: Vec<Vec<Value>> = Vec::new();
        for part in parts {
            match runs.last_mut().filter(|run| is_reference(&run[0]) == is_reference(&part)) {
                Some(run) => run.push(part),
                None => runs.push(vec![part]),
            }
        }
        if runs.is_empty() {
            runs.push(Vec::new());
        }
        Ok(runs.into_iter().map(|run| answer(content_of(run))).collect())
    }
}

/// A result in the turn of an assistant, which engines write as text.
pub(super) fn as_text(block: &Value, place: &str) -> Result<Value, DecodeError> {
    let content = field(block, "content").unwrap_or_else(|| Value::from(""));
    // A list is written as Python prints it.
    let said = content.as_str().ok_or_else(|| unrendered(place))?;
    Ok(text_part(&format!("Tool result: {said}")))
}

/// The texts of a result, and the tools it refers to.
fn parts(block: &Value, place: &str) -> Result<Vec<Value>, DecodeError> {
    let Some(content) = field(block, "content") else { return Ok(Vec::new()) };
    if let Some(said) = content.as_str() {
        return Ok(vec![text_part(said)]);
    }
    if content.kind() != ValueKind::Seq {
        return Err(unrendered(place));
    }
    let mut parts = Vec::new();
    for (number, part) in items(&content).iter().enumerate() {
        let place = format!("{place}[{number}]");
        match kind(part).as_str() {
            "text" => parts.push(text_part(&text(part, "text").ok_or_else(|| not_text(part, &place))?)),
            "tool_reference" => {
                let name = text(part, "tool_name").or_else(|| text(part, "name"));
                let name = name.ok_or_else(|| unrendered(&place))?;
                parts.push(minijinja::context! { type => "tool_reference", name => name });
            }
            _ => return Err(not_text(part, &place)),
        }
    }
    Ok(parts)
}

fn is_reference(part: &Value) -> bool {
    kind(part) == "tool_reference"
}
