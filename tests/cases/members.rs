//! Fields that no list of the program has, under names that logs could give them: each is named, or is read.

use assert_cmd::Command;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

pub(super) const PROSE: &str =
    "You help people of a small town library find books about rivers, bridges, mills and old maps. ";

/// Sets what lies at a path of names.
pub(super) fn set(row: &mut Value, path: &str, value: Value) {
    let (around, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut here = row;
    for name in around.split('.').filter(|name| !name.is_empty()) {
        here = here.as_object_mut().expect("an object").entry(name).or_insert_with(|| Map::new().into());
    }
    here[last] = value;
}

/// What a replay of these rows says, and its result.
pub(super) fn replay(rows: &[Value], options: &[&str]) -> (String, Value) {
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    replay_file(lines.as_bytes(), options)
}

/// The same of a file as it lies.
pub(super) fn replay_file(bytes: &[u8], options: &[&str]) -> (String, Value) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenize/chatml");
    let mut command = Command::cargo_bin("kvset").expect("the program");
    command
        .args(["replay", "--json", "--page-size", "16", "--model"])
        .arg(model)
        .args(options)
        .arg(file.path());
    let done = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&done.stderr).replace(&file.path().display().to_string(), "FILE");
    (said, serde_json::from_slice(&done.stdout).unwrap_or_default())
}

pub(super) fn chat(number: usize) -> Value {
    let words = ["mill", "stone", "lamp", "boat", "road", "field", "tower"];
    let asked: Vec<_> = (0..30).map(|at| words[(number * 7 + at * at) % words.len()]).collect();
    json!({"timestamp": 1_763_640_000_000u64 + 60_000 * number as u64, "model": "m",
        "messages": [{"role": "user", "content": asked.join(" ")}]})
}

pub(super) fn tokens(number: usize, prompt: usize) -> Value {
    let ids: Vec<_> = (0..48).map(|at| 1000 * (prompt + 3) + at).collect();
    json!({"timestamp": 1_763_640_000_000u64 + 1000 * number as u64, "token_ids": ids})
}

/// Every one of these is named by its last name in what is said of rows that have it.
fn all_are_named(members: &[(&str, Value)], rows: impl Fn(&str, &Value) -> Vec<Value>, options: &[&str]) {
    let missed = members.iter().filter_map(|(path, value)| {
        let (said, _) = replay(&rows(path, value), options);
        let name = path.rsplit('.').next().unwrap_or(path);
        (!said.contains(name)).then(|| format!("{path}: {said}"))
    });
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), members.len(), missed.join("\n"));
}

#[test]
fn parts_of_prompts_under_any_name_are_named() {
    let function = json!([{"type": "function", "function": {"name": "run", "description": PROSE}}]);
    let schema = json!([{"name": "run", "inputSchema": {"type": "object"}}]);
    let ids: Vec<u32> = (500..600).collect();
    let texts = [
        "systemPrompt",
        "preamble",
        "developer_message",
        "persona",
        "rag_context",
        "metadata.system_instructions",
        "prompt_prefix",
        "knowledge.passage",
        "extra.instructions",
        "agent.instructions",
        "memory",
        "guidelines",
        "header_prompt",
        "profile.about_the_user",
    ];
    let members: Vec<_> = texts.iter().map(|path| (*path, json!(PROSE))).collect();
    let others = [
        ("request_meta.tools", function.clone()),
        ("available_functions", function.clone()),
        ("tool_definitions", json!(function.to_string())),
        ("mcp.tools", schema),
        ("nvext.token_data", json!(ids)),
        ("prefix_token_ids", json!(ids)),
        ("retrieved_documents", json!([PROSE, PROSE])),
    ];
    let rows = |path: &str, value: &Value| {
        let with = |number| {
            let mut row = chat(number);
            set(&mut row, path, value.clone());
            row
        };
        (0..3).map(with).collect()
    };
    all_are_named(&[members, others.to_vec()].concat(), rows, &[]);
    let beside = |name: &str, value: &Value| {
        let with = |number| {
            let mut row = chat(number);
            row["messages"][0].as_object_mut().expect("a message").remove("content");
            row["messages"][0][name] = value.clone();
            row
        };
        (0..3).map(with).collect()
    };
    let named =
        ["parts", "text", "segments", "utterance", "contentParts", "body"].map(|name| (name, json!(PROSE)));
    all_are_named(&named, beside, &[]);
}

#[test]
fn cached_tokens_under_any_name_are_read_or_named() {
    let members = [
        "prompt_cache_read_tokens",
        "metrics.cached_tokens",
        "stats.prefix_cache_hit_tokens",
        "usage.cache_hit_tokens",
        "usage.details.cache_read_tokens",
        "usage.cached",
        "kv_cache.hit_tokens",
        "num_cached_prompt_tokens",
        "reused_tokens",
        "cache_stats.tokens_reused",
        "llm.cacheReadInputTokenCount",
        "cachedTokenCount",
        "reply.usage.cached_tokens",
        "prefix_hit_tokens",
        "matched_prefix_tokens",
        "cachedPromptTokens",
        "inference.cache_hit_toks",
        "tokens.cached",
        "cached_tokens_total",
        "engine_stats.cached_tokens_count",
    ];
    for path in members {
        let mut rows: Vec<_> = (0..3).map(chat).collect();
        rows.iter_mut().for_each(|row| set(row, path, json!(16)));
        let (said, result) = replay(&rows, &[]);
        let name = path.rsplit('.').next().unwrap_or(path);
        assert!(said.contains(name) || result["measured"]["requests"] == json!(3), "{path}: {said}");
    }
}

#[test]
fn what_would_part_a_log_is_named() {
    let parts = [
        "worker_id",
        "dp_rank",
        "data_parallel_rank",
        "host",
        "hostname",
        "pod_name",
        "kubernetes.pod_name",
        "server.address",
        "upstream_addr",
        "backend_instance_id",
        "engine_id",
        "node",
        "instance",
        "k8s.pod.uid",
        "container_id",
        "nodeName",
        "shard",
        "upstream",
        "serving_endpoint",
        "routed_to",
        "lora_task_id",
        "peft_adapter",
        "adapter.name",
        "loraUid",
        "tenant_name",
        "deployment.environment",
        "region",
    ];
    let rows = |path: &str, _: &Value| {
        let with = |number| {
            let mut row = tokens(number, number / 2);
            set(&mut row, path, json!(format!("v{}", number % 2)));
            row
        };
        (0..12).map(with).collect()
    };
    all_are_named(&parts.map(|path| (path, Value::Null)), rows, &[]);
}

#[test]
fn requests_that_look_nothing_up_and_samples_are_named() {
    let members = [
        ("prompt_logprobs", json!(1)),
        ("sampling_params.prompt_logprobs", json!(0)),
        ("skip_reading_prefix_cache", json!(true)),
        ("logprob_start_len", json!(0)),
        ("extra_body.prompt_logprobs", json!(1)),
        ("cache_prompt", json!(false)),
        ("no_cache", json!(true)),
        ("bypass_prefix_cache", json!(true)),
        ("disable_prefix_caching", json!(true)),
        ("skip_cache", json!("true")),
        ("return_input_logprobs", json!(true)),
        ("served_from_cache", json!(true)),
        ("semantic_cache_hit", json!("yes")),
    ];
    let rows = |path: &str, value: &Value| {
        let with = |number| {
            let mut row = tokens(number, number);
            set(&mut row, path, value.clone());
            row
        };
        (0..4).map(with).collect::<Vec<_>>()
    };
    all_are_named(&members, rows, &[]);
    for (path, value) in [
        ("sample_rate", json!(0.1)),
        ("sampling_fraction", json!("0.05")),
        ("SampleRate", json!(20)),
        ("sampling.rate", json!(0.25)),
        ("trace_state", json!("ot=th:c")),
        ("sampler_ratio", json!(0.5)),
        ("log_sampling_percent", json!(10)),
    ] {
        let (said, _) = replay(&rows(path, &value), &[]);
        assert!(said.contains("the log is a sample"), "{path}: {said}");
    }
}

#[test]
fn requests_that_are_written_twice_are_told_and_a_hot_prompt_is_not() {
    let twice = |apart: usize, name: Option<&str>| {
        let row = |number: usize| {
            let mut row = tokens(60 * (number / 2) + apart * (number % 2), number / 2);
            name.into_iter().for_each(|name| set(&mut row, name, json!(format!("r{}", number / 2))));
            row
        };
        replay(&(0..12).map(row).collect::<Vec<_>>(), &[]).0
    };
    for (apart, name) in [
        (4, None),
        (0, None),
        (25, None),
        (50, None),
        (50, Some("request_id")),
        (50, Some("headers.x-request-id")),
        (40, Some("rid")),
        (45, Some("meta.requestId")),
        (55, Some("bootstrap_room")),
    ] {
        let said = twice(apart, name);
        assert!(said.contains("6 of 12 requests repeat the whole prompt"), "{apart} s, {name:?}: {said}");
    }
    assert!(!twice(150, None).contains("repeat the whole prompt"), "prompts that return after a while");
    let hot: Vec<_> = (0..12).map(|number| tokens(number, 0)).collect();
    assert!(!replay(&hot, &[]).0.contains("repeat the whole prompt"), "one prompt that many send");
}

#[test]
fn hits_of_requests_that_no_engine_computed_are_told_with_their_share() {
    let row = |number: usize, path: &str, says: &Value, other: &Value| {
        let mut row = tokens(number, number % 20);
        row["cached_tokens"] = json!(if number >= 20 { 32 } else { 0 });
        set(&mut row, path, if number.is_multiple_of(3) { says.clone() } else { other.clone() });
        row
    };
    for (path, says, other) in [
        ("served_from_cache", json!(true), json!(false)),
        ("edge_result.cache", json!("HIT"), json!("MISS")),
        ("responder", json!("semantic-cache"), json!("vllm")),
        ("guardrail.blocked", json!(true), json!(false)),
        ("upstream.http_status_code", json!(503), json!(200)),
    ] {
        let rows: Vec<_> = (0..60).map(|number| row(number, path, &says, &other)).collect();
        let (said, _) = replay(&rows, &[]);
        assert!(said.contains(path) && said.contains("% of the measured hits are theirs"), "{path}: {said}");
    }
    // What says a hit exactly where the engine found something is the engine's word.
    let own = |number: usize| {
        let mut row = tokens(number, number % 20);
        row["cached_tokens"] = json!(if number >= 20 { 32 } else { 0 });
        row["was_cached"] = json!(number >= 20);
        row
    };
    let (said, _) = replay(&(0..60).map(own).collect::<Vec<_>>(), &[]);
    assert!(!said.contains("was_cached"), "{said}");
}

#[test]
fn fields_that_come_late_or_seldom_are_named() {
    const ROWS: usize = 1500;
    let half = |number: usize| number >= ROWS / 2;
    let last = |number: usize| number >= ROWS - ROWS / 10;
    let seldom = |number: usize| number % 100 == 57;
    let function = json!([{"type": "function", "function": {"name": "run"}}]);
    let ids: Vec<u32> = (500..600).collect();
    // What a field holds before and from then on.
    type Member = (&'static str, Value, Value, fn(usize) -> bool);
    let of_chats: [Member; 4] = [
        ("system_prompt", Value::Null, json!(PROSE), half),
        ("context.rag_passage", Value::Null, json!(PROSE), seldom),
        ("available_functions", Value::Null, function, last),
        ("prefix_token_ids", Value::Null, json!(ids), half),
    ];
    let of_tokens: [Member; 6] = [
        ("stats.cached_tokens_read", json!(0), json!(32), half),
        ("served_by_host", json!("h0"), json!("h1"), last),
        ("lora_adapter", Value::Null, json!("a"), half),
        ("sampling_rate", json!(1), json!(0.1), half),
        ("answered_from_cache", json!(false), json!(true), seldom),
        ("upstream.http_status_code", json!(200), json!(503), seldom),
    ];
    let named = |members: &[Member], base: &dyn Fn(usize) -> Value| {
        let with = |number| {
            let mut row = base(number);
            for (path, early, late, comes) in members {
                let value = if comes(number) { late } else { early };
                if !value.is_null() {
                    set(&mut row, path, value.clone());
                }
            }
            row
        };
        let (said, _) = replay(&(0..ROWS).map(with).collect::<Vec<_>>(), &[]);
        for (path, ..) in members {
            assert!(said.contains(path), "{path}: {said}");
        }
    };
    named(&of_chats, &chat);
    named(&of_tokens, &|number| tokens(number, number));
}

#[test]
fn a_complete_log_says_nothing() {
    let answered = |number: usize| {
        let mut row = chat(number);
        for (path, value) in [
            ("id", json!(format!("c{number}"))),
            ("temperature", json!(0.7)),
            ("user", json!("u")),
            ("client_ip", json!(format!("10.0.0.{}", number % 2))),
            ("user_agent", json!("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)")),
            ("response.choices", json!([{"message": {"role": "assistant", "content": PROSE}}])),
            ("response.usage", json!({"prompt_tokens": 40, "completion_tokens": 20, "cached_tokens": 0})),
            ("latency_ms", json!(800 + number)),
        ] {
            set(&mut row, path, value);
        }
        row
    };
    let (said, _) = replay(&(0..6).map(answered).collect::<Vec<_>>(), &[]);
    assert!(!said.contains("looked at") && !said.contains("repeat") && !said.contains("sample"), "{said}");
}

#[test]
fn two_counts_that_contradict_are_told_and_neither_is_taken_for_known() {
    let row = |number: usize, first: u64, second: u64| {
        let mut row = chat(number);
        set(&mut row, "response.usage", json!({"prompt_tokens_details": {"cached_tokens": first}}));
        set(&mut row, "engine.num_cached_tokens", json!(second));
        row
    };
    let said = |second: u64| replay(&(0..30).map(|number| row(number, 0, second)).collect::<Vec<_>>(), &[]).0;
    let told = said(96);
    assert!(
        told.contains("engine.num_cached_tokens` contradicts another count (in 30 of the 30 rows"),
        "{told}"
    );
    assert!(!said(0).contains("contradicts"), "{}", said(0));
}

#[test]
fn a_request_that_is_written_twice_in_other_words_is_told() {
    let (asked, end) = (|number: usize| chat(number)["messages"].clone(), 40);
    let twin = |number: usize, change: &dyn Fn(&mut Vec<Value>)| {
        let mut messages = asked(number).as_array().expect("messages").clone();
        change(&mut messages);
        let time = 1_763_640_000_000u64 + 60_000 * number as u64 + 900;
        json!({"timestamp": time, "model": "m", "messages": messages})
    };
    let system =
        |messages: &mut Vec<Value>| messages.insert(0, json!({"role": "system", "content": PROSE.repeat(9)}));
    let newline = |messages: &mut Vec<Value>| {
        let text = format!("{}\n", messages[0]["content"].as_str().expect("text"));
        messages[0]["content"] = json!(text);
    };
    let answer = |messages: &mut Vec<Value>| messages.push(json!({"role": "assistant", "content": PROSE}));
    type Change<'c> = &'c dyn Fn(&mut Vec<Value>);
    for (name, change) in
        [("a system prompt", &system as Change<'_>), ("a newline", &newline), ("an answer", &answer)]
    {
        let rows: Vec<Value> = (0..end).flat_map(|number| [chat(number), twin(number, change)]).collect();
        let (said, _) = replay(&rows, &[]);
        assert!(said.contains("40 of 80 requests ask what another one asked"), "{name}: {said}");
    }
    let (said, _) = replay(&(0..end).map(chat).collect::<Vec<_>>(), &[]);
    assert!(!said.contains("ask what another one asked"), "{said}");
}

/// An answer that the model is asked to go on with was told as the answer.
#[test]
fn chats_whose_answer_is_begun_are_no_conversations_with_their_answers() {
    let said = |text: &str, goes_on: bool| {
        let row = |number: usize| {
            let mut row = chat(number);
            let messages = row["messages"].as_array_mut().expect("messages");
            messages.push(json!({"role": "assistant", "content": text}));
            set(&mut row, "continue_final_message", json!(goes_on));
            set(&mut row, "add_generation_prompt", json!(!goes_on));
            row
        };
        replay(&(0..12).map(row).collect::<Vec<_>>(), &[]).0
    };
    assert!(said(PROSE, false).contains("12 of 12 chats end with an assistant's message"));
    for said in [said("{\"answer\":", false), said(PROSE, true)] {
        assert!(!said.contains("end with an assistant's message"), "{said}");
    }
}

#[test]
fn times_that_cannot_be_are_told() {
    let log = |time: &dyn Fn(u64) -> Value| {
        let row = |number: usize| {
            let mut row = tokens(number, number % 9);
            let changed = time(number as u64);
            changed.as_object().expect("fields").iter().for_each(|(name, value)| row[name] = value.clone());
            row
        };
        replay(&(0..40).map(row).collect::<Vec<_>>(), &[]).0
    };
    let begin = 1_763_640_000_000u64;
    for (told, time) in [
        ("all 40 requests came at one time", &(|_| json!({"timestamp": begin})) as &dyn Fn(u64) -> Value),
        ("longer than logs are", &|number| json!({"timestamp": begin - number * 40 * 86_400_000})),
        (
            "less than an engine takes for one token",
            &|number| json!({"timestamp": begin + number * 5000, "duration_ms": 2 + number % 3}),
        ),
        (
            "which no engine has",
            &|number| json!({"timestamp": begin + number * 50_000, "duration_ms": 20_000, "output_tokens": 900_000}),
        ),
    ] {
        let said = log(time);
        assert!(said.contains(told), "{told}: {said}");
    }
    let said =
        log(&|number| json!({"timestamp": begin + number * 5000, "duration_ms": 2000, "output_tokens": 90}));
    assert!(!said.contains("another unit"), "{said}");
}
