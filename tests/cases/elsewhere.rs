//! What of a log lies where nobody looked for it: in front of its rows, around its lists, in another place than the
//! text, or in rows that are not there.

use super::members::{chat, replay, replay_file, set, tokens};
use serde_json::{Value, json};

fn said_of(row: &dyn Fn(usize) -> Value) -> String {
    replay(&(0..12).map(row).collect::<Vec<_>>(), &[]).0
}

/// What is said of chats with a change each.
fn said_of_chats(change: &dyn Fn(usize, &mut Value)) -> String {
    said_of(&|number| {
        let mut row = chat(number);
        change(number, &mut row);
        row
    })
}

/// A pod and a time in front of JSON were dropped without a word.
#[test]
fn what_stands_in_front_of_rows_is_named() {
    let said = |front: &dyn Fn(usize) -> String| {
        let line = |number| {
            let mut row = tokens(number, number % 4);
            row.as_object_mut().expect("an object").remove("timestamp");
            format!("{}{row}\n", front(number))
        };
        replay_file((0..24).map(line).collect::<String>().as_bytes(), &[]).0
    };
    let pods = said(&|number| format!("[pod/decode-7d9f8c-x2vl{}/main] ", number % 2));
    assert!(
        pods.contains("in front of the JSON was not read (2 values")
            && pods.contains("seems to name the cache"),
        "{pods}"
    );
    let hosts = said(&|number| format!("Nov 20 12:00:{number:02} ip-10-0-3-{} vllm[812]: ", number % 2));
    assert!(hosts.contains("seems to name the cache") && hosts.contains("It is a time"), "{hosts}");
    let quiet = said(&|_| "INFO:root:".to_owned());
    assert!(!quiet.contains("in front of the JSON was"), "{quiet}");
}

/// An export of one object was looked at as one row: neither its times nor its streams were named.
#[test]
fn what_stands_beside_the_records_of_a_list_is_named() {
    let bare = |number: usize| json!({"token_ids": tokens(number, number % 4)["token_ids"]}).to_string();
    let stream = |pod: usize| {
        let lines: Vec<_> =
            (0..12).map(|number| json!([format!("17636402{number:02}000000000"), bare(number)])).collect();
        json!({"stream": {"pod": format!("a-{pod}")}, "values": lines})
    };
    let loki = json!({"data": {"result": [stream(0), stream(1)]}}).to_string();
    let (said, _) = replay_file(loki.as_bytes(), &[]);
    assert!(
        said.contains("`data.result[].stream.pod`") && said.contains("`data.result[].values[][0]`"),
        "{said}"
    );
    let hit = |number: usize| json!({"_source": {"@timestamp": format!("2025-11-20T12:00:{number:02}.000Z"), "message": bare(number)}});
    let hits = json!({"hits": {"hits": (0..12).map(hit).collect::<Vec<_>>()}}).to_string();
    let (said, _) = replay_file(hits.as_bytes(), &[]);
    assert!(said.contains("`hits.hits[]._source.@timestamp`"), "{said}");
}

/// The commonest ways to get a log were refused, and the advice led to the next refusal.
#[test]
fn prompts_are_read_where_the_advice_leads() {
    let field = |name: &str, value: String| json!({"field": name, "value": value});
    let row = |number: usize| {
        let time = format!("2025-11-20 12:00:{number:02}.000");
        json!([field("@timestamp", time), field("@message", chat(number).to_string())])
    };
    let insights = json!({"results": (0..12).map(row).collect::<Vec<_>>()}).to_string();
    let (said, result) = replay_file(insights.as_bytes(), &[]);
    assert_eq!(result["trace"]["requests"], 12, "{said}");
    let rows: Vec<_> =
        (0..12).map(|number| json!({"arguments": {"arg_0": format!("[INST] {number}")}})).collect();
    let (said, result) = replay(&rows, &["--request", "arguments.arg_0"]);
    assert_eq!(result["trace"]["requests"], 12, "{said}");
    let spilled = |number: usize| {
        let body = if number % 3 == 2 { String::new() } else { chat(number).to_string() };
        json!({"request_body": body, "time": "2025-11-20T12:00:00Z"})
    };
    assert!(said_of(&spilled).contains("client_body_buffer_size"));
}

/// Marks, references and codes counted as the texts that they stand for.
#[test]
fn texts_that_are_not_those_of_the_engine_are_reported() {
    for mark in ["<image>\n", "[IMG]", "<|vision_start|><|image_pad|><|vision_end|>"] {
        let said = said_of(
            &|number| json!({"model": "m", "prompt": format!("{mark}{}", chat(number)["messages"][0]["content"])}),
        );
        assert!(said.contains("12 of 12 prompts have masks"), "{mark}: {said}");
    }
    for (text, told) in [
        ("minio://prompts/2025/4f2a.txt", "12 of 12 texts of messages are masked"),
        (
            "What%20do%20you%20know%20of%20old%20mills%20and%20of%20the%20stones%20in%20them%3F",
            "written in a code",
        ),
    ] {
        let said = said_of_chats(&|number, row| {
            set(&mut row["messages"][0], "content", json!(format!("{text}{number}")))
        });
        assert!(said.contains(told), "{text}: {said}");
    }
}

/// A number of the row that contradicts its prompt was passed over.
#[test]
fn limits_and_lengths_that_contradict_the_prompt_are_reported() {
    for (field, value, told) in [
        ("options.numCtx", json!(16), "limits prompts"),
        ("truncation_length", json!(16), "limits prompts"),
        ("request_bytes", json!(48_211), "not whole"),
        ("n_messages", json!(9), "not whole"),
        ("is_redacted", json!(true), "not whole"),
        ("response.previous_response_id", json!("resp_7"), "not whole"),
    ] {
        let said = said_of_chats(&|_, row| set(row, field, value.clone()));
        assert!(said.contains(&format!("`{field}`")) && said.contains(told), "{field}: {said}");
    }
    let quiet = said_of_chats(&|_, row| {
        for (field, value) in [
            ("max_model_len", json!(32_768)),
            ("request_bytes", json!(400)),
            ("n_messages", json!(1)),
            ("notes", json!("The user asks for a refund of the order and gets it.")),
            ("judge_prompt", json!("Rate the answer of the assistant from one to five.")),
        ] {
            set(row, field, value);
        }
    });
    assert!(!quiet.contains("rows looked at"), "{quiet}");
}

/// Runs of agents counted as one request each, and what a turn adds as all of its prompt.
#[test]
fn rows_of_transcripts_and_of_single_turns_are_reported() {
    let turn = |role: &str, text: String| json!({"role": role, "content": text});
    let run = |number: usize, turns: usize| {
        let mut row = chat(number % 12);
        let messages = row["messages"].as_array_mut().expect("messages");
        for at in 0..turns {
            messages
                .push(turn("assistant", format!("Call {at} of {number}: look for the mill by the river.")));
            messages.push(turn("tool", format!("Found {at} of {number}.")));
        }
        row["timestamp"] = json!(1_763_640_000_000u64 + 1000 * number as u64);
        row
    };
    let said = said_of(&|number| run(number, 4));
    assert!(said.contains("12 of 12 chats have several answers"), "{said}");
    let (said, _) = replay(&(0..48).map(|number| run(number, number / 12)).collect::<Vec<_>>(), &[]);
    assert!(!said.contains("several answers"), "{said}");
    let said = said_of_chats(&|number, row| {
        let call = turn("assistant", format!("Call {number}."));
        row["messages"] = json!([call, turn("tool", format!("Found {number}."))]);
    });
    assert!(said.contains("nothing of a user"), "{said}");
}
