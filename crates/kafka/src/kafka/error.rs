//! rdkafka's errors in the families that decide recovery (EXAMPLES: migrated, transient, fatal).

use kvset_pipeline::publish::{Family, OutletError};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

/// A failed call to Kafka, with what it was about and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KafkaFailure {
    /// What it asks for.
    pub family: Family,
    /// What failed, where and what to do, in lowercase.
    pub message: String,
}

impl KafkaFailure {
    /// A failure that no repetition can mend.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { family: Family::Fatal, message: message.into() }
    }

    /// Reads an rdkafka error; `doing` says what was attempted (`reading topic requests`).
    pub(super) fn of(doing: &str, error: &KafkaError) -> Self {
        Self { family: family(error), message: format!("{doing}: {}", describe(error)) }
    }
}

impl From<KafkaFailure> for OutletError {
    fn from(failure: KafkaFailure) -> Self {
        Self { family: failure.family, message: failure.message }
    }
}

/// What the error asks for.
pub(super) fn family(error: &KafkaError) -> Family {
    if let KafkaError::Transaction(error) = error {
        // Fencing first: librdkafka calls it fatal, but it says that somebody else goes on.
        return match family_of_code(error.code()) {
            family @ (Family::Migrated | Family::Spent) => family,
            _ if error.txn_requires_abort() => Family::Abortable,
            _ if error.is_retriable() => Family::Transient,
            _ => Family::Fatal,
        };
    }
    match error {
        KafkaError::MessageProduction(Code::State) => Family::Abortable,
        KafkaError::MessageConsumptionFatal(code) => match family_of_code(*code) {
            Family::Migrated => Family::Migrated,
            _ => Family::Fatal,
        },
        error => error.rdkafka_error_code().map_or(Family::Fatal, family_of_code),
    }
}

fn family_of_code(code: Code) -> Family {
    match code {
        Code::Fenced
        | Code::ProducerFenced
        | Code::InvalidProducerEpoch
        | Code::FencedInstanceId
        | Code::FencedMemberEpoch => Family::Migrated,
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
        // Said once when this process did not poll for too long, after a suspension say; the client
        // joins again by itself, and the partitions it lost are told apart.
        | Code::PollExceeded => Family::Transient,
        // A broker lost sight of the producer, by a crash for example. librdkafka never recovers from it.
        Code::InvalidTransactionalState
        | Code::OutOfOrderSequenceNumber
        | Code::UnknownProducerId
        | Code::InvalidProducerIdMapping => Family::Spent,
        // Only polling, which serves the rebalance, can help: take back, poll, publish again.
        Code::RebalanceInProgress | Code::IllegalGeneration | Code::UnknownMemberId => Family::Abortable,
        _ => Family::Fatal,
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
        Code::SSL => "; check ssl.ca.location under kafka.properties, and the broker's certificate",
        Code::FencedInstanceId => {
            "; another process joined the group under this kafka.instance: give every process a name of its own"
        }
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => {
            "; another process runs under this kafka.instance, or this one stood still for longer than its \
             transaction may stay open: give every process a name of its own, and start this one again"
        }
        Code::AutoOffsetReset => {
            "; the offset asked for is no longer in the log: restart, so that state.lost_history decides"
        }
        Code::AllBrokersDown | Code::BrokerTransportFailure | Code::Resolve => {
            "; check kafka.brokers and the network"
        }
        Code::MessageSizeTooLarge => "; raise max.message.bytes of the output topics",
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
    fn families_decide_recovery() {
        use KafkaError::{Flush, MessageConsumption, MessageConsumptionFatal, MessageProduction};
        for (error, expected) in [
            (MessageProduction(Code::QueueFull), Family::Transient),
            (MessageProduction(Code::State), Family::Abortable),
            (MessageProduction(Code::MessageSizeTooLarge), Family::Fatal),
            (Flush(Code::OperationTimedOut), Family::Transient),
            (MessageConsumption(Code::AllBrokersDown), Family::Transient),
            (MessageConsumption(Code::PollExceeded), Family::Transient),
            (KafkaError::ConsumerCommit(Code::InvalidTransactionalState), Family::Spent),
            (MessageConsumption(Code::UnknownTopicOrPartition), Family::Fatal),
            (MessageConsumption(Code::AutoOffsetReset), Family::Fatal),
            (MessageConsumptionFatal(Code::FencedInstanceId), Family::Migrated),
            (MessageConsumptionFatal(Code::BrokerTransportFailure), Family::Fatal),
            (KafkaError::ConsumerCommit(Code::IllegalGeneration), Family::Abortable),
        ] {
            assert_eq!(family(&error), expected, "{error:?}");
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
        let failure = KafkaFailure::of("connecting", &error);
        assert!(!failure.message.contains("hunter2"), "{failure}");
        assert!(
            failure.message.contains("security.protocol") || failure.message.contains("sasl"),
            "{failure}"
        );
    }
}
