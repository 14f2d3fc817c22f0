//! Kinds of logs whose figures were wrong without a word, or that were warned of without a cause: some members of each,
//! and one beside them that stays quiet.

use super::members::{PROSE, chat, replay, set, tokens};
use serde_json::{Value, json};

/// What is said of so many rows of a kind, each with what `change` makes of it.
fn said_of(rows: usize, base: &dyn Fn(usize) -> Value, change: &dyn Fn(usize, &mut Value)) -> String {
    let row = |number| {
        let mut row = base(number);
        change(number, &mut row);
        row
    };
    replay(&(0..rows).map(row).collect::<Vec<_>>(), &[]).0
}

fn ids(number: usize) -> Value {
    tokens(number, number % 5)
}

/// Rows of token ids had none of the refusals of chats: pictures, cuts and sessions were passed over.
#[test]
fn token_ids_do_not_show_what_changes_a_prompt() {
    for (field, value) in [
        ("multi_modal_inputs", json!({"pixel_values": "f"})),
        ("video_data", json!(["a.mp4"])),
        ("truncate_prompt_tokens", json!(16)),
        ("truncate_prompt_tokens", json!(-1)),
        ("session_params", json!({"id": "s"})),
        ("inputs_embeds", json!("gAS")),
    ] {
        let said = said_of(6, &ids, &|_, row| set(row, field, value.clone()));
        assert!(said.contains(&format!("`{field}`")) && said.contains("6 of 6"), "{field}: {said}");
    }
    for (field, value) in [
        ("picture_urls", json!(["https://x/1"])),
        ("meta.has_screenshot", json!(true)),
        ("audio_clips", json!([{"id": 4}])),
        ("mm_data", json!({"image": "a"})),
        ("usage_details.image_tokens", json!(576)),
    ] {
        let said = said_of(12, &ids, &|_, row| set(row, field, value.clone()));
        assert!(said.contains(field) && said.contains("pictures, sounds or files"), "{field}: {said}");
    }
    let quiet = said_of(12, &ids, &|_, row| {
        for (field, value) in [
            ("images", json!([])),
            ("multi_modal_data", Value::Null),
            ("truncate_prompt_tokens", json!(4096)),
            ("container_image", json!("vllm/vllm-openai:v0.9")),
            ("tools", json!(["a"])),
        ] {
            set(row, field, value);
        }
    });
    assert!(!quiet.contains("pictures") && !quiet.contains("cannot be used"), "{quiet}");
}

/// What a trainer writes as `tokens` is a prompt with its answer.
#[test]
fn ids_of_a_prompt_and_its_answer_are_no_prompt() {
    let said =
        said_of(6, &|number| json!({"tokens": ids(number)["token_ids"], "response_length": 16}), &|_, _| {});
    assert!(said.contains("of the prompt and of its answer"), "{said}");
    for mask in ["loss_mask", "action_mask"] {
        let said = said_of(6, &ids, &|_, row| set(row, mask, json!([vec![0; 32], vec![1; 16]].concat())));
        assert!(said.contains(mask) && said.contains("of the prompt and of its answer"), "{mask}: {said}");
    }
    let said = said_of(6, &ids, &|_, row| {
        set(row, "response_ids", json!((0..16).collect::<Vec<_>>()));
        set(row, "response_mask", json!(vec![1; 16]));
        set(row, "response_length", json!(16));
    });
    assert!(!said.contains("of its answer"), "{said}");
}

/// What a server adds to messages stands in none of them.
#[test]
fn what_a_server_adds_to_a_chat_is_reported() {
    for (field, value) in [
        ("plugins", json!([{"id": "web"}])),
        ("files", json!([{"name": "report.docx"}])),
        ("features.web_search", json!(true)),
        ("tool_ids", json!(["weather"])),
    ] {
        let said = said_of(6, &chat, &|_, row| set(row, field, value.clone()));
        assert!(said.contains(field) && said.contains("what a server adds"), "{field}: {said}");
    }
    let said = said_of(6, &chat, &|_, row| {
        set(row, "features.web_search", json!(false));
        set(row, "files", json!([]));
        set(row, "tool_names", json!(["run"]));
        set(row, "tools", json!([{"type": "function", "function": {"name": "run"}}]));
    });
    assert!(!said.contains("what a server adds"), "{said}");
}

/// `echo` with `logprobs` scores the prompt, as `prompt_logprobs` does.
#[test]
fn pairs_of_parameters_that_look_nothing_up_are_reported() {
    for (base, logprobs) in
        [(&ids as &dyn Fn(usize) -> Value, json!(1)), (&ids, json!(0)), (&chat, json!(true))]
    {
        let said = said_of(8, base, &|_, row| {
            set(row, "echo", json!(true));
            set(row, "logprobs", logprobs.clone());
        });
        assert!(said.contains("`echo`") && said.contains("looks nothing up"), "{logprobs}: {said}");
    }
    for (echo, logprobs) in
        [(json!(true), Value::Null), (json!(false), json!(1)), (json!(true), json!(false))]
    {
        let said = said_of(8, &ids, &|_, row| {
            set(row, "echo", echo.clone());
            set(row, "logprobs", logprobs.clone());
        });
        assert!(!said.contains("looks nothing up"), "{echo} {logprobs}: {said}");
    }
}

/// An endpoint counted only where the body beside it had some names.
#[test]
fn an_endpoint_that_generates_nothing_is_reported_whatever_it_is_called() {
    for (field, other) in [
        ("url", "https://api.example.org/v1/messages/count_tokens"),
        ("http.target", "/v1/chat/completions/render"),
        ("request_line", "POST /v1/audio/speech HTTP/1.1"),
        ("route", "/apply-template"),
        ("req.uri", "/v1/images/generations?n=1"),
        ("operation_path", "/v2/embed"),
    ] {
        for body in ["", "body", "request", "payload"] {
            let row = |number: usize| {
                let mut row = json!({"timestamp": chat(number)["timestamp"]});
                let own = chat(number);
                match body {
                    "" => row = own,
                    _ => set(&mut row, body, own),
                }
                let path = if number.is_multiple_of(2) { "/v1/chat/completions" } else { other };
                set(&mut row, field, json!(path));
                row
            };
            let (said, result) = replay(&(0..12).map(row).collect::<Vec<_>>(), &[]);
            assert_eq!(result["trace"]["requests"], json!(6), "{field} with {body}: {said}");
        }
    }
    let row = |number: usize| {
        let mut row = chat(number);
        set(&mut row, "referer", json!("https://app.example.org/v1/files"));
        set(&mut row, "path", json!("/v1/chat/completions"));
        row["messages"][0]["content"] = json!(format!("\"/v1/embeddings\" {PROSE} {number}"));
        row
    };
    let (said, result) = replay(&(0..12).map(row).collect::<Vec<_>>(), &[]);
    assert_eq!(result["trace"]["requests"], json!(12), "{said}");
}

/// A text that the log cut in its middle was counted as it stood.
#[test]
fn cuts_in_the_middle_of_texts_are_reported_and_those_of_tools_are_not() {
    for note in [
        "... (litellm_truncated skipped 6069 chars) ...",
        " [... 412 lines elided ...] ",
        " <2048 bytes trimmed> ",
        "…96 tokens truncated…",
    ] {
        let said = said_of(12, &chat, &|number, row| {
            row["messages"][0]["content"] = json!(format!("{PROSE}{note}{PROSE}{number}"));
        });
        assert!(said.contains("cut off") || said.contains("not whole"), "{note}: {said}");
    }
    let said = said_of(12, &chat, &|number, row| {
        let text = format!("{PROSE}\n... [132 lines truncated] ...\n{PROSE}{number}\n... [output truncated]");
        let tool = json!({"role": "tool", "tool_call_id": "c", "content": text});
        row["messages"].as_array_mut().expect("messages").push(tool);
    });
    assert!(!said.contains("cut off") && !said.contains("not whole"), "{said}");
}

/// Three dots of a user were told as a log that cuts, even where the usage counted the very text.
#[test]
fn ends_in_dots_are_no_cuts_by_themselves_and_counts_that_agree_clear_them() {
    let dots = |number: usize, row: &mut Value| {
        let end = if number < 4 { "..." } else { "." };
        let text = format!("{} and so on {number}{end}", PROSE.repeat(3 + number));
        row["messages"][0]["content"] = json!(text);
    };
    let said = said_of(24, &chat, &dots);
    assert!(!said.contains("cut off"), "{said}");
    let cut = |number: usize, row: &mut Value| {
        row["messages"][0]["content"] = json!(format!("{number:03}{}...", &PROSE.repeat(9)[..400]));
    };
    assert!(said_of(24, &chat, &cut).contains("cut off"));
    let counted = |number: usize, row: &mut Value| {
        cut(number, row);
        let (_, result) = replay(std::slice::from_ref(row), &[]);
        set(row, "usage", json!({"prompt_tokens": result["trace"]["prompt_tokens"], "completion_tokens": 9}));
    };
    let said = said_of(6, &chat, &counted);
    assert!(!said.contains("cut off") && !said.contains("cannot be used"), "{said}");
}

/// The hit rate followed the length at which the log cuts, without a word.
#[test]
fn lists_of_ids_that_end_at_one_length_are_reported() {
    let row = |number: usize, ids: usize| {
        let ids: Vec<_> = (0..ids).map(|at| if at < 40 { at } else { 1000 * number + at }).collect();
        json!({"timestamp": 1_763_640_000_000u64 + 1000 * number as u64, "prompt_token_ids": ids})
    };
    for most in [128, 200, 333] {
        let rows: Vec<_> =
            (0..40).map(|number| row(number, if number % 4 == 0 { 90 } else { most })).collect();
        let (said, _) = replay(&rows, &[]);
        assert!(said.contains(&format!("30 of 40 lists of token ids have {most} ids")), "{most}: {said}");
    }
    let rows: Vec<_> = (0..40).map(|number| row(number, 100 + number * 7 % 60)).collect();
    assert!(!replay(&rows, &[]).0.contains("lists of token ids have"));
    let counted = |number: usize| {
        let mut row = row(number, 128);
        set(&mut row, "prompt_tokens", json!(128));
        row
    };
    assert!(!replay(&(0..40).map(counted).collect::<Vec<_>>(), &[]).0.contains("lists of token ids have"));
}

/// Masks made the prompts of different users one, and the only note named another cause.
#[test]
fn masks_within_what_users_say_are_reported() {
    for mask in
        ["<PERSON>", "[EMAIL_ADDRESS_2]", "[Image omitted]", "data:image/png;base64,<omitted>", "{{PHONE}}"]
    {
        let said = said_of(12, &chat, &|_, row| {
            row["messages"][0]["content"] = json!(format!("I am {mask}. {PROSE}"));
        });
        assert!(said.contains("masks in place of names or pictures"), "{mask}: {said}");
    }
    let said = said_of(12, &chat, &|number, row| {
        let text = format!("<CONTEXT>{PROSE}</CONTEXT> [INFO] <div>[0] {{x}}</div> {number}");
        row["messages"][0]["content"] = json!(text);
    });
    assert!(!said.contains("masks in place"), "{said}");
}

/// A partition of Kafka's, a gateway's host and a gauge of the whole engine were told as caches and as hits.
#[test]
fn what_is_of_a_broker_a_gateway_or_a_whole_engine_is_no_cache() {
    let said = said_of(12, &ids, &|number, row| {
        for (field, value) in [
            ("partition", json!(number % 2)),
            ("offset", json!(number)),
            ("hostname", json!(format!("gateway-{}", number % 2))),
            ("gpu_prefix_cache_hit_rate", json!(62.2)),
        ] {
            set(row, field, value);
        }
    });
    assert!(!said.contains("looked at"), "{said}");
    let said = said_of(12, &ids, &|number, row| set(row, "partition", json!(number % 2)));
    assert!(said.contains("`partition`"), "{said}");
}

/// Input tokens that leave the cached ones out, or hold them, were told as another tokenizer's, or refused.
#[test]
fn cached_tokens_may_be_among_the_input_tokens_or_beside_them() {
    let usage =
        |input: u64| json!({"input_tokens": input, "output_tokens": 9, "cache_read_input_tokens": 16});
    for input in [48, 32] {
        let said = said_of(6, &ids, &|_, row| set(row, "usage", usage(input)));
        assert!(!said.contains("cannot be used") && !said.contains("tokenizer"), "{input}: {said}");
    }
    let said = said_of(6, &ids, &|_, row| set(row, "usage", usage(40)));
    assert!(said.contains("cannot be used"), "{said}");
}

/// Two models that answered one name shared a cache.
#[test]
fn a_model_that_answered_for_another_is_reported() {
    for field in ["response.model", "usedModel", "resolved_model", "served_entity_name", "model_version"] {
        let said = said_of(12, &chat, &|number, row| {
            set(row, field, json!(if number % 2 == 0 { "llama-70b" } else { "qwen3" }));
        });
        assert!(said.contains("the model that answered"), "{field}: {said}");
    }
    let said = said_of(12, &chat, &|number, row| {
        let model = if number % 2 == 0 { "llama-70b" } else { "qwen3" };
        set(row, "model", json!(model));
        set(row, "response.model", json!(format!("{model}-0324")));
    });
    assert!(!said.contains("the model that answered"), "{said}");
    for (field, values) in [
        ("policy_version", ["3", "4"]),
        ("weights_step", ["100", "200"]),
        ("pool", ["interactive", "batch"]),
        ("gpu_type", ["h100", "a100"]),
        ("fleet", ["a", "b"]),
    ] {
        let said = said_of(12, &ids, &|number, row| set(row, field, json!(values[number % 2])));
        assert!(said.contains(&format!("`{field}`")), "{field}: {said}");
    }
}

/// The first page of many was answered as if it were all.
#[test]
fn a_page_of_more_is_reported() {
    for around in [
        json!({"has_more": true}),
        json!({"meta": {"totalItems": 48211, "page": 1}}),
        json!({"pageInfo": {"hasNextPage": true, "endCursor": "x"}}),
        json!({"rows_before_limit_at_least": 90}),
        json!({"links": {"next": "https://x/?page=2"}}),
        json!({"next_page_token": "abc"}),
    ] {
        let mut page = around.clone();
        page["data"] = (0..12).map(ids).collect();
        let (said, _) = replay(&[page], &[]);
        assert!(said.contains("one page of more"), "{around}: {said}");
    }
    for around in [json!({"has_more": false, "total": 12}), json!({"took": 90, "next": null, "limit": 12})] {
        let mut page = around.clone();
        page["data"] = (0..12).map(ids).collect();
        let (said, _) = replay(&[page], &[]);
        assert!(!said.contains("one page of more"), "{around}: {said}");
    }
}

/// Requests that nobody computed, by a yes or a no, or by a usage that is empty.
#[test]
fn flags_and_empty_usages_of_requests_that_nobody_computed_are_reported() {
    for (field, one, other) in [
        ("rate_limited", json!(true), json!(false)),
        ("timed_out", json!("yes"), json!("no")),
        ("llm_called", json!(false), json!(true)),
        ("is_warmup", json!(true), json!(false)),
        ("health_check", json!(true), json!(false)),
        ("answered_by", json!("human"), json!("model")),
        ("usage", json!({}), json!({"completion_tokens": 9})),
    ] {
        let said = said_of(24, &ids, &|number, row| {
            set(row, field, if number % 3 == 0 { one.clone() } else { other.clone() });
        });
        assert!(said.contains(&format!("`{field}`")) || said.contains("have no answer"), "{field}: {said}");
    }
    let said = said_of(24, &ids, &|number, row| {
        set(row, "stream", json!(number % 3 == 0));
        set(row, "usage", if number % 3 == 0 { Value::Null } else { json!({"completion_tokens": 9}) });
    });
    assert!(!said.contains("looked at"), "{said}");
}

/// A file that falls from end to end was turned round, and its ties were not.
#[test]
fn a_file_that_is_newest_first_is_turned_round_with_its_ties() {
    let row = |number: usize, per_moment: usize| {
        let prompt: Vec<_> = (0..32 * (number % 3 + 1)).map(|at| 10_000 * (number / 3) + at).collect();
        json!({"timestamp": 1_763_640_000_000u64 + 60_000 * (number / per_moment) as u64, "token_ids": prompt})
    };
    let (_, oldest) = replay(&(0..24).map(|number| row(number, 1)).collect::<Vec<_>>(), &[]);
    for per_moment in [2, 3, 6] {
        let (said, newest) =
            replay(&(0..24).rev().map(|number| row(number, per_moment)).collect::<Vec<_>>(), &[]);
        assert_eq!(newest["theoretical"]["prefix_hits"], oldest["theoretical"]["prefix_hits"], "{said}");
        assert!(said.contains("newest first from end to end"), "{said}");
    }
    let (said, _) = replay(&(0..24).map(|number| row(number, 3)).collect::<Vec<_>>(), &[]);
    assert!(!said.contains("newest first"), "{said}");
    // Without times it cannot be turned round.
    let untimed = |number: usize, by: Option<&str>| {
        let mut row = row(number, 1);
        row.as_object_mut().expect("a row").remove("timestamp");
        by.into_iter().for_each(|name| set(&mut row, name, json!(format!("s{}", number / 3))));
        row
    };
    let rows: Vec<_> = (0..24).rev().map(|number| untimed(number, Some("session_id"))).collect();
    assert!(replay(&rows, &[]).0.contains("are shorter than the one before"));
    let rows: Vec<_> = (0..24).map(|number| untimed(number, Some("session_id"))).collect();
    assert!(!replay(&rows, &[]).0.contains("are shorter than the one before"));
}

/// `doctor` counted copies that a replay did not speak of.
#[test]
fn a_few_copies_without_a_name_are_reported() {
    let mut rows: Vec<_> = (0..40).map(|number| tokens(number, number)).collect();
    let (said, _) = replay(&rows, &[]);
    assert!(!said.contains("equal to an earlier one"), "{said}");
    for number in [7, 19] {
        rows.push(tokens(number, number));
    }
    let (said, _) = replay(&rows, &[]);
    assert!(said.contains("2 of 42 requests are equal to an earlier one"), "{said}");
}

/// Shapes of logs that were refused, and whose advice led nowhere, are read or named.
#[test]
fn common_shapes_are_read_or_named() {
    let plain = replay(&(0..6).map(chat).collect::<Vec<_>>(), &[]).1;
    let read = |change: &dyn Fn(&Value) -> Value| {
        let row = |number: usize| {
            let chat = chat(number);
            let mut row = change(&chat["messages"][0]["content"]);
            row["timestamp"] = chat["timestamp"].clone();
            row["model"] = json!("m");
            row
        };
        replay(&(0..6).map(row).collect::<Vec<_>>(), &[])
    };
    let lc =
        |text: &Value| json!({"lc": 1, "id": ["langchain", "HumanMessage"], "kwargs": {"content": text}});
    for (name, change) in [
        ("two texts", &(|text: &Value| json!({"user_prompt": text})) as &dyn Fn(&Value) -> Value),
        ("a list of lists", &|text| json!({"messages": [[lc(text)]]})),
        ("types", &|text| json!({"messages": [{"type": "human", "content": text}]})),
        ("parts", &|text| json!({"messages": [{"role": "user", "content": [{"text": text}]}]})),
    ] {
        let (said, result) = read(change);
        assert_eq!(result["theoretical"], plain["theoretical"], "{name}: {said}");
    }
    for (named, change) in [
        (
            "Dify",
            &(|text: &Value| json!({"message": [{"role": "user", "text": text}]}))
                as &dyn Fn(&Value) -> Value,
        ),
        ("DynamoDB", &|text| json!({"Item": {"prompt": {"S": text}}})),
        ("a message or a turn", &|text| json!({"role": "user", "content": text, "chat_id": "c"})),
        ("Triton", &|text| json!({"inputs": [{"name": "text_input", "datatype": "BYTES", "data": [text]}]})),
    ] {
        let (said, _) = read(change);
        assert!(said.contains(named), "{named}: {said}");
    }
}

/// Times of ends were read as those of begins, though sessions would have asked before they were answered.
#[test]
fn sessions_that_ask_before_they_are_answered_are_reported() {
    let begins = |number: usize| {
        let mut row = tokens(10 * number, number % 4);
        set(&mut row, "duration_ms", json!(if number.is_multiple_of(2) { 9000 } else { 1000 }));
        set(&mut row, "session_id", json!(format!("s{}", number / 8)));
        row
    };
    let ends = |number: usize| {
        let mut row = begins(number);
        let ended = row["timestamp"].as_u64().unwrap_or(0) + row["duration_ms"].as_u64().unwrap_or(0);
        set(&mut row, "timestamp", json!(ended));
        row
    };
    let (said, _) = replay(&(0..24).map(ends).collect::<Vec<_>>(), &[]);
    assert!(said.contains("came before the one before was answered"), "{said}");
    let (said, _) = replay(&(0..24).map(begins).collect::<Vec<_>>(), &[]);
    assert!(!said.contains("was answered"), "{said}");
}

/// The engine was blamed for prompts that OpenAI never caches.
#[test]
fn prompts_too_short_for_a_provider_are_reported() {
    let said = |model: &str| {
        let row = |number: usize| {
            let mut row = tokens(60 * number, number % 3);
            set(&mut row, "model", json!(model));
            set(&mut row, "cached_tokens", json!(0));
            row
        };
        let options = ["--engine", "vllm", "--capacities", "1000p"];
        replay(&(0..24).map(row).collect::<Vec<_>>(), &options).0
    };
    assert!(said("gpt-4o-mini").contains("OpenAI caches no prompt of fewer than 1024 tokens"));
    assert!(!said("llama-70b").contains("OpenAI"));
}

/// Requests of sessions, each with what a cache without limit finds of it in blocks of so many tokens, where it has not
/// forgotten what it was not asked for in so many minutes.
fn measured(sessions: usize, every_ms: u64, block: usize, minutes: Option<u64>) -> Vec<Value> {
    let (mut asked, mut lengths) = (vec![None; sessions], vec![0; sessions]);
    let mut latest = None;
    let row = |number: usize| {
        let (session, now) = (number * number % sessions, number as u64 * every_ms);
        let is_kept = |used: Option<u64>| {
            used.is_some_and(|used| minutes.is_none_or(|most| now - used <= most * 60_000))
        };
        let head = if is_kept(latest) { 300 } else { 0 };
        let shared = if is_kept(asked[session]) { lengths[session].max(head) } else { head };
        let length = lengths[session].max(300) + 37 + session;
        (asked[session], latest, lengths[session]) = (Some(now), Some(now), length);
        let id = |at: usize| if at < 300 { at } else { 1000 * (session + 1) + at };
        json!({"timestamp": 1_763_640_000_000 + now, "token_ids": (0..length).map(id).collect::<Vec<_>>(),
            "usage": {"prompt_tokens": length, "prompt_tokens_details": {"cached_tokens": shared / block * block}}})
    };
    (0..60).map(row).collect()
}

fn verdict(result: &Value) -> &str {
    result["measured"]["verdict"].as_str().unwrap_or_default()
}

/// A cache that finds nothing was said to lack memory.
#[test]
fn counts_that_are_all_zero_are_of_no_capacity() {
    let mut rows = measured(7, 1000, 16, None);
    rows.iter_mut().for_each(|row| set(row, "usage.prompt_tokens_details.cached_tokens", json!(0)));
    for options in [&[][..], &["--engine", "vllm"], &["--provisioned", "20000p"]] {
        let (_, result) = replay(&rows, options);
        assert_eq!(verdict(&result), "nothing_found", "{options:?}");
        assert!(result["measured"]["effective_capacity"].is_null(), "{options:?}");
    }
    let (_, result) = replay(&rows, &["--provisioned", "1p"]);
    assert_eq!(verdict(&result), "capacity", "what is provisioned finds nothing either");
}

/// An engine of larger blocks was called sick.
#[test]
fn counts_in_steps_larger_than_a_page_are_reported() {
    for (block, step) in [(32, "32"), (48, "48"), (100, "100"), (528, "528")] {
        let (said, result) = replay(&measured(7, 1000, block, None), &["--capacities", "20000p"]);
        assert_eq!(verdict(&result), "larger_blocks", "{block}: {said}");
        assert!(
            said.contains(&format!("--page-size {step}")) || said.contains(&format!("are {step} or 0")),
            "{said}"
        );
    }
    for block in [16, 1, 8] {
        let (said, result) = replay(&measured(7, 1000, block, None), &["--capacities", "20000p"]);
        assert!(verdict(&result) == "healthy" && !said.contains("blocks"), "{block}: {said}");
    }
}

/// A cache that forgets by time was taken for several.
#[test]
fn counts_that_a_limit_of_time_explains_are_reported() {
    for (block, minutes) in [(16, 5), (128, 5), (16, 10), (16, 60)] {
        let rows = measured(9, minutes * 21_000, block, Some(minutes));
        let (said, result) = replay(&rows, &[]);
        let option = if minutes == 60 { "--ttl 1h ".to_owned() } else { format!("--ttl {minutes}m ") };
        assert!(verdict(&result) == "time_limit" && said.contains(&option), "{block}, {minutes}: {said}");
    }
    let (said, _) = replay(&measured(9, 100_000, 16, None), &[]);
    assert!(!said.contains("limit of time"), "{said}");
}

/// Seconds from a start were read as milliseconds.
#[test]
fn seconds_from_a_start_are_read_or_named() {
    let span = |row: &dyn Fn(usize) -> Value| {
        let (said, result) = replay(&(0..24).map(row).collect::<Vec<_>>(), &[]);
        (result["trace"]["times"]["span_ms"].as_u64().unwrap_or(0), said)
    };
    let row = |number: usize, times: &[(&str, Value)]| {
        let mut row = tokens(number, number % 5);
        row.as_object_mut().expect("a row").remove("timestamp");
        times.iter().for_each(|(name, value)| set(&mut row, name, value.clone()));
        row
    };
    let at = |number: usize, step: f64| 0.303 + number as f64 * step;
    let (seconds, said) = span(&|number| row(number, &[("timestamp", json!(at(number, 5.0)))]));
    assert_eq!(seconds, 115_000, "{said}");
    let ends =
        |number| [("start_time", json!(at(number, 40.5))), ("end_time", json!(at(number, 40.5) + 12.25))];
    assert_eq!(span(&|number| row(number, &ends(number))).0, 931_500);
    let whole = |number: usize| [("start_time", json!(40 * number)), ("end_time", json!(40 * number + 12))];
    assert_eq!(span(&|number| row(number, &whole(number))).0, 920_000);
    let lasting = |number| [("ts", json!(at(number, 310.0))), ("latency_s", json!(4.0))];
    assert_eq!(span(&|number| row(number, &lasting(number))).0, 7_130_000);
    let moon = |number: usize| json!({"timestamp": at(number, 2.7), "input_length": 32, "output_length": 9, "hash_ids": [0, number]});
    assert_eq!(span(&moon).0, 62_100);
    let (ms, said) = span(&|number| row(number, &[("timestamp", json!(at(number, 700.0)))]));
    assert!(ms == 16_100 && said.contains("--time-unit s"), "{ms}: {said}");
    for (step, fraction) in [(150.0, 0.0), (4000.0, 0.5)] {
        let (ms, said) =
            span(&|number| row(number, &[("timestamp", json!(number as f64 * step + fraction))]));
        assert!(ms == 23 * step as u64 && !said.contains("--time-unit"), "{step}: {ms}, {said}");
    }
}

/// Runs whose clocks each begin at zero, in one file, were taken as of one time.
#[test]
fn a_clock_that_begins_anew_in_a_file_is_reported() {
    let told = |times: &[u64]| {
        let row = |(number, time): (usize, &u64)| {
            let mut row = tokens(number, number % 5);
            set(&mut row, "timestamp", json!(time));
            row
        };
        replay(&times.iter().enumerate().map(row).collect::<Vec<_>>(), &[]).0
    };
    let run = |from: u64| (0..12).map(move |at| from + 3000 * at);
    let epoch = 1_763_640_000_000;
    for (times, which) in [
        (run(0).chain(run(0)).collect::<Vec<_>>(), "anew at"),
        (run(7_000).chain(run(500)).chain(run(0)).collect(), "anew 2 times at"),
        (run(90_000_000).chain(run(40)).collect(), "anew at"),
        (run(epoch).chain(run(epoch - 3_596_000)).collect(), "anew at"),
    ] {
        let said = told(&times);
        assert!(said.contains(which), "{times:?}: {said}");
    }
    // Written when requests end, one of them late; newest first.
    let mut late: Vec<_> = (0..24).map(|at| 3000 * at).collect();
    late.remove(1);
    late.insert(20, 3000);
    for quiet in [run(0).chain(run(40_000)).collect(), late, run(epoch).rev().collect()] {
        let said = told(&quiet);
        assert!(!said.contains("anew"), "{quiet:?}: {said}");
    }
}

/// Rows in an order in which no cache saw them were taken for traffic.
#[test]
fn orders_that_are_nobodys_are_reported() {
    let turns: Vec<(usize, usize)> = (0..8).flat_map(|chat| (1..6).map(move |turn| (chat, turn))).collect();
    let row = |(chat, turn): &(usize, usize)| {
        let id = |at: usize| if at < 80 { at } else { 1000 * (chat + 1) + at };
        let length = 80 + 33 * turn + chat;
        json!({"session_id": format!("s{chat}"), "token_ids": (0..length).map(id).collect::<Vec<_>>()})
    };
    let told = |turns: &[(usize, usize)]| replay(&turns.iter().map(row).collect::<Vec<_>>(), &[]).0;
    let sorted = |key: &dyn Fn(&(usize, usize)) -> usize| {
        let mut turns = turns.clone();
        turns.sort_by_key(key);
        turns
    };
    for (order, which) in [
        (turns.clone(), "conversation by conversation"),
        (sorted(&|(chat, turn)| 33 * turn + chat), "the shortest first"),
        (sorted(&|(chat, turn)| 1000 - 33 * turn - chat), "the longest first"),
        (sorted(&|(chat, turn)| (chat * 31 + turn * 17) % 23), "stand before the turns that they go on with"),
    ] {
        let said = told(&order);
        assert!(said.contains(which), "{which}: {said}");
    }
    for quiet in
        [sorted(&|(chat, turn)| 10 * (turn + chat % 3) + chat), (1..30).map(|turn| (1, turn)).collect()]
    {
        let said = told(&quiet);
        assert!(!said.contains("in such an order"), "{said}");
    }
    // With times the order of the file is of no consequence.
    let timed = |(number, turn): (usize, &(usize, usize))| {
        let mut row = row(turn);
        set(&mut row, "timestamp", json!(1_763_640_000_000u64 + 1000 * number as u64));
        row
    };
    let (said, _) = replay(&turns.iter().enumerate().map(timed).collect::<Vec<_>>(), &[]);
    assert!(!said.contains("in such an order"), "{said}");
}

/// Samples of one prompt were taken for copies.
#[test]
fn samples_of_one_prompt_are_no_copies() {
    let told = |change: &dyn Fn(usize, &mut Value)| {
        let row = |number: usize| {
            let mut row = tokens(0, number / 6);
            let moment = 1_763_640_000_000u64 + 1000 * number as u64 / 6 + 3 * number as u64;
            set(&mut row, "timestamp", json!(moment));
            change(number, &mut row);
            row
        };
        replay(&(0..48).map(row).collect::<Vec<_>>(), &[]).0
    };
    for (field, value) in [
        ("seed", &(|at: usize| json!(at)) as &dyn Fn(usize) -> Value),
        ("sample_index", &|at| json!(at % 6)),
        ("sampling_params.seed", &|at| json!(7 * at)),
        ("response_token_ids", &|at| json!([9 * at, 4, 5, 6])),
    ] {
        let said = told(&|at, row| set(row, field, value(at)));
        assert!(!said.contains("repeat the whole prompt"), "{field}: {said}");
    }
    for (field, value) in [("seed", json!(42)), ("response_token_ids", json!([9, 4, 5, 6]))] {
        let said = told(&|_, row| set(row, field, value.clone()));
        assert!(said.contains("40 of 48 requests repeat the whole prompt"), "{field}: {said}");
    }
}
