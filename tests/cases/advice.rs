//! Advice that the program gives is followed here, word by word: what it asks for is read, and nothing is said any
//! more.

use super::members::{PROSE, chat, replay, set, tokens};
use serde_json::{Value, json};

/// A log about which something is said, and the log that follows what is said.
struct Advice {
    name: &'static str,
    /// A row that is refused or noted.
    row: fn(usize) -> Value,
    /// The words of the advice.
    says: &'static str,
    /// What it asks for.
    mended: fn(usize) -> Value,
    options: &'static [&'static str],
}

fn with(mut row: Value, path: &str, value: Value) -> Value {
    set(&mut row, path, value);
    row
}

fn message(number: usize, name: &str) -> Value {
    let mut row = chat(number);
    let text = row["messages"][0].as_object_mut().expect("a message").remove("content").expect("a text");
    row["messages"][0][name] = text;
    row
}

fn ids(number: usize) -> Value {
    json!((0..48).map(|at| 7000 + 100 * number + at).collect::<Vec<_>>())
}

fn host(number: usize) -> Value {
    json!(format!("h{}", number % 2))
}

const ADVICE: &[Advice] = &[
    Advice {
        name: "a message's text under another name",
        row: |number| message(number, "utterance"),
        says: "utterance",
        mended: |number| message(number, "content"),
        options: &[],
    },
    Advice {
        name: "empty contents",
        row: |number| with(chat(number), "messages", json!([{"role": "user", "content": ""}])),
        says: "every `content` of its messages is empty",
        mended: chat,
        options: &[],
    },
    Advice {
        name: "a text alongside the messages",
        row: |number| with(chat(number), "house_rules", json!(PROSE)),
        says: "write it as a message",
        mended: |number| {
            let mut row = chat(number);
            let system = json!({"role": "system", "content": PROSE});
            row["messages"].as_array_mut().expect("messages").insert(0, system);
            row
        },
        options: &[],
    },
    Advice {
        name: "tokens alongside the messages",
        row: |number| with(chat(number), "prefix_token_ids", ids(number)),
        says: "write them as `token_ids` in place of what was read",
        mended: |number| json!({"timestamp": chat(number)["timestamp"], "token_ids": ids(number)}),
        options: &[],
    },
    Advice {
        name: "cached tokens under another name",
        row: |number| with(tokens(number, number / 2), "stats.prefix_hit_tokens", json!(16 * (number % 2))),
        says: "write it as `cached_tokens`",
        mended: |number| with(tokens(number, number / 2), "cached_tokens", json!(16 * (number % 2))),
        options: &[],
    },
    Advice {
        name: "the cache that served",
        row: |number| with(tokens(number, number), "served_by_host", host(number)),
        says: "write it as `replica`",
        mended: |number| with(tokens(number, number), "replica", host(number)),
        options: &[],
    },
    Advice {
        name: "an adapter",
        row: |number| with(tokens(number, number), "peft_adapter", host(number)),
        says: "write it as `lora_name`",
        mended: |number| with(tokens(number, number), "lora_name", host(number)),
        options: &[],
    },
    Advice {
        name: "an adapter, by the option",
        row: |number| with(tokens(number, number), "peft_adapter", host(number)),
        says: "--id-scope field:peft_adapter",
        mended: |number| with(tokens(number, number), "peft_adapter", host(number)),
        options: &["--id-scope", "field:peft_adapter"],
    },
    Advice {
        name: "a tenant, by the option",
        row: |number| with(tokens(number, number), "customer_name", host(number)),
        says: "--id-scope field:customer_name",
        mended: |number| with(tokens(number, number), "customer_name", host(number)),
        options: &["--id-scope", "field:customer_name"],
    },
    Advice {
        name: "an answer of a cache of answers",
        row: |number| with(tokens(number, number), "semantic_cache_used", json!(number % 3 == 0)),
        says: "write it as `cache_hit`",
        mended: |number| with(tokens(number, number), "cache_hit", json!(number % 3 == 0)),
        options: &[],
    },
    Advice {
        name: "a request that was refused",
        row: |number| with(tokens(number, number), "guardrail.denied", json!(number % 3 == 0)),
        says: "write the HTTP status of each as `status`",
        mended: |number| {
            with(tokens(number, number), "status", json!(if number % 3 == 0 { 403 } else { 200 }))
        },
        options: &[],
    },
];

#[test]
fn advice_that_is_followed_helps() {
    for Advice { name, row, says, mended, options } in ADVICE {
        let rows: Vec<_> = (0..12).map(row).collect();
        let (said, _) = replay(&rows, &[]);
        assert!(said.contains(says), "{name}: nothing says {says:?}: {said}");
        let rows: Vec<_> = (0..12).map(mended).collect();
        let (said, result) = replay(&rows, options);
        assert!(!said.contains(says), "{name}, mended: {said}");
        assert!(result["trace"]["requests"].as_u64() > Some(0), "{name}, mended, is not read: {said}");
    }
}
