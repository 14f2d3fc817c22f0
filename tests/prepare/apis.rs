//! Bodies of Anthropic's Messages API and of OpenAI's Responses API: as the chats that inference servers make of
//! them, and nothing of a prompt left out in silence.

use kvset::core::engines::chat_engine::ChatEngine;
use kvset::core::request::refusal::DecodeError;
use kvset::tokenize::{Model, RequestTokenizer, TokenizeLimits, engine_version};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

fn tokenizer() -> RequestTokenizer {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenize/chatml");
    RequestTokenizer::new(Arc::new(Model::load(&folder).expect("a usable model")), TokenizeLimits::default())
}

fn ids(body: &Value) -> Result<Vec<u32>, DecodeError> {
    ids_of(&body.to_string())
}

fn ids_of(body: &str) -> Result<Vec<u32>, DecodeError> {
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

/// The same as OpenAI's chats say it, the keys of the tool in the order in which inference servers show it to
/// templates.
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
        (
            user(json!([image.clone()])),
            "unsupported_content",
            "messages[0].content[0] is of the kind `image`",
        ),
        (
            user(json!([{"type": "document", "source": {}}])),
            "unsupported_content",
            "messages[0].content[0] is of the kind `document`",
        ),
        (user(json!([{"type": "hunter2"}])), "unsupported_content", "messages[0].content[0] is no text"),
        (
            user(json!([{"type": "tool_result", "tool_use_id": "t", "content": [image]}])),
            "unsupported_content",
            "messages[0].content[0][0]",
        ),
        (
            user(json!([{"type": "server_tool_use", "id": "x"}])),
            "unsupported_content",
            "messages[0].content[0] is of the kind `server_tool_use`",
        ),
        (
            user(json!([{"type": "search_result", "title": "hunter2"}])),
            "unsupported_content",
            "messages[0].content[0] is of the kind `search_result`",
        ),
        (
            json!({"system": "s", "messages": [{"role": "critic", "content": "hunter2"}]}),
            "unrendered_field",
            "`messages[0].role` is `critic`",
        ),
        (
            json!({"messages": [{"role": "user", "content": "x"}, {"role": "ctx", "content": "hunter2"}]}),
            "unrendered_field",
            "the model's chat template leaves out messages of the role `ctx`, such as number 2",
        ),
        (
            with(anthropic(), "tools", json!([{"name": "w", "input_schema": "hunter2"}])),
            "unrendered_field",
            "`tools[0]`",
        ),
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

/// The table of rules names the versions whose sources were read.
#[test]
fn the_documentation_names_the_engines_versions() {
    let page = std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/prepare.md"));
    let page = page.expect("docs/prepare.md");
    let [vllm, sglang] = [ChatEngine::Vllm, ChatEngine::Sglang].map(engine_version);
    assert!(page.contains(&format!("| rule | {vllm} | {sglang} |")), "{vllm}, {sglang}");
}
