//! The example programs of the documentation, run against a broker.

use super::kafka_support::{Broker, Input};
use super::python_support::{output_of, python};
use super::root;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kvset::core::units::EventTime;
use kvset::kafka::topic_producer::TopicProducer;
use kvset::service::plan::task_config;
use kvset::settings::{Settings, TokenCost};
use kvset::workload::{Generator, Workload};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A case of schemas/page-id-vectors.json.
#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    tokens: Vec<u32>,
    page_size: u32,
    namespace: Option<String>,
    include_partial_page: bool,
    page_ids: Vec<String>,
}

/// The cases that leave a last page out that is not full, as the producers do.
fn vectors() -> Vec<Vector> {
    let text = std::fs::read_to_string(root().join("schemas/page-id-vectors.json")).expect("the vectors");
    let all: Vec<Vector> = serde_json::from_str(&text).expect("the vectors");
    let full: Vec<_> = all.into_iter().filter(|vector| !vector.include_partial_page).collect();
    assert!(full.len() >= 8, "only {} vectors", full.len());
    full
}

/// Lets a producer write every vector, keyed by its name, and compares the ids that arrive.
fn gives_the_published_ids(run: &str, producer: impl Fn(&str, &str, u32) -> (Command, &'static str)) {
    let Some(broker) = Broker::real() else { return };
    let topic = broker.create(run, 1);
    let vectors = vectors();
    let page_sizes: BTreeSet<u32> = vectors.iter().map(|vector| vector.page_size).collect();
    for page_size in page_sizes {
        let of_size = vectors.iter().filter(|vector| vector.page_size == page_size);
        let lines = of_size.map(|vector| {
            let mut line = json!({"event_time": 1, "pool": vector.name, "tokens": vector.tokens});
            if let Some(namespace) = &vector.namespace {
                line["namespace"] = json!(namespace);
            }
            format!("{line}\n")
        });
        let (mut command, needs) = producer(&broker.connection.brokers, &topic, page_size);
        output_of(&mut command, &lines.collect::<String>(), needs);
    }
    let arrived: BTreeMap<String, Vec<String>> = broker
        .read_all(&topic)
        .into_iter()
        .map(|record| {
            let name = String::from_utf8(record.key.expect("a pool")).expect("UTF-8");
            let event: Value = serde_json::from_slice(&record.value.expect("an event")).expect("JSON");
            let packed = BASE64_STANDARD.decode(event["page_ids"].as_str().expect("packed ids"));
            let packed = packed.expect("base64");
            let ids = packed.chunks_exact(8).map(|id| u64::from_le_bytes(id.try_into().expect("8 bytes")));
            (name, ids.map(|id| format!("{id:016x}")).collect())
        })
        .collect();
    let expected = vectors.into_iter().map(|vector| (vector.name, vector.page_ids)).collect();
    assert_eq!(arrived, expected);
}

#[test]
fn the_python_producer_gives_the_published_page_ids() {
    gives_the_published_ids("python", |brokers, topic, page_size| {
        let mut command = Command::new(python());
        command.arg(root().join("docs/examples/producer.py"));
        command.args(["--brokers", brokers, "--topic", topic, "--page-size", &page_size.to_string()]);
        (command, "")
    });
}

#[test]
fn the_go_producer_gives_the_published_page_ids() {
    gives_the_published_ids("go", |brokers, topic, page_size| {
        let mut command = Command::new("go");
        command.arg("run").arg("-C").arg(root().join("docs/examples/go-producer")).arg(".");
        command.args(["-brokers", brokers, "-topic", topic, "-page-size", &page_size.to_string()]);
        (command, "needs Go 1.26 or later, and a module proxy to fetch franz-go from")
    });
}

#[test]
fn the_rust_producer_gives_the_published_page_ids() {
    gives_the_published_ids("rust", |brokers, topic, page_size| {
        let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        command.current_dir(root()).args(["run", "--quiet", "--locked", "--package", "producer", "--"]);
        command.args([brokers, topic, &page_size.to_string()]);
        (command, "")
    });
}

/// A published estimate of a pool with these fields changed, and its key. Its recommendation to act on is `bytes`.
fn estimate(pool: &str, end_ms: i64, bytes: u64, changes: Value) -> (String, Value) {
    let path = root().join("tests/fixtures/codec/capacity_estimate.v1.summary.json");
    let text = std::fs::read_to_string(path).expect("a published estimate");
    let mut estimate: Value = serde_json::from_str(&text).expect("JSON");
    estimate["pool"] = json!(pool);
    estimate["end_ms"] = json!(end_ms);
    estimate["warm_up"] = json!(false);
    for name in ["bytes", "held_bytes", "held_pages"] {
        estimate["recommended"][0][name] = json!(bytes);
    }
    for (name, value) in changes.as_object().expect("fields") {
        estimate[name] = value.clone();
    }
    (format!("{}|{end_ms}|{pool}", estimate["window"].as_str().expect("a window")), estimate)
}

/// What the example's files are in the end, as soon as they are all there.
fn sizes_of(folder: &Path, pools: &[&str], child: &mut Child) -> Vec<u64> {
    let begin = Instant::now();
    loop {
        let sizes = pools.iter().map(|pool| folder.join(pool).metadata().map(|file| file.len()));
        if let Ok(sizes) = sizes.collect::<Result<Vec<_>, _>>() {
            return sizes;
        }
        assert!(child.try_wait().expect("our child").is_none(), "the consumer ended");
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing was resized in {}", folder.display());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Followed windows of five minutes with one request each, and resized to 1.2 TiB.
#[test]
fn the_python_consumer_resizes_to_the_number_to_act_on_and_to_no_other() {
    let Some(broker) = Broker::real() else { return };
    let topic = broker.create("recommendations", 1);
    let producer =
        TopicProducer::open(&broker.connection, &topic, Duration::from_secs(30)).expect("a producer");
    let entry = |status: &str, act_on: bool, pages: Option<u64>, bytes: Option<u64>| {
        json!({"recommended": [{
            "coverage": "p99", "target_ratio": 0.99, "act_on": act_on, "status": status, "pages": pages, "bytes": bytes,
            "held_pages": pages, "held_bytes": bytes, "required_pages": 1, "convergence": "converged"
        }]})
    };
    let records = [
        estimate("a", 1000, 100, json!({})),
        estimate("a", 2000, 4096, json!({})),
        estimate("a", 3000, 9999, json!({"warm_up": true})),
        estimate("a", 4000, 0, entry("ready", false, Some(7), Some(1 << 40))),
        estimate("a", 5000, 0, entry("too_few", true, None, None)),
        // Engines that are modelled at each capacity on its own recommend nothing.
        estimate("a", 6000, 0, json!({"recommended": []})),
        // Without a cost per token there are pages only, which are no bytes.
        estimate("c", 1000, 0, entry("ready", true, Some(9), None)),
        estimate("d", 1000, 9, json!({})),
    ];
    for (key, value) in &records {
        let value = value.to_string();
        assert!(value.len() > 300, "{value}");
        producer.send_to(Some(0), key.as_bytes(), value.as_bytes(), None).expect("room");
    }
    assert_eq!(producer.finish().expect("delivered"), records.len() as u64);
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(python());
    command.arg(root().join("docs/examples/consumer.py")).current_dir(&folder);
    command.args([&broker.connection.brokers, &topic, "sh", "-c", "truncate -s \"$2\" \"$1\"", "resize"]);
    let mut child = command.spawn().expect("it starts");
    let sizes = sizes_of(folder.path(), &["a", "d"], &mut child);
    child.kill().and_then(|()| child.wait()).expect("our child");
    assert_eq!(sizes, [4096, 9]);
    assert!(!folder.path().join("c").exists(), "400 pages were handed over as 400 bytes");
}

/// What `consumer.py` does with estimates, without a broker: it looks after every record, oftener than it does where it
/// reads many at once. Says of each pool how often it was resized, how often it then had less than the peak of as long
/// as a number is held, and of how many numbers.
const TWO_DAYS: &str = "
import collections, json, sys, types
sys.modules['confluent_kafka'] = kafka = types.ModuleType('confluent_kafka')
for name in ['OFFSET_BEGINNING', 'Consumer', 'KafkaError', 'TopicPartition']:
    setattr(kafka, name, None)
sys.path.insert(0, sys.argv[1])
import consumer
pools, resizes, below = collections.defaultdict(consumer.Pool), collections.Counter(), collections.Counter()
sizes = collections.defaultdict(dict)

def take(estimate):
    name, end = estimate['pool'], estimate['end_ms']
    for entry in estimate['recommended']:
        if entry.get('act_on') and entry['status'] == 'ready' and not estimate['warm_up']:
            sizes[name][end] = entry['bytes']
    pools[name].take(estimate)
    wanted, why = pools[name].wanted()
    if wanted is not None:
        pools[name].size, resizes[name] = wanted, resizes[name] + 1
    held = [size for at, size in sizes[name].items() if at > end - 23 * consumer.HOUR]
    below[name] += pools[name].size < max(held, default=0)
    return why

estimates = list(map(json.loads, open(sys.argv[2])))
for estimate in estimates:
    take(estimate)
for name in pools:
    print(name, resizes[name], below[name], len(sizes[name]))
print(take({**estimates[-1], 'end_ms': estimates[-1]['end_ms'] + 1, 'partition': 1}))
";

/// It resized 68 times in two days. docs/consuming.md has the figures.
#[test]
fn over_two_days_the_python_consumer_resizes_ten_times_at_most_and_holds_the_days_peak() {
    let mut settings = Settings::default();
    settings.estimate.kv_bytes_per_token = TokenCost::new(61_464.0);
    let task = task_config(&settings).expect("usable settings");
    let mut lines = Vec::new();
    for (pool, sessions_per_day) in [("fewer", 200), ("more", 400)] {
        let workload = Workload { start_ms: 1_767_571_200_000, sessions_per_day, ..Workload::default() };
        let end = EventTime(workload.start_ms + 2 * 86_400_000);
        let generated = Generator::new(workload).expect("a workload");
        let mut input = Input::default();
        for request in generated.take_while(|request| request.event_time < end) {
            input.push_row(0, pool, &request.as_row());
        }
        for (_, value) in input.expected(&task).estimates.into_values().flatten() {
            lines.extend(value.expect("an estimate"));
            lines.push(b'\n');
        }
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines).expect("a disk");
    let mut command = Command::new("python3");
    command.arg("-c").arg(TWO_DAYS).arg(root().join("docs/examples")).arg(file.path());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: python3 does not run: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    let (pools, last) = said.trim_end().rsplit_once('\n').expect("pools and a last line");
    assert_eq!(last, "is in partitions [0, 1]", "{said}");
    assert_eq!(pools.lines().count(), 2, "{said}");
    for line in pools.lines() {
        let numbers: Vec<u32> = line.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
        let [resizes, below, estimates] = numbers[..] else { panic!("{said}") };
        assert!((2..=10).contains(&resizes) && below == 0 && estimates > 100, "{said}");
    }
}
