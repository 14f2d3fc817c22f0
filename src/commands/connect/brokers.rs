//! What only brokers can tell: topics, rights, groups and transactional ids, of the service and of prepare.

use super::finding::{CheckVerdict, ConnectCheck, finding, judged};
use kvset_core::units::Offset;
use kvset_formats::output::Destination;
use kvset_formats::position::Partition;
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::lookup::RecordLookup;
use kvset_kafka::kafka::offsets::Offsets;
use kvset_kafka::kafka::sink::{Delivery, KafkaSink, OutputTopic, OutputTopics};
use kvset_kafka::kafka::topics::{FIRST_ANSWER, Topics, compacted, compacted_letters, is_compacted};
use kvset_service::plan::connection;
use kvset_settings::{Prepare, Settings, TopicName};
use std::num::NonZeroU32;

/// A topic, what it is, the setting that names it, and what to do where there is none.
struct TopicSetting<'s> {
    what: &'static str,
    setting: &'static str,
    topic: &'s TopicName,
    advice: &'static str,
}

impl<'s> TopicSetting<'s> {
    fn named(setting: &'static str, topic: &'s TopicName, advice: &'static str) -> Self {
        Self { what: setting, setting, topic, advice }
    }
}

/// One of the two ways from topic to topic: the service's, or prepare's.
struct TopicStage<'s> {
    settings: &'s Settings,
    group: &'s str,
    input: TopicSetting<'s>,
    results: TopicSetting<'s>,
    dead_letters: TopicSetting<'s>,
}

impl<'s> TopicStage<'s> {
    /// From request events to estimates.
    fn service(settings: &'s Settings) -> Self {
        let by_run = "create it: `kvset run --create-topics` does";
        let by_produce = "create it: `kvset produce --create-topics` does";
        let (input, output) = (&settings.input, &settings.output);
        Self {
            settings,
            group: &settings.kafka.group,
            input: TopicSetting::named("input.topic", &input.topic, by_produce),
            results: TopicSetting::named("output.topic", &output.topic, by_run),
            dead_letters: TopicSetting {
                what: "dead-letter topic",
                ..TopicSetting::named("output.dead_letter_topic", &output.dead_letter_topic, by_run)
            },
        }
    }

    /// From raw requests to request events; none where the configuration says nothing about it.
    fn prepare(settings: &'s Settings) -> Option<Self> {
        let prepare = &settings.prepare;
        if *prepare == Prepare::default() {
            return None;
        }
        let by_prepare = "create it: `kvset prepare --create-topics` does";
        let (setting, results) = match &prepare.output_topic {
            Some(topic) => ("prepare.output_topic", topic),
            None => ("input.topic", &settings.input.topic),
        };
        let by_log = "have it created by whoever writes the log";
        let named = TopicSetting::named;
        let letters = named("prepare.dead_letter_topic", &prepare.dead_letter_topic, by_prepare);
        Some(Self {
            settings,
            group: &prepare.group,
            input: named("prepare.topic", &prepare.topic, by_log),
            results: TopicSetting { what: "prepare's output", ..named(setting, results, by_prepare) },
            dead_letters: TopicSetting { what: "prepare's refused", ..letters },
        })
    }

    /// What this stage needs of the brokers.
    fn check(&self, connection: &Connection, topics: &Topics) -> Vec<ConnectCheck> {
        let mut found = Vec::new();
        let mut exists = |named: &TopicSetting<'_>| {
            let partitions = topics.partitions(named.topic.as_str());
            let exists = matches!(partitions, Ok(Some(_)));
            found.push(topic_finding(named, partitions));
            exists
        };
        let input = exists(&self.input);
        let outputs = [&self.results, &self.dead_letters].map(&mut exists);
        if outputs[1] {
            found.extend(self.letters(topics));
        }
        if input {
            found.push(self.whole(topics));
            found.push(self.reading(connection));
            found.push(self.committed(connection));
        }
        found.extend(self.writing(connection, outputs));
        found
    }

    /// Whether brokers keep all records of the input topic for as long as they keep any.
    fn whole(&self, topics: &Topics) -> ConnectCheck {
        let (topic, key) = (self.input.topic.as_str(), self.input.setting);
        match topics.cleanup_policy(topic) {
            Some(policy) if is_compacted(&policy) => {
                finding("input's cleanup", CheckVerdict::Bad, compacted(topic, key, &policy))
            }
            Some(policy) => finding(
                "input's cleanup",
                CheckVerdict::Good,
                format!("{topic} has cleanup.policy = {policy}"),
            ),
            None => {
                let said = format!(
                    "not certain: brokers do not tell the settings of {topic} (DescribeConfigs); its cleanup.policy must be \
                     delete"
                );
                finding("input's cleanup", CheckVerdict::Untried, said)
            }
        }
    }

    /// That brokers keep the newest dead letter of each pool only, where they do.
    fn letters(&self, topics: &Topics) -> Option<ConnectCheck> {
        let TopicSetting { setting, topic, .. } = self.dead_letters;
        let policy = topics.cleanup_policy(topic.as_str()).filter(|policy| is_compacted(policy))?;
        let said = compacted_letters(topic.as_str(), setting, &policy);
        Some(finding("letters' cleanup", CheckVerdict::Bad, said))
    }

    /// Whether records of the input topic are handed out to this user.
    fn reading(&self, connection: &Connection) -> ConnectCheck {
        let topic = self.input.topic.as_str();
        let read = || {
            let offsets = Offsets::open(connection, self.group, topic)?;
            let range = offsets.log_range(Partition(0), FIRST_ANSWER)?;
            let lookup = RecordLookup::open(connection, topic)?;
            lookup.record(Partition(0), Offset(range.start.0), FIRST_ANSWER)
        };
        judged("right to read", read(), |record| match record {
            Some(_) => format!("{topic} can be read"),
            None => format!("{topic} can be read; its partition 0 is empty"),
        })
    }

    /// Whether the group's offsets are told to this user.
    fn committed(&self, connection: &Connection) -> ConnectCheck {
        let (group, topic) = (self.group, self.input.topic.as_str());
        let committed = Offsets::open(connection, group, topic)
            .and_then(|offsets| offsets.committed(&[Partition(0)], FIRST_ANSWER));
        judged("group", committed, |committed| match committed.first() {
            Some((_, Some(next))) => format!("{group} goes on at offset {next} of partition 0"),
            _ => format!("{group} has committed nothing of partition 0 yet"),
        })
    }

    /// Whether this user may open transactions, under an id of its own, which fences no service, and write in them to
    /// those of the two output topics that exist.
    fn writing(&self, connection: &Connection, exist: [bool; 2]) -> Vec<ConnectCheck> {
        let (id, right) = ("transactional id", "right to write");
        if self.settings.output.delivery == Delivery::Idempotent {
            let said = "not tried: output.delivery is \"idempotent\", so what is written cannot be taken back; the user \
                        needs Write on both output topics";
            return vec![
                finding(id, CheckVerdict::Untried, "not needed: output.delivery is \"idempotent\""),
                finding(right, CheckVerdict::Untried, said),
            ];
        }
        let mut sink = match self.sink(connection) {
            Ok(sink) => sink,
            Err(bad) => {
                return vec![bad, finding(right, CheckVerdict::Untried, "not tried without a transaction")];
            }
        };
        let mut found =
            vec![finding(id, CheckVerdict::Good, format!("ids that begin with {} are allowed", self.ids()))];
        let topics = [(Destination::Results, &self.results), (Destination::DeadLetters, &self.dead_letters)];
        for ((destination, named), _) in topics.into_iter().zip(exist).filter(|(_, exists)| *exists) {
            let topic = named.topic.as_str();
            let written = sink.try_write(destination).map_err(|error| format!("{topic}: {error}"));
            found.push(judged(right, written, |()| {
                format!("{topic} can be written to (tried in a transaction that was aborted)")
            }));
        }
        found
    }

    /// How this stage's transactional ids begin.
    fn ids(&self) -> String {
        format!("kvset-{}-", self.group)
    }

    fn sink(&self, connection: &Connection) -> Result<KafkaSink, ConnectCheck> {
        let what = "transactional id";
        let (ids, instance) = (self.ids(), &self.settings.kafka.instance);
        let id = format!("{ids}check-{}", std::process::id());
        let topic = |named: &TopicSetting<'_>, partitions| OutputTopic {
            name: named.topic.as_str().to_owned(),
            partitions,
        };
        let topics = OutputTopics {
            results: topic(&self.results, NonZeroU32::MIN),
            dead_letters: topic(&self.dead_letters, NonZeroU32::MIN),
        };
        KafkaSink::open(connection, &id, topics, Delivery::Transactional, FIRST_ANSWER).map_err(|error| {
            // With an instance's name the service's own id is known and may be all that was granted; trying that
            // one would fence a service that runs under it.
            if instance.is_empty() {
                return finding(what, CheckVerdict::Bad, error.to_string());
            }
            finding(
                what,
                CheckVerdict::Untried,
                format!("not certain: {ids}{instance} was not tried; {error}"),
            )
        })
    }
}

/// The brokers, and what the service and, where it is configured, prepare need of them.
pub(super) fn check(settings: &Settings) -> Vec<ConnectCheck> {
    let connection = match connection(&settings.kafka) {
        Ok(connection) => connection,
        Err(error) => return vec![finding("kafka.properties", CheckVerdict::Bad, error.to_string())],
    };
    let topics = match Topics::new(&connection, FIRST_ANSWER) {
        Ok(topics) => topics,
        Err(error) => return vec![finding("broker", CheckVerdict::Bad, error.to_string())],
    };
    if let Err(error) = topics.reach(settings.input.topic.as_str()) {
        let rest = "topics, rights, group and transactional id: not tried without a broker";
        return vec![
            finding("broker", CheckVerdict::Bad, error.to_string()),
            finding("kafka", CheckVerdict::Untried, rest),
        ];
    }
    let mut found = vec![finding("broker", CheckVerdict::Good, format!("{} answers", connection.brokers))];
    found.extend(TopicStage::service(settings).check(&connection, &topics));
    found.extend(TopicStage::prepare(settings).iter().flat_map(|stage| stage.check(&connection, &topics)));
    found
}

fn topic_finding(
    named: &TopicSetting<'_>,
    partitions: Result<Option<NonZeroU32>, KafkaFailure>,
) -> ConnectCheck {
    let TopicSetting { what, setting, topic, advice } = *named;
    let topic = topic.as_str();
    match partitions {
        Ok(Some(partitions)) => {
            let noun = if partitions.get() == 1 { "partition" } else { "partitions" };
            finding(what, CheckVerdict::Good, format!("{topic} has {partitions} {noun}"))
        }
        Ok(None) => {
            let said = format!("{topic} does not exist: correct {setting} in the configuration, or {advice}");
            finding(what, CheckVerdict::Bad, said)
        }
        Err(error) => finding(what, CheckVerdict::Bad, error.to_string()),
    }
}
