//! Every log that is known by name, through a broker: the fixtures of `tests/fixtures/logs`, each on a topic of its
//! own, all prepared side by side.

use crate::kafka_support::raw::batch;
use crate::kafka_support::{Broker, Input, StopAfter, output_topics};
use crate::prepare_support::tokenizers;
use kvset::codec::RequestDecoder;
use kvset::core::units::ratio::Ratio;
use kvset::kafka::sink::OutputTopics;
use kvset::logs::Preset;
use kvset::output::Destination;
use kvset::pipeline::dead_letter_policy::DeadLetterLimits;
use kvset::prepare::{Preparer, Recipe};
use kvset::service::prepare::{PreparePlan, prepare, recipe};
use kvset::service::shutdown::Shutdown;
use kvset::settings::Settings;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

fn records(preset: Preset) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs");
    let read =
        |name: &str| std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut lines = read(&format!("{preset}.jsonl"));
    if preset == Preset::Otlp {
        lines.extend(["otlp-parts.jsonl", "otlp-older.jsonl"].map(read).concat());
    }
    let mut records: Vec<Vec<u8>> =
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
    if preset == Preset::Otlp {
        records.extend(["otlp-traces.binpb", "otlp-logs.binpb", "otlp-metrics.binpb"].map(read));
    }
    records
}

/// The events, by the preset that begins the name of their pool, and how many dead letters there are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Published {
    events: BTreeMap<String, Vec<Vec<u8>>>,
    letters: usize,
}

impl Published {
    fn add(&mut self, key: Option<&[u8]>, value: Vec<u8>) {
        let mut decoder = RequestDecoder::default();
        let pool = decoder.decode(key, &value).expect("a request event").pool.into_owned();
        let preset = pool.split('/').next().expect("a name").to_owned();
        self.events.entry(preset).or_default().push(value);
    }
}

#[test]
fn known_logs_become_request_events() {
    // The mock has nothing that the real one lacks.
    let broker = Broker::real().unwrap_or_else(Broker::mock);
    let outputs = output_topics(&broker, "prepared", 1);
    let logs = Preset::NAMES.map(|(name, preset)| Log::new(&broker, name, preset, &outputs));
    std::thread::scope(|scope| logs.iter().for_each(|log| drop(scope.spawn(|| log.run()))));
    let mut expected = Published::default();
    logs.iter().for_each(|log| log.expect(&mut expected));
    assert_eq!(expected.events.len(), Preset::NAMES.len());
    let mut found = Published::default();
    for record in broker.read_all(&outputs.results.name) {
        found.add(record.key.as_deref(), record.value.expect("an event"));
    }
    found.letters = broker.read_all(&outputs.dead_letters.name).len();
    assert!(found == expected, "{} of {} letters", found.letters, expected.letters);
}

/// A record of which most requests are good is no reason to stop, however many such there are.
#[test]
fn a_record_with_one_bad_request_gives_the_others_and_a_letter() {
    let broker = Broker::real().unwrap_or_else(Broker::mock);
    let outputs = output_topics(&broker, "partly", 1);
    let mut log = Log::new(&broker, "otlp", Preset::Otlp, &outputs);
    let partly = records(Preset::Otlp).swap_remove(9);
    log.input = Input::default();
    (0..5).for_each(|_| log.input.push(0, "any key", partly.clone()));
    log.plan.dead_letters = DeadLetterLimits { max_consecutive: 0, max_share: Ratio::ONE, share_window: 4 };
    log.run();
    assert_eq!(broker.read_all(&outputs.results.name).len(), 10);
    let letters = broker.read_all(&outputs.dead_letters.name);
    assert_eq!(letters.len(), 5);
}

/// A log on a topic of its own.
struct Log {
    recipe: Arc<Recipe>,
    input: Input,
    plan: PreparePlan,
}

impl Log {
    fn new(broker: &Broker, name: &str, preset: Preset, outputs: &OutputTopics) -> Self {
        let mut settings = Settings::default();
        settings.estimate.page_size = kvset::core::units::PageSize::new(4);
        settings.prepare.preset = Some(preset);
        settings.prepare.pool = format!("{name}/{{model}}").parse().expect("a template");
        let (topic, mut input) = (broker.create(name, 1), Input::default());
        records(preset).into_iter().for_each(|record| input.push(0, "any key", record));
        let recipe = Arc::new(recipe(&settings));
        let plan = PreparePlan {
            stream: broker.stream(&topic, &format!("prepare-{name}"), outputs.clone()),
            recipe: Arc::clone(&recipe),
            tokenizers: tokenizers(),
            dead_letters: DeadLetterLimits { max_consecutive: 100, max_share: Ratio::ONE, share_window: 100 },
            registry: None,
        };
        Self { recipe, input, plan }
    }

    fn run(&self) {
        self.input.produce(&self.plan.stream.connection, &self.plan.stream.topic);
        let shutdown = Shutdown::new();
        prepare(&self.plan, &shutdown, &StopAfter::new(&shutdown, self.input.records()))
            .expect("a clean run");
    }

    /// Adds what the same records give in memory, which `tests/prepare/logs.rs` compares with the plain chat.
    fn expect(&self, published: &mut Published) {
        let mut preparer = Preparer::new(Arc::clone(&self.recipe), tokenizers());
        for (offset, (key, value)) in self.input.partitions[&0].iter().enumerate() {
            let time = Some(crate::kafka_support::stamp());
            let record = crate::prepare_support::record(0, offset as i64, time, Some(key), Some(value), &[]);
            for output in preparer.prepare(&record).outputs {
                match output.destination {
                    Destination::DeadLetters => published.letters += 1,
                    _ => published.add(output.key.as_deref(), output.value.expect("an event")),
                }
            }
        }
    }
}

/// The first records of a topic, for those who have no file: nothing is committed and nothing written.
#[test]
fn a_dry_run_reads_the_first_records_of_a_topic() {
    let broker = Broker::real().unwrap_or_else(Broker::mock);
    let topic = broker.create("kong", 2);
    let mut input = Input::default();
    for (number, record) in records(Preset::Kong).into_iter().enumerate() {
        input.push(number as i32 % 2, "any key", record);
    }
    input.produce(&broker.connection, &topic);
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("kvset.toml");
    std::fs::write(&config, format!("[kafka]\nbrokers = \"{}\"\n", broker.connection.brokers))
        .expect("a disk");
    let dry_run = |log: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kvset"));
        program.args(["prepare", "--dry-run", log, "--config"]).arg(&config).current_dir(&folder);
        let output = program.output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, said, error) = dry_run(&topic);
    assert_eq!(code, Some(0), "{said}{error}");
    for line in ["6 records read", "6  the log of kong", "[prepare]\npreset = \"kong\""] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(!said.contains("What is there"), "{said}");
    let (code, _, error) = dry_run("no.such-topic");
    assert!(code != Some(0) && error.contains("is no file here"), "{error}");
    assert!(error.contains("does not exist"), "{error}");

    // Records without a time of their own have that of their stamp, and a tombstone is passed over, as by prepare
    // itself.
    let plain = broker.create("plain", 1);
    let body = br#"{"model": "m", "tokens": [1, 2, 3]}"#;
    let records = batch([(None, Some(&body[..])), (Some(&b"gone"[..]), None), (None, Some(&body[..]))]);
    assert_eq!(records.produce(&broker.connection.brokers, &plain, 0, CAME), 0);
    let (code, said, error) = dry_run(&plain);
    assert_eq!(code, Some(0), "{said}{error}");
    for line in [
        "3 records read",
        "1  passed over: tombstone",
        "2  the stamps of the records",
        "2  from 2023-11-14 22:13:20 UTC to 2023-11-14 22:13:20 UTC",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

/// When the plain records came.
const CAME: i64 = 1_700_000_000_000;
