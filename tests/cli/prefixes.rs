//! `kvset prefixes`: planted faults are found, and mending them is priced as a replay of a mended log prices it.

use crate::support::program::kvset;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Made numbers: the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % sides as u64) as usize
    }

    fn words(&mut self, count: usize) -> String {
        const SYLLABLES: [&str; 16] = [
            "ba", "ko", "ri", "tu", "ne", "lo", "sha", "mi", "de", "fu", "gra", "ve", "ok", "un", "pel",
            "ist",
        ];
        let mut word = || (0..2 + self.roll(3)).map(|_| SYLLABLES[self.roll(16)]).collect::<String>();
        (0..count).map(|_| word()).collect::<Vec<_>>().join(" ")
    }

    fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.roll(50_000) as u32).collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.roll(at + 1));
        }
    }
}

/// How a log of chats is made.
#[derive(Clone, Copy)]
struct Shape {
    seed: u64,
    sessions: usize,
    turns: usize,
    /// Different agents, each with a system message of its own and the same tools.
    agents: usize,
    fault: &'static str,
}

/// Chats whose turns take turns, as those of several users do.
fn chats(shape: Shape) -> Vec<Value> {
    let mut dice = Dice(shape.seed);
    let systems: Vec<(String, String)> =
        (0..shape.agents).map(|_| (dice.words(40), dice.words(80))).collect();
    let tools: Vec<Value> = (0..6)
        .map(|_| {
            let (name, about, key) = (dice.words(1), dice.words(25), dice.words(1));
            json!({"type": "function", "function": {"name": name, "description": about, "parameters":
                {"type": "object", "properties": {key: {"type": "string", "description": dice.words(6)}}}}})
        })
        .collect();
    let mut histories: Vec<Vec<Value>> = vec![Vec::new(); shape.sessions];
    let salts: Vec<String> = (0..shape.sessions)
        .map(|_| format!("{:08x}{:04x}", dice.roll(1 << 31), dice.roll(1 << 15)))
        .collect();
    let mut bodies = Vec::new();
    for turn in 0..shape.turns {
        for session in 0..shape.sessions {
            let number = bodies.len();
            let (begin, rest) = &systems[session % shape.agents];
            let minute = number * 7;
            let clock = format!(
                "2026-03-{:02}T{:02}:{:02}:{:02}Z",
                1 + minute / 1440,
                minute / 60 % 24,
                minute % 60,
                dice.roll(60)
            );
            let random = format!("{:08x}-{:04x}", dice.roll(1 << 31), dice.roll(1 << 15));
            let system = match shape.fault {
                "clock in front" => format!("It is {clock}. {begin} {rest}"),
                "clock within" => format!("{begin} Current date: {clock}. {rest}"),
                "epoch" => format!("{begin} [now={}] {rest}", 1_764_000_000 + 61 * number),
                "random" => format!("Request {random}. {begin} {rest}"),
                "salt" => format!("Session {}: {begin} {rest}", salts[session]),
                _ => format!("{begin} {rest}"),
            };
            let mut own = tools.clone();
            match shape.fault {
                "shuffled" => dice.shuffle(&mut own),
                "shuffled by session" => Dice(shape.seed + session as u64).shuffle(&mut own),
                _ => {}
            }
            let mut question = dice.words(30);
            if shape.fault == "clock at the end" {
                question = format!("{question} (asked at {clock})");
            }
            let history = &mut histories[session];
            if shape.fault == "stripped reasoning" && turn > 0 {
                // A client that drops what was thought before the last question.
                history.iter_mut().for_each(|message| {
                    if let Some(text) =
                        message["content"].as_str().and_then(|text| text.split("</think>").nth(1))
                    {
                        message["content"] = json!(text.to_owned());
                    }
                });
            }
            history.push(json!({"role": "user", "content": question}));
            let mut asks = 1;
            if shape.fault == "stripped reasoning" {
                asks = 3;
            }
            for ask in 0..asks {
                let mut messages = vec![json!({"role": "system", "content": system})];
                messages.extend(histories[session].iter().cloned());
                bodies.push(json!({"session_id": format!("s{session}"), "timestamp": 1_764_000_000_000_u64 + bodies.len() as u64 * 1000,
                    "model": "m", "messages": messages, "tools": own}));
                let answer = match asks > 1 && ask + 1 < asks {
                    true => format!("<think>{}</think>{}", dice.words(40), dice.words(30)),
                    false => dice.words(30),
                };
                histories[session].push(json!({"role": "assistant", "content": answer}));
                if ask + 1 < asks {
                    histories[session].push(json!({"role": "tool", "content": dice.words(60)}));
                }
            }
        }
    }
    bodies
}

fn write(directory: &Path, rows: &[Value]) -> std::path::PathBuf {
    let trace = directory.join("trace.jsonl");
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(&trace, lines).expect("a trace");
    trace
}

fn run(command: &str, trace: &Path, args: &[&str]) -> Value {
    let run = kvset(&[command, "--json"]).args(args).arg(trace).assert().success().get_output().clone();
    serde_json::from_slice(&run.stdout).expect("JSON")
}

const CHAT: [&str; 6] =
    ["--format", "openai", "--model", "tests/fixtures/tokenize/chatml", "--page-size", "16"];

fn gain(family: &Value) -> i64 {
    let hits = |name: &str| family[name].as_i64().unwrap_or(0);
    hits("hit_pages_if_mended") - hits("hit_pages")
}

fn prefixes(rows: &[Value], args: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    run("prefixes", &write(directory.path(), rows), args)
}

#[test]
fn planted_faults_in_bodies_are_found_and_named() {
    let faults = [
        ("clock in front", "system", &["time"][..]),
        ("clock within", "system", &["time"]),
        ("epoch", "system", &["time"]),
        ("random", "system", &["random"]),
        ("salt", "system", &["salt"]),
        ("shuffled", "tools", &["order"]),
        ("shuffled by session", "tools", &["order"]),
        ("stripped reasoning", "messages", &["text"]),
    ];
    for (number, (fault, part, kinds)) in faults.into_iter().enumerate() {
        let shape = Shape {
            seed: 11 + number as u64,
            sessions: 5 + number % 3,
            turns: 3 + number % 2,
            agents: 1,
            fault,
        };
        let found = prefixes(&chats(shape), &CHAT);
        let first = &found["families"][0];
        assert!(gain(first) > 0, "{fault}: {found:#}");
        let named = first["parts_at"]["part"].as_str().unwrap_or_default();
        assert!(named.starts_with(part), "{fault}: {found:#}");
        assert!(
            kinds.contains(&first["parts_at"]["kind"].as_str().unwrap_or_default()),
            "{fault}: {found:#}"
        );
    }
}

#[test]
fn clean_logs_have_no_family_with_a_gain() {
    for (number, (agents, fault)) in
        [(1, "none"), (1, "clock at the end"), (3, "none"), (4, "clock at the end"), (2, "none")]
            .into_iter()
            .enumerate()
    {
        let shape = Shape { seed: 77 + number as u64, sessions: 24, turns: 3, agents, fault };
        let found = prefixes(&chats(shape), &CHAT);
        let families = found["families"].as_array().expect("families");
        assert!(families.iter().all(|family| gain(family) == 0), "{agents} agents, {fault}: {found:#}");
        assert!(!families.is_empty(), "what they share is told");
    }
}

/// Prompts of tokens whose sessions grow; `place` is where something stands that differs.
fn prompts(
    seed: u64,
    sessions: usize,
    turns: usize,
    place: usize,
    length: usize,
    by_session: bool,
    at_end: bool,
) -> Vec<Value> {
    let mut dice = Dice(seed);
    let system = dice.tokens(900);
    let mut histories: Vec<Vec<u32>> = vec![Vec::new(); sessions];
    let salts: Vec<Vec<u32>> = (0..sessions).map(|_| dice.tokens(length)).collect();
    let mut rows = Vec::new();
    for _ in 0..turns {
        for session in 0..sessions {
            let more = 150 + dice.roll(40);
            histories[session].extend(dice.tokens(more));
            let differs = if by_session { salts[session].clone() } else { dice.tokens(length) };
            let (front, back) = system.split_at(place);
            let prompt: Vec<u32> = match at_end {
                true => [&system[..], &histories[session], &differs].concat(),
                false => [front, &differs, back, &histories[session]].concat(),
            };
            rows.push(json!({"token_ids": prompt, "session_id": format!("{session}"), "timestamp": rows.len() * 1000}));
        }
    }
    rows
}

#[test]
fn a_mended_log_replayed_is_what_mending_is_priced_at() {
    for (seed, place, length, by_session) in
        [(1, 0, 7, false), (2, 130, 12, false), (3, 500, 5, true), (4, 16, 40, true)]
    {
        let planted = prompts(seed, 8, 4, place, length, by_session, false);
        let mended = prompts(seed, 8, 4, place, length, by_session, true);
        let directory = tempfile::tempdir().expect("a directory");
        let by_hand = write(directory.path(), &mended);
        for capacity in [None, Some("400p"), Some("60p")] {
            let at: Vec<&str> = capacity.map_or_else(Vec::new, |capacity| vec!["--capacities", capacity]);
            let args = [&["--page-size", "16"][..], &at].concat();
            let found = prefixes(&planted, &args);
            let replayed = run("replay", &by_hand, &args);
            let hits = match capacity {
                None => &replayed["theoretical"]["prefix_hits"],
                Some(_) => &replayed["capacities"][0]["prefix_hits"],
            };
            let first = &found["families"][0];
            assert_eq!(&first["hit_pages_if_mended"], hits, "{seed} at {capacity:?}: {found:#}");
            assert_eq!(first["parts_at"]["token"], place, "{seed}: {found:#}");
            assert_eq!(first["parts_at"]["page"], place / 16, "{seed}");
            assert_eq!(first["requests"], planted.len(), "{seed}");
        }
    }
}

#[test]
fn what_is_found_hangs_on_no_number_of_threads() {
    let rows = chats(Shape { seed: 5, sessions: 6, turns: 3, agents: 1, fault: "shuffled" });
    let with = |threads: &str| prefixes(&rows, &[&CHAT[..], &["--threads", threads]].concat());
    assert_eq!(with("1"), with("3"));
}

#[test]
fn pages_hashed_each_by_itself_are_compared_and_chained_ones_are_not() {
    let rows = |is_chained: bool, differs: bool| -> Vec<Value> {
        let mut rows = Vec::new();
        for request in 0..40_u64 {
            let own = if differs { 1_000_000 + request } else { 999_999 };
            let pages = [10, own].into_iter().chain(20..60).chain([2_000_000 + request]);
            let chained = pages.scan(0_u64, |before, page| {
                *before = (*before * 31 + page) % (1 << 40);
                Some(if is_chained { *before } else { page })
            });
            let ids: Vec<u64> = chained.collect();
            rows.push(json!({"timestamp": request * 1000, "input_length": 512 * ids.len() as u64,
                "output_length": 10, "hash_ids": ids}));
        }
        rows
    };
    let found = prefixes(&rows(false, true), &["--format", "mooncake"]);
    let first = &found["families"][0];
    assert_eq!(
        (first["pages_before"].as_u64(), first["parts_at"]["page"].as_u64()),
        (Some(1), Some(1)),
        "{found:#}"
    );
    assert_eq!(first["pages_behind"], 40, "{found:#}");
    assert_eq!(gain(first), 39 * 40);
    let found = prefixes(&rows(true, true), &["--format", "mooncake"]);
    let first = &found["families"][0];
    assert_eq!(
        (first["hit_pages"].clone(), first["hit_pages_if_mended"].clone()),
        (Value::Null, Value::Null),
        "{found:#}"
    );
    assert_eq!(
        (first["pages_behind"].clone(), first["requests"].as_u64()),
        (Value::Null, Some(40)),
        "{found:#}"
    );
    let found = prefixes(&rows(false, false), &["--format", "mooncake"]);
    assert!(
        found["families"].as_array().expect("families").iter().all(|family| gain(family) == 0),
        "{found:#}"
    );
}

#[test]
fn text_is_shown_only_where_it_is_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let rows = chats(Shape { seed: 3, sessions: 5, turns: 3, agents: 1, fault: "salt" });
    let trace = write(directory.path(), &rows);
    let text = |args: &[&str]| {
        let run =
            kvset(&["prefixes"]).args(CHAT).args(args).arg(&trace).assert().success().get_output().clone();
        String::from_utf8(run.stdout).expect("UTF-8") + &String::from_utf8(run.stderr).expect("UTF-8")
    };
    let salt = rows[0]["messages"][0]["content"].as_str().expect("text")[8..20].to_owned();
    for args in [&[][..], &["--json"]] {
        assert!(!text(args).contains(&salt), "{args:?}");
    }
    for args in [&["--show-text"][..], &["--json", "--show-text"]] {
        assert!(text(args).contains(&salt), "{args:?}");
    }
}

#[test]
fn prompts_below_a_page_are_counted() {
    let rows: Vec<Value> =
        (0..9).map(|number| json!({"token_ids": vec![number; 3 + 10 * (number as usize % 3)]})).collect();
    let found = prefixes(&rows, &["--page-size", "16"]);
    assert_eq!(
        (found["requests"].as_u64(), found["requests_below_a_page"].as_u64()),
        (Some(9), Some(6)),
        "{found:#}"
    );
}

#[test]
fn a_capacity_in_bytes_needs_a_cost_and_an_empty_log_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = write(directory.path(), &[]);
    kvset(&["prefixes", "--capacities", "1GiB"]).arg(&trace).assert().code(2);
    let empty =
        kvset(&["prefixes", "--format", "token-ids"]).arg(&trace).assert().success().get_output().clone();
    assert!(String::from_utf8_lossy(&empty.stdout).starts_with("The trace has no request"));
}

/// Prompts of tokens of which sessions grow; `make` is given the turn, the session and its history, and makes the
/// prompt.
fn growing(
    sessions: usize,
    turns: usize,
    mut make: impl FnMut(usize, usize, &[u32]) -> Vec<u32>,
) -> Vec<Value> {
    let mut dice = Dice(41);
    let mut histories: Vec<Vec<u32>> = vec![Vec::new(); sessions];
    let mut rows = Vec::new();
    for turn in 0..turns {
        for (session, history) in histories.iter_mut().enumerate() {
            let more = 120 + dice.roll(50);
            history.extend(dice.tokens(more));
            rows.push(json!({"token_ids": make(turn, session, history), "timestamp": rows.len() * 1000}));
        }
    }
    rows
}

#[test]
fn planted_faults_in_token_ids_are_found() {
    let mut dice = Dice(19);
    let (front, back) = (dice.tokens(200), dice.tokens(300));
    let list: Vec<Vec<u32>> = (0..7).map(|number| dice.tokens(40 + 9 * number)).collect();
    let shuffled = growing(6, 4, |_, _, history| {
        let mut own = list.clone();
        dice.shuffle(&mut own);
        [&front[..], &own.concat(), history].concat()
    });
    let thought: Vec<Vec<u32>> = (0..6).map(|_| dice.tokens(150)).collect();
    // What was thought is there while a question is worked on, and gone from the next one on.
    let removed = growing(6, 6, |turn, session, history| {
        let (asked, rest) = history.split_at(100);
        let thought = if turn < 3 { &thought[session][..] } else { &[] };
        [&front[..], asked, thought, rest].concat()
    });
    let mut dice = Dice(23);
    let salted = growing(9, 3, |_, session, history| {
        [&front[..50], &Dice(session as u64 + 1).tokens(4), &front[50..], &back, history].concat()
    });
    let counted = growing(4, 6, |_, _, history| [&dice.tokens(1)[..], &front, &back, history].concat());
    for (name, rows, kind, token) in [
        ("shuffled", shuffled, json!("order"), Some(200)),
        ("removed", removed, Value::Null, None),
        ("salted", salted, Value::Null, Some(50)),
        ("counted", counted, Value::Null, Some(0)),
    ] {
        let found = prefixes(&rows, &["--page-size", "16"]);
        let first = &found["families"][0];
        assert!(gain(first) > 0, "{name}: {found:#}");
        assert_eq!(first["parts_at"]["kind"], kind, "{name}: {found:#}");
        assert!(token.is_none_or(|token| first["parts_at"]["token"] == token), "{name}: {found:#}");
    }
}

#[test]
fn clean_logs_of_token_ids_have_no_family_with_a_gain() {
    let mut dice = Dice(29);
    let agents: Vec<Vec<u32>> = (0..4).map(|_| dice.tokens(250)).collect();
    let (tools, files) = (dice.tokens(400), (0..30).map(|_| dice.tokens(120)).collect::<Vec<_>>());
    let plain = growing(12, 4, |_, _, history| [&agents[0][..], &tools, history].concat());
    let several = growing(24, 3, |_, session, history| [&agents[session % 4][..], &tools, history].concat());
    let retrieved =
        growing(10, 3, |_, session, history| [&agents[0][..], &files[session % 30], history].concat());
    let alone = growing(20, 1, |_, _, history| history.to_vec());
    let ends = growing(8, 4, |_, _, history| [&agents[0][..], &tools, history, &dice.tokens(8)].concat());
    for (name, rows) in
        [("plain", plain), ("several", several), ("retrieved", retrieved), ("alone", alone), ("ends", ends)]
    {
        let found = prefixes(&rows, &["--page-size", "16"]);
        let families = found["families"].as_array().expect("families");
        assert!(families.iter().all(|family| gain(family) == 0), "{name}: {found:#}");
    }
}

#[test]
fn a_clock_is_one_family_however_its_digits_are_cut_into_tokens() {
    let rows = chats(Shape { seed: 31, sessions: 9, turns: 4, agents: 1, fault: "clock in front" });
    let found = prefixes(&rows, &CHAT);
    let gains = found["families"].as_array().expect("families").iter().filter(|family| gain(family) > 0);
    assert_eq!(gains.count(), 1, "{found:#}");
    assert_eq!(found["families"][0]["requests"], rows.len(), "{found:#}");
}
