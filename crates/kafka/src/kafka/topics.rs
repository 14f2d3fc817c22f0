//! Which topics exist, what to do about missing ones, and their creation.

use super::config::Connection;
use super::context::{Logging, serve};
use super::error::{failure_of, unreached};
use kvset_formats::time::words;
use kvset_pipeline::publish::{FailureKind, KafkaFailure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode as Code;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A topic to create where it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan {
    /// Its name.
    pub name: String,
    /// Its partitions.
    pub partitions: NonZeroU32,
    /// For how long it keeps the newest record of each key; where this is absent, it keeps what the broker's defaults
    /// say.
    pub compacted_for: Option<Duration>,
}

/// Longest time a command that a person waits for waits for the first answer of a broker; a service waits
/// for as long as `kafka.retry_for` says.
pub const FIRST_ANSWER: Duration = Duration::from_secs(8);

/// Longest wait for one answer.
const ONE_ANSWER: Duration = Duration::from_secs(5);

/// Time between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether this cleanup.policy lets records go of which their key has a newer one.
pub fn is_compacted(policy: &str) -> bool {
    policy.split(',').any(|part| part.trim() == "compact")
}

/// That an input topic is compacted, and what to do.
pub fn compacted(topic: &str, key: &str, policy: &str) -> String {
    format!(
        "topic `{topic}` ({key}) has cleanup.policy = \"{policy}\": brokers keep the newest record of each key, a pool, and \
         delete all its other requests, so estimates would be of a few of them. Set cleanup.policy=delete with as much \
         retention as estimates need (kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config \
         cleanup.policy=delete); what was compacted away is gone"
    )
}

/// That a topic of dead letters is compacted, and what to do.
pub fn compacted_letters(topic: &str, key: &str, policy: &str) -> String {
    format!(
        "topic `{topic}` ({key}) has cleanup.policy = \"{policy}\": dead letters have the keys of their records, which are \
         pools, so brokers keep the newest of each pool. Set cleanup.policy=delete (kafka-configs.sh --alter --entity-type \
         topics --entity-name {topic} --add-config cleanup.policy=delete)"
    )
}

/// Asks about topics.
pub struct Topics {
    client: BaseConsumer<Logging>,
    connection: Connection,
    deadline: Duration,
    /// Brokers did not answer a question for settings: they are asked for none any more.
    is_untold: AtomicBool,
}

impl Topics {
    /// Connects; nothing is asked yet. Questions are repeated for `deadline`.
    ///
    /// # Errors
    /// Properties the client refuses.
    pub fn new(connection: &Connection, deadline: Duration) -> Result<Self, KafkaFailure> {
        let client: BaseConsumer<Logging> = connection
            .admin()
            .create_with_context(Logging::new(connection.tokens()?))
            .map_err(|error| failure_of("connecting", &error))?;
        Ok(Self { client, connection: connection.clone(), deadline, is_untold: AtomicBool::new(false) })
    }

    /// Partitions of a topic; `None` where there is no such topic.
    ///
    /// # Errors
    /// No broker answers within the deadline; access denied.
    pub fn partitions(&self, topic: &str) -> Result<Option<NonZeroU32>, KafkaFailure> {
        self.repeated(|left| self.ask(topic, left))
    }

    /// Whether a broker answers; that this user may not see the topic is an answer, too.
    ///
    /// # Errors
    /// None answers, or lets the client in.
    pub fn reach(&self, topic: &str) -> Result<(), KafkaFailure> {
        self.repeated(|left| self.metadata(topic, left).map(drop))
    }

    fn repeated<T>(&self, ask: impl Fn(Duration) -> Result<T, KafkaFailure>) -> Result<T, KafkaFailure> {
        let (begin, mut is_told) = (Instant::now(), false);
        loop {
            let left = self.deadline.saturating_sub(begin.elapsed());
            match ask(left.min(ONE_ANSWER)) {
                Err(failure) if failure.kind == FailureKind::Transient => {
                    if begin.elapsed() + PAUSE >= self.deadline {
                        return Err(self.unanswered(&failure));
                    }
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!("{failure}; asking again for up to {} s", self.deadline.as_secs());
                    }
                    std::thread::sleep(PAUSE);
                }
                answer => return answer,
            }
        }
    }

    /// Nobody answered: what to do about it.
    fn unanswered(&self, failure: &KafkaFailure) -> KafkaFailure {
        let (brokers, waited) = (&self.connection.brokers, words(self.deadline));
        let trouble = self.client.context().trouble();
        let met = trouble.as_ref().map_or_else(|| failure.to_string(), |(_, reason)| reason.clone());
        let cure = unreached(brokers, trouble.as_ref());
        let message = format!("no answer from {brokers} for {waited} ({met}): {cure}");
        KafkaFailure { message, ..failure.clone() }
    }

    fn failed(&self, topic: &str, error: &KafkaError) -> KafkaFailure {
        failure_of(&format!("asking {} about topic `{topic}`", self.connection.brokers), error)
    }

    fn metadata(&self, topic: &str, timeout: Duration) -> Result<Metadata, KafkaFailure> {
        serve(&self.client);
        let metadata = self.client.fetch_metadata(Some(topic), timeout);
        metadata.map_err(|error| self.failed(topic, &serve(&self.client).unwrap_or(error)))
    }

    fn ask(&self, topic: &str, timeout: Duration) -> Result<Option<NonZeroU32>, KafkaFailure> {
        let metadata = self.metadata(topic, timeout)?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Ok(None);
        };
        match found.error().map(Code::from) {
            None => {}
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => return Ok(None),
            Some(code) => return Err(self.failed(topic, &KafkaError::MetadataFetch(code))),
        }
        Ok(u32::try_from(found.partitions().len()).ok().and_then(NonZeroU32::new))
    }

    /// Partitions of a topic that must be there.
    ///
    /// # Errors
    /// It is not; `key` names the setting that asks for it, `option` what would have created it.
    pub fn require(&self, topic: &str, key: &str, option: &str) -> Result<NonZeroU32, KafkaFailure> {
        self.partitions(topic)?.ok_or_else(|| {
            KafkaFailure::fatal(format!(
                "topic `{topic}` ({key}) does not exist on {}: correct its name, or create it ({option} does)",
                self.connection.brokers
            ))
        })
    }

    /// What the brokers do with old records of a topic (`cleanup.policy`); `None` where they do not say, for want of
    /// the right to ask (DescribeConfigs), say.
    pub fn cleanup_policy(&self, topic: &str) -> Option<String> {
        if self.is_untold.load(Ordering::Relaxed) {
            return None;
        }
        let described = self.describe(topic);
        if let Err(failure) = &described {
            self.is_untold.store(true, Ordering::Relaxed);
            tracing::debug!("{failure}");
        }
        described.ok().flatten()
    }

    fn describe(&self, topic: &str) -> Result<Option<String>, KafkaFailure> {
        let doing = format!("asking {} for the settings of topic `{topic}`", self.connection.brokers);
        let failure = |error| failure_of(&doing, &error);
        let tokens = self.connection.tokens()?;
        if tokens.is_some() {
            return Ok(None);
        }
        let admin: AdminClient<Logging> =
            self.connection.admin().create_with_context(Logging::new(tokens)).map_err(failure)?;
        let options = AdminOptions::new().request_timeout(Some(self.deadline.min(ONE_ANSWER)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|error| KafkaFailure::fatal(format!("{doing}: {error}")))?;
        let resources = [ResourceSpecifier::Topic(topic)];
        let asked = admin.describe_configs(&resources, &options);
        let found = runtime.block_on(asked).map_err(failure)?;
        let found = found.into_iter().next().and_then(Result::ok);
        Ok(found.and_then(|settings| settings.get("cleanup.policy")?.value.clone()))
    }

    /// Refuses an input topic that brokers compact: of each key, which is a pool, they keep the newest record, so
    /// nearly all requests would be missing.
    ///
    /// # Errors
    /// It is compacted; that brokers do not say is said, and taken for good.
    pub fn require_whole(&self, topic: &str, key: &str) -> Result<(), KafkaFailure> {
        match self.cleanup_policy(topic).as_deref() {
            Some(policy) if is_compacted(policy) => Err(KafkaFailure::fatal(compacted(topic, key, policy))),
            Some(_) => Ok(()),
            None => {
                tracing::info!(
                    "whether topic `{topic}` ({key}) is compacted is not known: this user may not ask for its settings \
                     (DescribeConfigs)"
                );
                Ok(())
            }
        }
    }

    /// Says so where brokers keep the newest dead letter of each pool only.
    pub fn warn_of_compacted_letters(&self, topic: &str, key: &str) {
        if let Some(policy) = self.cleanup_policy(topic).filter(|policy| is_compacted(policy)) {
            tracing::warn!("{}", compacted_letters(topic, key, &policy));
        }
    }

    /// Creates the topics that are missing, with the broker's default replication, and waits until
    /// they can be used.
    ///
    /// # Errors
    /// The broker refuses, or does not answer within the deadline.
    pub fn create(&self, plans: &[TopicPlan]) -> Result<(), KafkaFailure> {
        let mut missing = Vec::new();
        for plan in plans {
            if self.partitions(&plan.name)?.is_none() {
                missing.push(plan);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.ask_to_create(&missing)?;
        missing.iter().try_for_each(|plan| self.await_topic(&plan.name))
    }

    fn ask_to_create(&self, plans: &[&TopicPlan]) -> Result<(), KafkaFailure> {
        let doing = "creating topics";
        let failure = |error| failure_of(doing, &error);
        let tokens = self.connection.tokens()?;
        if tokens.is_some() {
            return Err(KafkaFailure::fatal(format!(
                "{doing}: not with SASL/OAUTHBEARER, whose tokens this client cannot renew; create {} by hand",
                plans.iter().map(|plan| format!("`{}`", plan.name)).collect::<Vec<_>>().join(", ")
            )));
        }
        let admin: AdminClient<Logging> =
            self.connection.admin().create_with_context(Logging::new(tokens)).map_err(failure)?;
        let retention = |plan: &&TopicPlan| Some(plan.compacted_for?.as_millis().to_string());
        let retentions: Vec<Option<String>> = plans.iter().map(retention).collect();
        let topics: Vec<NewTopic<'_>> = plans
            .iter()
            .enumerate()
            .map(|(at, plan)| {
                let partitions = i32::try_from(plan.partitions.get()).unwrap_or(i32::MAX);
                let topic = NewTopic::new(&plan.name, partitions, TopicReplication::Fixed(-1));
                match &retentions[at] {
                    Some(ms) => topic.set("cleanup.policy", "compact,delete").set("retention.ms", ms),
                    None => topic,
                }
            })
            .collect();
        let options = AdminOptions::new().operation_timeout(Some(self.deadline));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|error| KafkaFailure::fatal(format!("{doing}: {error}")))?;
        let results = runtime.block_on(admin.create_topics(&topics, &options)).map_err(failure)?;
        for result in results {
            match result {
                Ok(_) | Err((_, Code::TopicAlreadyExists)) => {}
                Err((topic, code)) => {
                    return Err(KafkaFailure::fatal(format!(
                        "creating topic `{topic}`: {code}; create it by hand, or grant this user the right to"
                    )));
                }
            }
        }
        Ok(())
    }

    fn await_topic(&self, topic: &str) -> Result<(), KafkaFailure> {
        let begin = Instant::now();
        while self.partitions(topic)?.is_none() {
            if begin.elapsed() > self.deadline {
                return Err(KafkaFailure::fatal(format!("topic `{topic}` was created but did not appear")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compacted input lost its requests without a word: 2,400 records became 4.
    #[test]
    fn whatever_compacts_is_known() {
        assert!(["compact", "compact,delete", "delete, compact"].into_iter().all(is_compacted));
        assert!(!["delete", "", "compacted"].into_iter().any(is_compacted));
        let said = compacted("requests", "input.topic", "compact");
        assert!(
            said.contains("`requests` (input.topic)") && said.contains("cleanup.policy=delete"),
            "{said}"
        );
    }
}
