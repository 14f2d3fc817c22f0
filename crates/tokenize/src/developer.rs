//! The role `developer`, for which most chat templates have no words.

use super::fields::ObjectFields;
use super::rules::ChatRules;
use minijinja::Value;
use minijinja::value::ValueKind;

const DEVELOPER: &str = "developer";
const SYSTEM: &str = "system";

/// The messages as an engine gives them to a template that does not name developers: these are the system's, and all
/// that the system says is its first message.
pub(super) fn without_developers(
    messages: Vec<ObjectFields>,
    names: impl Fn(&str) -> bool,
    rules: &ChatRules,
) -> Vec<ObjectFields> {
    let is = |message: &ObjectFields, role: &str| message.role() == role;
    let has_developers = messages.iter().any(|message| is(message, DEVELOPER));
    if !rules.turns_developers_to_system || !has_developers || names(DEVELOPER) {
        return messages;
    }
    let (mut system, others): (Vec<_>, Vec<_>) =
        messages.into_iter().partition(|message| is(message, DEVELOPER) || is(message, SYSTEM));
    let mut said: Vec<String> = system.iter().map(text_of).collect();
    said.retain(|text| !text.is_empty());
    let Some(head) = system.first_mut() else { return others };
    head.set("role", Value::from(SYSTEM));
    head.set("content", Value::from(said.join("\n\n")));
    std::iter::once(head.clone()).chain(others).collect()
}

/// The texts of a content.
fn text_of(message: &ObjectFields) -> String {
    let Some(content) = message.get("content") else { return String::new() };
    if content.kind() != ValueKind::Seq {
        return content.as_str().unwrap_or_default().to_owned();
    }
    let parts = content.try_iter().into_iter().flatten();
    let texts = parts.filter_map(|part| match part.as_str() {
        Some(text) => Some(text.to_owned()),
        None => part.get_attr("text").ok()?.as_str().map(str::to_owned),
    });
    texts.collect::<Vec<_>>().join("\n")
}
