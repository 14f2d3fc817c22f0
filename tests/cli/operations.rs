//! What an operator meets: no broker, a configuration alongside, what the world around lacks, dead letters.

use crate::support::program::kvset;
use kvset::codec::{DeadLetter, DecodeError, ErrorCode, Provenance, SourceRecord};
use kvset::kafka::mock::MockBroker;
use kvset::kafka::sink::{Delivery, KafkaSink, OutputTopic, OutputTopics};
use kvset::output::{Destination, OutputRecord};
use kvset::pipeline::publish::Sink as _;
use kvset::position::Partition;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::process::Output;
use std::time::{Duration, Instant};

const TOPICS: [&str; 3] = ["kvset.requests", "kvset.estimates", "kvset.dead-letters"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// An address nobody listens at.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

fn broker(topics: &[&str]) -> MockBroker {
    let broker = MockBroker::start().expect("an embedded broker");
    topics.iter().for_each(|topic| broker.create_topic(topic, NonZeroU32::MIN).expect("a topic"));
    broker
}

/// Two minutes of silence were what a newcomer without a broker met.
#[test]
fn without_a_broker_a_command_says_what_to_do_within_ten_seconds() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    let trace = trace.to_str().expect("UTF-8");
    kvset(&["generate", "-n", "5", "--output", trace]).assert().success();
    let commands: [&[&str]; 5] = [
        &["watch"],
        &["dead-letters", "--until-end"],
        &["produce", trace],
        &["generate", "-n", "5", "--topic", "kvset.requests"],
        &["backfill", "--from", "earliest", "--run-id", "one"],
    ];
    let brokers = free_address();
    let waiting: Vec<_> = commands
        .map(|args| {
            let (brokers, args, directory) = (brokers.clone(), args.to_vec(), directory.path().to_owned());
            let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
            std::thread::spawn(move || {
                let begin = Instant::now();
                let arguments: Vec<&str> = args.iter().map(String::as_str).collect();
                let mut command = kvset(&arguments);
                command.current_dir(directory).env("KVSET__KAFKA__BROKERS", &brokers);
                (args, command.output().expect("run"), begin.elapsed())
            })
        })
        .into();
    for running in waiting {
        let (args, output, took) = running.join().expect("no panic");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            took < Duration::from_secs(15),
            "{args:?} took {took:?}; 8 s and the start on a busy machine"
        );
        for part in
            [&format!("no answer from {brokers} for 8s"), "docker compose up", "KVSET__KAFKA__BROKERS"]
        {
            assert!(said.contains(part), "{args:?}: {part:?} is missing in:\n{said}");
        }
    }
}

#[test]
fn a_configuration_in_the_working_directory_is_found_and_the_others_go_before_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, level: &str| {
        std::fs::write(directory.path().join(name), format!("[log]\nlevel = \"{level}\"\n"))
            .expect("written");
    };
    write("kvset.toml", "error");
    write("named.toml", "debug");
    write("variable.toml", "warn");
    let show = |args: &[&str], variable: Option<&str>| -> Output {
        let mut command = kvset(&[&["config", "show"], args].concat());
        command.current_dir(directory.path());
        variable.into_iter().for_each(|file| {
            command.env("KVSET_CONFIG", file);
        });
        command.output().expect("run")
    };
    for (args, variable, level) in [
        (&["--config", "named.toml"][..], Some("variable.toml"), "debug"),
        (&[], Some("variable.toml"), "warn"),
        (&[], None, "error"),
    ] {
        let output = show(args, variable);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(out.contains(&format!("level = \"{level}\"")), "{args:?} {variable:?}: {out}{err}");
        let is_beside = args.is_empty() && variable.is_none();
        assert_eq!(err.contains("reading ./kvset.toml"), is_beside, "{args:?} {variable:?}: {err}");
    }
    std::fs::remove_file(directory.path().join("kvset.toml")).expect("removed");
    assert!(text(&show(&[], None).stdout).contains("level = \"info\""), "the default");
}

/// `config check --connect` in a directory of its own: exit code, standard output, standard error.
fn connect(brokers: &str, settings: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = kvset(&["config", "check", "--connect"]);
    command.current_dir(directory.path()).env("KVSET__KAFKA__BROKERS", brokers);
    command.env("KVSET__STATE__DIRECTORY", "state").env("KVSET__HTTP__LISTEN", free_address());
    settings.iter().for_each(|(name, value)| {
        command.env(name, value);
    });
    let output = command.output().expect("run");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn config_check_connect_finds_all_well_where_it_is() {
    let broker = broker(&TOPICS);
    let (code, out, err) = connect(&broker.connection().brokers, &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    for line in [
        "the defaults and the environment: valid, fingerprint",
        "ok      broker",
        "ok      input.topic        kvset.requests has 1 partition",
        "ok      output.topic       kvset.estimates has 1 partition",
        "ok      dead-letter topic  kvset.dead-letters has 1 partition",
        "ok      right to read      kvset.requests can be read",
        "ok      group              kvset has committed nothing",
        "ok      transactional id   ids that begin with kvset-kvset- are allowed",
        "ok      right to write     kvset.estimates can be written to",
        "ok      right to write     kvset.dead-letters can be written to",
        "-       schema registry    none is configured",
        "ok      state.directory    state can be written to",
        "ok      http.listen",
    ] {
        assert!(out.contains(line), "{line:?} is missing in:\n{out}");
    }
    assert!(!out.contains("FAILED"), "{out}");
}

/// Its own service, which runs, was said to be in the way.
#[test]
fn config_check_connect_finds_its_own_service_where_it_listens_and_another_groups_in_the_way() {
    let broker = broker(&TOPICS);
    for (group, expected) in
        [("kvset", "ok      http.listen        "), ("staging", "FAILED  http.listen        ")]
    {
        let service = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = service.local_addr().expect("its address").to_string();
        let serving = std::thread::spawn(move || {
            let (mut asked, _) = service.accept().expect("a question");
            let metrics =
                format!("kvset_build_info{{version=\"0\",group=\"{group}\",fingerprint=\"0\"}} 1\n");
            let length = metrics.len();
            let question = BufReader::new(&asked).lines().map(|line| line.expect("a question"));
            assert!(question.take_while(|line| !line.is_empty()).any(|line| line.contains("/metrics")));
            write!(asked, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{metrics}").expect("an answer");
        });
        let (_, out, err) =
            connect(&broker.connection().brokers, &[("KVSET__HTTP__LISTEN", address.as_str())]);
        assert!(out.contains(&format!("{expected}{address}")), "{out}{err}");
        serving.join().expect("it answered");
    }
}

#[test]
fn config_check_connect_names_everything_that_is_missing_and_what_to_do() {
    let broker = broker(&TOPICS[..1]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let settings = [
        ("KVSET__HTTP__LISTEN", address.as_str()),
        ("KVSET__OUTPUT__DELIVERY", "idempotent"),
        ("KVSET__STATE__DIRECTORY", "/proc/kvset"),
        ("KVSET__SCHEMA_REGISTRY__URL", &format!("http://{}", free_address())),
    ];
    let (code, out, err) = connect(&broker.connection().brokers, &settings);
    assert_eq!(code, Some(1), "{out}{err}");
    for line in [
        "ok      input.topic",
        "FAILED  output.topic       kvset.estimates does not exist",
        "`kvset run --create-topics`",
        "FAILED  dead-letter topic  kvset.dead-letters does not exist: correct output.dead_letter_topic in",
        "-       transactional id   not needed",
        "FAILED  schema registry",
        "FAILED  state.directory",
        "FAILED  http.listen",
    ] {
        assert!(out.contains(line), "{line:?} is missing in:\n{out}");
    }
    assert!(err.contains("5 of 13 checks failed"), "{err}");
}

#[test]
fn config_check_connect_tries_what_prepare_needs_where_it_is_configured() {
    let broker = broker(&[TOPICS[0], TOPICS[1], TOPICS[2], "raw"]);
    let (code, out, err) = connect(&broker.connection().brokers, &[("KVSET__PREPARE__TOPIC", "raw")]);
    assert_eq!(code, Some(1), "{out}{err}");
    for line in [
        "ok      prepare.topic      raw has 1 partition",
        "ok      right to read      raw can be read",
        "ok      group              kvset-prepare has committed nothing",
        "ok      transactional id   ids that begin with kvset-kvset-prepare- are allowed",
        "ok      right to write     kvset.requests can be written to",
        "FAILED  prepare's refused  kvset.raw-dead-letters does not exist",
        "`kvset prepare --create-topics`",
    ] {
        assert!(out.contains(line), "{line:?} is missing in:\n{out}");
    }
}

#[test]
fn config_check_connect_without_a_broker_says_so_and_tries_the_rest() {
    let (code, out, err) = connect(&free_address(), &[]);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(
        out.contains("FAILED  broker             no answer from") && out.contains("ok      http.listen"),
        "{out}"
    );
    let (code, out, _) = connect("b:1", &[("KVSET__HTTP__LISTEN", "nowhere")]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "a wrong configuration is not tried");
}

const PROMPT: &[u8] = b"{\"prompt\": \"my secret prompt\"}";

/// Publishes dead letters as the service does.
fn publish_dead_letters(broker: &MockBroker) {
    let topic = |name: &str| OutputTopic { name: name.to_owned(), partitions: NonZeroU32::MIN };
    let topics = OutputTopics { results: topic(TOPICS[1]), dead_letters: topic(TOPICS[2]) };
    let wait = Duration::from_secs(30);
    let sink = KafkaSink::open(&broker.connection(), "letters", topics, Delivery::Transactional, wait);
    let mut sink = sink.expect("a producer");
    sink.begin().expect("begun");
    let by = Provenance { version: "1", fingerprint: "f" };
    for (offset, code) in
        [(7, ErrorCode::MissingField), (8, ErrorCode::EmptyRecord), (9, ErrorCode::MissingField)]
    {
        let (key, value) = (Some(&b"pool"[..]), Some(PROMPT));
        let timestamp_ms = Some(1_700_000_000_000);
        let record = SourceRecord {
            schema_header: None,
            topic: TOPICS[0],
            partition: 3,
            offset,
            timestamp_ms,
            key,
            value,
        };
        let letter = DeadLetter::new(record, &DecodeError::new(code, "event_time is missing"), by);
        let (destination, partition) = (Destination::DeadLetters, Partition(0));
        let DeadLetter { key, value, headers } = letter;
        let output =
            OutputRecord { destination, partition, window: None, key, value, headers, placed_by: None };
        sink.send(&output).expect("sent");
    }
    sink.commit().expect("committed");
}

#[test]
fn dead_letters_are_listed_with_their_reasons_and_without_their_prompts() {
    let broker = broker(&TOPICS);
    publish_dead_letters(&broker);
    let letters = |args: &[&str]| {
        let args = [&["dead-letters", "--from-beginning", "--until-end"], args].concat();
        let mut command = kvset(&args);
        command.env("KVSET__KAFKA__BROKERS", broker.connection().brokers);
        let output = command.assert().success().get_output().clone();
        (text(&output.stdout), text(&output.stderr))
    };
    let (out, err) = letters(&[]);
    assert_eq!(out.lines().count(), 4, "{out}");
    let line = out.lines().nth(1).expect("the first letter");
    for part in ["kvset.requests/3 7", "2023-11-14T22:13:20Z", "missing_field", "event_time is missing"] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
    assert!(
        err.contains("3 dead letters of topic kvset.dead-letters") && err.contains("2  missing_field"),
        "{err}"
    );
    let (json, _) = letters(&["--json", "--code", "empty_record"]);
    let letter: serde_json::Value = serde_json::from_str(&json).expect("one line of JSON");
    assert_eq!((&letter["code"], &letter["offset"]), (&"empty_record".into(), &8.into()));
    let (limited, _) = letters(&["-n", "2", "--json"]);
    assert_eq!(limited.lines().count(), 2);
    for shown in [&out, &err, &json] {
        assert!(!shown.contains("secret"), "{shown}");
    }
    assert!(letters(&["--raw"]).0.contains("my secret prompt"), "asked for");
}

/// Both spellings were used, one by each command.
#[test]
fn topics_are_created_by_one_option_and_its_old_name_still_works() {
    for option in ["--create-topics=2", "--create-topic=2", "--create-topics"] {
        let output = kvset(&["generate", "-n", "1", option, "--topic", "x", "--no-such-option"])
            .output()
            .expect("run");
        let said = text(&output.stderr);
        assert!(said.contains("--no-such-option") && !said.contains("'--create-topic"), "{option}: {said}");
    }
    let help = text(&kvset(&["produce", "--help"]).output().expect("run").stdout);
    assert!(
        help.contains("--create-topics")
            && !help.contains("--create-topic[")
            && !help.contains("--create-topic ")
    );
}

#[test]
fn a_code_that_no_dead_letter_has_is_wrong_usage() {
    let output = kvset(&["dead-letters", "--code", "missing_feild"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("missing_feild") && said.contains("missing_field"), "{said}");
}
