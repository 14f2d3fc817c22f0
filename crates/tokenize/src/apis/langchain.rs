//! Messages as LangChain keeps them: with a type in place of a role, in an object of its own, in a list of lists.

use super::{call, field, items, kind, text, written};
use crate::fields::ObjectFields;
use minijinja::Value;

/// Types of messages, by their own words and by those of their classes, with the roles that they are.
const TYPES: [(&str, &str); 10] = [
    ("human", "user"),
    ("ai", "assistant"),
    ("system", "system"),
    ("tool", "tool"),
    ("developer", "developer"),
    ("HumanMessage", "user"),
    ("AIMessage", "assistant"),
    ("AIMessageChunk", "assistant"),
    ("SystemMessage", "system"),
    ("ToolMessage", "tool"),
];

/// The message as chats have it; one that is none of LangChain's is as it was.
pub(in super::super) fn as_message(message: ObjectFields) -> ObjectFields {
    if message.get("role").is_some() {
        return message;
    }
    let inner = message.get("kwargs").map(written).map(ObjectFields);
    let class = message.get("id").map(items).and_then(|names| names.last()?.as_str().map(str::to_owned));
    let said = inner.as_ref().unwrap_or(&message);
    let named = said.get("type").and_then(Value::as_str).map(str::to_owned).or(class);
    let role = TYPES.iter().find(|(name, _)| named.as_deref() == Some(name)).map(|(_, role)| *role);
    let Some(role) = role else { return message };
    let mut chat = super::message(role, said.get("content").cloned());
    for name in ["name", "tool_call_id"] {
        let value = said.get(name).filter(|value| value.is_true()).cloned();
        value.into_iter().for_each(|value| chat.set(name, value));
    }
    let calls = said.get("tool_calls").map(items).unwrap_or_default();
    if !calls.is_empty() {
        chat.set("tool_calls", Value::from(calls.iter().map(as_call).collect::<Vec<_>>()));
    }
    chat
}

/// A call as chats have it.
fn as_call(said: &Value) -> Value {
    match (text(said, "name"), field(said, "args")) {
        (Some(name), Some(arguments)) if kind(said) != "function" => {
            call(field(said, "id"), Value::from(name), arguments)
        }
        _ => said.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields_of(json: &str) -> String {
        let message = as_message(serde_json::from_str(json).expect("an object"));
        let fields: Vec<_> = message.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        fields.join(" ")
    }

    #[test]
    fn messages_of_langchain_are_those_of_chats() {
        let constructed = r#"{"lc": 1, "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "a"}}"#;
        assert_eq!(fields_of(constructed), "role=user content=a");
        assert_eq!(fields_of(r#"{"type": "ai", "content": "b"}"#), "role=assistant content=b");
        assert_eq!(
            fields_of(r#"{"role": "user", "content": "c", "type": "ai"}"#),
            "role=user content=c type=ai"
        );
        assert_eq!(fields_of(r#"{"content": "d"}"#), "content=d");
        let calls = fields_of(
            r#"{"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": {"x": 1}, "id": "i"}]}"#,
        );
        assert!(calls.contains("'function'") && calls.contains("'name': 'f'"), "{calls}");
    }
}
