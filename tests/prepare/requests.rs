//! The bodies that are understood, and the words for those that are not.

use kvset::core::request::refusal::DecodeError;
use kvset::core::units::EventTime;
use kvset::tokenize::{Model, ModelError, ModelFiles, RequestTokenizer, TokenizeLimits};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenize").join(name)
}

fn tokenizer(name: &str) -> RequestTokenizer {
    let model = Model::load(&folder(name)).expect("a usable model");
    RequestTokenizer::new(Arc::new(model), TokenizeLimits::default())
}

fn ids(tokenizer: &mut RequestTokenizer, body: &str) -> Result<Vec<Vec<u32>>, DecodeError> {
    tokenizer.tokenize(body.as_bytes(), None).map(|prompts| prompts.iter().map(<[u32]>::to_vec).collect())
}

#[test]
fn a_body_may_be_bare_or_wrapped() {
    let mut tokenizer = tokenizer("chatml");
    let bare = r#"{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 1}"#;
    let wrapped =
        format!(r#"{{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {bare}}}"#);
    let expected = ids(&mut tokenizer, bare).expect("a chat");
    assert_eq!(expected.len(), 1);
    assert!(expected[0].len() > 5);
    assert_eq!(ids(&mut tokenizer, &wrapped), Ok(expected));
}

#[test]
fn token_ids_pass_through() {
    let mut tokenizer = tokenizer("words");
    assert_eq!(ids(&mut tokenizer, r#"{"prompt": [1, 2, 4294967295]}"#), Ok(vec![vec![1, 2, u32::MAX]]));
    assert_eq!(
        ids(&mut tokenizer, r#"{"prompt": [[1], [], [2, 3]]}"#),
        Ok(vec![vec![1], vec![], vec![2, 3]])
    );
    let nothing = ids(&mut tokenizer, r#"{"prompt": []}"#).expect_err("no prompt at all");
    assert_eq!(nothing.to_string(), "missing_field: the prompt is an empty list");
}

#[test]
fn tools_choose_their_own_template() {
    let mut files = ModelFiles::read(&folder("words")).expect("the fixture is there");
    files.config = json!({"chat_template": [
        {"name": "default", "template": "plain {{ messages[0].content }}"},
        {"name": "tool_use", "template": "tools {{ messages[0].content }}"}]})
    .to_string()
    .into_bytes();
    let model = Model::new(files.clone()).expect("a usable model");
    let mut tokenizer = RequestTokenizer::new(Arc::new(model), TokenizeLimits::default());
    let mut chat = |more: &str| {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "x"}}]{more}}}"#);
        ids(&mut tokenizer, &body).expect("a chat")
    };
    let (plain, with_tools) = (chat(""), chat(r#", "tools": []"#));
    assert_ne!(plain, with_tools);
    assert_eq!(chat(r#", "tools": null"#), plain);
    files.templates = vec![("default".to_owned(), "tools {{ messages[0].content }}".to_owned())];
    let model = Model::new(files).expect("a usable model");
    let mut tokenizer = RequestTokenizer::new(Arc::new(model), TokenizeLimits::default());
    let body = r#"{"messages": [{"role": "user", "content": "x"}]}"#;
    assert_eq!(ids(&mut tokenizer, body), Ok(with_tools), "a template file goes before the configuration");
}

#[test]
fn the_time_of_the_request_is_what_templates_see() {
    let mut files = ModelFiles::read(&folder("words")).expect("the fixture is there");
    files.templates =
        vec![("default".to_owned(), "{{ strftime_now('%Y-%m-%d ') }}{{ messages[0].content }}".to_owned())];
    let mut tokenizer = RequestTokenizer::new(
        Arc::new(Model::new(files).expect("a usable model")),
        TokenizeLimits::default(),
    );
    let body = br#"{"messages": [{"role": "user", "content": "x"}]}"#;
    let on = |tokenizer: &mut RequestTokenizer, day: i64| {
        let prompts = tokenizer.tokenize(body, Some(EventTime(day * 86_400_000))).expect("a date");
        prompts.iter().map(<[u32]>::to_vec).collect::<Vec<_>>()
    };
    let first = on(&mut tokenizer, 20_000);
    assert_eq!(on(&mut tokenizer, 20_000), first);
    assert_ne!(on(&mut tokenizer, 20_001), first);
    let date = ids(&mut tokenizer, r#"{"prompt": "2024-10-04 x"}"#).expect("a prompt");
    assert_eq!(first, date, "20,000 days after the epoch");
}

/// Bodies that are refused; each holds the word that no message may repeat.
const REFUSED: [(&str, &str); 20] = [
    ("", "invalid_body"),
    ("hunter2", "invalid_body"),
    (r#"{"prompt": "hunter2""#, "invalid_body"),
    (r#"["hunter2"]"#, "invalid_body"),
    (r#"{"prompt": {"hunter2": 1}}"#, "invalid_body"),
    (r#"{"prompt": ["hunter2", 1]}"#, "invalid_body"),
    (r#"{"prompt": [1, "hunter2"]}"#, "invalid_body"),
    (r#"{"prompt": [4294967296]}"#, "invalid_body"),
    (r#"{"prompt": [-1]}"#, "invalid_body"),
    (r#"{"prompt": "hunter2", "messages": []}"#, "invalid_body"),
    (r#"{"messages": ["hunter2"]}"#, "invalid_body"),
    (r#"{"messages": [{"role": "user", "content": {"hunter2": 1}}]}"#, "invalid_body"),
    (r#"{"messages": [{"role": "user", "content": "x", "tool_calls": "hunter2"}]}"#, "invalid_body"),
    (r#"{"messages": []}"#, "missing_field"),
    (r#"{"inputs": "hunter2"}"#, "missing_field"),
    (r#"{"messages": [{"content": "hunter2"}]}"#, "missing_field"),
    (r#"{"messages": [{"role": "user", "content": [{"words": "hunter2"}]}]}"#, "missing_field"),
    (
        r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "hunter2"}}]}]}"#,
        "unsupported_content",
    ),
    (r#"{"messages": [{"role": "user", "content": "x"}], "chat_template": "hunter2"}"#, "unsupported_field"),
    (r#"{"prompt_embeds": "hunter2"}"#, "unsupported_content"),
];

#[test]
fn what_is_refused_is_named_and_not_quoted() {
    let mut tokenizer = tokenizer("chatml");
    for (body, code) in REFUSED {
        let error = ids(&mut tokenizer, body).expect_err(body);
        assert_eq!(error.code().name(), code, "{body}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let chat = r#"{"messages": [{"role": "user", "content": "x"}]}"#;
    let error = ids(&mut self::tokenizer("words"), chat).expect_err("no template");
    assert_eq!(error.code().name(), "no_chat_template");
    let refused = r#"{"messages": [{"role": "assistant", "content": "hunter2"}]}"#;
    let error = ids(&mut self::tokenizer("inst"), refused).expect_err("roles alternate");
    assert_eq!(error.code().name(), "template_refused");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// Fields that Anthropic's Messages API, OpenAI's Responses API and others document as part of a prompt,
/// each with a value that says something.
const UNRENDERED: [(&str, &str); 13] = [
    ("mcp_servers", r#"[{"type": "url", "url": "hunter2"}]"#),
    ("container", r#"{"skills": [{"skill_id": "hunter2"}]}"#),
    ("instructions", r#""hunter2""#),
    ("input", r#"[{"role": "user", "content": "hunter2"}]"#),
    ("previous_response_id", r#""hunter2""#),
    ("conversation", r#"{"id": "hunter2"}"#),
    ("reasoning", r#"{"effort": "high"}"#),
    ("functions", r#"[{"name": "hunter2"}]"#),
    ("suffix", r#""hunter2""#),
    ("system_instruction", r#"{"parts": [{"text": "hunter2"}]}"#),
    ("preamble", r#""hunter2""#),
    ("images", r#"["hunter2"]"#),
    ("truncate_prompt_tokens", "7"),
];

#[test]
fn a_prompt_bearing_field_that_no_template_renders_is_refused_by_its_name() {
    let mut tokenizer = tokenizer("chatml");
    let messages = r#""messages": [{"role": "user", "content": "x"}]"#;
    let plain = ids(&mut tokenizer, &format!("{{{messages}}}")).expect("a chat");
    for (field, value) in UNRENDERED {
        let bare = format!(r#"{{{messages}, "{field}": {value}}}"#);
        for body in [format!(r#"{{"custom_id": "1", "body": {bare}}}"#), bare] {
            let error = ids(&mut tokenizer, &body).expect_err(&body);
            assert_eq!(error.code().name(), "unrendered_field", "{body}: {error}");
            assert!(error.detail().starts_with(&format!("`{field}` ")), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        for nothing in ["null", "false", r#""""#, "[]", "{}"] {
            let body = format!(r#"{{{messages}, "{field}": {nothing}}}"#);
            assert_eq!(ids(&mut tokenizer, &body).as_ref(), Ok(&plain), "{body}");
        }
    }
}

#[test]
fn parts_of_messages_and_tools_that_no_template_renders_are_refused_by_their_place() {
    let mut tokenizer = tokenizer("chatml");
    let user = r#"{"role": "user", "content": "x"}"#;
    for (body, place) in [
        (
            format!(
                r#"{{"messages": [{user}, {{"role": "assistant", "function_call": {{"name": "hunter2"}}}}]}}"#
            ),
            "messages[1].function_call",
        ),
        (
            format!(r#"{{"messages": [{user}, {{"role": "assistant", "refusal": "hunter2"}}]}}"#),
            "messages[1].refusal",
        ),
        (
            format!(r#"{{"messages": [{user}], "tools": [{{"type": "web_search", "name": "hunter2"}}]}}"#),
            "tools[0]",
        ),
    ] {
        let error = ids(&mut tokenizer, &body).expect_err(&body);
        assert_eq!(error.code().name(), "unrendered_field", "{body}: {error}");
        assert!(error.detail().starts_with(&format!("`{place}` ")), "{error}");
    }
    let empty =
        format!(r#"{{"messages": [{user}, {{"role": "assistant", "content": "y", "refusal": null}}]}}"#);
    assert!(ids(&mut tokenizer, &empty).is_ok());
}

#[test]
fn limits_hold() {
    let model = Arc::new(Model::load(&folder("inst")).expect("a usable model"));
    let limits = TokenizeLimits { max_body_bytes: 200, max_prompt_bytes: 60, cache_bytes: 0 };
    let mut tokenizer = RequestTokenizer::new(model, limits);
    let prompt = |length: usize| format!(r#"{{"prompt": "{}"}}"#, "x".repeat(length));
    assert!(ids(&mut tokenizer, &prompt(60)).is_ok());
    let code = |error: DecodeError| error.code().name();
    assert_eq!(ids(&mut tokenizer, &prompt(61)).map_err(code), Err("request_too_large"));
    assert_eq!(ids(&mut tokenizer, &prompt(300)).map_err(code), Err("request_too_large"));
    let chat = format!(r#"{{"messages": [{{"role": "user", "content": "{}"}}]}}"#, "x".repeat(60));
    assert_eq!(ids(&mut tokenizer, &chat).map_err(code), Err("request_too_large"));
    let deep = format!(r#"{{"messages": [{}1{}]}}"#, "[".repeat(90), "]".repeat(90));
    assert_eq!(ids(&mut tokenizer, &deep).map_err(code), Err("invalid_body"));
}

#[test]
fn nothing_shows_text_or_ids() {
    let mut tokenizer = tokenizer("chatml");
    let prompts = tokenizer.tokenize(br#"{"prompt": [7071, 7072]}"#, None).expect("token ids");
    assert_eq!(format!("{prompts:?}"), "TokenizedPrompts { prompts: 1, tokens: 2 }");
    let model = Model::load(&folder("chatml")).expect("a usable model");
    assert!(format!("{model:?}").starts_with("Model { fingerprint: "));
}

#[test]
fn unusable_models_say_why() {
    let error = Model::load(&folder("not-there")).expect_err("no such folder").to_string();
    assert!(error.contains("tokenizer.json") && error.contains("not-there"), "{error}");
    let files = ModelFiles::read(&folder("chatml")).expect("the fixture is there");
    let broken = |change: &dyn Fn(&mut ModelFiles)| {
        let mut files = files.clone();
        change(&mut files);
        Model::new(files).expect_err("refused")
    };
    assert!(matches!(broken(&|files| files.tokenizer.truncate(100)), ModelError::Tokenizer { .. }));
    assert!(matches!(broken(&|files| files.config = b"[]".to_vec()), ModelError::Config { .. }));
    assert!(matches!(
        broken(&|files| files.config = br#"{"chat_template": 5}"#.to_vec()),
        ModelError::Config { .. }
    ));
    assert!(matches!(
        broken(&|files| files.templates[0].1 = "{% if".to_owned()),
        ModelError::Template { .. }
    ));
    let dropout = broken(&|files| {
        let text = String::from_utf8(files.tokenizer.clone()).expect("text");
        files.tokenizer = text.replace(r#""dropout":null"#, r#""dropout":0.5"#).into_bytes();
    });
    assert!(dropout.to_string().contains("at random"), "{dropout}");
}

#[test]
fn the_fingerprint_follows_the_files() {
    let files = ModelFiles::read(&folder("chatml")).expect("the fixture is there");
    let fingerprint = |files: &ModelFiles| Model::new(files.clone()).expect("a usable model").fingerprint();
    let mut other = files.clone();
    other.templates[0].1.push(' ');
    assert_eq!(fingerprint(&files), fingerprint(&files));
    assert_ne!(fingerprint(&files), fingerprint(&other));
}
