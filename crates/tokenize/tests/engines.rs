//! What each engine makes of a body: text by text, rule by rule, and nothing of a prompt left out in silence.

use kvset_core::engines::chat_engine::ChatEngine::{self, Sglang, Vllm};
use kvset_core::request::refusal::DecodeError;
use kvset_tokenize::{Model, ModelFiles, RequestTokenizer, TokenizeLimits};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Renders every message, whatever its role, and shows what else it is given.
const PLAIN: &str = "{%- for m in messages %}{{- '<' + m.role + '>' + m.content }}\
    {%- if m.reasoning_content %}{{- '(' + m.reasoning_content + ')' }}{%- endif %}\
    {%- for call in m.tool_calls or [] %}{{- '[' + call.function.name + (call.function.arguments | tojson) + ']' }}\
    {%- endfor %}{%- endfor %}";
/// Of `PLAIN`'s kind, but it has no words for a system message behind the first one.
const FIRST_SYSTEM: &str = "{%- for m in messages %}{%- if m.role != 'system' or loop.first %}\
    {{- '<' + m.role + '>' + m.content }}{%- endif %}{%- endfor %}";
/// The same, and it refuses one.
const STRICT_SYSTEM: &str = "{%- for m in messages %}{%- if m.role == 'system' and not loop.first %}\
    {{- raise_exception('first') }}{%- endif %}{{- '<' + m.role + '>' + m.content }}{%- endfor %}";
/// Shows tools and efforts.
const SHOWS: &str = "{{- messages[0].content }}{%- if tools %}{{- tools | tojson }}{%- endif %}\
    |{{- reasoning_effort }}|{{- enable_thinking }}|{{- thinking }}";

fn model(template: &str) -> Arc<Model> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tokenize/chatml");
    let mut files = ModelFiles::read(&folder).expect("the fixture is there");
    files.templates = vec![("default".to_owned(), template.to_owned())];
    Arc::new(Model::new(files).expect("a usable model"))
}

fn chatml() -> Arc<Model> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tokenize/chatml");
    Arc::new(Model::load(&folder).expect("a usable model"))
}

fn ids(model: &Arc<Model>, engine: ChatEngine, body: &Value) -> Result<Vec<u32>, DecodeError> {
    let tokenizer = RequestTokenizer::new(Arc::clone(model), TokenizeLimits::default());
    let mut tokenizer = tokenizer.served_by(engine);
    let prompts = tokenizer.tokenize(body.to_string().as_bytes(), None)?;
    Ok(prompts.iter().flatten().copied().collect())
}

/// Asserts that an engine makes this text of a body.
fn renders(template: &str, engine: ChatEngine, body: &Value, text: &str) {
    let model = model(template);
    let expected = ids(&model, engine, &json!({"prompt": text, "add_special_tokens": false}));
    assert_eq!(ids(&model, engine, body), expected, "{engine}: {body} is not {text}");
}

fn refusal(template: &str, engine: ChatEngine, body: &Value) -> String {
    ids(&model(template), engine, body).expect_err(&body.to_string()).to_string()
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

#[test]
fn system_blocks_are_joined_and_stripped_as_each_engine_does() {
    let header = "x-anthropic-billing-header: cc_version=2; cch=1;";
    let body = json!({"system": [{"type": "text", "text": "a"}, {"type": "text", "text": header},
        {"type": "text", "text": "b"}], "messages": [user(json!("q"))]});
    renders(PLAIN, Vllm, &body, "<system>ab<user>q");
    renders(PLAIN, Sglang, &body, &format!("<system>a\n{header}\nb<user>q"));
    // Of one text, and of OpenAI's chats behind a gateway, the line goes.
    let text = format!("{header}\nrest");
    for body in [
        json!({"system": text, "messages": [user(json!("q"))]}),
        json!({"messages": [{"role": "system", "content": text}, user(json!("q"))]}),
    ] {
        renders(PLAIN, Vllm, &body, "<system>rest<user>q");
        renders(PLAIN, Sglang, &body, &format!("<system>{text}<user>q"));
    }
}

#[test]
fn a_late_system_message_goes_where_the_engine_puts_it_for_this_template() {
    let body = json!({"system": "a", "messages": [user(json!("q")), {"role": "system", "content": "late"},
        user(json!("r"))]});
    for engine in [Vllm, Sglang] {
        renders(PLAIN, engine, &body, "<system>a<user>q<system>late<user>r");
    }
    renders(STRICT_SYSTEM, Vllm, &body, "<system>alate<user>q<user>r");
    renders(STRICT_SYSTEM, Sglang, &body, "<system>a\nlate<user>q<user>r");
    renders(FIRST_SYSTEM, Sglang, &body, "<system>a\nlate<user>q<user>r");
    let refused = refusal(FIRST_SYSTEM, Vllm, &body);
    assert!(refused.contains("role `system`"), "vLLM leaves it to a template that drops it: {refused}");
    let only_header = json!({"system": "a", "messages": [user(json!("q")),
        {"role": "system", "content": "x-anthropic-billing-header: 1"}]});
    renders(PLAIN, Vllm, &only_header, "<system>a<user>q");
}

#[test]
fn roles_are_taken_turned_or_refused_by_name() {
    let body = |role: &str| json!({"system": "a", "messages": [{"role": role, "content": "q"}]});
    for role in ["ctx", "msg", "user"] {
        renders(PLAIN, Vllm, &body(role), "<system>a<user>q");
    }
    for (engine, role) in [(Vllm, "critic"), (Sglang, "ctx"), (Sglang, "msg")] {
        let refused = refusal(PLAIN, engine, &body(role));
        assert!(refused.contains(&format!("`messages[0].role` is `{role}`")), "{refused}");
    }
    let chat = |role: &str| json!({"messages": [user(json!("q")), {"role": role, "content": "r"}]});
    renders(PLAIN, Vllm, &chat("critic"), "<user>q<critic>r");
    assert!(refusal(PLAIN, Sglang, &chat("critic")).contains("its role is `critic`"));
    renders(PLAIN, Sglang, &chat("Latest_Reminder"), "<user>q<latest_reminder>r");
    for template in [FIRST_SYSTEM, PLAIN] {
        renders(template, Vllm, &chat("developer"), "<system>r<user>q");
    }
    let named = format!("{PLAIN}{{# 'developer' #}}");
    renders(&named, Vllm, &chat("developer"), "<user>q<developer>r");
    renders(PLAIN, Sglang, &chat("developer"), "<user>q<developer>r");
    let long = "a prompt that somebody put in the place of a role";
    let refused = refusal("{{ messages[0].content }}", Vllm, &chat(long));
    assert!(!refused.contains("prompt that somebody"), "{refused}");
}

#[test]
fn no_message_vanishes_because_a_template_does_not_know_its_role() {
    let model = chatml();
    let chat = |role: &str, at: usize| {
        let mut messages =
            vec![user(json!("one")), json!({"role": "assistant", "content": "two"}), user(json!("three"))];
        messages.insert(at, json!({"role": role, "content": "two three four"}));
        json!({"messages": messages})
    };
    for role in ["ctx", "msg", "function", "latest_reminder", "ipython", "observation", "human", "developer2"]
    {
        for at in 0..4 {
            let refused = ids(&model, Vllm, &chat(role, at)).expect_err(role).to_string();
            assert!(refused.contains(&format!("role `{role}`")), "{refused}");
        }
    }
    for role in ["system", "user", "assistant", "tool"] {
        assert!((1..4).all(|at| ids(&model, Vllm, &chat(role, at)).is_ok()), "{role}");
    }
    // A template that leaves out what the system says at the head, by name, means to.
    let no_system =
        "{%- for m in messages if m.role != 'system' %}{{- '<' + m.role + '>' + m.content }}{%- endfor %}";
    let body = json!({"messages": [{"role": "system", "content": "a"}, user(json!("q"))]});
    renders(no_system, Vllm, &body, "<user>q");
}

#[test]
fn thoughts_and_opaque_blocks_are_kept_or_dropped() {
    let body = json!({"system": "a", "messages": [user(json!("q")),
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "QQ"}, {"type": "text", "text": "r"}]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "QQ"}]}, user(json!("s"))]});
    renders(PLAIN, Vllm, &body, "<system>a<user>q<assistant>r(hm)<assistant><user>s");
    renders(PLAIN, Sglang, &body, "<system>a<user>q<assistant>r<assistant><user>s");
}

#[test]
fn results_of_tools_keep_their_place_or_go_first() {
    let result =
        |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let body = json!({"system": "a", "messages": [
        user(json!("q")),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {"at": "x"}}]},
        user(json!([{"type": "text", "text": "see"}, result("1", json!([{"type": "text", "text": "r"},
            {"type": "text", "text": "s"}])), {"type": "text", "text": "so"}])),
    ]});
    let head = r#"<system>a<user>q<assistant>[look{"at": "x"}]"#;
    renders(PLAIN, Vllm, &body, &format!("{head}<tool>r\ns<user>see\nso"));
    renders(PLAIN, Sglang, &body, &format!("{head}<user>see<tool>r s<user>so"));
    let reference = json!({"system": "a", "messages": [user(json!([result("1", json!([
        {"type": "text", "text": "r"}, {"type": "tool_reference", "tool_name": "Read"}]))]))]});
    renders(PLAIN, Vllm, &reference, "<system>a<tool>r<tool>Read");
    renders(PLAIN, Sglang, &reference, "<system>a<tool>r<tool>");
}

#[test]
fn efforts_and_switches_reach_the_template() {
    let with = |field: &str, value: Value| {
        let mut body = json!({"messages": [user(json!("q"))]});
        body[field] = value;
        body
    };
    let effort = |effort: &str| with("output_config", json!({"effort": effort}));
    renders(SHOWS, Vllm, &effort("xhigh"), "q|xhigh|True|");
    renders(SHOWS, Sglang, &effort("xhigh"), "q|max||");
    renders(SHOWS, Vllm, &with("reasoning_effort", json!("low")), "q|low|True|");
    renders(SHOWS, Sglang, &with("reasoning_effort", json!("low")), "q|low|True|True");
    renders(SHOWS, Vllm, &with("reasoning_effort", json!("none")), "q|none|False|");
    renders(SHOWS, Sglang, &with("reasoning", json!({"effort": "high"})), "q|high|True|True");
    assert!(refusal(SHOWS, Vllm, &with("reasoning", json!({"effort": "high"}))).contains("`reasoning`"));
    for kind in ["enabled", "adaptive"] {
        let body = with("thinking", json!({"type": kind, "budget_tokens": 2048}));
        renders(SHOWS, Vllm, &body, "q|||");
        renders(SHOWS, Sglang, &body, "q||True|True");
        renders("{{ messages[0].content }}", Sglang, &body, "q");
    }
    let off = with("thinking", json!({"type": "disabled"}));
    renders(SHOWS, Vllm, &off, "q|none|False|");
    renders(SHOWS, Sglang, &off, "q||False|False");
    // A template that makes the same of `none` as of an effort is given a low one.
    let deaf = "{{ messages[0].content }}{%- if reasoning_effort == 'low' %} low{%- endif %}";
    renders(deaf, Vllm, &off, "q low");
    let unknown = refusal(SHOWS, Vllm, &with("thinking", json!({"type": "hunter2"})));
    assert!(unknown.contains("`thinking`") && !unknown.contains("hunter2"), "{unknown}");
    let ignored = with("context_management", json!({"edits": [{"type": "clear_tool_uses_20250919"}]}));
    renders(PLAIN, Vllm, &ignored, "<user>q");
}

#[test]
fn tools_are_declared_as_each_engine_declares_them() {
    let tool = json!({"function": {"parameters": {"type": "object"}, "name": "f"}, "type": "function"});
    let mut body = json!({"messages": [user(json!("q"))], "tools": [tool]});
    let schema = r#"{"type": "object"}"#;
    let vllm = format!(
        r#"q[{{"type": "function", "function": {{"name": "f", "description": null, "parameters": {schema}}}}}]|||"#
    );
    renders(SHOWS, Vllm, &body, &vllm);
    let sglang =
        |tool: &str| format!(r#"q[{{"type": "function", "function": {tool}, "defer_loading": null}}]|||"#);
    let function = format!(r#"{{"name": "f", "parameters": {schema}, "description": null}}"#);
    renders(SHOWS, Sglang, &body, &sglang(&function));
    body["tool_choice"] = json!("none");
    renders(SHOWS, Vllm, &body, &vllm);
    renders(SHOWS, Sglang, &body, "q|||");
    body["tool_choice"] = json!({"type": "function", "function": {"name": "other"}});
    renders(SHOWS, Sglang, &body, "q|||");
    let anthropic = json!({"messages": [user(json!("q"))], "tools": [{"name": "f", "input_schema": {}},
        {"type": "web_search_20250305", "name": "web_search"}]});
    assert!(refusal(SHOWS, Vllm, &anthropic).contains("`tools[1]`"));
    let function = format!(r#"{{"name": "f", "description": "", "parameters": {schema}, "strict": false}}"#);
    renders(SHOWS, Sglang, &anthropic, &sglang(&function));
}

#[test]
fn parts_calls_and_final_messages_follow_the_engine() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let body = json!({"messages": [user(parts)]});
    renders(PLAIN, Vllm, &body, "<user>a\nb");
    renders(PLAIN, Sglang, &body, "<user>a b");
    let assistant = json!({"messages": [user(json!("q")), {"role": "assistant", "content": "r"}]});
    renders(PLAIN, Vllm, &assistant, "<user>q<assistant>r");
    renders(PLAIN, Sglang, &assistant, "<user>q<user>r");
    let mut continued = assistant;
    continued["continue_final_message"] = json!(true);
    renders(PLAIN, Vllm, &continued, "<user>q<assistant>r");
    let opened = format!("{PLAIN}{{%- if add_generation_prompt %}}{{{{- '<assistant>' }}}}{{%- endif %}}");
    renders(&opened, Sglang, &continued, "<user>q<assistant>r");
    let broken = json!({"messages": [user(json!("q")), {"role": "assistant", "content": "r", "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": "{hunter2"}}]}, user(json!("s"))]});
    renders(PLAIN, Vllm, &broken, "<user>q<assistant>r[f{}]<user>s");
    let refused = refusal(PLAIN, Sglang, &broken);
    assert!(refused.contains("not JSON") && !refused.contains("hunter2"), "{refused}");
}

#[test]
fn items_of_the_responses_api_follow_the_engine() {
    let body = json!({"instructions": "a", "input": [
        {"role": "user", "content": "q"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "short"}],
            "content": [{"type": "reasoning_text", "text": "long"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "r"}]},
        {"role": "assistant", "content": "s"},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": "t"},
    ]});
    renders(PLAIN, Vllm, &body, "<system>a\n\nd<user>q<assistant>r(long)<assistant>s<user>t");
    let label = "Developer instructions:\n";
    renders(PLAIN, Sglang, &body, &format!("<system>a<user>q<assistant>r s(short)<system>{label}d<user>t"));
    renders(STRICT_SYSTEM, Sglang, &body, &format!("<system>a\n\n{label}d<user>q<assistant>r s<user>t"));
}

/// A body of each API, whose every part shows in the prompt.
fn bodies() -> [(&'static str, Value, Vec<&'static str>); 3] {
    let chat = json!({
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}],
        "reasoning_effort": "none", "chat_template_kwargs": {"unknown": 1},
        "messages": [
            {"role": "system", "content": "Be brief."}, user(json!("What is there?")),
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"sky\"}"}},
                {"id": "2", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"sea\"}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "A bird."}, {"role": "tool", "tool_call_id": "2", "content": "A ship."},
            {"role": "assistant", "content": "Both."}, user(json!([{"type": "text", "text": "And now?"}])),
        ],
    });
    let anthropic = json!({
        "model": "m", "max_tokens": 100, "output_config": {"effort": "high"}, "thinking": {"type": "disabled"},
        "system": [{"type": "text", "text": "Be brief. "}, {"type": "text", "text": "Be kind."}],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}],
        "messages": [
            user(json!("What is there?")),
            {"role": "assistant", "content": [{"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "sky"}},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {"at": "sea"}}]},
            user(json!([{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "A bird."}]},
                {"type": "tool_result", "tool_use_id": "t2", "content": "A ship."}, {"type": "text", "text": "And now?"}])),
            {"role": "system", "content": "Be quick."},
            {"role": "assistant", "content": "Both."}, user(json!("Why?")),
        ],
    });
    let responses = json!({
        "model": "m", "instructions": "Be brief.", "reasoning": {"effort": "none"},
        "tools": [{"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}],
        "input": [
            user(json!([{"type": "input_text", "text": "What is there?"}])),
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "t1", "name": "look", "arguments": "{\"at\": \"sky\"}"},
            {"type": "function_call", "call_id": "t2", "name": "look", "arguments": "{\"at\": \"sea\"}"},
            {"type": "function_call_output", "call_id": "t1", "output": "A bird."},
            {"type": "function_call_output", "call_id": "t2", "output": "A ship."},
            {"role": "developer", "content": "Be quick."}, user(json!("And now?")),
        ],
    });
    [
        (
            "chat",
            chat,
            vec![
                "/tools/0/function/name",
                "/tools/0/function/description",
                "/tools/0/function/parameters",
                "/messages/0/content",
                "/messages/1/content",
                "/messages/2/content",
                "/messages/2/tool_calls/0/function/name",
                "/messages/2/tool_calls/1/function/arguments",
                "/messages/3/content",
                "/messages/6/content/0/text",
            ],
        ),
        (
            "anthropic",
            anthropic,
            vec![
                "/system/0/text",
                "/system/1/text",
                "/tools/0/name",
                "/tools/0/description",
                "/tools/0/input_schema",
                "/messages/0/content",
                "/messages/1/content/0/text",
                "/messages/1/content/1/name",
                "/messages/1/content/2/input/at",
                "/messages/2/content/0/content/0/text",
                "/messages/2/content/1/content",
                "/messages/2/content/2/text",
                "/messages/3/content",
                "/messages/4/content",
                "/messages/5/content",
            ],
        ),
        (
            "responses",
            responses,
            vec![
                "/instructions",
                "/tools/0/name",
                "/tools/0/description",
                "/tools/0/parameters",
                "/input/0/content/0/text",
                "/input/1/content/0/text",
                "/input/2/name",
                "/input/3/arguments",
                "/input/4/output",
                "/input/5/output",
                "/input/6/content",
                "/input/7/content",
            ],
        ),
    ]
}

/// The place of the messages of a body.
fn turns(api: &str) -> &'static str {
    if api == "responses" { "/input" } else { "/messages" }
}

/// Everything that the APIs document as part of a prompt, the roles of messages and their order too: another value
/// gives another prompt, or the body is refused.
#[test]
fn no_part_of_a_prompt_is_left_out_in_silence() {
    let model = chatml();
    for engine in [Vllm, Sglang] {
        for (api, body, parts) in bodies() {
            let own = ids(&model, engine, &body).expect(api);
            let differs = |what: &str, other: &Value| {
                // What is refused is not left out in silence.
                let other = ids(&model, engine, other);
                assert!(
                    other.is_err() || other.as_ref() != Ok(&own),
                    "{engine} {api}: {what} makes no difference"
                );
            };
            for part in parts {
                let mut other = body.clone();
                *other.pointer_mut(part).expect(part) = json!("{\"another\": \"value\"}");
                differs(part, &other);
            }
            let turns = turns(api);
            let count = body.pointer(turns).and_then(Value::as_array).expect(turns).len();
            for index in 0..count {
                let role = format!("{turns}/{index}/role");
                let Some(said) = body.pointer(&role).and_then(Value::as_str).map(str::to_owned) else {
                    continue;
                };
                for role_of_another in ["user", "assistant", "system", "developer", "tool", "ctx", "hunter2"]
                {
                    // Engines that put developers under the system's name make one of both.
                    let same =
                        [said.as_str(), role_of_another].iter().all(|r| ["system", "developer"].contains(r));
                    if said != role_of_another
                        && !same
                        && !is_alias(engine, api, &said, role_of_another, index + 1 == count)
                    {
                        let mut other = body.clone();
                        *other.pointer_mut(&role).expect("a role") = json!(role_of_another);
                        differs(&format!("{role} as {role_of_another}"), &other);
                    }
                }
            }
            for first in 0..count {
                for second in first + 1..count {
                    // What an assistant says and what it calls are one message, in whichever order they come.
                    if api == "responses" && first == 1 && (2..4).contains(&second) {
                        continue;
                    }
                    // vLLM puts a developer's message at the head, wherever it stands.
                    if engine == Vllm && api == "responses" && [first, second].contains(&6) {
                        continue;
                    }
                    let mut other = body.clone();
                    other.pointer_mut(turns).and_then(Value::as_array_mut).expect(turns).swap(first, second);
                    differs(&format!("{turns}/{first} and {second} swapped"), &other);
                }
            }
            for index in 0..count {
                let mut other = body.clone();
                other.pointer_mut(turns).and_then(Value::as_array_mut).expect(turns).remove(index);
                differs(&format!("{turns}/{index} left out"), &other);
            }
        }
    }
}

/// Roles that an engine reads as another by its rules.
fn is_alias(engine: ChatEngine, api: &str, said: &str, other: &str, is_last: bool) -> bool {
    match engine {
        Vllm => api == "anthropic" && said == "user" && other == "ctx",
        // An assistant's message at the end is a user's.
        Sglang => is_last && said == "user" && other == "assistant",
    }
}
