//! `kvset config check --connect`: everything the service needs of the world around it, tried once, with
//! what to do about each thing that is not as it must be. Nothing is written to any topic or store.

use kvset_core::units::Offset;
use kvset_formats::codec::SchemaId;
use kvset_formats::codec::schema;
use kvset_formats::position::Partition;
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::lookup::Lookup;
use kvset_kafka::kafka::offsets::Offsets;
use kvset_kafka::kafka::sink::{Guarantee, KafkaSink, OutputTopic, OutputTopics};
use kvset_kafka::kafka::topics::{FIRST_ANSWER, Topics};
use kvset_pipeline::facts::PartitionId;
use kvset_service::plan::schemas;
use kvset_service::plan::{connection, shared_plan};
use kvset_service::snapshots::stores::open_shared;
use kvset_settings::{Delivery, InputEncoding, OutputEncoding, Settings};
use kvset_snapshot::directory::DirectoryStore;
use kvset_snapshot::store::{SnapshotStore, StoreError};
use std::fmt;
use std::net::TcpListener;
use std::num::{NonZeroU32, NonZeroUsize};

/// What became of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it must be.
    Good,
    /// It could not be told, or there is nothing to tell.
    Untried,
    /// The service would not work.
    Bad,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What: a word or two.
    pub what: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found, and what to do where it is bad.
    pub said: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            Verdict::Good => "ok",
            Verdict::Untried => "-",
            Verdict::Bad => "FAILED",
        };
        write!(f, "{word:<7} {:<18} {}", self.what, self.said)
    }
}

fn finding(what: impl Into<String>, verdict: Verdict, said: impl Into<String>) -> Finding {
    Finding { what: what.into(), verdict, said: said.into() }
}

/// Good with these words, or bad with those of the error.
fn judged<T, E: fmt::Display>(
    what: impl Into<String>,
    found: Result<T, E>,
    good: impl FnOnce(T) -> String,
) -> Finding {
    match found {
        Ok(found) => finding(what, Verdict::Good, good(found)),
        Err(error) => finding(what, Verdict::Bad, error.to_string()),
    }
}

/// Tries everything, in order; `tell` is called as soon as each is known.
pub fn check(settings: &Settings, tell: &mut dyn FnMut(&Finding)) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |found: Vec<Finding>| {
        found.iter().for_each(&mut *tell);
        findings.extend(found);
    };
    note(brokers(settings));
    note(vec![registry(settings)]);
    note(vec![directory(settings), shared_store(settings)]);
    note(vec![http(settings)]);
    findings
}

/// The brokers, and what only they can tell.
fn brokers(settings: &Settings) -> Vec<Finding> {
    let mut found = Vec::new();
    let connection = match connection(&settings.kafka) {
        Ok(connection) => connection,
        Err(error) => return vec![finding("kafka.properties", Verdict::Bad, error.to_string())],
    };
    let topics = [
        ("input.topic", &settings.input.topic, "create it: `kvset produce --create-topics` does"),
        ("output.topic", &settings.output.topic, "create it: `kvset run --create-topics` does"),
        (
            "dead-letter topic",
            &settings.output.dead_letter_topic,
            "create it: `kvset run --create-topics` does",
        ),
    ];
    let client = match Topics::new(&connection, FIRST_ANSWER) {
        Ok(client) => client,
        Err(error) => return vec![finding("broker", Verdict::Bad, error.to_string())],
    };
    let mut input_exists = false;
    for (index, (what, topic, advice)) in topics.into_iter().enumerate() {
        let topic = topic.as_str();
        let partitions = client.partitions(topic);
        if index == 0 {
            if let Err(error) = &partitions {
                let rest = "topics, rights, group and transactional id: not tried without a broker";
                return vec![
                    finding("broker", Verdict::Bad, error.to_string()),
                    finding("kafka", Verdict::Untried, rest),
                ];
            }
            found.push(finding("broker", Verdict::Good, format!("{} answers", connection.brokers)));
        }
        input_exists |= index == 0 && matches!(partitions, Ok(Some(_)));
        found.push(topic_finding(what, topic, advice, partitions));
    }
    if input_exists {
        found.push(reading(&connection, settings));
        found.push(group(&connection, settings));
    }
    found.push(transactions(&connection, settings));
    let said = "not tried: only writing to the output topics could tell; the user needs Write on both";
    found.push(finding("right to write", Verdict::Untried, said));
    found
}

fn topic_finding(
    what: &str,
    topic: &str,
    advice: &str,
    partitions: Result<Option<NonZeroU32>, KafkaFailure>,
) -> Finding {
    match partitions {
        Ok(Some(partitions)) => {
            let noun = if partitions.get() == 1 { "partition" } else { "partitions" };
            finding(what, Verdict::Good, format!("{topic} has {partitions} {noun}"))
        }
        Ok(None) => {
            let said = format!("{topic} does not exist: correct {what} in the configuration, or {advice}");
            finding(what, Verdict::Bad, said)
        }
        Err(error) => finding(what, Verdict::Bad, error.to_string()),
    }
}

/// Whether records of the input topic are handed out to this user.
fn reading(connection: &Connection, settings: &Settings) -> Finding {
    let topic = settings.input.topic.as_str();
    let read = || {
        let offsets = Offsets::open(connection, &settings.kafka.group, topic)?;
        let range = offsets.log_range(Partition(0), FIRST_ANSWER)?;
        let lookup = Lookup::open(connection, topic)?;
        lookup.record(Partition(0), Offset(range.start.0), FIRST_ANSWER)
    };
    judged("right to read", read(), |record| match record {
        Some(_) => format!("{topic} can be read"),
        None => format!("{topic} can be read; its partition 0 is empty"),
    })
}

/// Whether the group's offsets are told to this user.
fn group(connection: &Connection, settings: &Settings) -> Finding {
    let (group, topic) = (&settings.kafka.group, settings.input.topic.as_str());
    let committed = Offsets::open(connection, group, topic)
        .and_then(|offsets| offsets.committed(&[Partition(0)], FIRST_ANSWER));
    judged("group", committed, |committed| match committed.first() {
        Some((_, Some(next))) => format!("{group} goes on at offset {next} of partition 0"),
        _ => format!("{group} has committed nothing of partition 0 yet"),
    })
}

/// Whether this user may open transactions. Under an id of its own, which fences no service.
fn transactions(connection: &Connection, settings: &Settings) -> Finding {
    let what = "transactional id";
    if settings.output.delivery == Delivery::Idempotent {
        return finding(what, Verdict::Untried, "not needed: output.delivery is \"idempotent\"");
    }
    let prefix = format!("kvset-{}-", settings.kafka.group);
    let id = format!("{prefix}check-{}", std::process::id());
    let topic = |name: &kvset_settings::TopicName| OutputTopic {
        name: name.as_str().to_owned(),
        partitions: NonZeroU32::MIN,
    };
    let topics = OutputTopics {
        results: topic(&settings.output.topic),
        dead_letters: topic(&settings.output.dead_letter_topic),
    };
    match KafkaSink::open(connection, &id, topics, Guarantee::ExactlyOnce, FIRST_ANSWER) {
        Ok(_) => finding(what, Verdict::Good, format!("ids that begin with {prefix} are allowed")),
        // With an instance's name the service's own id is known and may be all that was granted; trying that
        // one would fence a service that runs under it.
        Err(error) if !settings.kafka.instance.is_empty() => {
            let said = format!("not certain: {prefix}{} was not tried; {error}", settings.kafka.instance);
            finding(what, Verdict::Untried, said)
        }
        Err(error) => finding(what, Verdict::Bad, error.to_string()),
    }
}

/// Whether the registry answers, and knows the schema that is to be written.
fn registry(settings: &Settings) -> Finding {
    let what = "schema registry";
    let (registry, output) = (&settings.schema_registry, &settings.output);
    let opened = match schemas::open(registry) {
        Ok(None) if output.encoding == OutputEncoding::ConfluentAvro => {
            return finding(what, Verdict::Bad, "output.encoding needs one: set schema_registry.url");
        }
        Ok(None) if settings.input.encoding == InputEncoding::ConfluentAvro => {
            return finding(what, Verdict::Bad, "input.encoding needs one: set schema_registry.url");
        }
        Ok(None) => return finding(what, Verdict::Untried, "none is configured"),
        Ok(Some(opened)) => opened,
        Err(error) => return finding(what, Verdict::Bad, error.to_string()),
    };
    let url = registry.url.as_str();
    if output.encoding != OutputEncoding::ConfluentAvro {
        let answered = opened.client().schema(SchemaId(1));
        return judged(what, answered, |_| format!("{url} answers"));
    }
    let subject = format!("{}-value", output.topic.as_str());
    match opened.client().registered(&subject, schema::CAPACITY_ESTIMATE) {
        Ok(Some(id)) => finding(what, Verdict::Good, format!("{url} has the schema of {subject} as id {id}")),
        Ok(None) if registry.auto_register => {
            finding(what, Verdict::Good, format!("{url} answers; the service registers {subject}"))
        }
        Ok(None) => {
            let said = format!(
                "{url} answers and does not have {subject}: register schemas/capacity_estimate.avsc there, or set \
                 schema_registry.auto_register = true"
            );
            finding(what, Verdict::Bad, said)
        }
        Err(error) => finding(what, Verdict::Bad, error.to_string()),
    }
}

/// Whether the snapshot directory can be written to; it is made, as the service makes it.
fn directory(settings: &Settings) -> Finding {
    let (what, path) = ("state.directory", settings.state.directory.display());
    let generations = NonZeroUsize::new(settings.state.generations as usize).unwrap_or(NonZeroUsize::MIN);
    match DirectoryStore::open(&settings.state.directory, generations) {
        Ok(_) => finding(what, Verdict::Good, format!("{path} can be written to")),
        Err(StoreError::Locked { holder, .. }) => {
            finding(what, Verdict::Good, format!("{path} is in use by {holder}"))
        }
        Err(error) => finding(what, Verdict::Bad, error.to_string()),
    }
}

/// Whether the store that hosts share tells what it holds.
fn shared_store(settings: &Settings) -> Finding {
    let what = "state.shared";
    let Some(plan) = shared_plan(settings) else {
        return finding(what, Verdict::Untried, "none is configured");
    };
    let id = match PartitionId::new(settings.input.topic.as_str(), 0) {
        Ok(id) => id,
        Err(error) => return finding(what, Verdict::Bad, error.to_string()),
    };
    let listed = open_shared(&plan, NonZeroUsize::MIN).and_then(|store| store.list(&id));
    judged(what, listed, |found| {
        format!("{} can be read, with {} snapshots of {id}", plan.address, found.len())
    })
}

/// Whether the address to serve on is free.
fn http(settings: &Settings) -> Finding {
    let what = "http.listen";
    let Some(address) = settings.http.listen.0 else {
        return finding(what, Verdict::Untried, "no address is configured");
    };
    match TcpListener::bind(address) {
        Ok(_) => finding(what, Verdict::Good, format!("{address} is free")),
        Err(error) => {
            let said = format!(
                "{address}: {error}; end what listens there (another kvset, perhaps), or set another http.listen"
            );
            finding(what, Verdict::Bad, said)
        }
    }
}
