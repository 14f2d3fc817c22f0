//! `kvset replay --draft-head` and vLLM's own tier below it: what is said, and what is refused.

use crate::support::program::kvset;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn generated(directory: &Path) -> PathBuf {
    let trace = directory.join("trace.jsonl");
    kvset(&["generate", "--requests", "400", "--page-size", "16", "--output"]).arg(&trace).assert().success();
    trace
}

fn printed(trace: &Path, args: &[&str]) -> String {
    let output = kvset(&["replay"]).args(args).arg(trace).assert().success().get_output().stdout.clone();
    String::from_utf8(output).expect("UTF-8")
}

fn json(trace: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&printed(trace, &[args, &["--json"]].concat())).expect("JSON")
}

#[test]
fn what_a_draft_head_costs_at_any_size_is_said_first_and_by_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, rows) = (generated(directory.path()), directory.path().join("rows.jsonl"));
    let unlimited = |args: &[&str]| {
        let result = json(&trace, args);
        result["theoretical"]["prefix_hits"].as_u64().expect("a count")
    };
    for groups in ["full", "full+window:64", "full+2*mamba"] {
        let engine = ["--engine", "vllm", "--attention", groups, "--capacities", "9000p"];
        let with = [&engine[..], &["--draft-head"]].concat();
        let lost = unlimited(&engine) - unlimited(&with);
        let result = json(&trace, &[&with[..], &["--per-request", rows.to_str().expect("UTF-8")]].concat());
        assert_eq!(result["draft_head"]["lost_page_hits"], lost, "{groups}");
        let text = std::fs::read_to_string(&rows).expect("the rows");
        let of_row =
            |row: &str| serde_json::from_str::<Value>(row).expect("a row")["draft_head_pages"].as_u64();
        assert_eq!(text.lines().filter_map(of_row).sum::<u64>(), lost, "{groups}");
        let accesses = result["trace"]["page_accesses"].as_u64().expect("a count");
        let points = lost as f64 * 100.0 / accesses as f64;
        assert!(points > 0.0 && points < 0.1, "{groups}: {points}, told with two decimals");
        let text = printed(&trace, &with);
        let first: Vec<&str> = text.lines().take(4).collect();
        let said = format!("draft head: {points:.2} points. With unlimited capacity");
        assert!(first.iter().any(|line| line.starts_with(&said)), "{groups}: {said} in {first:?}");
        assert_eq!(result["ceiling"].is_null(), groups == "full", "{groups}");
        let notes = kvset(&["replay"]).args(&with).arg(&trace).assert().success().get_output().stderr.clone();
        let notes = String::from_utf8(notes).expect("UTF-8");
        assert_eq!(
            notes.contains("--draft-layers full models one in full groups alone"),
            groups.contains("window"),
            "{notes}"
        );
    }
    assert!(json(&trace, &["--engine", "vllm"])["draft_head"].is_null());
}

/// Where prompts of several turns part, most pages go on with the same token all the same: what a log of page ids
/// leaves open is told from both ends, and what SGLang found lies between them.
#[test]
fn what_sglang_finds_with_a_draft_head_lies_between_both_ends_that_page_ids_leave() {
    let directory = tempfile::tempdir().expect("a directory");
    let rows = directory.path().join("rows.jsonl");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/engines/draft_head");
    let trace = folder.join("sglang-0.5.23_pages-64.jsonl.zst");
    let recorded = std::fs::read_to_string(folder.join("sglang-0.5.23_pages-64.json")).expect("the fixture");
    let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
    let list = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .expect("a list")
            .iter()
            .map(|each| each.as_str().expect("a text").to_owned())
            .collect()
    };
    let args = list(&recorded["args"]);
    let args: Vec<&str> = args.iter().map(String::as_str).chain(["--capacities", "2000p"]).collect();
    let result = json(&trace, &[&args[..], &["--per-request", rows.to_str().expect("UTF-8")]].concat());
    let count = |value: &Value| value.as_u64().expect("a count");
    let answers = recorded["answers"][0]["prefix_hits"].as_array().expect("a list");
    let text = std::fs::read_to_string(&rows).expect("the rows");
    let (mut lower, mut upper, mut found) = (0, 0, 0);
    for (row, answer) in text.lines().zip(answers) {
        let row: Value = serde_json::from_str(row).expect("a row");
        let lowest = count(&row["prefix_hits"][0]);
        // A prompt of less than a page leaves nothing open.
        let ends = [lowest, row["at_most"]["prefix_hits"][0].as_u64().unwrap_or(lowest)];
        assert!((ends[0]..=ends[1]).contains(&count(answer)), "{row}: SGLang found {answer}");
        (lower, upper, found) = (lower + ends[0], upper + ends[1], found + count(answer));
    }
    assert_eq!(
        (text.lines().count(), lower < found && found < upper),
        (300, true),
        "{lower}, {found}, {upper}"
    );
    let point = &result["capacities"][0];
    assert_eq!([&point["prefix_hits"], &point["at_most"]["prefix_hits"]].map(count), [lower, upper]);
    let head = &result["draft_head"];
    assert!(head["points"].is_null() && head["hit_rate"].is_null(), "no end is the answer: {head}");
    let points = |end: &str| head[end]["points"].as_f64().expect("points");
    assert!(points("at_least") < 0.7 && points("at_most") > 4.0, "{head}");
    let said = printed(&trace, &args);
    let first: Vec<&str> = said.lines().take(4).collect();
    let range = format!("draft head: {:.1} to {:.1} points.", points("at_least"), points("at_most"));
    assert!(first.iter().any(|line| line.starts_with(&range)), "{range} in {first:?}");
    assert!(said.contains("at least") && said.contains("ends exactly at a page's edge"), "{said}");
    assert!(!said.contains("the last page of each hit"), "that is vLLM's rule: {said}");
}

/// Prompts of few words over shared beginnings, with answers that come back: different pages begin alike.
fn chats(requests: u64) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut state = 7_u64;
    let mut below = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let mut made: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
    for _ in 0..requests {
        let mut prompt = match below(5) {
            0 => vec![1; 40],
            kind if !made.is_empty() => {
                let (prompt, answer) = &made[below(made.len() as u64) as usize];
                let whole = [&prompt[..], if kind < 3 { &answer[..] } else { &[] }].concat();
                let length = if kind == 4 { whole.len() } else { whole.len() - below(20) as usize };
                whole[..length].to_vec()
            }
            _ => vec![2; 33],
        };
        let more = below(30) as usize;
        prompt.extend((0..more).map(|_| 3 + below(2) as u32));
        let answer = (0..below(25)).map(|_| 3 + below(3) as u32).collect();
        made.push((prompt, answer));
    }
    made
}

/// SGLang's rule, token by token: a page is found with the token behind it, and the last token of a prompt never is.
fn found_in_pairs(earlier: &[Vec<u32>], prompt: &[u32], page: usize) -> usize {
    let common = |one: &Vec<u32>| one.iter().zip(prompt).take_while(|(one, other)| one == other).count();
    let longest = earlier.iter().map(common).max().unwrap_or(0);
    (longest.saturating_sub(1) / page).min(prompt.len().saturating_sub(2) / page)
}

/// A log of tokens left the same range as one of page ids, though it has the token behind each page.
#[test]
fn a_log_of_tokens_says_exactly_what_sglang_finds_with_a_draft_head() {
    const PAGE: usize = 16;
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, rows) = (directory.path().join("tokens.jsonl"), directory.path().join("rows.jsonl"));
    let made = chats(300);
    let line = |(at, (prompt, answer)): (usize, &(Vec<u32>, Vec<u32>))| {
        serde_json::json!({
            "timestamp": 1_700_000_000_000_u64 + at as u64 * 1000,
            "prompt_token_ids": prompt, "output_token_ids": answer, "output_tokens": answer.len(),
        })
        .to_string()
    };
    let mut lines: Vec<String> = made.iter().enumerate().map(line).collect();
    // Requests that wait for earlier ones keep their tokens.
    lines.swap(20, 21);
    std::fs::write(&trace, lines.join("\n")).expect("a folder of our own");
    let args = ["--engine", "sglang", "--draft-head", "--page-size", "16", "--capacities", "60p,90000p"];
    let result = json(&trace, &[&args[..], &["--per-request", rows.to_str().expect("UTF-8")]].concat());
    let mut earlier = Vec::new();
    let text = std::fs::read_to_string(&rows).expect("the rows");
    let mut plain = 0;
    for (row, (prompt, answer)) in text.lines().zip(&made) {
        let row: Value = serde_json::from_str(row).expect("a row");
        let found = found_in_pairs(&earlier, prompt, PAGE);
        assert_eq!(row["prefix_hits"][1], found, "{row}");
        assert_eq!(
            (&row["theoretical_prefix_hits"], &row["at_most"]),
            (&found.into(), &Value::Null),
            "{row}"
        );
        plain += found as u64 + row["draft_head_pages"].as_u64().expect("pages");
        let stored = &answer[..answer.len().saturating_sub(1)];
        earlier.push([prompt, stored].concat());
    }
    assert_eq!(text.lines().count(), 300);
    let head = &result["draft_head"];
    let lost = head["lost_page_hits"].as_u64().expect("one figure");
    assert!(lost > 10 && result["capacities"][1]["at_most"].is_null(), "{head}");
    assert_eq!(plain - lost, result["theoretical"]["prefix_hits"], "{head}");
    let tuned = kvset(&["tune", "--json", "--engine", "sglang", "--draft-head", "--page-size", "16"])
        .args(["--provisioned", "90000p"])
        .arg(&trace)
        .assert()
        .success();
    let tuned: Value = serde_json::from_slice(&tuned.get_output().stdout).expect("JSON");
    assert_eq!(tuned["base"]["hit_pages"], result["capacities"][1]["prefix_hits"]);
    assert!(tuned["base"]["hit_pages_at_most"].is_null(), "{}", tuned["base"]);
}

/// A page and the one behind it are the pair there, so there is one figure; its sentence spoke of vLLM's rule.
#[test]
fn a_head_over_pages_of_one_token_has_one_figure_in_sglang() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("tokens.jsonl");
    let row = |turn: u64| {
        let tokens: Vec<u64> = (0..40 + turn).chain([1000 + turn]).collect();
        serde_json::json!({"timestamp": 1_700_000_000_000 + turn * 1000, "prompt_token_ids": tokens, "output_tokens": 1}).to_string()
    };
    std::fs::write(&trace, (0..20).map(row).collect::<Vec<_>>().join("\n")).expect("a folder of our own");
    let args = ["--engine", "sglang", "--draft-head", "--page-size", "1", "--capacities", "2000p"];
    let result = json(&trace, &args);
    let point = &result["capacities"][0];
    assert!(
        point["prefix_hits"].as_u64().is_some_and(|hits| hits > 0) && point["at_most"].is_null(),
        "{point}"
    );
    assert!(result["draft_head"]["points"].is_number(), "{}", result["draft_head"]);
    let said = printed(&trace, &args);
    assert!(said.contains("lose to a head") && !said.contains("the last page of each hit"), "{said}");
}

/// A config of windows that lists its prediction layers behind the others, or by themselves, or does not.
#[test]
fn a_config_that_lists_the_heads_layers_says_which_groups_they_lie_in() {
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, config) = (generated(directory.path()), directory.path().join("config.json"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/model/gpt-oss-120b.json");
    let text = std::fs::read_to_string(path).expect("the fixture");
    let own: Value = serde_json::from_str(&text).expect("JSON");
    let listed = |name: &str, kinds: &[&str]| {
        let mut own = own.clone();
        own["num_nextn_predict_layers"] = kinds.len().into();
        let mut list = own[name].as_array().cloned().unwrap_or_default();
        list.extend(kinds.iter().map(|kind| Value::from(*kind)));
        own[name] = list.into();
        own
    };
    let (full, window) = ("full_attention", "sliding_attention");
    for (own, taken) in [
        (own.clone(), None),
        (listed("layer_types", &[full]), Some("full")),
        (listed("layer_types", &[window, window]), Some("windows")),
        (listed("layer_types", &[full, window]), Some("all")),
        (listed("mtp_layer_types", &[window]), Some("windows")),
    ] {
        std::fs::write(&config, own.to_string()).expect("a writable folder");
        let args = ["--engine", "vllm", "--capacities", "9000p", "--draft-head", "--model-config"];
        let run = |more: &[&str]| {
            let output = kvset(&["replay", "--json"]).args(args).arg(&config).args(more).arg(&trace).output();
            let output = output.expect("a run");
            let notes = String::from_utf8(output.stderr).expect("UTF-8");
            assert!(output.status.success(), "{notes}");
            (String::from_utf8(output.stdout).expect("UTF-8"), notes)
        };
        let (result, notes) = run(&[]);
        let said = taken.map(|layers| format!("the model's config lists: --draft-layers {layers}\n"));
        assert!(said.is_none_or(|said| notes.contains(&said)), "{taken:?}: {notes}");
        assert_eq!(notes.contains("--draft-layers full models"), taken.is_none_or(|layers| layers == "all"));
        assert_eq!(result, run(&["--draft-layers", taken.unwrap_or("all")]).0, "{taken:?}");
        assert!(!run(&["--draft-layers", "full"]).1.contains("--draft-layers"), "it was requested");
    }
}

/// Only a log that says how long requests take says that they overlap.
#[test]
fn requests_that_overlap_over_vllms_own_tier_come_with_a_note() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    for (duration, is_noted) in [(",\"duration_ms\":900", true), ("", false)] {
        let row = |at: u64| {
            format!(
                "{{\"timestamp\":{at},\"input_length\":32,\"output_length\":2,\"hash_ids\":[1,{at}]{duration}}}\n"
            )
        };
        std::fs::write(&trace, (0..4).map(row).collect::<String>()).expect("a writable folder");
        for groups in ["full+window:32", "full"] {
            let output = kvset(&["replay", "--engine", "vllm", "--page-size", "16", "--capacities", "90p"])
                .args(["--attention", groups, "--below", "vllm-offload:90p"])
                .arg(&trace)
                .assert()
                .success();
            let notes = String::from_utf8(output.get_output().stderr.clone()).expect("UTF-8");
            let says = notes.contains("are taken one after another over vLLM's tier");
            assert_eq!(says, is_noted && groups != "full", "{duration} {groups}: {notes}");
        }
    }
}

#[test]
fn vllms_own_tier_is_told_its_options_behind_its_size() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let hits = |tier: &str| {
        let result = json(&trace, &["--engine", "vllm", "--capacities", "600p", "--below", tier]);
        let below = &result["capacities"][0]["below"][0];
        (below["tier"].as_str().expect("a name").to_owned(), below["page_hits"].as_u64().expect("a count"))
    };
    let plain = hits("vllm-offload:1500p");
    assert_eq!(hits("vllm-offload:1500p:policy=lru,store_threshold=0"), plain);
    for options in ["policy=arc", "store_threshold=2", "blocks_per_chunk=4"] {
        let (name, found) = hits(&format!("vllm-offload:1500p:{options}"));
        assert_eq!(name, format!("vllm-offload:1500p:{options}"));
        assert!(found > 0 && found != plain.1, "{options}: {found}");
        assert_eq!(hits(&format!("vllm-offload:1500p,{options}")).1, found);
    }
}

#[test]
fn vllms_own_tier_under_several_groups_says_how_many_pages_of_all_of_them_it_holds() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let with = ["--engine", "vllm", "--attention", "full+window:128"];
    let with = [&with[..], &["--capacities", "3000p", "--below", "vllm-offload:2001p"]].concat();
    let result = json(&trace, &with);
    let options = &result["trace"]["engine_options"];
    assert_eq!((&options["vllm_offload"], &options["overlap"]), (&"2001p".into(), &Value::Null));
    let below = &result["capacities"][0]["below"][0];
    let count = |field: &str| below[field].as_u64().unwrap_or_else(|| panic!("{field} in {below}"));
    assert_eq!((count("pages"), count("pages_of_all_groups")), (2001, 1000));
    assert_eq!(count("fair_pages_of_all_groups"), 1000);
    assert!(count("page_hits") > 0 && count("page_writes") > 0);
    let text = printed(&trace, &with);
    assert!(text.contains("2,001 blocks of one group of layers each: 1,000 pages of all groups"), "{text}");
    let every = ["--retention-interval", "64", "--below", "vllm-offload:2001p:blocks_per_chunk=8"];
    let odd = [&with[..with.len() - 2], &every[..]].concat();
    let output = kvset(&["replay"]).args(&odd).arg(&trace).assert().failure().get_output().stderr.clone();
    let text = String::from_utf8(output).expect("UTF-8");
    assert!(text.contains("no multiple of a chunk of the tier below"), "{text}");
}

#[test]
fn what_does_not_go_together_is_refused_with_the_cure() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = generated(directory.path());
    let below = ["--capacities", "9p", "--below", "vllm-offload:9p"];
    for (args, expected) in [
        (&["--engine", "lmcache", "--draft-head"][..], "--draft-head is an option of vllm and sglang"),
        (
            &["--engine", "sglang", "--draft-head", "--capacities", "99p", "--below", "hicache:9p"],
            "leave --below hicache out",
        ),
        (&["--engine", "vllm", "--draft-head=0"], "expected a whole number from 1 to 64"),
        (
            &["--engine", "vllm", "--draft-head", "--draft-layers", "full"],
            "--attention such as full+window:128",
        ),
        (&["--engine", "vllm", "--draft-layers", "heads"], "possible values: all, full, windows"),
        (&["--engine", "vllm", "--prefill-chunk", "512"], "--below vllm-offload"),
        (
            &["--engine", "vllm", "--retention-interval", "none", "--draft-head"],
            "--retention-interval is of vllm",
        ),
        (&[&["--engine", "sglang"], &below[..]].concat(), "choose --engine vllm"),
        (
            &[&["--engine", "vllm", "--attention", "full+mamba", "--overlap", "on"], &below[..]].concat(),
            "leave --below vllm-offload out",
        ),
        (&[&["--engine", "vllm", "--below", "mooncake:9p"], &below[..]].concat(), "name it alone"),
        (
            &["--engine", "vllm", "--capacities", "9p", "--below", "vllm-offload:9p:policy=fifo"],
            "expected policy=lru or policy=arc",
        ),
        (
            &[&["--engine", "vllm"], &below[..3], &["vllm-offload:9p:secondary=fs"]].concat(),
            "no option of vllm-offload",
        ),
    ] {
        let output = kvset(&["replay"]).args(args).arg(&trace).assert().code(2).get_output().stderr.clone();
        let text = String::from_utf8(output).expect("UTF-8");
        assert!(text.contains(expected), "{args:?}: {text}");
    }
}
