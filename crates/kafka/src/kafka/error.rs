//! rdkafka's errors by what they ask for: the same call again, a new transaction, a new client, or giving up.

use kvset_pipeline::publish::{FailureKind, KafkaFailure};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

/// Reads an rdkafka error; `doing` says what was attempted (`reading topic requests`).
pub(super) fn failure_of(doing: &str, error: &KafkaError) -> KafkaFailure {
    KafkaFailure { kind: kind(error), message: format!("{doing}: {}", describe(error)) }
}

/// The same about a partition that is known to exist: a broker that starts does not know it yet.
pub(super) fn failure_of_known(doing: &str, error: &KafkaError) -> KafkaFailure {
    let failure = failure_of(doing, error);
    match error.rdkafka_error_code() {
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => {
            KafkaFailure { kind: FailureKind::Transient, ..failure }
        }
        _ => failure,
    }
}

/// What the error asks for.
pub(super) fn kind(error: &KafkaError) -> FailureKind {
    if let KafkaError::Transaction(error) = error {
        // Fencing first: librdkafka calls it fatal, but it says that somebody else goes on.
        return match kind_of_code(error.code()) {
            kind @ (FailureKind::Migrated | FailureKind::Spent) => kind,
            // A new transaction would meet it again, for as long as somebody waits.
            _ if is_permanent(error.code()) => FailureKind::Fatal,
            _ if error.txn_requires_abort() => FailureKind::Abortable,
            _ if error.is_retriable() => FailureKind::Transient,
            _ => FailureKind::Fatal,
        };
    }
    match error {
        KafkaError::MessageProduction(Code::State) => FailureKind::Abortable,
        // A member of a group of the new protocol that comes back after a long silence may ask for its place in a way
        // that brokers refuse, and gives up (librdkafka issue 5541).
        KafkaError::MessageConsumptionFatal(Code::InvalidRequest) => FailureKind::Spent,
        KafkaError::MessageConsumptionFatal(code) => match kind_of_code(*code) {
            kind @ (FailureKind::Migrated | FailureKind::Spent) => kind,
            _ => FailureKind::Fatal,
        },
        error => error.rdkafka_error_code().map_or(FailureKind::Fatal, kind_of_code),
    }
}

fn kind_of_code(code: Code) -> FailureKind {
    match code {
        Code::Fenced
        | Code::ProducerFenced
        | Code::InvalidProducerEpoch
        | Code::FencedInstanceId => FailureKind::Migrated,
        Code::QueueFull
        | Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::OperationTimedOut
        | Code::MessageTimedOut
        | Code::TimedOutQueue
        | Code::RequestTimedOut
        | Code::WaitingForCoordinator
        | Code::CoordinatorLoadInProgress
        | Code::CoordinatorNotAvailable
        | Code::NotCoordinator
        | Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::NetworkException
        | Code::ReplicaNotAvailable
        | Code::FencedLeaderEpoch
        | Code::UnknownLeaderEpoch
        | Code::OffsetNotAvailable
        | Code::KafkaStorageError
        | Code::UnstableOffsetCommit
        | Code::NoOffset
        // Too few copies are in reach; an answer that another broker, or the same one a moment later, gives.
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::NotController
        | Code::ListenerNotFound
        | Code::ConcurrentTransactions
        | Code::ThrottlingQuotaExceeded
        // What the client knows of a topic is, for a moment, what a broker that starts knows.
        | Code::UnknownPartition
        // The client forgets a broker that the others no longer name, and with it what it was asked.
        | Code::DestroyBroker
        // Said once when this process did not poll for too long, after a suspension say; the client
        // joins again by itself, and the partitions it lost are distinguished.
        | Code::PollExceeded => FailureKind::Transient,
        // A broker lost sight of the producer, by a crash for example. librdkafka never recovers from it.
        Code::InvalidTransactionalState
        | Code::OutOfOrderSequenceNumber
        | Code::UnknownProducerId
        | Code::InvalidProducerIdMapping => FailureKind::Spent,
        // The brokers of a group of the new protocol keep a name for who had it last: if that process was killed,
        // until its session ends. The client asks once and never again.
        Code::UnreleasedInstanceId => FailureKind::Spent,
        // Only polling, which serves the rebalance, can help: take back, poll, publish again.
        Code::RebalanceInProgress
        | Code::IllegalGeneration
        | Code::UnknownMemberId
        | Code::StaleMemberEpoch
        | Code::FencedMemberEpoch => FailureKind::Abortable,
        _ => FailureKind::Fatal,
    }
}

/// Whether what is turned away with this code always will be, until somebody changes something: a record that is
/// delivered, a partition that is added to a transaction, offsets that are committed. Brokers that start do not know
/// all topics yet, which the client waits out before it says [`Code::UnknownTopic`].
pub(super) fn is_permanent(code: Code) -> bool {
    matches!(
        code,
        Code::UnsupportedCompressionType
            | Code::UnsupportedForMessageFormat
            | Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::MessageSizeTooLarge
            | Code::InvalidMessageSize
            | Code::UnknownTopic
            | Code::PolicyViolation
            | Code::InvalidRecord
            | Code::InvalidTopic
            | Code::InvalidTimestamp
    )
}

/// What to do where no broker answers, by what the client met last while it tried, in its own words.
pub(super) fn unreached(brokers: &str, trouble: Option<&(Code, String)>) -> String {
    let reason = trouble.map_or("", |(_, reason)| reason.as_str());
    if trouble.is_some_and(|(code, _)| *code == Code::Resolve) || reason.contains("resolve") {
        return "correct the host's name in kafka.brokers (or KVSET__KAFKA__BROKERS), or the name service of this \
                machine"
            .to_owned();
    }
    // The client's own guess, of a listener that hangs up on plain text.
    if reason.contains("security.protocol") || reason.contains("SSL listener") {
        return "something listens there that does not speak plain Kafka: a listener with TLS wants \
                \"security.protocol\" = \"ssl\" or \"sasl_ssl\" under [kafka.properties], one with SASL alone \
                \"sasl_plaintext\""
            .to_owned();
    }
    let is_here = ["localhost", "127.", "[::1]"].iter().any(|host| brokers.trim_start().starts_with(host));
    let start =
        "start a broker there (docker compose up --detach --wait kafka starts one on localhost:9092), or ";
    format!(
        "{}name yours in kafka.brokers or in the environment as KVSET__KAFKA__BROKERS{}",
        if is_here { start } else { "" },
        if is_here { "" } else { ", and see that the network lets this machine through to it" }
    )
}

/// Why a read failed, if it is the records' fault: reading again comes to nothing else.
pub(super) fn unreadable(error: &KafkaError) -> Option<&'static str> {
    let KafkaError::MessageConsumption(code) = error else { return None };
    match code {
        Code::BadMessage | Code::InvalidMessage | Code::InvalidMessageSize => {
            Some("the checksum of its batch is wrong, or its batch is no batch")
        }
        Code::BadCompression => Some(
            "its batch cannot be decompressed, or is larger than receive.message.max.bytes when it is; raise that \
             under kafka.properties to read one that is merely large",
        ),
        Code::MessageSizeTooLarge => Some(
            "its batch is larger than the client takes; raise receive.message.max.bytes under kafka.properties",
        ),
        Code::NotImplemented => {
            Some("its batch has a compression or a format version that the client does not know")
        }
        _ => None,
    }
}

/// The error in words. Values of client properties are left out: they may be secrets.
pub(super) fn describe(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, key, _) => format!(
            "the client refuses property `{key}`: check its name and value under kafka.properties (and whether \
             this build has the feature it needs)"
        ),
        KafkaError::Transaction(error) => {
            format!("{} ({}){}", error.string(), error.name(), advice(error.code()))
        }
        error => match error.rdkafka_error_code() {
            Some(code) => format!("{code}{}", advice(code)),
            None => error.to_string(),
        },
    }
}

/// What an operator can do about the common ones.
fn advice(code: Code) -> &'static str {
    match code {
        Code::UnknownTopicOrPartition | Code::UnknownTopic => {
            "; create the topic or correct its name in the configuration"
        }
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed => {
            "; grant this user access (ACLs) to the topic and the group"
        }
        Code::TransactionalIdAuthorizationFailed => {
            "; grant this user the transactional id, or set output.delivery = \"idempotent\""
        }
        Code::SaslAuthenticationFailed | Code::Authentication => {
            "; check sasl.username, sasl.password and sasl.mechanisms under kafka.properties"
        }
        Code::SSL => {
            "; check ssl.ca.location under kafka.properties, the broker's certificate, and that this listener speaks TLS"
        }
        Code::UnsupportedCompressionType => {
            "; these brokers do not take the compression: set \"compression.type\" = \"none\" under kafka.properties \
             (Azure Event Hubs takes none and gzip)"
        }
        Code::ClusterAuthorizationFailed => "; grant this user IdempotentWrite on the cluster (ACLs)",
        Code::PolicyViolation => "; a policy of the brokers forbids it: ask who runs them",
        Code::InvalidRecord | Code::InvalidTimestamp => {
            "; the output topic's settings refuse it: see its message.timestamp.type and cleanup.policy"
        }
        Code::UnsupportedForMessageFormat => {
            "; the output topic has an old message format: raise it to 2.8 or later"
        }
        Code::FencedInstanceId => {
            "; another process joined the group under this kafka.instance: give every process a name of its own"
        }
        Code::UnreleasedInstanceId => {
            "; another process is in the group under this kafka.instance, or was killed a moment ago: give every \
             process a name of its own"
        }
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => {
            "; another process runs under this kafka.instance, or this one stood still for longer than its \
             transaction may stay open: give every process a name of its own, and start this one again"
        }
        Code::AutoOffsetReset => {
            "; the offset requested is no longer in the log: restart, so that state.lost_history decides"
        }
        Code::AllBrokersDown | Code::BrokerTransportFailure | Code::Resolve => {
            "; check kafka.brokers and the network"
        }
        Code::MessageSizeTooLarge | Code::InvalidMessageSize => {
            "; raise max.message.bytes of the topic, or write less: output.detail = \"summary\", fewer capacities"
        }
        Code::InvalidTopic => "; correct the topic's name in the configuration",
        Code::UnsupportedVersion | Code::UnsupportedFeature => {
            "; the broker lacks this: with brokers that have no transactions set output.delivery = \"idempotent\""
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_kinds_decide_recovery() {
        use KafkaError::{Flush, MessageConsumption, MessageConsumptionFatal, MessageProduction};
        for (error, expected) in [
            (MessageProduction(Code::QueueFull), FailureKind::Transient),
            (MessageProduction(Code::State), FailureKind::Abortable),
            (MessageProduction(Code::MessageSizeTooLarge), FailureKind::Fatal),
            (Flush(Code::OperationTimedOut), FailureKind::Transient),
            (MessageConsumption(Code::AllBrokersDown), FailureKind::Transient),
            (MessageConsumption(Code::PollExceeded), FailureKind::Transient),
            (KafkaError::ConsumerCommit(Code::InvalidTransactionalState), FailureKind::Spent),
            (MessageConsumption(Code::UnknownTopicOrPartition), FailureKind::Fatal),
            (MessageConsumption(Code::AutoOffsetReset), FailureKind::Fatal),
            (MessageConsumptionFatal(Code::FencedInstanceId), FailureKind::Migrated),
            (MessageConsumptionFatal(Code::BrokerTransportFailure), FailureKind::Fatal),
            (MessageConsumptionFatal(Code::UnreleasedInstanceId), FailureKind::Spent),
            (MessageConsumptionFatal(Code::InvalidRequest), FailureKind::Spent),
            (MessageConsumption(Code::InvalidRequest), FailureKind::Fatal),
            (KafkaError::ConsumerCommit(Code::IllegalGeneration), FailureKind::Abortable),
            (KafkaError::ConsumerCommit(Code::StaleMemberEpoch), FailureKind::Abortable),
            (KafkaError::ConsumerCommit(Code::UnknownMemberId), FailureKind::Abortable),
        ] {
            assert_eq!(kind(&error), expected, "{error:?}");
        }
    }

    /// A name that does not resolve, or a listener with TLS, was to be cured by `docker compose up`.
    #[test]
    fn the_cure_of_brokers_that_do_not_answer_is_that_of_the_cause() {
        let advice = |brokers, code, reason: &str| unreached(brokers, Some(&(code, reason.to_owned())));
        let name = advice("nohost:9092", Code::Resolve, "Failed to resolve 'nohost:9092'");
        assert!(name.contains("host's name") && !name.contains("docker"), "{name}");
        let hint = "Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol \
                    configuration (connecting to a SSL listener?)";
        let tls = advice("localhost:9093", Code::BrokerTransportFailure, hint);
        assert!(tls.contains("\"sasl_ssl\"") && !tls.contains("docker"), "{tls}");
        let far = advice("kafka.example:9092", Code::BrokerTransportFailure, "Connection refused");
        assert!(far.contains("KVSET__KAFKA__BROKERS") && !far.contains("docker"), "{far}");
        assert!(unreached("localhost:9092", None).contains("docker compose up"));
    }

    #[test]
    fn what_brokers_turn_away_for_good_has_a_cure() {
        for code in [
            Code::UnsupportedCompressionType,
            Code::ClusterAuthorizationFailed,
            Code::TopicAuthorizationFailed,
            Code::PolicyViolation,
            Code::InvalidRecord,
            Code::InvalidTimestamp,
            Code::InvalidTopic,
            Code::GroupAuthorizationFailed,
            Code::TransactionalIdAuthorizationFailed,
            Code::MessageSizeTooLarge,
            Code::InvalidMessageSize,
            Code::UnknownTopic,
            Code::UnsupportedForMessageFormat,
        ] {
            assert!(is_permanent(code) && !advice(code).is_empty(), "{code:?}");
        }
        for code in
            [Code::PurgeQueue, Code::PurgeInflight, Code::MessageTimedOut, Code::NotLeaderForPartition]
        {
            assert!(!is_permanent(code), "{code:?}");
        }
    }

    #[test]
    fn a_broker_that_the_cluster_has_given_up_is_a_passing_trouble() {
        for code in [Code::DestroyBroker, Code::NotEnoughReplicas, Code::NotEnoughReplicasAfterAppend] {
            assert_eq!(kind(&KafkaError::MetadataFetch(code)), FailureKind::Transient, "{code:?}");
        }
    }

    #[test]
    fn a_partition_that_a_starting_broker_does_not_know_yet_is_a_passing_trouble() {
        for code in [Code::UnknownPartition, Code::UnknownTopicOrPartition] {
            let failure = failure_of_known("reading the log range", &KafkaError::MetadataFetch(code));
            assert_eq!(failure.kind, FailureKind::Transient, "{failure}");
        }
    }

    #[test]
    fn a_refused_property_does_not_show_its_value() {
        let error = rdkafka::ClientConfig::new()
            .set("sasl.mechanisms", "hunter2-secret")
            .set("security.protocol", "hunter2-secret")
            .create_native_config()
            .err()
            .expect("not a protocol");
        let failure = failure_of("connecting", &error);
        assert!(!failure.message.contains("hunter2"), "{failure}");
        assert!(
            failure.message.contains("security.protocol") || failure.message.contains("sasl"),
            "{failure}"
        );
    }
}
