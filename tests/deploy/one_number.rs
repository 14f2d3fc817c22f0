//! One run of the program, and one number: record, API, page, `watch`, metric, dashboard, alert and the example
//! consumer recommend the same capacity.

use super::kafka_support::process::Instance;
use super::kafka_support::{Broker, Input};
use super::python_support::python;
use super::queries::{self, Asked};
use super::running::{SOON, serves_on};
use super::{path, promql};
use assert_cmd::Command;
use kvset::codec::decode_estimate;
use kvset::core::estimate::{Estimate, SCHEMA_VERSION};
use kvset::core::sizing::recommendation::Recommendation;
use kvset::core::units::Bytes;
use kvset::workload::{Generator, Workload};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const POOL: &str = "alpha";
const REQUESTS: usize = 4000;
/// Requests produced at a time.
const STEP: usize = 200;
/// Less than any such load needs.
const PROVISIONED: &str = "1GiB";

/// A load whose requests overlap, so that the recommendation is not the requirement; by and by, for the embedded broker
/// forgets what lies unread.
fn load() -> impl Iterator<Item = Input> {
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
    let mut generated = Generator::new(workload).expect("a workload").take(REQUESTS);
    std::iter::from_fn(move || {
        let mut input = Input::default();
        generated.by_ref().take(STEP).for_each(|request| input.push_row(0, POOL, &request.as_row()));
        (input.records() > 0).then_some(input)
    })
}

fn configure(broker: &Broker, folder: &Path) -> PathBuf {
    let file = folder.join("kvset.toml");
    let (brokers, topic) = (&broker.connection.brokers, |name: &str| broker.topic(name));
    let text = format!(
        "[kafka]\nbrokers = \"{brokers}\"\ngroup = \"{}\"\nproperties = {{ \"session.timeout.ms\" = 6000 }}\n\
         [input]\ntopic = \"{}\"\n\
         [output]\ntopic = \"{}\"\ndead_letter_topic = \"{}\"\ndelivery = \"{}\"\n\
         [estimate]\nkv_bytes_per_token = 61464\nprovisioned = \"{PROVISIONED}\"\n\
         capacities = [\"1GiB\", \"10GiB\", \"1TiB\"]\n\
         [state]\ndirectory = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n",
        topic("one-number"),
        topic("requests"),
        topic("estimates"),
        topic("dead-letters"),
        if broker.is_real() { "transactional" } else { "idempotent" },
        folder.join("state").display(),
    );
    std::fs::write(&file, text).expect("a disk");
    file
}

fn get(address: &str, path: &str) -> String {
    let config = ureq::Agent::config_builder().timeout_global(Some(SOON));
    let mut answer = config.build().new_agent().get(format!("{address}{path}")).call().expect("answered");
    answer.body_mut().read_to_string().expect("text")
}

/// A sample of a scrape: its series, and its value.
fn samples<'a>(scraped: &'a str, name: &str) -> Vec<(&'a str, f64)> {
    let of_name = scraped.lines().filter_map(|line| line.strip_prefix(name));
    let sample =
        |rest: &'a str| rest.rsplit_once(' ').and_then(|(labels, value)| Some((labels, value.parse().ok()?)));
    of_name.filter(|rest| rest.starts_with('{')).filter_map(sample).collect()
}

/// What the first selector of a query finds: the query's value where it takes the most of one series.
fn selected(asked: &Asked, scraped: &str) -> (String, f64) {
    let selector = promql::selectors(&asked.text).remove(0);
    let name = selector.split('{').next().expect("a name").to_owned();
    let found = samples(scraped, &name);
    let [(labels, value)] = found[..] else { panic!("{}: {found:?} of {selector}", asked.place) };
    assert!(labels.contains(&format!("pool=\"{POOL}\"")), "{labels}");
    (name, value)
}

fn query(asked: Vec<Asked>, place: &str) -> Asked {
    asked.into_iter().find(|asked| asked.place.contains(place)).unwrap_or_else(|| panic!("no {place}"))
}

/// Runs the program over the whole log.
fn run(broker: &Broker, config: &Path) -> (Instance, String) {
    let requests = broker.create("requests", 1);
    for topic in ["estimates", "dead-letters"] {
        broker.create(topic, 1);
    }
    let mut instance = Instance::start(config, config.with_extension("log"));
    let address = serves_on(&mut instance);
    let (mut produced, begin) = (0, Instant::now());
    for input in load() {
        input.produce(&broker.connection, &requests);
        produced += input.records();
        while consumed(&address) < produced {
            assert!(begin.elapsed() < SOON, "{produced}: {}", instance.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    instance.signal("TERM");
    assert!(instance.wait(SOON).success(), "everything is committed: {}", instance.said());
    let mut instance = Instance::start(config, config.with_extension("again.log"));
    let (address, begin) = (serves_on(&mut instance), Instant::now());
    while !get(&address, "/metrics").contains("kvset_recommendation_status{") {
        assert!(begin.elapsed() < SOON, "{}", instance.said());
        std::thread::sleep(Duration::from_millis(50));
    }
    (instance, address)
}

/// Records that the program has taken.
fn consumed(address: &str) -> u64 {
    let scraped = get(address, "/metrics");
    samples(&scraped, "kvset_consumed_records_total").iter().map(|sample| sample.1).sum::<f64>() as u64
}

/// The newest record of the window to act on.
fn record(broker: &Broker) -> (Value, Estimate) {
    let read = broker.read_all(&broker.topic("estimates"));
    let of = |header: &str, record: &kvset::kafka::reader::ReadRecord| {
        let found = record.headers.iter().find(|(name, _)| name == header);
        String::from_utf8(found.expect(header).1.clone()).expect("text")
    };
    let newest =
        read.iter().rfind(|record| of("kvset_act_on", record) == "true").expect("a record to act on");
    assert_eq!(
        (of("kvset_schema_version", newest), of("kvset_window", newest)),
        (SCHEMA_VERSION.to_string(), "last:3000".into())
    );
    let value = newest.value.as_deref().expect("an estimate");
    assert!(value.len() <= 2112 + 3 * 400, "{} bytes with three named capacities", value.len());
    (serde_json::from_slice(value).expect("JSON"), decode_estimate(value).expect("an estimate"))
}

fn to_act_on(estimate: &Estimate) -> Recommendation {
    let acted_on: Vec<_> = estimate.recommended.iter().filter(|entry| entry.act_on).collect();
    assert_eq!(acted_on.len(), 1);
    acted_on[0].clone()
}

/// What `kvset watch` prints.
fn watched(config: &Path, more: &[&str]) -> String {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    command.args(["watch", "--from-beginning", "--until-end", "--config"]).arg(config).args(more);
    String::from_utf8(command.assert().success().get_output().stdout.clone()).expect("UTF-8")
}

/// What the example consumer makes of a file of its own.
fn resized(broker: &Broker, folder: &Path) -> u64 {
    let mut command = std::process::Command::new(python());
    command.arg(path("docs/examples/consumer.py")).current_dir(folder).stdin(Stdio::null());
    command.args([&broker.connection.brokers, &broker.topic("estimates")]);
    command.args(["sh", "-c", "truncate -s \"$2\" \"$1\"", "resize"]);
    let mut child = command.spawn().expect("it starts");
    let begin = Instant::now();
    let size = loop {
        if let Ok(file) = folder.join(POOL).metadata() {
            break file.len();
        }
        assert!(
            child.try_wait().expect("our child").is_none() && begin.elapsed() < SOON,
            "nothing was resized"
        );
        std::thread::sleep(Duration::from_millis(100));
    };
    child.kill().and_then(|()| child.wait()).expect("our child");
    size
}

/// Page and `watch` said 90.5 GiB, record, consumer, metric, alert and dashboard 55.6.
#[test]
fn everything_that_recommends_recommends_one_number() {
    for broker in Broker::all() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = configure(&broker, folder.path());
        let (_instance, address) = run(&broker, &config);

        let (json, estimate) = record(&broker);
        let number = to_act_on(&estimate);
        let (pages, bytes) = (number.pages.expect("ready"), number.bytes.expect("a cost per token"));
        assert!(number.pages > number.required_pages, "there is room for requests in flight: {number:?}");
        assert!(number.hit_rate.is_some(), "counted at that size: {number:?}");
        let entry =
            json["recommended"].as_array().and_then(|all| all.iter().find(|entry| entry["act_on"] == true));
        assert_eq!(entry.expect("readable")["coverage"], "p99");

        let api: Value =
            serde_json::from_str(&get(&address, "/api/v1/estimates?window=last:3000")).expect("JSON");
        let shown: Estimate = serde_json::from_value(api["estimates"][0].clone()).expect("an estimate");
        assert_eq!(to_act_on(&shown), number, "the API");

        let size = Bytes(bytes).to_string();
        let page = get(&address, "/");
        let tile = format!("{} pages, {} bytes\">{size}</dd>", grouped(pages), grouped(bytes));
        assert!(page.contains(&tile), "the page has no {tile}: {page}");

        let lines = watched(&config, &["--json"]);
        let mut estimates =
            lines.lines().map(|line| serde_json::from_str::<Estimate>(line).expect("an estimate"));
        assert_eq!(
            to_act_on(&estimates.rfind(|estimate| estimate.act_on).expect("one")),
            number,
            "watch --json"
        );
        let text = watched(&config, &[]);
        let line = text.lines().rfind(|line| line.contains("last:3000 (act on)")).expect("a line");
        assert!(line.contains(&format!(" 99 % {size}")), "watch: {line}: {size}");

        let scraped = get(&address, "/metrics");
        let series = format!("{{pool=\"{POOL}\",window=\"last:3000\",coverage=\"0.99\"}}");
        assert_eq!(samples(&scraped, "kvset_recommended_capacity_bytes"), [(&*series, bytes as f64)]);
        assert_eq!(samples(&scraped, "kvset_recommended_capacity_pages"), [(&*series, pages as f64)]);
        let panel = query(queries::dashboard(), "Recommended capacity");
        assert_eq!(selected(&panel, &scraped), ("kvset_recommended_capacity_bytes".to_owned(), bytes as f64));
        let alert = query(queries::alerts(), "KvsetCacheTooSmall");
        let held = number.held_pages.expect("windows closed");
        assert_eq!(selected(&alert, &scraped), ("kvset_held_capacity_pages".to_owned(), held as f64));
        assert!(number.pages <= Some(held), "it rises at once: {number:?}");
        let provisioned = samples(&scraped, "kvset_provisioned_capacity_pages")[0].1;
        assert!(pages as f64 > provisioned, "so the alert fires");
        assert!(page.contains("<p>Too small: "), "and the page says so");

        if broker.is_real() {
            // It holds what the day's peak needs.
            let lines = watched(&config, &["--json"]);
            let all = lines.lines().map(|line| serde_json::from_str::<Estimate>(line).expect("an estimate"));
            let acted_on = all.filter(|estimate| estimate.act_on).map(|estimate| to_act_on(&estimate).bytes);
            assert_eq!(
                Some(resized(&broker, folder.path())),
                acted_on.max().flatten(),
                "the example consumer"
            );
        }
    }
}

fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}
