//! Advice that the program gives is followed here, word by word: what it asks for is read, and nothing is said any
//! more.

use super::members::{PROSE, chat, replay, replay_file, set, tokens};
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

/// A row whose time is of when it was written, and that says by `name` when it came.
fn written_late(number: usize, name: &str) -> Value {
    let mut row = chat(number);
    row[name] = json!(format!("2025-11-20T12:{number:02}:00Z"));
    row["timestamp"] = json!(format!("2025-11-20T15:00:{:02}Z", number / 5));
    row
}

/// A row with a time in days, and nothing else that says when it came.
fn in_days(number: usize, name: &str, of: impl Fn(f64) -> f64) -> Value {
    let mut row = chat(number);
    row.as_object_mut().expect("an object").remove("timestamp");
    with(row, name, json!(of(45_981.5 + number as f64 / 1000.0)))
}

const ADVICE: &[Advice] = &[
    Advice {
        name: "when rows were written in place of when requests came",
        row: |number| written_late(number, "request_started"),
        says: "lies a minute and more before the time that was read",
        mended: |number| {
            let row = written_late(number, "request_started");
            with(row.clone(), "timestamp", row["request_started"].clone())
        },
        options: &[],
    },
    Advice {
        name: "days of a spreadsheet",
        row: |number| in_days(number, "date", |days| days),
        says: "less 25569, times 86400",
        mended: |number| in_days(number, "timestamp", |days| (days - 25_569.0) * 86_400.0),
        options: &[],
    },
    Advice {
        name: "two models in one pool",
        row: |number| with(tokens(number, number / 2), "asked_model", host(number)),
        says: "By its name it is the model that was asked",
        mended: |number| with(tokens(number, number / 2), "asked_model", host(number)),
        options: &["--id-scope", "field:asked_model"],
    },
    Advice {
        name: "what a decode worker was handed",
        row: |number| with(tokens(number, number), "cached_tokens", json!(47)),
        says: "what comes for the first time cannot have been found",
        mended: |number| with(tokens(number, number), "cached_tokens", json!(0)),
        options: &[],
    },
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

fn rows() -> Vec<Value> {
    (0..12).map(chat).collect()
}

fn lines(write: impl Fn(&str) -> String) -> Vec<u8> {
    rows().iter().map(|row| write(&row.to_string())).collect::<String>().into_bytes()
}

/// What a file of these rows is read as, however it is written.
fn assert_is_whole(name: &str, file: &[u8]) {
    let (said, found) = replay_file(file, &[]);
    let (_, plain) = replay(&rows(), &[]);
    for fact in ["requests", "page_accesses", "distinct_pages"] {
        assert_eq!(found["trace"][fact], plain["trace"][fact], "{name}, {fact}: {said}");
    }
    assert_eq!(plain["trace"]["requests"], json!(12));
}

/// A comment or a long line that a runtime had split made each a file that nobody could read.
#[test]
fn rows_are_read_out_of_what_stands_around_them() {
    let comments =
        [b"# by us\n".to_vec(), lines(|row| format!("{row}\n")), b"// the end\n".to_vec()].concat();
    let (said, _) = replay_file(&comments, &[]);
    assert!(said.contains("2 lines begin as comments do"), "{said}");
    assert_is_whole("comments", &comments);
    let time = "2025-10-09T08:53:21.000Z";
    let parts = lines(|row| {
        let (begin, end) = row.split_at(60);
        format!("{time} stdout P {begin}\n{time} stdout F {end}\n")
    });
    assert_is_whole("parts of lines", &parts);
    assert_is_whole(
        "bytes",
        &lines(|row| format!("{}\n", json!({"MESSAGE": row.as_bytes(), "PRIORITY": "6"}))),
    );
    let coloured = |row: &str| json!({"MESSAGE": format!("\u{1b}[32mINFO\u{1b}[0m {row}").as_bytes()});
    assert_is_whole("coloured bytes", &lines(|row| format!("{}\n", coloured(row))));
    assert_is_whole("items of a list", &lines(|row| format!("{row},\n")));
    assert_is_whole("a text sequence", &lines(|row| format!("\u{1e}{row}\n")));
}

/// Each of these files is named, and what is to be done gives the rows a line.
#[test]
fn files_that_hold_rows_otherwise_are_named_with_what_makes_lines_of_them() {
    let rows = rows();
    let column = |name: &str| {
        let cells = rows.iter().enumerate().map(|(at, row)| (at.to_string(), row[name].clone()));
        Value::Object(cells.collect())
    };
    let by_id = rows.iter().enumerate().map(|(at, row)| (format!("req{at}"), row.clone()));
    let cells: Vec<_> = rows.iter().map(|row| json!([row["timestamp"], row["messages"]])).collect();
    let text = |value: Value| value.to_string().into_bytes();
    let utf16: Vec<u8> = lines(|row| format!("{row}\n")).into_iter().flat_map(|byte| [0, byte]).collect();
    let pandas = "to_json(PATH, orient=\"records\", lines=True)";
    for (file, what, cure) in [
        (
            text(json!({"columns": ["timestamp", "messages"], "index": [0, 1], "data": cells})),
            "pandas",
            pandas,
        ),
        (text(json!({"timestamp": column("timestamp"), "messages": column("messages")})), "pandas", pandas),
        (text(Value::Object(by_id.collect())), "a request under each of its names", "`jq -c '.[]'`"),
        (utf16, "UTF-16", "`iconv -f UTF-16BE -t UTF-8`"),
        (b"- timestamp: 1\n  messages: []\n".to_vec(), "YAML", "`yq -o=json -I=0 '.[]'`"),
        (b"PK\x03\x04 [Content_Types].xml".to_vec(), "a spreadsheet", pandas),
        (b"PK\x03\x04 log.jsonl".to_vec(), "a zip archive", "unpack it first"),
        (b"PAR1 rows".to_vec(), "a Parquet file", "DuckDB"),
        (b"timestamp,model,messages\n1,m,\"[]\"\n".to_vec(), "CSV", pandas),
    ] {
        let (said, found) = replay_file(&file, &[]);
        assert!(said.contains(what) && said.contains(cure) && found.is_null(), "{what}: {said}");
    }
    // A cell of a table is a text.
    let of_texts = lines(|row| {
        let mut row: Value = serde_json::from_str(row).expect("JSON");
        row["messages"] = json!(row["messages"].to_string());
        format!("{row}\n")
    });
    assert_is_whole("cells", &of_texts);
}
