//! `kvset prepare` between two topics: every raw record's events once, in the order of its partition,
//! whatever happens to the process; and nothing of a prompt anywhere.
//!
//! The week of traffic over a real broker, and more kills:
//!
//! ```text
//! KVSET_SHARED=... KVSET_KILLS=20 scripts/kafka.sh run -- \
//!     cargo test --features tokenize --test kafka prepare -- --nocapture
//! ```

use crate::kafka_support::{
    Broker, Input, Published, StopAfter, kills, output_topics, serve_records, shared_trace, wait_for,
};
use crate::prepare_support::{assert_clean, hostile, model_directory, tokenizers, week, week_settings};
use kvset::codec::{RequestDecoder, decode_estimate};
use kvset::core::estimate::Estimate;
use kvset::core::units::pages::mix;
use kvset::core::units::ratio::Ratio;
use kvset::kafka::reader::ReadRecord;
use kvset::kafka::sink::{OutputTopic, OutputTopics};
use kvset::output::Destination;
use kvset::pipeline::assignment::FlowLimits;
use kvset::pipeline::dead_letter_policy::DeadLetterLimits;
use kvset::position::{NextOffset, Partition};
use kvset::prepare::{Preparer, Tokenizers};
use kvset::service::events::{Observer, ServiceEvent};
use kvset::service::prepare::{PreparePlan, prepare, recipe};
use kvset::service::shutdown::Shutdown;
use kvset::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PARTITIONS: u32 = 3;
const TIMEOUT: Duration = Duration::from_secs(120);
/// Records produced to a partition until the next kill.
const RECORDS_A_LIFE: usize = 300;
/// Event times are dates, in milliseconds from here on.
const START_MS: i64 = 1_700_000_000_000;
/// They tell the source partition: this many milliseconds of them belong to each.
const PARTITION_MS: i64 = 1_000_000_000;

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.estimate.page_size = kvset::core::units::PageSize::new(4);
    settings.prepare.event_time = "{at}".parse().expect("a template");
    settings
}

/// Raw records of three pools on every partition, some of which are of no use, some long and some short,
/// so that threads overtake each other.
fn raw_input(records: usize) -> Input {
    let mut input = Input::default();
    for partition in 0..PARTITIONS as i32 {
        for number in 0..records {
            let at = START_MS + i64::from(partition) * PARTITION_MS + number as i64;
            let length = mix(at as u64) % if number % 7 == 0 { 3000 } else { 20 };
            let tokens: Vec<u32> = (0..length as u32).map(|token| token ^ number as u32).collect();
            let value = match number % 50 {
                25 => format!(r#"{{"at": {at}, "tokens": [-1]}}"#),
                _ => format!(r#"{{"at": {at}, "model": "pool-{}", "tokens": {tokens:?}}}"#, number % 3),
            };
            input.push(partition, "any key", value.into_bytes());
        }
    }
    input
}

/// The events' values by pool and source partition, in order; and the offsets of dead letters.
#[derive(Debug, Default, PartialEq, Eq)]
struct Events {
    values: BTreeMap<(String, i32), Vec<Vec<u8>>>,
    letters: BTreeSet<(i32, i64)>,
    letters_read: usize,
}

impl Events {
    /// What must come of the input: every record prepared in memory.
    fn expected(settings: &Settings, input: &Input) -> Self {
        let mut events = Self::default();
        let mut preparer = Preparer::new(Arc::new(recipe(settings)), Tokenizers::default());
        for (partition, records) in &input.partitions {
            for (offset, (key, value)) in records.iter().enumerate() {
                let time = Some(crate::kafka_support::stamp());
                let record = crate::prepare_support::record(
                    *partition,
                    offset as i64,
                    time,
                    Some(key),
                    Some(value),
                    &[],
                );
                for output in preparer.prepare(&record).outputs {
                    if output.destination == Destination::DeadLetters {
                        events.letters.insert((*partition, offset as i64));
                        events.letters_read += 1;
                        continue;
                    }
                    let pool = String::from_utf8(output.key.expect("a pool")).expect("a name");
                    events
                        .values
                        .entry((pool, *partition))
                        .or_default()
                        .push(output.value.expect("an event"));
                }
            }
        }
        events
    }

    /// What is on the topics.
    fn read(broker: &Broker, topics: &OutputTopics) -> Self {
        let mut events = Self::default();
        let mut decoder = RequestDecoder::default();
        for record in broker.read_all(&topics.results.name) {
            let value = record.value.expect("an event");
            let decoded = decoder.decode(record.key.as_deref(), &value).expect("a request event");
            let partition = ((decoded.event.event_time.0 - START_MS) / PARTITION_MS) as i32;
            let pool = decoded.pool.into_owned();
            events.values.entry((pool, partition)).or_default().push(value);
        }
        for letter in broker.read_all(&topics.dead_letters.name) {
            let number = |name: &str| header(&letter, name).parse::<i64>().expect("a number");
            events.letters.insert((number("kvset_partition") as i32, number("kvset_offset")));
            events.letters_read += 1;
        }
        events
    }

    fn count(&self) -> usize {
        self.values.values().map(Vec::len).sum()
    }
}

fn header(letter: &ReadRecord, name: &str) -> String {
    let found = letter.headers.iter().find(|(header, _)| header == name);
    String::from_utf8(found.expect(name).1.clone()).expect("a text")
}

fn plan(broker: &Broker, settings: &Settings, run: &str, outputs: OutputTopics) -> PreparePlan {
    PreparePlan {
        stream: broker.stream(&broker.topic("raw"), run, outputs),
        recipe: Arc::new(recipe(settings)),
        tokenizers: tokenizers(),
        dead_letters: DeadLetterLimits { max_consecutive: 100, max_share: Ratio::ONE, share_window: 100 },
        registry: None,
    }
}

fn prepare_records(plan: &PreparePlan, records: u64) -> kvset::service::poll_loop::summary::Summary {
    let shutdown = Shutdown::new();
    prepare(plan, &shutdown, &StopAfter::new(&shutdown, records)).expect("a clean run")
}

#[test]
fn every_record_is_prepared_once_and_in_order_over_restarts() {
    for broker in Broker::all() {
        let topic = broker.create("raw", PARTITIONS);
        let input = raw_input(300);
        input.produce(&broker.connection, &topic);
        let (settings, outputs) = (settings(), output_topics(&broker, "prepared", 2));
        let plan = plan(&broker, &settings, "prepare", outputs.clone());
        let mut done = 0;
        // Runs that stop in order after some records, and one that takes the rest.
        for records in [100, 250, u64::MAX] {
            let summary = prepare_records(&plan, records.min(input.records() - done));
            done += summary.records;
            assert_eq!(summary.records, summary.results + summary.dead_letters, "one output a record");
        }
        assert_eq!(done, input.records());
        let expected = Events::expected(&settings, &input);
        assert!(expected.letters_read == 18 && expected.values.len() == 9, "{:?}", expected.letters);
        assert!(Events::read(&broker, &outputs) == expected, "real broker: {}", broker.is_real());
    }
}

#[test]
fn too_many_refused_records_hold_their_partition_where_the_limit_is() {
    let broker = Broker::mock();
    let topic = broker.create("raw", 1);
    let mut input = Input::default();
    (0..20).for_each(|_| input.push(0, "k", b"broken".to_vec()));
    input.produce(&broker.connection, &topic);
    let outputs = output_topics(&broker, "prepared", 1);
    let mut plan = plan(&broker, &settings(), "prepare", outputs.clone());
    plan.dead_letters.max_consecutive = 5;
    let shutdown = Shutdown::new();
    let watch = StopAfter::new(&shutdown, 5);
    prepare(&plan, &shutdown, &watch).expect("the process goes on");
    let held = watch.held().concat();
    assert!(held.contains("in a row") && held.contains("max_consecutive"), "{held}");
    assert_eq!(Events::read(&broker, &outputs).letters_read, 5, "those within the limit");
}

/// Asks several members to stop once every partition was processed up to its end by one of them.
struct StopAtEnds {
    shutdowns: Vec<Shutdown>,
    ends: BTreeMap<Partition, NextOffset>,
    seen: Mutex<BTreeMap<Partition, NextOffset>>,
    rebalances: AtomicU32,
    begin: Instant,
}

impl StopAtEnds {
    fn new(shutdowns: &[Shutdown], input: &Input) -> Self {
        let ends = input.partitions.iter();
        let ends = ends.map(|(partition, records)| (Partition(*partition), NextOffset(records.len() as i64)));
        let (shutdowns, ends) = (shutdowns.to_vec(), ends.collect());
        let begin = Instant::now();
        Self { shutdowns, ends, seen: Mutex::default(), rebalances: AtomicU32::new(0), begin }
    }

    /// How often a member was told what it works on.
    fn rebalances(&self) -> u32 {
        self.rebalances.load(Ordering::SeqCst)
    }
}

impl Observer for StopAtEnds {
    fn on(&self, event: &ServiceEvent<'_>) {
        assert!(self.begin.elapsed() < TIMEOUT * 2, "prepare was not done");
        match event {
            ServiceEvent::Rebalanced { .. } => {
                self.rebalances.fetch_add(1, Ordering::SeqCst);
            }
            ServiceEvent::Prepared { partition, next, .. } => {
                let mut seen = self.seen.lock().expect("no panic under the lock");
                let reached = seen.entry(*partition).or_insert(*next);
                *reached = (*reached).max(*next);
                if *seen == self.ends {
                    self.shutdowns.iter().for_each(Shutdown::request);
                }
            }
            _ => {}
        }
    }
}

/// A second member joins in the middle and the first one leaves.
#[test]
fn members_share_the_partitions_and_every_event_is_written_once() {
    let Some(broker) = Broker::real() else { return };
    let topic = broker.create("raw", PARTITIONS);
    let input = raw_input(150);
    let (settings, outputs) = (settings(), output_topics(&broker, "prepared", 2));
    let mut plan = plan(&broker, &settings, "prepare", outputs.clone());
    // Small steps, so that there is something in flight whenever partitions move.
    plan.stream.flow.records = 16;
    let (first, second) = (Shutdown::new(), Shutdown::new());
    let stop = StopAtEnds::new(&[first.clone(), second.clone()], &input);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| prepare(&plan, &first, &stop));
        let producing = scope.spawn(|| input.produce(&broker.connection, &topic));
        wait_for(|| stop.rebalances() >= 1);
        let two = scope.spawn(|| prepare(&plan, &second, &stop));
        wait_for(|| stop.rebalances() >= 3 || second.is_requested());
        first.request();
        one.join().expect("no panic").expect("a clean run");
        two.join().expect("no panic").expect("a clean run");
        producing.join().expect("no panic");
    });
    assert!(Events::read(&broker, &outputs) == Events::expected(&settings, &input));
}

/// A configuration for the program itself.
fn configure(broker: &Broker, outputs: &OutputTopics, folder: &Path, rest: &str) -> PathBuf {
    let delivery = if broker.is_real() { "transactional" } else { "idempotent" };
    let text = format!(
        "[kafka]\nbrokers = \"{}\"\ninstance = \"one\"\n[input]\ntopic = \"{}\"\n\
         [output]\ndelivery = \"{delivery}\"\n[estimate]\npage_size = 4\n\
         [prepare]\ntopic = \"{}\"\ngroup = \"{}\"\ndead_letter_topic = \"{}\"\n{rest}",
        broker.connection.brokers,
        outputs.results.name,
        broker.topic("raw"),
        broker.topic("prepare"),
        outputs.dead_letters.name,
    );
    let path = folder.join("kvset.toml");
    std::fs::write(&path, text).expect("a disk");
    path
}

/// The program, with its standard error in a file.
fn start(command: &str, config: &Path, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).expect("a disk");
    let mut program = Command::new(env!("CARGO_BIN_EXE_kvset"));
    program.arg(command).arg("--config").arg(config);
    program.stdin(Stdio::null()).stdout(log.try_clone().expect("a handle")).stderr(log);
    program.spawn().expect("the program starts")
}

fn stop_in_order(mut child: Child, log: &Path) {
    let asked = Command::new("kill").arg(child.id().to_string()).status().expect("kill runs");
    let status = child.wait().expect("our child");
    assert!(asked.success() && status.success(), "{status}: {}", text(log));
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

#[test]
fn kills_leave_no_trace() {
    let Some(broker) = Broker::real() else { return };
    let lives = std::env::var("KVSET_KILLS").map_or(3, |kills| kills.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let topic = broker.create("raw", PARTITIONS);
    let outputs = output_topics(&broker, "prepared", 2);
    let rest = "event_time = \"{at}\"\n[dead_letters]\nmax_share = 1.0\n[http]\nlisten = \"\"\n";
    let config = configure(&broker, &outputs, folder.path(), rest);
    let settings = Settings::load(Some(&config)).expect("usable settings");
    let (input, log) = (raw_input(RECORDS_A_LIFE * lives as usize), folder.path().join("log"));
    let expected = Events::expected(&settings, &input);
    let (mut cut_off, quota) = (0, AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| kills::produce(&broker.connection, &topic, &input, &quota));
        let _all = kills::Raise(&quota);
        for kill in 0..lives {
            // Every life has something to do.
            quota.store(RECORDS_A_LIFE as u64 * (kill + 1), Ordering::SeqCst);
            let before = Events::read(&broker, &outputs).count();
            let mut child = start("prepare", &config, &log);
            // Until it has committed something, and then a moment that the seed chooses.
            wait_for(|| Events::read(&broker, &outputs).count() > before);
            std::thread::sleep(Duration::from_millis(mix(kill) % 300));
            if let Some(status) = child.try_wait().expect("our child") {
                panic!("ended by itself with {status}: {}", text(&log));
            }
            child.kill().and_then(|()| child.wait()).expect("our child");
            cut_off += u32::from(Events::read(&broker, &outputs).count() < expected.count());
        }
    });
    let last = start("prepare", &config, &log);
    let begin = Instant::now();
    while Events::read(&broker, &outputs).count() < expected.count() {
        assert!(begin.elapsed() < TIMEOUT, "not done: {}", text(&log));
        std::thread::sleep(Duration::from_millis(500));
    }
    // What would come twice has time to come.
    std::thread::sleep(Duration::from_millis(500));
    stop_in_order(last, &log);
    let found = Events::read(&broker, &outputs);
    println!(
        "{lives} kills, {cut_off} of them midway: {} records, {} events, {} dead letters, each once and in order",
        input.records(),
        found.count(),
        found.letters_read
    );
    assert!(found == expected, "{} events of {}", found.count(), expected.count());
    assert!(cut_off > 0, "every kill came too late");
}

#[test]
fn nothing_of_a_prompt_leaves_the_process() {
    let broker = Broker::mock();
    let (folder, topic) = (tempfile::tempdir().expect("a folder"), broker.create("raw", 1));
    let outputs = output_topics(&broker, "prepared", 1);
    let rest = format!(
        "models = [\"chat={}\"]\nmax_tokens = 1000\n[dead_letters]\nmax_share = 1.0\n\
         [log]\nlevel = \"trace\"\n[http]\nlisten = \"127.0.0.1:0\"\n",
        model_directory().display()
    );
    let config = configure(&broker, &outputs, folder.path(), &rest);
    let log = folder.path().join("log");
    let mut input = Input::default();
    input.partitions.insert(0, hostile());
    input.produce(&broker.connection, &topic);
    let child = start("prepare", &config, &log);
    let read = |topic: &OutputTopic| broker.read_all(&topic.name);
    wait_for(|| read(&outputs.results).len() + read(&outputs.dead_letters).len() >= input.records() as usize);
    wait_for(|| text(&log).contains("serving on http://"));
    let log_text = text(&log);
    let address =
        log_text.split(" on http://127.0.0.1:").nth(1).and_then(|rest| rest.split_whitespace().next());
    let address = format!("127.0.0.1:{}", address.expect("an address"));
    // What was committed is counted a moment later.
    let counts = |metrics: &str| {
        metrics.contains("kvset_prepared_tokens_total") && metrics.contains("unsupported_content")
    };
    wait_for(|| counts(&scrape(&address)));
    let metrics = scrape(&address);
    stop_in_order(child, &log);

    assert_clean(metrics.as_bytes(), "/metrics");
    assert_clean(text(&log).as_bytes(), "the log");
    let (events, letters) = (read(&outputs.results), read(&outputs.dead_letters));
    assert!(events.len() == 3 && letters.len() > 15, "{} events, {} letters", events.len(), letters.len());
    for record in events.iter().chain(&letters) {
        assert_clean(record.key.as_deref().unwrap_or_default(), "a key");
        assert_clean(record.value.as_deref().unwrap_or_default(), "a value");
        record.headers.iter().for_each(|(_, value)| assert_clean(value, "a header"));
    }
    assert!(letters.iter().all(|letter| letter.value.is_none() && letter.key.is_none()), "redacted");
}

fn scrape(address: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("a server");
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn the_week_through_a_broker_as_token_ids_gives_the_estimates_of_its_page_ids() {
    let Some(trace) = shared_trace("weka_claude_code_week.jsonl.zst") else { return };
    let Some(broker) = Broker::real() else { return };
    let settings = week_settings();
    let (mut page_ids, mut raw) = (Input::default(), Input::default());
    week(&trace, usize::MAX, |row, value| {
        page_ids.push_row(0, "week", row);
        raw.push(0, "any key", value);
    });
    let bytes: usize = raw.partitions[&0].iter().map(|(_, value)| value.len()).sum();
    let topic = broker.create("raw", 1);
    raw.produce(&broker.connection, &topic);
    drop(raw);
    let requests = OutputTopic { name: broker.create("requests", 1), partitions: NonZeroU32::MIN };
    let letters = output_topics(&broker, "prepared", 1).dead_letters;
    let mut plan =
        plan(&broker, &settings, "prepare", OutputTopics { results: requests, dead_letters: letters });
    // Large records: a partition as small as in the other tests would be paused at every one.
    plan.stream.flow = FlowLimits { records: 10_000, bytes: 64 << 20 };
    let begin = Instant::now();
    let summary = prepare_records(&plan, page_ids.records());
    let took = begin.elapsed();
    assert_eq!((summary.results, summary.dead_letters), (page_ids.records(), 0));
    let service = broker.plan(&settings, "estimates", 1);
    serve_records(&service, page_ids.records()).expect("a clean run");
    let found = without_offsets(&Published::read(&broker, &service.stream.outputs));
    let expected = without_offsets(&page_ids.expected(&service.task));
    assert!(found == expected && expected.len() > 100, "{} of {} estimates", found.len(), expected.len());
    println!(
        "{} requests, {} MB of token ids prepared in {took:?}: {} equal estimates",
        summary.results,
        bytes / 1_000_000,
        found.len()
    );
}

/// The week's estimates. Prepare's transactions leave markers between its events, so their offsets are
/// others than those of a log that was written without.
fn without_offsets(published: &Published) -> Vec<Estimate> {
    assert!(published.letters.is_empty());
    let values = published.estimates["week"].iter().filter_map(|(_, value)| value.as_deref());
    let estimates = values.map(|value| decode_estimate(value).expect("an estimate"));
    estimates.map(|estimate| Estimate { first_offset: 0, next_offset: 0, ..estimate }).collect()
}

#[test]
fn chat_requests_of_a_file_can_be_produced_as_they_can_be_replayed() {
    let broker = Broker::mock();
    let (folder, topic) = (tempfile::tempdir().expect("a folder"), broker.create("requests", 1));
    let trace = folder.path().join("chats.jsonl");
    let chat = |text: &str| format!(r#"{{"messages": [{{"role": "user", "content": "{text}"}}]}}"#);
    let body = format!(r#"{{"custom_id": "a", "body": {}}}"#, chat("And wrapped, as a batch has them?"));
    let lines = [chat("How many pages are these?"), body, r#"{"prompt": [[1, 2, 3, 4], [5]]}"#.to_owned()];
    std::fs::write(&trace, lines.join("\n")).expect("a disk");
    let config = folder.path().join("kvset.toml");
    std::fs::write(&config, format!("[kafka]\nbrokers = \"{}\"\n", broker.connection.brokers))
        .expect("a disk");
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kvset"));
        let output = command.args(arguments).arg(&trace).output().expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let model = model_directory();
    let read = ["--format", "openai", "--page-size", "4", "--model", model.to_str().expect("UTF-8")];
    let to = ["--config", config.to_str().expect("UTF-8"), "--topic", &topic, "--pool", "chats"];
    program(&[&["produce"], &read[..], &to].concat());
    let replayed: serde_json::Value =
        serde_json::from_slice(&program(&[&["replay", "--json"], &read[..]].concat())).expect("JSON");
    let (mut decoder, mut pages) = (RequestDecoder::default(), 0);
    let records = broker.read_all(&topic);
    for record in &records {
        let value = record.value.as_deref().expect("an event");
        let decoded = decoder.decode(record.key.as_deref(), value).expect("a request event");
        assert_eq!((&*decoded.pool, decoded.event.page_size.map(|size| size.get())), ("chats", Some(4)));
        pages += decoded.event.input_tokens.expect("counted") / 4;
    }
    assert_eq!(records.len(), 4);
    assert_eq!(replayed["trace"]["requests"], 4);
    assert_eq!(replayed["trace"]["page_accesses"], pages);
}
