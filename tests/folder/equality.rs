//! A folder's estimates are those of the same events through Kafka, and what a replay of its files says.

use crate::bench::{Bench, SETTINGS, events};
use crate::kafka_support::{Broker, Input, Published, serve_records};
use crate::program::kvset;
use kvset::settings::Settings;
use serde_json::Value;
use std::path::Path;

const RECORDS: usize = 1500;

/// In one file, in files that were rotated and compressed, and in files of two writers.
fn benches(lines: &[String]) -> Vec<Bench> {
    let [one, rotated, two] = [Bench::new(), Bench::new(), Bench::new()];
    one.write("log.jsonl", lines);
    let packed = zstd::encode_all(crate::bench::joined(&lines[..400]).as_bytes(), 3).expect("memory");
    std::fs::write(rotated.path("log.jsonl.2.zst"), packed).expect("written");
    rotated.write("log.jsonl.1", &lines[400..900]);
    rotated.write("log.jsonl", &lines[900..]);
    for (number, line) in lines.iter().enumerate() {
        two.append(&format!("requests-host{}-1.jsonl", number * number % 7 % 2), &format!("{line}\n"));
    }
    vec![one, rotated, two]
}

fn by_pool(estimates: &[String]) -> Vec<(String, Vec<Vec<u8>>)> {
    let mut pools: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    for line in estimates {
        let pool =
            serde_json::from_str::<Value>(line).expect("JSON")["pool"].as_str().expect("a pool").to_owned();
        match pools.iter_mut().find(|(name, _)| *name == pool) {
            Some((_, lines)) => lines.push(line.clone().into_bytes()),
            None => pools.push((pool, vec![line.clone().into_bytes()])),
        }
    }
    pools.sort();
    pools
}

/// Byte for byte, however the files lie there.
#[test]
fn estimates_are_those_of_a_topic() {
    let mut lines = events(3, RECORDS, "alpha");
    lines.iter_mut().skip(1).step_by(3).for_each(|line| *line = line.replace("\"alpha\"", "\"beta\""));
    let settings = Settings::of_file(Some((Path::new("kvset.toml"), SETTINGS)), []).expect("settings");
    let mut input = Input::default();
    for line in &lines {
        let pool = if line.contains("\"beta\"") { "beta" } else { "alpha" };
        input.push(0, pool, line.clone().into_bytes());
    }
    let folders: Vec<_> = benches(&lines)
        .into_iter()
        .map(|bench| {
            let ran = bench.run("run");
            assert_eq!((ran.succeeded, ran.records), (true, RECORDS as u64), "{}", ran.said);
            by_pool(&bench.published("run")[0])
        })
        .collect();
    assert!(folders[0].len() == 2 && folders[0].iter().all(|(_, estimates)| estimates.len() > 20));
    for broker in Broker::all() {
        broker.create("requests", 1);
        input.produce(&broker.connection, &broker.topic("requests"));
        let plan = broker.plan(&settings, "run", 1);
        serve_records(&plan, RECORDS as u64).expect("served");
        let published = Published::read(&broker, &plan.stream.outputs);
        let values = |estimates: Vec<_>| estimates.into_iter().filter_map(|(_, value)| value).collect();
        let topic: Vec<(String, Vec<Vec<u8>>)> =
            published.estimates.into_iter().map(|(pool, estimates)| (pool, values(estimates))).collect();
        println!(
            "{} estimates of {} pools, real: {}",
            topic.iter().map(|it| it.1.len()).sum::<usize>(),
            topic.len(),
            broker.is_real()
        );
        for (at, folder) in folders.iter().enumerate() {
            assert!(*folder == topic, "folder {at} says something else than the topic");
        }
    }
}

/// The newest estimate of everything says what `kvset replay` says of the requests that it covers.
#[test]
fn estimates_are_those_of_a_replay() {
    let lines = events(5, RECORDS, "alpha");
    let bench = Bench::new();
    bench.write("log.jsonl", &lines);
    let ran = bench.run("run");
    assert!(ran.succeeded, "{}", ran.said);
    let estimates = bench.published("run")[0]
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect::<Vec<Value>>();
    let newest = estimates.iter().rfind(|estimate| estimate["window"] == "all").expect("one of everything");
    let covered = newest["requests"].as_u64().expect("a number") as usize;
    assert!((1000..=RECORDS).contains(&covered), "{covered}");
    bench.write("covered.txt", &lines[..covered]);
    let output = kvset(&["replay", "--json", "--coverage", "0.5,0.9,0.95,0.99,0.999"])
        .arg(bench.path("covered.txt"))
        .output()
        .expect("run");
    let replayed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let pages = |list: &Value, name: &str| {
        list.as_array().into_iter().flatten().map(|it| it[name].as_u64()).collect::<Vec<_>>()
    };
    let says = pages(&newest["recommended"], "required_pages");
    assert_eq!(says, pages(&replayed["required"][0]["coverage"], "pages"), "{newest}\n{replayed}");
    assert!(says.len() == 5 && says.iter().all(Option::is_some), "{says:?}");
}
