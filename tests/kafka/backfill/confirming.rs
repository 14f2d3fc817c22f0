//! What a backfill recommends where requests computed pages again, which one pass does not tell exactly.

use super::command::backfill;
use super::*;
use crate::program::kvset;
use serde_json::{Value, json};

const REQUESTS: u64 = 400;

/// Prompts of whole pages that come again whole, and some that go on behind them; or prompts that are all different.
fn prompts(repeats: bool) -> impl Iterator<Item = Value> {
    let mut state = 7_u64;
    let mut draw = move |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    (0..REQUESTS).map(move |number| {
        let family = if repeats { draw(12) } else { 1000 + number };
        let behind = if draw(3) == 0 { 1 + draw(3) } else { 0 };
        let shared = (0..2 + family % 5).map(|depth| family * 1000 + depth);
        let ids: Vec<u64> = shared.chain((0..behind).map(|depth| family * 1000 + 100 + depth)).collect();
        json!({
            "event_time": 36_000_000 + number * 500, "page_ids": ids, "ids_chained": true, "page_size": 16,
            "input_tokens": 16 * ids.len(), "output_tokens": 1,
        })
    })
}

fn log() -> Input {
    let mut input = Input::default();
    for (partition, pool) in ["repeating", "fresh"].iter().enumerate() {
        for prompt in prompts(*pool == "repeating") {
            input.push(partition as i32, pool, prompt.to_string().into_bytes());
        }
    }
    input
}

/// What is recommended of the log of one pool.
fn replayed(folder: &Path) -> Value {
    let lines: String = prompts(true).map(|prompt| format!("{prompt}\n")).collect();
    let file = folder.join("repeating.jsonl");
    std::fs::write(&file, lines).expect("a disk");
    let asked = ["--json", "--engine", "vllm", "--min-requests", "1", "--format", "events"];
    let output = kvset(&["replay"]).args(asked).arg(&file).assert().success();
    serde_json::from_slice(&output.get_output().stdout).expect("JSON")
}

#[test]
fn what_a_backfill_recommends_of_pages_that_are_computed_again_is_what_a_replay_of_its_records_does() {
    let Some(bench) = Bench::all(&log()).into_iter().next() else { return };
    let config = bench.configure();
    bench.options("again", "earliest", "latest", BackfillWarmUp::None);
    let page = bench.folder.path().join("report.html");
    let run = |more: &[&str]| {
        let args = [&["--from", "earliest", "--run-id", "again"][..], more].concat();
        let mut command = backfill(&config, &args);
        command.env("KVSET__ESTIMATE__ENGINE", "vllm").env("KVSET__ESTIMATE__MIN_REQUESTS", "1");
        command.assert().success().get_output().stdout.clone()
    };
    let shown: Value = serde_json::from_slice(&run(&["--json"])).expect("JSON");
    let confirmed = &shown["confirmed"];
    let pools: Vec<_> = confirmed["pools"].as_array().expect("pools").iter().collect();
    assert_eq!((pools.len(), confirmed["in_doubt"].as_u64()), (1, Some(0)), "{confirmed}");
    let replayed = replayed(bench.folder.path());
    let of = |result: &Value| -> Vec<_> {
        let entries = result["recommended"].as_array().expect("recommended").iter();
        entries
            .map(|entry| (entry["coverage"].clone(), entry["pages"].clone(), entry["hit_rate"].clone()))
            .collect()
    };
    assert_eq!(pools[0]["pool"], "repeating");
    assert_eq!(of(pools[0]), of(&replayed));
    assert_eq!(pools[0]["second_copies"], replayed["second_copies"]);

    // The workload could have shown the difference: one pass recommends another size, or other hits at it.
    let published = Published::read(
        &bench.broker,
        &OutputTopics {
            results: topic_of(&bench.settings.output.topic),
            dead_letters: topic_of(&bench.settings.output.dead_letter_topic),
        },
    );
    let of_all = |estimate: &Estimate| estimate.window == WindowKind::All && estimate.pool == "repeating";
    let last = estimates(&published).filter(of_all).last().expect("an estimate of all");
    let one_pass: Value = serde_json::to_value(&last).expect("JSON");
    assert_ne!(of(&one_pass), of(&replayed));

    let text = String::from_utf8(run(&["--report", page.to_str().expect("a path")])).expect("UTF-8");
    assert!(
        text.contains("each capacity modelled by itself") && text.contains("1 pool computed pages again"),
        "{text}"
    );
    assert!(std::fs::read_to_string(&page).expect("written").contains("Pool repeating, each capacity"));
    let left: Vec<_> = walk(&bench.settings.state.directory);
    assert!(left.iter().all(|path| !path.contains("confirming")), "{left:?}");
}

fn topic_of(live: &TopicName) -> OutputTopic {
    OutputTopic {
        name: format!("{live}.backfill.again"),
        partitions: NonZeroU32::new(PARTITIONS).expect("not zero"),
    }
}

/// Everything in a folder, by path.
fn walk(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            let path = entry.path();
            let below = if path.is_dir() { walk(&path) } else { Vec::new() };
            below.into_iter().chain([path.display().to_string()])
        })
        .collect()
}
