//! A backfill publishes what the live service published, byte for byte, and disturbs nobody.

// Each test program uses its part of what they share.
#[allow(dead_code)]
mod kafka_support;

use assert_cmd::Command;
use kafka_support::{Broker, Bytes, Input, Published, StopAfter, serve_records, stamp};
use kvset::codec::decode_estimate;
use kvset::core::estimate::Estimate;
use kvset::core::tiers::Settled;
use kvset::core::window::WindowKind;
use kvset::kafka::offsets::Offsets;
use kvset::kafka::outlet::{OutputTopic, OutputTopics};
use kvset::pipeline::position::{NextOffset, Partition};
use kvset::runtime::backfill::{
    Backfill, BackfillError, BackfillOptions, NoteError, Outcome, Place, Places, Range, RangeError, WarmUp,
    report,
};
use kvset::runtime::observe::Unobserved;
use kvset::runtime::plan::ServicePlan;
use kvset::runtime::shutdown::Shutdown;
use kvset::settings::{Delivery, Settings, TokenCost, TopicName};
use kvset::workload::{Generator, Workload};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PARTITIONS: u32 = 2;
const DEADLINE: Duration = Duration::from_secs(30);

/// A log, the live service that read it, and the settings of both.
struct Bench {
    broker: Broker,
    folder: TempDir,
    settings: Settings,
}

impl Bench {
    fn on(broker: Broker) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let name = |name: &str| TopicName::new(&broker.topic(name)).expect("a name");
        let mut settings = Settings::default();
        settings.kafka.brokers.clone_from(&broker.connection.brokers);
        settings.kafka.group = broker.topic("live");
        settings.input.topic = name("requests");
        settings.output.topic = name("live.estimates");
        settings.output.dead_letter_topic = name("live.dead-letters");
        settings.output.delivery =
            if broker.is_real() { Delivery::Transactional } else { Delivery::Idempotent };
        settings.estimate.windows =
            ["tumbling:1m", "last:100", "all"].map(|text| text.parse().expect("a window")).to_vec();
        settings.estimate.kv_bytes_per_token = TokenCost::new(131_072.0);
        settings.state.directory = folder.path().join("state");
        settings.workers.queue_records = 64;
        settings.http.listen.0 = None;
        Self { broker, folder, settings }
    }

    /// With every broker there is, the log on it.
    fn all(input: &Input) -> Vec<Self> {
        let bench = |broker| {
            let bench = Self::on(broker);
            bench.broker.create("requests", PARTITIONS);
            bench.produce(input);
            bench
        };
        Broker::all().into_iter().map(bench).collect()
    }

    fn produce(&self, input: &Input) {
        input.produce(&self.broker.connection, &self.broker.topic("requests"));
    }

    /// Runs the live service over so many records; gives what it published in all.
    fn live(&self, records: u64) -> Published {
        serve_records(&self.live_plan(), records).expect("a clean run");
        Published::read(&self.broker, &self.live_topics())
    }

    fn live_plan(&self) -> ServicePlan {
        for topic in [&self.settings.output.topic, &self.settings.output.dead_letter_topic] {
            self.create(topic.as_str());
        }
        ServicePlan { state: None, ..ServicePlan::make(&self.settings, false).expect("usable") }
    }

    /// Creates a topic unless it is there.
    fn create(&self, topic: &str) {
        let short = topic.strip_prefix(&self.broker.topic("")).expect("a topic of this test");
        let there = kvset::kafka::topics::Topics::new(&self.broker.connection, DEADLINE)
            .and_then(|topics| topics.partitions(topic));
        if there.expect("an answer").is_none() {
            self.broker.create(short, PARTITIONS);
        }
    }

    fn live_topics(&self) -> OutputTopics {
        let topic = |name: &TopicName| OutputTopic {
            name: name.as_str().to_owned(),
            partitions: NonZeroU32::new(PARTITIONS).expect("not zero"),
        };
        OutputTopics {
            results: topic(&self.settings.output.topic),
            dead_letters: topic(&self.settings.output.dead_letter_topic),
        }
    }

    fn options(&self, run: &str, from: &str, to: &str, warm_up: WarmUp) -> BackfillOptions {
        for topic in [&self.settings.output.topic, &self.settings.output.dead_letter_topic] {
            self.create(&format!("{topic}.backfill.{run}"));
        }
        BackfillOptions {
            settings: self.settings.clone(),
            run_id: run.parse().expect("a name"),
            range: Range { from: from.parse().expect("a place"), to: to.parse().expect("a place"), warm_up },
            output_topic: None,
            state_directory: None,
            create_topics: false,
        }
    }

    fn prepare(&self, run: &str, from: &str, to: &str, warm_up: WarmUp) -> Result<Backfill, BackfillError> {
        Backfill::prepare(&self.options(run, from, to, warm_up))
    }

    /// A run from beginning to end; gives what it published.
    fn backfill(&self, run: &str, from: &str, to: &str, warm_up: WarmUp) -> Published {
        let backfill = self.prepare(run, from, to, warm_up).expect("a range");
        let outcome = to_the_end(&backfill);
        assert!(outcome.complete, "{outcome:?}");
        Published::read(&self.broker, &backfill.plan.stream.outputs)
    }

    /// The live group's committed offsets.
    fn committed(&self) -> Vec<(Partition, Option<NextOffset>)> {
        let topic = self.broker.topic("requests");
        let offsets =
            Offsets::open(&self.broker.connection, &self.settings.kafka.group, &topic).expect("a client");
        offsets.committed(&[Partition(0), Partition(1)], DEADLINE).expect("an answer")
    }

    /// The configuration as a file.
    fn configure(&self) -> std::path::PathBuf {
        let path = self.folder.path().join("kvset.toml");
        let Settings { kafka, input, output, state, .. } = &self.settings;
        let delivery = if self.broker.is_real() { "transactional" } else { "idempotent" };
        let text = format!(
            "[kafka]\nbrokers = \"{}\"\ngroup = \"{}\"\nretry_for = \"5s\"\n[input]\ntopic = \"{}\"\n\
             [output]\ntopic = \"{}\"\ndead_letter_topic = \"{}\"\ndelivery = \"{delivery}\"\n\
             [estimate]\nwindows = [\"tumbling:1m\", \"last:100\", \"all\"]\nkv_bytes_per_token = 131072\n\
             [state]\ndirectory = \"{}\"\ncheckpoint_every = \"1s\"\n[commit]\nmax_records = 20\n\
             [workers]\nqueue_records = 10\n",
            kafka.brokers,
            kafka.group,
            input.topic,
            output.topic,
            output.dead_letter_topic,
            state.directory.display(),
        );
        std::fs::write(&path, text).expect("a disk");
        path
    }
}

fn to_the_end(backfill: &Backfill) -> Outcome {
    // One that does not end by itself is ended by the observer's patience.
    let shutdown = Shutdown::new();
    backfill.run(&shutdown, &StopAfter::new(&shutdown, u64::MAX)).expect("a clean run")
}

fn generated(requests: usize) -> Input {
    let mut input = Input::default();
    for (partition, pool) in ["alpha", "beta"].iter().enumerate() {
        let workload = Workload {
            seed: partition as u64,
            start_ms: 36_000_000,
            sessions_per_day: 4000,
            ..Workload::default()
        };
        for (number, request) in Generator::new(workload).expect("a workload").take(requests).enumerate() {
            input.push_row(partition as i32, pool, &request.as_row());
            if number % 100 == 50 {
                input.push(partition as i32, pool, format!("broken {number}").into_bytes());
            }
        }
    }
    input
}

fn count(published: &Published) -> usize {
    published.estimates.values().map(Vec::len).sum()
}

fn estimates(published: &Published) -> impl Iterator<Item = Estimate> {
    let values = published.estimates.values().flatten();
    values.map(|(_, value)| decode_estimate(value.as_deref().unwrap_or_default()).expect("an estimate"))
}

#[test]
fn a_backfill_of_everything_publishes_what_the_live_service_published() {
    let input = generated(300);
    for bench in Bench::all(&input) {
        let live = bench.live(input.records());
        assert!(count(&live) > 30 && live.letters.len() == 6, "too little happened");
        let before = bench.committed();
        let published = bench.backfill("whole", "earliest", "latest", WarmUp::None);
        assert!(published == live, "real broker: {}", bench.broker.is_real());
        assert_eq!(bench.committed(), before, "the live group was moved");
        let upto = bench.backfill("upto", "earliest", "committed", WarmUp::None);
        assert!(upto == live, "up to where the live group is; real broker: {}", bench.broker.is_real());
    }
}

/// The estimate without its trends, which look back over windows that a run from the middle does not count.
fn of_its_window_alone(mut estimate: Estimate) -> Estimate {
    for entry in estimate.required.iter_mut().flat_map(|required| &mut required.coverage) {
        (entry.convergence, entry.growth_per_window) = (Settled::default(), None);
    }
    Estimate { trend_windows: 0, plan: None, ..estimate }
}

#[test]
fn from_the_middle_whole_windows_are_those_of_the_live_service() {
    let input = generated(700);
    for bench in Bench::all(&input) {
        let live = bench.live(input.records());
        let published = bench.backfill("middle", "0:150,1:120", "latest", WarmUp::All);
        let mut whole = 0;
        let decoded =
            |value: &Bytes| decode_estimate(value.as_deref().expect("a value")).expect("an estimate");
        for (key, value) in published.estimates.values().flatten() {
            let estimate = decoded(value);
            if !estimate.warm_up {
                whole += 1;
                let same = live.estimates[&estimate.pool].iter().find(|(other, _)| other == key);
                let (_, same) = same.expect("the live service published that window");
                assert_eq!(of_its_window_alone(estimate), of_its_window_alone(decoded(same)));
            }
        }
        assert!(whole > 10, "only {whole} windows are whole: the comparison shows little");
        let cut = estimates(&published).find(|estimate| estimate.window == WindowKind::All).expect("some");
        assert!(cut.warm_up && cut.first_offset >= 120, "all since --from");
        assert!(published.letters.len() < live.letters.len(), "those of the warm-up are not published again");
    }
}

#[test]
fn less_warm_up_knows_fewer_hits_and_says_so() {
    let input = generated(300);
    let bench = Bench::all(&input).remove(0);
    let hits = |published: &Published| -> u64 {
        let tumbling = estimates(published).filter(|estimate| estimate.window != WindowKind::All);
        tumbling.map(|estimate| estimate.theoretical.page_hits).sum()
    };
    let runs = [("cold", WarmUp::None), ("some", WarmUp::Offsets(60)), ("all", WarmUp::All)]
        .map(|(run, warm_up)| bench.backfill(run, "150", "latest", warm_up));
    assert!(hits(&runs[0]) < hits(&runs[1]) && hits(&runs[1]) < hits(&runs[2]));
    assert!(estimates(&runs[0]).next().expect("some").warm_up, "a window that begins before --from");
    // As a span of event time the same is found by searching the log.
    let begin = |run: &str, warm_up| {
        let backfill = bench.prepare(run, "150", "latest", warm_up).expect("a range");
        backfill.stretches.values().map(|stretch| stretch.begin.0).collect::<Vec<_>>()
    };
    let minutes = begin("minutes", WarmUp::Time(Duration::from_secs(120)));
    assert!(minutes.iter().all(|begin| (1..150).contains(begin)), "{minutes:?}");
    assert_eq!(begin("days", WarmUp::Time(Duration::from_secs(864_000))), [0, 0], "no further than the log");
}

/// It ends where the log ended when it began, also after a restart, and publishes everything once.
#[test]
fn a_stopped_run_goes_on_within_the_bounds_it_began_with() {
    let input = generated(300);
    for bench in Bench::all(&input) {
        let live = bench.live(input.records());
        let first = bench.prepare("halves", "earliest", "latest", WarmUp::None).expect("a range");
        let shutdown = Shutdown::new();
        let outcome = first.run(&shutdown, &StopAfter::new(&shutdown, 250)).expect("a clean run");
        assert!(!outcome.complete && outcome.summary.results > 0, "{outcome:?}");
        drop(first);
        bench.produce(&input);
        let second = bench.prepare("halves", "earliest", "latest", WarmUp::None).expect("a range");
        assert_eq!(second.reached, outcome.reached);
        let ends: Vec<_> = second.stretches.values().map(|stretch| stretch.end.0 as u64).collect();
        assert_eq!(ends, [input.records() / 2; 2], "captured when the run began");
        assert!(to_the_end(&second).complete);
        let published = Published::read(&bench.broker, &second.plan.stream.outputs);
        assert!(published == live, "real broker: {}", bench.broker.is_real());
        let third = bench.prepare("halves", "earliest", "latest", WarmUp::None).expect("a range");
        let outcome = third.run(&Shutdown::new(), &Unobserved).expect("nothing to do");
        assert!(outcome.complete && outcome.summary.records == 0, "{outcome:?}");
        let other = bench.prepare("halves", "earliest", "committed", WarmUp::None);
        assert!(matches!(other, Err(BackfillError::Note { error: NoteError::OtherRun, .. })));
    }
}

#[test]
fn a_report_shows_what_the_run_published() {
    let input = generated(300);
    let bench = Bench::all(&input).remove(0);
    let backfill = bench.prepare("shown", "earliest", "latest", WarmUp::None).expect("a range");
    assert!(to_the_end(&backfill).complete);
    let shown = report(&backfill).expect("readable").expect("windows closed");
    let names: Vec<_> = shown.pools.iter().filter_map(|pool| pool.name.as_deref()).collect();
    assert_eq!(names, ["alpha", "beta"]);
    let published = Published::read(&bench.broker, &backfill.plan.stream.outputs);
    for pool in &shown.pools {
        let of_pool = || estimates(&published).filter(|estimate| Some(&estimate.pool) == pool.name.as_ref());
        let all = of_pool().filter(|estimate| estimate.window == WindowKind::All).last().expect("some");
        assert_eq!((pool.requests, pool.accumulated_pages), (all.requests, all.accumulated_pages));
        let tumbling = of_pool().filter(|estimate| matches!(estimate.window, WindowKind::Tumbling { .. }));
        let requests: Vec<u64> = tumbling.map(|estimate| estimate.requests).collect();
        let points: Vec<u64> = pool.history.points.iter().map(|point| point.requests).collect();
        assert_eq!(points, requests);
    }
    assert!(kvset::report::render(&shown).expect("drawable").contains("Backfill run"));
}

fn refusal(bench: &Bench, run: &str, from: &str, to: &str) -> RangeError {
    match bench.prepare(run, from, to, WarmUp::None) {
        Err(BackfillError::Range(error)) => error,
        Err(error) => panic!("{from} to {to}: {error}"),
        Ok(_) => panic!("{from} to {to} should be refused"),
    }
}

#[test]
fn ranges_that_hold_nothing_are_refused_with_the_reason() {
    let input = generated(50);
    let bench = Bench::all(&input).remove(0);
    for (from, to, why) in [
        ("30", "10", "--from is after --to in partition 0"),
        ("10", "10", "there is no record between"),
        ("latest", "latest", "there is no record between"),
        ("99999", "latest", "past the end"),
        ("earliest", "0:5,1:99999", "past the end"),
        ("committed", "latest", "no committed offset"),
        ("7:1", "latest", "there is no partition 7"),
        ("0:1", "1:5", "--to names partition 1"),
    ] {
        let error = refusal(&bench, "refused", from, to).to_string();
        assert!(error.contains(why), "{from} to {to}: {error}");
    }
}

fn kvset(config: &Path, args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("kvset").expect("the program");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KVSET")) {
        command.env_remove(name);
    }
    command.arg("backfill").arg("--config").arg(config).args(args).timeout(Duration::from_secs(120));
    command
}

#[test]
fn the_command_says_what_it_did_and_what_was_wrong() {
    let input = generated(100);
    for bench in Bench::all(&input) {
        let config = bench.configure();
        // The mock has no admin interface to create topics with.
        bench.options("cli", "earliest", "latest", WarmUp::None);
        let page = bench.folder.path().join("report.html");
        let args = ["--from", "earliest", "--run-id", "cli", "--json", "--report"];
        let done = kvset(&config, &args).arg(&page).assert().success();
        let result: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
        assert_eq!(result["records"], input.records());
        assert_eq!(result["partitions"][1]["to"], input.records() / 2);
        assert!(result["estimates"].as_u64() > Some(10) && result["resumed"] == false, "{result}");
        assert!(std::fs::read_to_string(&page).expect("written").contains("Backfill run"));
        let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(said.contains("--run-id cli goes on with it"), "{said}");
        let again = kvset(&config, &["--from", "earliest", "--run-id", "cli"]).assert().success();
        let text = String::from_utf8_lossy(&again.get_output().stdout).into_owned();
        assert!(text.contains("complete: 0 records read"), "{text}");

        let live = bench.settings.output.topic.as_str();
        for (args, code, why) in [
            (&["--from", "earliest", "--output-topic", live][..], 2, "topic of its own"),
            (&["--from", "5", "--to", "3"], 2, "--from is after --to"),
            (&["--from", "5", "--to", "5"], 2, "no record between"),
            (&["--from", "5", "--run-id", "cli"], 2, "another --run-id"),
            (&["--from", "earliest", "--run-id", "fresh"], 1, "--create-topics"),
        ] {
            let failed = kvset(&config, args).assert().code(code);
            let said = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
            assert!(said.contains(why), "{args:?}: {said}");
            assert!(failed.get_output().stdout.is_empty(), "{args:?}");
        }
        let unknown = kvset(&config, &["--from", "earliest"])
            .env("KVSET__INPUT__TOPIC", "no-such-topic")
            .assert()
            .code(1);
        let said = String::from_utf8_lossy(&unknown.get_output().stderr).into_owned();
        assert!(said.contains("topic `no-such-topic` (input.topic) does not exist"), "{said}");
    }
}

/// Writes records in transactions, with aborted ones among them, the last one too.
fn produce_in_transactions(bench: &Bench, input: &Input) {
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &bench.broker.connection.brokers);
    config.set("transactional.id", bench.broker.topic("producer"));
    let producer: BaseProducer = config.create().expect("a client");
    producer.init_transactions(DEADLINE).expect("transactions");
    let topic = bench.broker.topic("requests");
    let begin = |records: &[kafka_support::KeyValue]| {
        producer.begin_transaction().expect("begins");
        for (key, value) in records {
            let record = BaseRecord::to(&topic).partition(0).key(key).payload(value).timestamp(stamp());
            producer.send(record).map_err(|(error, _)| error).expect("room");
        }
        // What is queued when a transaction is aborted would never reach the log.
        producer.flush(DEADLINE).expect("delivered");
    };
    for (number, records) in input.partitions[&0].chunks(20).enumerate() {
        begin(records);
        producer.commit_transaction(DEADLINE).expect("commits");
        if number % 3 == 2 {
            begin(&records[..3]);
            producer.abort_transaction(DEADLINE).expect("aborts");
        }
    }
    begin(&input.partitions[&0][..7]);
    producer.abort_transaction(DEADLINE).expect("aborts");
}

#[test]
fn a_run_ends_where_the_log_ends_in_transaction_markers() {
    let Some(broker) = Broker::real() else { return };
    let bench = Bench::on(broker);
    bench.broker.create("requests", 1);
    let mut input = generated(300);
    input.partitions.remove(&1);
    produce_in_transactions(&bench, &input);
    let live = bench.live(input.records());
    let backfill = bench.prepare("markers", "earliest", "latest", WarmUp::None).expect("a range");
    let end = backfill.stretches[&Partition(0)].end;
    assert!(end.0 as u64 > input.records() + 20, "markers and aborted records take offsets too: {end}");
    let outcome = to_the_end(&backfill);
    assert!(outcome.complete && outcome.reached[&Partition(0)] == end, "{outcome:?}");
    assert_eq!(outcome.summary.records, input.records(), "committed records only");
    assert!(Published::read(&bench.broker, &backfill.plan.stream.outputs) == live);
    // Nothing but markers and aborted records.
    let tail = format!("{}", end.0 - 8);
    let published = bench.backfill("tail", &tail, "latest", WarmUp::None);
    assert_eq!((count(&published), published.letters.len()), (0, 0));
}

#[test]
fn moments_are_those_of_the_records_time_stamps() {
    let Some(broker) = Broker::real() else { return };
    let bench = Bench::on(broker);
    let topic = bench.broker.create("requests", 1);
    let input = generated(100);
    let feed =
        kvset::kafka::feed::Feed::open(&bench.broker.connection, &topic, DEADLINE).expect("a producer");
    for (number, (key, value)) in input.partitions[&0].iter().enumerate() {
        feed.send_to(Some(0), key, value, Some(stamp() + 1000 * number as i64)).expect("room");
    }
    feed.finish().expect("delivered");
    let (from, to) = (format!("@{}", stamp() + 9_500), format!("@{}", stamp() + 40_000));
    let backfill = bench.prepare("moments", &from, &to, WarmUp::None).expect("a range");
    let stretch = backfill.stretches[&Partition(0)];
    assert_eq!((stretch.count_from, stretch.end), (NextOffset(10), NextOffset(40)));
    let late = Places::Everywhere(Place::Moment(stamp() + 86_400_000)).to_string();
    assert!(matches!(refusal(&bench, "late", &late, "latest"), RangeError::Empty { .. }));
}

/// Deletes records, as retention does.
fn delete_before(broker: &Broker, topic: &str, offset: i64) {
    use rdkafka::admin::{AdminClient, AdminOptions};
    use rdkafka::client::DefaultClientContext;
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &broker.connection.brokers);
    let admin: AdminClient<DefaultClientContext> = config.create().expect("a client");
    let mut list = rdkafka::TopicPartitionList::new();
    list.add_partition_offset(topic, 0, rdkafka::Offset::Offset(offset)).expect("a list");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(admin.delete_records(&list, &AdminOptions::new())).expect("deleted");
}

#[test]
fn what_retention_deleted_is_refused_or_begun_after() {
    let Some(broker) = Broker::real() else { return };
    let bench = Bench::on(broker);
    let topic = bench.broker.create("requests", 1);
    let mut input = generated(200);
    input.partitions.remove(&1);
    bench.produce(&input);
    let begun = bench.prepare("begun", "earliest", "latest", WarmUp::None).expect("a range");
    let shutdown = Shutdown::new();
    begun.run(&shutdown, &StopAfter::new(&shutdown, 50)).expect("a clean run");
    delete_before(&bench.broker, &topic, 60);
    let error = refusal(&bench, "below", "59", "latest").to_string();
    assert!(error.contains("begins at 60") && error.contains("earliest"), "{error}");
    let rest = bench.prepare("rest", "earliest", "latest", WarmUp::All).expect("a range");
    assert_eq!(rest.stretches[&Partition(0)].begin, NextOffset(60));
    assert!(to_the_end(&rest).complete);
    let published = Published::read(&bench.broker, &rest.plan.stream.outputs);
    assert!(estimates(&published).next().expect("some").warm_up, "what was deleted is missing");
    // A run whose state cannot be rebuilt any more is not bent silently.
    std::fs::remove_dir_all(&begun.settings.state.directory).expect("snapshots");
    let begun = bench.prepare("begun", "earliest", "latest", WarmUp::None).expect("a range");
    let error = begun.run(&Shutdown::new(), &Unobserved).expect_err("history is lost").to_string();
    assert!(error.contains("needed and no longer in the log"), "{error}");
}

/// A topic of which only the newest record of each key is kept, and soon.
fn create_compacted(broker: &Broker, topic: &str) {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    use rdkafka::client::DefaultClientContext;
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &broker.connection.brokers);
    let admin: AdminClient<DefaultClientContext> = config.create().expect("a client");
    let plan = NewTopic::new(topic, 1, TopicReplication::Fixed(1))
        .set("cleanup.policy", "compact")
        .set("min.cleanable.dirty.ratio", "0.001")
        .set("segment.bytes", "1048576")
        .set("segment.ms", "500");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let results = runtime.block_on(admin.create_topics(&[plan], &AdminOptions::new())).expect("an answer");
    results.into_iter().for_each(|result| drop(result.expect("created")));
}

#[test]
fn a_compacted_log_is_read_to_its_end() {
    let Some(broker) = Broker::real() else { return };
    let bench = Bench::on(broker);
    let topic = bench.broker.topic("requests");
    create_compacted(&bench.broker, &topic);
    // Keys that come again, so that their first records go; the pool is the key.
    let mut input = Input::default();
    let source = generated(240);
    for (number, (_, value)) in source.partitions[&0].iter().enumerate() {
        input.push(0, &format!("pool-{}", number % 60), value.clone());
    }
    bench.produce(&input);
    let feed =
        kvset::kafka::feed::Feed::open(&bench.broker.connection, &topic, DEADLINE).expect("a producer");
    let begin = Instant::now();
    // New segments are rolled by new records only.
    let kept = loop {
        let kept = bench.broker.read_all(&topic);
        if kept.first().is_some_and(|record| record.offset > 20) {
            break kept;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "the broker did not compact the log");
        let (key, (_, value)) = (format!("tail-{}", kept.len()), &source.partitions[&0][0]);
        // With a time stamp of its own: by these a segment's age is measured.
        feed.send_to(Some(0), key.as_bytes(), value, None).and_then(|()| feed.finish()).expect("delivered");
        std::thread::sleep(Duration::from_secs(2));
    };
    let live = bench.live(kept.len() as u64);
    let backfill = bench.prepare("compacted", "earliest", "latest", WarmUp::None).expect("a range");
    let outcome = to_the_end(&backfill);
    assert!(outcome.complete && outcome.summary.records <= kept.len() as u64, "{outcome:?}");
    assert!(Published::read(&bench.broker, &backfill.plan.stream.outputs) == live);
}

fn spawn(config: &Path, run: &str) -> Child {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kvset"));
    command.args(["backfill", "--from", "earliest", "--run-id", run, "--config"]).arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts")
}

#[test]
fn kills_leave_no_trace_in_what_a_run_published() {
    let Some(broker) = Broker::real() else { return };
    let input = generated(1500);
    let bench = Bench::on(broker);
    bench.broker.create("requests", PARTITIONS);
    bench.produce(&input);
    let live = bench.live(input.records());
    let config = bench.configure();
    let options = bench.options("killed", "earliest", "latest", WarmUp::None);
    let topics =
        [&bench.settings.output.topic, &bench.settings.output.dead_letter_topic].map(|topic| OutputTopic {
            name: format!("{topic}.backfill.{}", options.run_id),
            partitions: NonZeroU32::new(PARTITIONS).expect("not zero"),
        });
    let [estimates, dead_letters] = topics;
    let outputs = OutputTopics { results: estimates, dead_letters };
    let published = || count(&Published::read(&bench.broker, &outputs));
    let mut midway = 0;
    for _ in 0..4 {
        let before = published();
        let mut child = spawn(&config, "killed");
        let begin = Instant::now();
        while child.try_wait().expect("our child").is_none() && published() < before + count(&live) / 6 {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing is published");
        }
        midway += usize::from(child.try_wait().expect("our child").is_none());
        child.kill().and_then(|()| child.wait()).expect("our child");
    }
    assert!(midway > 1, "killed {midway} times before the end: too few");
    let done = kvset(&config, &["--from", "earliest", "--run-id", "killed", "--json"]).assert().success();
    let result: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
    assert_eq!(result["resumed"], true);
    assert!(Published::read(&bench.broker, &outputs) == live, "killed {midway} times midway");
}

#[test]
fn a_signal_stops_a_run_in_order_and_says_how_to_go_on() {
    let Some(broker) = Broker::real() else { return };
    let input = generated(1500);
    let bench = Bench::on(broker);
    bench.broker.create("requests", PARTITIONS);
    bench.produce(&input);
    let config = bench.configure();
    let backfill = bench.prepare("asked", "earliest", "latest", WarmUp::None).expect("a range");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kvset"));
    command.args(["backfill", "--from", "earliest", "--run-id", "asked", "--config"]).arg(&config);
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let begin = Instant::now();
    while count(&Published::read(&bench.broker, &backfill.plan.stream.outputs)) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is published");
    }
    let asked = std::process::Command::new("kill").arg(child.id().to_string()).status().expect("kill runs");
    let output = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(asked.success() && output.status.code() == Some(1), "{said}");
    assert!(said.contains("stopped by a signal after") && said.contains("--run-id asked goes on"), "{said}");
    let rest = bench.prepare("asked", "earliest", "latest", WarmUp::None).expect("a range");
    assert!(rest.reached.values().any(|next| next.0 > 0) && to_the_end(&rest).complete);
    let by_pool: BTreeMap<_, _> = Published::read(&bench.broker, &rest.plan.stream.outputs).estimates;
    assert_eq!(by_pool, bench.live(input.records()).estimates);
}
