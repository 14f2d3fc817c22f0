//! Bodies of Anthropic's Messages API and of OpenAI's Responses API: as the chats that inference servers make of
//! them, and nothing of a prompt left out in silence.

use kvset::tokenize::{Model, RequestTokenizer, TokenizeError, TokenizeLimits};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

fn tokenizer() -> RequestTokenizer {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenize/chatml");
    RequestTokenizer::new(Arc::new(Model::load(&folder).expect("a usable model")), TokenizeLimits::default())
}

fn ids(body: &Value) -> Result<Vec<u32>, TokenizeError> {
    ids_of(&body.to_string())
}

fn ids_of(body: &str) -> Result<Vec<u32>, TokenizeError> {
    let mut tokenizer = tokenizer();
    let prompts = tokenizer.tokenize(body.as_bytes(), None)?;
    assert_eq!(prompts.len(), 1);
    Ok(prompts.iter().flatten().copied().collect())
}

fn anthropic() -> Value {
    json!({
        "model": "m", "max_tokens": 100, "metadata": {"user_id": "u"}, "stop_sequences": ["x"], "stream": true,
        "system": [
            {"type": "text", "text": "Be brief. ", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            {"type": "text", "text": "Be kind."},
        ],
        "tools": [{"name": "look", "description": "Looks.", "cache_control": {"type": "ephemeral"},
            "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": "What is there?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I must look.", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "sky"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "A bird."}]},
                {"type": "text", "text": "And now?"},
            ]},
        ],
    })
}

fn responses() -> Value {
    json!({
        "model": "m", "max_output_tokens": 100, "store": false, "text": {"format": {"type": "text"}},
        "instructions": "Be brief. Be kind.",
        "tools": [{"type": "function", "name": "look", "description": "Looks.",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}],
        "reasoning": {"summary": "auto"},
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "What is there?"}]},
            {"type": "reasoning", "id": "r", "summary": [],
                "content": [{"type": "reasoning_text", "text": "I must look."}]},
            {"type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
            {"type": "function_call", "call_id": "t1", "name": "look", "arguments": "{\"at\": \"sky\"}"},
            {"type": "function_call_output", "call_id": "t1", "output": "A bird."},
            {"role": "user", "content": "And now?"},
        ],
    })
}

/// The same as OpenAI's chats say it, the keys of the tool in the order in which inference servers show it to templates.
const CHAT: &str = r#"{
    "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.",
        "parameters": {"properties": {"at": {"type": "string"}}, "type": "object"}}}],
    "messages": [
        {"role": "system", "content": "Be brief. Be kind."},
        {"role": "user", "content": "What is there?"},
        {"role": "assistant", "reasoning_content": "I must look.", "content": "I look.", "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"sky\"}"}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "A bird."},
        {"role": "user", "content": "And now?"}
    ]}"#;

#[test]
fn a_body_of_each_api_is_the_chat_it_stands_for() {
    let expected = ids_of(CHAT).expect("a chat");
    assert!(expected.len() > 40);
    assert_eq!(ids(&responses()), Ok(expected.clone()));
    assert_eq!(ids(&anthropic()), Ok(expected.clone()));
    for wrapped in [anthropic(), responses()] {
        assert_eq!(ids(&json!({"custom_id": "1", "body": wrapped})), Ok(expected.clone()));
    }
    let one = ids(&json!({"messages": [{"role": "user", "content": "Hi"}]}));
    assert_eq!(ids(&json!({"input": "Hi"})), one);
    assert_eq!(ids(&json!({"system": "", "messages": [{"role": "user", "content": "Hi"}]})), one);
    let blocks = json!([{"type": "text", "text": "Hi"}]);
    assert_eq!(ids(&json!({"system": [], "messages": [{"role": "user", "content": blocks}]})), one);
}

/// Everything that the APIs document as part of a prompt: another value gives other ids, or the body is refused by the
/// field's name.
#[test]
fn no_part_of_a_prompt_is_left_out_in_silence() {
    let changed = |mut body: Value, pointer: &str, to: Value| {
        *body.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = to;
        body
    };
    for (api, body, parts) in [
        (
            "anthropic",
            anthropic(),
            &[
                "/system/0/text",
                "/system/1/text",
                "/tools/0/name",
                "/tools/0/description",
                "/tools/0/input_schema",
                "/messages/0/content",
                "/messages/1/content/1/text",
                "/messages/1/content/2/name",
                "/messages/1/content/2/input/at",
                "/messages/2/content/0/content/0/text",
                "/messages/2/content/1/text",
            ][..],
        ),
        (
            "responses",
            responses(),
            &[
                "/instructions",
                "/tools/0/name",
                "/tools/0/description",
                "/tools/0/parameters",
                "/input/0/content/0/text",
                "/input/2/content/0/text",
                "/input/3/name",
                "/input/3/arguments",
                "/input/4/output",
                "/input/5/content",
            ],
        ),
    ] {
        let own = ids(&body).expect(api);
        for part in parts {
            let other = changed(body.clone(), part, json!("{\"another\": \"value\"}"));
            assert_ne!(ids(&other).expect(part), own, "{api} {part} makes no difference");
        }
    }
    // This template leaves out what was thought before the last question.
    let (mut anthropic, mut responses) = (anthropic(), responses());
    anthropic["messages"][2]["content"].as_array_mut().expect("blocks").pop();
    responses["input"].as_array_mut().expect("items").pop();
    for (body, part) in
        [(anthropic, "/messages/1/content/0/thinking"), (responses, "/input/1/content/0/text")]
    {
        let other = changed(body.clone(), part, json!("Something else."));
        assert_ne!(ids(&other).expect(part), ids(&body).expect(part), "{part} makes no difference");
    }
}

#[test]
fn what_no_chat_can_hold_is_refused_by_its_name() {
    let image = json!({"type": "image", "source": {"type": "base64", "data": "hunter2"}});
    let user = |content: Value| json!({"messages": [{"role": "user", "content": content}], "system": "s"});
    let with = |body: Value, field: &str, value: Value| {
        let mut body = body;
        body[field] = value;
        body
    };
    let input = |item: Value| json!({"input": [{"role": "user", "content": "x"}, item]});
    for (body, code, named) in [
        (user(json!([image.clone()])), "unsupported_content", "message 1"),
        (user(json!([{"type": "document", "source": {}}])), "unsupported_content", "message 1"),
        (
            user(json!([{"type": "tool_result", "tool_use_id": "t", "content": [image]}])),
            "unsupported_content",
            "messages[0].content[0][0]",
        ),
        (
            user(json!([{"type": "redacted_thinking", "data": "hunter2"}])),
            "unrendered_field",
            "`messages[0].content[0]`",
        ),
        (user(json!([{"type": "server_tool_use", "id": "x"}])), "unsupported_content", "message 1"),
        (with(anthropic(), "system", json!(7)), "unrendered_field", "`system`"),
        (
            with(anthropic(), "tools", json!([{"type": "web_search_20250305", "name": "w"}])),
            "unrendered_field",
            "`tools[0]`",
        ),
        (with(anthropic(), "mcp_servers", json!([{"url": "hunter2"}])), "unrendered_field", "`mcp_servers`"),
        (with(anthropic(), "instructions", json!("hunter2")), "unrendered_field", "`instructions`"),
        (with(anthropic(), "input", json!("hunter2")), "unrendered_field", "`input`"),
        (with(responses(), "system", json!("hunter2")), "unrendered_field", "`system`"),
        (with(responses(), "thinking", json!({"type": "enabled"})), "unrendered_field", "`thinking`"),
        (with(responses(), "reasoning", json!({"hunter2": 1})), "unrendered_field", "`reasoning`"),
        (with(responses(), "instructions", json!(["hunter2"])), "unrendered_field", "`instructions`"),
        (
            with(responses(), "previous_response_id", json!("hunter2")),
            "unrendered_field",
            "`previous_response_id`",
        ),
        (with(responses(), "tools", json!([{"type": "web_search"}])), "unrendered_field", "`tools[0]`"),
        (input(json!({"type": "item_reference", "id": "hunter2"})), "unrendered_field", "`input[1]`"),
        (input(json!({"type": "web_search_call", "id": "hunter2"})), "unrendered_field", "`input[1]`"),
        (
            input(json!({"type": "reasoning", "summary": [], "encrypted_content": "hunter2"})),
            "unrendered_field",
            "`input[1].encrypted_content`",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "hunter2"}]}]}),
            "unsupported_content",
            "message 0",
        ),
        (json!({"input": 7}), "unrendered_field", "`input`"),
    ] {
        let error = ids(&body).expect_err(&body.to_string());
        assert_eq!(error.code().name(), code, "{body}: {error}");
        assert!(error.detail().starts_with(named), "{body}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

/// A template that does not ask whether the model thinks would render both alike.
#[test]
fn thinking_is_told_to_templates_that_ask_and_refused_for_others() {
    let ask = json!({"system": "s", "messages": [{"role": "user", "content": "x"}]});
    let with = |kind: &str| {
        let mut body = ask.clone();
        body["thinking"] = json!({"type": kind, "budget_tokens": 5});
        body
    };
    assert_eq!(ids(&with("enabled")), ids(&ask), "thinking is what this template does unless told");
    assert_ne!(ids(&with("disabled")).expect("a chat"), ids(&ask).expect("a chat"));
    assert_eq!(ids(&with("hunter2")).expect_err("unknown").code().name(), "unrendered_field");
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenize/headers");
    let model = Arc::new(Model::load(&folder).expect("a usable model"));
    let mut other = RequestTokenizer::new(model, TokenizeLimits::default());
    let error = other.tokenize(with("enabled").to_string().as_bytes(), None).expect_err("it does not ask");
    assert_eq!(error.code().name(), "unrendered_field");
    assert!(other.tokenize(with("disabled").to_string().as_bytes(), None).is_ok());
}
